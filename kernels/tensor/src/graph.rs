//! A checked graph: operations in topological order, with the types of all values.

use std::collections::HashMap;

use crate::{GraphError, GraphSpec, NodeSpec, TensorType, infer::infer, op::Op};

/// The most bytes of a value: far above what a device holds, and far below what sizes and strides can express.
const MAX_BYTES: u128 = 1 << 46;

/// A checked graph.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) inputs: Vec<TensorType>,
    /// In topological order; each is needed for an output.
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<ValueId>,
}

/// An input of the graph or the result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ValueId {
    Input(usize),
    Node(usize),
}

/// An operation with its operands and the type of its result.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) operands: Vec<ValueId>,
    pub(crate) result: TensorType,
}

impl Graph {
    /// Checks names, operations, attributes and types. Nodes that no output needs are checked as well, and dropped.
    ///
    /// # Errors
    /// The error names the node and the field, and says what was expected.
    pub fn new(spec: &GraphSpec) -> Result<Self, GraphError> {
        let names = Names::new(spec)?;
        let mut graph = Self { inputs: vec![], nodes: vec![], outputs: vec![] };
        for (name, of) in &spec.inputs {
            check_size(name, "shape", of)?;
            graph.inputs.push(of.clone());
        }
        let mut places = vec![None; spec.nodes.len()];
        for nth in names.order(spec)? {
            let node = graph.infer(&spec.nodes[nth], &names, &places)?;
            places[nth] = Some(ValueId::Node(graph.nodes.len()));
            graph.nodes.push(node);
        }
        for (nth, name) in spec.outputs.iter().enumerate() {
            let unknown = || GraphError::new(name, format!("outputs[{nth}]"), "the name of an input or a node", name);
            graph.outputs.push(names.value(name, &places).ok_or_else(unknown)?);
        }
        if graph.outputs.is_empty() {
            return Err(GraphError::new("graph", "outputs", "at least one name", "none"));
        }
        graph.drop_unused();
        Ok(graph)
    }

    /// The types of the outputs.
    pub fn output_types(&self) -> Vec<TensorType> {
        self.outputs.iter().map(|output| self.type_of(*output).clone()).collect()
    }

    pub(crate) fn type_of(&self, value: ValueId) -> &TensorType {
        match value {
            ValueId::Input(nth) => &self.inputs[nth],
            ValueId::Node(nth) => &self.nodes[nth].result,
        }
    }

    fn infer(&self, spec: &NodeSpec, names: &Names<'_>, places: &[Option<ValueId>]) -> Result<Node, GraphError> {
        let operands: Vec<_> = spec
            .inputs
            .iter()
            .map(|name| names.value(name, places).expect("nodes come after what they read"))
            .collect();
        let types: Vec<_> = operands.iter().map(|operand| self.type_of(*operand)).collect();
        let (op, result) = infer(spec, &types)?;
        check_size(&spec.name, "op", &result)?;
        Ok(Node { op, operands, result })
    }

    /// Keeps the nodes that outputs need.
    fn drop_unused(&mut self) {
        let mut needed = vec![false; self.nodes.len()];
        let mark = |values: &[ValueId], needed: &mut Vec<bool>| {
            for value in values {
                if let ValueId::Node(nth) = *value {
                    needed[nth] = true;
                }
            }
        };
        mark(&self.outputs, &mut needed);
        for nth in (0..self.nodes.len()).rev() {
            if needed[nth] {
                mark(&self.nodes[nth].operands, &mut needed);
            }
        }
        let counts = needed.iter().scan(0, |kept, needed| {
            let place = *kept;
            *kept += usize::from(*needed);
            Some(place)
        });
        let places: Vec<_> = counts.collect();
        let place = |value: &mut ValueId| {
            if let ValueId::Node(nth) = value {
                *nth = places[*nth];
            }
        };
        let mut needed = needed.into_iter();
        self.nodes.retain(|_| needed.next().unwrap_or(false));
        self.nodes.iter_mut().flat_map(|node| &mut node.operands).chain(&mut self.outputs).for_each(place);
    }
}

/// Refuses values whose size no machine can hold.
fn check_size(node: &str, field: &str, of: &TensorType) -> Result<(), GraphError> {
    if of.shape.len() > crate::MAX_RANK {
        let expected = format!("at most {} dimensions", crate::MAX_RANK);
        return Err(GraphError::new(node, field, expected, of.shape.len()));
    }
    // Strides exist of tensors without elements, too.
    let bytes =
        of.shape.iter().fold(of.dtype.size() as u128, |bytes, extent| bytes.saturating_mul((*extent).max(1) as u128));
    if bytes > MAX_BYTES {
        let got = format!("{} of shape {:?}", of.dtype, of.shape);
        return Err(GraphError::new(node, field, format!("a tensor of at most {MAX_BYTES} bytes"), got));
    }
    Ok(())
}

/// Where each name of a graph is defined.
struct Names<'a>(HashMap<&'a str, Definition>);

#[derive(Clone, Copy)]
enum Definition {
    Input(usize),
    Node(usize),
}

impl<'a> Names<'a> {
    fn new(spec: &'a GraphSpec) -> Result<Self, GraphError> {
        let inputs = spec.inputs.iter().enumerate().map(|(nth, (name, _))| (name, Definition::Input(nth)));
        let nodes = spec.nodes.iter().enumerate().map(|(nth, node)| (&node.name, Definition::Node(nth)));
        let mut names = HashMap::new();
        for (name, definition) in inputs.chain(nodes) {
            if name.is_empty() {
                return Err(GraphError::new(name, "name", "a name", "an empty string"));
            }
            if names.insert(name.as_str(), definition).is_some() {
                return Err(GraphError::new(name, "name", "a unique name", "one that is used twice"));
            }
        }
        Ok(Self(names))
    }

    /// The value of a name whose node has its place.
    fn value(&self, name: &str, places: &[Option<ValueId>]) -> Option<ValueId> {
        match *self.0.get(name)? {
            Definition::Input(nth) => Some(ValueId::Input(nth)),
            Definition::Node(nth) => places[nth],
        }
    }

    /// The nodes in topological order, by depth-first search without recursion.
    fn order(&self, spec: &GraphSpec) -> Result<Vec<usize>, GraphError> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut states = vec![State::New; spec.nodes.len()];
        let mut order = Vec::with_capacity(spec.nodes.len());
        for root in 0..spec.nodes.len() {
            let mut stack = vec![(root, 0)];
            while let Some((nth, next)) = stack.pop() {
                let node = &spec.nodes[nth];
                if next == 0 && states[nth] == State::Done {
                    continue;
                }
                states[nth] = State::Open;
                let Some(input) = node.inputs.get(next) else {
                    states[nth] = State::Done;
                    order.push(nth);
                    continue;
                };
                stack.push((nth, next + 1));
                let unknown =
                    || GraphError::new(&node.name, format!("inputs[{next}]"), "the name of an input or a node", input);
                if let Definition::Node(operand) = *self.0.get(input.as_str()).ok_or_else(unknown)? {
                    match states[operand] {
                        State::New => stack.push((operand, 0)),
                        State::Open => return Err(cycle(spec, &stack, operand)),
                        State::Done => {}
                    }
                }
            }
        }
        Ok(order)
    }
}

/// The error of a path that leads back to `start`.
fn cycle(spec: &GraphSpec, path: &[(usize, usize)], start: usize) -> GraphError {
    let from = path.iter().position(|(nth, _)| *nth == start).unwrap_or(0);
    let names: Vec<_> = path[from..].iter().map(|(nth, _)| spec.nodes[*nth].name.as_str()).collect();
    let shown = if names.len() > 8 {
        format!("{} and {} more", names[..8].join(", "), names.len() - 8)
    } else {
        names.join(", ")
    };
    GraphError::new(&spec.nodes[start].name, "inputs", "no cycle", format!("a cycle through {shown}"))
}
