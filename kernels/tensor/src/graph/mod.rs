//! A checked graph: operations in topological order, with the types of all values.

pub(crate) mod composite;

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
    /// The position of the caller's node that it is, or is a part of.
    pub(crate) caller: usize,
}

impl Graph {
    /// Checks names, operations, attributes and types. Nodes that no output needs are checked as well, and dropped.
    ///
    /// # Errors
    /// The error names the node and the field, and says what was expected.
    pub fn new(spec: &GraphSpec) -> Result<Self, GraphError> {
        let names = Names::new(spec)?;
        let mut graph = Self { inputs: vec![], nodes: vec![], outputs: vec![] };
        for (nth, (_, of)) in spec.inputs.iter().enumerate() {
            check_size("", &format!("inputs[{nth}].value.shape"), of)?;
            graph.inputs.push(of.clone());
        }
        let mut results = vec![vec![]; spec.nodes.len()];
        for nth in names.order(spec)? {
            let first = graph.nodes.len();
            results[nth] = graph.add(&spec.nodes[nth], &names, &results)?;
            graph.nodes[first..].iter_mut().for_each(|node| node.caller = nth);
            names.check_results(&spec.nodes[nth], results[nth].len())?;
        }
        for (nth, name) in spec.outputs.iter().enumerate() {
            let field = format!("outputs[{nth}].name");
            let unknown = || GraphError::of_graph(field, names.expected(name, &results), name);
            graph.outputs.push(names.value(name, &results).ok_or_else(unknown)?);
        }
        if graph.outputs.is_empty() {
            return Err(GraphError::of_graph("outputs", "at least one name", "none"));
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

    /// Adds the nodes of an operation, and returns its results.
    fn add(
        &mut self,
        spec: &NodeSpec,
        names: &Names<'_>,
        results: &[Vec<ValueId>],
    ) -> Result<Vec<ValueId>, GraphError> {
        let operand = |(nth, name): (usize, &String)| {
            let unknown = || GraphError::new(&spec.name, format!("inputs[{nth}]"), names.expected(name, results), name);
            names.value(name, results).ok_or_else(unknown)
        };
        let operands: Vec<_> = spec.inputs.iter().enumerate().map(operand).collect::<Result<_, _>>()?;
        let expanded = composite::expand(self, spec, &operands);
        expanded.unwrap_or_else(|| self.infer(spec, &operands).map(|value| vec![value]))
    }

    /// Adds an operation of one result.
    pub(crate) fn infer(&mut self, spec: &NodeSpec, operands: &[ValueId]) -> Result<ValueId, GraphError> {
        let types: Vec<_> = operands.iter().map(|operand| self.type_of(*operand)).collect();
        let (op, result) = infer(spec, &types)?;
        self.push(&spec.name, op, operands, result)
    }

    /// Adds a node on behalf of the caller's node `name`, whose position [`Graph::new`] sets.
    pub(crate) fn push(
        &mut self,
        name: &str,
        op: Op,
        operands: &[ValueId],
        result: TensorType,
    ) -> Result<ValueId, GraphError> {
        check_size(name, "op", &result)?;
        self.nodes.push(Node { op, operands: operands.to_vec(), result, caller: 0 });
        Ok(ValueId::Node(self.nodes.len() - 1))
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

impl TensorType {
    /// Returns true if a graph could have a value of this type.
    ///
    /// # Errors
    /// Too many dimensions, or more bytes than any device holds. The error is that of the field `field` of `node`.
    pub fn check_size(&self, node: &str, field: &str) -> Result<(), GraphError> {
        check_size(node, field, self)
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

/// The node and the number of a result after the first: `t` and 1 of `t:1`.
pub(crate) fn result_of(name: &str) -> Option<(&str, usize)> {
    let (node, number) = name.rsplit_once(':')?;
    let nth = number.parse().ok().filter(|nth: &usize| *nth > 0 && nth.to_string() == number)?;
    Some((node, nth))
}

/// Where each name of a graph is defined. The results of a node after the first have its name and their number: `t:1`.
struct Names<'a> {
    defined: HashMap<&'a str, Definition>,
    nodes: &'a [NodeSpec],
}

#[derive(Clone, Copy)]
enum Definition {
    Input(usize),
    Node(usize),
}

impl<'a> Names<'a> {
    fn new(spec: &'a GraphSpec) -> Result<Self, GraphError> {
        let inputs = spec.inputs.iter().enumerate().map(|(nth, (name, _))| (name, Definition::Input(nth)));
        let nodes = spec.nodes.iter().enumerate().map(|(nth, node)| (&node.name, Definition::Node(nth)));
        let mut defined = HashMap::new();
        for (name, definition) in inputs.chain(nodes) {
            let field = || match definition {
                Definition::Input(nth) => format!("inputs[{nth}].name"),
                Definition::Node(nth) => format!("nodes[{nth}].name"),
            };
            if name.is_empty() {
                return Err(GraphError::of_graph(field(), "a name", "an empty string"));
            }
            if defined.insert(name.as_str(), definition).is_some() {
                let got = format!("{name}, which is used twice");
                return Err(match definition {
                    Definition::Input(_) => GraphError::of_graph(field(), "a unique name", got),
                    Definition::Node(_) => GraphError::new(name, "name", "a unique name", got),
                });
            }
        }
        Ok(Self { defined, nodes: &spec.nodes })
    }

    /// The node that defines a name, and which of its results the name means.
    fn resolve(&self, name: &str) -> Option<(Definition, usize)> {
        if let Some(definition) = self.defined.get(name) {
            return Some((*definition, 0));
        }
        let (node, nth) = result_of(name)?;
        let definition = *self.defined.get(node)?;
        matches!(definition, Definition::Node(_)).then_some((definition, nth))
    }

    /// The value of a name whose node has results.
    fn value(&self, name: &str, results: &[Vec<ValueId>]) -> Option<ValueId> {
        match self.resolve(name)? {
            (Definition::Input(nth), _) => Some(ValueId::Input(nth)),
            (Definition::Node(node), nth) => results[node].get(nth).copied(),
        }
    }

    /// The kind of value that a name without one should have.
    fn expected(&self, name: &str, results: &[Vec<ValueId>]) -> String {
        let Some((Definition::Node(node), _)) = self.resolve(name) else {
            return "the name of an input or a node".to_owned();
        };
        let NodeSpec { name, op, .. } = &self.nodes[node];
        match results[node].len() {
            1 => format!("{name}, the only result of {op}"),
            count => format!("one of the {count} results of {op}, {name} to {name}:{}", count - 1),
        }
    }

    /// Refuses names that are also those of further results of a node.
    fn check_results(&self, node: &NodeSpec, count: usize) -> Result<(), GraphError> {
        let mut further = (1..count).map(|nth| format!("{}:{nth}", node.name));
        let Some(taken) = further.find(|name| self.defined.contains_key(name.as_str())) else { return Ok(()) };
        let expected = format!("a name other than those of the {count} results of {}", node.name);
        Err(GraphError::new(&taken, "name", expected, &taken))
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
                if let (Definition::Node(operand), _) = self.resolve(input).ok_or_else(unknown)? {
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
