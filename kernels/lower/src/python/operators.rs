//! Operators of the Python dialect, with the results and exceptions of CPython.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, FaultKind};
use accelerd_ir::scalar::{BinaryOp, UnaryOp};
use accelerd_parser::Operator;

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::Lowerer;
use crate::source::environment::Number;
use crate::source::syntax::Node;
use crate::types::Type;
use crate::values::constants::symbol;
use crate::values::scalars::{self, integer, literal};
use crate::values::{Data, Value};
use crate::warp::operators::scalar_comparison;

const INT: Dtype = Dtype::I64;
const FLOAT: Dtype = Dtype::F64;

impl Lowerer<'_> {
    /// The result of an operator of two numbers. Bools are integers, and an integer is converted to a float if the other operand is one.
    pub(crate) fn python_binary(&mut self, node: Node, op: Operator, left: &Data, right: &Data) -> Lowered<Value> {
        let message = format!("`{}` does not take {} and {}", symbol(op), left.ty, right.ty);
        let fail = |this: &Self| Err(this.error(node, ErrorKind::TypeMismatch, message.clone()));
        let (Some((a_type, a)), Some((b_type, b))) = (left.as_scalar(), right.as_scalar()) else { return fail(self) };
        let a = a.clone();
        let b = b.clone();
        let is_logic = a_type == Dtype::Bool && b_type == Dtype::Bool;
        if let (true, Some(op)) = (is_logic, bitwise(op)) {
            return Ok(Data::scalar(Dtype::Bool, scalars::binary(op, Dtype::Bool, a, b)).into());
        }
        if a_type == FLOAT || b_type == FLOAT {
            let a = scalars::cast(a_type, FLOAT, a);
            let b = scalars::cast(b_type, FLOAT, b);
            let a = self.emitter.bind(FLOAT, a);
            let b = self.emitter.bind(FLOAT, b);
            return match self.floats(node, op, a, b) {
                Some(result) => Ok(Data::scalar(FLOAT, result).into()),
                None => fail(self),
            };
        }
        let a = scalars::cast(a_type, INT, a);
        let b = scalars::cast(b_type, INT, b);
        let a = self.emitter.bind(INT, a);
        let b = self.emitter.bind(INT, b);
        if op == Operator::Div {
            return Ok(Data::scalar(FLOAT, self.true_quotient(node, a, b)).into());
        }
        if op == Operator::Pow {
            let Some(Number::Int(exponent)) = right.constant else {
                let message = "expected a constant exponent of an integer";
                return Err(self.error(node, ErrorKind::NotConstant, message));
            };
            return self.integer_power(node, a, exponent).map(|power| Data::scalar(INT, power).into());
        }
        match self.integers(node, op, a, b) {
            Some(result) => Ok(Data::scalar(INT, result).into()),
            None => fail(self),
        }
    }

    /// Faults where a condition is true, as an exception that is not of a division by zero.
    pub(crate) fn invalid_if(&mut self, node: Node, condition: Expr) {
        self.emitter.fault_if(condition, FaultKind::InvalidValue, self.syntax().site(node));
    }

    fn zero_division_if(&mut self, node: Node, condition: Expr) {
        self.emitter.fault_if(condition, FaultKind::DivisionByZero, self.syntax().site(node));
    }

    /// An operator of integers, whose operands are cheap. A result beyond i64 is a fault.
    fn integers(&mut self, node: Node, op: Operator, a: Expr, b: Expr) -> Option<Expr> {
        let zero = || integer(INT, 0);
        let binary = |op| scalars::binary(op, INT, a.clone(), b.clone());
        let is_below_zero = |x: Expr| scalars::lt(INT, x, zero());
        let xor = |x, y| scalars::binary(BinaryOp::Xor, INT, x, y);
        let both = |x, y| scalars::binary(BinaryOp::And, INT, x, y);
        match op {
            Operator::Add => {
                let sum = self.emitter.temp(INT, binary(BinaryOp::Add));
                self.invalid_if(node, is_below_zero(both(xor(a, sum.clone()), xor(b, sum.clone()))));
                Some(sum)
            }
            Operator::Sub => {
                let difference = self.emitter.temp(INT, binary(BinaryOp::Sub));
                let overflow = both(xor(a.clone(), b), xor(a, difference.clone()));
                self.invalid_if(node, is_below_zero(overflow));
                Some(difference)
            }
            Operator::Mult => {
                let product = self.emitter.temp(INT, binary(BinaryOp::Mul));
                let high = binary(BinaryOp::MulHigh);
                let sign = scalars::binary(BinaryOp::Shr, INT, product.clone(), integer(INT, 63));
                self.invalid_if(node, scalars::ne(INT, high, sign));
                Some(product)
            }
            Operator::FloorDiv | Operator::Mod => {
                self.zero_division_if(node, scalars::eq(INT, b.clone(), zero()));
                let rest = self.emitter.temp(INT, binary(BinaryOp::Rem));
                let differs =
                    scalars::binary(BinaryOp::Xor, Dtype::Bool, is_below_zero(rest.clone()), is_below_zero(b.clone()));
                let is_adjusted = scalars::and(scalars::ne(INT, rest.clone(), zero()), differs);
                if op == Operator::Mod {
                    let adjusted = scalars::add(INT, rest.clone(), b);
                    return Some(scalars::select(is_adjusted, adjusted, rest));
                }
                let is_least = scalars::eq(INT, a.clone(), integer(INT, i64::MIN));
                let is_minus_one = scalars::eq(INT, b.clone(), integer(INT, -1));
                self.invalid_if(node, scalars::and(is_least, is_minus_one));
                let quotient = self.emitter.temp(INT, binary(BinaryOp::Div));
                let below = scalars::sub(INT, quotient.clone(), integer(INT, 1));
                Some(scalars::select(is_adjusted, below, quotient))
            }
            Operator::BitAnd | Operator::BitOr | Operator::BitXor => bitwise(op).map(binary),
            Operator::RShift => {
                self.invalid_if(node, is_below_zero(b.clone()));
                // A shift by 64 bits or more leaves the sign, as in the IR.
                Some(binary(BinaryOp::Shr))
            }
            Operator::LShift => {
                self.invalid_if(node, is_below_zero(b.clone()));
                let shifted = self.emitter.temp(INT, binary(BinaryOp::Shl));
                let back = scalars::binary(BinaryOp::Shr, INT, shifted.clone(), b.clone());
                let is_lost = scalars::or(scalars::ne(INT, back, a.clone()), scalars::lt(INT, integer(INT, 63), b));
                self.invalid_if(node, scalars::and(is_lost, scalars::ne(INT, a, zero())));
                Some(shifted)
            }
            _ => None,
        }
    }

    /// The quotient of integers as a float. It is that of the nearest floats, which are exact up to 2^53; beyond it is a fault.
    fn true_quotient(&mut self, node: Node, a: Expr, b: Expr) -> Expr {
        self.zero_division_if(node, scalars::eq(INT, b.clone(), integer(INT, 0)));
        let limit = 1_i64 << 53;
        for operand in [&a, &b] {
            if matches!(operand, Expr::Literal(literal) if literal.as_i64().unsigned_abs() <= 1 << 53) {
                continue;
            }
            let is_below = scalars::lt(INT, operand.clone(), integer(INT, -limit));
            let is_above = scalars::lt(INT, integer(INT, limit), operand.clone());
            self.invalid_if(node, scalars::or(is_below, is_above));
        }
        scalars::div(FLOAT, scalars::cast(INT, FLOAT, a), scalars::cast(INT, FLOAT, b))
    }

    /// A power of an integer by repeated squaring.
    fn integer_power(&mut self, node: Node, base: Expr, exponent: i128) -> Lowered<Expr> {
        let Some(mut rest) = u32::try_from(exponent).ok().filter(|exponent| *exponent <= 4096) else {
            let message = format!("expected an exponent from 0 to 4096 of an integer, got {exponent}");
            return Err(self.error(node, ErrorKind::ConstantOutOfRange, message));
        };
        let mut power = None;
        let mut square = base;
        while rest > 0 {
            if rest & 1 == 1 {
                power = Some(match power {
                    Some(power) => self.integers(node, Operator::Mult, power, square.clone()).expect("a product"),
                    None => square.clone(),
                });
            }
            rest >>= 1;
            if rest > 0 {
                square = self.integers(node, Operator::Mult, square.clone(), square).expect("a product");
            }
        }
        Ok(power.unwrap_or_else(|| integer(INT, 1)))
    }

    /// An operator of floats, whose operands are cheap.
    fn floats(&mut self, node: Node, op: Operator, a: Expr, b: Expr) -> Option<Expr> {
        let is_zero = scalars::eq(FLOAT, b.clone(), literal(FLOAT, 0.0));
        let is_nonzero_literal = matches!(b, Expr::Literal(literal) if literal.is_truthy());
        if matches!(op, Operator::Div | Operator::FloorDiv | Operator::Mod) && !is_nonzero_literal {
            self.zero_division_if(node, is_zero);
        }
        match op {
            Operator::Add => Some(scalars::add(FLOAT, a, b)),
            Operator::Sub => Some(scalars::sub(FLOAT, a, b)),
            Operator::Mult => Some(scalars::mul(FLOAT, a, b)),
            Operator::Div => Some(scalars::div(FLOAT, a, b)),
            Operator::Mod => Some(self.float_floor(a, b).1),
            Operator::FloorDiv => Some(self.float_floor(a, b).0),
            Operator::Pow => Some(self.float_power(node, a, b, true)),
            _ => None,
        }
    }

    /// The quotient rounded down, and the remainder with the sign of the divisor, by CPython's algorithm.
    fn float_floor(&mut self, a: Expr, b: Expr) -> (Expr, Expr) {
        let zero = || literal(FLOAT, 0.0);
        let one = || literal(FLOAT, 1.0);
        let rest = self.emitter.temp(FLOAT, scalars::binary(BinaryOp::Rem, FLOAT, a.clone(), b.clone()));
        let quotient = scalars::div(FLOAT, scalars::sub(FLOAT, a.clone(), rest.clone()), b.clone());
        let quotient = self.emitter.temp(FLOAT, quotient);
        let has_rest = self.emitter.temp(Dtype::Bool, scalars::ne(FLOAT, rest.clone(), zero()));
        let differs = scalars::binary(
            BinaryOp::Xor,
            Dtype::Bool,
            scalars::lt(FLOAT, b.clone(), zero()),
            scalars::lt(FLOAT, rest.clone(), zero()),
        );
        let is_adjusted = self.emitter.temp(Dtype::Bool, scalars::and(has_rest.clone(), differs));
        let adjusted = scalars::select(is_adjusted.clone(), scalars::add(FLOAT, rest.clone(), b.clone()), rest);
        let signed_zero = scalars::binary(BinaryOp::CopySign, FLOAT, zero(), b.clone());
        let remainder = scalars::select(has_rest, adjusted, signed_zero);
        let quotient = scalars::select(is_adjusted, scalars::sub(FLOAT, quotient.clone(), one()), quotient);
        let quotient = self.emitter.temp(FLOAT, quotient);
        let floor = self.emitter.temp(FLOAT, scalars::unary(UnaryOp::Floor, FLOAT, quotient.clone()));
        let is_short = scalars::lt(FLOAT, literal(FLOAT, 0.5), scalars::sub(FLOAT, quotient.clone(), floor.clone()));
        let floor = scalars::select(is_short, scalars::add(FLOAT, floor.clone(), one()), floor);
        let signed_zero = scalars::binary(BinaryOp::CopySign, FLOAT, zero(), scalars::div(FLOAT, a, b));
        let is_zero = scalars::eq(FLOAT, quotient, zero());
        (scalars::select(is_zero, signed_zero, floor), remainder)
    }

    /// A power of floats: faults where Python raises an exception or returns a complex number.
    pub(crate) fn float_power(&mut self, node: Node, a: Expr, b: Expr, is_operator: bool) -> Expr {
        let zero = || literal(FLOAT, 0.0);
        // To the power of negative infinity, 0 is infinity.
        let is_finite = scalars::lt(FLOAT, literal(FLOAT, f64::NEG_INFINITY), b.clone());
        let is_negative = scalars::and(is_finite, scalars::lt(FLOAT, b.clone(), zero()));
        let is_pole = scalars::and(scalars::eq(FLOAT, a.clone(), zero()), is_negative);
        let kind = if is_operator { FaultKind::DivisionByZero } else { FaultKind::InvalidValue };
        self.emitter.fault_if(is_pole, kind, self.syntax().site(node));
        let power = self.emitter.temp(FLOAT, scalars::binary(BinaryOp::Pow, FLOAT, a.clone(), b.clone()));
        self.refuse_exceptional(node, &power, &[a, b]);
        power
    }

    /// Faults where a result is NaN or infinite and no operand is.
    pub(crate) fn refuse_exceptional(&mut self, node: Node, result: &Expr, operands: &[Expr]) {
        let test = |op, x: &Expr| scalars::test(op, FLOAT, x.clone());
        let no_operand_is_nan = scalars::all(operands.iter().map(|x| scalars::not(test(UnaryOp::IsNan, x))));
        let all_are_finite = scalars::all(
            operands.iter().map(|x| scalars::not(scalars::or(test(UnaryOp::IsNan, x), test(UnaryOp::IsInf, x)))),
        );
        let is_invalid = scalars::and(test(UnaryOp::IsNan, result), no_operand_is_nan);
        let overflows = scalars::and(test(UnaryOp::IsInf, result), all_are_finite);
        self.invalid_if(node, scalars::or(is_invalid, overflows));
    }

    /// The result of an operator of one number.
    pub(crate) fn python_unary(&mut self, node: Node, op: Operator, data: &Data) -> Lowered<Value> {
        let message = format!("`{}` does not take {}", symbol(op), data.ty);
        let Some((dtype, part)) = data.as_scalar() else {
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        };
        let to = if dtype == FLOAT { FLOAT } else { INT };
        let part = scalars::cast(dtype, to, part.clone());
        let result = match op {
            Operator::UAdd => part,
            Operator::USub if to == FLOAT => scalars::neg(FLOAT, part),
            Operator::USub => {
                let part = self.emitter.bind(INT, part);
                self.invalid_if(node, scalars::eq(INT, part.clone(), integer(INT, i64::MIN)));
                scalars::neg(INT, part)
            }
            Operator::Invert if to == INT => scalars::unary(UnaryOp::Not, INT, part),
            _ => return Err(self.error(node, ErrorKind::TypeMismatch, message)),
        };
        Ok(Data::scalar(to, result).into())
    }

    /// A comparison of numbers. An integer and a float are compared exactly.
    pub(crate) fn python_comparison(&mut self, op: Operator, left: &Data, right: &Data) -> Option<Expr> {
        let (a_type, a) = left.as_scalar()?;
        let (b_type, b) = right.as_scalar()?;
        let [a_int, b_int] = [a_type, b_type].map(|dtype| dtype != FLOAT);
        if a_int && b_int {
            let a = scalars::cast(a_type, INT, a.clone());
            let b = scalars::cast(b_type, INT, b.clone());
            return scalar_comparison(op, INT, a, b);
        }
        if !a_int && !b_int {
            return scalar_comparison(op, FLOAT, a.clone(), b.clone());
        }
        let (int, float) = if a_int { ((a_type, a), b) } else { ((b_type, b), a) };
        let op = if a_int { op } else { mirrored(op)? };
        let int = scalars::cast(int.0, INT, int.1.clone());
        let int = self.emitter.bind(INT, int);
        let float = self.emitter.bind(FLOAT, float.clone());
        // Rounding is monotonic: where the rounded integer differs from the float, the integer does, in the same direction.
        let rounded = self.emitter.bind(FLOAT, scalars::cast(INT, FLOAT, int.clone()));
        let is_tie = self.emitter.bind(Dtype::Bool, scalars::eq(FLOAT, rounded.clone(), float.clone()));
        let is_beyond = scalars::le(FLOAT, literal(FLOAT, 9_223_372_036_854_775_808.0), float.clone());
        let is_beyond = self.emitter.bind(Dtype::Bool, is_beyond);
        let whole = self.emitter.bind(INT, scalars::cast(FLOAT, INT, float.clone()));
        let exact = |op| {
            let beyond = scalars::truth(matches!(op, Operator::Lt | Operator::LtE | Operator::NotEq));
            let compared = scalar_comparison(op, INT, int.clone(), whole.clone())?;
            Some(scalars::select(is_beyond.clone(), beyond, compared))
        };
        let apart = scalar_comparison(op, FLOAT, rounded, float)?;
        Some(scalars::select(is_tie, exact(op)?, apart))
    }
}

impl Lowerer<'_> {
    /// An integer of a float that is whole; one beyond i64, an infinity and NaN are faults.
    pub(crate) fn whole_number(&mut self, node: Node, float: Expr) -> Expr {
        let float = self.emitter.bind(FLOAT, float);
        let least = literal(FLOAT, -9_223_372_036_854_775_808.0);
        let above = literal(FLOAT, 9_223_372_036_854_775_808.0);
        let is_inside =
            scalars::and(scalars::le(FLOAT, least, float.clone()), scalars::lt(FLOAT, float.clone(), above));
        self.invalid_if(node, scalars::not(is_inside));
        scalars::cast(FLOAT, INT, float)
    }

    /// The absolute value of an integer.
    pub(crate) fn integer_abs(&mut self, node: Node, part: Expr) -> Expr {
        let part = self.emitter.bind(INT, part);
        self.invalid_if(node, scalars::eq(INT, part.clone(), integer(INT, i64::MIN)));
        scalars::unary(UnaryOp::Abs, INT, part)
    }
}

fn bitwise(op: Operator) -> Option<BinaryOp> {
    Some(match op {
        Operator::BitAnd => BinaryOp::And,
        Operator::BitOr => BinaryOp::Or,
        Operator::BitXor => BinaryOp::Xor,
        _ => return None,
    })
}

/// The comparison with its operands exchanged.
fn mirrored(op: Operator) -> Option<Operator> {
    Some(match op {
        Operator::Eq | Operator::NotEq => op,
        Operator::Lt => Operator::Gt,
        Operator::LtE => Operator::GtE,
        Operator::Gt => Operator::Lt,
        Operator::GtE => Operator::LtE,
        _ => return None,
    })
}

/// Returns true if a type is one of Python's numbers.
pub(crate) fn is_python_number(ty: &Type) -> bool {
    matches!(ty, Type::Scalar(INT | FLOAT | Dtype::Bool))
}
