//! Where the operands of a call come from: tensors, or scalars in attributes.

use accelerd_ir::{Dtype, Kind};

use super::typing::kind;
pub(super) use crate::signature::Slot;
use crate::{Attribute, GraphError, attributes::Attributes};

/// Where an operand comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// An input of the node, by position.
    Tensor { nth: usize, dtype: Dtype, is_condition: bool },
    /// An attribute.
    Scalar { name: &'static str, value: &'a Attribute, kind: Kind },
}

impl Source<'_> {
    /// The type of a tensor that takes part in the common type.
    pub(super) fn promoted(&self) -> Option<Dtype> {
        match self {
            Self::Tensor { dtype, is_condition: false, .. } => Some(*dtype),
            Self::Tensor { .. } | Self::Scalar { .. } => None,
        }
    }

    /// The kind of a scalar.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Scalar { kind, .. } => Some(*kind),
            Self::Tensor { .. } => None,
        }
    }
}

/// The operands of a call: scalars fill the slots of their attributes, and the inputs the others in order.
pub(super) fn sources<'a>(
    slots: &[Slot],
    attributes: &Attributes<'a>,
    operands: &[Dtype],
) -> Result<Vec<Option<Source<'a>>>, GraphError> {
    let mut sources = slots.iter().map(|slot| scalar(*slot, attributes)).collect::<Result<Vec<_>, _>>()?;
    check_count(slots, &sources, attributes, operands.len())?;
    let free = sources.iter_mut().zip(slots).filter(|(source, _)| source.is_none());
    for ((source, slot), (nth, &dtype)) in free.zip(operands.iter().enumerate()) {
        let is_condition = *slot == Slot::Condition;
        if is_condition && dtype != Dtype::Bool {
            return Err(GraphError::new(&attributes.node().name, format!("inputs[{nth}]"), Dtype::Bool.name(), dtype));
        }
        *source = Some(Source::Tensor { nth, dtype, is_condition });
    }
    Ok(sources)
}

/// The scalar of a slot, if its attribute is set.
fn scalar<'a>(slot: Slot, attributes: &Attributes<'a>) -> Result<Option<Source<'a>>, GraphError> {
    let Some(name) = slot.attribute() else { return Ok(None) };
    let Some(value) = attributes.get(name) else { return Ok(None) };
    let kind = kind(value).ok_or_else(|| attributes.mismatch(name, "a number", value))?;
    Ok(Some(Source::Scalar { name, value, kind }))
}

impl Slot {
    fn attribute(self) -> Option<&'static str> {
        match self {
            Self::Tensor | Self::Condition => None,
            Self::Either(name) | Self::Optional(name) => Some(name),
        }
    }
}

/// Checks the number of inputs: one for each slot without a scalar, but for optional ones, and at least one.
fn check_count(
    slots: &[Slot],
    sources: &[Option<Source<'_>>],
    attributes: &Attributes<'_>,
    got: usize,
) -> Result<(), GraphError> {
    let (set, free): (Vec<_>, Vec<_>) = slots.iter().zip(sources).partition(|(_, source)| source.is_some());
    let [set, free] = [set, free].map(|part| part.into_iter().map(|(slot, _)| *slot).collect::<Vec<_>>());
    let needed = free.iter().filter(|slot| !matches!(slot, Slot::Optional(_))).count().max(1);
    if needed <= got && got <= free.len() {
        return Ok(());
    }
    let expected = expected_count(&set, &free, needed, got);
    Err(GraphError::new(&attributes.node().name, "inputs", expected, got))
}

/// The right number of inputs in words. `set` are the slots that have scalars, `free` the others.
fn expected_count(set: &[Slot], free: &[Slot], needed: usize, got: usize) -> String {
    let names = |slots: &[Slot]| slots.iter().filter_map(|slot| slot.attribute()).collect::<Vec<_>>().join(", ");
    let most = free.len();
    if most == 0 {
        return format!("an input instead of one of the attributes {}", names(set));
    }
    let count = if needed < most { format!("{needed} to {most}") } else { needed.to_string() };
    let noun = if most == 1 { "input" } else { "inputs" };
    let besides = if set.is_empty() { String::new() } else { format!(" besides {}", names(set)) };
    match names(free) {
        names if names.is_empty() || got >= needed => format!("{count} {noun}{besides}"),
        names => format!("{count} {noun}{besides}, or attributes instead ({names})"),
    }
}
