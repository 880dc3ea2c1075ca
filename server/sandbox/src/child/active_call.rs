//! A call whose slices are run one by one.

use std::sync::Arc;

use super::{
    driver_runner::{Driver, DriverRunner},
    instance_runner::InstanceRunner,
    slice_columns::{InputColumns, OutputColumns},
    subject::Subject,
};
use crate::{
    limits::Slice,
    protocol::{CallRequest, MAX_SLICE_BYTES, SliceHeader},
    refusal::Refusal,
};

/// A call, and how far it is.
pub(super) struct ActiveCall {
    inputs: InputColumns,
    outputs: OutputColumns,
    subject: Arc<Subject>,
    runner: Runner,
    next: u64,
    case_count: u64,
    max_slice_cases: u64,
}

enum Runner {
    Instance(InstanceRunner),
    Driver(DriverRunner),
}

impl ActiveCall {
    /// Prepares a call; `driver` compiles one for its signature.
    pub(super) fn new(
        request: &CallRequest,
        subject: Subject,
        body: Vec<u8>,
        driver: impl FnOnce() -> Result<Driver, Refusal>,
    ) -> Result<Self, Refusal> {
        let inputs = InputColumns::new(&request.signature, request.case_count, body)?;
        let subject = Arc::new(subject);
        let in_a_loop = subject.keeps_instance() && request.signature.is_scalar() && request.limits.fuel.is_none();
        let runner = if in_a_loop {
            Runner::Driver(DriverRunner::new(Arc::clone(&subject), driver()?))
        } else {
            Runner::Instance(InstanceRunner::new(Arc::clone(&subject)))
        };
        Ok(Self {
            inputs,
            subject,
            outputs: OutputColumns::new(&request.signature),
            runner,
            next: 0,
            case_count: request.case_count,
            max_slice_cases: (MAX_SLICE_BYTES / request.signature.output_bytes().saturating_add(1)).max(1),
        })
    }

    /// Runs cases until the clock reaches `slice_end`.
    pub(super) fn run(&mut self, slice: Slice, slice_end: u64) -> SliceHeader {
        let left = self.case_count - self.next;
        let cases = left.min(slice.cases.max(1)).min(self.max_slice_cases);
        let cases = usize::try_from(cases).expect("a slice fits in memory");
        // Without columns, cases have no bytes, and any number of them is valid.
        let first = usize::try_from(self.next).unwrap_or(usize::MAX);
        self.outputs.reset(cases);
        if matches!(&self.runner, Runner::Driver(runner) if runner.is_often_spent()) {
            self.runner = Runner::Instance(InstanceRunner::new(Arc::clone(&self.subject)));
        }
        let (done, fuel) = match &mut self.runner {
            Runner::Instance(runner) => {
                let done = runner.run(&self.inputs, first, cases, slice_end, &mut self.outputs);
                (done, runner.take_fuel_used())
            }
            Runner::Driver(runner) => (runner.run(&self.inputs, first, cases, slice_end, &mut self.outputs), 0),
        };
        let header = SliceHeader { first: self.next, cases: done as u64, fuel };
        self.next += header.cases;
        header
    }

    /// Outcomes and columns of the last slice.
    pub(super) fn body(&self, slice: SliceHeader) -> Vec<&[u8]> {
        self.outputs.body(usize::try_from(slice.cases).expect("a slice fits in memory"))
    }
}
