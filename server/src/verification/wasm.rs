//! Functions of WebAssembly modules: which parameters and results they have.

use accelerd_ir::Dtype;
use accelerd_sandbox::{
    ExportedFunction, Isolation, MAX_VALUES, Module, ModuleInfo, Param, ScalarType, Signature, WasmSignature, WasmType,
};
use bytes::Bytes;

use super::column::{Extent, Port};
use crate::error::ApiError;

/// The name of an exported allocator, which no caller wants to verify.
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

/// A function of a module as a client states it.
#[derive(Clone, Debug)]
pub(crate) struct StatedWasm {
    pub(crate) module: Bytes,
    /// Empty for the only one.
    pub(crate) function: String,
    /// Empty if they follow from the export and the other side.
    pub(crate) params: Vec<WasmParam>,
    /// As the parameters.
    pub(crate) results: Vec<WasmResult>,
    pub(crate) isolation: Isolation,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WasmParam {
    pub(crate) name: String,
    pub(crate) ty: ScalarType,
    pub(crate) passing: Passing,
}

/// Passing of a parameter, with the number of elements where it is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    Value,
    Input(Option<u32>),
    Output(u32),
    InOut(u32),
}

/// A returned value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WasmResult {
    pub(crate) name: String,
    pub(crate) ty: ScalarType,
}

impl WasmFunction {
    /// The function that is stated. What is left out follows from the export, and from `other`: the inputs and outputs of the other
    /// side, if it is a function that is known already.
    pub(super) fn new(
        field: &str,
        stated: &StatedWasm,
        module: Module,
        info: &ModuleInfo,
        other: Option<(&[Port], &[Port])>,
    ) -> Result<Self, ApiError> {
        let export = export(field, &stated.function, info)?;
        let (inputs, outputs) = other.unzip();
        let params = if stated.params.is_empty() {
            inferred_params(field, &export.signature, inputs)?
        } else {
            check_names(&format!("{field}.params"), stated.params.iter().map(|param| &param.name))?;
            stated.params.clone()
        };
        let results = if stated.results.is_empty() {
            inferred_results(field, &export.signature, outputs)?
        } else {
            check_names(&format!("{field}.results"), stated.results.iter().map(|result| &result.name))?;
            stated.results.clone()
        };
        let function = export.name.clone();
        let isolation = stated.isolation;
        let function = Self { module, function, params, results, isolation };
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
            let function = &self.function;
            let expected = &export.signature;
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

fn check_names<'a>(list: &str, mut names: impl Iterator<Item = &'a String>) -> Result<(), ApiError> {
    match names.position(String::is_empty) {
        Some(nth) => Err(ApiError::invalid(format!("{list}[{nth}].name"), "expected a name, got none")),
        None => Ok(()),
    }
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

/// The type of parameters and results for an element type, if there is one.
pub(crate) fn scalar_type(dtype: Dtype) -> Option<ScalarType> {
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

    fn stated(function: &str) -> StatedWasm {
        let module = Bytes::new();
        let function = function.to_owned();
        let isolation = Isolation::Fresh;
        StatedWasm { module, function, params: vec![], results: vec![], isolation }
    }

    fn port(name: &str, dtype: Dtype, extent: Extent) -> Port {
        Port { name: name.to_owned(), dtype, extent }
    }

    fn new(
        stated: &StatedWasm,
        info: &ModuleInfo,
        other: Option<(&[Port], &[Port])>,
    ) -> Result<WasmFunction, ApiError> {
        WasmFunction::new("wasm", stated, Module::new(vec![]), info, other)
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
        let found = new(&stated(""), &info, Some((&inputs, &outputs))).expect("it fits");
        let narrow = Port { dtype: Dtype::I32, ..inputs[1].clone() };
        assert_eq!(found.inputs(), [inputs[0].clone(), narrow, inputs[2].clone()]);
        assert_eq!(found.outputs(), [Port { dtype: Dtype::F32, ..outputs[0].clone() }]);
        let signature = found.signature(&[None, None, Some(5)]);
        assert_eq!(signature.params[2], Param::Input(ScalarType::F64, 5));
    }

    #[test]
    fn a_function_alone_takes_scalars_of_its_export() {
        let info = info(&[("alloc", &[WasmType::I32], &[WasmType::I32]), ("f", &[WasmType::I64], &[WasmType::F64; 2])]);
        let found = new(&stated(""), &info, None).expect("scalars");
        assert_eq!(found.function, "f");
        assert_eq!(found.inputs(), [port("arg0", Dtype::I64, Extent::Scalar)]);
        let names: Vec<_> = found.outputs().into_iter().map(|port| port.name).collect();
        assert_eq!(names, ["result0", "result1"]);
    }

    #[test]
    fn functions_that_do_not_fit_are_refused_with_their_field() {
        let two = info(&[("f", &[WasmType::F64], &[WasmType::F64]), ("g", &[], &[])]);
        let param = |name: &str, ty| WasmParam { name: name.to_owned(), ty, passing: Passing::Value };
        let with = |params: Vec<WasmParam>| StatedWasm { params, ..stated("f") };
        let text = [port("x", Dtype::I64, Extent::Scalar)];
        for (message, other, field) in [
            (stated(""), None, "wasm.function"),
            (stated("h"), None, "wasm.function"),
            (stated("f"), Some((&text[..], &text[..])), "wasm.params"),
            (with(vec![param("x", ScalarType::F32)]), None, "wasm.params"),
            (with(vec![param("", ScalarType::F64)]), None, "wasm.params[0].name"),
            (with(vec![param("x", ScalarType::F64), param("x", ScalarType::F64)]), None, "wasm.params"),
        ] {
            let refused = new(&message, &two, other).expect_err(field).to_string();
            assert!(refused.contains(field), "{field}: {refused}");
        }
    }
}
