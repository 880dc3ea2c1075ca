//! The graph of units while operations are merged. Units are added in topological order, and merged with those that they read as long as
//! no cycle results.
//!
//! The cost of merging is bounded: searches for cycles end at [`MAX_WORK_PER_NODE`] of the graph, and what is not merged by then stays apart.

use std::collections::BTreeSet;

use crate::{Graph, graph::ValueId, op::Op, scalar::Function};

/// The most instructions of a unit: more would spill registers and take long to compile.
pub(super) const MAX_INSTRUCTIONS: usize = 256;
/// The most values that a unit reads from memory.
pub(super) const MAX_INPUTS: usize = 24;
/// The most values that a unit writes to memory.
pub(super) const MAX_OUTPUTS: usize = 16;

/// The most edges between units, for each node of the graph, that are followed to decide on merges. Graphs of models follow about ten;
/// without a bound, a graph of n nodes can be made such that n^2 are followed.
pub(super) const MAX_WORK_PER_NODE: usize = 128;

/// The units of the nodes so far.
pub(super) struct UnitGraph<'a> {
    graph: &'a Graph,
    /// The nodes that read each node, as often as they do.
    pub(super) readers: Vec<Vec<usize>>,
    /// The number of reads of each node by other units and outputs of the graph.
    pub(super) outside_reads: Vec<usize>,
    /// The unit of each node, by a place in `units`; nodes to come have none.
    unit_of: Vec<usize>,
    units: Vec<Unit>,
    /// The last searches that have visited each unit on their way down and up.
    visits: [Vec<usize>; 2],
    searches: usize,
    /// Edges followed so far.
    pub(super) work: usize,
}

/// One unit. Its place is that of one of its nodes.
#[derive(Default)]
struct Unit {
    members: Vec<usize>,
    instructions: usize,
    /// The nodes of other units that its members read, in order, and the number of reads.
    inputs: Vec<(ValueId, usize)>,
    /// The number of members that others read.
    outputs: usize,
    /// The number of reads of members, also by each other.
    reads: usize,
    /// Less than that of each unit that reads it.
    level: usize,
}

impl<'a> UnitGraph<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        let count = graph.nodes.len();
        let (mut readers, mut outside_reads) = (vec![vec![]; count], vec![0; count]);
        let operands =
            graph.nodes.iter().enumerate().flat_map(|(nth, node)| node.operands.iter().map(move |v| (v, nth)));
        for (value, reader) in operands {
            if let ValueId::Node(nth) = *value {
                readers[nth].push(reader);
            }
        }
        let operands = graph.nodes.iter().flat_map(|node| &node.operands);
        for value in operands.chain(&graph.outputs) {
            if let ValueId::Node(nth) = *value {
                outside_reads[nth] += 1;
            }
        }
        let visits = [vec![0; count], vec![0; count]];
        Self { graph, readers, outside_reads, unit_of: vec![], units: vec![], visits, searches: 0, work: 0 }
    }

    /// Adds the next node as a unit of its own.
    pub(super) fn add(&mut self) {
        let nth = self.units.len();
        let node = &self.graph.nodes[nth];
        let mut operands = node.operands.clone();
        operands.sort_unstable();
        let inputs: Vec<_> = operands.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len())).collect();
        self.unit_of.push(nth);
        self.units.push(Unit {
            members: vec![nth],
            instructions: function(&node.op).map_or(0, |function| function.values().len()),
            inputs,
            outputs: usize::from(self.outside_reads[nth] > 0),
            reads: self.readers[nth].len(),
            level: 0,
        });
        self.units[nth].level = self.level_above(nth, None);
    }

    /// Merges the units of two elementwise operations, the second of which is the last node and reads the first, if they may share a kernel.
    pub(super) fn merge(&mut self, producer: usize, consumer: usize) {
        let (a, b) = (self.unit_of[producer], self.unit_of[consumer]);
        let (first, second) = (&self.graph.nodes[producer], &self.graph.nodes[consumer]);
        let are_maps = matches!((&first.op, &second.op), (Op::Map(_), Op::Map(_)));
        let instructions = self.units[a].instructions + self.units[b].instructions;
        if a == b || !are_maps || first.result.shape != second.result.shape || instructions > MAX_INSTRUCTIONS {
            return;
        }
        if self.work > self.most_work() {
            return;
        }
        let (inputs, outputs) = (self.merged_inputs(a, b), self.merged_outputs(a, b));
        // The units form no cycle, so that `a`, which `b` reads, does not read `b`.
        if inputs.len() <= MAX_INPUTS && outputs <= MAX_OUTPUTS && !self.reaches_through_third(a, b) {
            self.unite(a, b, inputs, outputs);
        }
    }

    fn most_work(&self) -> usize {
        MAX_WORK_PER_NODE * self.graph.nodes.len()
    }

    /// The members of each unit, in ascending order.
    pub(super) fn members(&mut self) -> Vec<Vec<usize>> {
        let members = self.units.iter_mut().map(|unit| std::mem::take(&mut unit.members));
        let mut members: Vec<_> = members.filter(|members| !members.is_empty()).collect();
        for members in &mut members {
            members.sort_unstable();
        }
        members
    }

    fn merged_inputs(&self, a: usize, b: usize) -> Vec<(ValueId, usize)> {
        let of_b = self.units[b].inputs.iter().filter(|(value, _)| self.producer(*value) != Some(a));
        let mut inputs: Vec<_> = self.units[a].inputs.iter().chain(of_b).copied().collect();
        inputs.sort_unstable();
        inputs.dedup_by(|one, kept| {
            let is_equal = one.0 == kept.0;
            kept.1 += if is_equal { one.1 } else { 0 };
            is_equal
        });
        inputs
    }

    fn merged_outputs(&self, a: usize, b: usize) -> usize {
        let hidden = self.reads_of(a, b).filter(|(node, count)| self.outside_reads[*node] == *count).count();
        self.units[a].outputs + self.units[b].outputs - hidden
    }

    /// The nodes of `a` that `b` reads, and how often.
    fn reads_of(&self, a: usize, b: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.units[b].inputs.iter().filter_map(move |(value, count)| match value {
            ValueId::Node(nth) if self.unit_of[*nth] == a => Some((*nth, *count)),
            ValueId::Node(_) | ValueId::Input(_) => None,
        })
    }

    /// Makes one unit of two; the smaller one moves.
    fn unite(&mut self, a: usize, b: usize, inputs: Vec<(ValueId, usize)>, outputs: usize) {
        let inside: Vec<_> = self.reads_of(a, b).collect();
        for (node, count) in inside {
            self.outside_reads[node] -= count;
        }
        let level = self.units[a].level.max(self.level_above(b, Some(a)));
        let rises = level > self.units[a].level;
        let (kept, moved) = if self.units[a].members.len() > self.units[b].members.len() { (a, b) } else { (b, a) };
        let moved = std::mem::take(&mut self.units[moved]);
        for &member in &moved.members {
            self.unit_of[member] = kept;
        }
        let unit = &mut self.units[kept];
        unit.members.extend(moved.members);
        unit.instructions += moved.instructions;
        unit.reads += moved.reads;
        (unit.inputs, unit.outputs, unit.level) = (inputs, outputs, level);
        if rises {
            self.raise_readers(kept);
        }
    }

    /// The least level of a unit that reads the inputs of `unit`, but for those that `without` produces.
    fn level_above(&self, unit: usize, without: Option<usize>) -> usize {
        let producers = self.producers(unit).filter(|producer| Some(*producer) != without);
        producers.map(|producer| self.units[producer].level + 1).max().unwrap_or(0)
    }

    /// Raises the levels of the units that depend on one whose level has risen: each once, in the order of their former levels, which is
    /// topological.
    fn raise_readers(&mut self, unit: usize) {
        let mut waiting = BTreeSet::new();
        self.await_readers(unit, &mut waiting);
        while let Some((former, unit)) = waiting.pop_first() {
            self.work += self.units[unit].inputs.len();
            let level = self.level_above(unit, None);
            if level > former {
                self.units[unit].level = level;
                self.await_readers(unit, &mut waiting);
            }
        }
    }

    /// Adds the readers of a unit whose levels are not above its own, with their levels.
    fn await_readers(&mut self, unit: usize, waiting: &mut BTreeSet<(usize, usize)>) {
        self.work += self.units[unit].reads;
        let level = self.units[unit].level;
        let readers = self.consumers(unit).map(|reader| (self.units[reader].level, reader));
        waiting.extend(readers.filter(|(reader_level, _)| *reader_level <= level));
    }

    /// The unit that produces a value.
    fn producer(&self, value: ValueId) -> Option<usize> {
        match value {
            ValueId::Node(nth) => Some(self.unit_of[nth]),
            ValueId::Input(_) => None,
        }
    }

    /// The units that a unit reads, some of them several times.
    fn producers(&self, unit: usize) -> impl Iterator<Item = usize> + '_ {
        self.units[unit].inputs.iter().filter_map(|(value, _)| self.producer(*value))
    }

    /// The units that read a unit, some of them several times.
    fn consumers(&self, unit: usize) -> impl Iterator<Item = usize> + '_ {
        let readers = self.units[unit].members.iter().flat_map(|member| &self.readers[*member]);
        // Nodes to come are in no unit yet.
        let units = readers.filter_map(|reader| self.unit_of.get(*reader).copied());
        units.filter(move |reader| *reader != unit)
    }

    /// Returns true if `to`, which reads `from`, also depends on it through another unit. Searches from both ends, where the next step costs
    /// less, among the units whose levels lie in between. It says yes if it would take too much work.
    fn reaches_through_third(&mut self, from: usize, to: usize) -> bool {
        let [low, high] = [from, to].map(|unit| self.units[unit].level);
        if high <= low + 1 {
            return false;
        }
        self.searches += 1;
        let search = self.searches;
        // The search down from `to`, and the one up from `from`.
        let (starts, mut costs) = ([to, from], [0, 0]);
        let mut stacks = starts.map(|start| vec![start]);
        let most_work = self.most_work();
        while let [Some(&below), Some(&above)] = stacks.each_ref().map(|stack| stack.last()) {
            let next_costs = [costs[0] + self.units[below].inputs.len(), costs[1] + self.units[above].reads];
            let side = usize::from(next_costs[1] <= next_costs[0]);
            self.work += next_costs[side] - costs[side];
            costs[side] = next_costs[side];
            let Some(unit) = stacks[side].pop() else { break };
            if self.work > most_work {
                return true;
            }
            let next: Vec<_> = if side == 0 { self.producers(unit).collect() } else { self.consumers(unit).collect() };
            for next in next {
                let is_other_end = next == starts[1 - side];
                // The edge between both ends is no path through a third.
                if is_other_end && unit == starts[side] {
                    continue;
                }
                if is_other_end || self.visits[1 - side][next] == search {
                    return true;
                }
                let is_between = (low + 1..high).contains(&self.units[next].level);
                if is_between && self.visits[side][next] != search {
                    self.visits[side][next] = search;
                    stacks[side].push(next);
                }
            }
        }
        false
    }
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
        | Op::Norm(_)
        | Op::MatMul(_)
        | Op::Index { .. }
        | Op::OneHot
        | Op::Scan { .. }
        | Op::ArgSort { .. }
        | Op::Conv(_)
        | Op::Pool(_)
        | Op::Attention(_) => None,
    }
}
