//! Elementwise steps: one generated kernel for a function, a rank and the way that views are accessed; extents, strides and addresses
//! are its arguments.

mod collapse;
mod source;
mod space;
#[cfg(test)]
mod tests;
mod variant;

use accelerd_ir::Dtype;
use accelerd_tensor::{MAX_RANK, MapStep};

use super::buffers::Buffers;
use crate::{
    OpError,
    cuda::{Args, Grid, Worker},
};
use collapse::Collapsed;
use space::{Space, View};
use variant::{Operand, Schedule, THREADS, Variant};

/// Blocks of a launch for each one that runs at once: enough that the last ones to run share the rest evenly.
const WAVES: u64 = 8;

/// Enqueues a step.
pub(super) fn launch(step: &MapStep, buffers: &Buffers<'_>, worker: &Worker) -> Result<(), OpError> {
    let Some(launch) = Launch::new(step, buffers)? else { return Ok(()) };
    let kernel = worker.jit(&source::source(&step.function, &launch.variant))?;
    let threads = u32::try_from(THREADS).expect("a small constant");
    let active = worker.max_active_blocks(&kernel, threads, 0)?.max(1);
    let most = u64::from(worker.sm_count()) * u64::from(active) * WAVES;
    let grid = Grid::x(u32::try_from(launch.blocks().min(most)).unwrap_or(u32::MAX));
    let args = launch.views.iter().fold(Args::new().value(launch.space), |args, view| args.value(*view));
    worker.launch_jit(&kernel, grid, threads, 0, &mut { args })
}

/// A checked step.
#[derive(Debug)]
struct Launch {
    variant: Variant,
    space: Space,
    /// Inputs, then outputs.
    views: Vec<View>,
}

impl Launch {
    /// `None` if there is nothing to compute.
    fn new(step: &MapStep, buffers: &Buffers<'_>) -> Result<Option<Self>, OpError> {
        check(step)?;
        let inputs = step.inputs.iter().map(|view| (view, false, buffers.address(view)));
        let outputs = step.outputs.iter().map(|view| (view, true, buffers.address_mut(view)));
        let operand = |(view, is_output, address): (&accelerd_tensor::View, bool, Result<u64, OpError>)| {
            address.map(|address| Operand { address, size: view.dtype.size(), is_output })
        };
        let operands = inputs.chain(outputs).map(operand).collect::<Result<Vec<_>, _>>()?;
        if step.shape.contains(&0) || step.outputs.is_empty() {
            return Ok(None);
        }
        let layouts = step.inputs.iter().chain(&step.outputs).map(|view| &view.layout.strides[..]);
        let collapsed = Collapsed::new(&step.shape, &layouts.collect::<Vec<_>>());
        if collapsed.rank() > MAX_RANK {
            return Err(invalid(&format!("at most {MAX_RANK} dimensions, got {}", collapsed.rank())));
        }
        let (variant, space, strides) = Variant::choose(collapsed, &operands, &step.function);
        let view = |(operand, strides): (&Operand, [i64; MAX_RANK])| View { address: operand.address, strides };
        let views = operands.iter().zip(strides).map(view).collect();
        Ok(Some(Self { variant, space, views }))
    }

    fn blocks(&self) -> u64 {
        match self.variant.schedule {
            Schedule::Vectors { unroll, .. } => self.space.vectors.div_ceil((THREADS * unroll) as u64).max(1),
            Schedule::Tiles { .. } => self.space.vectors,
        }
    }
}

/// Checks that views, function and shape fit each other.
fn check(step: &MapStep) -> Result<(), OpError> {
    let function = &step.function;
    let inputs: Vec<_> = step.inputs.iter().map(|view| view.dtype).collect();
    let outputs: Vec<_> = step.outputs.iter().map(|view| view.dtype).collect();
    let results: Vec<Dtype> = function.results().iter().map(|result| function.dtype(*result)).collect();
    if inputs != function.params() || outputs != results {
        return Err(invalid("views of the types of its function"));
    }
    let mut views = step.inputs.iter().chain(&step.outputs);
    if views.any(|view| view.layout.shape != step.shape || view.layout.strides.len() != step.shape.len()) {
        return Err(invalid(&format!("views of shape {:?}", step.shape)));
    }
    let elements = step.shape.iter().filter(|extent| **extent > 0).try_fold(1_usize, |all, one| all.checked_mul(*one));
    match elements.and_then(|elements| isize::try_from(elements).ok()) {
        Some(_) => Ok(()),
        None => Err(invalid("fewer elements than an address space")),
    }
}

fn invalid(expected: &str) -> OpError {
    OpError::Invalid(format!("an elementwise step: expected {expected}"))
}
