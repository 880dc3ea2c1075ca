//! Expressions as trees of C++, with the parentheses and casts that they need.
//!
//! Signed overflow is undefined in C++. Where the ranges of the operands do not exclude it, an operation is computed in the unsigned
//! type of the same size, in which numbers wrap. Integers of less than 32 bits are computed as `int` and cast where they may leave their
//! range.
#![expect(clippy::wildcard_enum_match_arm, reason = "expressions, operations and types are matched by groups")]

use super::contraction::adds;
use super::cpp_expr::{CppExpr, Range, integer, literal, prec, value_type};
use super::emitter::{Emitter, Form};
use crate::Dtype;
use crate::kernel::{Expr, LocalId, ParamId};
use crate::scalar::cuda::{self, ctype, elementary};
use crate::scalar::math::MathOp;
use crate::scalar::{BinaryOp, Literal, UnaryOp};

/// Extents and positions in the grid.
const POSITIONS: Range = Range { min: 0, max: i32::MAX as i128 };

impl Emitter<'_> {
    /// The text of an expression whose value is not added to anything.
    pub(super) fn expr(&self, expr: &Expr) -> CppExpr {
        self.added_expr(expr, false)
    }

    /// The text of a value that is assigned to a variable.
    pub(super) fn assigned_expr(&self, expr: &Expr, to: LocalId) -> CppExpr {
        self.added_expr(expr, self.added.locals.contains(&to))
    }

    /// The text of a value that is stored to an array.
    pub(super) fn stored_expr(&self, expr: &Expr, to: ParamId) -> CppExpr {
        self.added_expr(expr, self.added.arrays.contains(&to))
    }

    /// `is_added` if the value may be an operand of a sum or difference.
    fn added_expr(&self, expr: &Expr, is_added: bool) -> CppExpr {
        match expr {
            Expr::Literal(value) => literal(*value),
            Expr::Local(local) => self.local(*local),
            Expr::Param(param, component) => self.leaves.values[param.0 as usize][*component as usize].clone(),
            Expr::Extent(param, axis) => {
                let text = &self.leaves.extents[param.0 as usize][usize::from(*axis)];
                CppExpr::primary(text, Dtype::I32).within(POSITIONS)
            }
            Expr::ThreadId(axis) => {
                let last = Range { max: POSITIONS.max - 1, ..POSITIONS };
                CppExpr::primary(&self.leaves.threads[usize::from(*axis)], Dtype::I32).within(last)
            }
            Expr::Unary(UnaryOp::Neg, a) => negated(&self.added_expr(a, is_added)),
            Expr::Unary(UnaryOp::Not, a) if a.dtype(self.kernel) == Dtype::Bool => self.negation(a),
            Expr::Unary(op, a) => {
                let a = self.expr(a);
                self.elementary(MathOp::Unary(*op), &[&a]).unwrap_or_else(|| unary(*op, &a))
            }
            Expr::Binary(op, a, b) => self.binary(*op, a, b, is_added),
            Expr::Select(condition, a, b) => {
                select(&self.expr(condition), &self.added_expr(a, is_added), &self.added_expr(b, is_added))
            }
            Expr::Cast(to, a) => match &**a {
                Expr::Literal(value) => literal(value.cast(*to)),
                _ => cast(*to, self.expr(a)),
            },
            Expr::Bitcast(to, a) => match &**a {
                Expr::Literal(value) => literal(Literal::from_bits(*to, value.bits())),
                _ => bitcast(*to, self.expr(a)),
            },
        }
    }

    pub(super) fn local(&self, local: LocalId) -> CppExpr {
        if let Some(text) = self.inlined.get(&local) {
            return text.clone();
        }
        let index = local.0 as usize;
        let text = CppExpr::primary(&self.names.locals[index], self.kernel.locals[index].dtype);
        match self.ranges.get(&local) {
            Some(range) => text.within(*range),
            None => text,
        }
    }

    /// The negation of a bool.
    pub(super) fn negation(&self, expr: &Expr) -> CppExpr {
        let is_number = |a: &Expr| !a.dtype(self.kernel).is_float();
        match expr {
            Expr::Unary(UnaryOp::Not, a) => self.expr(a),
            Expr::Binary(BinaryOp::Eq, a, b) => self.comparison("!=", a, b),
            Expr::Binary(BinaryOp::Ne, a, b) => self.comparison("==", a, b),
            Expr::Binary(BinaryOp::Lt, a, b) if is_number(a) => self.comparison(">=", a, b),
            Expr::Binary(BinaryOp::Le, a, b) if is_number(a) => self.comparison(">", a, b),
            _ => CppExpr::new(format!("!{}", self.expr(expr).at(prec::UNARY)), prec::UNARY, Dtype::Bool),
        }
    }

    /// A constant stands on the right.
    fn comparison(&self, op: &'static str, a: &Expr, b: &Expr) -> CppExpr {
        if matches!(a, Expr::Literal(_)) && !matches!(b, Expr::Literal(_)) {
            let mirrored = match op {
                "<" => ">",
                "<=" => ">=",
                ">" => "<",
                ">=" => "<=",
                symmetric => symmetric,
            };
            return self.comparison(mirrored, b, a);
        }
        let a = self.expr(a);
        let b = self.expr(b);
        let own = if matches!(op, "==" | "!=") { prec::EQUAL } else { prec::COMPARE };
        CppExpr::new(format!("{} {op} {}", a.at(prec::SHIFT), b.at(prec::SHIFT)), own, Dtype::Bool)
    }

    /// An elementary function with the bits of the interpreter. Standalone programs call those of CUDA instead.
    fn elementary(&self, op: MathOp, operands: &[&CppExpr]) -> Option<CppExpr> {
        let is_defined = self.form != Form::Plain && op.is_elementary() && operands[0].dtype == Dtype::F32;
        let operands: Vec<_> = operands.iter().map(|operand| operand.text.as_str()).collect();
        let call = || format!("ir::{}({})", elementary::function(op), operands.join(", "));
        is_defined.then(|| CppExpr::primary(call(), Dtype::F32))
    }

    fn binary(&self, op: BinaryOp, a: &Expr, b: &Expr, is_added: bool) -> CppExpr {
        match op {
            BinaryOp::Eq => return self.comparison("==", a, b),
            BinaryOp::Ne => return self.comparison("!=", a, b),
            BinaryOp::Lt => return self.comparison("<", a, b),
            BinaryOp::Le => return self.comparison("<=", a, b),
            _ => {}
        }
        let right = b;
        let a = self.added_expr(a, adds(op));
        let b = self.added_expr(b, adds(op));
        if let Some(call) = self.elementary(MathOp::Binary(op), &[&a, &b]) {
            return call;
        }
        match a.dtype {
            Dtype::Bool => bool_binary(op, &a, &b),
            Dtype::F32 | Dtype::F64 if op == BinaryOp::Mul && is_added && self.form == Form::Plain => {
                uncontracted(&a, &b)
            }
            Dtype::F32 | Dtype::F64 => float_binary(op, &a, &b, right),
            _ => integer_binary(op, &a, &b),
        }
    }
}

/// An infix operator that is left-associative.
fn infix(op: &str, own: u8, a: &CppExpr, b: &CppExpr) -> CppExpr {
    CppExpr::new(format!("{} {op} {}", a.at(own), b.at(own + 1)), own, a.dtype)
}

/// A function of this namespace. Promoted operands do not tell it the type.
fn helper(name: &str, a: &CppExpr, others: &[&CppExpr]) -> CppExpr {
    let dtype = a.dtype;
    let explicit = if dtype.size() < 4 { format!("<{}>", ctype(dtype)) } else { String::new() };
    let operands: Vec<_> = [a].iter().chain(others).map(|operand| operand.text.as_str()).collect();
    CppExpr::primary(format!("ir::{name}{explicit}({})", operands.join(", ")), dtype)
}

fn negated(a: &CppExpr) -> CppExpr {
    let minus = |a: &CppExpr| {
        let operand = a.at(prec::UNARY);
        let text = if operand.starts_with('-') { format!("-({operand})") } else { format!("-{operand}") };
        CppExpr::new(text, prec::UNARY, a.dtype)
    };
    if a.dtype.is_float() {
        return minus(a);
    }
    let exact = Range { min: -a.range.max, max: -a.range.min };
    match a.dtype {
        Dtype::U32 | Dtype::U64 => infix("-", prec::SUM, &integer(0, a.dtype), a),
        Dtype::I32 | Dtype::I64 if !exact.is_within(Range::of(a.dtype)) => {
            let zero = integer(0, unsigned(a.dtype));
            wrapped(&infix("-", prec::SUM, &zero, a), a.dtype)
        }
        _ => narrowed(minus(a).within(exact)),
    }
}

fn unary(op: UnaryOp, a: &CppExpr) -> CppExpr {
    let dtype = a.dtype;
    let is_integer = dtype.is_integer();
    match op {
        UnaryOp::Abs if is_integer => {
            let exact = Range { min: 0, max: a.range.max.max(-a.range.min) };
            if dtype == Dtype::I64 || !exact.is_within(Range::of(Dtype::I32)) {
                return helper("wrapping_abs", a, &[]);
            }
            narrowed(CppExpr::primary(format!("abs({})", a.text), dtype).within(exact))
        }
        UnaryOp::Sign if is_integer => helper("sign", a, &[]).within(Range { min: -1, max: 1 }),
        UnaryOp::Not => {
            let exact = Range { min: -a.range.max - 1, max: -a.range.min - 1 };
            let text = CppExpr::new(format!("~{}", a.at(prec::UNARY)), prec::UNARY, dtype);
            if dtype.size() < 4 { narrowed(text.within(exact)) } else { text }
        }
        UnaryOp::IsNan => CppExpr::primary(format!("isnan({})", a.text), Dtype::Bool),
        UnaryOp::IsInf => CppExpr::primary(format!("isinf({})", a.text), Dtype::Bool),
        _ => {
            let result = op.result(dtype).expect("a checked operation takes its operand");
            CppExpr::primary(cuda::unary(op, dtype, &a.text), result)
        }
    }
}

fn bool_binary(op: BinaryOp, a: &CppExpr, b: &CppExpr) -> CppExpr {
    match op {
        BinaryOp::And | BinaryOp::Min => infix("&&", prec::AND, a, b),
        // A conjunction within a disjunction is easily misread.
        BinaryOp::Or | BinaryOp::Max => {
            let side =
                |side: &CppExpr| if side.prec == prec::AND { format!("({})", side.text) } else { side.at(prec::OR) };
            CppExpr::new(format!("{} || {}", side(a), side(b)), prec::OR, Dtype::Bool)
        }
        BinaryOp::Xor => {
            CppExpr::new(format!("{} != {}", a.at(prec::SHIFT), b.at(prec::SHIFT)), prec::EQUAL, Dtype::Bool)
        }
        _ => unreachable!("{op:?} does not take bools"),
    }
}

fn float_binary(op: BinaryOp, a: &CppExpr, b: &CppExpr, right: &Expr) -> CppExpr {
    match op {
        BinaryOp::Add | BinaryOp::Sub => match negative(right) {
            Some(magnitude) => infix(if op == BinaryOp::Add { "-" } else { "+" }, prec::SUM, a, &magnitude),
            None => infix(if op == BinaryOp::Add { "+" } else { "-" }, prec::SUM, a, b),
        },
        BinaryOp::Mul => infix("*", prec::PRODUCT, a, b),
        BinaryOp::Div => infix("/", prec::PRODUCT, a, b),
        _ => CppExpr::primary(cuda::binary(op, a.dtype, &a.text, &b.text), a.dtype),
    }
}

/// The magnitude of a negative number that is a constant.
fn negative(expr: &Expr) -> Option<CppExpr> {
    let Expr::Literal(value) = expr else { return None };
    let number = value.as_f64();
    (number < 0.0 && number.is_finite()).then(|| literal(Literal::from_f64(value.dtype(), -number)))
}

/// A product that no compiler contracts.
fn uncontracted(a: &CppExpr, b: &CppExpr) -> CppExpr {
    let function = if a.dtype == Dtype::F32 { "__fmul_rn" } else { "__dmul_rn" };
    CppExpr::primary(format!("{function}({}, {})", a.text, b.text), a.dtype)
}

fn integer_binary(op: BinaryOp, a: &CppExpr, b: &CppExpr) -> CppExpr {
    match op {
        BinaryOp::Add | BinaryOp::Sub => {
            let magnitude = magnitude(b);
            let is_sum = (op == BinaryOp::Add) == magnitude.is_none();
            let b = magnitude.as_ref().unwrap_or(b);
            if is_sum {
                arithmetic("+", prec::SUM, a, b, |a, b| a + b)
            } else {
                arithmetic("-", prec::SUM, a, b, |a, b| a - b)
            }
        }
        BinaryOp::Mul => arithmetic("*", prec::PRODUCT, a, b, i128::saturating_mul),
        BinaryOp::Div if is_divisible(a, b) => {
            let range = if b.range.min > 0 { a.range.combine(b.range, |a, b| a / b) } else { Range::of(a.dtype) };
            infix("/", prec::PRODUCT, a, b).within(range)
        }
        BinaryOp::Div => helper("quotient", a, &[b]),
        BinaryOp::Rem if is_divisible(a, b) => {
            let maximum = b.range.max.abs().max(b.range.min.abs()) - 1;
            let range = Range { min: if a.range.min < 0 { -maximum } else { 0 }, max: maximum.min(a.range.max.max(0)) };
            infix("%", prec::PRODUCT, a, b).within(range)
        }
        BinaryOp::Rem => helper("remainder", a, &[b]),
        BinaryOp::Min => least("min", a, b, i128::min),
        BinaryOp::Max => least("max", a, b, i128::max),
        BinaryOp::And => bitwise("&", prec::BIT_AND, a, b),
        BinaryOp::Or => bitwise("|", prec::BIT_OR, a, b),
        BinaryOp::Xor => bitwise("^", prec::BIT_XOR, a, b),
        BinaryOp::Shl => shift_left(a, b),
        BinaryOp::Shr => match shift_count(a, b) {
            Some(count) => {
                let range = Range { min: a.range.min >> count, max: a.range.max >> count };
                shift(">>", a, count).within(range)
            }
            None => helper("shift_right", a, &[b]),
        },
        BinaryOp::MulHigh => helper("mul_high", a, &[b]),
        _ => unreachable!("{op:?} does not take integers"),
    }
}

/// The magnitude of a negative constant.
fn magnitude(text: &CppExpr) -> Option<CppExpr> {
    let magnitude = -text.range.max;
    let is_negative = text.is_constant && magnitude > 0 && Range::of(text.dtype).contains(magnitude);
    is_negative.then(|| integer(magnitude, text.dtype))
}

/// Returns true if the quotient is defined in C++.
fn is_divisible(a: &CppExpr, b: &CppExpr) -> bool {
    let wraps = b.range.contains(-1) && a.range.min == Range::of(a.dtype).min;
    !b.range.contains(0) && !wraps
}

/// A sum, difference or product.
fn arithmetic(op: &'static str, own: u8, a: &CppExpr, b: &CppExpr, exact: impl Fn(i128, i128) -> i128) -> CppExpr {
    let dtype = a.dtype;
    let range = a.range.combine(b.range, exact);
    let own_range = Range::of(dtype);
    let int = Range::of(Dtype::I32);
    match dtype {
        Dtype::U32 | Dtype::U64 => {
            let text = infix(op, own, a, b);
            if range.is_within(own_range) { text.within(range) } else { text }
        }
        Dtype::I32 | Dtype::I64 if range.is_within(own_range) => infix(op, own, a, b).within(range),
        Dtype::I32 | Dtype::I64 => wrapped(&modular(op, own, a, b), dtype),
        _ if range.is_within(int) => narrowed(infix(op, own, a, b).within(range)),
        _ => {
            let text = infix(op, own, &a.convert(Dtype::U32), b);
            CppExpr { dtype, ..text }.convert(dtype)
        }
    }
}

/// In the unsigned type, to which C++ converts the other operand.
fn modular(op: &str, own: u8, a: &CppExpr, b: &CppExpr) -> CppExpr {
    let unsigned = unsigned(a.dtype);
    let operand = |operand: &CppExpr| match &operand.modular {
        Some(modular) => (**modular).clone(),
        None if operand.is_constant && operand.range.min >= 0 => integer(operand.range.min, unsigned),
        None => operand.clone(),
    };
    let mut left = operand(a);
    let right = operand(b);
    if left.dtype != unsigned && right.dtype != unsigned {
        left = left.convert(unsigned);
    }
    CppExpr { dtype: unsigned, ..infix(op, own, &left, &right) }
}

fn unsigned(dtype: Dtype) -> Dtype {
    if dtype.size() == 8 { Dtype::U64 } else { Dtype::U32 }
}

/// An unsigned number as the signed one of the same bits.
fn wrapped(modular: &CppExpr, dtype: Dtype) -> CppExpr {
    CppExpr { modular: Some(Box::new(modular.clone())), ..modular.convert(dtype) }
}

/// A number computed as an `int`, in a smaller type.
fn narrowed(text: CppExpr) -> CppExpr {
    if text.range.is_within(Range::of(text.dtype)) { text } else { text.convert(text.dtype) }
}

/// `min` and `max` of CUDA are those of `int` for smaller types.
fn least(name: &str, a: &CppExpr, b: &CppExpr, of: impl Fn(i128, i128) -> i128) -> CppExpr {
    let range = Range { min: of(a.range.min, b.range.min), max: of(a.range.max, b.range.max) };
    CppExpr::primary(format!("{name}({}, {})", a.text, b.text), a.dtype).within(range)
}

/// Operators of bits have a surprising precedence: only equal ones stand without parentheses.
fn bitwise(op: &str, own: u8, a: &CppExpr, b: &CppExpr) -> CppExpr {
    let left = if a.prec == own { a.text.clone() } else { a.at(prec::UNARY) };
    let text = CppExpr::new(format!("{left} {op} {}", b.at(prec::UNARY)), own, a.dtype);
    let first = a.range;
    let second = b.range;
    let is_positive = first.min >= 0 && second.min >= 0;
    if op == "&" && (first.min >= 0 || second.min >= 0) {
        let mask = |range: Range| if range.min >= 0 { range.max } else { i128::MAX };
        return text.within(Range { min: 0, max: mask(first).min(mask(second)) });
    }
    if is_positive {
        let bits = 128 - first.max.max(second.max).leading_zeros();
        return text.within(Range { min: 0, max: (1 << bits) - 1 });
    }
    text
}

/// The number of bits of a shift that C++ defines.
fn shift_count(a: &CppExpr, b: &CppExpr) -> Option<u32> {
    let count = b.is_constant.then_some(b.range.min)?;
    u32::try_from(count).ok().filter(|count| (*count as usize) < 8 * a.dtype.size())
}

fn shift(op: &str, a: &CppExpr, count: u32) -> CppExpr {
    CppExpr::new(format!("{} {op} {count}", a.at(prec::UNARY)), prec::SHIFT, a.dtype)
}

fn shift_left(a: &CppExpr, b: &CppExpr) -> CppExpr {
    let dtype = a.dtype;
    let Some(count) = shift_count(a, b) else { return helper("shift_left", a, &[b]) };
    let range = Range { min: a.range.min << count, max: a.range.max << count };
    let is_defined = range.min >= 0 && range.is_within(Range::of(dtype));
    match dtype {
        Dtype::U32 | Dtype::U64 if !is_defined => shift("<<", a, count),
        Dtype::I32 | Dtype::I64 if !is_defined => wrapped(&shift("<<", &a.convert(unsigned(dtype)), count), dtype),
        _ if is_defined => shift("<<", a, count).within(range),
        _ => helper("shift_left", a, &[b]),
    }
}

fn select(condition: &CppExpr, a: &CppExpr, b: &CppExpr) -> CppExpr {
    let text = format!("{} ? {} : {}", condition.at(prec::OR), a.at(prec::OR), b.at(prec::SELECT));
    let range = Range { min: a.range.min.min(b.range.min), max: a.range.max.max(b.range.max) };
    CppExpr::new(text, prec::SELECT, a.dtype).within(range)
}

fn cast(to: Dtype, a: CppExpr) -> CppExpr {
    let from = a.dtype;
    if from == to {
        return a;
    }
    if from.compute() != from {
        return cast(to, CppExpr::primary(format!("ir::{from}_to_f32({})", a.text), Dtype::F32));
    }
    if to == Dtype::Bool {
        return CppExpr::new(format!("{} != 0", a.at(prec::SHIFT)), prec::EQUAL, to);
    }
    let is_call = to.compute() != to || (from.is_float() && to.is_integer());
    if is_call {
        return CppExpr::primary(cuda::cast(from, to, &a.text), to);
    }
    let text = CppExpr::new(format!("({}){}", value_type(to), a.at(prec::UNARY)), prec::UNARY, to);
    if to.is_integer() && a.range.is_within(Range::of(to)) { text.within(a.range) } else { text }
}

fn bitcast(to: Dtype, a: CppExpr) -> CppExpr {
    let from = a.dtype;
    let call = |name| CppExpr::primary(format!("{name}({})", a.text), to);
    match (from, to) {
        (Dtype::F32, Dtype::I32) => call("__float_as_int"),
        (Dtype::F32, Dtype::U32) => call("__float_as_uint"),
        (Dtype::I32, Dtype::F32) => call("__int_as_float"),
        (Dtype::U32, Dtype::F32) => call("__uint_as_float"),
        (Dtype::F64, Dtype::I64) => call("__double_as_longlong"),
        (Dtype::F64, Dtype::U64) => call("__double_as_longlong").convert(to),
        (Dtype::I64, Dtype::F64) => call("__longlong_as_double"),
        (Dtype::U64, Dtype::F64) => {
            CppExpr::primary(format!("__longlong_as_double({})", a.convert(Dtype::I64).text), to)
        }
        _ if from == to => a,
        // 16-bit floating-point types are their bits.
        _ => a.convert(to),
    }
}
