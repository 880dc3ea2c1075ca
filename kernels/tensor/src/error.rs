//! Errors of graphs.

/// A graph is malformed: where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node:?}: {field}: expected {expected}, got {got}")]
pub struct GraphError {
    /// Name of the node, or of the input or output of the graph.
    pub node: String,
    /// The part that is wrong: `op`, `inputs`, `inputs[1]`, `attributes.dim`, ...
    pub field: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub got: String,
}

impl GraphError {
    /// An error of a field of a node.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass what they have just made")]
    pub fn new(
        node: impl Into<String>,
        field: impl Into<String>,
        expected: impl Into<String>,
        got: impl ToString,
    ) -> Self {
        Self { node: node.into(), field: field.into(), expected: expected.into(), got: got.to_string() }
    }
}
