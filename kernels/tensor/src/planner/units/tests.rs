//! Units are those of a plain search: every merge looks for paths through the whole graph.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{
    super::unit_graph::{MAX_INPUTS, MAX_INSTRUCTIONS, MAX_OUTPUTS, MAX_WORK_PER_NODE, function},
    *,
};
use crate::{Attribute, Dtype, GraphSpec, NodeSpec, TensorType, op::Op};

/// The units of a graph.
struct Reference {
    /// The unit of each node, by the number of one of its nodes.
    unit: Vec<usize>,
    /// The nodes of each unit in ascending order, which is topological; empty for merged ones.
    members: Vec<Vec<usize>>,
    /// The nodes that read each node; nothing stands for an output of the graph.
    readers: Vec<Vec<Option<usize>>>,
}

impl Reference {
    fn new(graph: &Graph) -> Self {
        let count = graph.nodes.len();
        let members = (0..count).map(|nth| vec![nth]).collect();
        let mut units = Self { unit: (0..count).collect(), members, readers: readers(graph) };
        for (nth, node) in graph.nodes.iter().enumerate() {
            for operand in node.operands.clone() {
                if let ValueId::Node(producer) = operand {
                    units.merge(graph, producer, nth);
                }
            }
        }
        units
    }

    /// The other units whose results a unit reads.
    fn producers<'a>(&'a self, graph: &'a Graph, unit: usize) -> impl Iterator<Item = usize> + 'a {
        let operands = self.members[unit].iter().flat_map(|&member| &graph.nodes[member].operands);
        operands.filter_map(move |operand| match operand {
            ValueId::Node(nth) => Some(self.unit[*nth]).filter(|producer| *producer != unit),
            ValueId::Input(_) => None,
        })
    }

    /// Merges the units of two elementwise operations, the second of which reads the first, if they may share a kernel.
    fn merge(&mut self, graph: &Graph, producer: usize, consumer: usize) {
        let (a, b) = (self.unit[producer], self.unit[consumer]);
        let (first, second) = (&graph.nodes[producer], &graph.nodes[consumer]);
        let are_maps = matches!((&first.op, &second.op), (Op::Map(_), Op::Map(_)));
        if a == b || !are_maps || first.result.shape != second.result.shape || !self.fits(graph, a, b) {
            return;
        }
        if self.reaches_through_third(graph, a, b) || self.reaches_through_third(graph, b, a) {
            return;
        }
        let moved = std::mem::take(&mut self.members[a]);
        for &node in &moved {
            self.unit[node] = b;
        }
        let members = &mut self.members[b];
        members.extend(moved);
        members.sort_unstable();
    }

    /// Returns true if a kernel of both units is small enough.
    fn fits(&self, graph: &Graph, a: usize, b: usize) -> bool {
        let members = || self.members[a].iter().chain(&self.members[b]).map(|&member| &graph.nodes[member]);
        let instructions: usize = members().map(|node| function(&node.op).map_or(0, |f| f.values().len())).sum();
        let outside: HashSet<_> = members()
            .flat_map(|node| &node.operands)
            .filter(|operand| !matches!(operand, ValueId::Node(nth) if [a, b].contains(&self.unit[*nth])))
            .collect();
        instructions <= MAX_INSTRUCTIONS && outside.len() <= MAX_INPUTS && self.outputs(a, b) <= MAX_OUTPUTS
    }

    /// The number of values that a kernel of both units writes: those that others read.
    fn outputs(&self, a: usize, b: usize) -> usize {
        let is_inside = |node: &usize| [a, b].contains(&self.unit[*node]);
        let is_read =
            |node: &&usize| self.readers[**node].iter().any(|reader| reader.is_none_or(|reader| !is_inside(&reader)));
        self.members[a].iter().chain(&self.members[b]).filter(is_read).count()
    }

    /// Returns true if `to` depends on `from` through another unit.
    fn reaches_through_third(&self, graph: &Graph, from: usize, to: usize) -> bool {
        let mut seen = HashSet::from([to]);
        let mut stack: Vec<_> = self.producers(graph, to).filter(|producer| *producer != from).collect();
        while let Some(unit) = stack.pop() {
            if unit == from {
                return true;
            }
            if seen.insert(unit) {
                stack.extend(self.producers(graph, unit));
            }
        }
        false
    }
}

/// The nodes that read each node; nothing stands for an output of the graph.
fn readers(graph: &Graph) -> Vec<Vec<Option<usize>>> {
    let mut readers = vec![vec![]; graph.nodes.len()];
    let of_nodes = graph
        .nodes
        .iter()
        .enumerate()
        .flat_map(|(nth, node)| node.operands.iter().map(move |value| (value, Some(nth))));
    for (value, reader) in of_nodes.chain(graph.outputs.iter().map(|value| (value, None))) {
        if let ValueId::Node(nth) = *value {
            readers[nth].push(reader);
        }
    }
    readers
}

/// Graphs of few shapes with many inputs, whose operations read what is near, or anything.
fn graphs() -> impl Strategy<Value = GraphSpec> {
    let index = any::<prop::sample::Index>;
    let node = (0..20_u8, 1..200_usize, index(), index());
    (1..40_usize, prop::collection::vec(node, 1..150), prop::collection::vec(index(), 1..30)).prop_map(
        |(inputs, nodes, outputs)| {
            let mut names: Vec<_> = (0..inputs).map(|nth| format!("x{nth}")).collect();
            let of = TensorType { dtype: Dtype::F32, shape: vec![4, 4] };
            let inputs = names.iter().map(|name| (name.clone(), of.clone())).collect();
            let node = |(nth, (op, near, a, b)): (usize, (u8, usize, prop::sample::Index, prop::sample::Index))| {
                let near = &names[names.len().saturating_sub(near)..];
                let (a, b) = (near[a.index(near.len())].clone(), names[b.index(names.len())].clone());
                let dims = [("dim0", 0), ("dim1", 1)].map(|(name, dim)| (name.to_owned(), Attribute::Int(dim)));
                let (op, inputs, attributes) = match op {
                    0 => ("transpose", vec![a], dims.into()),
                    1 => ("matmul", vec![a, b], [].into()),
                    2..6 => ("exp", vec![a], [].into()),
                    _ => ("add", vec![a, b], [].into()),
                };
                names.push(format!("n{nth}"));
                NodeSpec { name: format!("n{nth}"), op: op.to_owned(), inputs, attributes }
            };
            let nodes: Vec<_> = nodes.into_iter().enumerate().map(node).collect();
            let outputs = outputs.iter().map(|nth| names[nth.index(names.len())].clone()).collect();
            GraphSpec { inputs, nodes, outputs }
        },
    )
}

proptest! {
    #[test]
    fn units_are_those_of_a_search_through_the_whole_graph(spec in graphs()) {
        let graph = Graph::new(&spec).expect("a valid graph");
        let (units, reference) = (Units::new(&graph), Reference::new(&graph));
        prop_assert_eq!(&units.unit, &reference.unit);
        prop_assert_eq!(&units.members, &reference.members);
        for node in 0..graph.nodes.len() {
            let readers = reference.readers[node].iter();
            let mut outside = readers.filter(|reader| reader.is_none_or(|reader| units.unit[reader] != units.unit[node]));
            prop_assert_eq!(units.is_read_outside(node), outside.clone().next().is_some());
            let only = outside.next().copied().flatten().filter(|_| reference.readers[node].len() == 1);
            prop_assert_eq!(units.only_reader(node), only);
        }
    }
}

/// A path of products, and `count` sums of its ends, which must not be merged with its start: each search passes the whole path.
fn sums_of_the_ends(path: usize, count: usize) -> GraphSpec {
    let node = |name: String, op: &str, inputs: &[&str]| NodeSpec {
        name,
        op: op.to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        attributes: [].into(),
    };
    let mut nodes = vec![node("p0".to_owned(), "exp", &["x"])];
    nodes.extend((1..path).map(|nth| node(format!("p{nth}"), "matmul", &[&format!("p{}", nth - 1), "x"])));
    let end = format!("p{}", path - 1);
    nodes.extend((0..count).map(|nth| node(format!("s{nth}"), "add", &["p0", &end])));
    let of = TensorType { dtype: Dtype::F32, shape: vec![4, 4] };
    let outputs = (0..count).map(|nth| format!("s{nth}")).collect();
    GraphSpec { inputs: vec![("x".to_owned(), of)], nodes, outputs }
}

#[test]
fn the_work_of_merging_is_linear_in_the_nodes() {
    let graph = Graph::new(&sums_of_the_ends(1000, 1000)).expect("a valid graph");
    // A search ends at the bound, after the last unit that it visits: that of 1,000 readers, at most.
    let most = MAX_WORK_PER_NODE * graph.nodes.len() + 2000;
    assert!(merged(&graph).work <= most, "{} of {most}", merged(&graph).work);
    let plan = crate::Plan::new(&graph);
    assert_eq!(plan.steps.len(), 2000, "the start of the path is no part of a sum");
}
