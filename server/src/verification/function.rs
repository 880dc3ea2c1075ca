//! Functions that compute the outputs of a side, and how they run.

use std::sync::Arc;

use accelerd_ir::{
    kernel::{
        FaultKind, FaultRecord, ParamType,
        wasm::{ImageArgument, MemoryImage, RESERVED},
    },
    scalar::Literal,
};
use accelerd_sandbox::{
    Call, CaseLimits, FaultCause, FunctionConstants, Isolation, Launch, OnFault, Outcome, Refusal, SandboxError,
};
use bytes::Bytes;

use super::{
    column::{Column, Extent, Port},
    outcome::CaseOutcome,
    wasm::WasmFunction,
};
use crate::{error::ApiError, kernels::CompiledKernel, sandbox::Turn};

/// A function of a client.
#[derive(Clone, Debug)]
pub(super) enum Function {
    /// In Python, of either dialect, mapped over cases as rows.
    Kernel(Arc<CompiledKernel>),
    /// Of a WebAssembly module.
    Wasm(WasmFunction),
}

/// The limits of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) case: CaseLimits,
    pub(super) loop_budget: u64,
}

/// The results of a function.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    /// One for each case.
    pub(super) outcomes: Vec<CaseOutcome>,
    /// One for each output. Values of cases without a result are of no meaning.
    pub(super) outputs: Vec<Column>,
}

impl Function {
    /// Takes a kernel that maps a function over rows.
    pub(super) fn kernel(field: &str, kernel: Arc<CompiledKernel>) -> Result<Self, ApiError> {
        if !kernel.maps_rows {
            let reason = format!("expected a function, got the kernel {:?} of Warp", kernel.name);
            return Err(ApiError::invalid(format!("{field}.name"), reason));
        }
        Ok(Self::Kernel(kernel))
    }

    pub(super) fn inputs(&self) -> Vec<Port> {
        match self {
            Self::Kernel(kernel) => kernel_ports(kernel, false),
            Self::Wasm(function) => function.inputs(),
        }
    }

    pub(super) fn outputs(&self) -> Vec<Port> {
        match self {
            Self::Kernel(kernel) => kernel_ports(kernel, true),
            Self::Wasm(function) => function.outputs(),
        }
    }

    /// Returns true if cases of a chunk see what earlier ones wrote.
    pub(super) fn shares_instance(&self) -> bool {
        match self {
            Self::Kernel(_) => false,
            Self::Wasm(function) => function.isolation == Isolation::Reused,
        }
    }

    /// The constants of a function in Python.
    pub(super) fn literals(&self) -> Option<&[Literal]> {
        match self {
            Self::Kernel(kernel) => Some(&kernel.literals),
            Self::Wasm(_) => None,
        }
    }

    /// The constants of a function of a module.
    pub(super) fn constants(&self) -> Option<&FunctionConstants> {
        match self {
            Self::Kernel(_) => None,
            Self::Wasm(function) => Some(&function.constants),
        }
    }

    /// SHA-256 of the module, or of the program.
    pub(super) fn hash(&self) -> Vec<u8> {
        match self {
            Self::Kernel(kernel) => hex::decode(&kernel.id).unwrap_or_default(),
            Self::Wasm(function) => function.module.hash().0.to_vec(),
        }
    }

    /// Runs cases; `inputs` are in the order of [`Self::inputs`], and of their types and lengths.
    pub(super) fn run(
        &self,
        turn: &Turn,
        inputs: &[Column],
        cases: usize,
        limits: &Limits,
    ) -> Result<Ran, SandboxError> {
        if cases == 0 {
            let outputs = self.outputs().iter().map(empty).collect();
            return Ok(Ran { outcomes: vec![], outputs });
        }
        match self {
            Self::Kernel(kernel) => run_kernel(kernel, turn, inputs, cases, limits),
            Self::Wasm(function) => run_wasm(function, turn, inputs, cases, limits),
        }
    }
}

/// Arrays that a kernel reads or writes: one row for each case.
fn kernel_ports(kernel: &CompiledKernel, is_output: bool) -> Vec<Port> {
    let params = kernel.kernel.params.iter().zip(&kernel.written);
    let params = params.filter_map(|(param, written)| match &param.ty {
        ParamType::Array(array) if *written == is_output => {
            let extent = if array.dims == 1 { Extent::Scalar } else { Extent::List(None) };
            let dtype = array.element.components.first()?.dtype;
            Some(Port { name: param.name.clone(), dtype, extent })
        }
        ParamType::Array(_) | ParamType::Value(_) => None,
    });
    params.collect()
}

fn empty(port: &Port) -> Column {
    let length = match port.extent {
        Extent::Scalar => None,
        Extent::List(length) => Some(length.unwrap_or_default() as usize),
    };
    Column { dtype: port.dtype, length, data: Bytes::new() }
}

fn run_kernel(
    kernel: &CompiledKernel,
    turn: &Turn,
    inputs: &[Column],
    cases: usize,
    limits: &Limits,
) -> Result<Ran, SandboxError> {
    let mut inputs = inputs.iter();
    let arguments = kernel.written.iter().map(|written| match if *written { None } else { inputs.next() } {
        Some(column) => {
            let extents = [cases].into_iter().chain(column.length).map(|extent| extent as u64).collect();
            ImageArgument::Array { extents, data: column.data.clone() }
        }
        None => ImageArgument::Zeros { extents: vec![cases as u64] },
    });
    let arguments = arguments.collect();
    let image = MemoryImage::new(&kernel.kernel, &[cases as u64], arguments, limits.case.memory_bytes);
    let image = image.map_err(|error| Refusal::InvalidModule(error.to_string()))?;
    let places = kernel.written.iter().zip(&image.arrays).filter(|(written, _)| **written);
    let outputs = places.filter_map(|(_, place)| place.clone()).collect();
    let mut segments = vec![(RESERVED, Bytes::from(image.head))];
    segments.extend(image.data);
    let launched = turn.launch(&Launch {
        module: kernel.module.clone(),
        segments,
        memory_bytes: image.memory_bytes,
        arguments: image.arguments,
        grid: image.grid,
        first_thread: 0,
        thread_count: image.thread_count,
        loop_budget: limits.loop_budget,
        on_fault: OnFault::Continue { repeatable: kernel.is_repeatable },
        timeout: limits.case.timeout,
        outputs,
        cuda: None,
    })?;
    if launched.outcome != Outcome::Ok {
        return Ok(Ran { outcomes: vec![CaseOutcome::Module(launched.outcome); cases], outputs: zeros(kernel, cases) });
    }
    let mut outcomes = vec![CaseOutcome::OK; cases];
    for fault in launched.faults {
        let case = usize::try_from(fault.thread).ok().and_then(|thread| outcomes.get_mut(thread));
        let Some(case) = case else { return Err(unknown_fault()) };
        *case = match fault.cause {
            FaultCause::Record(record) => {
                let kind = FaultKind::from_code(FaultRecord::from_bytes(&record).kind);
                CaseOutcome::Fault(kind.ok_or_else(unknown_fault)?)
            }
            FaultCause::Outcome(outcome) => CaseOutcome::Module(outcome),
        };
    }
    let columns = kernel_ports(kernel, true).into_iter().zip(launched.outputs);
    let outputs = columns.map(|(port, data)| Column { dtype: port.dtype, length: None, data: data.into() }).collect();
    Ok(Ran { outcomes, outputs })
}

fn zeros(kernel: &CompiledKernel, cases: usize) -> Vec<Column> {
    let column =
        |port: Port| Column { dtype: port.dtype, length: None, data: vec![0; cases * port.dtype.size()].into() };
    kernel_ports(kernel, true).into_iter().map(column).collect()
}

/// The child process reports what its module cannot do.
fn unknown_fault() -> SandboxError {
    SandboxError::Protocol("a fault is none of the kernel".to_owned())
}

fn run_wasm(
    function: &WasmFunction,
    turn: &Turn,
    inputs: &[Column],
    cases: usize,
    limits: &Limits,
) -> Result<Ran, SandboxError> {
    let lengths: Vec<_> = inputs.iter().map(|column| column.length).collect();
    let call = Call {
        columns: inputs.iter().map(|column| column.data.clone()).collect(),
        limits: limits.case,
        isolation: function.isolation,
        math: true,
        ..Call::new(function.module.clone(), function.function.clone(), function.signature(&lengths), cases as u64)
    };
    let result = turn.call(&call)?;
    let outcomes = result.outcomes.iter().map(CaseOutcome::Module).collect();
    Ok(Ran { outcomes, outputs: function.output_columns(result.columns) })
}
