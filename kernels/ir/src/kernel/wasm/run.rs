//! The function that runs threads: it loads the arguments, and runs the kernel's statements for one thread after the other.

use std::collections::HashMap;

use wasm_encoder::ValType;

use super::{
    code::{Code, Target},
    helper::{Functions, Helper, STATUS},
    lanes,
    operation::value_type,
    scope::{LOOP_BUDGET, Scope, THREAD, THREAD_COUNT},
};
use crate::Dtype;
use crate::kernel::{AtomicOp, Expr, FaultKind, FaultRecord, Kernel, LabelId, LocalId, Place, Stmt};
use crate::scalar::{BinaryOp, Literal};

/// The part of the function that runs one thread after the other.
struct Run<'a> {
    scope: Scope<'a>,
    /// Where a thread ends.
    end_of_thread: Option<Target>,
    /// Where a label is left, and where its next iteration starts.
    labels: HashMap<LabelId, (Target, Option<Target>)>,
}

/// The code of the function for a kernel that is well formed.
pub(super) fn emit(kernel: &Kernel, functions: &mut Functions) -> Code {
    let mut scope = Scope::new(kernel, functions);
    scope.code().sink().i32_const(0).global_set(STATUS);
    scope.load_grid();
    scope.load_arguments();
    // From here on, the number of threads is the end of their range.
    scope.code().sink().local_get(THREAD).local_get(THREAD_COUNT).i64_add().local_set(THREAD_COUNT);
    lanes::emit(&mut scope);
    scope.locate_thread();
    let mut run = Run { scope, end_of_thread: None, labels: HashMap::new() };
    run.threads();
    run.scope.emitter.code
}

impl Run<'_> {
    fn code(&mut self) -> &mut Code {
        self.scope.code()
    }

    fn threads(&mut self) {
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

    /// Moves to the position of the next thread.
    fn advance(&mut self) {
        self.code().sink().local_get(THREAD).i64_const(1).i64_add().local_set(THREAD);
        let carry = self.code().block();
        for axis in (0..self.scope.position.len()).rev() {
            let position = self.scope.position[axis];
            let extent = self.scope.grid[axis];
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
        let iterations_left = self.scope.iterations_left;
        self.code().sink().local_set(iterations_left);
        for (local, at) in self.scope.kernel.locals.iter().zip(self.scope.locals.clone()) {
            self.scope.emitter.literal(Literal::from_bits(local.dtype, 0));
            self.code().sink().local_set(at);
        }
        self.end_of_thread = Some(self.code().block());
        self.body(&self.scope.kernel.body);
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
                self.scope.expr(value);
                self.set(*local);
            }
            Stmt::Load(local, place) => {
                let (offset, dtype) = self.address(place);
                self.scope.load(dtype, offset);
                self.set(*local);
            }
            Stmt::Store(place, value) => {
                let (offset, dtype) = self.address(place);
                self.scope.expr(value);
                self.scope.store(dtype, offset);
            }
            Stmt::Atomic { op, place, operand, expected, previous } => {
                self.atomic(*op, place, operand, expected.as_ref(), *previous);
            }
            Stmt::If(condition, then, otherwise) => {
                self.scope.expr(condition);
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
        let at = self.scope.locals[local.0 as usize];
        self.code().sink().local_set(at);
    }

    fn end_thread(&mut self) {
        let end = self.end_of_thread.expect("statements run in a thread");
        self.code().branch(end);
    }

    fn fault(&mut self, kind: FaultKind, site: u32) {
        self.code().sink().local_get(THREAD).i64_const(0);
        self.scope.record(kind, site, FaultRecord::NONE, 0);
        self.code().sink().i32_const(0);
        self.scope.emitter.call(Helper::Fault);
        self.end_thread();
    }

    /// Counts an iteration of a loop.
    fn iterate(&mut self) {
        let left = self.scope.iterations_left;
        self.code().sink().local_get(left).i64_eqz();
        self.code().start_if();
        self.fault(FaultKind::BudgetExhausted, FaultRecord::NONE);
        self.code().end();
        self.code().sink().local_get(left).i64_const(1).i64_sub().local_set(left);
    }

    fn range(&mut self, label: LabelId, counter: LocalId, bounds: [&Expr; 3], body: &[Stmt]) {
        let range = self.scope.start_range(bounds);
        let left = self.code().block();
        let next = self.code().start_loop();
        self.labels.insert(label, (left, Some(next)));
        self.scope.branch_at_end(&range, left);
        self.iterate();
        self.scope.next_of_range(&range);
        self.set(counter);
        self.body(body);
        self.code().branch(next);
        self.code().end();
        self.code().end();
        self.scope.release_range(&range);
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
        let address = self.code().scratch(ValType::I32);
        let before = self.code().scratch(ty);
        self.code().sink().local_tee(address).local_get(address);
        self.scope.load(dtype, offset);
        self.code().sink().local_set(before);
        // Numbers of 16 bits are computed in f32.
        let wide = dtype.compute();
        let combine = |run: &mut Self, op| {
            run.code().sink().local_get(before);
            run.scope.emitter.cast(dtype, wide);
            run.scope.expr(operand);
            run.scope.emitter.cast(dtype, wide);
            run.scope.emitter.binary(op, wide);
            run.scope.emitter.cast(wide, dtype);
        };
        match op {
            AtomicOp::Add => combine(self, BinaryOp::Add),
            AtomicOp::Min if dtype.is_float() => self.extremum_of_numbers(BinaryOp::Min, dtype, before, operand),
            AtomicOp::Max if dtype.is_float() => self.extremum_of_numbers(BinaryOp::Max, dtype, before, operand),
            AtomicOp::Min => combine(self, BinaryOp::Min),
            AtomicOp::Max => combine(self, BinaryOp::Max),
            AtomicOp::And => combine(self, BinaryOp::And),
            AtomicOp::Or => combine(self, BinaryOp::Or),
            AtomicOp::Xor => combine(self, BinaryOp::Xor),
            AtomicOp::Exchange => {
                self.scope.expr(operand);
            }
            AtomicOp::CompareExchange => {
                let bits = if dtype.size() == 8 { Dtype::U64 } else { Dtype::U32 };
                self.scope.expr(operand);
                self.code().sink().local_get(before).local_get(before);
                self.scope.emitter.bitcast(dtype, bits);
                self.scope.expr(expected.expect("checked: the operation has an expected value"));
                self.scope.emitter.bitcast(dtype, bits);
                self.scope.emitter.binary(BinaryOp::Eq, bits);
                self.code().sink().select();
            }
        }
        self.scope.store(dtype, offset);
        if let Some(previous) = previous {
            self.code().sink().local_get(before);
            self.set(previous);
        }
        self.code().release(ValType::I32, address);
        self.code().release(ty, before);
    }

    /// Pushes the lesser or greater of a previous value and an operand; of those the number, if the other is NaN.
    fn extremum_of_numbers(&mut self, op: BinaryOp, dtype: Dtype, before: u32, operand: &Expr) {
        let wide = dtype.compute();
        let ty = value_type(wide);
        let [a, b] = [(); 2].map(|()| self.code().scratch(ty));
        self.code().sink().local_get(before);
        self.scope.emitter.cast(dtype, wide);
        self.code().sink().local_set(a);
        self.scope.expr(operand);
        self.scope.emitter.cast(dtype, wide);
        self.code().sink().local_set(b);
        for (value, other) in [(a, b), (b, a)] {
            self.code().sink().local_get(value).local_get(other).local_get(value).local_get(value);
            self.scope.emitter.binary(BinaryOp::Eq, wide);
            self.code().sink().select();
        }
        self.scope.emitter.binary(op, wide);
        self.scope.emitter.cast(wide, dtype);
        self.code().release(ty, a);
        self.code().release(ty, b);
    }

    /// Pushes the address of the element of a component, whose indices it checks; the component's offset and type.
    fn address(&mut self, place: &Place) -> (u32, Dtype) {
        let component =
            &self.scope.kernel.params[place.array.0 as usize].ty.element().components[place.component as usize];
        let array = &self.scope.arrays[&place.array];
        let shape = array.shape.clone();
        let strides = array.strides.clone();
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
        let dtype = self.scope.expr(index);
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
        self.scope.emitter.cast(dtype, Dtype::I64);
        let axis = u32::try_from(axis).expect("at most four dimensions");
        self.scope.record(FaultKind::OutOfBounds, place.site.0, place.array.0, axis);
        self.code().sink().local_get(extent);
        self.scope.emitter.call(Helper::Fault);
        self.end_thread();
        self.code().end();
        self.code().sink().local_get(at);
        self.scope.emitter.cast(dtype, Dtype::I32);
        self.code().release(ty, at);
    }
}
