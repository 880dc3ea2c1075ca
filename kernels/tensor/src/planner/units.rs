//! Groups elementwise operations into units, each of which becomes one kernel.
//!
//! An operation joins the unit of its operand if both have the same shape and no path leads from one to the other through a third unit,
//! which could run neither before nor after the merged one.

use std::collections::HashSet;

use crate::{Graph, graph::ValueId, op::Op, scalar::Function};

/// The most instructions of a unit: more would spill registers and take long to compile.
const MAX_INSTRUCTIONS: usize = 256;
/// The most values that a unit reads from memory.
const MAX_INPUTS: usize = 24;
/// The most values that a unit writes to memory.
const MAX_OUTPUTS: usize = 16;

/// The units of a graph.
pub(super) struct Units {
    /// The unit of each node, by the number of one of its nodes.
    unit: Vec<usize>,
    /// The nodes of each unit in ascending order, which is topological; empty for merged ones.
    members: Vec<Vec<usize>>,
    /// The nodes that read each node; nothing stands for an output of the graph.
    readers: Vec<Vec<Option<usize>>>,
}

impl Units {
    pub(super) fn new(graph: &Graph) -> Self {
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

    pub(super) fn members(&self, unit: usize) -> &[usize] {
        &self.members[unit]
    }

    pub(super) fn unit(&self, node: usize) -> usize {
        self.unit[node]
    }

    /// The units in topological order.
    pub(super) fn order(&self, graph: &Graph) -> Vec<usize> {
        let mut waiting = vec![0_usize; self.members.len()];
        let mut users: Vec<Vec<usize>> = vec![vec![]; self.members.len()];
        let all = (0..self.members.len()).filter(|unit| !self.members[*unit].is_empty());
        for unit in all.clone() {
            let producers: HashSet<_> = self.producers(graph, unit).collect();
            waiting[unit] = producers.len();
            for producer in producers {
                users[producer].push(unit);
            }
        }
        let mut ready: std::collections::BTreeSet<_> = all.filter(|unit| waiting[*unit] == 0).collect();
        let mut order = vec![];
        while let Some(unit) = ready.pop_first() {
            order.push(unit);
            for &user in &users[unit] {
                waiting[user] -= 1;
                if waiting[user] == 0 {
                    ready.insert(user);
                }
            }
        }
        order
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

    /// Whether a kernel of both units is small enough.
    fn fits(&self, graph: &Graph, a: usize, b: usize) -> bool {
        let members = || self.members[a].iter().chain(&self.members[b]).map(|&member| &graph.nodes[member]);
        let instructions: usize = members().map(|node| function(&node.op).map_or(0, |f| f.values().len())).sum();
        let outside: HashSet<_> = members()
            .flat_map(|node| &node.operands)
            .filter(|operand| !matches!(operand, ValueId::Node(nth) if [a, b].contains(&self.unit[*nth])))
            .collect();
        instructions <= MAX_INSTRUCTIONS && outside.len() <= MAX_INPUTS && self.outputs(a, b) <= MAX_OUTPUTS
    }

    /// How many values a kernel of both units writes: those that others read.
    fn outputs(&self, a: usize, b: usize) -> usize {
        let is_inside = |node: &usize| [a, b].contains(&self.unit[*node]);
        let is_read =
            |node: &&usize| self.readers[**node].iter().any(|reader| reader.is_none_or(|reader| !is_inside(&reader)));
        self.members[a].iter().chain(&self.members[b]).filter(is_read).count()
    }

    /// Whether `to` depends on `from` through another unit.
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

/// The function of an elementwise operation.
pub(super) fn function(op: &Op) -> Option<&Function> {
    match op {
        Op::Map(function) => Some(function),
        Op::View(_)
        | Op::Concat { .. }
        | Op::Reduce(_)
        | Op::ArgReduce { .. }
        | Op::Softmax { .. }
        | Op::Norm { .. }
        | Op::MatMul(_) => None,
    }
}
