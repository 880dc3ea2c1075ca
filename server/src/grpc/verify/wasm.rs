//! Functions of WebAssembly modules: which parameters and results they have.

use accelerd_ir::Dtype;
use accelerd_proto::v1 as pb;
use accelerd_sandbox::{
    ExportedFunction, Isolation, MAX_VALUES, Module, ModuleInfo, Param, ScalarType, Signature, WasmSignature, WasmType,
};

use super::column::{Extent, Port};
use crate::{error::ApiError, grpc::dtype::dtype_from_proto};

/// The name of an exported allocator, which is not what a caller wants to verify.
const ALLOCATOR: &str = "alloc";

/// A function of a module.
#[derive(Clone, Debug)]
pub(super) struct WasmFunction {
    pub(super) module: Module,
    pub(super) function: String,
    pub(super) params: Vec<WasmParam>,
    pub(super) results: Vec<WasmResult>,
    pub(super) isolation: Isolation,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WasmParam {
    name: String,
    ty: ScalarType,
    passing: Passing,
}

/// How a parameter is passed, with the number of elements where it is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    Value,
    Input(Option<u32>),
    Output(u32),
    InOut(u32),
}

/// A returned value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WasmResult {
    name: String,
    ty: ScalarType,
}

/// What cases observe of each other.
pub(super) fn isolation(message: &pb::WasmFunction) -> Isolation {
    if message.share_instance { Isolation::Reused } else { Isolation::Fresh }
}

impl WasmFunction {
    /// The function of a message. What the message leaves out follows from the export, and from `other`: the inputs and outputs of the other
    /// side, if it is a function that is known already.
    pub(super) fn new(
        field: &str,
        message: &pb::WasmFunction,
        module: Module,
        info: &ModuleInfo,
        other: Option<(&[Port], &[Port])>,
    ) -> Result<Self, ApiError> {
        let export = export(field, &message.function, info)?;
        let (inputs, outputs) = other.unzip();
        let params = if message.params.is_empty() {
            inferred_params(field, &export.signature, inputs)?
        } else {
            let nth = |(nth, param)| stated_param(&format!("{field}.params[{nth}]"), param);
            message.params.iter().enumerate().map(nth).collect::<Result<Vec<_>, _>>()?
        };
        let results = if message.results.is_empty() {
            inferred_results(field, &export.signature, outputs)?
        } else {
            let nth = |(nth, result)| stated_result(&format!("{field}.results[{nth}]"), result);
            message.results.iter().enumerate().map(nth).collect::<Result<Vec<_>, _>>()?
        };
        let function = Self { module, function: export.name.clone(), params, results, isolation: isolation(message) };
        function.check(field, export)?;
        Ok(function)
    }

    pub(super) fn inputs(&self) -> Vec<Port> {
        self.params.iter().filter_map(WasmParam::input).collect()
    }

    /// Buffers in the order of the parameters, then returned values.
    pub(super) fn outputs(&self) -> Vec<Port> {
        let results = self.results.iter();
        let results = results.map(|WasmResult { name, ty }| Port {
            name: name.clone(),
            dtype: dtype(*ty),
            extent: Extent::Scalar,
        });
        self.params.iter().filter_map(WasmParam::output).chain(results).collect()
    }

    /// The signature for inputs of these lengths, in the order of [`Self::inputs`].
    pub(super) fn signature(&self, lengths: &[Option<usize>]) -> Signature {
        let mut lengths = lengths.iter();
        let params = self.params.iter().map(|WasmParam { ty, passing, .. }| {
            let mut next = || lengths.next().copied().flatten().and_then(|length| u32::try_from(length).ok());
            match *passing {
                Passing::Value => {
                    next();
                    Param::Value(*ty)
                }
                Passing::Input(stated) => {
                    let length = next();
                    Param::Input(*ty, stated.or(length).unwrap_or_default())
                }
                Passing::InOut(length) => {
                    next();
                    Param::InOut(*ty, length)
                }
                Passing::Output(length) => Param::Output(*ty, length),
            }
        });
        Signature { params: params.collect(), results: self.results.iter().map(|result| result.ty).collect() }
    }

    /// Compares parameters and results with the export, and checks that names are unique.
    fn check(&self, field: &str, export: &ExportedFunction) -> Result<(), ApiError> {
        for (list, got) in [("params", self.params.len()), ("results", self.results.len())] {
            if got > MAX_VALUES {
                let reason = format!("expected at most {MAX_VALUES}, got {got}");
                return Err(ApiError::invalid(format!("{field}.{list}"), reason));
            }
        }
        let lengths = vec![None; self.params.len()];
        let got = self.signature(&lengths).wasm();
        if got != export.signature {
            let (function, expected) = (&self.function, &export.signature);
            let reason = format!("expected parameters and results of the export {function:?}, {expected}, got {got}");
            return Err(ApiError::invalid(format!("{field}.params"), reason));
        }
        for ports in [self.inputs(), self.outputs()] {
            let mut names: Vec<_> = ports.iter().map(|port| &port.name).collect();
            names.sort_unstable();
            let mut pairs = names.iter().zip(names.iter().skip(1));
            if let Some((twice, _)) = pairs.find(|(first, second)| first == second) {
                let reason = format!("expected unique names, got {twice:?} twice");
                return Err(ApiError::invalid(format!("{field}.params"), reason));
            }
        }
        Ok(())
    }
}

impl WasmParam {
    fn input(&self) -> Option<Port> {
        let extent = match self.passing {
            Passing::Value => Extent::Scalar,
            Passing::Input(length) => Extent::List(length),
            Passing::InOut(length) => Extent::List(Some(length)),
            Passing::Output(_) => return None,
        };
        Some(Port { name: self.name.clone(), dtype: dtype(self.ty), extent })
    }

    fn output(&self) -> Option<Port> {
        let length = match self.passing {
            Passing::Output(length) | Passing::InOut(length) => length,
            Passing::Value | Passing::Input(_) => return None,
        };
        Some(Port { name: self.name.clone(), dtype: dtype(self.ty), extent: Extent::List(Some(length)) })
    }
}

/// The function of this name; without a name, the only one.
fn export<'a>(field: &str, name: &str, info: &'a ModuleInfo) -> Result<&'a ExportedFunction, ApiError> {
    let is_wanted = |function: &&ExportedFunction| {
        if name.is_empty() { function.name != ALLOCATOR } else { function.name == name }
    };
    let mut wanted = info.functions.iter().filter(is_wanted);
    if let (Some(only), None) = (wanted.next(), wanted.next()) {
        return Ok(only);
    }
    let names: Vec<_> = info.functions.iter().take(20).map(|function| function.name.as_str()).collect();
    let reason = format!("expected an exported function of [{}], got {name:?}", names.join(", "));
    Err(ApiError::invalid(format!("{field}.function"), reason))
}

fn stated_param(field: &str, param: &pb::WasmParam) -> Result<WasmParam, ApiError> {
    let pb::WasmParam { name, length, .. } = param;
    let ty = stated_type(field, param.dtype)?;
    let kind = pb::WasmParamKind::try_from(param.kind).map_err(|_| {
        ApiError::invalid(format!("{field}.kind"), format!("expected a number that the enum has, got {}", param.kind))
    })?;
    let passing = match kind {
        pb::WasmParamKind::Unspecified | pb::WasmParamKind::Value => Passing::Value,
        pb::WasmParamKind::Input => Passing::Input((*length > 0).then_some(*length)),
        pb::WasmParamKind::Output => Passing::Output(*length),
        pb::WasmParamKind::InOut => Passing::InOut(*length),
    };
    check_name(field, name)?;
    Ok(WasmParam { name: name.clone(), ty, passing })
}

fn stated_result(field: &str, result: &pb::WasmResult) -> Result<WasmResult, ApiError> {
    check_name(field, &result.name)?;
    Ok(WasmResult { name: result.name.clone(), ty: stated_type(field, result.dtype)? })
}

fn check_name(field: &str, name: &str) -> Result<(), ApiError> {
    if name.is_empty() { Err(ApiError::invalid(format!("{field}.name"), "expected a name, got none")) } else { Ok(()) }
}

fn stated_type(field: &str, number: i32) -> Result<ScalarType, ApiError> {
    let dtype = pb::Dtype::try_from(number).ok();
    let unsupported = || {
        let got = dtype.map_or_else(|| number.to_string(), |dtype| dtype.as_str_name().to_owned());
        ApiError::invalid(format!("{field}.dtype"), format!("expected an integer type, bool, f32 or f64, got {got}"))
    };
    dtype.and_then(dtype_from_proto).and_then(scalar_type).ok_or_else(unsupported)
}

/// Parameters for the inputs of the other side, or scalars.
fn inferred_params(field: &str, export: &WasmSignature, inputs: Option<&[Port]>) -> Result<Vec<WasmParam>, ApiError> {
    let Some(inputs) = inputs else {
        let named = |(nth, ty)| Some(WasmParam { name: format!("arg{nth}"), ty: widest(ty)?, passing: Passing::Value });
        let params = export.params.iter().copied().enumerate().map(named).collect::<Option<_>>();
        return params.ok_or_else(|| not_scalar(&format!("{field}.params"), export));
    };
    let mut types = export.params.iter().copied();
    let mut fit = |port: &Port| {
        let (ty, passing) = match port.extent {
            Extent::Scalar => (inferred(port.dtype, types.next()?)?, Passing::Value),
            Extent::List(length) => {
                let is_buffer = [types.next()?, types.next()?] == [WasmType::I32; 2];
                (is_buffer.then(|| scalar_type(port.dtype)).flatten()?, Passing::Input(length))
            }
        };
        Some(WasmParam { name: port.name.clone(), ty, passing })
    };
    let params = inputs.iter().map(&mut fit).collect::<Option<Vec<_>>>();
    params.filter(|_| types.next().is_none()).ok_or_else(|| unfit(&format!("{field}.params"), export, inputs))
}

/// Results for the outputs of the other side, or scalars.
fn inferred_results(
    field: &str,
    export: &WasmSignature,
    outputs: Option<&[Port]>,
) -> Result<Vec<WasmResult>, ApiError> {
    let Some(outputs) = outputs else {
        let count = export.results.len();
        let name = |nth| if count == 1 { "result".to_owned() } else { format!("result{nth}") };
        let named = |(nth, ty)| Some(WasmResult { name: name(nth), ty: widest(ty)? });
        let results = export.results.iter().copied().enumerate().map(named).collect::<Option<_>>();
        return results.ok_or_else(|| not_scalar(&format!("{field}.results"), export));
    };
    let fit = |(port, ty): (&Port, &WasmType)| {
        let ty = (port.extent == Extent::Scalar).then(|| inferred(port.dtype, *ty)).flatten()?;
        Some(WasmResult { name: port.name.clone(), ty })
    };
    let results = outputs.iter().zip(&export.results).map(fit).collect::<Option<Vec<_>>>();
    let is_complete = outputs.len() == export.results.len();
    results.filter(|_| is_complete).ok_or_else(|| unfit(&format!("{field}.results"), export, outputs))
}

/// The type in which a parameter or result of a WebAssembly type has values of `wanted`: that type, or one with fewer bits.
fn inferred(wanted: Dtype, ty: WasmType) -> Option<ScalarType> {
    let same = scalar_type(wanted).filter(|scalar| scalar.wasm_type() == ty);
    same.or(match (wanted, ty) {
        (Dtype::I64, WasmType::I32) => Some(ScalarType::I32),
        (Dtype::U64, WasmType::I32) => Some(ScalarType::U32),
        (Dtype::F64, WasmType::F32) => Some(ScalarType::F32),
        _ => None,
    })
}

fn widest(ty: WasmType) -> Option<ScalarType> {
    match ty {
        WasmType::I32 => Some(ScalarType::I32),
        WasmType::I64 => Some(ScalarType::I64),
        WasmType::F32 => Some(ScalarType::F32),
        WasmType::F64 => Some(ScalarType::F64),
        WasmType::Other => None,
    }
}

fn not_scalar(field: &str, export: &WasmSignature) -> ApiError {
    ApiError::invalid(field, format!("expected a function of scalars, or a list of them here, got {export}"))
}

fn unfit(field: &str, export: &WasmSignature, other: &[Port]) -> ApiError {
    let other: Vec<_> = other.iter().map(Port::to_string).collect();
    let reason =
        format!("expected types of the other side, [{}], or a list of them here, got {export}", other.join(", "));
    ApiError::invalid(field, reason)
}

fn scalar_type(dtype: Dtype) -> Option<ScalarType> {
    ScalarType::ALL.into_iter().find(|ty| self::dtype(*ty) == dtype)
}

fn dtype(ty: ScalarType) -> Dtype {
    match ty {
        ScalarType::Bool => Dtype::Bool,
        ScalarType::I8 => Dtype::I8,
        ScalarType::U8 => Dtype::U8,
        ScalarType::I16 => Dtype::I16,
        ScalarType::U16 => Dtype::U16,
        ScalarType::I32 => Dtype::I32,
        ScalarType::U32 => Dtype::U32,
        ScalarType::I64 => Dtype::I64,
        ScalarType::U64 => Dtype::U64,
        ScalarType::F32 => Dtype::F32,
        ScalarType::F64 => Dtype::F64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(functions: &[(&str, &[WasmType], &[WasmType])]) -> ModuleInfo {
        let exported = |(name, params, results): &(&str, &[WasmType], &[WasmType])| ExportedFunction {
            name: (*name).to_owned(),
            signature: WasmSignature { params: params.to_vec(), results: results.to_vec() },
            is_pure: true,
        };
        ModuleInfo {
            functions: functions.iter().map(exported).collect(),
            exports_memory: true,
            memory_bytes: 0,
            math_imports: vec![],
            code_bytes: 0,
        }
    }

    fn port(name: &str, dtype: Dtype, extent: Extent) -> Port {
        Port { name: name.to_owned(), dtype, extent }
    }

    fn new(
        message: &pb::WasmFunction,
        info: &ModuleInfo,
        other: Option<(&[Port], &[Port])>,
    ) -> Result<WasmFunction, ApiError> {
        WasmFunction::new("wasm", message, Module::new(vec![]), info, other)
    }

    #[test]
    fn parameters_and_results_follow_from_the_other_side() {
        let info = info(&[("f", &[WasmType::F64, WasmType::I32, WasmType::I32, WasmType::I32], &[WasmType::F32])]);
        let inputs = [
            port("x", Dtype::F64, Extent::Scalar),
            port("n", Dtype::I64, Extent::Scalar),
            port("list", Dtype::F64, Extent::List(None)),
        ];
        let outputs = [port("result", Dtype::F64, Extent::Scalar)];
        let found = new(&pb::WasmFunction::default(), &info, Some((&inputs, &outputs))).expect("it fits");
        let narrow = Port { dtype: Dtype::I32, ..inputs[1].clone() };
        assert_eq!(found.inputs(), [inputs[0].clone(), narrow, inputs[2].clone()]);
        assert_eq!(found.outputs(), [Port { dtype: Dtype::F32, ..outputs[0].clone() }]);
        let signature = found.signature(&[None, None, Some(5)]);
        assert_eq!(signature.params[2], Param::Input(ScalarType::F64, 5));
    }

    #[test]
    fn a_function_alone_takes_scalars_of_its_export() {
        let info = info(&[("alloc", &[WasmType::I32], &[WasmType::I32]), ("f", &[WasmType::I64], &[WasmType::F64; 2])]);
        let found = new(&pb::WasmFunction::default(), &info, None).expect("scalars");
        assert_eq!(found.function, "f");
        assert_eq!(found.inputs(), [port("arg0", Dtype::I64, Extent::Scalar)]);
        let names: Vec<_> = found.outputs().into_iter().map(|port| port.name).collect();
        assert_eq!(names, ["result0", "result1"]);
    }

    #[test]
    fn functions_that_do_not_fit_are_refused_with_their_field() {
        let two = info(&[("f", &[WasmType::F64], &[WasmType::F64]), ("g", &[], &[])]);
        let named = |function: &str| pb::WasmFunction { function: function.to_owned(), ..Default::default() };
        let param = |name: &str, dtype: pb::Dtype| pb::WasmParam {
            name: name.to_owned(),
            dtype: dtype.into(),
            ..Default::default()
        };
        let with = |params: Vec<pb::WasmParam>| pb::WasmFunction { params, ..named("f") };
        let text = [port("x", Dtype::I64, Extent::Scalar)];
        for (message, other, field) in [
            (named(""), None, "wasm.function"),
            (named("h"), None, "wasm.function"),
            (named("f"), Some((&text[..], &text[..])), "wasm.params"),
            (with(vec![param("x", pb::Dtype::F32)]), None, "wasm.params"),
            (with(vec![param("", pb::Dtype::F64)]), None, "wasm.params[0].name"),
            (with(vec![param("x", pb::Dtype::F16)]), None, "wasm.params[0].dtype"),
            (with(vec![param("x", pb::Dtype::F64), param("x", pb::Dtype::F64)]), None, "wasm.params"),
        ] {
            let refused = new(&message, &two, other).expect_err(field).to_string();
            assert!(refused.contains(field), "{field}: {refused}");
        }
    }
}
