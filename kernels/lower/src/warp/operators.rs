//! Operators of the Warp dialect: operands of one scalar type, as in Warp's headers.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{AtomicOp, Expr, Place, Stmt};
use accelerd_ir::scalar::{BinaryOp, UnaryOp};
use accelerd_parser::Operator;

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::Lowerer;
use crate::source::syntax::Node;
use crate::types::Type;
use crate::values::constants::{adapted, function_of, symbol};
use crate::values::scalars;
use crate::values::{Data, Location, Storage, Value};

impl Lowerer<'_> {
    /// The result of an operator of two operands.
    pub(crate) fn warp_binary(&mut self, node: Node, op: Operator, left: Data, right: Data) -> Lowered<Value> {
        let message = format!("`{}` does not take {} and {}", symbol(op), left.ty, right.ty);
        let result = self.warp_operation(op, left, right);
        result.map(Value::Data).ok_or_else(|| self.error(node, ErrorKind::TypeMismatch, message))
    }

    /// The result of an operator; `None` if it does not take the operands.
    pub(crate) fn warp_operation(&mut self, op: Operator, left: Data, right: Data) -> Option<Data> {
        if [&left.ty, &right.ty].iter().any(|ty| matches!(ty, Type::Tile(_))) {
            return self.tile_operation(op, left, right);
        }
        let (left, right) = unified(left, right)?;
        let dtype = left.ty.scalar()?;
        match (&left.ty, &right.ty) {
            (Type::Scalar(_), Type::Scalar(_)) => {
                let [a, b] = [left, right].map(|data| data.parts.into_iter().next().expect("a scalar has a part"));
                let result = self.scalar_operation(op, dtype, a, b)?;
                Some(Data::scalar(dtype, result))
            }
            (Type::Quat(_), Type::Quat(_)) if op == Operator::Mult => Some(self.quat_product(left, right)),
            (Type::Transform(_), Type::Transform(_)) if op == Operator::Mult => {
                Some(self.transform_product(left, right))
            }
            (Type::Matrix(..), Type::Matrix(..)) if matches!(op, Operator::Mult | Operator::MatMult) => {
                self.matrix_product(left, right)
            }
            (Type::Matrix(..), Type::Vector(..)) if matches!(op, Operator::Mult | Operator::MatMult) => {
                self.matrix_vector_product(left, right)
            }
            (Type::Vector(..), Type::Matrix(..)) if matches!(op, Operator::Mult | Operator::MatMult) => {
                self.vector_matrix_product(left, right)
            }
            (Type::Scalar(_), other) if is_scaling(op, other) => {
                let left = self.bind(left);
                let ty = right.ty.clone();
                let scale = left.parts[0].clone();
                self.by_component(op, dtype, ty, right.parts.into_iter().map(|part| (scale.clone(), part)))
            }
            (other, Type::Scalar(_)) if is_scaling(op, other) => {
                let right = self.bind(right);
                let ty = left.ty.clone();
                let scale = right.parts[0].clone();
                self.by_component(op, dtype, ty, left.parts.into_iter().map(|part| (part, scale.clone())))
            }
            (a, b) if a == b && is_componentwise(op, a) => {
                let ty = left.ty.clone();
                self.by_component(op, dtype, ty, left.parts.into_iter().zip(right.parts))
            }
            _ => None,
        }
    }

    fn by_component(
        &mut self,
        op: Operator,
        dtype: Dtype,
        ty: Type,
        operands: impl Iterator<Item = (Expr, Expr)>,
    ) -> Option<Data> {
        let parts = operands.map(|(a, b)| self.scalar_operation(op, dtype, a, b)).collect::<Option<Vec<_>>>()?;
        Some(Data::new(ty, parts))
    }

    /// An operator of two scalars of a type.
    pub(crate) fn scalar_operation(&mut self, op: Operator, dtype: Dtype, a: Expr, b: Expr) -> Option<Expr> {
        let is_number = dtype != Dtype::Bool;
        let binary = |op| Some(scalars::binary(op, dtype, a.clone(), b.clone()));
        match op {
            Operator::Add if is_number => binary(BinaryOp::Add),
            Operator::Sub if is_number => binary(BinaryOp::Sub),
            Operator::Mult if is_number => binary(BinaryOp::Mul),
            Operator::Div if is_number => binary(BinaryOp::Div),
            Operator::Mod if is_number => binary(BinaryOp::Rem),
            Operator::Pow if dtype.is_float() => binary(BinaryOp::Pow),
            Operator::FloorDiv if dtype.is_float() => {
                Some(scalars::unary(UnaryOp::Floor, dtype, scalars::div(dtype, a, b)))
            }
            Operator::FloorDiv if dtype.is_integer() => Some(self.floor_quotient(dtype, a, b)),
            Operator::LShift if dtype.is_integer() => binary(BinaryOp::Shl),
            Operator::RShift if dtype.is_integer() => binary(BinaryOp::Shr),
            Operator::BitAnd if dtype.is_integer() => binary(BinaryOp::And),
            Operator::BitOr if dtype.is_integer() => binary(BinaryOp::Or),
            Operator::BitXor if dtype.is_integer() => binary(BinaryOp::Xor),
            _ => None,
        }
    }

    /// The quotient of integers, rounded down.
    pub(crate) fn floor_quotient(&mut self, dtype: Dtype, a: Expr, b: Expr) -> Expr {
        let a = self.emitter.bind(dtype, a);
        let b = self.emitter.bind(dtype, b);
        let quotient = scalars::div(dtype, a.clone(), b.clone());
        if !dtype.is_signed() {
            return quotient;
        }
        let zero = || scalars::integer(dtype, 0);
        let rest = scalars::binary(BinaryOp::Rem, dtype, a, b.clone());
        let rest = self.emitter.bind(dtype, rest);
        let quotient = self.emitter.bind(dtype, quotient);
        let signs = scalars::binary(
            BinaryOp::Xor,
            Dtype::Bool,
            scalars::lt(dtype, rest.clone(), zero()),
            scalars::lt(dtype, b, zero()),
        );
        let is_rounded_up = scalars::and(scalars::ne(dtype, rest, zero()), signs);
        scalars::select(is_rounded_up, scalars::sub(dtype, quotient.clone(), scalars::integer(dtype, 1)), quotient)
    }

    /// The result of an operator of one operand other than `not`.
    pub(crate) fn warp_unary(&mut self, node: Node, op: Operator, data: Data) -> Lowered<Value> {
        let message = format!("`{}` does not take {}", symbol(op), data.ty);
        let dtype = data.ty.scalar().filter(|dtype| *dtype != Dtype::Bool);
        match (op, dtype) {
            (Operator::UAdd, Some(_)) => Ok(data.without_constant().into()),
            (Operator::USub, Some(dtype)) => Ok(data.map(|part| negated(&data.ty, dtype, part)).into()),
            (Operator::Invert, Some(dtype)) if dtype.is_integer() => {
                Ok(data.map(|part| scalars::unary(UnaryOp::Not, dtype, part)).into())
            }
            _ => Err(self.error(node, ErrorKind::TypeMismatch, message)),
        }
    }

    /// Lowers an augmented assignment to an element of an array as an atomic operation; `false` if its type has none.
    pub(crate) fn augment_atomically(
        &mut self,
        node: Node,
        op: Operator,
        location: &Location,
        value: Node,
    ) -> Lowered<bool> {
        let Some(dtype) = location.ty.scalar().filter(|dtype| is_atomic(AtomicOp::Add, *dtype)) else {
            return Ok(false);
        };
        let is_bitwise = !matches!(op, Operator::Add | Operator::Sub);
        // An operator that the source defines is no atomic operation.
        let name = function_of(op).unwrap_or_default();
        let scope = self.outer_scope();
        if !self.environment.declarations.functions_named(self.syntax(), scope, name).is_empty() {
            return Ok(false);
        }
        if !is_atomic_operator(op) || is_bitwise && !dtype.is_integer() || location.index.is_some() {
            return Ok(false);
        }
        let value = self.expression(value)?;
        let Value::Data(data) = value else {
            return Err(self.error(node, ErrorKind::TypeMismatch, format!("expected a value, got {value}")));
        };
        let data = self.converted_element(node, &location.ty, data)?;
        let op = match op {
            Operator::Add | Operator::Sub => AtomicOp::Add,
            Operator::BitAnd => AtomicOp::And,
            Operator::BitOr => AtomicOp::Or,
            _ => AtomicOp::Xor,
        };
        let is_negated = self.syntax().operator(node) == Operator::Sub;
        let parts =
            data.parts.into_iter().map(|part| if is_negated { scalars::neg(dtype, part) } else { part }).collect();
        self.atomic(op, location, parts, None, false);
        Ok(true)
    }

    /// Emits an atomic operation for each component of an element, and returns the previous values if they are wanted.
    pub(crate) fn atomic(
        &mut self,
        op: AtomicOp,
        location: &Location,
        operands: Vec<Expr>,
        expected: Option<&[Expr]>,
        is_result_used: bool,
    ) -> Vec<Expr> {
        let Storage::Element { array, indices, site } = &location.storage else {
            unreachable!("an atomic operation has an element of an array")
        };
        let site = self.emitter.access_site(*site, *array, indices);
        let types = location.ty.components();
        let mut previous_values = vec![];
        for (nth, (component, operand)) in location.choices[0].iter().zip(operands).enumerate() {
            let previous = is_result_used.then(|| self.emitter.local("previous", types[nth]));
            previous_values.extend(previous.map(Expr::Local));
            let place = Place { array: *array, indices: indices.clone(), component: *component, site };
            let expected = expected.map(|expected| expected[nth].clone());
            self.emitter.emit(Stmt::Atomic { op, place, operand, expected, previous });
        }
        previous_values
    }
}

/// The negation of a part of a value. Warp subtracts a scalar from 0, so the negation of 0.0 is 0.0; components change their signs.
pub(crate) fn negated(ty: &Type, dtype: Dtype, part: Expr) -> Expr {
    match ty {
        Type::Scalar(_) if dtype.is_float() => scalars::sub(dtype, scalars::literal(dtype, 0.0), part),
        _ => scalars::neg(dtype, part),
    }
}

/// Returns true if Warp has an atomic operation of a type.
pub(crate) fn is_atomic(op: AtomicOp, dtype: Dtype) -> bool {
    let is_extremum = matches!(op, AtomicOp::Min | AtomicOp::Max);
    op.takes(dtype) && !(is_extremum && dtype == Dtype::F16)
}

/// Returns true if an operator applies to each component of a value and a scalar.
fn is_scaling(op: Operator, ty: &Type) -> bool {
    op == Operator::Mult || op == Operator::Div && !matches!(ty, Type::Transform(_))
}

/// Returns true if an operator applies to the components of two equal types.
fn is_componentwise(op: Operator, ty: &Type) -> bool {
    match ty {
        Type::Vector(..) => {
            !matches!(op, Operator::Mult | Operator::Div | Operator::Pow | Operator::FloorDiv | Operator::MatMult)
        }
        Type::Matrix(..) => !matches!(
            op,
            Operator::Mult | Operator::Div | Operator::Pow | Operator::FloorDiv | Operator::MatMult | Operator::Mod
        ),
        Type::Quat(_) | Type::Transform(_) => matches!(op, Operator::Add | Operator::Sub),
        Type::Scalar(_) | Type::Struct(_) | Type::Tile(_) => false,
    }
}

/// The operands with one scalar type: a constant takes the type of the other operand.
pub(crate) fn unified(left: Data, right: Data) -> Option<(Data, Data)> {
    let a = left.ty.scalar()?;
    let b = right.ty.scalar()?;
    if a == b {
        return Some((left, right));
    }
    if matches!(left.ty, Type::Scalar(_))
        && let Some(left) = adapted(&left, b)
    {
        return Some((left, right));
    }
    if matches!(right.ty, Type::Scalar(_))
        && let Some(right) = adapted(&right, a)
    {
        return Some((left, right));
    }
    None
}

/// The type in which C compares two scalars; 16-bit floating-point types are classes there and have none.
pub(crate) fn c_common(a: Dtype, b: Dtype) -> Option<Dtype> {
    if a.compute() != a || b.compute() != b {
        return None;
    }
    if a.is_float() || b.is_float() {
        return Some(if a == Dtype::F64 || b == Dtype::F64 { Dtype::F64 } else { Dtype::F32 });
    }
    let [a, b] = [a, b].map(|dtype| if dtype.size() < 4 { Dtype::I32 } else { dtype });
    let size = a.size().max(b.size());
    let is_unsigned = [a, b].iter().any(|dtype| dtype.size() == size && !dtype.is_signed());
    Some(match (size, is_unsigned) {
        (4, false) => Dtype::I32,
        (4, true) => Dtype::U32,
        (_, false) => Dtype::I64,
        (_, true) => Dtype::U64,
    })
}

/// A comparison of scalars of a type.
pub(crate) fn scalar_comparison(op: Operator, dtype: Dtype, a: Expr, b: Expr) -> Option<Expr> {
    Some(match op {
        Operator::Eq => scalars::eq(dtype, a, b),
        Operator::NotEq => scalars::ne(dtype, a, b),
        Operator::Lt => scalars::lt(dtype, a, b),
        Operator::LtE => scalars::le(dtype, a, b),
        Operator::Gt => scalars::lt(dtype, b, a),
        Operator::GtE => scalars::le(dtype, b, a),
        _ => return None,
    })
}

/// A comparison. Scalars of different types are converted as C converts them.
pub(crate) fn warp_comparison(op: Operator, left: Data, right: Data) -> Option<Expr> {
    let (left, right) = if let Some(both) = unified(left.clone(), right.clone()) {
        both
    } else {
        let common = c_common(left.as_scalar()?.0, right.as_scalar()?.0)?;
        let convert = |data: Data| {
            let (dtype, part) = data.as_scalar().expect("checked");
            Data::scalar(common, scalars::cast(dtype, common, part.clone()))
        };
        (convert(left), convert(right))
    };
    let dtype = left.ty.scalar()?;
    if left.ty != right.ty {
        return None;
    }
    let is_scalar = matches!(left.ty, Type::Scalar(_));
    let pairs = left.parts.into_iter().zip(right.parts);
    match op {
        Operator::Eq => Some(scalars::all(pairs.map(|(a, b)| scalars::eq(dtype, a, b)))),
        Operator::NotEq => Some(scalars::any(pairs.map(|(a, b)| scalars::ne(dtype, a, b)))),
        _ if !is_scalar => None,
        _ => {
            let (a, b) = pairs.into_iter().next()?;
            scalar_comparison(op, dtype, a, b)
        }
    }
}

/// Returns true if an augmented assignment with an operator is atomic.
fn is_atomic_operator(op: Operator) -> bool {
    matches!(op, Operator::Add | Operator::Sub | Operator::BitAnd | Operator::BitOr | Operator::BitXor)
}
