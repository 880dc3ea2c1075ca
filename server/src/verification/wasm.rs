//! Functions of WebAssembly modules: which parameters and results they have.

use accelerd_ir::Dtype;
use accelerd_sandbox::{
    BufferUse, ExportedFunction, FunctionConstants, Isolation, MAX_VALUES, Module, ModuleInfo, Param, ScalarType,
    Signature, WasmSignature, WasmType,
};
use bytes::Bytes;

use super::column::{Column, Extent, Port};
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
    /// Constants of its code.
    pub(super) constants: FunctionConstants,
    /// True if each element of a buffer that it writes is an output of its own.
    pub(super) splits_buffers: bool,
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
    /// True if the function gets the address of a buffer without the number of its elements.
    pub(crate) address_only: bool,
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
            // Buffers have the outputs before those that are returned.
            let written = outputs.and_then(|outputs| outputs.len().checked_sub(export.signature.results.len()));
            let written = outputs.zip(written).map(|(outputs, written)| &outputs[..written]);
            inferred_params(field, &export.signature, inputs, written)?
        } else {
            check_names(&format!("{field}.params"), stated.params.iter().map(|param| &param.name))?;
            stated.params.clone()
        };
        let results = if stated.results.is_empty() {
            inferred_results(field, &export.signature, outputs, &params)?
        } else {
            check_names(&format!("{field}.results"), stated.results.iter().map(|result| &result.name))?;
            stated.results.clone()
        };
        let function = export.name.clone();
        let isolation = stated.isolation;
        let constants = export.constants.clone();
        let function = Self { module, function, params, results, isolation, constants, splits_buffers: false };
        function.check(field, export)?;
        Ok(function)
    }

    pub(super) fn inputs(&self) -> Vec<Port> {
        self.params.iter().filter_map(WasmParam::input).collect()
    }

    /// Buffers in the order of the parameters, or their elements, then returned values.
    pub(super) fn outputs(&self) -> Vec<Port> {
        let ports = self.results_and_buffers();
        if self.splits_buffers { ports.into_iter().flat_map(elements).collect() } else { ports }
    }

    /// Takes the elements of buffers as outputs, for a function that returns as many values.
    pub(super) fn split_buffers(&mut self) {
        self.splits_buffers = true;
    }

    /// The outputs of a call in the order of its columns.
    pub(super) fn output_columns(&self, columns: Vec<Vec<u8>>) -> Vec<Column> {
        let column = |(port, data): (Port, Vec<u8>)| {
            let length = match port.extent {
                Extent::Scalar => None,
                Extent::List(length) => Some(length.unwrap_or_default() as usize),
            };
            Column { dtype: port.dtype, length, data: data.into() }
        };
        let columns = self.results_and_buffers().into_iter().zip(columns).map(column);
        if self.splits_buffers { columns.flat_map(Column::elements).collect() } else { columns.collect() }
    }

    /// Buffers in the order of the parameters, then returned values.
    fn results_and_buffers(&self) -> Vec<Port> {
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
        let params = self.params.iter().map(|WasmParam { ty, passing, address_only, .. }| {
            let mut next = || lengths.next().copied().flatten().and_then(|length| u32::try_from(length).ok());
            let (usage, length) = match *passing {
                Passing::Value => {
                    next();
                    return Param::Value(*ty);
                }
                Passing::Input(stated) => {
                    let length = next();
                    (BufferUse::Input, stated.or(length).unwrap_or_default())
                }
                Passing::InOut(length) => {
                    next();
                    (BufferUse::InOut, length)
                }
                Passing::Output(length) => (BufferUse::Output, length),
            };
            match usage {
                _ if *address_only => Param::Address(usage, *ty, length),
                BufferUse::Input => Param::Input(*ty, length),
                BufferUse::Output => Param::Output(*ty, length),
                BufferUse::InOut => Param::InOut(*ty, length),
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
    fn new(name: String, ty: ScalarType, passing: Passing) -> Self {
        Self { name, ty, passing, address_only: false }
    }

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

/// Parameters for the inputs of the other side, or scalars. Parameters after those of the inputs are buffers for `written`: the outputs of
/// the other side that the function does not return.
fn inferred_params(
    field: &str,
    export: &WasmSignature,
    inputs: Option<&[Port]>,
    written: Option<&[Port]>,
) -> Result<Vec<WasmParam>, ApiError> {
    let field = format!("{field}.params");
    let Some(inputs) = inputs else {
        let value = |(nth, ty)| Some(WasmParam::new(format!("arg{nth}"), widest(ty)?, Passing::Value));
        let params = export.params.iter().copied().enumerate().map(value).collect::<Option<_>>();
        return params.ok_or_else(|| not_scalar(&field, export));
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
        Some(WasmParam::new(port.name.clone(), ty, passing))
    };
    let params = inputs.iter().map(&mut fit).collect::<Option<Vec<_>>>();
    let mut params = params.ok_or_else(|| unfit(&field, export, inputs))?;
    let rest: Vec<_> = types.collect();
    if !rest.is_empty() {
        let are_addresses = rest.iter().all(|ty| *ty == WasmType::I32);
        let written = written.filter(|written| are_addresses && !written.is_empty());
        let written = written.ok_or_else(|| unfit(&field, export, inputs))?;
        params.extend(inferred_buffers(&field, export, rest.len(), written)?);
    }
    Ok(params)
}

/// Buffers that a function fills with the outputs of the other side: an address for each output, one address for all of them, or an address
/// and a number of elements.
fn inferred_buffers(
    field: &str,
    export: &WasmSignature,
    addresses: usize,
    outputs: &[Port],
) -> Result<Vec<WasmParam>, ApiError> {
    let is_scalar = |port: &Port| (port.extent == Extent::Scalar).then(|| scalar_type(port.dtype)).flatten();
    let types: Option<Vec<_>> = outputs.iter().map(is_scalar).collect();
    let types = types.ok_or_else(|| unfit(field, export, outputs))?;
    let has_one_type = types.iter().all(|ty| *ty == types[0]);
    let buffer = |name: &str, ty, length, address_only| WasmParam {
        address_only,
        ..WasmParam::new(name.to_owned(), ty, Passing::Output(length))
    };
    let length = u32::try_from(outputs.len()).unwrap_or(u32::MAX);
    let name = if let [only] = outputs { &only.name } else { "out" };
    match addresses {
        2 if outputs.len() == 2 && has_one_type => {
            let reason = format!(
                "expected a list of the parameters, for {export} can take two addresses, or an address and a number of elements"
            );
            Err(ApiError::invalid(field, reason))
        }
        _ if addresses == outputs.len() => {
            Ok(outputs.iter().zip(types).map(|(port, ty)| buffer(&port.name, ty, 1, true)).collect())
        }
        1 | 2 if has_one_type => Ok(vec![buffer(name, types[0], length, addresses == 1)]),
        _ => Err(unfit(field, export, outputs)),
    }
}

/// Results for the outputs of the other side that no buffer has, or scalars.
fn inferred_results(
    field: &str,
    export: &WasmSignature,
    outputs: Option<&[Port]>,
    params: &[WasmParam],
) -> Result<Vec<WasmResult>, ApiError> {
    let Some(outputs) = outputs else {
        let count = export.results.len();
        let name = |nth| if count == 1 { "result".to_owned() } else { format!("result{nth}") };
        let named = |(nth, ty)| Some(WasmResult { name: name(nth), ty: widest(ty)? });
        let results = export.results.iter().copied().enumerate().map(named).collect::<Option<_>>();
        return results.ok_or_else(|| not_scalar(&format!("{field}.results"), export));
    };
    let unfit = || unfit(&format!("{field}.results"), export, outputs);
    let written: Vec<_> = params.iter().filter_map(WasmParam::output).collect();
    let elements = written.iter().cloned().flat_map(elements).count();
    let lists = written.len();
    let others = [lists, elements].into_iter().find(|written| written + export.results.len() == outputs.len());
    let returned = &outputs[others.ok_or_else(unfit)?..];
    let fit = |(port, ty): (&Port, &WasmType)| {
        let ty = (port.extent == Extent::Scalar).then(|| inferred(port.dtype, *ty)).flatten()?;
        Some(WasmResult { name: port.name.clone(), ty })
    };
    returned.iter().zip(&export.results).map(fit).collect::<Option<Vec<_>>>().ok_or_else(unfit)
}

/// A list of a fixed length as that many scalars.
fn elements(port: Port) -> Vec<Port> {
    match port.extent {
        Extent::List(Some(1)) => vec![Port { extent: Extent::Scalar, ..port }],
        Extent::List(Some(length)) => {
            let element = |nth| Port { name: format!("{}[{nth}]", port.name), extent: Extent::Scalar, ..port.clone() };
            (0..length).map(element).collect()
        }
        Extent::Scalar | Extent::List(None) => vec![port],
    }
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
            constants: FunctionConstants::default(),
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
    fn what_a_function_does_not_return_it_writes_to_buffers() {
        let inputs = [port("x", Dtype::F64, Extent::Scalar)];
        let outputs: Vec<_> = ["a", "b", "c"].map(|name| port(name, Dtype::F64, Extent::Scalar)).into();
        let i32s = |count| [vec![WasmType::F64], vec![WasmType::I32; count]].concat();
        for (params, results, names) in [
            (i32s(1), vec![], vec!["out[0]", "out[1]", "out[2]"]),
            (i32s(2), vec![], vec!["out[0]", "out[1]", "out[2]"]),
            (i32s(3), vec![], vec!["a", "b", "c"]),
            (i32s(1), vec![WasmType::F64], vec!["out[0]", "out[1]", "c"]),
            (i32s(1), vec![WasmType::F64; 2], vec!["a", "b", "c"]),
        ] {
            let info = info(&[("f", &params, &results)]);
            let mut found = new(&stated("f"), &info, Some((&inputs, &outputs))).expect("it fits");
            found.split_buffers();
            let found: Vec<_> = found.outputs().into_iter().map(|port| (port.name, port.extent)).collect();
            let expected: Vec<_> = names.into_iter().map(|name| (name.to_owned(), Extent::Scalar)).collect();
            assert_eq!(found, expected, "{params:?} {results:?}");
        }
        let info = info(&[("f", &i32s(2), &[])]);
        let refused = new(&stated("f"), &info, Some((&inputs, &outputs[..2]))).expect_err("ambiguous").to_string();
        assert!(refused.contains("two addresses, or an address and a number"), "{refused}");
    }

    #[test]
    fn elements_of_buffers_become_columns() {
        let params = vec![
            WasmParam { address_only: true, ..WasmParam::new("out".into(), ScalarType::U8, Passing::Output(3)) },
            WasmParam::new("one".into(), ScalarType::U8, Passing::Output(1)),
        ];
        let info = info(&[("f", &[WasmType::I32; 3], &[])]);
        let mut function = new(&StatedWasm { params, ..stated("f") }, &info, None).expect("it fits");
        function.split_buffers();
        let columns = function.output_columns(vec![vec![1, 2, 3, 4, 5, 6], vec![7, 8]]);
        let columns: Vec<_> = columns.iter().map(|column| (column.length, &column.data[..])).collect();
        assert_eq!(columns, [(None, &[1, 4][..]), (None, &[2, 5]), (None, &[3, 6]), (None, &[7, 8])]);
    }

    #[test]
    fn functions_that_do_not_fit_are_refused_with_their_field() {
        let two = info(&[("f", &[WasmType::F64], &[WasmType::F64]), ("g", &[], &[])]);
        let param = |name: &str, ty| WasmParam::new(name.to_owned(), ty, Passing::Value);
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
