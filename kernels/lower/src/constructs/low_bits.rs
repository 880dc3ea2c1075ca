//! Integers of the Python dialect of which only low bits count, as in `(h * 0x85EBCA6B) & 0xFFFFFFFF`.
//!
//! Integers of Python have no bounds, and those of the dialect have 64 bits. The low bits of a sum, product or shift to the left depend on the
//! low bits of its operands alone, so they are exact modulo 2^64 where the whole would be a fault.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;
use accelerd_ir::scalar::{BinaryOp, Literal, UnaryOp};
use accelerd_parser::{Field, Kind, Operator};

use crate::error::{ErrorKind, LowerError, Lowered};
use crate::lowerer::{Lowerer, Variable, VariableKind};
use crate::source::environment::{self, Number};
use crate::source::syntax::{Constant, Node};
use crate::types::Type;
use crate::values::scalars::{self, integer};
use crate::values::{Data, Value};

const INT: Dtype = Dtype::I64;

/// The bits of an integer.
const ALL: u32 = 64;

/// The deepest operations that are searched for constants and uses of a variable.
const MAX_SEARCH: u32 = 32;

/// Assignments to a variable that are searched for what reads it.
const MAX_ASSIGNMENTS: usize = 16;

/// The greatest constant exponent of a power.
const MAX_EXPONENT: i128 = 4096;

/// An expression whose operands are evaluated.
enum Term {
    Value(Value),
    Constant(Node, i128),
    Unary(Node, Operator, Box<Self>),
    Binary(Node, Operator, Box<[Self; 2]>),
}

impl Term {
    fn is_integer(&self) -> bool {
        match self {
            Self::Value(value) => matches!(value, Value::Data(data) if is_integer(&data.ty)),
            Self::Constant(..) => true,
            Self::Unary(_, _, operand) => operand.is_integer(),
            Self::Binary(_, Operator::Pow, operands) => {
                operands[0].is_integer()
                    && operands[1].constant().is_some_and(|exponent| (0..=MAX_EXPONENT).contains(&exponent))
            }
            Self::Binary(_, _, operands) => operands.iter().all(Self::is_integer),
        }
    }

    fn constant(&self) -> Option<i128> {
        match self {
            Self::Constant(_, constant) => Some(*constant),
            _ => None,
        }
    }
}

/// The effect of an operation with a constant on the bits of its other operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    /// Takes this many low bits, and of those the ones of the mask.
    Mask(u32, u64),
    /// Shifts to the right.
    Right(u32),
    /// Shifts to the left.
    Left(u32),
}

/// The effect of an operator with a constant right operand.
fn selection(op: Operator, constant: i128) -> Option<Selection> {
    let power = |constant: i128| (constant.count_ones() == 1 && constant > 0).then(|| constant.trailing_zeros());
    match op {
        Operator::BitAnd => {
            let mask = u64::try_from(constant).ok()?;
            Some(Selection::Mask((ALL - mask.leading_zeros()).max(1), mask))
        }
        Operator::Mod => {
            let bits = power(constant).filter(|bits| *bits < ALL)?;
            Some(Selection::Mask(bits.max(1), (1 << bits) - 1))
        }
        Operator::FloorDiv => power(constant).filter(|bits| *bits < ALL).map(Selection::Right),
        Operator::RShift => u32::try_from(constant).ok().filter(|bits| *bits < ALL).map(Selection::Right),
        Operator::LShift => u32::try_from(constant).ok().map(Selection::Left),
        _ => None,
    }
}

fn is_integer(ty: &Type) -> bool {
    matches!(ty, Type::Scalar(INT | Dtype::Bool))
}

/// Returns true if the low bits of the results depend on those of the operands alone.
fn keeps_low_bits(op: Operator) -> bool {
    matches!(op, Operator::Add | Operator::Sub | Operator::Mult | Operator::BitAnd | Operator::BitOr | Operator::BitXor)
}

impl Lowerer<'_> {
    /// The value of an operation of Python that selects bits, if an operand is an operation whose other bits need not be known.
    pub(crate) fn selected_bits(&mut self, node: Node) -> Lowered<Option<Value>> {
        let syntax = self.syntax();
        let op = syntax.operator(node);
        if !matches!(op, Operator::BitAnd | Operator::Mod | Operator::FloorDiv | Operator::RShift) {
            return Ok(None);
        }
        let operands = [Field::Left, Field::Right].map(|field| syntax.required(node, field));
        let is_operation = |node: &Node| matches!(syntax.kind(*node), Kind::BinOp | Kind::UnaryOp);
        if !operands.iter().any(is_operation) || self.selection_of(op, operands, None).is_none() {
            return Ok(None);
        }
        let term = self.binary_term(node, op, operands)?;
        self.evaluate(term, None).map(Some)
    }

    /// The value of an expression of which only this many low bits count.
    pub(crate) fn low_bits(&mut self, node: Node, bits: u32) -> Lowered<Value> {
        let term = self.term(node)?;
        self.evaluate(term, Some(bits))
    }

    /// The value of an augmented assignment of Python of which only this many low bits count.
    pub(crate) fn augmented_low_bits(&mut self, node: Node, bits: u32) -> Lowered<Value> {
        let syntax = self.syntax();
        let operands = [Field::Target, Field::Value].map(|field| syntax.required(node, field));
        let term = self.binary_term(node, syntax.operator(node), operands)?;
        self.evaluate(term, Some(bits))
    }

    /// The number of low bits that count of what the first of these statements assigns to a variable, if the next ones assign it again and
    /// read fewer than all: `h *= 0x85EBCA6B` before `h &= 0xFFFFFFFF`.
    pub(crate) fn read_bits(&self, statements: &[Node]) -> Option<u32> {
        if !self.is_python() {
            return None;
        }
        let name = self.assigned_name(*statements.first()?)?;
        let is_number = |variable: &Variable| matches!(&variable.kind, VariableKind::Data(ty, _) if is_integer(ty));
        if !self.frame().variables.get(&name).is_none_or(is_number) {
            return None;
        }
        let following = statements[1..].iter().take(MAX_ASSIGNMENTS);
        let assignments = following.take_while(|statement| self.assigned_name(**statement).as_ref() == Some(&name));
        let assignments: Vec<_> = assignments.collect();
        assignments.into_iter().rev().fold(None, |bits, statement| {
            let syntax = self.syntax();
            let value = syntax.required(*statement, Field::Value);
            match syntax.kind(*statement) {
                Kind::AugAssign => {
                    let operands = [syntax.required(*statement, Field::Target), value];
                    self.bits_in_operation(syntax.operator(*statement), operands, &name, bits, 0)
                }
                _ => self.bits_read(value, &name, bits, 0),
            }
        })
    }

    /// The variable that a statement assigns, and nothing else.
    fn assigned_name(&self, statement: Node) -> Option<String> {
        let syntax = self.syntax();
        let target = match syntax.kind(statement) {
            Kind::AugAssign => syntax.required(statement, Field::Target),
            Kind::Assign => {
                let mut targets = syntax.children(statement, Field::Targets);
                targets.next().filter(|_| targets.next().is_none())?
            }
            _ => return None,
        };
        syntax.name_of(target)
    }

    /// The low bits of a variable that an expression depends on if only `wanted` bits of it count; `None` stands for all of an exact number.
    fn bits_read(&self, node: Node, name: &str, wanted: Option<u32>, depth: u32) -> Option<u32> {
        let syntax = self.syntax();
        if depth > MAX_SEARCH {
            return None;
        }
        match syntax.kind(node) {
            Kind::Name if syntax.name(node).as_deref() == Some(name) => wanted,
            Kind::BinOp => {
                let operands = [Field::Left, Field::Right].map(|field| syntax.required(node, field));
                self.bits_in_operation(syntax.operator(node), operands, name, wanted, depth)
            }
            Kind::UnaryOp if syntax.operator(node) != Operator::Not => {
                self.bits_read(syntax.required(node, Field::Operand), name, wanted, depth + 1)
            }
            // With an operand of another type, the operation needs exact numbers.
            _ if wanted.is_some() => self.is_known_integer(node).then_some(0),
            _ => (!self.mentions(node, name)).then_some(0),
        }
    }

    fn bits_in_operation(
        &self,
        op: Operator,
        operands: [Node; 2],
        name: &str,
        wanted: Option<u32>,
        depth: u32,
    ) -> Option<u32> {
        let read = |node, wanted| self.bits_read(node, name, wanted, depth + 1);
        match (self.selection_of(op, operands, Some(name)), wanted) {
            (Some((other, Selection::Mask(bits, _))), _) if wanted.is_some() || bits < ALL => {
                read(other, Some(bits.min(wanted.unwrap_or(ALL))))
            }
            (Some((other, Selection::Right(bits))), Some(wanted)) if wanted + bits <= ALL => {
                read(other, Some(wanted + bits))
            }
            (Some((other, Selection::Left(bits))), Some(wanted)) => {
                read(other, Some(wanted.saturating_sub(bits).max(1)))
            }
            _ => {
                let wanted = wanted.filter(|_| keeps_low_bits(op));
                let [left, right] = operands.map(|operand| read(operand, wanted));
                Some(left?.max(right?))
            }
        }
    }

    fn mentions(&self, node: Node, name: &str) -> bool {
        let syntax = self.syntax();
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            if syntax.kind(node) == Kind::Name && syntax.name(node).as_deref() == Some(name) {
                return true;
            }
            open.extend(syntax.all_children(node));
        }
        false
    }

    /// Returns true if an operand is certainly an integer: a constant, a variable, or an element of a list.
    fn is_known_integer(&self, node: Node) -> bool {
        let syntax = self.syntax();
        let variable = |node| syntax.name_of(node).and_then(|name| self.frame().variables.get(&name));
        match syntax.kind(node) {
            Kind::Constant => matches!(syntax.constant(node), Constant::Int(_) | Constant::Bool(_)),
            Kind::Name => match variable(node).map(|variable| &variable.kind) {
                Some(VariableKind::Data(ty, _)) => is_integer(ty),
                Some(VariableKind::Alias(data)) => is_integer(&data.ty),
                Some(_) => false,
                None => self.integer_constant(node, None, 0).is_some(),
            },
            Kind::Subscript => match variable(syntax.required(node, Field::Value)).map(|variable| &variable.kind) {
                Some(VariableKind::Array(view)) => is_integer(&view.element) && view.rank() == 1,
                _ => false,
            },
            _ => false,
        }
    }

    /// The bits that an operation with a constant selects, and the operand that they are of. The variable `assigned` is not taken as a constant.
    fn selection_of(
        &self,
        op: Operator,
        [left, right]: [Node; 2],
        assigned: Option<&str>,
    ) -> Option<(Node, Selection)> {
        let selected = |constant, other| {
            let constant = self.integer_constant(constant, assigned, 0)?;
            selection(op, constant).map(|selection| (other, selection))
        };
        let mirrored = || if op == Operator::BitAnd { selected(left, right) } else { None };
        selected(right, left).or_else(mirrored)
    }

    /// The number that an expression always is.
    fn integer_constant(&self, node: Node, assigned: Option<&str>, depth: u32) -> Option<i128> {
        let syntax = self.syntax();
        if depth > MAX_SEARCH {
            return None;
        }
        let at = |node| self.integer_constant(node, assigned, depth + 1).map(Number::Int);
        let number = match syntax.kind(node) {
            Kind::Constant => return if let Constant::Int(value) = syntax.constant(node) { Some(value) } else { None },
            Kind::Name => {
                let name = syntax.name(node)?;
                match self.frame().variables.get(&name) {
                    _ if assigned == Some(name.as_str()) => None,
                    Some(variable) => variable.constant,
                    None if self.frame().locals.contains(&name) => None,
                    None => self.environment.number(node, self.outer_scope()),
                }
            }
            Kind::UnaryOp => environment::unary(syntax.operator(node), at(syntax.required(node, Field::Operand))?),
            Kind::BinOp => {
                let right = at(syntax.required(node, Field::Right))?;
                environment::binary(syntax.operator(node), at(syntax.required(node, Field::Left))?, right)
            }
            _ => None,
        };
        if let Some(Number::Int(value)) = number { Some(value) } else { None }
    }

    /// The term of an expression. Its operands are evaluated in their order.
    fn term(&mut self, node: Node) -> Lowered<Term> {
        if let Some(constant) = self.integer_constant(node, None, 0) {
            return Ok(Term::Constant(node, constant));
        }
        let syntax = self.syntax();
        let op = match syntax.kind(node) {
            Kind::BinOp | Kind::UnaryOp => Some(syntax.operator(node)),
            _ => None,
        };
        match op {
            Some(op @ (Operator::USub | Operator::UAdd | Operator::Invert)) => {
                let operand = syntax.required(node, Field::Operand);
                let operand = self.nested(node, |this| this.term(operand))?;
                Ok(Term::Unary(node, op, Box::new(operand)))
            }
            Some(op) if syntax.kind(node) == Kind::BinOp => {
                let operands = [Field::Left, Field::Right].map(|field| syntax.required(node, field));
                let is_open = keeps_low_bits(op)
                    || matches!(op, Operator::LShift | Operator::RShift | Operator::Pow)
                    || self.selection_of(op, operands, None).is_some();
                if is_open {
                    self.nested(node, |this| this.binary_term(node, op, operands))
                } else {
                    self.operand_term(node)
                }
            }
            _ => self.operand_term(node),
        }
    }

    fn operand_term(&mut self, node: Node) -> Lowered<Term> {
        let operand = self.operand(node)?;
        Ok(Term::Value(self.loaded(operand)))
    }

    fn binary_term(&mut self, node: Node, op: Operator, [left, right]: [Node; 2]) -> Lowered<Term> {
        let left = self.term(left)?;
        let right = self.term(right)?;
        Ok(Term::Binary(node, op, Box::new([left, right])))
    }

    /// The value of a term: exact, or with `bits` exact low bits and any others.
    fn evaluate(&mut self, term: Term, bits: Option<u32>) -> Lowered<Value> {
        let bits = bits.filter(|_| term.is_integer());
        match (term, bits) {
            (Term::Value(value), _) => Ok(value),
            (Term::Constant(node, _), None) => self.expression(node),
            (Term::Constant(_, constant), Some(_)) => Ok(Data::literal(wrapped(constant)).into()),
            (Term::Unary(node, op, operand), None) => match self.evaluate(*operand, None)? {
                Value::Data(data) => self.python_unary(node, op, &data),
                value => Err(self.no_number(node, &value)),
            },
            (Term::Unary(node, op, operand), Some(bits)) => {
                let operand = self.evaluate_integer(node, *operand, bits)?;
                Ok(match op {
                    Operator::USub => self.wrapping(scalars::neg(INT, operand)),
                    Operator::Invert => self.wrapping(scalars::unary(UnaryOp::Not, INT, operand)),
                    _ => Data::scalar(INT, operand).into(),
                })
            }
            (Term::Binary(node, op, operands), bits) => self.evaluate_operation(node, op, *operands, bits),
        }
    }

    fn evaluate_operation(
        &mut self,
        node: Node,
        op: Operator,
        operands: [Term; 2],
        bits: Option<u32>,
    ) -> Lowered<Value> {
        let [left, right] = operands;
        let is_mirrored = op == Operator::BitAnd && right.constant().is_none() && left.constant().is_some();
        let (left, right) = if is_mirrored { (right, left) } else { (left, right) };
        let selection = right.constant().and_then(|constant| selection(op, constant));
        match (selection, bits) {
            (Some(Selection::Mask(limit, mask)), _) if left.is_integer() && (bits.is_some() || limit < ALL) => {
                let other = self.evaluate_integer(node, left, limit.min(bits.unwrap_or(ALL)))?;
                let mask = Expr::Literal(Literal::from_i64(INT, mask.cast_signed()));
                Ok(Data::scalar(INT, scalars::binary(BinaryOp::And, INT, other, mask)).into())
            }
            (Some(Selection::Right(shift)), Some(bits)) if bits + shift <= ALL => {
                let other = self.evaluate_integer(node, left, bits + shift)?;
                Ok(self.wrapping(scalars::binary(BinaryOp::Shr, INT, other, integer(INT, shift.into()))))
            }
            (Some(Selection::Right(shift)), _) if shift > 0 && is_product(&left) => {
                let Term::Binary(_, _, factors) = left else { unreachable!("it is a product") };
                self.shifted_product(node, *factors, shift, bits.is_none())
            }
            (Some(Selection::Left(shift)), Some(bits)) => {
                let other = self.evaluate_integer(node, left, bits.saturating_sub(shift).max(1))?;
                Ok(self.wrapping(scalars::binary(BinaryOp::Shl, INT, other, integer(INT, shift.into()))))
            }
            (_, Some(bits)) if keeps_low_bits(op) => {
                let left = self.evaluate_integer(node, left, bits)?;
                let right = self.evaluate_integer(node, right, bits)?;
                Ok(self.wrapping(scalars::binary(wrapping_operator(op), INT, left, right)))
            }
            (_, Some(bits)) if op == Operator::Pow => {
                let base = self.evaluate_integer(node, left, bits)?;
                Ok(self.wrapping_power(base, right.constant().unwrap_or(0)))
            }
            (_, Some(bits)) if op == Operator::LShift => {
                let left = self.evaluate_integer(node, left, bits)?;
                let right = self.evaluate(right, None)?;
                let right = self.integer_part(node, &right)?;
                self.invalid_if(node, scalars::lt(INT, right.clone(), integer(INT, 0)));
                Ok(self.wrapping(scalars::binary(BinaryOp::Shl, INT, left, right)))
            }
            _ => {
                let left = self.evaluate(left, None)?;
                let right = self.evaluate(right, None)?;
                let result = self.binary(node, op, left, right)?;
                Ok(self.shallow(result))
            }
        }
    }

    /// A term that is an integer, as a cheap expression.
    fn evaluate_integer(&mut self, node: Node, term: Term, bits: u32) -> Lowered<Expr> {
        let value = self.evaluate(term, Some(bits))?;
        self.integer_part(node, &value)
    }

    fn integer_part(&mut self, node: Node, value: &Value) -> Lowered<Expr> {
        match value {
            Value::Data(data) if is_integer(&data.ty) => {
                let (dtype, part) = data.as_scalar().expect("integers are scalars");
                Ok(self.emitter.bind(INT, scalars::cast(dtype, INT, part.clone())))
            }
            value => Err(self.no_number(node, value)),
        }
    }

    fn no_number(&self, node: Node, value: &Value) -> LowerError {
        self.error(node, ErrorKind::TypeMismatch, format!("expected a number, got {value}"))
    }

    /// A result modulo 2^64, which may be negative whatever its operands are.
    fn wrapping(&mut self, result: Expr) -> Value {
        Data::scalar(INT, self.emitter.temp_of_any_sign(INT, result)).into()
    }

    fn wrapping_power(&mut self, base: Expr, exponent: i128) -> Value {
        let mut power = integer(INT, 1);
        let mut square = base;
        let mut rest = exponent;
        while rest > 0 {
            if rest & 1 == 1 {
                power = self.emitter.temp_of_any_sign(INT, scalars::mul(INT, power, square.clone()));
            }
            rest >>= 1;
            if rest > 0 {
                square = self.emitter.temp_of_any_sign(INT, scalars::mul(INT, square.clone(), square));
            }
        }
        Data::scalar(INT, power).into()
    }

    /// A product of exact integers, shifted to the right. The product has 128 bits; a result beyond i64 is a fault if it must be exact.
    fn shifted_product(&mut self, node: Node, factors: [Term; 2], shift: u32, is_exact: bool) -> Lowered<Value> {
        let [left, right] = factors;
        let left = self.evaluate(left, None)?;
        let left = self.integer_part(node, &left)?;
        let right = self.evaluate(right, None)?;
        let right = self.integer_part(node, &right)?;
        let low = self.emitter.temp_of_any_sign(INT, scalars::mul(INT, left.clone(), right.clone()));
        let high = self.emitter.temp_of_any_sign(INT, scalars::binary(BinaryOp::MulHigh, INT, left, right));
        let by = |bits: u32| integer(INT, bits.into());
        let unsigned = scalars::cast(INT, Dtype::U64, low);
        let below = scalars::binary(BinaryOp::Shr, Dtype::U64, unsigned, scalars::cast(INT, Dtype::U64, by(shift)));
        let above = scalars::binary(BinaryOp::Shl, INT, high.clone(), by(ALL - shift));
        let shifted = scalars::binary(BinaryOp::Or, INT, scalars::cast(Dtype::U64, INT, below), above);
        let shifted = self.emitter.temp_of_any_sign(INT, shifted);
        if is_exact {
            let rest = scalars::binary(BinaryOp::Shr, INT, high, by(shift));
            let sign = scalars::binary(BinaryOp::Shr, INT, shifted.clone(), by(ALL - 1));
            self.invalid_if(node, scalars::ne(INT, rest, sign));
        }
        Ok(Data::scalar(INT, shifted).into())
    }
}

fn is_product(term: &Term) -> bool {
    matches!(term, Term::Binary(_, Operator::Mult, factors) if factors.iter().all(Term::is_integer))
}

fn wrapping_operator(op: Operator) -> BinaryOp {
    match op {
        Operator::Add => BinaryOp::Add,
        Operator::Sub => BinaryOp::Sub,
        Operator::Mult => BinaryOp::Mul,
        Operator::BitAnd => BinaryOp::And,
        Operator::BitOr => BinaryOp::Or,
        Operator::BitXor => BinaryOp::Xor,
        _ => unreachable!("an operator that keeps low bits"),
    }
}

/// The low bits of a constant.
fn wrapped(constant: i128) -> Literal {
    #[expect(clippy::cast_possible_truncation, reason = "only low bits count")]
    Literal::from_i64(INT, constant as i64)
}
