//! Conditions of a request, checked.

use accelerd_proto::v1::{self, condition, value::Kind};

use super::{Condition, Range, Test};
use crate::{error::CollectionError, index::Number};

pub(super) fn parse(path: &str, condition: &v1::Condition) -> Result<Condition, CollectionError> {
    if condition.field.is_empty() {
        return Err(CollectionError::invalid(format!("{path}.field"), "expected the name of a field, got none"));
    }
    let test = match &condition.test {
        None => {
            return Err(CollectionError::invalid(path, "expected equals, any_of, range or number_range, got none"));
        }
        Some(condition::Test::Equals(value)) => Test::AnyOf(vec![kind(&format!("{path}.equals"), value)?]),
        Some(condition::Test::AnyOf(set)) => any_of(&format!("{path}.any_of"), set)?,
        Some(condition::Test::Range(range)) => Test::Range(double_range(&format!("{path}.range"), range)?),
        Some(condition::Test::NumberRange(range)) => Test::Range(number_range(&format!("{path}.number_range"), range)?),
    };
    Ok(Condition { field: condition.field.clone(), test })
}

fn any_of(path: &str, set: &v1::ValueSet) -> Result<Test, CollectionError> {
    let values = set.values.iter().enumerate().map(|(i, value)| kind(&format!("{path}.values[{i}]"), value));
    Ok(Test::AnyOf(values.collect::<Result<_, _>>()?))
}

fn kind(path: &str, value: &v1::Value) -> Result<Kind, CollectionError> {
    match &value.kind {
        None => Err(CollectionError::invalid(path, "expected a value, got none")),
        Some(Kind::DoubleValue(value)) if value.is_nan() => {
            Err(CollectionError::invalid(path, "expected a number, got NaN"))
        }
        Some(kind) => Ok(kind.clone()),
    }
}

fn double_range(path: &str, range: &v1::Range) -> Result<Range, CollectionError> {
    let number = |bound: Option<f64>| bound.map(|bound| double(path, bound)).transpose();
    parse_range(path, [number(range.gt)?, number(range.gte)?, number(range.lt)?, number(range.lte)?])
}

fn number_range(path: &str, range: &v1::NumberRange) -> Result<Range, CollectionError> {
    let number = |name: &str, bound: &Option<v1::Value>| {
        let path = format!("{path}.{name}");
        let kind = bound.as_ref().map(|value| value.kind.as_ref());
        match kind {
            None => Ok(None),
            Some(Some(Kind::IntValue(bound))) => Ok(Some(Number::from(*bound))),
            Some(Some(Kind::DoubleValue(bound))) => double(&path, *bound).map(Some),
            Some(Some(Kind::StringValue(_) | Kind::BoolValue(_)) | None) => {
                Err(CollectionError::invalid(path, "expected an integer or a double"))
            }
        }
    };
    let gt = number("gt", &range.gt)?;
    let gte = number("gte", &range.gte)?;
    let lt = number("lt", &range.lt)?;
    let lte = number("lte", &range.lte)?;
    parse_range(path, [gt, gte, lt, lte])
}

fn double(path: &str, bound: f64) -> Result<Number, CollectionError> {
    if bound.is_nan() {
        return Err(CollectionError::invalid(path, "expected a number, got NaN"));
    }
    Ok(Number::from(bound))
}

/// The range of bounds, of which at most one on each side is set.
fn parse_range(path: &str, [gt, gte, lt, lte]: [Option<Number>; 4]) -> Result<Range, CollectionError> {
    let bound = |exclusive: Option<Number>, inclusive: Option<Number>, names: &str| match (exclusive, inclusive) {
        (Some(_), Some(_)) => Err(CollectionError::invalid(path, format!("expected one of {names}, got both"))),
        (Some(bound), None) => Ok(Some((bound, false))),
        (None, Some(bound)) => Ok(Some((bound, true))),
        (None, None) => Ok(None),
    };
    Ok(Range { low: bound(gt, gte, "gt and gte")?, high: bound(lt, lte, "lt and lte")? })
}
