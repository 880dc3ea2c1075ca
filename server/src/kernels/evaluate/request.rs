//! Requests of evaluations, checked.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use accelerd_sandbox::SubjectConfig;
use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::{
    layout::Layout,
    runs::{Param, ParamKind, Plan},
};
use crate::{
    error::{ApiError, RequestedTime},
    kernels::{
        Program,
        arguments::NamedArgument,
        benchmark::{Tolerance, count},
        program::check_source,
    },
    shown::List,
    tensors::source::TensorSource,
};

const DEFAULT_RUNS: u32 = 20;
const DEFAULT_WARM_UP: u32 = 3;
const MAX_RUNS: u32 = 1000;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// CUDA's limits of a launch.
const MAX_PARAMS: usize = 256;
const MAX_BLOCK_THREADS: u64 = 1024;
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];

const MAX_ENTRY_BYTES: usize = 256;

/// A kernel to evaluate.
#[derive(Debug)]
pub(crate) struct EvaluationRequest {
    pub(crate) subject: CudaSubject,
    pub(crate) arguments: Vec<(String, TensorSource)>,
    pub(crate) expected: Expected,
    /// Arrays whose elements are the same in all runs.
    pub(crate) fixed_arguments: Vec<String>,
    pub(crate) run_count: Option<u32>,
    pub(crate) warm_up_count: Option<u32>,
    pub(crate) atol: Option<f64>,
    pub(crate) rtol: Option<f64>,
    /// Of a launch.
    pub(crate) timeout: RequestedTime,
}

/// A kernel in CUDA C++, and how it is launched.
#[derive(Debug, Default)]
pub(crate) struct CudaSubject {
    pub(crate) source: String,
    pub(crate) entry: String,
    pub(crate) params: Vec<CudaParam>,
    pub(crate) grid: Vec<u32>,
    pub(crate) block: Vec<u32>,
    pub(crate) dynamic_shared_bytes: u32,
}

/// A parameter of a kernel.
#[derive(Debug)]
pub(crate) struct CudaParam {
    pub(crate) name: String,
    pub(crate) kind: ParamKind,
    /// Without a shape this is the type of an element.
    pub(crate) of: TensorType,
}

/// Expected results of a request.
#[derive(Debug)]
pub(crate) enum Expected {
    /// Results of a kernel on a grid.
    Program(Program, Vec<u64>),
    /// Outputs by name.
    Outputs(Vec<(String, TensorType, Bytes)>),
}

/// A subject and the rules of its evaluation.
pub(super) struct Evaluation {
    pub(super) source: Bytes,
    /// Without parameters.
    pub(super) config: SubjectConfig,
    pub(super) plan: Plan,
    pub(super) expectation: Expectation,
    pub(super) tolerance: Tolerance,
    /// Of a launch.
    pub(super) timeout: Duration,
}

/// Source of the expected results.
pub(super) enum Expectation {
    /// Results of a kernel on a grid.
    Program(Program, Vec<u64>),
    /// Outputs, by the positions of the parameters.
    Outputs(Vec<(usize, Bytes)>),
}

impl Evaluation {
    pub(super) fn new(
        request: EvaluationRequest,
        arguments: Vec<NamedArgument>,
        max_source: usize,
    ) -> Result<Self, ApiError> {
        let subject = request.subject;
        check_source("subject.source", &subject.source, max_source)?;
        check_entry(&subject.entry)?;
        let has_outputs = matches!(request.expected, Expected::Outputs(_));
        let mut params = params(subject.params, arguments)?;
        fix(&mut params, &request.fixed_arguments, has_outputs)?;
        let sizes: Vec<_> = params.iter().map(array_bytes).collect();
        let plan = Plan {
            layout: Layout::new(&sizes),
            warm_up: count("warm_up_count", request.warm_up_count, DEFAULT_WARM_UP, 0..=MAX_RUNS)?,
            runs: count("run_count", request.run_count, DEFAULT_RUNS, 1..=MAX_RUNS)?,
            // Keys of a hasher are random.
            seed: RandomState::new().hash_one(0_u8),
            params,
        };
        let block = extents("subject.block", &subject.block, MAX_BLOCK)?;
        let threads: u64 = block.iter().map(|extent| u64::from(*extent)).product();
        if threads > MAX_BLOCK_THREADS {
            let reason = format!("expected at most {MAX_BLOCK_THREADS} threads, got {threads}");
            return Err(ApiError::invalid("subject.block", reason));
        }
        Ok(Self {
            source: subject.source.into(),
            config: SubjectConfig {
                entry: subject.entry,
                params: vec![],
                grid: extents("subject.grid", &subject.grid, MAX_GRID)?,
                block,
                shared_bytes: subject.dynamic_shared_bytes,
            },
            expectation: expectation(request.expected, &plan.params)?,
            plan,
            tolerance: Tolerance::new(request.atol, request.rtol)?,
            timeout: timeout(request.timeout)?,
        })
    }
}

fn check_entry(entry: &str) -> Result<(), ApiError> {
    let mut characters = entry.chars();
    let starts = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let is_identifier = starts && characters.all(|other| other.is_ascii_alphanumeric() || other == '_');
    if is_identifier && entry.len() <= MAX_ENTRY_BYTES {
        return Ok(());
    }
    let shown: String = entry.chars().take(64).collect();
    Err(ApiError::invalid("subject.entry", format!("expected the name of a function, got {shown:?}")))
}

fn extents(field: &str, extents: &[u32], limits: [u32; 3]) -> Result<[u32; 3], ApiError> {
    if !(1..=3).contains(&extents.len()) {
        return Err(ApiError::invalid(field, format!("expected 1 to 3 extents, got {}", extents.len())));
    }
    let mut all = [1; 3];
    for ((to, extent), limit) in all.iter_mut().zip(extents).zip(limits) {
        if !(1..=limit).contains(extent) {
            return Err(ApiError::invalid(field, format!("expected extents from 1 to {limit}, got {extents:?}")));
        }
        *to = *extent;
    }
    Ok(all)
}

/// The parameters with their arguments.
fn params(params: Vec<CudaParam>, arguments: Vec<NamedArgument>) -> Result<Vec<Param>, ApiError> {
    let got = params.len();
    if got > MAX_PARAMS {
        return Err(ApiError::invalid("subject.params", format!("expected at most {MAX_PARAMS}, got {got}")));
    }
    let mut named = HashMap::with_capacity(arguments.len());
    let mut names = HashSet::new();
    for argument in arguments {
        if !names.insert(argument.name.clone()) {
            let reason = format!("expected unique names, got {:?} twice", argument.name);
            return Err(ApiError::invalid(format!("{}.name", argument.field), reason));
        }
        named.insert(argument.name.clone(), argument);
    }
    let mut bound: Vec<Param> = Vec::with_capacity(params.len());
    for (nth, param) in params.into_iter().enumerate() {
        let field = format!("subject.params[{nth}]");
        if param.name.is_empty() || bound.iter().any(|other| other.name == param.name) {
            let reason = format!("expected a name of its own, got {:?}", param.name);
            return Err(ApiError::invalid(format!("{field}.name"), reason));
        }
        let argument = named.remove(&param.name);
        bound.push(bind(param, argument)?);
    }
    if let Some(unknown) = named.into_values().min_by(|a, b| a.field.cmp(&b.field)) {
        let shown: String = unknown.name.chars().take(64).collect();
        let reason = format!("expected the name of a parameter, got {shown:?}");
        return Err(ApiError::invalid(format!("{}.name", unknown.field), reason));
    }
    if !bound.iter().any(|param| param.kind.is_written()) {
        return Err(ApiError::invalid("subject.params", "expected an array that is written, got none"));
    }
    Ok(bound)
}

fn bind(param: CudaParam, argument: Option<NamedArgument>) -> Result<Param, ApiError> {
    let CudaParam { name, kind, of } = param;
    let (of, data) = match (kind, argument) {
        (ParamKind::Output, None) => (of, Bytes::new()),
        (ParamKind::Output, Some(argument)) => {
            let reason = format!("{name:?}: expected no argument for an array that is only written");
            return Err(ApiError::invalid(argument.field, reason));
        }
        (_, None) => {
            return Err(ApiError::invalid("arguments", format!("expected an argument {name:?}, got none")));
        }
        (kind, Some(argument)) => {
            let is_value = kind == ParamKind::Value;
            let fits = argument.of.dtype == of.dtype && (!is_value || argument.of.shape.is_empty());
            if !fits || !of.shape.is_empty() && argument.of.shape != of.shape {
                let TensorType { dtype, shape } = &argument.of;
                let what = if is_value { "a value" } else { "an array" };
                let reason =
                    format!("{name:?}: expected {what} of {}, got {dtype} of shape {:?}", of.dtype, List(shape));
                return Err(ApiError::invalid(argument.field, reason));
            }
            (argument.of, argument.data)
        }
    };
    Ok(Param { name, kind, of, data, is_fixed: false })
}

/// Marks the arrays whose elements are the same in all runs: with expected outputs, these are all.
fn fix(params: &mut [Param], fixed: &[String], all: bool) -> Result<(), ApiError> {
    for (nth, name) in fixed.iter().enumerate() {
        let is_read = |param: &&mut Param| matches!(param.kind, ParamKind::Input | ParamKind::InputOutput);
        let named = params.iter_mut().filter(is_read).find(|param| param.name == *name);
        let Some(param) = named else {
            let shown: String = name.chars().take(64).collect();
            let reason = format!("expected the name of an array that is passed, got {shown:?}");
            return Err(ApiError::invalid(format!("fixed_arguments[{nth}]"), reason));
        };
        param.is_fixed = true;
    }
    if all {
        for param in params.iter_mut() {
            param.is_fixed = true;
        }
    }
    Ok(())
}

fn array_bytes(param: &Param) -> Option<u64> {
    (param.kind != ParamKind::Value).then(|| param.of.bytes() as u64)
}

fn expectation(expected: Expected, params: &[Param]) -> Result<Expectation, ApiError> {
    match expected {
        Expected::Program(program, grid) => Ok(Expectation::Program(program, grid)),
        Expected::Outputs(outputs) => {
            if outputs.is_empty() {
                return Err(ApiError::invalid("expected.outputs", "expected an array, got none"));
            }
            let output = |(nth, output)| expected_output(&format!("expected.outputs[{nth}]"), output, params);
            let outputs = outputs.into_iter().enumerate().map(output).collect::<Result<_, _>>()?;
            Ok(Expectation::Outputs(outputs))
        }
    }
}

fn expected_output(
    field: &str,
    (name, of, data): (String, TensorType, Bytes),
    params: &[Param],
) -> Result<(usize, Bytes), ApiError> {
    let param = params.iter().position(|param| param.name == name && param.kind.is_written());
    let param = param.ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        ApiError::invalid(format!("{field}.name"), format!("expected an array that is written, got {shown:?}"))
    })?;
    let wanted = &params[param].of;
    if of != *wanted {
        let reason = format!(
            "expected {} of shape {:?}, got {} of shape {:?}",
            wanted.dtype,
            List(&wanted.shape),
            of.dtype,
            List(&of.shape)
        );
        return Err(ApiError::invalid(format!("{field}.value"), reason));
    }
    Ok((param, data))
}

fn timeout(requested: RequestedTime) -> Result<Duration, ApiError> {
    let got = match requested.unwrap_or(Ok(DEFAULT_TIMEOUT)) {
        Ok(time) if !time.is_zero() && time <= MAX_TIMEOUT => return Ok(time),
        Ok(time) => format!("{time:?}"),
        Err(negative) => negative,
    };
    let reason = format!("expected more than 0 and at most {MAX_TIMEOUT:?}, got {got}");
    Err(ApiError::invalid("launch_timeout", reason))
}
