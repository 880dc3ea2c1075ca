//! The two sides of a verification: functions, or outputs that the client sends, and how their inputs and outputs are matched.

use accelerd_engine::Context;
use accelerd_sandbox::{Module, ModuleCode, ModuleInfo};

use super::{
    column::{Column, Extent, Port, contains},
    function::{Function, Limits, Ran},
    outcome::CaseOutcome,
    wasm::{StatedWasm, WasmFunction},
};
use crate::{
    error::ApiError,
    kernels::{KernelCache, Program},
    sandbox::{Sandboxes, Turn},
};

/// Fields of functions in a header: the subject's, and the reference's.
const FIELDS: [SideFields; 2] = [
    SideFields { kernel: "header.kernel", wasm: "header.wasm" },
    SideFields { kernel: "header.reference_kernel", wasm: "header.reference_wasm" },
];

#[derive(Clone, Copy, Debug)]
struct SideFields {
    kernel: &'static str,
    wasm: &'static str,
}

impl SideFields {
    fn of(self, function: &Function) -> &'static str {
        match function {
            Function::Kernel(_) => self.kernel,
            Function::Wasm(_) => self.wasm,
        }
    }
}

/// Subject and reference.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) subject: Side,
    pub(super) reference: Side,
    /// The inputs of a case: those of the functions, in types that both have.
    pub(super) inputs: Vec<Port>,
}

/// Source of the outputs of a side.
#[derive(Clone, Debug)]
pub(super) enum Side {
    /// The client.
    Given,
    /// A function.
    Function(Box<Computed>),
}

/// A function, and how its parameters match those of the other side.
#[derive(Clone, Debug)]
pub(super) struct Computed {
    /// Its field in the header.
    field: &'static str,
    pub(super) function: Function,
    /// For each input of the function: the position of the case's input.
    inputs: Vec<usize>,
    /// Types of the inputs of the function.
    ports: Vec<Port>,
    /// For each output of the function: its name in the comparison.
    pub(super) outputs: Vec<String>,
}

/// A side as a header states it.
#[derive(Debug)]
pub(crate) enum StatedSide {
    /// The client sends the outputs.
    Given,
    Kernel(Program),
    Wasm(StatedWasm),
}

/// A side on the way to its function.
enum Resolving {
    Given,
    Function(Function),
    /// A module, compiled, that may lack parameters.
    Wasm(StatedWasm, Module, ModuleInfo),
}

/// Compiles the functions of headers.
pub(super) struct Resolver<'a> {
    pub(super) kernels: &'a KernelCache,
    pub(super) sandboxes: &'a Sandboxes,
    pub(super) context: &'a Context,
    pub(super) limits: Limits,
}

impl Resolver<'_> {
    /// The sides of a header.
    pub(super) async fn sides(&self, subject: StatedSide, reference: StatedSide) -> Result<Sides, ApiError> {
        let [subject_fields, reference_fields] = FIELDS;
        let subject = self.resolve(subject, subject_fields).await?;
        let reference = self.resolve(reference, reference_fields).await?;
        let (subject, reference) = complete(subject, reference)?;
        Sides::new(subject, reference)
    }

    async fn resolve(&self, stated: StatedSide, fields: SideFields) -> Result<Resolving, ApiError> {
        let SideFields { kernel, wasm } = fields;
        match stated {
            StatedSide::Given => Ok(Resolving::Given),
            StatedSide::Kernel(program) => {
                self.sandboxes.check_enabled()?;
                let compiled = self.kernels.compile(program, kernel, self.context).await?;
                Ok(Resolving::Function(Function::kernel(kernel, compiled)?))
            }
            StatedSide::Wasm(mut function) => {
                self.sandboxes.check_enabled()?;
                let module = Module::new(std::mem::take(&mut function.module));
                let code = ModuleCode::of_cases(&self.limits.case, function.isolation);
                let loaded = module.clone();
                let info = self.sandboxes.run(self.context, move |turn| turn.load(&loaded, code)).await;
                let info = info.map_err(|error| error.refused_in(&format!("{wasm}.module")))?;
                if function.params.is_empty() || function.results.is_empty() {
                    return Ok(Resolving::Wasm(function, module, info));
                }
                let function = WasmFunction::new(wasm, &function, module, &info, None)?;
                Ok(Resolving::Function(Function::Wasm(function)))
            }
        }
    }
}

/// Infers what modules leave out from the function of the other side.
fn complete(subject: Resolving, reference: Resolving) -> Result<(Option<Function>, Option<Function>), ApiError> {
    let known = |side: &Resolving| match side {
        Resolving::Function(function) => Some((function.inputs(), function.outputs())),
        Resolving::Given | Resolving::Wasm(..) => None,
    };
    let ports = [known(&reference), known(&subject)];
    let complete = |side, field, other: &Option<(Vec<Port>, Vec<Port>)>| {
        let other = other.as_ref().map(|(inputs, outputs)| (inputs.as_slice(), outputs.as_slice()));
        match side {
            Resolving::Given => Ok(None),
            Resolving::Function(function) => Ok(Some(function)),
            Resolving::Wasm(stated, module, info) => {
                WasmFunction::new(field, &stated, module, &info, other).map(|function| Some(Function::Wasm(function)))
            }
        }
    };
    Ok((complete(subject, FIELDS[0].wasm, &ports[0])?, complete(reference, FIELDS[1].wasm, &ports[1])?))
}

impl Sides {
    fn new(mut subject: Option<Function>, mut reference: Option<Function>) -> Result<Self, ApiError> {
        if let (Some(subject), Some(reference)) = (&mut subject, &mut reference) {
            match_buffers(subject, reference);
            match_buffers(reference, subject);
        }
        let ports = |function: &Option<Function>| function.as_ref().map(|of| (of.inputs(), of.outputs()));
        let (leading, following) = match (ports(&reference), ports(&subject)) {
            (Some(reference), subject) => (reference, subject),
            (None, Some(subject)) => (subject, None),
            (None, None) => return Ok(Self { subject: Side::Given, reference: Side::Given, inputs: vec![] }),
        };
        let mut inputs = leading.0.clone();
        let positions = (0..inputs.len()).collect::<Vec<_>>();
        let names: Vec<_> = leading.1.iter().map(|port| port.name.clone()).collect();
        let mut matched = (positions.clone(), names.clone());
        if let (Some((subject_inputs, subject_outputs)), Some(function)) = (&following, &subject) {
            let unfit = |reason| ApiError::invalid(FIELDS[0].of(function), reason);
            let to_inputs = positions_of(subject_inputs, &leading.0, "inputs").map_err(unfit)?;
            for (port, position) in subject_inputs.iter().zip(&to_inputs) {
                inputs[*position] = common(port, &inputs[*position]).map_err(unfit)?;
            }
            let to_outputs = positions_of(subject_outputs, &leading.1, "outputs").map_err(unfit)?;
            matched = (to_inputs, to_outputs.into_iter().map(|position| names[position].clone()).collect());
        }
        let [subject_fields, reference_fields] = FIELDS;
        let side = |function: Option<Function>, (inputs, outputs): (Vec<usize>, Vec<String>), fields: SideFields| {
            let Some(function) = function else { return Side::Given };
            let field = fields.of(&function);
            let ports = function.inputs();
            Side::Function(Box::new(Computed { field, function, inputs, ports, outputs }))
        };
        let subject = side(subject, matched, subject_fields);
        Ok(Self { subject, reference: side(reference, (positions, names), reference_fields), inputs })
    }

    /// Returns the expected outcome of the subject, if the name is not empty.
    pub(super) fn expected_outcome(&self, field: &str, name: &str) -> Result<Option<CaseOutcome>, ApiError> {
        match &self.subject {
            _ if name.is_empty() => Ok(None),
            Side::Given => Err(ApiError::invalid(field, "expected none, for outputs of the client have no outcome")),
            Side::Function(computed) => {
                CaseOutcome::of_name(field, name, matches!(computed.function, Function::Kernel(_))).map(Some)
            }
        }
    }

    pub(super) fn has_functions(&self) -> bool {
        [&self.subject, &self.reference].into_iter().any(|side| matches!(side, Side::Function(_)))
    }

    /// Returns true if cases of a chunk share an instance, so that results depend on the bounds of chunks.
    pub(super) fn share_instances(&self) -> bool {
        let functions = [&self.subject, &self.reference].into_iter().filter_map(Side::function);
        functions.map(|computed| &computed.function).any(Function::shares_instance)
    }

    pub(super) fn are_functions(&self) -> bool {
        [&self.subject, &self.reference].into_iter().all(|side| matches!(side, Side::Function(_)))
    }
}

impl Side {
    pub(super) fn function(&self) -> Option<&Computed> {
        match self {
            Self::Given => None,
            Self::Function(computed) => Some(computed),
        }
    }
}

impl Computed {
    /// For each input of the function: the position of the case's input.
    pub(super) fn input_positions(&self) -> &[usize] {
        &self.inputs
    }

    /// Runs cases on the inputs of the verification.
    pub(super) fn run(&self, turn: &Turn, inputs: &[Column], cases: usize, limits: &Limits) -> Result<Ran, ApiError> {
        let columns = self.inputs.iter().zip(&self.ports);
        let columns: Vec<_> = columns.map(|(position, port)| inputs[*position].convert(port.dtype)).collect();
        self.function.run(turn, &columns, cases, limits).map_err(|error| ApiError::from(error).refused_in(self.field))
    }
}

/// Takes the elements of a module's buffers one by one if the other function returns values.
fn match_buffers(function: &mut Function, other: &Function) {
    if let Function::Wasm(function) = function
        && other.outputs().iter().all(|port| port.extent == Extent::Scalar)
    {
        function.split_buffers();
    }
}

/// The position of each port among those of the reference: by name if the names are the same, else by position.
fn positions_of(subject: &[Port], reference: &[Port], what: &str) -> Result<Vec<usize>, String> {
    if subject.len() != reference.len() {
        let list = |ports: &[Port]| ports.iter().map(Port::to_string).collect::<Vec<_>>().join(", ");
        let reason = format!("expected the {what} of the reference, [{}], got [{}]", list(reference), list(subject));
        return Err(reason);
    }
    let position = |port: &Port| reference.iter().position(|other| other.name == port.name);
    let by_name: Option<Vec<_>> = subject.iter().map(position).collect();
    Ok(by_name.unwrap_or_else(|| (0..subject.len()).collect()))
}

/// An input of both functions: of the type with fewer values.
fn common(subject: &Port, reference: &Port) -> Result<Port, String> {
    let unfit = || format!("expected inputs of which one type contains the other, got {subject} and {reference}");
    let dtype = if contains(subject.dtype, reference.dtype) {
        reference.dtype
    } else if contains(reference.dtype, subject.dtype) {
        subject.dtype
    } else {
        return Err(unfit());
    };
    let extent = match (subject.extent, reference.extent) {
        (Extent::Scalar, Extent::Scalar) => Extent::Scalar,
        (Extent::List(subject), Extent::List(None)) => Extent::List(subject),
        (Extent::List(None), Extent::List(reference)) => Extent::List(reference),
        (Extent::List(Some(subject)), Extent::List(Some(reference))) if subject == reference => {
            Extent::List(Some(subject))
        }
        (Extent::List(_), _) | (Extent::Scalar, Extent::List(_)) => return Err(unfit()),
    };
    Ok(Port { name: reference.name.clone(), dtype, extent })
}
