//! Elementwise steps: one generated kernel for a function, a rank and the way that views are accessed; extents, strides and addresses
//! are its arguments.

pub(super) mod collapse;
mod source;
mod space;
#[cfg(test)]
mod tests;
mod variant;

use accelerd_ir::Dtype;
use accelerd_tensor::{MAX_RANK, MapStep};

use super::{
    buffers::{Address, BufferSizes},
    launches::{Argument, Launch, Launches},
};
use crate::{OpError, cuda::Grid};
use collapse::Collapsed;
use space::{Space, View};
pub(super) use variant::weight;
use variant::{Operand, Schedule, Variant};

/// The most blocks of a launch; they compute the rest in turn.
const MAX_BLOCKS: u64 = i32::MAX as u64;

/// The launches of a step; none if there is nothing to compute.
pub(super) fn prepare(step: &MapStep, sizes: &BufferSizes) -> Result<Launches, OpError> {
    let Some(checked) = Checked::new(step, sizes)? else { return Ok(Launches::default()) };
    let mut arguments = Argument::structure(checked.space, &[]);
    let view = |(address, strides): &(Address, [i64; MAX_RANK])| {
        Argument::structure(View { address: 0, strides: *strides }, &[*address])
    };
    arguments.extend(checked.views.iter().flat_map(view));
    let blocks = u32::try_from(checked.blocks().min(MAX_BLOCKS)).expect("below 2^31");
    let threads = checked.variant.schedule.threads();
    Ok(Launches::one(Launch::new(
        source::source(&step.function, &checked.variant),
        Grid::x(blocks),
        threads,
        arguments,
    )))
}

/// A checked step.
#[derive(Debug)]
struct Checked {
    variant: Variant,
    space: Space,
    /// Addresses and strides of the inputs, then of the outputs.
    views: Vec<(Address, [i64; MAX_RANK])>,
}

impl Checked {
    /// `None` if there is nothing to compute.
    fn new(step: &MapStep, sizes: &BufferSizes) -> Result<Option<Self>, OpError> {
        check(step)?;
        let inputs = step.inputs.iter().map(|view| (view, false, sizes.address(view)));
        let outputs = step.outputs.iter().map(|view| (view, true, sizes.address_mut(view)));
        let operand = |(view, is_output, address): (&accelerd_tensor::View, bool, Result<Address, OpError>)| {
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
        let views = operands.iter().map(|operand| operand.address).zip(strides).collect();
        Ok(Some(Self { variant, space, views }))
    }

    fn blocks(&self) -> u64 {
        let schedule = self.variant.schedule;
        match schedule {
            Schedule::Vectors { unroll, .. } => {
                self.space.vectors.div_ceil(u64::from(schedule.threads()) * unroll as u64).max(1)
            }
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
