//! Faults of kernels, with their place in the file.

use std::path::Path;

use accelerd_client::{KernelFault, proto::KernelFaultKind};
use serde::Serialize;

use crate::renderer::{Renderer, Style};

#[derive(Serialize)]
pub(super) struct FaultReport {
    file: String,
    line: u32,
    column: u32,
    kind: &'static str,
    thread: u64,
    #[serde(flatten)]
    access: Option<Access>,
    /// The variable that was read before it was assigned.
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<String>,
}

/// An access outside of an array.
#[derive(Serialize)]
struct Access {
    array: String,
    dimension: u32,
    index: i64,
    extent: i64,
}

impl FaultReport {
    pub(super) fn new(file: &Path, fault: &KernelFault) -> Self {
        // A fault of a vector, a matrix or a slice names no array.
        let is_access = fault.kind() == KernelFaultKind::OutOfBounds && !fault.array.is_empty();
        Self {
            file: file.display().to_string(),
            line: fault.line,
            column: fault.column,
            kind: match fault.kind() {
                KernelFaultKind::OutOfBounds => "out_of_bounds",
                KernelFaultKind::DivisionByZero => "division_by_zero",
                KernelFaultKind::Assertion => "assertion",
                KernelFaultKind::InvalidValue => "invalid_value",
                KernelFaultKind::LoopBudget => "loop_budget",
                KernelFaultKind::Unspecified => "unknown",
            },
            thread: fault.thread,
            access: is_access.then(|| Access {
                array: fault.array.clone(),
                dimension: fault.dimension,
                index: fault.index,
                extent: fault.extent,
            }),
            variable: Some(fault.variable.clone()).filter(|variable| !variable.is_empty()),
        }
    }

    /// As `FILE:LINE:COLUMN: kind in thread 7: ...`, with columns from 1 as editors count them.
    pub(super) fn render(&self, renderer: &mut Renderer) {
        let place = match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}:{}", self.file, self.column + 1),
        };
        let access = self.access.as_ref().map(|access| {
            let Access { array, dimension, index, extent } = access;
            format!(": index {index} is outside of dimension {dimension} of {array}, which has {extent} elements")
        });
        let variable = self.variable.as_ref().map(|name| format!(": variable {name} is read before it is assigned"));
        let detail = access.or(variable).unwrap_or_default();
        let kind = renderer.style(Style::Bad, self.kind);
        renderer.whole_line(format!("{place}: {kind} in thread {}{detail}", self.thread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_the_variable_and_no_array_of_a_vector() {
        let line = |kind: KernelFaultKind, variable: &str| {
            let variable = variable.to_owned();
            let fault =
                KernelFault { kind: kind.into(), thread: 2, line: 4, column: 11, variable, ..Default::default() };
            let mut renderer = Renderer::new(false, 80);
            FaultReport::new(Path::new("f.py"), &fault).render(&mut renderer);
            renderer.text().into_owned()
        };
        let unassigned = "f.py:4:12: invalid_value in thread 2: variable y is read before it is assigned\n";
        assert_eq!(line(KernelFaultKind::InvalidValue, "y"), unassigned);
        assert_eq!(line(KernelFaultKind::OutOfBounds, ""), "f.py:4:12: out_of_bounds in thread 2\n");
    }
}
