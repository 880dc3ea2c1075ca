//! The buffers of an execution: where views begin in them, decided on by their sizes alone, and their addresses.

use std::{marker::PhantomData, ops::Range};

use accelerd_tensor::{Layout, Location, Plan, TensorType, View};

use super::status;
use crate::{
    OpError,
    cuda::{Buffer, DevicePtr},
};

/// Where a view begins. The addresses of buffers are not known yet, but all are multiples of [`Plan::ALIGNMENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// The address of a view without elements, or of an absent operand.
    Null,
    /// Bytes from a location.
    In(Location, usize),
    /// The address of the status of an execution: see [`status`].
    Status,
}

impl Address {
    /// Returns true if it is a multiple of `bytes`, a power of two up to [`Plan::ALIGNMENT`].
    pub(super) fn is_aligned(self, bytes: usize) -> bool {
        self.offset().is_multiple_of(bytes)
    }

    /// Bytes from a location, which tell its alignment.
    pub(super) fn offset(self) -> usize {
        match self {
            Self::Null | Self::Status => 0,
            Self::In(_, offset) => offset,
        }
    }
}

/// Sizes of inputs, outputs, arena and status in bytes. A view has an address only if all of its elements lie in its buffer.
#[derive(Clone, Debug)]
pub(super) struct BufferSizes {
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    arena: usize,
    status: usize,
}

impl BufferSizes {
    /// The buffers of a plan.
    pub(super) fn of(plan: &Plan) -> Self {
        let bytes = |types: &[TensorType]| types.iter().map(TensorType::bytes).collect();
        let inputs = bytes(&plan.inputs);
        let outputs = bytes(&plan.outputs);
        Self { inputs, outputs, arena: plan.arena_bytes, status: status::bytes(plan) }
    }

    /// The address of the first element of a view that is read.
    ///
    /// # Errors
    /// If an element lies outside of the buffer, or is not aligned to its size.
    pub(super) fn address(&self, view: &View) -> Result<Address, OpError> {
        let bytes = self.bytes(view.location).ok_or_else(|| invalid(view, "lies in a buffer that the plan lacks"))?;
        if view.layout.shape.len() != view.layout.strides.len() {
            return Err(invalid(view, "lacks strides of some dimensions"));
        }
        let Some((first, last)) = positions(&view.layout) else { return Ok(Address::Null) };
        let size = view.dtype.size();
        let elements = i128::try_from(bytes / size).unwrap_or(i128::MAX);
        if first < 0 || last >= elements {
            let reason = format!("has elements from {first} to {last} of a buffer of {elements}");
            return Err(invalid(view, &reason));
        }
        if !matches!(view.location, Location::Arena(start) if !start.is_multiple_of(Plan::ALIGNMENT)) {
            return Ok(Address::In(view.location, view.layout.offset * size));
        }
        Err(invalid(view, "is not aligned"))
    }

    /// As [`Self::address`], of a view that is written: never of an input.
    pub(super) fn address_mut(&self, view: &View) -> Result<Address, OpError> {
        match view.location {
            Location::Input(_) => Err(invalid(view, "is written")),
            Location::Output(_) | Location::Arena(_) => self.address(view),
        }
    }

    /// Bytes from a location to the end of its buffer.
    fn bytes(&self, location: Location) -> Option<usize> {
        match location {
            Location::Input(nth) => self.inputs.get(nth).copied(),
            Location::Output(nth) => self.outputs.get(nth).copied(),
            Location::Arena(start) => self.arena.checked_sub(start),
        }
    }
}

/// A range of device memory.
#[derive(Clone, Debug)]
pub(super) struct Span<'a> {
    pub(super) buffer: &'a Buffer<u8>,
    pub(super) range: Range<usize>,
}

impl<'a> Span<'a> {
    /// A whole buffer.
    pub(super) fn of(buffer: &'a Buffer<u8>) -> Self {
        Self { buffer, range: 0..buffer.len() }
    }

    /// The address of at least `bytes`.
    fn base(&self, bytes: usize) -> Result<u64, OpError> {
        let got = self.range.len();
        let address = self.buffer.ptr_at(self.range.start).address();
        if got < bytes || !address.is_multiple_of(Plan::ALIGNMENT as u64) {
            let reason = format!("expected aligned memory of {bytes} bytes, got {got} bytes at {address:#x}");
            return Err(OpError::Invalid(reason));
        }
        Ok(address)
    }
}

/// The memory of an execution: inputs and outputs as the plan lists them.
#[derive(Clone, Debug)]
pub(super) struct Memory<'a> {
    pub(super) inputs: Vec<Span<'a>>,
    pub(super) outputs: Vec<Span<'a>>,
    pub(super) arena: Span<'a>,
    /// The memory that the launches of one step share.
    pub(super) workspace: Span<'a>,
    pub(super) status: Span<'a>,
}

/// The addresses of the memory of an execution, which outlives them.
#[derive(Debug)]
pub(super) struct Bindings<'a> {
    inputs: Vec<u64>,
    outputs: Vec<u64>,
    arena: u64,
    workspace: u64,
    status: u64,
    memory: PhantomData<&'a Buffer<u8>>,
}

impl<'a> Bindings<'a> {
    /// Binds the memory of a plan.
    ///
    /// # Errors
    /// If there is too little, or it is not aligned to [`Plan::ALIGNMENT`].
    pub(super) fn new(sizes: &BufferSizes, workspace_bytes: usize, memory: &Memory<'a>) -> Result<Self, OpError> {
        let all = |spans: &[Span<'_>], sizes: &[usize]| {
            if spans.len() != sizes.len() {
                return Err(OpError::Invalid(format!("expected {} buffers, got {}", sizes.len(), spans.len())));
            }
            spans.iter().zip(sizes).map(|(span, bytes)| span.base(*bytes)).collect()
        };
        Ok(Self {
            inputs: all(&memory.inputs, &sizes.inputs)?,
            outputs: all(&memory.outputs, &sizes.outputs)?,
            arena: memory.arena.base(sizes.arena)?,
            workspace: memory.workspace.base(workspace_bytes)?,
            status: memory.status.base(sizes.status)?,
            memory: PhantomData,
        })
    }

    /// The device address; null of [`Address::Null`].
    pub(super) fn pointer(&self, address: Address) -> DevicePtr<u8> {
        let (location, offset) = match address {
            Address::Null => return DevicePtr::NULL,
            Address::Status => return DevicePtr::from_raw(self.status),
            Address::In(location, offset) => (location, offset),
        };
        let base = match location {
            Location::Input(nth) => self.inputs[nth],
            Location::Output(nth) => self.outputs[nth],
            Location::Arena(start) => self.arena + start as u64,
        };
        DevicePtr::from_raw(base + offset as u64)
    }

    /// The address of the workspace.
    pub(super) fn workspace(&self) -> DevicePtr<u8> {
        DevicePtr::from_raw(self.workspace)
    }
}

/// The lowest and the highest position of an element; `None` if there is no element. Positions that 128 bits do not hold are those
/// of no buffer, and become the farthest.
fn positions(layout: &Layout) -> Option<(i128, i128)> {
    if layout.shape.contains(&0) {
        return None;
    }
    let mut range = (layout.offset as i128, layout.offset as i128);
    for (&extent, &stride) in layout.shape.iter().zip(&layout.strides) {
        let reach = (extent as i128 - 1).saturating_mul(stride as i128);
        let end = if stride < 0 { &mut range.0 } else { &mut range.1 };
        *end = end.saturating_add(reach);
    }
    Some(range)
}

fn invalid(view: &View, reason: &str) -> OpError {
    OpError::Invalid(format!("a view of {} in {:?} {reason}", view.dtype, view.location))
}

#[cfg(test)]
impl BufferSizes {
    /// Sizes of inputs, outputs and an arena, in bytes.
    pub(super) fn new(inputs: &[usize], outputs: &[usize], arena: usize) -> Self {
        Self { inputs: inputs.to_vec(), outputs: outputs.to_vec(), arena, status: 0 }
    }
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::Dtype;

    use super::*;

    fn view(location: Location, layout: Layout) -> View {
        View { location, dtype: Dtype::F32, layout }
    }

    #[test]
    fn a_view_within_its_buffer_has_the_address_of_its_first_element() {
        let buffers = BufferSizes::new(&[48], &[48], 512);
        let tensor = Layout::contiguous(&[3, 4]);
        let reversed = tensor.sliced(0, 2, 3, -1);
        for (location, layout, offset) in [
            (Location::Input(0), tensor.clone(), 0),
            (Location::Input(0), reversed, 32),
            (Location::Output(0), tensor.clone(), 0),
            (Location::Arena(256), tensor, 0),
        ] {
            assert_eq!(buffers.address(&view(location, layout)), Ok(Address::In(location, offset)));
        }
    }

    #[test]
    fn a_view_that_leaves_its_buffer_is_an_error() {
        let buffers = BufferSizes::new(&[48], &[44], 512);
        let tensor = Layout::contiguous(&[3, 4]);
        let moved = |offset| Layout { offset, ..tensor.clone() };
        let strided = |strides: [isize; 2]| Layout { strides: strides.to_vec(), ..tensor.clone() };
        for (location, layout) in [
            (Location::Input(1), tensor.clone()),
            (Location::Input(0), moved(1)),
            (Location::Input(0), moved(usize::MAX)),
            (Location::Input(0), strided([-4, 1])),
            (Location::Input(0), strided([isize::MAX, isize::MAX])),
            (Location::Input(0), Layout { strides: vec![1], ..tensor.clone() }),
            (Location::Output(0), tensor.clone()),
            (Location::Arena(480), tensor.clone()),
            (Location::Arena(2), Layout::contiguous(&[1])),
            (Location::Arena(513), Layout::contiguous(&[0])),
        ] {
            let wrong = view(location, layout);
            assert!(matches!(buffers.address(&wrong), Err(OpError::Invalid(_))), "{wrong:?}");
        }
    }

    #[test]
    fn inputs_are_never_written_and_empty_views_have_no_address() {
        let buffers = BufferSizes::new(&[48], &[0], 0);
        assert!(buffers.address_mut(&view(Location::Input(0), Layout::contiguous(&[1]))).is_err());
        let empty = Layout { offset: 7, ..Layout::contiguous(&[2, 0]) };
        assert_eq!(buffers.address_mut(&view(Location::Output(0), empty)), Ok(Address::Null));
    }
}
