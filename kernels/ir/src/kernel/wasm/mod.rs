//! Emits kernels as WebAssembly modules that run threads of a grid.
//!
//! The bits of all results are those of [`interpret`](super::interpret), but for sign and payload of a NaN, which WebAssembly leaves open.
//! A module never traps if its arguments lie in its memory as described here. It uses no feature beyond WebAssembly 2.0,
//! of which vectors of 128 bits run four threads at once where all access arrays at their own position only.
//!
//! **Exports.**
//! - `memory`: one page to begin with; the host grows it. The first 64 bytes belong to the module.
//! - `run(arguments: i32, grid: i32, first_thread: i64, thread_count: i64, loop_budget: i64) -> i32` runs threads `first_thread` up to
//!   `first_thread + thread_count`, counted row-major, one after the other. The result is 0, or 1 if one ended with a fault; the others run
//!   nevertheless. The [`FaultRecord`](super::FaultRecord) of the first one lies at address 0. `loop_budget`, unsigned, is the number of
//!   iterations that a thread may run, of all its loops together.
//!
//! **The grid**, at the address `grid`, a multiple of 4: the extent of each of its dimensions as u32, below 2^31.
//!
//! **The argument block**, at the address `arguments`, a multiple of 8: the arguments in the order of the parameters, each at the next
//! multiple of its alignment. [`ArgumentLayout`] computes their offsets, [`MemoryImage`] the whole memory of a launch.
//! - A value lies there as in memory; its alignment is that of its element.
//! - An array has 36 bytes, aligned to 4: `{ data: u32, shape: [i32; 4], strides: [i32; 4] }`. `data` is the address of the first element;
//!   strides are in bytes, and may be negative or 0. Entries beyond the array's dimensions are not read. Elements must lie in memory and be
//!   aligned to their components.
//!
//! **Imports.** A kernel that uses elementary functions of f64 imports them from the module `math`, by the names of
//! [`MathOp`]: of one operand `(f64) -> f64`, of two `(f64, f64) -> f64`. The interpreter computes them by
//! [`math::unary`](crate::scalar::math::unary) and [`math::binary`](crate::scalar::math::binary); with other functions, results differ as
//! these do.

mod abi;
mod analysis;
mod code;
mod elementary;
mod helper;
mod image;
mod lanes;
mod operation;
mod run;
mod scope;

use wasm_encoder::{
    CodeSection, ConstExpr, EntityType, ExportKind, ExportSection, FunctionSection, GlobalSection, GlobalType,
    ImportSection, MemorySection, MemoryType, Module, TypeSection, ValType,
};

pub use abi::{ARRAY_SIZE, ArgumentLayout, RESERVED};
pub(super) use abi::{SHAPE, STRIDES};
pub use image::{ArgumentMismatch, ImageArgument, ImageError, MemoryImage, View};

use super::{Expr, Kernel, KernelError, visit};
use crate::{Dtype, scalar::math::MathOp};
use helper::Functions;

/// The name of the exported memory.
pub const MEMORY: &str = "memory";
/// The name of the exported function.
pub const RUN: &str = "run";
/// The module from which elementary functions are imported.
pub const MATH: &str = "math";

/// The bytes of a module that runs the kernel. Equal kernels have equal modules.
pub fn emit(kernel: &Kernel) -> Result<Vec<u8>, KernelError> {
    kernel.check()?;
    let mut functions = Functions::new(math_ops(kernel));
    let run = run::emit(kernel, &mut functions);
    Ok(assemble(&functions, run))
}

/// The elementary functions that the kernel's module imports, each once.
pub fn math_ops(kernel: &Kernel) -> Vec<MathOp> {
    let is_f64 = |operand: &Expr| operand.dtype(kernel) == Dtype::F64;
    let mut ops: Vec<MathOp> = vec![];
    visit::each_expr(&kernel.body, &mut |expr| {
        let op = match expr {
            Expr::Unary(op, a) if op.is_elementary() && is_f64(a) => MathOp::Unary(*op),
            Expr::Binary(op, a, _) if op.is_elementary() && is_f64(a) => MathOp::Binary(*op),
            Expr::Literal(_)
            | Expr::Local(_)
            | Expr::Param(..)
            | Expr::Extent(..)
            | Expr::ThreadId(_)
            | Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Select(..)
            | Expr::Cast(..)
            | Expr::Bitcast(..) => return,
        };
        if !ops.contains(&op) {
            ops.push(op);
        }
    });
    ops
}

/// Functions are imports, `run`, and the helpers.
fn assemble(functions: &Functions, run: code::Code) -> Vec<u8> {
    let mut types = TypeSection::new();
    let mut imports = ImportSection::new();
    let mut indices = FunctionSection::new();
    let mut bodies = CodeSection::new();
    for op in functions.imports() {
        imports.import(MATH, op.name(), EntityType::Function(types.len()));
        types.ty().function(vec![ValType::F64; op.arity()], [ValType::F64]);
    }
    let run_index = functions.run_index();
    let helpers = functions.helpers().map(|(signature, code)| (signature, code.clone()));
    for ((params, results), code) in std::iter::once((scope::signature(), run)).chain(helpers) {
        indices.function(types.len());
        types.ty().function(params, results);
        bodies.function(&code.finish());
    }
    let mut memory = MemorySection::new();
    memory.memory(MemoryType { minimum: 1, maximum: None, memory64: false, shared: false, page_size_log2: None });
    let mut globals = GlobalSection::new();
    let status = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
    globals.global(status, &ConstExpr::i32_const(0));
    let mut exports = ExportSection::new();
    exports.export(MEMORY, ExportKind::Memory, 0);
    exports.export(RUN, ExportKind::Func, run_index);
    let mut module = Module::new();
    module.section(&types);
    if functions.imports().next().is_some() {
        module.section(&imports);
    }
    module.section(&indices).section(&memory).section(&globals).section(&exports).section(&bodies);
    module.finish()
}
