//! Functions that native snippets call: those of C's library, intrinsics of CUDA and of the compiler for the CPU, and Warp's own.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{AtomicOp, Expr};
use accelerd_ir::scalar::{BinaryOp, UnaryOp};

use crate::error::Lowered;
use crate::lowerer::Lowerer;
use crate::types::Type;
use crate::values::scalars;
use crate::values::{Data, Storage, Value};
use crate::warp::builtins;
use crate::warp::native::Snippet;
use crate::warp::native::expressions::promoted;
use crate::warp::native::operands::{Operand, Place, described};
use crate::warp::native::tokens::SYNCHRONIZATION;
use crate::warp::operators::c_common;

impl Lowerer<'_> {
    pub(super) fn native_call(&mut self, s: &Snippet<'_>, name: &str, arguments: Vec<Operand>) -> Lowered<Operand> {
        if SYNCHRONIZATION.contains(&name) {
            return Ok(Operand::Nothing);
        }
        match (name, &arguments[..]) {
            ("wp::address", [Operand::Array(view), ..]) => return self.native_address(s, view.clone(), arguments),
            ("memcpy" | "std::memcpy", [Operand::Address(to), Operand::Address(from), _]) => {
                return self.native_copy(s, to.clone(), from.clone(), arguments);
            }
            (_, [Operand::Address(place), _]) if let Some(op) = atomic(name) => {
                return self.native_atomic(s, name, op, place.clone(), arguments);
            }
            _ => {}
        }
        let mut values = vec![];
        for argument in arguments {
            if !matches!(argument, Operand::Value(_) | Operand::Place(_)) {
                return Err(self.native_error(s, format!("`{name}` does not take {}", described(&argument))));
            }
            values.push(self.native_value(s, argument)?);
        }
        let result = self.native_function(s, name, values)?;
        result.map(Operand::Value).ok_or_else(|| self.native_error(s, format!("unsupported function `{name}`")))
    }

    /// `wp::address(array, i, ...)`. Negative indices count from the end.
    fn native_address(
        &mut self,
        s: &Snippet<'_>,
        view: crate::values::View,
        arguments: Vec<Operand>,
    ) -> Lowered<Operand> {
        let mut indices = vec![];
        for (argument, dim) in arguments.into_iter().skip(1).zip(view.open()) {
            let (dtype, index) = self.native_scalar(s, argument)?;
            let (index, to) = Self::index_of(dtype, index);
            let index = self.emitter.bind(to, index);
            indices.push((to, if dtype.is_signed() { self.wrapped_index(&view, dim, to, index) } else { index }));
        }
        match self.native_element(s, view, indices)? {
            Operand::Place(place) => Ok(Operand::Address(place)),
            other => Ok(other),
        }
    }

    /// `memcpy` of a scalar.
    fn native_copy(
        &mut self,
        s: &Snippet<'_>,
        to: Place,
        from: Place,
        mut arguments: Vec<Operand>,
    ) -> Lowered<Operand> {
        let (_, size) = self.native_scalar(s, arguments.pop().expect("three"))?;
        let copied = match (&size, &to.location.ty) {
            (Expr::Literal(size), Type::Scalar(dtype)) if size.bits() == dtype.size() as u64 => *dtype,
            _ => return Err(self.native_error(s, "expected `memcpy` of the size of a scalar")),
        };
        let data = self.native_value(s, Operand::Place(from))?;
        let data = self.native_bits(s, data, copied)?;
        self.native_assign(s, &Place { bits: None, ..to }, Operand::Value(data))?;
        Ok(Operand::Nothing)
    }

    /// An atomic function of CUDA; the result is the previous value.
    fn native_atomic(
        &mut self,
        s: &Snippet<'_>,
        name: &str,
        op: AtomicOp,
        place: Place,
        mut arguments: Vec<Operand>,
    ) -> Lowered<Operand> {
        let operand = arguments.pop().expect("two");
        let operand = self.native_value(s, operand)?;
        let operand = self.native_converted(s, operand, &place.location.ty)?;
        let has_op = |dtype: Dtype| dtype.is_integer() || matches!(op, AtomicOp::Add | AtomicOp::Exchange);
        let is_known = matches!(place.location.ty, Type::Scalar(dtype) if op.takes(dtype) && has_op(dtype));
        let is_element = matches!(place.location.storage, Storage::Element { .. }) && place.location.index.is_none();
        if !is_known || !is_element || place.bits.is_some() {
            return Err(self.native_error(s, format!("unsupported operand of `{name}`")));
        }
        let previous = self.atomic(op, &place.location, operand.parts, None, true);
        Ok(Operand::Value(Data::new(place.location.ty, previous)))
    }

    /// The result of a function of values; `None` if there is no such function.
    fn native_function(&mut self, s: &Snippet<'_>, name: &str, values: Vec<Data>) -> Lowered<Option<Data>> {
        if let Some(name) = name.strip_prefix("wp::") {
            let is_known = builtins::is_known(name);
            return Ok(is_known.then(|| self.warp_builtin(name, values)).flatten().and_then(data));
        }
        let name = name.strip_prefix("std::").unwrap_or(name);
        if let [value] = &values[..]
            && let Some((from, to)) = bits(name)
        {
            let value = self.native_converted(s, value.clone(), &Type::Scalar(from))?;
            return self.native_bits(s, value, to).map(Some);
        }
        if let ([value], Some((function, dtype))) = (&values[..], of_bits(name)) {
            let value = self.native_converted(s, value.clone(), &Type::Scalar(dtype))?;
            return Ok(self.native_bit_function(function, dtype, value));
        }
        self.native_math(s, name, values)
    }

    /// The number of bits that are set, or the position of one.
    fn native_bit_function(&mut self, function: &str, dtype: Dtype, value: Data) -> Option<Data> {
        let value = self.bind(value);
        let [x] = <[Expr; 1]>::try_from(value.parts).ok()?;
        let count = |this: &mut Self, bits| {
            let result = this.warp_builtin("bit_count", vec![Data::scalar(dtype, bits)]);
            let (_, count) = data(result?)?.as_scalar().map(|(dtype, part)| (dtype, part.clone()))?;
            Some(count)
        };
        let result = match function {
            "popcount" => count(self, x)?,
            "clz" => {
                let size = if dtype == Dtype::U64 { 64 } else { 32 };
                let mut filled = x;
                for bits in [1, 2, 4, 8, 16, 32].into_iter().filter(|bits| *bits < size) {
                    let shifted = scalars::binary(BinaryOp::Shr, dtype, filled.clone(), scalars::integer(dtype, bits));
                    filled = self.emitter.temp(dtype, scalars::binary(BinaryOp::Or, dtype, filled, shifted));
                }
                scalars::sub(Dtype::I32, scalars::integer(Dtype::I32, size), count(self, filled)?)
            }
            // The bits below the lowest one that is set; all of 0.
            _ => {
                let below = scalars::sub(dtype, x.clone(), scalars::integer(dtype, 1));
                let below =
                    scalars::binary(BinaryOp::And, dtype, scalars::unary(UnaryOp::Not, dtype, x.clone()), below);
                let position = count(self, below)?;
                let zero = scalars::eq(dtype, x, scalars::integer(dtype, 0));
                let first = scalars::add(Dtype::I32, position.clone(), scalars::integer(Dtype::I32, 1));
                if function == "ctz" { position } else { scalars::select(zero, scalars::integer(Dtype::I32, 0), first) }
            }
        };
        Some(Data::scalar(Dtype::I32, result))
    }

    /// A function of floating-point numbers. Its name has the suffix `f` for float32; else the arguments determine the type.
    fn native_math(&mut self, s: &Snippet<'_>, name: &str, values: Vec<Data>) -> Lowered<Option<Data>> {
        let name = name.strip_prefix("__builtin_").unwrap_or(name);
        let (function, is_single) = match name.strip_suffix('f') {
            Some(name) if math(name).is_some_and(|(_, is_of_integers)| !is_of_integers) => (name, true),
            _ => (name, false),
        };
        let Some((function, is_of_integers)) = math(function) else { return Ok(None) };
        let types: Option<Vec<_>> = values.iter().map(|data| data.as_scalar().map(|(dtype, _)| dtype)).collect();
        let common = types
            .and_then(|types| types.into_iter().map(|dtype| Some(promoted(dtype))).reduce(|a, b| c_common(a?, b?))?);
        let dtype = match common {
            _ if is_single => Dtype::F32,
            Some(dtype) if dtype.is_float() || is_of_integers => dtype,
            Some(_) => Dtype::F64,
            None => return Ok(None),
        };
        let values = values.into_iter().map(|data| self.native_converted(s, data, &Type::Scalar(dtype)));
        let values = values.collect::<Lowered<Vec<_>>>()?;
        if function == "nextafter" {
            return Ok(self.next_after(dtype, values));
        }
        Ok(self.warp_builtin(function, values).and_then(data))
    }

    /// The next number after the first in the direction of the second: its neighbour in the order of bits.
    fn next_after(&mut self, dtype: Dtype, values: Vec<Data>) -> Option<Data> {
        let [x, y] = <[Data; 2]>::try_from(values).ok()?.map(|data| self.bind(data).parts[0].clone());
        let integer = if dtype == Dtype::F64 { Dtype::I64 } else { Dtype::I32 };
        let zero = scalars::literal(dtype, 0.0);
        let bits = Expr::Bitcast(integer, Box::new(self.emitter.temp(dtype, x.clone())));
        let bits = self.emitter.temp_of_any_sign(integer, bits);
        let is_below = scalars::lt(dtype, x.clone(), y.clone());
        let is_positive = scalars::lt(dtype, zero.clone(), x.clone());
        let is_away = scalars::eq(Dtype::Bool, is_below, is_positive);
        let step = scalars::select(is_away, scalars::integer(integer, 1), scalars::integer(integer, -1));
        let neighbour = self.emitter.temp_of_any_sign(integer, scalars::add(integer, bits, step));
        let least = self.emitter.temp(dtype, Expr::Bitcast(dtype, Box::new(scalars::integer(integer, 1))));
        let least = scalars::binary(BinaryOp::CopySign, dtype, least, y.clone());
        let neighbour = Expr::Bitcast(dtype, Box::new(neighbour));
        let moved = scalars::select(scalars::eq(dtype, x.clone(), zero), least, neighbour);
        let is_nan = scalars::or(
            scalars::test(UnaryOp::IsNan, dtype, x.clone()),
            scalars::test(UnaryOp::IsNan, dtype, y.clone()),
        );
        let result = scalars::select(scalars::eq(dtype, x.clone(), y.clone()), y.clone(), moved);
        Some(Data::scalar(dtype, scalars::select(is_nan, scalars::add(dtype, x, y), result)))
    }
}

fn data(value: Value) -> Option<Data> {
    match value {
        Value::Data(data) => Some(data),
        _ => None,
    }
}

/// The types of a function that reads bits as another type.
fn bits(name: &str) -> Option<(Dtype, Dtype)> {
    Some(match name {
        "__float_as_int" => (Dtype::F32, Dtype::I32),
        "__float_as_uint" => (Dtype::F32, Dtype::U32),
        "__int_as_float" => (Dtype::I32, Dtype::F32),
        "__uint_as_float" => (Dtype::U32, Dtype::F32),
        "__double_as_longlong" => (Dtype::F64, Dtype::I64),
        "__longlong_as_double" => (Dtype::I64, Dtype::F64),
        _ => return None,
    })
}

/// A function of the bits of an integer, and the type that it takes.
fn of_bits(name: &str) -> Option<(&'static str, Dtype)> {
    let name = name.strip_prefix("__builtin_").or_else(|| name.strip_prefix("__"))?;
    Some(match name {
        "popcount" | "popc" => ("popcount", Dtype::U32),
        "popcountl" | "popcountll" | "popcll" => ("popcount", Dtype::U64),
        "ffs" => ("ffs", Dtype::U32),
        "ffsl" | "ffsll" => ("ffs", Dtype::U64),
        "ctz" => ("ctz", Dtype::U32),
        "ctzl" | "ctzll" => ("ctz", Dtype::U64),
        "clz" => ("clz", Dtype::U32),
        "clzl" | "clzll" => ("clz", Dtype::U64),
        _ => return None,
    })
}

/// Warp's name of a function of C's library, and whether integers have one of their own.
fn math(name: &str) -> Option<(&str, bool)> {
    Some(match name {
        "abs" | "max" | "min" => (name, true),
        "fabs" | "fmax" | "fmin" => (&name[1..], false),
        "atan" | "atan2" | "ceil" | "copysign" | "cos" | "exp" | "floor" | "isfinite" | "isinf" | "isnan" | "log"
        | "log2" | "nextafter" | "pow" | "rint" | "round" | "sin" | "sqrt" | "tan" | "trunc" => (name, false),
        _ => return None,
    })
}

fn atomic(name: &str) -> Option<AtomicOp> {
    Some(match name {
        "atomicAdd" => AtomicOp::Add,
        "atomicMin" => AtomicOp::Min,
        "atomicMax" => AtomicOp::Max,
        "atomicAnd" => AtomicOp::And,
        "atomicOr" => AtomicOp::Or,
        "atomicXor" => AtomicOp::Xor,
        "atomicExch" => AtomicOp::Exchange,
        _ => return None,
    })
}
