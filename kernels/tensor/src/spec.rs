//! A graph as a caller describes it.

use std::collections::BTreeMap;

use accelerd_ir::Dtype;

/// Element type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: Dtype,
    /// Extent of each dimension, outermost first.
    pub shape: Vec<usize>,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A word, such as the name of a type.
    Text(String),
    /// Integers, such as dimensions.
    Ints(Vec<i64>),
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSpec {
    /// Unique among the nodes and inputs of the graph.
    pub name: String,
    /// Name of the operation, as in PyTorch: `add`.
    pub op: String,
    /// Names of the inputs or nodes that it reads. Results of a node after the first are `NAME:1`, `NAME:2`, and so on.
    pub inputs: Vec<String>,
    /// Attributes by name, as PyTorch's keyword arguments.
    pub attributes: BTreeMap<String, Attribute>,
}

/// A graph: operations in any order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphSpec {
    /// Names and types of the inputs.
    pub inputs: Vec<(String, TensorType)>,
    /// The operations.
    pub nodes: Vec<NodeSpec>,
    /// Names of the values to return, as those of a node's inputs.
    pub outputs: Vec<String>,
}

impl TensorType {
    /// Number of elements; at most `usize::MAX`.
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |product: usize, extent| product.saturating_mul(*extent))
    }

    /// Bytes of the elements; at most `usize::MAX`.
    pub fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.dtype.size())
    }

    /// Type and shape, for an error.
    pub(crate) fn describe(&self) -> String {
        format!("{} of shape {:?}", self.dtype, self.shape)
    }
}
