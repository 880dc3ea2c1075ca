//! The buffers of an execution, and the operands that steps read and write in them.
//!
//! An [`Operand`] exists only for a view that lies within its buffer, so code that stays within its layout stays within the
//! buffer.

use accelerd_tensor::{Dtype, Location, Plan, View};

use super::{
    buffer::AlignedBuffer,
    extent::{is_dense, is_injective, may_overlap, positions},
};
use crate::OpError;

/// A validated view: elements of `dtype` at `base + stride * index`.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// The element at index 0 of all dimensions. Aligned to the element. Dangling if the view has no elements.
    pub(super) base: *mut u8,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// In elements.
    pub(super) strides: Vec<isize>,
}

// SAFETY: the pointer is one into a buffer that outlives the step. Those who read and write through it answer for races: a step
// reads what it does not write, and its tasks write disjoint elements.
unsafe impl Send for Operand {}
// SAFETY: as above.
unsafe impl Sync for Operand {}

impl Operand {
    /// Returns true if the elements are adjacent in row-major order.
    pub(super) fn is_dense(&self) -> bool {
        is_dense(&self.shape, &self.strides)
    }
}

/// The operands of a step.
pub(super) struct Operands {
    pub(super) inputs: Vec<Operand>,
    /// True if the input of that position is written in place.
    pub(super) is_in_place: Vec<bool>,
    pub(super) outputs: Vec<Operand>,
}

/// The buffers of an execution. All are aligned to elements.
pub(super) struct Memory<'a> {
    outputs: Vec<AlignedBuffer>,
    input_spans: Vec<Span>,
    output_spans: Vec<Span>,
    arena_span: Span,
    /// Owners of the memory that the spans point to.
    _owners: (Vec<Input<'a>>, AlignedBuffer),
}

/// Start and length of a buffer, taken once: all operands of a buffer derive from one pointer.
#[derive(Clone, Copy)]
struct Span {
    start: *mut u8,
    len: usize,
}

impl Span {
    fn of(buffer: &mut AlignedBuffer) -> Self {
        let bytes = buffer.bytes_mut();
        Self { start: bytes.as_mut_ptr(), len: bytes.len() }
    }
}

enum Input<'a> {
    Borrowed(&'a [u8]),
    Copied(AlignedBuffer),
}

impl Input<'_> {
    fn span(&self) -> Span {
        let bytes = match self {
            Self::Borrowed(bytes) => bytes,
            Self::Copied(buffer) => buffer.as_ref(),
        };
        Span { start: bytes.as_ptr().cast_mut(), len: bytes.len() }
    }
}

impl<'a> Memory<'a> {
    /// Allocates arena and outputs, and copies inputs that are not aligned.
    pub(super) fn new(plan: &Plan, inputs: &[&'a [u8]]) -> Result<Self, OpError> {
        if inputs.len() != plan.inputs.len() {
            return Err(OpError::Invalid(format!("expected {} inputs, got {}", plan.inputs.len(), inputs.len())));
        }
        for (nth, (expected, got)) in plan.inputs.iter().zip(inputs).enumerate() {
            if expected.bytes() != got.len() {
                return Err(OpError::Invalid(format!(
                    "input {nth}: expected {} bytes, got {}",
                    expected.bytes(),
                    got.len()
                )));
            }
        }
        let aligned = inputs.iter().zip(&plan.inputs).map(|(bytes, ty)| match bytes.as_ptr().addr() {
            address if address.is_multiple_of(ty.dtype.size()) => Ok(Input::Borrowed(bytes)),
            _ => AlignedBuffer::copy(bytes).map(Input::Copied),
        });
        let inputs = aligned.collect::<Result<Vec<_>, _>>()?;
        let mut outputs =
            plan.outputs.iter().map(|ty| AlignedBuffer::zeros(ty.bytes())).collect::<Result<Vec<_>, _>>()?;
        let mut arena = AlignedBuffer::zeros(plan.arena_bytes)?;
        Ok(Self {
            input_spans: inputs.iter().map(Input::span).collect(),
            output_spans: outputs.iter_mut().map(Span::of).collect(),
            arena_span: Span::of(&mut arena),
            outputs,
            _owners: (inputs, arena),
        })
    }

    pub(super) fn into_outputs(self) -> Vec<AlignedBuffer> {
        self.outputs
    }

    /// The operands of a step that reads `inputs` and writes `outputs`, each paired with its expected shape.
    ///
    /// An input may be written in place by an output of the same layout and element size if `may_be_in_place`. Nothing else that is
    /// written may overlap what is read or written.
    pub(super) fn operands(
        &self,
        inputs: &[(&View, &[usize])],
        outputs: &[(&View, &[usize])],
        may_be_in_place: bool,
    ) -> Result<Operands, OpError> {
        let mut is_in_place = vec![false; inputs.len()];
        for (nth, (output, _)) in outputs.iter().enumerate() {
            let written = extent(output)?;
            if matches!(output.location, Location::Input(_)) || !is_injective(&output.layout) {
                return Err(OpError::Invalid(format!("output {nth} of a step cannot be written: {output:?}")));
            }
            for (other, _) in &outputs[nth + 1..] {
                if shares_buffer(output, other) && may_overlap(output, other, &written, &extent(other)?) {
                    return Err(OpError::Invalid(format!("outputs of a step overlap: {output:?} and {other:?}")));
                }
            }
            for ((input, _), is_in_place) in inputs.iter().zip(&mut is_in_place) {
                let read = extent(input)?;
                if !shares_buffer(output, input) || !may_overlap(output, input, &written, &read) {
                    continue;
                }
                *is_in_place = true;
                let is_same = written == read
                    && input.layout.shape == output.layout.shape
                    && input.layout.strides == output.layout.strides
                    && input.dtype.size() == output.dtype.size();
                if !may_be_in_place || !is_same {
                    return Err(OpError::Invalid(format!("a step reads what it writes: {input:?} and {output:?}")));
                }
            }
        }
        let operands = |views: &[(&View, &[usize])]| {
            views.iter().map(|(view, shape)| self.operand(view, shape)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Operands { inputs: operands(inputs)?, is_in_place, outputs: operands(outputs)? })
    }

    fn operand(&self, view: &View, shape: &[usize]) -> Result<Operand, OpError> {
        let View { location, dtype, layout } = view;
        if layout.shape != shape {
            return Err(OpError::Invalid(format!("expected a view of {shape:?}, got {view:?}")));
        }
        let span = match *location {
            Location::Input(nth) => self.input_spans.get(nth),
            Location::Output(nth) => self.output_spans.get(nth),
            Location::Arena(_) => Some(&self.arena_span),
        };
        let Span { start, len } = *span.ok_or_else(|| OpError::Invalid(format!("there is no buffer {location:?}")))?;
        let bytes = extent(view)?;
        if bytes.end > len {
            return Err(OpError::Invalid(format!("{view:?} ends at byte {} of a buffer of {len}", bytes.end)));
        }
        let first = if bytes.is_empty() { 0 } else { arena_offset(*location) + layout.offset * dtype.size() };
        let base = start.wrapping_add(first);
        if !bytes.is_empty() && !base.addr().is_multiple_of(dtype.size()) {
            return Err(OpError::Invalid(format!("{view:?} is not aligned to its elements")));
        }
        Ok(Operand { base, dtype: *dtype, shape: layout.shape.clone(), strides: layout.strides.clone() })
    }
}

fn arena_offset(location: Location) -> usize {
    match location {
        Location::Arena(offset) => offset,
        Location::Input(_) | Location::Output(_) => 0,
    }
}

/// The bytes of its buffer that a view covers.
fn extent(view: &View) -> Result<std::ops::Range<usize>, OpError> {
    let range = positions(&view.layout)
        .and_then(|range| {
            let byte =
                |position: usize| position.checked_mul(view.dtype.size())?.checked_add(arena_offset(view.location));
            Some(byte(range.start)?..byte(range.end)?)
        })
        .ok_or_else(|| OpError::Invalid(format!("{view:?} addresses no memory")))?;
    Ok(if range.is_empty() { 0..0 } else { range })
}

fn shares_buffer(a: &View, b: &View) -> bool {
    match (a.location, b.location) {
        (Location::Arena(_), Location::Arena(_)) => true,
        (a, b) => a == b,
    }
}
