//! A module that calls a function of scalars in a loop over columns.
//!
//! A call from the host takes about a hundred nanoseconds, one between two modules a few. The driver imports the function, and has the
//! columns of a chunk of cases in a memory of its own:
//!
//! ```text
//! (global $case (export "case") (mut i32))    ;; the current case; after a trap, the one that trapped
//! (global $end (export "end") (mut i32))      ;; the loop ends before this case; the host may lower it at a tick
//! (global $spent (export "spent") (mut i32))  ;; 1 if the loop ended because the instance of the function is spent
//! (func (export "run")
//!   loop while $case < $end and not $spent:
//!     columns of results [$case] = function(columns of parameters [$case])
//!     $spent = undo()
//!     $case += 1)
//! ```
//!
//! `undo` is that of the function's instance, where it has a [log](super::undo).

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalSection,
    GlobalType, ImportSection, InstructionSink, MemArg, MemArgTarget, MemorySection, MemoryType, Module, TypeSection,
    ValType,
};

use crate::abi::{Param, ScalarType, Signature, WasmType};

const WASM_PAGE: u64 = 1 << 16;

/// Bytes of the columns of a chunk: they stay in the L2 cache.
const CHUNK_BYTES: u64 = 256 << 10;

/// The most cases of a chunk.
const MAX_CHUNK_CASES: u64 = 16 << 10;

const CASE: u32 = 0;
const END: u32 = 1;
const SPENT: u32 = 2;

/// Where the columns of a chunk are in the driver's memory.
pub(super) struct Layout {
    /// Cases that fit.
    pub(super) cases: usize,
    /// Offset and type of each column of parameters.
    pub(super) inputs: Vec<(u32, ScalarType)>,
    /// Offset and type of each column of results.
    pub(super) outputs: Vec<(u32, ScalarType)>,
    pages: u64,
}

impl Layout {
    /// The layout for a signature of scalars.
    pub(super) fn new(signature: &Signature) -> Self {
        let case_bytes = (signature.input_bytes() + signature.output_bytes()).max(1);
        // A multiple of 16, so that columns are aligned.
        let cases = (CHUNK_BYTES / case_bytes).clamp(16, MAX_CHUNK_CASES) / 16 * 16;
        let mut end = 0;
        let mut place = |ty: ScalarType| {
            let offset = end;
            end += cases * ty.size() as u64;
            (u32::try_from(offset).expect("a chunk is smaller than a memory"), ty)
        };
        let params = signature.params.iter().filter_map(|param| match param {
            Param::Value(ty) => Some(*ty),
            Param::Input(..) | Param::Output(..) | Param::InOut(..) | Param::Address(..) => None,
        });
        let inputs = params.map(&mut place).collect();
        let outputs = signature.results.iter().copied().map(&mut place).collect();
        let cases = usize::try_from(cases).expect("a chunk is smaller than a memory");
        Self { cases, inputs, outputs, pages: end.div_ceil(WASM_PAGE).max(1) }
    }

    /// The binary of the driver of functions whose instance has a log, or of others.
    pub(super) fn driver(&self, has_log: bool) -> Vec<u8> {
        let mut module = Module::new();
        let mut types = TypeSection::new();
        types.ty().function(
            self.inputs.iter().map(|(_, ty)| val_type(*ty)),
            self.outputs.iter().map(|(_, ty)| val_type(*ty)),
        );
        types.ty().function([], []);
        types.ty().function([], [ValType::I32]);
        module.section(&types);
        let mut imports = ImportSection::new();
        imports.import("subject", "function", EntityType::Function(0));
        if has_log {
            imports.import("subject", "undo", EntityType::Function(2));
        }
        let run = imports.len();
        module.section(&imports);
        let mut functions = FunctionSection::new();
        functions.function(1);
        module.section(&functions);
        let mut memories = MemorySection::new();
        let minimum = self.pages;
        let maximum = Some(self.pages);
        memories.memory(MemoryType { minimum, maximum, memory64: false, shared: false, page_size_log2: None });
        module.section(&memories);
        let mut globals = GlobalSection::new();
        for _ in [CASE, END, SPENT] {
            globals
                .global(GlobalType { val_type: ValType::I32, mutable: true, shared: false }, &ConstExpr::i32_const(0));
        }
        module.section(&globals);
        let mut exports = ExportSection::new();
        exports.export("run", ExportKind::Func, run).export("memory", ExportKind::Memory, 0);
        exports.export("case", ExportKind::Global, CASE).export("end", ExportKind::Global, END);
        exports.export("spent", ExportKind::Global, SPENT);
        module.section(&exports);
        let mut code = CodeSection::new();
        code.function(&self.run(has_log));
        module.section(&code);
        module.finish()
    }

    fn run(&self, has_log: bool) -> Function {
        let mut function = Function::new_with_locals_types(self.outputs.iter().map(|(_, ty)| val_type(*ty)));
        let mut body = function.instructions();
        body.block(BlockType::Empty).loop_(BlockType::Empty);
        body.global_get(CASE).global_get(END).i32_ge_u().br_if(1);
        for (offset, ty) in &self.inputs {
            element_address(&mut body, *ty);
            load(&mut body, *ty, mem_arg(*offset));
        }
        body.call(0);
        for local in (0..self.outputs.len()).rev() {
            body.local_set(u32::try_from(local).expect("signatures are short"));
        }
        for (local, (offset, ty)) in (0..).zip(&self.outputs) {
            element_address(&mut body, *ty);
            body.local_get(local);
            store(&mut body, *ty, mem_arg(*offset));
        }
        if has_log {
            body.call(1).global_set(SPENT);
        }
        body.global_get(CASE).i32_const(1).i32_add().global_set(CASE);
        if has_log {
            body.global_get(SPENT).br_if(1);
        }
        body.br(0).end().end().end();
        function
    }
}

fn val_type(ty: ScalarType) -> ValType {
    match ty.wasm_type() {
        WasmType::I32 => ValType::I32,
        WasmType::I64 => ValType::I64,
        WasmType::F32 => ValType::F32,
        WasmType::F64 => ValType::F64,
        WasmType::Other => unreachable!("no scalar is of another type"),
    }
}

fn element_address(body: &mut InstructionSink<'_>, ty: ScalarType) {
    body.global_get(CASE);
    if ty.size() > 1 {
        body.i32_const(ty.size().ilog2().cast_signed()).i32_shl();
    }
}

fn mem_arg(offset: u32) -> MemArg {
    MemArg { offset: offset.into(), align: 0, target: MemArgTarget::Memory(0), ordering: None }
}

fn load(body: &mut InstructionSink<'_>, ty: ScalarType, from: MemArg) {
    match ty {
        ScalarType::Bool => body.i32_load8_u(from).i32_const(0).i32_ne(),
        ScalarType::I8 => body.i32_load8_s(from),
        ScalarType::U8 => body.i32_load8_u(from),
        ScalarType::I16 => body.i32_load16_s(from),
        ScalarType::U16 => body.i32_load16_u(from),
        ScalarType::I32 | ScalarType::U32 => body.i32_load(from),
        ScalarType::I64 | ScalarType::U64 => body.i64_load(from),
        ScalarType::F32 => body.f32_load(from),
        ScalarType::F64 => body.f64_load(from),
    };
}

fn store(body: &mut InstructionSink<'_>, ty: ScalarType, to: MemArg) {
    match ty {
        ScalarType::Bool => body.i32_const(0).i32_ne().i32_store8(to),
        ScalarType::I8 | ScalarType::U8 => body.i32_store8(to),
        ScalarType::I16 | ScalarType::U16 => body.i32_store16(to),
        ScalarType::I32 | ScalarType::U32 => body.i32_store(to),
        ScalarType::I64 | ScalarType::U64 => body.i64_store(to),
        ScalarType::F32 => body.f32_store(to),
        ScalarType::F64 => body.f64_store(to),
    };
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;

    use super::*;

    #[test]
    fn drivers_of_all_signatures_are_valid() {
        let all = ScalarType::ALL;
        let widest = [ScalarType::F64; 256];
        for (params, results) in [(&[][..], &[][..]), (&all, &all), (&widest, &widest)] {
            let layout = Layout::new(&Signature::scalar(params, results));
            for has_log in [false, true] {
                wasmtime::Module::validate(&Engine::default(), &layout.driver(has_log)).expect("a valid module");
            }
            assert!(layout.cases >= 16);
        }
    }

    #[test]
    fn columns_are_aligned_and_do_not_overlap() {
        let layout = Layout::new(&Signature::scalar(&ScalarType::ALL, &ScalarType::ALL));
        let mut end = 0;
        for (offset, ty) in layout.inputs.iter().chain(&layout.outputs) {
            assert_eq!(*offset, end);
            assert_eq!(*offset as usize % ty.size(), 0);
            end += u32::try_from(layout.cases * ty.size()).expect("a small chunk");
        }
        assert!(u64::from(end) <= layout.pages * WASM_PAGE);
    }
}
