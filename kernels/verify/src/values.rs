//! Sets of values of one type, by ordinals.
//!
//! A value is its bits, in the low bytes of a u64. Its ordinal is its place among the values of its type: an integer's is the integer,
//! and neighbouring floating-point numbers have neighbouring ordinals: 0 for +0, -1 for -0, the bits for other positive numbers. NaN has
//! no ordinal.

use std::cmp::Ordering;

use accelerd_ir::{Dtype, scalar::Literal};

use crate::domain::{Bound, Domain, InputError};

/// The values of a type whose ordinals are in a range, and NaN if it is allowed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Values {
    dtype: Dtype,
    low: i128,
    high: i128,
    nan: bool,
}

impl Values {
    pub(crate) fn new(dtype: Dtype, domain: &Domain) -> Result<Self, InputError> {
        if !dtype.is_float() && (domain.allow_nan || domain.allow_infinity) {
            return Err(InputError::NotFloat(dtype));
        }
        let (mut low, mut high) = finite_range(dtype);
        if domain.allow_infinity {
            (low, high) = (low - 1, high + 1);
        }
        if let Some(bound) = domain.lower {
            low = lower_ordinal(dtype, bound)?;
        }
        if let Some(bound) = domain.upper {
            high = upper_ordinal(dtype, bound)?;
        }
        match (domain.lower, domain.upper) {
            (Some(lower), Some(upper)) if low > high => Err(InputError::Empty { dtype, lower, upper }),
            _ => Ok(Self { dtype, low, high, nan: domain.allow_nan }),
        }
    }

    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The smallest ordinal.
    pub(crate) fn low(&self) -> i128 {
        self.low
    }

    /// The largest ordinal.
    pub(crate) fn high(&self) -> i128 {
        self.high
    }

    /// Number of ordinals, at most 2^64.
    pub(crate) fn count(&self) -> u128 {
        (self.high - self.low).unsigned_abs() + 1
    }

    pub(crate) fn contains(&self, value: u64) -> bool {
        ordinal(self.dtype, value).map_or(self.nan, |place| self.low <= place && place <= self.high)
    }

    /// The value, if it is in the set.
    pub(crate) fn checked(&self, value: u64) -> Option<u64> {
        self.contains(value).then_some(value)
    }

    /// The value with this ordinal, if it is in the set.
    pub(crate) fn at(&self, place: i128) -> Option<u64> {
        (self.low <= place && place <= self.high).then(|| from_ordinal(self.dtype, place))
    }

    /// The value of the set that is nearest to this ordinal.
    pub(crate) fn clamped(&self, place: i128) -> u64 {
        from_ordinal(self.dtype, place.clamp(self.low, self.high))
    }

    /// The integer, rounded to a floating-point type, if it is in the set.
    pub(crate) fn integer(&self, value: i128) -> Option<u64> {
        if self.dtype.is_float() { self.number(value as f64) } else { self.at(value) }
    }

    /// The number, rounded to a floating-point type or truncated to an integer, if it is in the set.
    pub(crate) fn number(&self, value: f64) -> Option<u64> {
        if self.dtype.is_float() {
            return self.checked(rounded(self.dtype, value));
        }
        #[expect(clippy::cast_possible_truncation, reason = "saturates, and no such number is in the set")]
        self.at(value as i128)
    }

    /// A value of another type, if its conversion is in the set.
    pub(crate) fn converted(&self, value: Literal) -> Option<u64> {
        let is_rounded = value.dtype() != self.dtype && value.dtype().is_float() && self.dtype.is_float();
        self.checked(if is_rounded { rounded(self.dtype, value.as_f64()) } else { value.cast(self.dtype).bits() })
    }

    /// Returns true if NaN is in the set.
    pub(crate) fn allows_nan(&self) -> bool {
        self.nan
    }

    /// The value `distance` ordinals from another, if it is in the set.
    pub(crate) fn neighbour(&self, value: u64, distance: i128) -> Option<u64> {
        self.at(ordinal(self.dtype, value)? + distance)
    }

    /// The bounds as numbers; infinite ones are the largest finite numbers.
    pub(crate) fn finite_bounds(&self) -> (f64, f64) {
        let (min, max) = finite_range(self.dtype);
        let number = |place: i128| as_f64(self.dtype, from_ordinal(self.dtype, place.clamp(min, max)));
        (number(self.low), number(self.high))
    }

    /// The values of a column. A rest that is no whole element is left out.
    pub(crate) fn decode<'a>(&self, column: &'a [u8]) -> impl Iterator<Item = u64> + use<'a> {
        let dtype = self.dtype;
        column.chunks_exact(dtype.size()).map(move |bytes| {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            Literal::from_bits(dtype, u64::from_le_bytes(whole)).bits()
        })
    }

    /// Appends a value to a column.
    pub(crate) fn encode(&self, value: u64, column: &mut Vec<u8>) {
        let bytes = value.to_le_bytes();
        match self.dtype.size() {
            1 => column.push(bytes[0]),
            2 => column.extend_from_slice(&bytes[..2]),
            4 => column.extend_from_slice(&bytes[..4]),
            _ => column.extend_from_slice(&bytes),
        }
    }
}

/// The ordinals of the smallest and the largest finite value of a type.
pub(crate) fn finite_range(dtype: Dtype) -> (i128, i128) {
    let bits = 8 * dtype.size();
    if dtype == Dtype::Bool {
        (0, 1)
    } else if dtype.is_float() {
        let infinity = i128::from(infinity(dtype));
        (-infinity, infinity - 1)
    } else if dtype.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

/// The bits of infinity.
pub(crate) fn infinity(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F16 => 0x7c00,
        Dtype::Bf16 => 0x7f80,
        Dtype::F32 => 0x7f80_0000,
        Dtype::F64
        | Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64 => 0x7ff0_0000_0000_0000,
    }
}

/// The quiet NaN without sign and payload.
pub(crate) fn quiet_nan(dtype: Dtype) -> u64 {
    let infinity = infinity(dtype);
    infinity | (infinity & infinity.wrapping_neg()) >> 1
}

/// A number rounded to a floating-point type. NaN has neither sign nor payload, so that it is the same on every processor.
fn rounded(dtype: Dtype, value: f64) -> u64 {
    if value.is_nan() { quiet_nan(dtype) } else { Literal::from_f64(dtype, value).bits() }
}

fn sign_bit(dtype: Dtype) -> u64 {
    1 << (8 * dtype.size() - 1)
}

/// The ordinal of a value, or `None` for NaN.
pub(crate) fn ordinal(dtype: Dtype, value: u64) -> Option<i128> {
    if !dtype.is_float() {
        return Some(integer_of(dtype, value));
    }
    let sign = sign_bit(dtype);
    let magnitude = value & (sign - 1);
    if magnitude > infinity(dtype) {
        return None;
    }
    Some(if value & sign == 0 { magnitude.into() } else { -1 - i128::from(magnitude) })
}

/// The value with an ordinal of its type.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an ordinal is that of a value of the type"
)]
pub(crate) fn from_ordinal(dtype: Dtype, place: i128) -> u64 {
    if !dtype.is_float() {
        Literal::from_bits(dtype, place as u64).bits()
    } else if place < 0 {
        sign_bit(dtype) | (-1 - place) as u64
    } else {
        place as u64
    }
}

/// The value of an integer or bool.
pub(crate) fn integer_of(dtype: Dtype, value: u64) -> i128 {
    if dtype == Dtype::U64 { value.into() } else { Literal::from_bits(dtype, value).as_i64().into() }
}

/// The value as a number, rounded if it is an integer beyond 2^53.
pub(crate) fn as_f64(dtype: Dtype, value: u64) -> f64 {
    Literal::from_bits(dtype, value).as_f64()
}

/// The smallest ordinal of a number that is not below the bound; zeros are equal.
fn lower_ordinal(dtype: Dtype, bound: Bound) -> Result<i128, InputError> {
    let (place, number) = nearest(dtype, bound)?;
    match compare(number, bound) {
        _ if !dtype.is_float() => Ok(place),
        Ordering::Less => in_range(dtype, bound, place + 1),
        Ordering::Equal if number == 0.0 => Ok(-1),
        Ordering::Equal | Ordering::Greater => Ok(place),
    }
}

/// The largest ordinal of a number that is not above the bound; zeros are equal.
fn upper_ordinal(dtype: Dtype, bound: Bound) -> Result<i128, InputError> {
    let (place, number) = nearest(dtype, bound)?;
    match compare(number, bound) {
        _ if !dtype.is_float() => Ok(place),
        Ordering::Greater => in_range(dtype, bound, place - 1),
        Ordering::Equal if number == 0.0 => Ok(0),
        Ordering::Equal | Ordering::Less => Ok(place),
    }
}

fn in_range(dtype: Dtype, bound: Bound, place: i128) -> Result<i128, InputError> {
    let (min, max) = finite_range(dtype);
    if place < min || max < place { Err(InputError::OutOfRange { dtype, got: bound }) } else { Ok(place) }
}

/// The ordinal and the number of the value that is nearest to a bound; those of an integer are exact.
fn nearest(dtype: Dtype, bound: Bound) -> Result<(i128, f64), InputError> {
    check(dtype, bound)?;
    #[expect(clippy::cast_possible_truncation, reason = "saturates beyond the range of any type")]
    let place = match bound {
        Bound::Integer(integer) if !dtype.is_float() => i128::from(integer),
        Bound::Float(number) if !dtype.is_float() => number as i128,
        Bound::Integer(integer) => float_ordinal(dtype, Literal::from_i64(dtype, integer)),
        Bound::Float(number) => float_ordinal(dtype, Literal::from_f64(dtype, number)),
    };
    let place = in_range(dtype, bound, place)?;
    Ok((place, as_f64(dtype, from_ordinal(dtype, place))))
}

fn check(dtype: Dtype, bound: Bound) -> Result<(), InputError> {
    match bound {
        Bound::Float(number) if !number.is_finite() => Err(InputError::NotFinite(number)),
        Bound::Float(number) if !dtype.is_float() && number.fract() != 0.0 => {
            Err(InputError::NotAnInteger { dtype, got: number })
        }
        Bound::Integer(_) | Bound::Float(_) => Ok(()),
    }
}

fn float_ordinal(dtype: Dtype, literal: Literal) -> i128 {
    ordinal(dtype, literal.bits()).expect("a finite number is rounded to a number")
}

/// Compares the value nearest to a bound with the bound, exactly. That of an integer is an integer.
fn compare(number: f64, bound: Bound) -> Ordering {
    #[expect(clippy::cast_possible_truncation, reason = "an integer of at most 2^63")]
    match bound {
        Bound::Integer(integer) => (number as i128).cmp(&integer.into()),
        Bound::Float(bound) => number.total_cmp(&bound),
    }
}
