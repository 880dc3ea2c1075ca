//! Functions of Warp that compute with scalars and components.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;
use accelerd_ir::scalar::{BinaryOp, UnaryOp};
use accelerd_parser::Operator;

use crate::lowerer::Lowerer;
use crate::types::Type;
use crate::values::constants::adapted;
use crate::values::scalars::{self, literal};
use crate::values::{Data, Value};
use crate::warp::operators::{negated, unified};
use crate::warp::vectors::{from_vectors, of_two_vectors};

/// The functions that [`Lowerer::warp_builtin`] has besides operations of the table in `accelerd-ir`.
const COMPOSITES: [&str; 73] = [
    "abs",
    "add",
    "argmax",
    "argmin",
    "bit_and",
    "bit_count",
    "bit_or",
    "bit_xor",
    "clamp",
    "cross",
    "cw_div",
    "cw_mul",
    "ddot",
    "degrees",
    "determinant",
    "diag",
    "div",
    "dot",
    "floordiv",
    "frac",
    "get_diag",
    "inverse",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "length",
    "length_sq",
    "lerp",
    "lshift",
    "matrix_from_cols",
    "matrix_from_rows",
    "max",
    "min",
    "mod",
    "mul",
    "neg",
    "nonzero",
    "normalize",
    "outer",
    "pos",
    "pow",
    "quat_from_axis_angle",
    "quat_from_matrix",
    "quat_inverse",
    "quat_rotate",
    "quat_rotate_inv",
    "quat_rpy",
    "quat_slerp",
    "quat_to_axis_angle",
    "quat_to_matrix",
    "radians",
    "round",
    "rshift",
    "sign",
    "skew",
    "smoothstep",
    "step",
    "sub",
    "trace",
    "transform_get_rotation",
    "transform_get_translation",
    "transform_inverse",
    "transform_multiply",
    "transform_point",
    "transform_vector",
    "transpose",
    "unot",
    "spatial_top",
    "spatial_bottom",
    "copy",
    "spatial_dot",
    "spatial_cross",
];

/// Returns true if a function of this name is implemented.
pub(crate) fn is_known(name: &str) -> bool {
    UnaryOp::of_warp(name).is_some() || BinaryOp::of_warp(name).is_some() || COMPOSITES.contains(&name)
}

impl Lowerer<'_> {
    /// The result of a function; `None` if it does not take the arguments.
    pub(crate) fn warp_builtin(&mut self, name: &str, arguments: Vec<Data>) -> Option<Value> {
        let arguments = same_scalars(arguments);
        if let Some(op) = operator(name) {
            let [left, right] = <[Data; 2]>::try_from(arguments).ok()?;
            return self.warp_operation(op, left, right).map(Value::Data);
        }
        if let Some(op) = UnaryOp::of_warp(name) {
            let [Data { ty: Type::Scalar(dtype), parts, .. }] = &arguments[..] else { return None };
            let dtype = *dtype;
            return dtype.is_float().then(|| self.function_of_scalar(op, dtype, parts[0].clone()).into());
        }
        let bound: Vec<_> = arguments.into_iter().map(|data| self.bind(data)).collect();
        if name == "quat_to_axis_angle" {
            return self.quat_to_axis_angle(&bound);
        }
        let result = match &bound[..] {
            [a] => self.of_one(name, a),
            [a, b] => self.of_two(name, a, b),
            [a, b, c] => self.of_three(name, a, b, c),
            _ => None,
        };
        result.or_else(|| from_vectors(name, &bound)).map(Value::Data)
    }

    /// An operation of the table. Warp moves the operand of an inverse sine or cosine to its domain, which NaN is moved to as well.
    fn function_of_scalar(&mut self, op: UnaryOp, dtype: Dtype, x: Expr) -> Data {
        let x = if matches!(op, UnaryOp::Asin | UnaryOp::Acos) {
            let x = self.emitter.bind(dtype, x);
            self.clamp(dtype, x, literal(dtype, -1.0), literal(dtype, 1.0))
        } else {
            x
        };
        Data::scalar(dtype, scalars::unary(op, dtype, x))
    }

    fn of_one(&mut self, name: &str, a: &Data) -> Option<Data> {
        let dtype = a.ty.scalar()?;
        let componentwise = matches!(a.ty, Type::Scalar(_) | Type::Vector(..)) && dtype != Dtype::Bool;
        let is_scalar = matches!(a.ty, Type::Scalar(_));
        match name {
            "copy" | "pos" => Some(a.clone().without_constant()),
            "neg" if dtype != Dtype::Bool => Some(a.map(|x| negated(&a.ty, dtype, x))),
            "invert" if dtype.is_integer() => Some(a.map(|x| scalars::unary(UnaryOp::Not, dtype, x))),
            "unot" if is_scalar => {
                Some(Data::scalar(Dtype::Bool, scalars::not(scalars::truthy(dtype, a.parts[0].clone()))))
            }
            "abs" if componentwise => Some(a.map(|x| absolute(dtype, x))),
            "sign" if componentwise => Some(a.map(|x| sign(dtype, x))),
            "min" | "max" if matches!(a.ty, Type::Vector(..)) => {
                let mut parts = a.parts.iter().cloned();
                let first = parts.next()?;
                let result = parts.fold(first, |best, x| {
                    let best = self.emitter.bind(dtype, best);
                    extremum(name == "min", dtype, best, x)
                });
                Some(Data::scalar(dtype, result))
            }
            "argmin" | "argmax" if matches!(a.ty, Type::Vector(..)) => Some(self.position(name == "argmin", dtype, a)),
            "isnan" | "isinf" | "isfinite" if dtype.is_float() => {
                let parts = a.parts.iter().cloned();
                let result = match name {
                    "isnan" => scalars::any(parts.map(|x| scalars::test(UnaryOp::IsNan, dtype, x))),
                    "isinf" => scalars::any(parts.map(|x| scalars::test(UnaryOp::IsInf, dtype, x))),
                    _ => scalars::all(parts.map(|x| is_finite(dtype, x))),
                };
                Some(Data::scalar(Dtype::Bool, result))
            }
            _ if is_scalar => self.of_scalar(name, dtype, a.parts[0].clone()),
            _ => self.of_vector(name, a).or_else(|| self.of_rotation(name, a)),
        }
    }

    fn of_scalar(&mut self, name: &str, dtype: Dtype, x: Expr) -> Option<Data> {
        let zero = || literal(dtype, 0.0);
        let is_number = dtype != Dtype::Bool;
        let result = match name {
            "step" if is_number => scalars::select(scalars::lt(dtype, x, zero()), literal(dtype, 1.0), zero()),
            "nonzero" if is_number => scalars::select(scalars::eq(dtype, x, zero()), zero(), literal(dtype, 1.0)),
            "degrees" if dtype.is_float() => in_f64(dtype, x, 57.295_779_513_082_32),
            "radians" if dtype.is_float() => in_f64(dtype, x, 0.017_453_292_519_943_295),
            "frac" if dtype.is_float() => scalars::sub(dtype, x.clone(), scalars::unary(UnaryOp::Trunc, dtype, x)),
            "round" if dtype.is_float() => self.round_half_away(dtype, x),
            "bit_count" if dtype.is_integer() => return Some(Data::scalar(Dtype::I32, self.bit_count(dtype, x))),
            _ => return None,
        };
        Some(Data::scalar(dtype, result))
    }

    fn of_two(&mut self, name: &str, a: &Data, b: &Data) -> Option<Data> {
        let dtype = a.ty.scalar().filter(|dtype| Some(*dtype) == b.ty.scalar())?;
        let pairs = || a.parts.iter().cloned().zip(b.parts.iter().cloned());
        let is_same = a.ty == b.ty;
        let is_vector = matches!(a.ty, Type::Vector(..));
        let is_scalar = matches!(a.ty, Type::Scalar(_));
        match name {
            "min" | "max" if is_same && (is_vector || is_scalar) && dtype != Dtype::Bool => {
                let parts = pairs().map(|(x, y)| extremum(name == "min", dtype, x, y)).collect();
                Some(Data::new(a.ty.clone(), parts))
            }
            _ if let Some(op) = BinaryOp::of_warp(name) => {
                let is_taken = is_same && is_scalar && dtype.is_float();
                let (x, y) = pairs().next()?;
                is_taken.then(|| Data::scalar(dtype, scalars::binary(op, dtype, x, y)))
            }
            "cw_mul" | "cw_div" if is_same && matches!(a.ty, Type::Vector(..) | Type::Matrix(..)) => {
                let op = if name == "cw_mul" { BinaryOp::Mul } else { BinaryOp::Div };
                let parts = pairs().map(|(x, y)| scalars::binary(op, dtype, x, y)).collect();
                Some(Data::new(a.ty.clone(), parts))
            }
            "dot" if is_same && matches!(a.ty, Type::Vector(..) | Type::Quat(_)) => {
                Some(Data::scalar(dtype, scalars::dot(dtype, &a.parts, &b.parts)))
            }
            "ddot" if is_same && matches!(a.ty, Type::Matrix(..)) => {
                Some(Data::scalar(dtype, scalars::dot(dtype, &a.parts, &b.parts)))
            }
            _ => of_two_vectors(name, a, b).or_else(|| self.of_two_rotations(name, a, b)),
        }
    }

    fn of_three(&mut self, name: &str, a: &Data, b: &Data, c: &Data) -> Option<Data> {
        let dtype = a.ty.scalar()?;
        if b.ty.scalar() != Some(dtype) || c.ty.scalar() != Some(dtype) || dtype == Dtype::Bool {
            return None;
        }
        let is_scalar = a.ty == Type::Scalar(dtype) && a.ty == b.ty;
        match name {
            "clamp" if is_scalar && a.ty == c.ty => {
                let [x, low, high] = [a, b, c].map(|data| data.parts[0].clone());
                Some(Data::scalar(dtype, self.clamp(dtype, x, low, high)))
            }
            "lerp" if a.ty == b.ty && dtype.is_float() && c.ty == Type::Scalar(dtype) => {
                let t = c.parts[0].clone();
                let rest = scalars::sub(dtype, literal(dtype, 1.0), t.clone());
                let rest = self.emitter.bind(dtype, rest);
                let parts = a.parts.iter().zip(&b.parts).map(|(x, y)| {
                    let first = scalars::mul(dtype, x.clone(), rest.clone());
                    scalars::add(dtype, first, scalars::mul(dtype, y.clone(), t.clone()))
                });
                Some(Data::new(a.ty.clone(), parts.collect()))
            }
            "smoothstep" if is_scalar && a.ty == c.ty && dtype.is_float() => {
                let [low, high, x] = [a, b, c].map(|data| data.parts[0].clone());
                let span = scalars::sub(dtype, high, low.clone());
                let x = scalars::div(dtype, scalars::sub(dtype, x, low), span);
                let x = self.emitter.bind(dtype, x);
                let x = self.clamp(dtype, x, literal(dtype, 0.0), literal(dtype, 1.0));
                let x = self.emitter.bind(dtype, x);
                let square = scalars::mul(dtype, x.clone(), x.clone());
                let twice = scalars::mul(dtype, literal(dtype, 2.0), x);
                let result = scalars::mul(dtype, square, scalars::sub(dtype, literal(dtype, 3.0), twice));
                Some(Data::scalar(dtype, result))
            }
            _ => self.of_three_rotations(name, a, b, c),
        }
    }

    fn clamp(&mut self, dtype: Dtype, x: Expr, low: Expr, high: Expr) -> Expr {
        let least = extremum(false, dtype, low, x);
        let least = self.emitter.bind(dtype, least);
        let high = self.emitter.bind(dtype, high);
        extremum(true, dtype, least, high)
    }

    /// The nearest integer, ties away from zero.
    fn round_half_away(&mut self, dtype: Dtype, x: Expr) -> Expr {
        let whole = scalars::unary(UnaryOp::Trunc, dtype, x.clone());
        let whole = self.emitter.bind(dtype, whole);
        let rest = scalars::unary(UnaryOp::Abs, dtype, scalars::sub(dtype, x.clone(), whole.clone()));
        let one = scalars::binary(BinaryOp::CopySign, dtype, literal(dtype, 1.0), x);
        let is_away = scalars::le(dtype, literal(dtype, 0.5), rest);
        scalars::select(is_away, scalars::add(dtype, whole.clone(), one), whole)
    }

    /// The number of bits that are set: sums of bits in pairs, fours and bytes.
    fn bit_count(&mut self, dtype: Dtype, x: Expr) -> Expr {
        // The sign is not extended.
        let unsigned = match dtype.size() {
            1 => Dtype::U8,
            2 => Dtype::U16,
            4 => Dtype::U32,
            _ => Dtype::U64,
        };
        let wide = Dtype::U64;
        let mut x = scalars::cast(unsigned, wide, scalars::cast(dtype, unsigned, x));
        let constant = |value: i64| scalars::integer(wide, value);
        let and = |a, mask: i64| scalars::binary(BinaryOp::And, wide, a, constant(mask));
        let shift = |a, bits| scalars::binary(BinaryOp::Shr, wide, a, constant(bits));
        for (mask, bits) in [
            (0x5555_5555_5555_5555, 1),
            (0x3333_3333_3333_3333, 2),
            (0x0f0f_0f0f_0f0f_0f0f, 4),
            (0x00ff_00ff_00ff_00ff, 8),
            (0x0000_ffff_0000_ffff, 16),
            (0x0000_0000_ffff_ffff, 32),
        ] {
            let known = self.emitter.bind(wide, x);
            x = scalars::add(wide, and(known.clone(), mask), and(shift(known, bits), mask));
        }
        scalars::cast(wide, Dtype::I32, x)
    }

    /// The position of the least or greatest component that is not NaN; 0 if all are.
    fn position(&mut self, is_least: bool, dtype: Dtype, a: &Data) -> Data {
        let is_nan = |x: &Expr| {
            if dtype.is_float() { scalars::test(UnaryOp::IsNan, dtype, x.clone()) } else { scalars::truth(false) }
        };
        let index =
            |position: usize| scalars::integer(Dtype::U32, i64::try_from(position).expect("components are limited"));
        let mut best = a.parts[0].clone();
        let mut place = index(0);
        for (position, part) in a.parts.iter().enumerate().skip(1) {
            let (lesser, greater) = if is_least { (part, &best) } else { (&best, part) };
            let is_better = scalars::lt(dtype, lesser.clone(), greater.clone());
            let is_first = scalars::and(is_nan(&best), scalars::not(is_nan(part)));
            let is_better = self.emitter.bind(Dtype::Bool, scalars::or(is_better, is_first));
            let next = scalars::select(is_better.clone(), part.clone(), best);
            let next_place = scalars::select(is_better, index(position), place);
            (best, place) = (self.emitter.bind(dtype, next), self.emitter.bind(Dtype::U32, next_place));
        }
        Data::scalar(Dtype::U32, place)
    }
}

/// The arguments with one scalar type, where constants can take it.
fn same_scalars(arguments: Vec<Data>) -> Vec<Data> {
    let is_written = |data: &Data| data.constant.is_some();
    let Some(dtype) = arguments.iter().find(|data| !is_written(data)).and_then(|data| data.ty.scalar()) else {
        return arguments;
    };
    let adapt = |data: Data| adapted(&data, dtype).unwrap_or(data);
    if arguments.len() == 2 {
        let [left, right] = <[Data; 2]>::try_from(arguments).expect("two");
        return match unified(left.clone(), right.clone()) {
            Some((left, right)) => vec![left, right],
            None => vec![left, right],
        };
    }
    arguments.into_iter().map(adapt).collect()
}

fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "add" => Operator::Add,
        "sub" => Operator::Sub,
        "mul" => Operator::Mult,
        "div" => Operator::Div,
        "mod" => Operator::Mod,
        "floordiv" => Operator::FloorDiv,
        "pow" => Operator::Pow,
        "lshift" => Operator::LShift,
        "rshift" => Operator::RShift,
        "bit_and" => Operator::BitAnd,
        "bit_or" => Operator::BitOr,
        "bit_xor" => Operator::BitXor,
        _ => return None,
    })
}

fn absolute(dtype: Dtype, x: Expr) -> Expr {
    if dtype.is_signed() { scalars::unary(UnaryOp::Abs, dtype, x) } else { x }
}

/// -1 for numbers below 0, else 1, for 0 too.
fn sign(dtype: Dtype, x: Expr) -> Expr {
    let one = literal(dtype, 1.0);
    if !dtype.is_signed() {
        return one;
    }
    scalars::select(scalars::lt(dtype, x, literal(dtype, 0.0)), literal(dtype, -1.0), one)
}

fn is_finite(dtype: Dtype, x: Expr) -> Expr {
    let is_nan = scalars::test(UnaryOp::IsNan, dtype, x.clone());
    scalars::not(scalars::or(is_nan, scalars::test(UnaryOp::IsInf, dtype, x)))
}

/// The lesser or greater number; of floating-point numbers the one that is not NaN. The operands are cheap.
pub(crate) fn extremum(is_least: bool, dtype: Dtype, a: Expr, b: Expr) -> Expr {
    let op = if is_least { BinaryOp::Min } else { BinaryOp::Max };
    if !dtype.is_float() {
        return scalars::binary(op, dtype, a, b);
    }
    let takes_a =
        if is_least { scalars::le(dtype, a.clone(), b.clone()) } else { scalars::le(dtype, b.clone(), a.clone()) };
    let other = scalars::select(scalars::test(UnaryOp::IsNan, dtype, b.clone()), a.clone(), b);
    scalars::select(takes_a, a, other)
}

/// The product with a constant of f64, rounded once.
fn in_f64(dtype: Dtype, x: Expr, factor: f64) -> Expr {
    let product = scalars::mul(Dtype::F64, scalars::cast(dtype, Dtype::F64, x), literal(Dtype::F64, factor));
    scalars::cast(Dtype::F64, dtype, product)
}
