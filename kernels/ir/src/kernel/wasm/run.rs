//! The function that runs threads: it loads the arguments, and runs the kernel's statements for one thread after the other.

use std::collections::HashMap;

use wasm_encoder::ValType;

use super::{
    abi::{ArgumentLayout, SHAPE, STRIDES},
    code::{Code, Target, memory},
    helper::{Functions, Helper, STATUS},
    operation::{Emitter, value_type},
};
use crate::Dtype;
use crate::kernel::{
    AtomicOp, Expr, FaultKind, FaultRecord, Kernel, LabelId, LocalId, ParamId, ParamType, Place, Stmt,
};
use crate::scalar::{BinaryOp, Literal};

/// Parameters and results of the function.
pub(super) fn signature() -> (Vec<ValType>, Vec<ValType>) {
    (vec![ValType::I32, ValType::I32, ValType::I64, ValType::I64, ValType::I64], vec![ValType::I32])
}

/// The parameters of the function. The variable of the first thread becomes that of the current one.
const ARGUMENTS: u32 = 0;
const GRID: u32 = 1;
const THREAD: u32 = 2;
const THREAD_COUNT: u32 = 3;
const LOOP_BUDGET: u32 = 4;

/// The variables of an array.
struct Array {
    data: u32,
    shape: Vec<u32>,
    strides: Vec<u32>,
}

/// The function under construction.
struct Run<'a> {
    kernel: &'a Kernel,
    emitter: Emitter<'a>,
    arrays: HashMap<ParamId, Array>,
    /// Components of the parameters that are passed by value.
    values: HashMap<(ParamId, u32), u32>,
    /// Extents of the grid, and the position of the thread.
    grid: Vec<u32>,
    position: Vec<u32>,
    locals: Vec<u32>,
    iterations_left: u32,
    /// Where a thread ends.
    end_of_thread: Option<Target>,
    /// Where a label is left, and where its next iteration starts.
    labels: HashMap<LabelId, (Target, Option<Target>)>,
}

/// The code of the function for a kernel that is well formed.
pub(super) fn emit(kernel: &Kernel, functions: &mut Functions) -> Code {
    let mut code = Code::new(signature().0.len());
    let dims = usize::from(kernel.grid_dims);
    let grid = (0..dims).map(|_| code.local(ValType::I32)).collect();
    let position = (0..dims).map(|_| code.local(ValType::I32)).collect();
    let iterations_left = code.local(ValType::I64);
    let locals = kernel.locals.iter().map(|local| code.local(value_type(local.dtype))).collect();
    let mut run = Run {
        kernel,
        emitter: Emitter { code, functions },
        arrays: HashMap::new(),
        values: HashMap::new(),
        grid,
        position,
        locals,
        iterations_left,
        end_of_thread: None,
        labels: HashMap::new(),
    };
    run.function();
    run.emitter.code
}

impl Run<'_> {
    fn code(&mut self) -> &mut Code {
        &mut self.emitter.code
    }

    fn function(&mut self) {
        self.code().sink().i32_const(0).global_set(STATUS);
        self.load_grid();
        self.load_arguments();
        // From here on, the number of threads is the end of their range.
        self.code().sink().local_get(THREAD).local_get(THREAD_COUNT).i64_add().local_set(THREAD_COUNT);
        let done = self.code().block();
        let next = self.code().start_loop();
        self.code().sink().local_get(THREAD).local_get(THREAD_COUNT).i64_ge_s();
        self.code().branch_if(done);
        self.thread();
        self.advance();
        self.code().branch(next);
        self.code().end();
        self.code().end();
        self.code().sink().global_get(STATUS);
    }

    /// Loads the extents of the grid, and computes the position of the first thread.
    fn load_grid(&mut self) {
        let (rem, div) = (Helper::Rem64 { signed: false }, Helper::Div64 { signed: false });
        let (rem, div) = (self.emitter.functions.helper(rem), self.emitter.functions.helper(div));
        let rest = self.code().scratch(ValType::I64);
        self.code().sink().local_get(THREAD).local_set(rest);
        for (axis, (grid, position)) in self.grid.clone().into_iter().zip(self.position.clone()).enumerate().rev() {
            let offset = 4 * u32::try_from(axis).expect("at most four dimensions");
            let mut sink = self.code().sink();
            sink.local_get(GRID).i32_load(memory(offset, 4)).local_set(grid);
            sink.local_get(rest).local_get(grid).i64_extend_i32_u().call(rem).i32_wrap_i64().local_set(position);
            sink.local_get(rest).local_get(grid).i64_extend_i32_u().call(div).local_set(rest);
        }
        self.code().release(ValType::I64, rest);
    }

    fn load_arguments(&mut self) {
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
                    let word = |run: &mut Self, at: u32| {
                        let local = run.code().local(ValType::I32);
                        let from = memory(offset + at, 4);
                        run.code().sink().local_get(ARGUMENTS).i32_load(from).local_set(local);
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

    /// Moves to the position of the next thread.
    fn advance(&mut self) {
        self.code().sink().local_get(THREAD).i64_const(1).i64_add().local_set(THREAD);
        let carry = self.code().block();
        for axis in (0..self.position.len()).rev() {
            let (position, extent) = (self.position[axis], self.grid[axis]);
            self.code().sink().local_get(position).i32_const(1).i32_add().local_set(position);
            if axis == 0 {
                break;
            }
            self.code().sink().local_get(position).local_get(extent).i32_ne();
            self.code().branch_if(carry);
            self.code().sink().i32_const(0).local_set(position);
        }
        self.code().end();
    }

    fn thread(&mut self) {
        self.code().sink().local_get(LOOP_BUDGET);
        let iterations_left = self.iterations_left;
        self.code().sink().local_set(iterations_left);
        for (local, at) in self.kernel.locals.iter().zip(self.locals.clone()) {
            self.emitter.literal(Literal::from_bits(local.dtype, 0));
            self.code().sink().local_set(at);
        }
        self.end_of_thread = Some(self.code().block());
        self.body(&self.kernel.body);
        self.code().end();
    }

    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(local, value) => {
                self.expr(value);
                self.set(*local);
            }
            Stmt::Load(local, place) => {
                let (offset, dtype) = self.address(place);
                self.load(dtype, offset);
                self.set(*local);
            }
            Stmt::Store(place, value) => {
                let (offset, dtype) = self.address(place);
                self.expr(value);
                self.store(dtype, offset);
            }
            Stmt::Atomic { op, place, operand, expected, previous } => {
                self.atomic(*op, place, operand, expected.as_ref(), *previous);
            }
            Stmt::If(condition, then, otherwise) => {
                self.expr(condition);
                self.code().start_if();
                self.body(then);
                if !otherwise.is_empty() {
                    self.code().start_else();
                    self.body(otherwise);
                }
                self.code().end();
            }
            Stmt::Loop(label, body) => {
                let left = self.code().block();
                let next = self.code().start_loop();
                self.labels.insert(*label, (left, Some(next)));
                self.iterate();
                self.body(body);
                self.code().branch(next);
                self.code().end();
                self.code().end();
            }
            Stmt::For { label, counter, start, end, step, body } => {
                self.range(*label, *counter, [start, end, step], body);
            }
            Stmt::Block(label, body) => {
                let left = self.code().block();
                self.labels.insert(*label, (left, None));
                self.body(body);
                self.code().end();
            }
            Stmt::Break(label) => {
                let (left, _) = self.labels[label];
                self.code().branch(left);
            }
            Stmt::Continue(label) => {
                let (_, next) = self.labels[label];
                self.code().branch(next.expect("a checked label of a loop"));
            }
            Stmt::Return => self.end_thread(),
            Stmt::Fault(kind, site) => self.fault(*kind, site.0),
        }
    }

    fn set(&mut self, local: LocalId) {
        let at = self.locals[local.0 as usize];
        self.code().sink().local_set(at);
    }

    fn end_thread(&mut self) {
        let end = self.end_of_thread.expect("statements run in a thread");
        self.code().branch(end);
    }

    fn fault(&mut self, kind: FaultKind, site: u32) {
        self.code().sink().local_get(THREAD).i64_const(0);
        self.record(kind, site, FaultRecord::NONE, 0);
        self.code().sink().i32_const(0);
        self.emitter.call(Helper::Fault);
        self.end_thread();
    }

    /// The operands of [`Helper::Fault`] that are constants.
    fn record(&mut self, kind: FaultKind, site: u32, array: u32, axis: u32) {
        for word in [kind.code(), site, array, axis] {
            self.code().sink().i32_const(word.cast_signed());
        }
    }

    /// Counts an iteration of a loop.
    fn iterate(&mut self) {
        let left = self.iterations_left;
        self.code().sink().local_get(left).i64_eqz();
        self.code().start_if();
        self.fault(FaultKind::BudgetExhausted, FaultRecord::NONE);
        self.code().end();
        self.code().sink().local_get(left).i64_const(1).i64_sub().local_set(left);
    }

    /// A loop counts the iterations that are left, so that the numbers may wrap.
    fn range(&mut self, label: LabelId, counter: LocalId, bounds: [&Expr; 3], body: &[Stmt]) {
        let dtype = self.kernel.locals[counter.0 as usize].dtype;
        let (counts, ty) = (count_type(dtype), value_type(dtype));
        let [start, end, step, count] = [(); 4].map(|()| self.code().scratch(ty));
        for (bound, local) in bounds.into_iter().zip([start, end, step]) {
            self.expr(bound);
            self.code().sink().local_set(local);
        }
        self.trip_count(dtype, [start, end, step], count);
        let left = self.code().block();
        let next = self.code().start_loop();
        self.labels.insert(label, (left, Some(next)));
        self.code().sink().local_get(count);
        self.emitter.cast(counts, Dtype::Bool);
        self.code().sink().i32_eqz();
        self.code().branch_if(left);
        self.iterate();
        self.code().sink().local_get(count);
        self.literal(counts, 1);
        self.emitter.binary(BinaryOp::Sub, counts);
        self.code().sink().local_set(count).local_get(start);
        self.set(counter);
        self.code().sink().local_get(start).local_get(step);
        self.emitter.binary(BinaryOp::Add, dtype);
        self.code().sink().local_set(start);
        self.body(body);
        self.code().branch(next);
        self.code().end();
        self.code().end();
        for local in [start, end, step, count] {
            self.code().release(ty, local);
        }
    }

    /// Sets `count` to the number of whole or partial steps from `start` to `end`, computed in the unsigned type of the same size.
    fn trip_count(&mut self, dtype: Dtype, bounds: [u32; 3], count: u32) {
        let [start, end, step] = bounds;
        let zero = |run: &mut Self| run.literal(dtype, 0);
        self.literal(count_type(dtype), 0);
        self.code().sink().local_set(count);
        self.code().sink().local_get(start).local_get(end);
        self.emitter.binary(BinaryOp::Lt, dtype);
        zero(self);
        self.code().sink().local_get(step);
        self.emitter.binary(BinaryOp::Lt, dtype);
        self.code().sink().i32_and();
        self.code().start_if();
        self.steps(dtype, [start, end], count, |run| {
            run.code().sink().local_get(step);
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
        self.steps(dtype, [end, start], count, |run| {
            zero(run);
            run.code().sink().local_get(step);
            run.emitter.binary(BinaryOp::Sub, count_type(dtype));
        });
        self.code().end();
    }

    /// (high - low - 1) / step + 1, for low < high.
    fn steps(&mut self, dtype: Dtype, range: [u32; 2], count: u32, step: impl FnOnce(&mut Self)) {
        let (counts, [low, high]) = (count_type(dtype), range);
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

    fn atomic(
        &mut self,
        op: AtomicOp,
        place: &Place,
        operand: &Expr,
        expected: Option<&Expr>,
        previous: Option<LocalId>,
    ) {
        let (offset, dtype) = self.address(place);
        let ty = value_type(dtype);
        let (address, before) = (self.code().scratch(ValType::I32), self.code().scratch(ty));
        self.code().sink().local_tee(address).local_get(address);
        self.load(dtype, offset);
        self.code().sink().local_set(before);
        let combine = |run: &mut Self, op| {
            run.code().sink().local_get(before);
            run.expr(operand);
            run.emitter.binary(op, dtype);
        };
        match op {
            AtomicOp::Add => combine(self, BinaryOp::Add),
            AtomicOp::Min => combine(self, BinaryOp::Min),
            AtomicOp::Max => combine(self, BinaryOp::Max),
            AtomicOp::And => combine(self, BinaryOp::And),
            AtomicOp::Or => combine(self, BinaryOp::Or),
            AtomicOp::Xor => combine(self, BinaryOp::Xor),
            AtomicOp::Exchange => {
                self.expr(operand);
            }
            AtomicOp::CompareExchange => {
                let bits = if dtype.size() == 8 { Dtype::U64 } else { Dtype::U32 };
                self.expr(operand);
                self.code().sink().local_get(before).local_get(before);
                self.emitter.bitcast(dtype, bits);
                self.expr(expected.expect("checked: the operation has an expected value"));
                self.emitter.bitcast(dtype, bits);
                self.emitter.binary(BinaryOp::Eq, bits);
                self.code().sink().select();
            }
        }
        self.store(dtype, offset);
        if let Some(previous) = previous {
            self.code().sink().local_get(before);
            self.set(previous);
        }
        self.code().release(ValType::I32, address);
        self.code().release(ty, before);
    }

    /// Pushes the address of the element of a component, whose indices it checks; the component's offset and type.
    fn address(&mut self, place: &Place) -> (u32, Dtype) {
        let component = &self.kernel.params[place.array.0 as usize].ty.element().components[place.component as usize];
        let array = &self.arrays[&place.array];
        let (shape, strides) = (array.shape.clone(), array.strides.clone());
        let data = array.data;
        self.code().sink().local_get(data);
        for (axis, index) in place.indices.iter().enumerate() {
            self.index(place, axis, index, shape[axis]);
            self.code().sink().local_get(strides[axis]).i32_mul().i32_add();
        }
        (component.offset, component.dtype)
    }

    /// Pushes an index as i32, if it is not outside of its dimension. As an unsigned number, a negative one is greater than any extent.
    fn index(&mut self, place: &Place, axis: usize, index: &Expr, extent: u32) {
        let dtype = self.expr(index);
        let ty = value_type(dtype);
        let at = self.code().scratch(ty);
        self.code().sink().local_tee(at).local_get(extent);
        if dtype == Dtype::I64 {
            self.code().sink().i64_extend_i32_u().i64_ge_u();
        } else {
            self.code().sink().i32_ge_u();
        }
        self.code().start_if();
        self.code().sink().local_get(THREAD).local_get(at);
        self.emitter.cast(dtype, Dtype::I64);
        let axis = u32::try_from(axis).expect("at most four dimensions");
        self.record(FaultKind::OutOfBounds, place.site.0, place.array.0, axis);
        self.code().sink().local_get(extent);
        self.emitter.call(Helper::Fault);
        self.end_thread();
        self.code().end();
        self.code().sink().local_get(at);
        self.emitter.cast(dtype, Dtype::I32);
        self.code().release(ty, at);
    }

    /// Loads from the address on the stack.
    fn load(&mut self, dtype: Dtype, offset: u32) {
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
    fn store(&mut self, dtype: Dtype, offset: u32) {
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
    fn expr(&mut self, expr: &Expr) -> Dtype {
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

/// The unsigned type of the size of an integer type.
fn count_type(dtype: Dtype) -> Dtype {
    match dtype.size() {
        1 => Dtype::U8,
        2 => Dtype::U16,
        8 => Dtype::U64,
        _ => Dtype::U32,
    }
}
