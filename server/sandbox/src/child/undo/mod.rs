//! Modules whose instances can undo what a case did, so that cases observe new instances without one being created for each.
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

mod effect;

use wasm_encoder::{
    BlockType, ConstExpr, Encode, ExportKind, Function, GlobalType, InstructionSink, MemArg, MemArgTarget, MemoryType,
    Module, RawSection, SectionId, ValType,
};
use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload};

use effect::{Effect, effect};

/// The exports that are added.
pub(super) const COMMIT: &str = "accelerd.commit";
pub(super) const UNDO: &str = "accelerd.undo";

/// Bytes of the log: one page.
const LOG_BYTES: i32 = 1 << 16;
const ENTRY_BYTES: i32 = 16;
/// Bits of an address within a page.
const PAGE_BITS: i64 = 16;
/// Where an entry has its parts.
const SIZE: u64 = 4;
const BYTES: u64 = 8;

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

/// The module with a log, or `None` if it is malformed or has what is not provided for. The module must have been validated without the log,
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
    /// Whether a function grows memory.
    grows: bool,
    /// The mutable ones among the types of the globals.
    mutable: Vec<Option<ValType>>,
    bodies: Vec<FunctionBody<'a>>,
}

impl<'a> Parts<'a> {
    /// `None` where a module has what is not provided for.
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

/// The indices of what is added.
struct Log {
    /// The memory of the log, after that of the module.
    memory: u32,
    /// Whether the module grows its memory.
    grows: bool,
    /// The global with the place of the next entry.
    top: u32,
    /// The first added function.
    functions: u32,
}

impl Log {
    /// Whether the module has a memory of its own.
    fn has_memory(&self) -> bool {
        self.memory > 0
    }

    fn spent(&self) -> u32 {
        self.top + 1
    }

    fn limit(&self) -> u32 {
        self.top + 2
    }

    fn committed(&self) -> u32 {
        self.top + 3
    }

    fn function_of_range(&self) -> u32 {
        self.functions + count(SIZES.len())
    }

    fn exports(&self) -> Vec<Vec<u8>> {
        let export = |(name, nth): (&str, u32)| {
            let mut bytes = encoded(name);
            ExportKind::Func.encode(&mut bytes);
            (self.function_of_range() + nth).encode(&mut bytes);
            bytes
        };
        [(COMMIT, 2), (UNDO, 3)].into_iter().map(export).collect()
    }

    fn at(&self, offset: u64) -> MemArg {
        MemArg { offset, align: 0, target: MemArgTarget::Memory(self.memory), ordering: None }
    }

    /// The body of a function of the module, with what is logged before its effects.
    fn body(&self, body: &FunctionBody<'_>, params: u32) -> Result<Vec<u8>, BinaryReaderError> {
        let bytes = body.as_bytes();
        let mut locals = body.get_locals_reader()?;
        let (mut declared, groups) = (0_u32, locals.get_count());
        let groups_at = locals.original_position();
        for _ in 0..groups {
            declared = declared.saturating_add(locals.read()?.0);
        }
        let start = body.range().start;
        let declarations = &bytes[groups_at - start..locals.original_position() - start];
        let mut scratch = Scratch { first: params.saturating_add(declared), used: false };
        let (mut code, mut copied) = (vec![], locals.original_position() - start);
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            let at = operators.original_position() - start;
            let Some(effect) = effect(&operators.read()?).filter(|effect| self.grows || !effect.is_of_growth()) else {
                continue;
            };
            code.extend(&bytes[copied..at]);
            copied = if effect.is_replaced() { operators.original_position() - start } else { at };
            self.before(&effect, &mut scratch, InstructionSink::new(&mut code));
        }
        let mut logged = vec![];
        let added = if scratch.used { SCRATCH.len() } else { 0 };
        (groups + count(added)).encode(&mut logged);
        logged.extend(declarations);
        for (number, ty) in &SCRATCH[..added] {
            number.encode(&mut logged);
            ty.encode(&mut logged);
        }
        logged.extend(code);
        logged.extend(&bytes[copied..]);
        Ok(logged)
    }

    /// What runs before an effect, or in its place. Its operands are on the stack.
    fn before(&self, effect: &Effect, scratch: &mut Scratch, mut code: InstructionSink<'_>) {
        let [address, length, middle] = [0, 1, 2].map(|nth| scratch.first + nth);
        scratch.used |= !matches!(effect, Effect::Size | Effect::Grow | Effect::NotLogged);
        match effect {
            Effect::Store { size, value, offset } => {
                let value = scratch.first + value_place(*value);
                code.local_set(value).local_tee(address);
                self.check_access(address, *offset, *size, &mut code);
                if *offset > 0 {
                    // An address that wraps is beyond the memory, where the store traps.
                    code.i32_const(offset.cast_signed()).i32_add();
                }
                let nth = SIZES.iter().position(|one| one == size).expect("stores have these sizes");
                code.call(self.functions + count(nth)).local_get(address).local_get(value);
            }
            Effect::Load { size, offset, is_lane } => {
                let lanes = scratch.first + value_place(ValType::V128);
                if *is_lane {
                    code.local_set(lanes);
                }
                code.local_tee(address);
                self.check_access(address, *offset, *size, &mut code);
                if *is_lane {
                    code.local_get(lanes);
                }
            }
            Effect::Range { reads } => {
                code.local_set(length).local_set(middle).local_set(address);
                self.check_range(address, length, &mut code);
                if *reads {
                    self.check_range(middle, length, &mut code);
                }
                code.local_get(address).local_get(length).call(self.function_of_range());
                code.local_get(address).local_get(middle).local_get(length);
            }
            Effect::Size => {
                self.visible(&mut code);
                code.i64_const(PAGE_BITS).i64_shr_u().i32_wrap_i64();
            }
            Effect::Grow => {
                code.call(self.function_of_range() + 1);
            }
            Effect::NotLogged => {
                code.i32_const(1).global_set(self.spent());
            }
        }
    }

    /// Traps if an access is beyond the limit.
    fn check_access(&self, address: u32, offset: u32, size: i32, code: &mut InstructionSink<'_>) {
        if self.grows {
            code.local_get(address).i64_extend_i32_u().i64_const(i64::from(offset) + i64::from(size)).i64_add();
            self.trap_beyond(code);
        }
    }

    /// The same for a range of bytes.
    fn check_range(&self, address: u32, length: u32, code: &mut InstructionSink<'_>) {
        if self.grows {
            code.local_get(address).i64_extend_i32_u().local_get(length).i64_extend_i32_u().i64_add();
            self.trap_beyond(code);
        }
    }

    /// Traps if the end on the stack is beyond the limit, as an access there would.
    fn trap_beyond(&self, code: &mut InstructionSink<'_>) {
        code.global_get(self.limit()).i64_gt_u().if_(BlockType::Empty);
        code.i32_const(-1).i32_load(OF_MODULE).drop().end();
    }

    /// The bytes of memory that the module sees.
    fn visible(&self, code: &mut InstructionSink<'_>) {
        for _ in 0..2 {
            code.global_get(self.limit());
            memory_bytes(code);
        }
        code.i64_lt_u().select();
    }

    /// Grows the memory that the module sees. As the instruction does, returns the pages before, or -1.
    fn grow(&self) -> Function {
        let mut function = Function::new([(3, ValType::I64)]);
        let (pages, before, after, missing) = (0, 1, 2, 3);
        let mut code = function.instructions();
        if self.has_memory() {
            self.visible(&mut code);
            code.local_tee(before).local_get(pages);
            bytes_of_pages(&mut code);
            code.i64_add().local_tee(after);
            memory_bytes(&mut code);
            // Fewer pages than 32 bits can count.
            code.i64_sub().i64_const(PAGE_BITS).i64_shr_s().local_tee(missing);
            code.i64_const(0).i64_gt_s().if_(BlockType::Empty);
            code.local_get(missing).i32_wrap_i64().memory_grow(0).i32_const(-1).i32_eq();
            code.if_(BlockType::Empty).i32_const(-1).return_().end().end();
            code.local_get(after).global_set(self.limit());
            code.local_get(before).i64_const(PAGE_BITS).i64_shr_u().i32_wrap_i64();
        } else {
            code.i32_const(-1);
        }
        code.end();
        function
    }

    /// Logs what is at an address.
    fn store(&self, size: i32) -> Function {
        let mut function = Function::new([]);
        if self.has_memory() {
            let mut code = function.instructions();
            let entries = (size / 8).max(1);
            code.global_get(self.top).i32_const(LOG_BYTES - entries * ENTRY_BYTES).i32_gt_u().if_(BlockType::Empty);
            code.i32_const(1).global_set(self.spent()).return_().end();
            for entry in 0..entries {
                let from = MemArg { offset: 8 * u64::from(entry.cast_unsigned()), ..OF_MODULE };
                code.global_get(self.top).local_get(0);
                if entry > 0 {
                    code.i32_const(8 * entry).i32_add();
                }
                code.i32_store(self.at(0)).global_get(self.top).i32_const(size.min(8)).i32_store(self.at(SIZE));
                code.global_get(self.top).local_get(0);
                match size {
                    1 => code.i64_load8_u(from),
                    2 => code.i64_load16_u(from),
                    4 => code.i64_load32_u(from),
                    _ => code.i64_load(from),
                };
                code.i64_store(self.at(BYTES));
                code.global_get(self.top).i32_const(ENTRY_BYTES).i32_add().global_set(self.top);
            }
        }
        function.instructions().end();
        function
    }

    /// Logs a range of bytes, unless it is outside of memory, so that nothing will be written.
    fn range(&self) -> Function {
        let mut function = Function::new([]);
        if self.has_memory() {
            let (address, length) = (0, 1);
            let mut code = function.instructions();
            code.local_get(length).i32_const(LOG_BYTES).i32_gt_u().if_(BlockType::Empty);
            code.i32_const(1).global_set(self.spent()).return_().end();
            code.local_get(address).i64_extend_i32_u().local_get(length).i64_extend_i32_u().i64_add();
            memory_bytes(&mut code);
            code.i64_gt_u().if_(BlockType::Empty).return_().end();
            for (nth, size) in [(3, 8), (0, 1)] {
                code.block(BlockType::Empty).loop_(BlockType::Empty);
                code.local_get(length).i32_const(size).i32_lt_u().br_if(1);
                code.global_get(self.spent()).br_if(1);
                code.local_get(address).call(self.functions + nth);
                code.local_get(address).i32_const(size).i32_add().local_set(address);
                code.local_get(length).i32_const(size).i32_sub().local_set(length);
                code.br(0).end().end();
            }
        }
        function.instructions().end();
        function
    }

    fn commit(&self, copies: &[(u32, u32)]) -> Function {
        let mut function = Function::new([]);
        let mut code = function.instructions();
        code.i32_const(0).global_set(self.top).i32_const(0).global_set(self.spent());
        if self.has_memory() {
            memory_bytes(&mut code);
            code.global_set(self.limit()).global_get(self.limit()).global_set(self.committed());
        }
        for (global, copy) in copies {
            code.global_get(*global).global_set(*copy);
        }
        code.end();
        function
    }

    fn undo(&self, copies: &[(u32, u32)]) -> Function {
        let (size, address, bytes) = (0, 1, 2);
        let mut function = Function::new([(2, ValType::I32), (1, ValType::I64)]);
        let mut code = function.instructions();
        code.global_get(self.spent()).if_(BlockType::Empty).i32_const(1).return_().end();
        if self.has_memory() {
            code.block(BlockType::Empty).loop_(BlockType::Empty);
            code.global_get(self.top).i32_eqz().br_if(1);
            code.global_get(self.top).i32_const(ENTRY_BYTES).i32_sub().global_set(self.top);
            code.global_get(self.top).i32_load(self.at(0)).local_set(address);
            code.global_get(self.top).i32_load(self.at(SIZE)).local_set(size);
            code.global_get(self.top).i64_load(self.at(BYTES)).local_set(bytes);
            for one in [8, 4, 2, 1] {
                code.local_get(size).i32_const(one).i32_eq().if_(BlockType::Empty);
                code.local_get(address).local_get(bytes);
                match one {
                    1 => code.i64_store8(OF_MODULE),
                    2 => code.i64_store16(OF_MODULE),
                    4 => code.i64_store32(OF_MODULE),
                    _ => code.i64_store(OF_MODULE),
                };
                code.br(1).end();
            }
            code.end().end();
        }
        code.global_get(self.committed()).global_set(self.limit());
        for (global, copy) in copies {
            code.global_get(*copy).global_set(*global);
        }
        code.i32_const(0).end();
        function
    }
}

/// The bytes of the module's memory.
fn memory_bytes(code: &mut InstructionSink<'_>) {
    code.memory_size(0);
    bytes_of_pages(code);
}

fn bytes_of_pages(code: &mut InstructionSink<'_>) {
    code.i64_extend_i32_u().i64_const(PAGE_BITS).i64_shl();
}

/// The memory of the module.
const OF_MODULE: MemArg = MemArg { offset: 0, align: 0, target: MemArgTarget::Memory(0), ordering: None };

/// Variables that are added to a function: address, length and the operand between them, which may also be the value of a store; values of
/// other types.
const SCRATCH: [(u32, ValType); 5] =
    [(3, ValType::I32), (1, ValType::I64), (1, ValType::F32), (1, ValType::F64), (1, ValType::V128)];

struct Scratch {
    first: u32,
    used: bool,
}

fn value_place(ty: ValType) -> u32 {
    match ty {
        ValType::I32 | ValType::Ref(_) => 2,
        ValType::I64 => 3,
        ValType::F32 => 4,
        ValType::F64 => 5,
        ValType::V128 => 6,
    }
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
