//! The facts about an operation that a client knows before it calls: name, operands, and the rules of its results' types.

use accelerd_ir::Dtype;

/// An operation by one of its names.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The name in a [`NodeSpec`](crate::NodeSpec).
    pub name: &'static str,
    /// The preferred name, if this is another one.
    pub alias_of: Option<&'static str>,
    /// The operands of an elementwise operation; empty for the others.
    pub operands: &'static [Slot],
    /// The common types of its operands that an elementwise operation takes.
    pub accepts: Accepts,
    /// The types and the number of its results.
    pub results: Results,
}

/// An operand of an elementwise operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A tensor.
    Tensor,
    /// A tensor of type bool, which has no part in the common type.
    Condition,
    /// A tensor, or a scalar in the attribute of this name.
    Either(&'static str),
    /// Likewise, or nothing.
    Optional(&'static str),
}

/// The common types that an elementwise operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// All.
    Any,
    /// Integers and floating-point numbers.
    Numbers,
    /// Integers and bool.
    Bits,
    /// Integers.
    Integers,
}

/// The results of an operation: one, unless it says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Results {
    /// The rules of shape and element type of each result; none where only the operation itself tells them.
    pub types: [Option<(ShapeRule, DtypeRule)>; 3],
    /// The number of results, unless all `conditions` hold.
    pub count: usize,
    /// The number of results if all `conditions` hold.
    pub most: usize,
    /// Conditions on attributes; empty if the number is always the same.
    pub conditions: &'static [Condition],
}

/// A condition on an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The attribute is set.
    Set(&'static str),
    /// The attribute is neither false nor 0, which it is by default.
    True(&'static str),
    /// The attribute is true, as it is by default.
    NotFalse(&'static str),
}

/// A rule of the shape of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeRule {
    /// The shape to which the operands broadcast.
    Broadcast,
    /// The shape of the first operand.
    First,
    /// The shape of the second operand.
    Second,
    /// The shape of the third operand.
    Third,
    /// The first operand's, without the dimensions `dim`, or with extent 1 for each of them if `keepdim` is true.
    Reduced,
    /// The attribute `shape`.
    Given,
    /// The shape of `concat`.
    Concat,
    /// The shape of `reshape`.
    Reshape,
    /// The shape of `flatten`.
    Flatten,
    /// The shape of `squeeze`.
    Squeeze,
    /// The shape of `unsqueeze`.
    Unsqueeze,
    /// The shape of `permute`.
    Permute,
    /// The shape of `transpose`.
    Transpose,
    /// The shape of `expand`.
    Expand,
    /// The shape of `slice`.
    Slice,
    /// The shape of `select`.
    Select,
    /// The first operand's, with `k` elements along `dim`.
    TopK,
    /// The shape of `matmul`.
    MatMul,
    /// The shape of `linear`.
    Linear,
    /// As many elements as `arange` has numbers.
    Range,
    /// As many elements as the attribute `steps` says.
    Steps,
    /// The shape of `index_select`.
    IndexSelect,
    /// The shape of `take_along_dim`.
    TakeAlongDim,
    /// The shape of `embedding`.
    Embedding,
    /// The shape of `one_hot`.
    OneHot,
}

/// A rule of the element type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DtypeRule {
    /// The type of this name.
    Is(Dtype),
    /// The common type of tensors and scalars.
    Common,
    /// The common type, or f32 if it is none of floating-point numbers.
    Float,
    /// `Float`, or `Common` if the attribute `rounding_mode` rounds the quotient to an integer.
    Quotient,
    /// Bool. The operands have a common type.
    Comparison,
    /// The type of the first operand.
    First,
    /// The type of the second operand.
    Second,
    /// The type of the third operand.
    Third,
    /// The attribute `dtype`.
    Given,
    /// The attribute `dtype`, by default this type.
    GivenOr(Dtype),
    /// The attribute `dtype`, by default that of `value`.
    OfValue,
    /// The attribute `dtype`, by default that of the numbers of `arange`.
    OfRange,
    /// The attribute `dtype`, by default the operand's, of which that of integers and bool is widened to 64 bits.
    Sum,
    /// The attribute `dtype`, by default the operand's; a floating-point type.
    Mean,
    /// As `Mean`, of floating-point numbers.
    Spread,
    /// As `Spread`, of other numbers in f32.
    FloatSpread,
    /// The promotion of all operands.
    Promoted,
    /// The type that both operands have.
    Equal,
}

impl Results {
    /// As many results, whose types only the operation itself tells.
    pub(crate) const fn untyped(count: usize) -> Self {
        Self { types: [None; 3], count, most: count, conditions: &[] }
    }

    /// A result.
    pub(crate) const fn one(shape: ShapeRule, dtype: DtypeRule) -> Self {
        Self { types: [Some((shape, dtype)), None, None], ..Self::untyped(1) }
    }

    /// Two results of the same shape.
    pub(crate) const fn two(shape: ShapeRule, dtypes: [DtypeRule; 2]) -> Self {
        Self { types: [Some((shape, dtypes[0])), Some((shape, dtypes[1])), None], ..Self::untyped(2) }
    }

    /// `most` results if all conditions hold.
    pub(crate) const fn or(self, most: usize, conditions: &'static [Condition]) -> Self {
        Self { most, conditions, ..self }
    }
}
