//! A side of a check: a function in a file that computes the outputs, or files with the outputs.

use std::{fs, path::Path};

use accelerd_client::{
    KernelConstant, KernelProgram, VerifySide, WasmFunction,
    proto::{Tensor, WasmParam, WasmParamKind},
};
use sha2::{Digest, Sha256};
use toml::Value;

use super::fields::Fields;
use crate::{dtype, npy};

/// A side of a check.
#[derive(Debug)]
pub struct Side {
    pub outputs: Outputs,
    /// As `lib.wasm: norm`.
    pub description: String,
    /// SHA-256 of the file, or of the elements of the arrays.
    pub sha256: String,
}

#[derive(Debug)]
pub enum Outputs {
    Function(VerifySide),
    Arrays(Arrays),
}

/// Arrays by name, whose first dimension is that of the cases.
pub type Arrays = Vec<(String, Tensor)>;

impl Side {
    /// Reads a side of a check. Files are relative to the folder.
    pub(super) fn read(fields: &mut Fields<'_>, key: &'static str, folder: &Path) -> Option<Self> {
        if !fields.has(key) {
            fields.note(key, "expected a table with python, wasm or npy");
        }
        let mut side = fields.table(key)?;
        let kinds: Vec<_> = ["python", "wasm", "npy"].into_iter().filter(|kind| side.has(kind)).collect();
        let found = match kinds[..] {
            ["python"] => Some(python(&mut side, folder)),
            ["wasm"] => Some(wasm(&mut side, folder)),
            ["npy"] => arrays(&mut side, folder),
            _ => {
                fields.note(key, format!("expected one of python, wasm and npy, got {}", kinds.len()));
                return None;
            }
        };
        side.finish();
        found
    }
}

fn python(fields: &mut Fields<'_>, folder: &Path) -> Side {
    let (file, bytes) = file(fields, "python", folder);
    let function = fields.text("function").unwrap_or_default();
    let source = String::from_utf8(bytes).unwrap_or_else(|error| {
        fields.note("python", format!("{file}: {error}"));
        String::new()
    });
    let sha256 = hex::encode(Sha256::digest(&source));
    let mut program = KernelProgram::new(source).name(&function);
    for (name, value) in fields.entries("constants", "a number, true or false", |_, _, value| constant(value)) {
        program = program.constant(name, value);
    }
    Side { outputs: Outputs::Function(program.into()), description: described(&file, &function), sha256 }
}

fn constant(value: &Value) -> Option<KernelConstant> {
    let integer = value.as_integer().map(KernelConstant::from);
    let number = value.as_float().map(KernelConstant::from);
    integer.or(number).or_else(|| value.as_bool().map(KernelConstant::from))
}

fn wasm(fields: &mut Fields<'_>, folder: &Path) -> Side {
    let (file, module) = file(fields, "wasm", folder);
    let name = fields.text("function").unwrap_or_default();
    let sha256 = hex::encode(Sha256::digest(&module));
    let mut function = WasmFunction::new(module).name(&name);
    for mut param in fields.list("params") {
        if let Some(param) = wasm_param(&mut param) {
            function = function.param(param);
        }
        param.finish();
    }
    for mut result in fields.list("results") {
        if let (Some(name), Some(dtype)) = (required(&mut result, "name"), element_type(&mut result)) {
            function = function.result(name, dtype);
        }
        result.finish();
    }
    if fields.flag("share_instance").unwrap_or(false) {
        function = function.share_instance();
    }
    Side { outputs: Outputs::Function(function.into()), description: described(&file, &name), sha256 }
}

fn wasm_param(fields: &mut Fields<'_>) -> Option<WasmParam> {
    let kinds = [
        ("value", WasmParamKind::Value),
        ("input", WasmParamKind::Input),
        ("output", WasmParamKind::Output),
        ("in_out", WasmParamKind::InOut),
    ];
    let name = required(fields, "name");
    let dtype = element_type(fields);
    let kind = fields.choice("kind", &kinds).unwrap_or(WasmParamKind::Value);
    let length = fields.small_integer("length", 1);
    let address_only = fields.flag("address_only").unwrap_or(false);
    if address_only && kind == WasmParamKind::Value {
        fields.note("address_only", "expected none for a value");
    }
    match (kind, length) {
        (WasmParamKind::Value, Some(_)) => fields.note("length", "expected none for a value"),
        (WasmParamKind::Input | WasmParamKind::Output | WasmParamKind::InOut, None) => {
            fields.note("length", "expected the elements of the buffer");
        }
        _ => {}
    }
    Some(WasmParam { name: name?, dtype: dtype?.into(), kind: kind.into(), length: length.unwrap_or(0), address_only })
}

fn element_type(fields: &mut Fields<'_>) -> Option<accelerd_client::proto::Dtype> {
    if !fields.has("dtype") {
        fields.note("dtype", format!("expected one of {}", dtype::names()));
    }
    fields.choice("dtype", &dtype::ALL.each_ref().map(|info| (info.name, info.dtype)))
}

/// A text that must be there.
pub(super) fn required(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    if !fields.has(key) {
        fields.note(key, "expected a text, got nothing");
    }
    fields.text(key)
}

fn arrays(fields: &mut Fields<'_>, folder: &Path) -> Option<Side> {
    let files = fields.texts("npy");
    let arrays = read_arrays(fields, "npy", &files, folder)?;
    let mut hash = Sha256::new();
    for (_, tensor) in &arrays {
        hash.update(&tensor.data);
    }
    let named: Vec<_> = files.iter().map(|(name, file)| format!("{name} = {file}")).collect();
    let sha256 = hex::encode(hash.finalize());
    Some(Side { outputs: Outputs::Arrays(arrays), description: named.join(", "), sha256 })
}

/// Reads .npy files by name, whose first dimensions are cases.
pub(super) fn read_arrays(fields: &Fields<'_>, key: &str, files: &[(String, String)], folder: &Path) -> Option<Arrays> {
    let mut arrays = vec![];
    for (name, file) in files {
        match npy::read_tensor(&folder.join(file)) {
            Ok(tensor) if tensor.shape.is_empty() => {
                fields.note(&format!("{key}.{name}"), format!("{file}: expected a dimension of cases, got a scalar"));
            }
            Ok(tensor) => arrays.push((name.clone(), tensor)),
            Err(error) => fields.note(&format!("{key}.{name}"), error.to_string()),
        }
    }
    if files.is_empty() {
        fields.note(key, "expected NAME = \"FILE.npy\" for each array");
    }
    (arrays.len() == files.len() && !files.is_empty()).then_some(arrays)
}

/// The name of a file, relative to the folder, and its content, which is empty if it cannot be read.
fn file(fields: &mut Fields<'_>, key: &'static str, folder: &Path) -> (String, Vec<u8>) {
    let name = fields.text(key).unwrap_or_default();
    let path = folder.join(&name);
    let content = fs::read(&path).unwrap_or_else(|error| {
        fields.note(key, format!("{}: {error}", path.display()));
        vec![]
    });
    (name, content)
}

fn described(file: &str, function: &str) -> String {
    if function.is_empty() { file.to_owned() } else { format!("{file}: {function}") }
}
