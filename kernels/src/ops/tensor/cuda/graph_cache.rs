//! Repeated executions of small plans as CUDA graphs. A graph is captured at the second execution of a plan on a worker. It works in memory
//! of its own, to which inputs are copied and from which outputs are downloaded, so that an execution costs one launch and two copies
//! and allocates nothing.

use std::{cell::Cell, ops::Range, rc::Rc, sync::Arc};

use accelerd_tensor::Plan;
use bytes::Bytes;

use super::{
    buffers::{Memory, Span},
    prepared::{FIRST_COST, PreparedPlan},
    status,
};
use crate::{
    OpError,
    cuda::{Buffer, CachedGraph, GraphLookup, Worker},
};

/// The most memory of a graph. With more, launches take a small part of the time.
const MAX_BYTES: usize = 64 << 20;
const MAX_LAUNCHES: usize = 256;
/// Every `TIMED`th execution launches the kernels one by one, which times each of them.
const TIMED: u32 = 32;
/// The place of a plan's only graph among those of its owner.
const SHAPE: [u32; 4] = [0; 4];

/// The memory of a graph.
struct Slots {
    block: Buffer<u8>,
    layout: SlotLayout,
    prepared: Rc<PreparedPlan>,
    executions: Cell<u32>,
}

/// Executes a plan by its graph; `None` if it has none.
pub(super) fn execute(
    plan: &Arc<Plan>,
    prepared: &Rc<PreparedPlan>,
    inputs: &[&[u8]],
    worker: &Worker,
) -> Result<Option<Vec<Bytes>>, OpError> {
    let Some(cached) = cached(plan, prepared, worker) else { return Ok(None) };
    let Some(slots) = cached.memory.downcast_ref::<Slots>() else { return Ok(None) };
    slots.upload(inputs, status::cleared(plan), worker)?;
    if slots.is_timed() {
        worker.timing_all(|| slots.enqueue(worker))?;
    } else {
        worker.replay(&cached.graph)?;
    }
    let outputs: Vec<_> = slots.layout.outputs.iter().map(|range| (&slots.block, range.clone())).collect();
    status::download_checked(plan, &outputs, (&slots.block, slots.layout.status.clone()), worker).map(Some)
}

/// The graph of a plan that takes less than a slice, since a graph cannot be preempted. It is captured at the second execution; a failed
/// capture is not retried.
fn cached(plan: &Arc<Plan>, prepared: &Rc<PreparedPlan>, worker: &Worker) -> Option<Rc<CachedGraph>> {
    if !(1..=MAX_LAUNCHES).contains(&prepared.launch_count()) || plan.cost() > FIRST_COST {
        return None;
    }
    let most_bytes = worker.graphs().most_bytes().min(MAX_BYTES);
    let layout = SlotLayout::new(plan, prepared.workspace_bytes).filter(|layout| layout.bytes <= most_bytes)?;
    let known = worker.graphs().look(plan, SHAPE);
    match known {
        GraphLookup::Nothing | GraphLookup::Refused => None,
        GraphLookup::Graph(cached) => Some(cached),
        GraphLookup::Seen => {
            let captured = capture(layout, prepared, worker);
            let mut graphs = worker.graphs();
            if let Ok((graph, bytes)) = captured {
                return graphs.keep(plan, SHAPE, bytes, graph);
            }
            graphs.refuse(plan, SHAPE);
            None
        }
    }
}

fn capture(layout: SlotLayout, prepared: &Rc<PreparedPlan>, worker: &Worker) -> Result<(CachedGraph, usize), OpError> {
    let bytes = layout.bytes;
    let block = worker.alloc(bytes)?;
    let slots = Slots { block, layout, prepared: Rc::clone(prepared), executions: Cell::new(0) };
    prepared.prepare_products(worker)?;
    let (graph, ()) = worker.record(|| slots.enqueue(worker))?;
    Ok((CachedGraph { graph, memory: Box::new(slots) }, bytes))
}

impl Slots {
    /// Enqueues the launches one by one.
    fn enqueue(&self, worker: &Worker) -> Result<(), OpError> {
        let span = |range: &Range<usize>| Span { buffer: &self.block, range: range.clone() };
        let memory = Memory {
            inputs: self.layout.inputs.iter().map(span).collect(),
            outputs: self.layout.outputs.iter().map(span).collect(),
            arena: span(&self.layout.arena),
            workspace: span(&self.layout.workspace),
            status: span(&self.layout.status),
        };
        self.prepared.enqueue(&self.prepared.bind(&memory)?, worker)
    }

    /// Copies the inputs and the cleared status, which lie at the start of the block one after the other.
    fn upload(&self, inputs: &[&[u8]], status: &[u8], worker: &Worker) -> Result<(), OpError> {
        const GAP: [u8; Plan::ALIGNMENT] = [0; Plan::ALIGNMENT];
        let gap = |input: &[u8]| &GAP[..input.len().next_multiple_of(Plan::ALIGNMENT) - input.len()];
        let parts = inputs.iter().chain([&status]).flat_map(|input| [*input, gap(input)]);
        worker.upload_parts(parts, &self.block, 0).map(drop)
    }

    fn is_timed(&self) -> bool {
        let executions = self.executions.get().wrapping_add(1);
        self.executions.set(executions);
        executions.is_multiple_of(TIMED)
    }
}

/// Where inputs, status, outputs, arena and workspace lie in a block.
#[derive(Debug, PartialEq, Eq)]
struct SlotLayout {
    inputs: Vec<Range<usize>>,
    status: Range<usize>,
    outputs: Vec<Range<usize>>,
    arena: Range<usize>,
    workspace: Range<usize>,
    bytes: usize,
}

impl SlotLayout {
    /// `None` if no memory holds them.
    fn new(plan: &Plan, workspace_bytes: usize) -> Option<Self> {
        let mut end = 0_usize;
        let mut next = |bytes: usize| {
            let start = end;
            end = start.checked_add(bytes)?.checked_next_multiple_of(Plan::ALIGNMENT)?;
            Some(start..start + bytes)
        };
        let inputs = plan.inputs.iter().map(|ty| next(ty.bytes())).collect::<Option<_>>()?;
        let status = next(status::bytes(plan))?;
        let outputs = plan.outputs.iter().map(|ty| next(ty.bytes())).collect::<Option<_>>()?;
        let arena = next(plan.arena_bytes)?;
        let workspace = next(workspace_bytes)?;
        Some(Self { inputs, status, outputs, arena, workspace, bytes: end })
    }
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{Dtype, TensorType};

    use super::*;

    fn plan(inputs: &[usize], outputs: &[usize], arena_bytes: usize) -> Plan {
        let types =
            |shapes: &[usize]| shapes.iter().map(|n| TensorType { dtype: Dtype::U8, shape: vec![*n] }).collect();
        Plan { inputs: types(inputs), outputs: types(outputs), arena_bytes, steps: vec![] }
    }

    #[test]
    fn slots_are_aligned_and_inputs_come_first() {
        let layout = SlotLayout::new(&plan(&[300, 0, 256], &[1, 2], 512), 7).expect("little memory");
        let expected = SlotLayout {
            inputs: vec![0..300, 512..512, 512..768],
            status: 768..768,
            outputs: vec![768..769, 1024..1026],
            arena: 1280..1792,
            workspace: 1792..1799,
            bytes: 2048,
        };
        assert_eq!(layout, expected);
    }

    #[test]
    fn memory_that_does_not_exist_has_no_layout() {
        assert_eq!(SlotLayout::new(&plan(&[usize::MAX], &[], 0), 0), None);
        assert_eq!(SlotLayout::new(&plan(&[usize::MAX - 300], &[300], 0), 0), None);
    }
}
