//! The log in an added memory, and the functions that write it and read it back.

use wasm_encoder::{BlockType, Encode, ExportKind, Function, InstructionSink, MemArg, MemArgTarget, ValType};

use super::{COMMIT, SIZES, UNDO, count, encoded};

/// Bytes of the log: one page.
const LOG_BYTES: i32 = 1 << 16;
const ENTRY_BYTES: i32 = 16;
/// Bits of an address within a page.
pub(super) const PAGE_BITS: i64 = 16;
/// The offsets of the parts of an entry.
const SIZE: u64 = 4;
const BYTES: u64 = 8;

/// The memory of the module.
pub(super) const OF_MODULE: MemArg = MemArg { offset: 0, align: 0, target: MemArgTarget::Memory(0), ordering: None };

/// Indices of the added memory, globals and functions.
pub(super) struct Log {
    /// The memory of the log, after that of the module.
    pub(super) memory: u32,
    /// True if the module grows its memory.
    pub(super) grows: bool,
    /// The global with the place of the next entry.
    pub(super) top: u32,
    /// The first added function.
    pub(super) functions: u32,
}

impl Log {
    /// Returns true if the module has a memory of its own.
    fn has_memory(&self) -> bool {
        self.memory > 0
    }

    pub(super) fn spent(&self) -> u32 {
        self.top + 1
    }

    pub(super) fn limit(&self) -> u32 {
        self.top + 2
    }

    pub(super) fn committed(&self) -> u32 {
        self.top + 3
    }

    pub(super) fn function_of_range(&self) -> u32 {
        self.functions + count(SIZES.len())
    }

    pub(super) fn exports(&self) -> Vec<Vec<u8>> {
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

    /// The bytes of memory that the module sees.
    pub(super) fn visible(&self, code: &mut InstructionSink<'_>) {
        for _ in 0..2 {
            code.global_get(self.limit());
            memory_bytes(code);
        }
        code.i64_lt_u().select();
    }

    /// Grows the memory that the module sees. As the instruction does, returns the pages before, or -1.
    pub(super) fn grow(&self) -> Function {
        let mut function = Function::new([(3, ValType::I64)]);
        let pages = 0;
        let before = 1;
        let after = 2;
        let missing = 3;
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

    /// Logs the bytes at an address.
    pub(super) fn store(&self, size: i32) -> Function {
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
    pub(super) fn range(&self) -> Function {
        let mut function = Function::new([]);
        if self.has_memory() {
            let address = 0;
            let length = 1;
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

    pub(super) fn commit(&self, copies: &[(u32, u32)]) -> Function {
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

    pub(super) fn undo(&self, copies: &[(u32, u32)]) -> Function {
        let size = 0;
        let address = 1;
        let bytes = 2;
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
