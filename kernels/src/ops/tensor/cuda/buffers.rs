//! The device memory of an execution, and the addresses of views in it.

use accelerd_tensor::{Layout, Location, View};

use crate::{
    OpError,
    cuda::{Buffer, DevicePtr},
};

/// Inputs, outputs and arena of an execution. A view has an address only if all of its elements lie in its buffer.
#[derive(Clone, Debug)]
pub(super) struct Buffers<'a> {
    inputs: Vec<Span<'a>>,
    outputs: Vec<Span<'a>>,
    arena: Span<'a>,
}

/// A range of device memory.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    address: u64,
    bytes: usize,
    /// The memory, without which the addresses can be computed but not accessed.
    buffer: Option<&'a Buffer<u8>>,
}

impl<'a> Span<'a> {
    fn of(buffer: &'a Buffer<u8>) -> Self {
        Self { address: buffer.ptr().address(), bytes: buffer.size_bytes(), buffer: Some(buffer) }
    }
}

impl<'a> Buffers<'a> {
    /// The memory of a plan's execution: inputs and outputs in its order.
    pub(super) fn new(inputs: &'a [Buffer<u8>], outputs: &'a [Buffer<u8>], arena: &'a Buffer<u8>) -> Self {
        Self {
            inputs: inputs.iter().map(Span::of).collect(),
            outputs: outputs.iter().map(Span::of).collect(),
            arena: Span::of(arena),
        }
    }

    /// The same memory and another buffer, which is written and read at the returned location.
    pub(super) fn with_scratch<'b>(&self, scratch: &'b Buffer<u8>) -> (Buffers<'b>, Location)
    where
        'a: 'b,
    {
        let mut with: Buffers<'b> = self.clone();
        with.outputs.push(Span::of(scratch));
        let location = Location::Output(with.outputs.len() - 1);
        (with, location)
    }

    /// The device address of the first element of a view that is read. A view without elements has the address 0.
    ///
    /// # Errors
    /// If an element lies outside of the buffer, or is not aligned to its size.
    pub(super) fn address(&self, view: &View) -> Result<u64, OpError> {
        let span = self.span(view.location).ok_or_else(|| invalid(view, "lies in a buffer that the plan lacks"))?;
        if view.layout.shape.len() != view.layout.strides.len() {
            return Err(invalid(view, "lacks strides of some dimensions"));
        }
        let Some((first, last)) = positions(&view.layout) else { return Ok(0) };
        let size = view.dtype.size();
        let elements = i128::try_from(span.bytes / size).unwrap_or(i128::MAX);
        if first < 0 || last >= elements {
            let reason = format!("has elements from {first} to {last} of a buffer of {elements}");
            return Err(invalid(view, &reason));
        }
        let address = span.address + (view.layout.offset * size) as u64;
        if !address.is_multiple_of(size as u64) {
            return Err(invalid(view, "is not aligned to its elements"));
        }
        Ok(address)
    }

    /// As [`Self::address`], of a view that is written: never of an input.
    pub(super) fn address_mut(&self, view: &View) -> Result<u64, OpError> {
        match view.location {
            Location::Input(_) => Err(invalid(view, "is written")),
            Location::Output(_) | Location::Arena(_) => self.address(view),
        }
    }

    /// As [`Self::address`], as a pointer for a library.
    pub(super) fn pointer(&self, view: &View) -> Result<DevicePtr<u8>, OpError> {
        let address = self.address(view)?;
        let buffer = self.span(view.location).and_then(|span| span.buffer).filter(|_| address != 0);
        let start = |buffer: &Buffer<u8>| usize::try_from(address - buffer.ptr().address()).ok();
        let pointer = buffer.and_then(|buffer| start(buffer).map(|start| buffer.ptr_at(start)));
        Ok(pointer.unwrap_or(DevicePtr::NULL))
    }

    fn span(&self, location: Location) -> Option<Span<'a>> {
        match location {
            Location::Input(nth) => self.inputs.get(nth).copied(),
            Location::Output(nth) => self.outputs.get(nth).copied(),
            Location::Arena(start) => {
                let bytes = self.arena.bytes.checked_sub(start)?;
                Some(Span { address: self.arena.address + start as u64, bytes, ..self.arena })
            }
        }
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
impl Buffers<'static> {
    /// Memory that is never accessed: outputs and inputs of these bytes at multiples of 2^40, and an arena.
    pub(super) fn unbacked(inputs: &[usize], outputs: &[usize], arena: usize) -> Self {
        let spans = |bytes: &[usize], from: u64| {
            let span =
                |(nth, &bytes): (usize, &usize)| Span { address: (from + nth as u64) << 40, bytes, buffer: None };
            bytes.iter().enumerate().map(span).collect()
        };
        let arena = Span { address: 1 << 56, bytes: arena, buffer: None };
        Self { inputs: spans(inputs, 1), outputs: spans(outputs, 1 << 8), arena }
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
        let buffers = Buffers::unbacked(&[48], &[48], 512);
        let tensor = Layout::contiguous(&[3, 4]);
        let reversed = tensor.sliced(0, 2, 3, -1);
        assert_eq!(buffers.address(&view(Location::Input(0), tensor.clone())), Ok(1 << 40));
        assert_eq!(buffers.address(&view(Location::Input(0), reversed)), Ok((1 << 40) + 32));
        assert_eq!(buffers.address_mut(&view(Location::Output(0), tensor.clone())), Ok(256 << 40));
        assert_eq!(buffers.address(&view(Location::Arena(256), tensor)), Ok((1 << 56) + 256));
    }

    #[test]
    fn a_view_that_leaves_its_buffer_is_an_error() {
        let buffers = Buffers::unbacked(&[48], &[44], 512);
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
        let buffers = Buffers::unbacked(&[48], &[0], 0);
        assert!(buffers.address_mut(&view(Location::Input(0), Layout::contiguous(&[1]))).is_err());
        let empty = Layout { offset: 7, ..Layout::contiguous(&[2, 0]) };
        assert_eq!(buffers.address_mut(&view(Location::Output(0), empty)), Ok(0));
    }
}
