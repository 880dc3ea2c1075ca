//! The scope of a thread's statements and expressions: the parameters of the function that runs threads, the arguments, the position.

use std::collections::HashMap;

use wasm_encoder::ValType;

use super::{
    abi::{ArgumentLayout, SHAPE, STRIDES},
    code::{Code, Target, memory},
    helper::{Functions, Helper},
    operation::{Emitter, value_type},
};
use crate::Dtype;
use crate::kernel::{Expr, FaultKind, Kernel, ParamId, ParamType};
use crate::scalar::{BinaryOp, Literal};

/// Parameters and results of the function.
pub(super) fn signature() -> (Vec<ValType>, Vec<ValType>) {
    (vec![ValType::I32, ValType::I32, ValType::I64, ValType::I64, ValType::I64], vec![ValType::I32])
}

/// The parameters of the function. The variable of the first thread becomes that of the current one.
pub(super) const ARGUMENTS: u32 = 0;
pub(super) const GRID: u32 = 1;
pub(super) const THREAD: u32 = 2;
pub(super) const THREAD_COUNT: u32 = 3;
pub(super) const LOOP_BUDGET: u32 = 4;

/// The variables of an array.
pub(super) struct Array {
    pub(super) data: u32,
    pub(super) shape: Vec<u32>,
    pub(super) strides: Vec<u32>,
}

/// The variables of a range that a loop runs over.
pub(super) struct Range {
    dtype: Dtype,
    next: u32,
    step: u32,
    /// The count of numbers that are left, in the unsigned type of the same size.
    left: u32,
}

/// The function under construction, and its variables.
pub(super) struct Scope<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) emitter: Emitter<'a>,
    pub(super) arrays: HashMap<ParamId, Array>,
    /// Components of the parameters that are passed by value.
    pub(super) values: HashMap<(ParamId, u32), u32>,
    /// Extents of the grid, and the position of the thread.
    pub(super) grid: Vec<u32>,
    pub(super) position: Vec<u32>,
    pub(super) locals: Vec<u32>,
    pub(super) iterations_left: u32,
}

impl<'a> Scope<'a> {
    pub(super) fn new(kernel: &'a Kernel, functions: &'a mut Functions) -> Self {
        let mut code = Code::new(signature().0.len());
        let mut word = |_| code.local(ValType::I32);
        let grid = (0..kernel.grid_dims).map(&mut word).collect();
        let position = (0..kernel.grid_dims).map(&mut word).collect();
        let iterations_left = code.local(ValType::I64);
        let locals = kernel.locals.iter().map(|local| code.local(value_type(local.dtype))).collect();
        let emitter = Emitter { code, functions };
        let arrays = HashMap::new();
        let values = HashMap::new();
        Self { kernel, emitter, arrays, values, grid, position, locals, iterations_left }
    }

    pub(super) fn code(&mut self) -> &mut Code {
        &mut self.emitter.code
    }

    pub(super) fn load_grid(&mut self) {
        for (axis, extent) in self.grid.clone().into_iter().enumerate() {
            let offset = 4 * u32::try_from(axis).expect("at most four dimensions");
            self.code().sink().local_get(GRID).i32_load(memory(offset, 4)).local_set(extent);
        }
    }

    /// Computes the position of the current thread.
    pub(super) fn locate_thread(&mut self) {
        if let [position] = self.position[..] {
            self.code().sink().local_get(THREAD).i32_wrap_i64().local_set(position);
            return;
        }
        // The extents are not 0 if there is a thread; but a module does not trap.
        let rem = Helper::Rem64 { signed: false };
        let div = Helper::Div64 { signed: false };
        let rem = self.emitter.functions.helper(rem);
        let div = self.emitter.functions.helper(div);
        let rest = self.code().scratch(ValType::I64);
        self.code().sink().local_get(THREAD).local_set(rest);
        for (extent, position) in self.grid.clone().into_iter().zip(self.position.clone()).rev() {
            let mut sink = self.code().sink();
            sink.local_get(rest).local_get(extent).i64_extend_i32_u().call(rem).i32_wrap_i64().local_set(position);
            sink.local_get(rest).local_get(extent).i64_extend_i32_u().call(div).local_set(rest);
        }
        self.code().release(ValType::I64, rest);
    }

    pub(super) fn load_arguments(&mut self) {
        let layout = ArgumentLayout::new(self.kernel);
        for ((param, offset), id) in self.kernel.params.iter().zip(layout.offsets).zip(0..) {
            match &param.ty {
                ParamType::Value(element) => {
                    for (component, nth) in element.components.iter().zip(0..) {
                        let local = self.code().local(value_type(component.dtype));
                        self.code().sink().local_get(ARGUMENTS);
                        self.load(component.dtype, offset + component.offset);
                        self.code().sink().local_set(local);
                        self.values.insert((ParamId(id), nth), local);
                    }
                }
                ParamType::Array(array) => {
                    let word = |scope: &mut Self, at: u32| {
                        let local = scope.code().local(ValType::I32);
                        let from = memory(offset + at, 4);
                        scope.code().sink().local_get(ARGUMENTS).i32_load(from).local_set(local);
                        local
                    };
                    let data = word(self, 0);
                    let axes = 0..u32::from(array.dims);
                    let shape = axes.clone().map(|axis| word(self, SHAPE + 4 * axis)).collect();
                    let strides = axes.map(|axis| word(self, STRIDES + 4 * axis)).collect();
                    self.arrays.insert(ParamId(id), Array { data, shape, strides });
                }
            }
        }
    }

    /// Loads from the address on the stack.
    pub(super) fn load(&mut self, dtype: Dtype, offset: u32) {
        let from = memory(offset, dtype.size());
        let mut sink = self.code().sink();
        match dtype {
            Dtype::Bool => sink.i32_load8_u(from).i32_const(0).i32_ne(),
            Dtype::U8 => sink.i32_load8_u(from),
            Dtype::I8 => sink.i32_load8_s(from),
            Dtype::U16 | Dtype::F16 | Dtype::Bf16 => sink.i32_load16_u(from),
            Dtype::I16 => sink.i32_load16_s(from),
            Dtype::U32 | Dtype::I32 => sink.i32_load(from),
            Dtype::U64 | Dtype::I64 => sink.i64_load(from),
            Dtype::F32 => sink.f32_load(from),
            Dtype::F64 => sink.f64_load(from),
        };
    }

    /// Stores the value on the stack to the address below it.
    pub(super) fn store(&mut self, dtype: Dtype, offset: u32) {
        let to = memory(offset, dtype.size());
        let mut sink = self.code().sink();
        match dtype {
            Dtype::Bool | Dtype::U8 | Dtype::I8 => sink.i32_store8(to),
            Dtype::U16 | Dtype::I16 | Dtype::F16 | Dtype::Bf16 => sink.i32_store16(to),
            Dtype::U32 | Dtype::I32 => sink.i32_store(to),
            Dtype::U64 | Dtype::I64 => sink.i64_store(to),
            Dtype::F32 => sink.f32_store(to),
            Dtype::F64 => sink.f64_store(to),
        };
    }

    /// Pushes the value of an expression; its type.
    pub(super) fn expr(&mut self, expr: &Expr) -> Dtype {
        match expr {
            Expr::Literal(literal) => {
                self.emitter.literal(*literal);
                literal.dtype()
            }
            Expr::Local(local) => {
                let at = self.locals[local.0 as usize];
                self.code().sink().local_get(at);
                self.kernel.locals[local.0 as usize].dtype
            }
            Expr::Param(param, component) => {
                let at = self.values[&(*param, *component)];
                self.code().sink().local_get(at);
                self.kernel.params[param.0 as usize].ty.element().components[*component as usize].dtype
            }
            Expr::Extent(param, axis) => {
                let at = self.arrays[param].shape[usize::from(*axis)];
                self.code().sink().local_get(at);
                Dtype::I32
            }
            Expr::ThreadId(axis) => {
                let at = self.position[usize::from(*axis)];
                self.code().sink().local_get(at);
                Dtype::I32
            }
            Expr::Unary(op, a) => {
                let dtype = self.expr(a);
                self.emitter.unary(*op, dtype);
                op.result(dtype).expect("a checked operation takes its operand")
            }
            Expr::Binary(op, a, b) => {
                let dtype = self.expr(a);
                let is_done = matches!(&**b, Expr::Literal(b) if self.emitter.binary_with_constant(*op, *b));
                if !is_done {
                    self.expr(b);
                    self.emitter.binary(*op, dtype);
                }
                op.result(dtype).expect("a checked operation takes its operands")
            }
            Expr::Select(condition, a, b) => {
                // WebAssembly's instruction takes the condition last.
                let dtype = self.expr(a);
                self.expr(b);
                self.expr(condition);
                self.code().sink().select();
                dtype
            }
            Expr::Cast(to, a) => {
                let from = self.expr(a);
                self.emitter.cast(from, *to);
                *to
            }
            Expr::Bitcast(to, a) => {
                let from = self.expr(a);
                self.emitter.bitcast(from, *to);
                *to
            }
        }
    }

    /// Evaluates the bounds of a range, and counts its numbers, so that they may wrap.
    pub(super) fn start_range(&mut self, bounds: [&Expr; 3]) -> Range {
        let dtype = bounds[0].dtype(self.kernel);
        let ty = value_type(dtype);
        let [next, end, step, left] = [(); 4].map(|()| self.code().scratch(ty));
        for (bound, local) in bounds.into_iter().zip([next, end, step]) {
            self.expr(bound);
            self.code().sink().local_set(local);
        }
        self.trip_count(dtype, [next, end, step], left);
        self.code().release(ty, end);
        Range { dtype, next, step, left }
    }

    /// Branches if no number is left.
    pub(super) fn branch_at_end(&mut self, range: &Range, to: Target) {
        self.code().sink().local_get(range.left);
        self.emitter.cast(count_type(range.dtype), Dtype::Bool);
        self.code().sink().i32_eqz();
        self.code().branch_if(to);
    }

    /// Pushes the next number, and moves on.
    pub(super) fn next_of_range(&mut self, range: &Range) {
        let counts = count_type(range.dtype);
        self.code().sink().local_get(range.left);
        self.literal(counts, 1);
        self.emitter.binary(BinaryOp::Sub, counts);
        self.code().sink().local_set(range.left).local_get(range.next).local_get(range.next).local_get(range.step);
        self.emitter.binary(BinaryOp::Add, range.dtype);
        self.code().sink().local_set(range.next);
    }

    pub(super) fn release_range(&mut self, range: &Range) {
        for local in [range.next, range.step, range.left] {
            self.code().release(value_type(range.dtype), local);
        }
    }

    /// Sets `count` to the number of whole or partial steps from `start` to `end`, computed in the unsigned type of the same size.
    fn trip_count(&mut self, dtype: Dtype, bounds: [u32; 3], count: u32) {
        let [start, end, step] = bounds;
        let zero = |scope: &mut Self| scope.literal(dtype, 0);
        self.literal(count_type(dtype), 0);
        self.code().sink().local_set(count);
        self.code().sink().local_get(start).local_get(end);
        self.emitter.binary(BinaryOp::Lt, dtype);
        zero(self);
        self.code().sink().local_get(step);
        self.emitter.binary(BinaryOp::Lt, dtype);
        self.code().sink().i32_and();
        self.code().start_if();
        self.steps(dtype, [start, end], count, |scope| {
            scope.code().sink().local_get(step);
        });
        self.code().end();
        if !dtype.is_signed() {
            return;
        }
        self.code().sink().local_get(end).local_get(start);
        self.emitter.binary(BinaryOp::Lt, dtype);
        self.code().sink().local_get(step);
        zero(self);
        self.emitter.binary(BinaryOp::Lt, dtype);
        self.code().sink().i32_and();
        self.code().start_if();
        self.steps(dtype, [end, start], count, |scope| {
            zero(scope);
            scope.code().sink().local_get(step);
            scope.emitter.binary(BinaryOp::Sub, count_type(dtype));
        });
        self.code().end();
    }

    /// (high - low - 1) / step + 1, for low < high.
    fn steps(&mut self, dtype: Dtype, range: [u32; 2], count: u32, step: impl FnOnce(&mut Self)) {
        let counts = count_type(dtype);
        let [low, high] = range;
        self.code().sink().local_get(high).local_get(low);
        self.emitter.binary(BinaryOp::Sub, counts);
        self.literal(counts, 1);
        self.emitter.binary(BinaryOp::Sub, counts);
        step(self);
        self.emitter.binary(BinaryOp::Div, counts);
        self.literal(counts, 1);
        self.emitter.binary(BinaryOp::Add, counts);
        self.code().sink().local_set(count);
    }

    fn literal(&mut self, dtype: Dtype, value: i64) {
        self.emitter.literal(Literal::from_i64(dtype, value));
    }

    /// The operands of [`Helper::Fault`] that are constants.
    pub(super) fn record(&mut self, kind: FaultKind, site: u32, array: u32, axis: u32) {
        for word in [kind.code(), site, array, axis] {
            self.code().sink().i32_const(word.cast_signed());
        }
    }
}

/// The unsigned type of the size of an integer type.
fn count_type(dtype: Dtype) -> Dtype {
    match dtype.size() {
        1 => Dtype::U8,
        2 => Dtype::U16,
        8 => Dtype::U64,
        _ => Dtype::U32,
    }
}
