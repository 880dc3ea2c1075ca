//! Checks of a module's parts before it is compiled, which takes far longer.

use wasmparser::{ExternalKind, FuncType, Parser, Payload, TypeRef, ValType};

use super::{constants::Constants, purity::Purity};
use crate::{
    abi::{WasmSignature, WasmType},
    limits::ModuleLimits,
    math,
    protocol::{ExportedFunction, ModuleInfo, WASM_PAGE},
    refusal::{Refusal, bounded},
};

/// Maximum number of names that an error lists.
const LISTED: usize = 20;

/// The first bytes of a module.
const MAGIC: [u8; 4] = *b"\0asm";

/// Returns the description of a module, which is not compiled.
pub(super) fn inspect(binary: &[u8], limits: &ModuleLimits) -> Result<ModuleInfo, Refusal> {
    within("bytes", binary.len() as u64, limits.bytes)?;
    let start = &binary[..binary.len().min(MAGIC.len())];
    if start != MAGIC {
        return Err(Refusal::InvalidModule(format!(
            "expected a binary that begins with {MAGIC:02x?}, got {start:02x?}"
        )));
    }
    let mut parts = Parts::new(binary);
    for payload in Parser::new(0).parse_all(binary) {
        parts.add(payload.map_err(|error| invalid(&error))?, limits).map_err(|error| match error {
            Error::Malformed(error) => invalid(&error),
            Error::Refused(refusal) => refusal,
        })?;
    }
    parts.finish()
}

fn invalid(error: &wasmparser::BinaryReaderError) -> Refusal {
    Refusal::InvalidModule(bounded(error.to_string()))
}

fn within(what: &str, got: u64, limit: u64) -> Result<(), Refusal> {
    if got <= limit { Ok(()) } else { Err(Refusal::ModuleTooLarge { what: what.to_owned(), got, limit }) }
}

enum Error {
    Malformed(wasmparser::BinaryReaderError),
    Refused(Refusal),
}

impl From<wasmparser::BinaryReaderError> for Error {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Malformed(error)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The parts of a module that has not been validated: indices may refer to nothing.
struct Parts<'a> {
    binary: &'a [u8],
    types: Vec<FuncType>,
    /// Types of all functions, imported ones first.
    functions: Vec<u32>,
    exports: Vec<(String, u32)>,
    exports_memory: bool,
    memory_bytes: u64,
    math_imports: Vec<String>,
    unknown: Vec<String>,
    unknown_count: u64,
    has_start: bool,
    purity: Purity,
    constants: Constants<'a>,
}

impl<'a> Parts<'a> {
    fn new(binary: &'a [u8]) -> Self {
        Self {
            binary,
            types: vec![],
            functions: vec![],
            exports: vec![],
            exports_memory: false,
            memory_bytes: 0,
            math_imports: vec![],
            unknown: vec![],
            unknown_count: 0,
            has_start: false,
            purity: Purity::default(),
            constants: Constants::default(),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the compiler validates other sections or refuses them")]
    fn add(&mut self, payload: Payload<'a>, limits: &ModuleLimits) -> Result<(), Error> {
        let items = |what, count: u32| within(what, u64::from(count), u64::from(limits.items));
        match payload {
            Payload::TypeSection(section) => {
                items("types", section.count())?;
                for ty in section.into_iter_err_on_gc_types() {
                    self.types.push(ty?);
                }
            }
            Payload::ImportSection(section) => {
                within("imports", u64::from(section.count()), u64::from(limits.functions))?;
                for import in section.into_imports() {
                    self.import(import?);
                }
            }
            Payload::FunctionSection(section) => {
                let count = self.functions.len() as u64 + u64::from(section.count());
                within("functions", count, u64::from(limits.functions))?;
                for ty in section {
                    self.functions.push(ty?);
                }
            }
            Payload::TableSection(section) => {
                within("tables", u64::from(section.count()), u64::from(limits.tables))?;
                let mut elements = 0u64;
                for table in section {
                    elements = elements.saturating_add(table?.ty.initial);
                }
                within("elements of tables", elements, u64::from(limits.table_elements))?;
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    self.memory_bytes = memory?.initial.saturating_mul(WASM_PAGE);
                }
            }
            Payload::GlobalSection(section) => {
                items("globals", section.count())?;
                self.constants.add_globals(section)?;
            }
            Payload::ExportSection(section) => {
                items("exports", section.count())?;
                for export in section {
                    let export = export?;
                    match export.kind {
                        ExternalKind::Func => self.exports.push((export.name.to_owned(), export.index)),
                        ExternalKind::Memory if export.name == "memory" => self.exports_memory = true,
                        _ => {}
                    }
                }
            }
            Payload::StartSection { .. } => self.has_start = true,
            Payload::ElementSection(section) => {
                items("element segments", section.count())?;
                self.constants.add_elements(section)?;
            }
            Payload::DataSection(section) => {
                items("data segments", section.count())?;
                self.constants.add_data(section)?;
            }
            Payload::CodeSectionEntry(body) => {
                let range = body.range();
                within("bytes in one function", (range.end - range.start) as u64, u64::from(limits.function_bytes))?;
                self.purity.add_function(self.binary, &body)?;
                self.constants.add_function(&body)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn import(&mut self, import: wasmparser::Import<'_>) {
        if let TypeRef::Func(ty) = import.ty {
            self.functions.push(ty);
            self.purity.add_import();
            self.constants.add_import();
            if import.module == "math" && self.is_math(import.name, ty) {
                return self.math_imports.push(import.name.to_owned());
            }
        }
        self.unknown_count += 1;
        if self.unknown.len() < LISTED {
            let ty = match import.ty {
                TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
                    self.signature(ty).map_or_else(String::new, |ty| format!(" {ty}"))
                }
                TypeRef::Table(_) => " table".into(),
                TypeRef::Memory(_) => " memory".into(),
                TypeRef::Global(_) => " global".into(),
                TypeRef::Tag(_) => " tag".into(),
            };
            self.unknown.push(bounded(format!("{}.{}{ty}", import.module, import.name)));
        }
    }

    fn is_math(&self, name: &str, ty: u32) -> bool {
        let Some((count, is_f32)) = math::operands(name) else { return false };
        let ty_of = if is_f32 { WasmType::F32 } else { WasmType::F64 };
        self.signature(ty) == Some(WasmSignature { params: vec![ty_of; count], results: vec![ty_of] })
    }

    fn signature(&self, ty: u32) -> Option<WasmSignature> {
        let ty = self.types.get(ty as usize)?;
        Some(WasmSignature {
            params: ty.params().iter().copied().map(wasm_type).collect(),
            results: ty.results().iter().copied().map(wasm_type).collect(),
        })
    }

    fn finish(self) -> Result<ModuleInfo, Refusal> {
        if self.unknown_count > 0 {
            return Err(Refusal::UnknownImports { names: self.unknown, count: self.unknown_count });
        }
        let impure = self.purity.impure_functions();
        let constants = self.constants.of(self.exports.iter().map(|(_, index)| *index));
        let mut functions = vec![];
        for ((name, index), constants) in self.exports.iter().zip(constants) {
            let ty = self.functions.get(*index as usize).and_then(|ty| self.signature(*ty));
            let signature =
                ty.ok_or_else(|| Refusal::InvalidModule(bounded(format!("export `{name}` is undefined"))))?;
            let is_pure = !self.has_start && impure.get(*index as usize) == Some(&false);
            functions.push(ExportedFunction { name: name.clone(), signature, is_pure, constants });
        }
        Ok(ModuleInfo {
            functions,
            exports_memory: self.exports_memory,
            memory_bytes: self.memory_bytes,
            math_imports: self.math_imports,
            code_bytes: 0,
        })
    }
}

fn wasm_type(ty: ValType) -> WasmType {
    match ty {
        ValType::I32 => WasmType::I32,
        ValType::I64 => WasmType::I64,
        ValType::F32 => WasmType::F32,
        ValType::F64 => WasmType::F64,
        ValType::V128 | ValType::Ref(_) => WasmType::Other,
    }
}

/// The exported function of this name, which must have the expected type.
pub(super) fn exported<'a>(
    info: &'a ModuleInfo,
    name: &str,
    expected: &WasmSignature,
) -> Result<&'a ExportedFunction, Refusal> {
    let Some(function) = info.functions.iter().find(|function| function.name == name) else {
        let exported = info.functions.iter().take(LISTED).map(|function| bounded(function.name.clone())).collect();
        return Err(Refusal::NoSuchFunction { name: bounded(name), exported });
    };
    if function.signature == *expected {
        return Ok(function);
    }
    let expected = expected.to_string();
    let got = bounded(function.signature.to_string());
    Err(Refusal::SignatureMismatch { name: bounded(name), expected, got })
}
