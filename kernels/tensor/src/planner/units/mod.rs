//! Groups elementwise operations into units, each of which becomes one kernel.
//!
//! An operation joins the unit of its operand if both have the same shape and no path leads from one to the other through a third unit,
//! which could run neither before nor after the merged one.

use std::collections::BTreeSet;

use crate::{Graph, graph::ValueId};

use super::unit_graph::UnitGraph;

/// The units of a graph.
pub(super) struct Units {
    /// The unit of each node: the last one of its nodes.
    unit: Vec<usize>,
    /// The nodes of each unit in ascending order, which is topological; empty where a node is not the last of its unit.
    members: Vec<Vec<usize>>,
    /// The nodes that read each node, as often as they do.
    readers: Vec<Vec<usize>>,
    /// The number of reads of each node by other units and outputs of the graph.
    outside_reads: Vec<usize>,
}

impl Units {
    pub(super) fn new(graph: &Graph) -> Self {
        let mut merging = merged(graph);
        let (mut unit, mut members) = (vec![0; graph.nodes.len()], vec![vec![]; graph.nodes.len()]);
        for of_unit in merging.members() {
            let last = of_unit[of_unit.len() - 1];
            for &member in &of_unit {
                unit[member] = last;
            }
            members[last] = of_unit;
        }
        let UnitGraph { readers, outside_reads, .. } = merging;
        Self { unit, members, readers, outside_reads }
    }

    pub(super) fn members(&self, unit: usize) -> &[usize] {
        &self.members[unit]
    }

    pub(super) fn unit(&self, node: usize) -> usize {
        self.unit[node]
    }

    /// Returns true if other units or outputs of the graph read a node.
    pub(super) fn is_read_outside(&self, node: usize) -> bool {
        self.outside_reads[node] > 0
    }

    /// The node of another unit that reads a node once, if nothing else reads it.
    pub(super) fn only_reader(&self, node: usize) -> Option<usize> {
        match self.readers[node][..] {
            [reader] if self.outside_reads[node] == 1 && self.unit[reader] != self.unit[node] => Some(reader),
            _ => None,
        }
    }

    /// The units in topological order.
    pub(super) fn order(&self, graph: &Graph) -> Vec<usize> {
        let mut waiting = vec![0_usize; self.members.len()];
        let mut users: Vec<Vec<usize>> = vec![vec![]; self.members.len()];
        let all = (0..self.members.len()).filter(|unit| !self.members[*unit].is_empty());
        for unit in all.clone() {
            let producers = self.producers(graph, unit);
            waiting[unit] = producers.len();
            for producer in producers {
                users[producer].push(unit);
            }
        }
        let mut ready: BTreeSet<_> = all.filter(|unit| waiting[*unit] == 0).collect();
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
    fn producers(&self, graph: &Graph, unit: usize) -> Vec<usize> {
        let operands = self.members[unit].iter().flat_map(|&member| &graph.nodes[member].operands);
        let producers = operands.filter_map(|operand| match operand {
            ValueId::Node(nth) => Some(self.unit[*nth]).filter(|producer| *producer != unit),
            ValueId::Input(_) => None,
        });
        let mut producers: Vec<_> = producers.collect();
        producers.sort_unstable();
        producers.dedup();
        producers
    }
}

/// The operations of a graph, merged.
fn merged(graph: &Graph) -> UnitGraph<'_> {
    let mut merging = UnitGraph::new(graph);
    for (nth, node) in graph.nodes.iter().enumerate() {
        merging.add();
        for operand in &node.operands {
            if let ValueId::Node(producer) = *operand {
                merging.merge(producer, nth);
            }
        }
    }
    merging
}

#[cfg(test)]
mod tests;
