//! Conditions against single payloads, and errors of those that are malformed.

use accelerd_proto::v1::condition;

use super::*;
use crate::payload::{Payloads, tests::payload};

fn value(kind: Kind) -> v1::Value {
    v1::Value { kind: Some(kind) }
}

fn matches(test: condition::Test, field: Kind) -> bool {
    let condition = v1::Condition { field: "f".into(), test: Some(test) };
    let filter = v1::Filter { must: vec![condition], ..v1::Filter::default() };
    let filter = Filter::parse("filter", &filter).expect("it is well-formed");
    let mut payloads = Payloads::new();
    payloads.push(&payload(&[("e", Kind::IntValue(0)), ("f", field)]));
    ResolvedFilter::new(&filter, &payloads).matches(&payloads, 0)
}

fn range(gt: Option<f64>, gte: Option<f64>, lt: Option<f64>, lte: Option<f64>) -> condition::Test {
    condition::Test::Range(v1::Range { gt, gte, lt, lte })
}

#[test]
fn only_integers_and_doubles_are_equal_across_types() {
    let equals = |kind| condition::Test::Equals(value(kind));
    assert!(matches(equals(Kind::DoubleValue(3.0)), Kind::IntValue(3)));
    assert!(matches(equals(Kind::IntValue(3)), Kind::DoubleValue(3.0)));
    assert!(!matches(equals(Kind::IntValue(1)), Kind::BoolValue(true)));
    assert!(!matches(equals(Kind::StringValue("3".into())), Kind::IntValue(3)));
    assert!(matches(equals(Kind::StringValue("a".into())), Kind::StringValue("a".into())));
    assert!(!matches(equals(Kind::StringValue("b".into())), Kind::StringValue("a".into())));
    let two = vec![value(Kind::IntValue(9)), value(Kind::StringValue("a".into()))];
    assert!(matches(condition::Test::AnyOf(v1::ValueSet { values: two }), Kind::StringValue("a".into())));
}

#[test]
fn ranges_compare_large_integers_exactly() {
    let big = 9_007_199_254_740_993; // 2^53 + 1, which no double represents
    assert!(matches(range(Some(9_007_199_254_740_992.0), None, None, None), Kind::IntValue(big)));
    assert!(matches(range(None, None, Some(9_007_199_254_740_994.0), None), Kind::IntValue(big)));
    assert!(matches(range(None, Some(3.0), None, Some(3.0)), Kind::IntValue(3)));
    assert!(!matches(range(Some(3.0), None, None, None), Kind::IntValue(3)));
    assert!(matches(range(Some(-0.5), None, Some(0.5), None), Kind::IntValue(0)));
    assert!(!matches(range(None, None, Some(-0.5), None), Kind::IntValue(0)));
    assert!(matches(range(None, Some(f64::NEG_INFINITY), None, Some(f64::INFINITY)), Kind::IntValue(i64::MAX)));
    assert!(!matches(range(None, None, None, None), Kind::StringValue("1".into())));
}

#[test]
fn integer_bounds_are_not_rounded() {
    /// A time in nanoseconds: doubles near it are 256 apart.
    const TIME: i64 = 1_764_000_000_123_456_789;
    let bound = |bound: i64| Some(value(Kind::IntValue(bound)));
    let number_range = |range: v1::NumberRange| condition::Test::NumberRange(range);
    let none = v1::NumberRange::default;
    let after = |from| number_range(v1::NumberRange { gte: bound(from), ..none() });
    assert!(matches(after(TIME), Kind::IntValue(TIME)));
    assert!(!matches(after(TIME + 1), Kind::IntValue(TIME)));
    let between = |from, to| number_range(v1::NumberRange { gt: bound(from), lt: bound(to), ..none() });
    assert!(matches(between(TIME - 1, TIME + 1), Kind::IntValue(TIME)));
    assert!(!matches(between(TIME, TIME + 1), Kind::IntValue(TIME)));
    assert!(!matches(between(TIME - 1, TIME), Kind::IntValue(TIME)));
    let most = number_range(v1::NumberRange { gt: bound(i64::MAX - 1), ..none() });
    assert!(matches(most.clone(), Kind::IntValue(i64::MAX)));
    assert!(!matches(most, Kind::IntValue(i64::MAX - 1)));
    let whole = 9_007_199_254_740_992.0; // 2^53
    let above = number_range(v1::NumberRange { gte: bound(9_007_199_254_740_993), ..none() });
    assert!(!matches(above, Kind::DoubleValue(whole)));
    let mixed = v1::NumberRange { gte: bound(3), lt: Some(value(Kind::DoubleValue(3.5))), ..none() };
    assert!(matches(number_range(mixed.clone()), Kind::DoubleValue(3.25)));
    assert!(!matches(number_range(mixed), Kind::DoubleValue(3.5)));
    assert!(!matches(number_range(none()), Kind::BoolValue(true)));
}

#[test]
fn lists_that_are_given_and_empty_match_nothing() {
    let empty = condition::Test::AnyOf(v1::ValueSet { values: vec![] });
    assert!(!matches(empty.clone(), Kind::IntValue(1)));
    let condition = v1::Condition { field: "f".into(), test: Some(empty) };
    let none_of = v1::Filter { must_not: vec![condition], ..v1::Filter::default() };
    let none_of = Filter::parse("filter", &none_of).expect("it is well-formed");
    let mut payloads = Payloads::new();
    payloads.push(&payload(&[("f", Kind::IntValue(1))]));
    assert!(ResolvedFilter::new(&none_of, &payloads).matches(&payloads, 0), "it equals none of no values");
    let no_ids = v1::Filter { ids: Some(v1::PointIds::default()), ..v1::Filter::default() };
    let no_ids = Filter::parse("filter", &no_ids).expect("it is well-formed");
    assert!(!no_ids.is_empty());
    assert_eq!(no_ids.only_ids().map(Ids::len), Some(0));
    assert!(Filter::parse("filter", &v1::Filter::default()).expect("it is well-formed").is_empty());
}

#[test]
fn a_missing_field_matches_neither_must_nor_must_not() {
    let condition = |field: &str| v1::Condition {
        field: field.into(),
        test: Some(condition::Test::Equals(value(Kind::IntValue(1)))),
    };
    let mut payloads = Payloads::new();
    payloads.push(&payload(&[("f", Kind::IntValue(1))]));
    let matches = |must: &[&str], must_not: &[&str]| {
        let list = |names: &[&str]| names.iter().map(|name| condition(name)).collect();
        let filter = v1::Filter { ids: None, must: list(must), must_not: list(must_not) };
        let filter = Filter::parse("filter", &filter).expect("it is well-formed");
        ResolvedFilter::new(&filter, &payloads).matches(&payloads, 0)
    };
    assert!(matches(&["f"], &["g"]));
    assert!(!matches(&["f", "g"], &[]));
    assert!(!matches(&[], &["f"]));
}

#[test]
fn errors_of_a_filter_name_the_field() {
    let bad = |condition: v1::Condition| {
        let filter = v1::Filter { must_not: vec![condition], ..v1::Filter::default() };
        Filter::parse("filter", &filter).expect_err("it is not well-formed").to_string()
    };
    let with = |test| bad(v1::Condition { field: "f".into(), test });
    assert!(bad(v1::Condition::default()).starts_with("filter.must_not[0].field: "));
    assert!(with(None).starts_with("filter.must_not[0]: "));
    assert!(with(Some(range(Some(f64::NAN), None, None, None))).starts_with("filter.must_not[0].range: "));
    assert!(with(Some(range(Some(1.0), Some(1.0), None, None))).contains("got both"));
    let number_range = |gt: Kind, gte: Option<Kind>| {
        let gt = Some(value(gt));
        let gte = gte.map(value);
        Some(condition::Test::NumberRange(v1::NumberRange { gt, gte, ..v1::NumberRange::default() }))
    };
    let nan = with(number_range(Kind::DoubleValue(f64::NAN), None));
    assert!(nan.starts_with("filter.must_not[0].number_range.gt: "), "{nan}");
    let text = with(number_range(Kind::StringValue("1".into()), None));
    assert!(text.ends_with("expected an integer or a double"), "{text}");
    let none = v1::NumberRange { lte: Some(v1::Value { kind: None }), ..v1::NumberRange::default() };
    let none = with(Some(condition::Test::NumberRange(none)));
    assert!(none.starts_with("filter.must_not[0].number_range.lte: "), "{none}");
    assert!(with(number_range(Kind::IntValue(1), Some(Kind::IntValue(1)))).contains("got both"));
}
