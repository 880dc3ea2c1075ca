//! A scalar function.

use super::{BinaryOp, Literal, UnaryOp};
use crate::Dtype;

/// The value of an earlier instruction of the same function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(super) u32);

impl ValueId {
    /// Its position in [`Function::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inst {
    /// A parameter, by its position.
    Param(u32),
    /// Position of the element in its iteration space, row-major; i64.
    Index,
    /// A constant.
    Literal(Literal),
    /// An operation of one operand.
    Unary(UnaryOp, ValueId),
    /// An operation of two operands of equal type.
    Binary(BinaryOp, ValueId, ValueId),
    /// The second operand if the first, a bool, is true, else the third, of equal type.
    Select(ValueId, ValueId, ValueId),
    /// The operand, converted to the type of the value.
    Cast(ValueId),
}

/// An instruction and the type of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The instruction that computes it.
    pub inst: Inst,
    /// Its type.
    pub dtype: Dtype,
}

/// A function of scalars, made by a [`Builder`](super::Builder): its instructions are well typed, each uses earlier ones only,
/// and each contributes to a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    pub(super) params: Vec<Dtype>,
    pub(super) values: Vec<Value>,
    pub(super) results: Vec<ValueId>,
}

impl Inst {
    /// Its operands, in order.
    pub fn operands(self) -> impl Iterator<Item = ValueId> {
        let all = match self {
            Self::Param(_) | Self::Index | Self::Literal(_) => [None; 3],
            Self::Unary(_, a) | Self::Cast(a) => [Some(a), None, None],
            Self::Binary(_, a, b) => [Some(a), Some(b), None],
            Self::Select(c, a, b) => [Some(c), Some(a), Some(b)],
        };
        all.into_iter().flatten()
    }
}

impl Function {
    /// Returns true if it depends on the position of the element.
    pub fn uses_index(&self) -> bool {
        self.values.iter().any(|value| value.inst == Inst::Index)
    }

    /// The types of its parameters, used or not.
    pub fn params(&self) -> &[Dtype] {
        &self.params
    }

    /// Its instructions in an order of evaluation.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Its results.
    pub fn results(&self) -> &[ValueId] {
        &self.results
    }

    /// The type of a value.
    pub fn dtype(&self, value: ValueId) -> Dtype {
        self.values[value.index()].dtype
    }

    /// Returns true if all results are parameters, unchanged.
    pub fn is_copy(&self) -> bool {
        self.results.iter().all(|result| matches!(self.values[result.index()].inst, Inst::Param(_)))
    }
}
