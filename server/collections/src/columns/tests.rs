//! Columns against the messages that they are made from.

use accelerd_proto::v1::value::Kind;
use prost::Message as _;

use super::*;

fn signed(point: usize) -> i64 {
    i64::try_from(point).expect("tests have few points")
}

fn ints(values: &[i64]) -> Wire {
    Wire::Ints(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// Points of which every third has no `n`, and every seventh has a double instead of an integer.
fn columns(points: usize) -> (PayloadColumns, Vec<v1::Payload>) {
    let payload = |point: usize| {
        let number = if point.is_multiple_of(7) {
            Kind::DoubleValue(point as f64 / 2.0)
        } else {
            Kind::IntValue(-signed(point))
        };
        let text = Kind::StringValue(["", "größe", "rust"][point % 3].into());
        let fields =
            [("n", Some(number)), ("lang", Some(text)), ("ok", Some(Kind::BoolValue(point.is_multiple_of(2))))];
        let there = |(name, kind): (&str, Option<Kind>)| {
            (name != "n" || !point.is_multiple_of(3)).then(|| (name.into(), v1::Value { kind }))
        };
        v1::Payload { fields: fields.into_iter().filter_map(there).collect() }
    };
    let payloads: Vec<_> = (0..points).map(payload).collect();
    let wire = payload_columns(payloads.iter()).expect("few fields");
    (PayloadColumns::parse("at", &wire, points).expect("they are well-formed"), payloads)
}

#[test]
fn columns_are_encoded_like_the_messages_they_came_from() {
    for points in [0, 1, 7, 8, 9, 63, 64, 65, 500] {
        let (columns, payloads) = columns(points);
        let encoded = columns.encoded();
        assert_eq!(encoded.len(), points);
        for (point, (bytes, payload)) in encoded.iter().zip(&payloads).enumerate() {
            assert_eq!(v1::Payload::decode(bytes.clone()).as_ref(), Ok(payload), "point {point} of {points}");
            assert_eq!((bytes.len(), columns.encoded_len(point)), (payload.encoded_len(), payload.encoded_len()));
        }
    }
}

#[test]
fn too_many_distinct_fields_are_rejected() {
    let value = v1::Value { kind: Some(Kind::BoolValue(true)) };
    let payload = |point: usize| v1::Payload { fields: [(point.to_string(), value.clone())].into() };
    let payloads: Vec<_> = (0..30_000).map(payload).collect();
    let error =
        payload_columns(payloads.iter()).expect_err("30,000 columns of 30,000 points exceed the limit").to_string();
    assert!(error.starts_with("columns: "), "{error}");
    assert!(payload_columns(payloads[..1000].iter()).is_ok());
}

#[test]
fn a_value_is_found_after_any_number_of_missing_ones() {
    let present = |point: usize| point % 5 == 2 || point > 190;
    let mut presence = vec![0; 25];
    (0..200).filter(|&point| present(point)).for_each(|point| presence[point / 8] |= 1 << (point % 8));
    let values: Vec<_> = (0..200).filter(|&point| present(point)).map(signed).collect();
    let column = v1::PayloadColumn { name: "f".into(), presence: presence.into(), values: Some(ints(&values)) };
    let columns = v1::PayloadColumns { columns: vec![column] };
    let columns = PayloadColumns::parse("at", &columns, 200).expect("they are well-formed");
    for point in 0..200 {
        assert_eq!(columns.columns()[0].get(point), present(point).then_some(Cell::Int(signed(point))));
    }
}
