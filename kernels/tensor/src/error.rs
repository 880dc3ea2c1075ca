//! Errors of graphs.

/// A graph is malformed: where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{field}: expected {expected}, got {got}", of_node(node))]
pub struct GraphError {
    /// Name of the node; empty if the error is one of an input or output of the graph.
    pub node: String,
    /// The part that is wrong: of a node `op`, `inputs`, `inputs[1]`, `attributes.dim`, ...; of the graph `outputs[0].name`, ...
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

    /// An error of a field of the graph.
    pub(crate) fn of_graph(field: impl Into<String>, expected: impl Into<String>, got: impl ToString) -> Self {
        Self::new("", field, expected, got)
    }
}

fn of_node(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("node {name:?}: ") }
}
