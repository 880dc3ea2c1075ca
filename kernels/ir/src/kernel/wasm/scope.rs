//! What statements and expressions of a thread refer to: the parameters of the function that runs threads, the arguments, the position.

use std::collections::HashMap;

use wasm_encoder::ValType;

use super::{
    abi::{ArgumentLayout, SHAPE, STRIDES},
    code::{Code, memory},
    helper::{Functions, Helper},
    operation::{Emitter, value_type},
};
use crate::Dtype;
use crate::kernel::{Expr, Kernel, ParamId, ParamType};

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
        let (grid, position) =
            ((0..kernel.grid_dims).map(&mut word).collect(), (0..kernel.grid_dims).map(&mut word).collect());
        let iterations_left = code.local(ValType::I64);
        let locals = kernel.locals.iter().map(|local| code.local(value_type(local.dtype))).collect();
        let emitter = Emitter { code, functions };
        let (arrays, values) = (HashMap::new(), HashMap::new());
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
        let (rem, div) = (Helper::Rem64 { signed: false }, Helper::Div64 { signed: false });
        let (rem, div) = (self.emitter.functions.helper(rem), self.emitter.functions.helper(div));
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
}
