//! Operands of a native snippet, and C's types and conversions of them.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;

use crate::error::Lowered;
use crate::lowerer::Lowerer;
use crate::types::{self, Type};
use crate::values::scalars;
use crate::values::{Data, Location, View};
use crate::warp::native::Snippet;
use crate::warp::native::tokens::Token;

/// The meaning of an expression of C++.
#[derive(Clone)]
pub(super) enum Operand {
    Value(Data),
    /// A variable, component or element, which may be assigned.
    Place(Place),
    Address(Place),
    Array(View),
    /// The first element of an array.
    Pointer(View),
    /// The extents of an array.
    Shape(View),
    /// A variable with members of other types.
    Union(Place, Vec<(String, Dtype)>),
    Nothing,
}

/// A location, which is read as bits of another type if there is one.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) location: Location,
    pub(super) bits: Option<Dtype>,
}

/// The name of what an operand is, for a message.
pub(super) fn described(operand: &Operand) -> &'static str {
    match operand {
        Operand::Value(_) | Operand::Place(_) => "a value",
        Operand::Address(_) => "an address",
        Operand::Array(_) => "an array",
        Operand::Pointer(_) => "the address of an array",
        Operand::Shape(_) => "a shape",
        Operand::Union(..) => "a union",
        Operand::Nothing => "no value",
    }
}

/// Passes the type at the next token, without `*` and `&` after it: a scalar, or `auto`.
#[expect(clippy::option_option, reason = "the outer one is whether there is a type")]
pub(super) fn ty(s: &mut Snippet<'_>) -> Option<Option<Dtype>> {
    let start = s.at;
    let mut words = vec![];
    while let Some(Token::Word(word)) = s.next() {
        let name = word.strip_prefix("std::").or_else(|| word.strip_prefix("wp::")).unwrap_or(word);
        match name {
            "const" | "constexpr" | "volatile" => {}
            "unsigned" | "signed" | "long" | "int" | "short" | "char" | "bool" | "float" | "double" | "auto"
            | "size_t" | "int8_t" | "int16_t" | "int32_t" | "int64_t" | "uint8_t" | "uint16_t" | "uint32_t"
            | "uint64_t" | "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64"
            | "float32" | "float64" => {
                words.push(name);
            }
            _ => break,
        }
        s.at += 1;
    }
    let found = scalar(&words);
    if found.is_none() {
        s.at = start;
    }
    found
}

#[expect(clippy::option_option, reason = "the inner one is absent for `auto`")]
fn scalar(words: &[&str]) -> Option<Option<Dtype>> {
    let is_unsigned = words.contains(&"unsigned");
    let plain: Vec<_> = words.iter().copied().filter(|word| !matches!(*word, "unsigned" | "signed" | "int")).collect();
    Some(Some(match (plain.as_slice(), is_unsigned) {
        ([], _) if words.is_empty() => return None,
        ([], false) | (["int32_t" | "int32"], _) => Dtype::I32,
        ([], true) | (["uint32_t" | "uint32"], _) => Dtype::U32,
        (["long"] | ["long", "long"], false) | (["int64_t" | "int64"], _) => Dtype::I64,
        (["long"] | ["long", "long"], true) | (["uint64_t" | "uint64" | "size_t"], _) => Dtype::U64,
        (["short"], false) | (["int16_t" | "int16"], _) => Dtype::I16,
        (["short"], true) | (["uint16_t" | "uint16"], _) => Dtype::U16,
        (["char"], false) | (["int8_t" | "int8"], _) => Dtype::I8,
        (["char"], true) | (["uint8_t" | "uint8"], _) => Dtype::U8,
        (["bool"], _) => Dtype::Bool,
        (["float" | "float32"], _) => Dtype::F32,
        (["double" | "float64"], _) => Dtype::F64,
        (["auto"], _) => return Some(None),
        _ => return None,
    }))
}

impl Lowerer<'_> {
    /// The value of an operand.
    pub(super) fn native_value(&mut self, s: &Snippet<'_>, operand: Operand) -> Lowered<Data> {
        match operand {
            Operand::Value(data) => Ok(data),
            Operand::Place(Place { location, bits }) => {
                let data = self.read(location);
                match bits {
                    Some(dtype) => self.native_bits(s, data, dtype),
                    None => Ok(data),
                }
            }
            other => Err(self.native_error(s, format!("expected a value, got {}", described(&other)))),
        }
    }

    /// The value of an operand that is a scalar.
    pub(super) fn native_scalar(&mut self, s: &Snippet<'_>, operand: Operand) -> Lowered<(Dtype, Expr)> {
        let data = self.native_value(s, operand)?;
        let Type::Scalar(dtype) = data.ty else {
            return Err(self.native_error(s, format!("expected a scalar, got {}", data.ty)));
        };
        Ok((dtype, data.parts.into_iter().next().expect("a scalar has a part")))
    }

    /// A value as C converts it to a type.
    pub(super) fn native_converted(&self, s: &Snippet<'_>, data: Data, ty: &Type) -> Lowered<Data> {
        match (&data.ty, ty) {
            (from, to) if from == to => Ok(data),
            (Type::Scalar(from), Type::Scalar(to)) if from.compute() == *from && to.compute() == *to => {
                Ok(Data::scalar(*to, scalars::cast(*from, *to, data.parts[0].clone())))
            }
            (from, to) => Err(self.native_error(s, format!("expected {to}, got {from}"))),
        }
    }

    /// The bits of a scalar as those of another type of its size.
    pub(super) fn native_bits(&mut self, s: &Snippet<'_>, data: Data, to: Dtype) -> Lowered<Data> {
        match data.as_scalar() {
            Some((from, _)) if from == to => Ok(data),
            Some((from, part)) if from.size() == to.size() && from != Dtype::Bool && to != Dtype::Bool => {
                let part = self.emitter.bind(from, part.clone());
                Ok(Data::scalar(to, Expr::Bitcast(to, Box::new(part))))
            }
            _ => {
                let to = types::name(to);
                Err(self.native_error(s, format!("expected a type of equal size to reinterpret {} as {to}", data.ty)))
            }
        }
    }

    /// Assigns to a place, and returns the value that it has then.
    pub(super) fn native_assign(&mut self, s: &Snippet<'_>, place: &Place, value: Operand) -> Lowered<Data> {
        let data = self.native_value(s, value)?;
        let ty = place.bits.map_or_else(|| place.location.ty.clone(), Type::Scalar);
        let data = self.native_converted(s, data, &ty)?;
        let data = self.bind(data);
        let stored = match (place.bits, place.location.ty.scalar()) {
            (Some(_), Some(dtype)) => self.native_bits(s, data.clone(), dtype)?,
            _ => data.clone(),
        };
        self.write(s.node, place.location.clone(), stored)?;
        Ok(data)
    }
}
