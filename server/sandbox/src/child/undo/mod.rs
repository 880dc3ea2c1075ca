//! Modules whose instances can undo the effects of a case, so that each case observes a new instance and none has to be created for it.
//!
//! Before each store, added code appends the address and the bytes that the store will overwrite to a log, in a memory of its own:
//!
//! ```text
//! log: entries of 16 bytes: address (i32), size in bytes (i32), bytes (i64)
//! (global $top (mut i32))      ;; where the next entry goes
//! (global $spent (mut i32))    ;; 1 after an effect that is not logged: a table or a segment changed, or the log is full
//! (global $limit (mut i64))    ;; bytes of memory that the module sees, if there are as many
//! (global $committed (mut i64)) ;; the same as of the commit
//! (func (export "accelerd.commit"))                ;; what the instance is now is what it returns to
//! (func (export "accelerd.undo") (result i32))     ;; returns to it, from the last entry to the first; 1 if the instance is spent
//! ```
//!
//! Numeric globals have copies, which `accelerd.commit` writes and `accelerd.undo` reads.
//!
//! Memory cannot shrink. Once a case has grown it, later cases get its pages, which are zero again, from their own `memory.grow`. In a module
//! that grows memory, added code answers `memory.grow` and `memory.size`, and accesses beyond the limit trap.

mod body;
mod effect;
mod log;

use wasm_encoder::{ConstExpr, Encode, Function, GlobalType, MemoryType, Module, RawSection, SectionId, ValType};
use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload};

use self::log::Log;

/// The exports that are added.
pub(super) const COMMIT: &str = "accelerd.commit";
pub(super) const UNDO: &str = "accelerd.undo";

/// Sizes of stores that have a function each, in the order of the functions: the log of a vector has two entries.
const SIZES: [i32; 5] = [1, 2, 4, 8, 16];

/// The order of sections in a module.
const ORDER: [SectionId; 12] = [
    SectionId::Type,
    SectionId::Import,
    SectionId::Function,
    SectionId::Table,
    SectionId::Memory,
    SectionId::Global,
    SectionId::Export,
    SectionId::Start,
    SectionId::Element,
    SectionId::DataCount,
    SectionId::Code,
    SectionId::Data,
];

/// Returns the module with a log, or `None` if it is malformed or has unsupported parts. The module must have been validated without the log,
/// because it could otherwise use the indices of the log and of the added functions.
pub(super) fn with_log(binary: &[u8]) -> Option<Vec<u8>> {
    let parts = Parts::read(binary).ok()??;
    parts.write().ok()
}

/// The parts of a module that the log is added to.
#[derive(Default)]
struct Parts<'a> {
    /// Contents of the sections by their number.
    sections: [Option<&'a [u8]>; 13],
    /// Numbers of parameters of the types.
    types: Vec<u32>,
    imported_functions: u32,
    /// Types of the module's own functions.
    functions: Vec<u32>,
    has_memory: bool,
    /// True if a function grows memory.
    grows: bool,
    /// The mutable ones among the types of the globals.
    mutable: Vec<Option<ValType>>,
    bodies: Vec<FunctionBody<'a>>,
}

impl<'a> Parts<'a> {
    /// Returns `None` if the module has unsupported parts.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other sections stay as they are, or the compiler refuses them")]
    fn read(binary: &'a [u8]) -> Result<Option<Self>, BinaryReaderError> {
        let mut parts = Self::default();
        for payload in Parser::new(0).parse_all(binary) {
            let payload = payload?;
            if let Some((id, range)) = payload.as_section()
                && let Some(section) = parts.sections.get_mut(usize::from(id))
            {
                *section = binary.get(range);
            }
            match payload {
                Payload::TypeSection(section) => {
                    for ty in section.into_iter_err_on_gc_types() {
                        parts.types.push(count(ty?.params().len()));
                    }
                }
                Payload::ImportSection(section) => parts.imported_functions = section.count(),
                Payload::FunctionSection(section) => parts.functions = section.into_iter().collect::<Result<_, _>>()?,
                Payload::MemorySection(section) => parts.has_memory = section.count() > 0,
                Payload::GlobalSection(section) => {
                    for global in section {
                        let ty = global?.ty;
                        parts.mutable.push(ty.mutable.then(|| numeric(ty.content_type)).flatten());
                        if ty.mutable && numeric(ty.content_type).is_none() {
                            return Ok(None);
                        }
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        if [COMMIT, UNDO].contains(&export?.name) {
                            return Ok(None);
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    for operator in body.get_operators_reader()? {
                        parts.grows |= matches!(operator?, Operator::MemoryGrow { .. });
                    }
                    parts.bodies.push(body);
                }
                _ => {}
            }
        }
        Ok(Some(parts))
    }

    fn write(&self) -> Result<Vec<u8>, BinaryReaderError> {
        let log = Log {
            memory: u32::from(self.has_memory),
            grows: self.grows,
            top: count(self.mutable.len()),
            functions: self.imported_functions + count(self.functions.len()),
        };
        let mut code = vec![];
        for (body, ty) in self.bodies.iter().zip(&self.functions) {
            let params = self.types.get(*ty as usize).copied().unwrap_or(0);
            log.body(body, params)?.encode(&mut code);
        }
        for function in self.added_functions(&log) {
            function.encode(&mut code);
        }
        let mut module = Module::new();
        for id in ORDER {
            let content = self.sections[id as usize];
            let data = match id {
                SectionId::Type => extended(content, &added_types()),
                SectionId::Function => extended(content, &self.added_indices()),
                SectionId::Memory => extended(content, &[encoded(&log_memory())]),
                SectionId::Global => extended(content, &self.added_globals()),
                SectionId::Export => extended(content, &log.exports()),
                SectionId::Code => {
                    let mut section = vec![];
                    count(self.bodies.len() + ADDED.len()).encode(&mut section);
                    section.extend(&code);
                    section
                }
                SectionId::Import
                | SectionId::Table
                | SectionId::Start
                | SectionId::Element
                | SectionId::DataCount
                | SectionId::Data
                | SectionId::Custom
                | SectionId::Tag => match content {
                    Some(content) => content.to_vec(),
                    None => continue,
                },
            };
            module.section(&RawSection { id: id.into(), data: &data });
        }
        Ok(module.finish())
    }

    /// Types of the added functions, by their indices in the module.
    fn added_indices(&self) -> Vec<Vec<u8>> {
        ADDED.iter().map(|ty| encoded(&(count(self.types.len()) + *ty as u32))).collect()
    }

    fn added_globals(&self) -> Vec<Vec<u8>> {
        // Until the first commit the module sees all of its memory.
        let limit = ConstExpr::i64_const(i64::MAX);
        let own = [(ValType::I32, None), (ValType::I32, None), (ValType::I64, Some(limit)), (ValType::I64, None)];
        let copies = self.mutable.iter().copied().flatten().map(|ty| (ty, None));
        let global = |(val_type, value): (ValType, Option<ConstExpr>)| {
            let mut bytes = encoded(&GlobalType { val_type, mutable: true, shared: false });
            value.unwrap_or_else(|| zero(val_type)).encode(&mut bytes);
            bytes
        };
        own.into_iter().chain(copies).map(global).collect()
    }

    /// The mutable globals, each with its copy.
    fn copies(&self, log: &Log) -> Vec<(u32, u32)> {
        let mutable = (0..).zip(&self.mutable).filter(|(_, ty)| ty.is_some());
        mutable.map(|(global, _)| global).zip(log.committed() + 1..).collect()
    }

    /// In the order of [`ADDED`].
    fn added_functions(&self, log: &Log) -> Vec<Function> {
        let copies = self.copies(log);
        let stores = SIZES.iter().map(|size| log.store(*size));
        stores.chain([log.range(), log.grow(), log.commit(&copies), log.undo(&copies)]).collect()
    }
}

fn zero(ty: ValType) -> ConstExpr {
    match ty {
        ValType::I64 => ConstExpr::i64_const(0),
        ValType::F32 => ConstExpr::f32_const(0.0.into()),
        ValType::F64 => ConstExpr::f64_const(0.0.into()),
        ValType::V128 => ConstExpr::v128_const(0),
        ValType::I32 | ValType::Ref(_) => ConstExpr::i32_const(0),
    }
}

/// Types of the added functions: of an address; of an address and a number of bytes; from a number of pages to one; without parameters; with
/// an i32 as result.
#[derive(Clone, Copy)]
enum Type {
    Address,
    Range,
    Grow,
    Commit,
    Undo,
}

const ADDED: [Type; SIZES.len() + 4] = [
    Type::Address,
    Type::Address,
    Type::Address,
    Type::Address,
    Type::Address,
    Type::Range,
    Type::Grow,
    Type::Commit,
    Type::Undo,
];

fn added_types() -> Vec<Vec<u8>> {
    let function = |params: usize, results: usize| {
        let mut bytes = vec![0x60];
        for values in [params, results] {
            count(values).encode(&mut bytes);
            (0..values).for_each(|_| ValType::I32.encode(&mut bytes));
        }
        bytes
    };
    vec![function(1, 0), function(2, 0), function(1, 1), function(0, 0), function(0, 1)]
}

fn log_memory() -> MemoryType {
    MemoryType { minimum: 1, maximum: Some(1), memory64: false, shared: false, page_size_log2: None }
}

/// The type of a global whose value is copied.
fn numeric(ty: wasmparser::ValType) -> Option<ValType> {
    match ty {
        wasmparser::ValType::I32 => Some(ValType::I32),
        wasmparser::ValType::I64 => Some(ValType::I64),
        wasmparser::ValType::F32 => Some(ValType::F32),
        wasmparser::ValType::F64 => Some(ValType::F64),
        wasmparser::ValType::V128 => Some(ValType::V128),
        wasmparser::ValType::Ref(_) => None,
    }
}

/// The contents of a section with more items.
fn extended(section: Option<&[u8]>, items: &[Vec<u8>]) -> Vec<u8> {
    let section = section.unwrap_or(&[0]);
    // The number of items, in at most five bytes.
    let length = 1 + section.iter().take(4).take_while(|byte| **byte >= 0x80).count();
    let (number, rest) = section.split_at(length.min(section.len()));
    let number = (0..).zip(number).fold(0, |sum, (place, byte)| sum | u64::from(byte & 0x7f) << (7 * place));
    let mut contents = vec![];
    u32::try_from(number).unwrap_or(u32::MAX).saturating_add(count(items.len())).encode(&mut contents);
    contents.extend(rest);
    contents.extend(items.iter().flatten());
    contents
}

fn encoded(item: &(impl Encode + ?Sized)) -> Vec<u8> {
    let mut bytes = vec![];
    item.encode(&mut bytes);
    bytes
}

fn count(items: usize) -> u32 {
    u32::try_from(items).expect("a module is smaller than 4 GiB")
}
