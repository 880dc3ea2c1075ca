//! Runs four threads at once, one in each lane of a vector, and where there are few operations, several such vectors, which hide each
//! other's latency.
//!
//! This is for kernels of a grid of one dimension whose types have 32 bits, that access arrays at the position of the thread only, and that
//! take no operation which vectors do not have. Lanes take both branches of a condition under a mask, and one that returns is masked from
//! then on. Loops must run alike in all threads. Accesses that may fault are left
//! to the code that runs one after the other: the vectors stop where the shortest array ends, and do not start if an array has gaps, or
//! shares memory with another one so that an element of a thread is that of another thread.

use std::collections::HashMap;

use wasm_encoder::{MemArg, ValType};

use super::{
    analysis::{arrays, has_lanes, is_uniform, may_return, operations},
    code::{Code, Target, memory},
    elementary::{binary_vector, unary_vector},
    helper::Helper,
    scope::{LOOP_BUDGET, Scope, THREAD, THREAD_COUNT},
};
use crate::Dtype;
use crate::kernel::{Expr, FaultKind, FaultRecord, LocalId, ParamId, Place, Stmt};
use crate::scalar::elementary::takes_angle;
use crate::scalar::{BinaryOp, Literal, UnaryOp};

/// Lanes of a vector.
const LANES: u32 = 4;
/// Bytes of a component.
const SIZE: u32 = 4;
/// The maximum number of operations of a kernel, and how many of its vectors then run at once. Their variables should fit in the 16 vector
/// registers that every processor has.
const GROUPS: [(usize, usize); 2] = [(16, 4), (32, 2)];

/// Emits the loop over vectors of threads, if the kernel can be run so. It advances the variable of the current thread.
pub(super) fn emit(scope: &mut Scope<'_>) {
    if scope.grid.len() != 1 {
        return;
    }
    let before = scope.code().clone();
    let Some(arrays) = arrays(&scope.kernel.body) else {
        return;
    };
    let operations = operations(&scope.kernel.body);
    let vectors = GROUPS.iter().find(|(limit, _)| operations <= *limit).map_or(1, |(_, vectors)| *vectors);
    let mut variables = || (0..vectors).map(|_| scope.code().local(ValType::V128)).collect();
    let positions = variables();
    let live = variables();
    let offset = scope.code().local(ValType::I32);
    let mut lanes = Lanes {
        scope,
        locals: HashMap::new(),
        arrays,
        vectors,
        vector: 0,
        positions,
        offset,
        live,
        end_of_group: None,
        is_divergent: false,
    };
    if lanes.threads().is_none() {
        *scope.code() = before;
    }
}

/// Where a kernel is found to have what vectors cannot do, `None` ends the emission.
struct Lanes<'s, 'a> {
    scope: &'s mut Scope<'a>,
    /// The vectors of each.
    locals: HashMap<LocalId, Vec<u32>>,
    /// The arrays that are accessed.
    arrays: Vec<ParamId>,
    /// The number of vectors that run at once, as a group.
    vectors: usize,
    /// The one that statements are emitted for.
    vector: usize,
    /// The positions of the threads, and the offset of the first one's component in an array.
    positions: Vec<u32>,
    offset: u32,
    /// The lanes whose thread has not returned.
    live: Vec<u32>,
    /// Where the threads of a group end.
    end_of_group: Option<Target>,
    /// True if lanes may have taken different branches.
    is_divergent: bool,
}

impl Lanes<'_, '_> {
    fn code(&mut self) -> &mut Code {
        self.scope.code()
    }

    fn threads(&mut self) -> Option<()> {
        let end = self.end();
        let done = self.code().block();
        self.code().sink().local_get(THREAD).i64_const(0).i64_lt_s();
        self.code().branch_if(done);
        if self.vectors > 1 {
            self.groups(end)?;
            self.vectors = 1;
        }
        self.groups(end)?;
        self.close(1);
        Some(())
    }

    /// Runs groups up to the last one before the end.
    fn groups(&mut self, end: u32) -> Option<()> {
        let kernel = self.scope.kernel;
        let threads = i64::from(LANES) * i64::try_from(self.vectors).expect("few vectors");
        let done = self.code().block();
        let next = self.code().start_loop();
        self.code().sink().local_get(THREAD).i64_const(threads).i64_add().local_get(end).i64_gt_s();
        self.code().branch_if(done);
        self.group(&kernel.body)?;
        self.code().sink().local_get(THREAD).i64_const(threads).i64_add().local_set(THREAD);
        self.code().branch(next);
        self.close(2);
        Some(())
    }

    /// Emits a part for each vector.
    fn each(&mut self, mut part: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        (0..self.vectors).try_for_each(|vector| {
            self.vector = vector;
            part(self)
        })
    }

    /// A variable for each vector, with any values.
    fn scratch(&mut self) -> Vec<u32> {
        (0..self.vectors).map(|_| self.code().scratch(ValType::V128)).collect()
    }

    fn release(&mut self, vectors: Vec<u32>) {
        for vector in vectors {
            self.code().release(ValType::V128, vector);
        }
    }

    fn close(&mut self, blocks: usize) {
        for _ in 0..blocks {
            self.code().end();
        }
    }

    /// A variable with the end of the threads that access contiguous arrays within their extents.
    fn end(&mut self) -> u32 {
        let end = self.code().local(ValType::I64);
        let extent = self.scope.grid[0];
        self.code().sink().local_get(THREAD_COUNT).local_set(end);
        self.lower(end, extent);
        for array in self.arrays.clone() {
            let extent = self.scope.arrays[&array].shape[0];
            let stride = self.scope.arrays[&array].strides[0];
            self.lower(end, extent);
            self.code().sink().local_get(end).i64_const(0);
            self.code().sink().local_get(stride).i32_const(SIZE.cast_signed()).i32_eq().select().local_set(end);
        }
        let written = self.scope.kernel.written();
        let is_written = |array: ParamId| written[array.0 as usize];
        let arrays = self.arrays.clone();
        for (nth, one) in arrays.iter().enumerate() {
            for other in &arrays[nth + 1..] {
                if is_written(*one) || is_written(*other) {
                    self.end_if_shifted(end, *one, *other);
                }
            }
        }
        end
    }

    /// Lowers the end to 0 if two arrays overlap before it, unless they start at one address.
    fn end_if_shifted(&mut self, end: u32, one: ParamId, other: ParamId) {
        let [one, other] = [one, other].map(|array| self.scope.arrays[&array].data);
        let size = i64::from(SIZE);
        let mut sink = self.code().sink();
        sink.local_get(end).i64_const(0).local_get(one).local_get(other).i32_eq();
        // They are apart if `one - other` is in neither direction less than the bytes before the end.
        for (low, high) in [(one, other), (other, one)] {
            sink.local_get(low).i64_extend_i32_u().local_get(end).i64_const(size).i64_mul().i64_add();
            sink.local_get(high).i64_extend_i32_u().i64_le_s().i32_or();
        }
        sink.select().local_set(end);
    }

    /// Lowers a variable to an extent.
    fn lower(&mut self, end: u32, extent: u32) {
        self.code().sink().local_get(end).local_get(extent).i64_extend_i32_s();
        self.code().sink().local_get(end).local_get(extent).i64_extend_i32_s().i64_lt_s().select().local_set(end);
    }

    fn group(&mut self, body: &[Stmt]) -> Option<()> {
        let offset = self.offset;
        self.code().sink().local_get(THREAD).i32_wrap_i64().i32_const(2).i32_shl().local_set(offset);
        self.each(|lanes| {
            let position = lanes.positions[lanes.vector];
            let live = lanes.live[lanes.vector];
            let first = lanes.first_lane();
            let numbers = (0..LANES).map(|lane| i128::from(first + lane) << (32 * lane)).sum();
            let mut sink = lanes.code().sink();
            sink.local_get(THREAD).i32_wrap_i64().i32x4_splat().v128_const(numbers).i32x4_add().local_set(position);
            sink.v128_const(-1).local_set(live);
            for local in 0..lanes.scope.kernel.locals.len() {
                let id = LocalId(u32::try_from(local).expect("few locals"));
                if let Some(at) = lanes.local(id) {
                    lanes.code().sink().v128_const(0).local_set(at);
                }
            }
            Some(())
        })?;
        let iterations_left = self.scope.iterations_left;
        self.code().sink().local_get(LOOP_BUDGET).local_set(iterations_left);
        self.end_of_group = Some(self.code().block());
        self.body(body, None)?;
        self.code().end();
        Some(())
    }

    /// The lane of the group that is the first of the vector.
    fn first_lane(&self) -> u32 {
        LANES * u32::try_from(self.vector).expect("few vectors")
    }

    /// The vector of a local variable, whose type has 32 bits or is bool.
    fn local(&mut self, local: LocalId) -> Option<u32> {
        if !has_lanes(self.scope.kernel.locals[local.0 as usize].dtype) {
            return None;
        }
        let code = &mut self.scope.emitter.code;
        let vectors = self.vectors;
        let variables = || (0..vectors).map(|_| code.local(ValType::V128)).collect();
        Some(self.locals.entry(local).or_insert_with(variables)[self.vector])
    }

    /// Runs statements in the lanes that masks have set, or in all.
    fn body(&mut self, body: &[Stmt], masks: Option<&[u32]>) -> Option<()> {
        let mut remaining: Option<Vec<u32>> = None;
        for stmt in body {
            self.stmt(stmt, remaining.as_deref().or(masks))?;
            if may_return(stmt) {
                let remaining = &*remaining.get_or_insert_with(|| self.scratch());
                self.each(|lanes| {
                    let vector = lanes.vector;
                    let live = lanes.live[lanes.vector];
                    lanes.code().sink().local_get(live);
                    if let Some(masks) = masks {
                        lanes.code().sink().local_get(masks[vector]).v128_and();
                    }
                    lanes.code().sink().local_set(remaining[vector]);
                    Some(())
                })?;
            }
        }
        if let Some(remaining) = remaining {
            self.release(remaining);
        }
        Some(())
    }

    fn stmt(&mut self, stmt: &Stmt, masks: Option<&[u32]>) -> Option<()> {
        match stmt {
            Stmt::Assign(local, value) => self.each(|lanes| {
                lanes.expr(value)?;
                lanes.set(*local, masks)
            }),
            Stmt::Load(local, place) => self.each(|lanes| {
                let from = lanes.address(place)?;
                lanes.code().sink().v128_load(from);
                lanes.set(*local, masks)
            }),
            Stmt::Store(place, value) => self.each(|lanes| lanes.store(place, value, masks)),
            Stmt::If(condition, then, otherwise) => self.branches(condition, [then, otherwise], masks),
            Stmt::Return => self.each(|lanes| {
                let live = lanes.live[lanes.vector];
                if let Some(masks) = masks {
                    let mask = masks[lanes.vector];
                    lanes.code().sink().local_get(live).local_get(mask).v128_andnot().local_set(live);
                } else {
                    lanes.code().sink().v128_const(0).local_set(live);
                }
                Some(())
            }),
            Stmt::For { counter, start, end, step, body, .. } => {
                self.range(*counter, [start, end, step], body, masks.is_some())
            }
            Stmt::Atomic { .. }
            | Stmt::Loop(..)
            | Stmt::Block(..)
            | Stmt::Break(_)
            | Stmt::Continue(_)
            | Stmt::Fault(..) => None,
        }
    }

    fn store(&mut self, place: &Place, value: &Expr, masks: Option<&[u32]>) -> Option<()> {
        let to = self.address(place)?;
        self.expr(value)?;
        if let Some(masks) = masks {
            self.address(place)?;
            let mask = masks[self.vector];
            self.code().sink().v128_load(to).local_get(mask).v128_bitselect();
        }
        self.code().sink().v128_store(to);
        Some(())
    }

    /// A loop that all threads run alike: its bounds are those of all, and it is in no branch, so that masks are those of live lanes.
    fn range(&mut self, counter: LocalId, bounds: [&Expr; 3], body: &[Stmt], is_masked: bool) -> Option<()> {
        let dtype = bounds[0].dtype(self.scope.kernel);
        if self.is_divergent || !bounds.into_iter().all(is_uniform) {
            return None;
        }
        let is_masked = is_masked || body.iter().any(may_return);
        let live = self.live.clone();
        let masks = is_masked.then_some(&live[..]);
        let range = self.scope.start_range(bounds);
        let left = self.code().block();
        let next = self.code().start_loop();
        self.scope.branch_at_end(&range, left);
        self.iterate(is_masked);
        self.scope.next_of_range(&range);
        let number = self.code().scratch(ValType::I32);
        self.code().sink().local_set(number);
        self.each(|lanes| {
            lanes.splat(dtype, number)?;
            lanes.set(counter, masks)
        })?;
        self.code().release(ValType::I32, number);
        self.body(body, masks)?;
        self.code().branch(next);
        self.close(2);
        self.scope.release_range(&range);
        Some(())
    }

    /// Counts an iteration, if a thread is left; all that are have run the same number.
    fn iterate(&mut self, is_masked: bool) {
        let left = self.scope.iterations_left;
        let end = self.end_of_group.expect("statements run in a group");
        if is_masked {
            self.push_live_lanes();
            self.code().sink().i32_eqz();
            self.code().branch_if(end);
        }
        self.code().sink().local_get(left).i64_eqz();
        self.code().start_if();
        self.code().sink().local_get(THREAD);
        self.push_live_lanes();
        self.code().sink().i32_ctz().i64_extend_i32_u().i64_add().i64_const(0);
        self.scope.record(FaultKind::BudgetExhausted, FaultRecord::NONE, FaultRecord::NONE, 0);
        self.code().sink().i32_const(0);
        self.scope.emitter.call(Helper::Fault);
        self.code().branch(end);
        self.code().end();
        self.code().sink().local_get(left).i64_const(1).i64_sub().local_set(left);
    }

    /// Pushes a bit for each lane of the group, set if its thread has not returned.
    fn push_live_lanes(&mut self) {
        for vector in 0..self.vectors {
            let live = self.live[vector];
            let first = i32::try_from(vector).expect("few vectors") * LANES.cast_signed();
            self.code().sink().local_get(live).i32x4_bitmask();
            if vector > 0 {
                self.code().sink().i32_const(first).i32_shl().i32_or();
            }
        }
    }

    fn branches(&mut self, condition: &Expr, bodies: [&[Stmt]; 2], masks: Option<&[u32]>) -> Option<()> {
        let [taken, other] = [(); 2].map(|()| self.scratch());
        self.each(|lanes| {
            let taken = taken[lanes.vector];
            let other = other[lanes.vector];
            lanes.expr(condition)?;
            lanes.code().sink().local_set(taken);
            if let Some(masks) = masks {
                let mask = masks[lanes.vector];
                lanes.code().sink().local_get(mask).local_get(taken).v128_andnot().local_set(other);
                lanes.code().sink().local_get(mask).local_get(taken).v128_and().local_set(taken);
            } else {
                lanes.code().sink().local_get(taken).v128_not().local_set(other);
            }
            Some(())
        })?;
        let was_divergent = std::mem::replace(&mut self.is_divergent, true);
        for (body, masks) in bodies.into_iter().zip([&taken, &other]) {
            self.body(body, Some(masks))?;
        }
        self.is_divergent = was_divergent;
        self.release(taken);
        self.release(other);
        Some(())
    }

    /// Assigns the value on the stack to the vector.
    fn set(&mut self, local: LocalId, masks: Option<&[u32]>) -> Option<()> {
        let at = self.local(local)?;
        if let Some(masks) = masks {
            let mask = masks[self.vector];
            self.code().sink().local_get(at).local_get(mask).v128_bitselect();
        }
        self.code().sink().local_set(at);
        Some(())
    }

    /// Pushes the address of the component of the vector's first thread, but for an offset.
    fn address(&mut self, place: &Place) -> Option<MemArg> {
        let element = self.scope.kernel.params[place.array.0 as usize].ty.element();
        let component = &element.components[place.component as usize];
        let is_supported = element.size == SIZE && component.dtype.size() == 4;
        if !is_supported {
            return None;
        }
        let data = self.scope.arrays[&place.array].data;
        let offset = self.offset;
        self.code().sink().local_get(data).local_get(offset).i32_add();
        Some(memory(component.offset + SIZE * self.first_lane(), SIZE as usize))
    }

    fn splat(&mut self, dtype: Dtype, local: u32) -> Option<Dtype> {
        self.code().sink().local_get(local);
        match dtype {
            Dtype::F32 => self.code().sink().f32x4_splat(),
            // All bits of a bool are set.
            Dtype::Bool => self.code().sink().i32x4_splat().i32x4_neg(),
            Dtype::I32 | Dtype::U32 => self.code().sink().i32x4_splat(),
            Dtype::U8
            | Dtype::I8
            | Dtype::U16
            | Dtype::I16
            | Dtype::U64
            | Dtype::I64
            | Dtype::F16
            | Dtype::Bf16
            | Dtype::F64 => return None,
        };
        Some(dtype)
    }

    /// Pushes the same number in all lanes.
    fn literal(&mut self, literal: Literal) -> Option<Dtype> {
        let dtype = literal.dtype();
        if !has_lanes(dtype) {
            return None;
        }
        let is_set = dtype == Dtype::Bool && literal.is_truthy();
        let bits = if is_set { u32::MAX.into() } else { i128::from(literal.bits()) };
        let all = (0..4).fold(0, |all, lane| all | bits << (32 * lane));
        self.code().sink().v128_const(all);
        Some(dtype)
    }

    /// Pushes the values of an expression; their type.
    fn expr(&mut self, expr: &Expr) -> Option<Dtype> {
        match expr {
            Expr::Literal(literal) => self.literal(*literal),
            Expr::Local(local) => {
                let at = self.local(*local)?;
                self.code().sink().local_get(at);
                Some(self.scope.kernel.locals[local.0 as usize].dtype)
            }
            Expr::Param(param, component) => {
                let element = self.scope.kernel.params[param.0 as usize].ty.element();
                let dtype = element.components[*component as usize].dtype;
                let at = self.scope.values[&(*param, *component)];
                self.splat(dtype, at)
            }
            Expr::Extent(param, axis) => {
                let at = self.scope.arrays[param].shape[usize::from(*axis)];
                self.splat(Dtype::I32, at)
            }
            Expr::ThreadId(_) => {
                let at = self.positions[self.vector];
                self.code().sink().local_get(at);
                Some(Dtype::I32)
            }
            Expr::Unary(op, a) if op.is_elementary() => {
                self.expr(a).filter(|dtype| *dtype == Dtype::F32)?;
                let scalar = takes_angle(*op).then(|| self.scope.emitter.functions.helper(Helper::UnaryF32(*op)));
                unary_vector(self.code(), *op, scalar);
                Some(Dtype::F32)
            }
            Expr::Binary(op, a, b) if op.is_elementary() => {
                self.expr(a).filter(|dtype| *dtype == Dtype::F32)?;
                self.expr(b)?;
                binary_vector(self.code(), *op);
                Some(Dtype::F32)
            }
            Expr::Unary(op, a) => {
                let dtype = self.expr(a)?;
                self.unary(*op, dtype)?;
                op.result(dtype)
            }
            Expr::Binary(op, a, b) => {
                let dtype = self.expr(a)?;
                self.binary(*op, dtype, b)?;
                op.result(dtype)
            }
            Expr::Select(condition, a, b) => {
                let dtype = self.expr(a)?;
                self.expr(b)?;
                self.expr(condition)?;
                self.code().sink().v128_bitselect();
                Some(dtype)
            }
            Expr::Cast(to, a) => {
                let from = self.expr(a)?;
                self.cast(from, *to)?;
                Some(*to)
            }
            Expr::Bitcast(to, a) => {
                self.expr(a)?;
                has_lanes(*to).then_some(*to)
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "vectors have no other operation")]
    fn unary(&mut self, op: UnaryOp, dtype: Dtype) -> Option<()> {
        let is_float = dtype == Dtype::F32;
        let mut sink = self.scope.code().sink();
        match op {
            UnaryOp::Neg if is_float => sink.f32x4_neg(),
            UnaryOp::Neg => sink.i32x4_neg(),
            UnaryOp::Abs if is_float => sink.f32x4_abs(),
            UnaryOp::Abs => sink.i32x4_abs(),
            UnaryOp::Floor => sink.f32x4_floor(),
            UnaryOp::Ceil => sink.f32x4_ceil(),
            UnaryOp::Trunc => sink.f32x4_trunc(),
            UnaryOp::Round => sink.f32x4_nearest(),
            UnaryOp::Sqrt => sink.f32x4_sqrt(),
            UnaryOp::Not => sink.v128_not(),
            UnaryOp::SignBit => sink.i32_const(31).i32x4_shr_s(),
            _ => return None,
        };
        Some(())
    }

    /// An operation on the vector on the stack and `b`.
    fn binary(&mut self, op: BinaryOp, dtype: Dtype, b: &Expr) -> Option<()> {
        if let (BinaryOp::Shl | BinaryOp::Shr, Expr::Literal(b)) = (op, b) {
            return self.shift(op, *b);
        }
        self.expr(b)?;
        let mut sink = self.scope.code().sink();
        match (op, dtype) {
            (BinaryOp::Add, Dtype::F32) => sink.f32x4_add(),
            (BinaryOp::Sub, Dtype::F32) => sink.f32x4_sub(),
            (BinaryOp::Mul, Dtype::F32) => sink.f32x4_mul(),
            (BinaryOp::Div, Dtype::F32) => sink.f32x4_div(),
            (BinaryOp::Min, Dtype::F32) => sink.f32x4_min(),
            (BinaryOp::Max, Dtype::F32) => sink.f32x4_max(),
            (BinaryOp::Eq, Dtype::F32) => sink.f32x4_eq(),
            (BinaryOp::Ne, Dtype::F32) => sink.f32x4_ne(),
            (BinaryOp::Lt, Dtype::F32) => sink.f32x4_lt(),
            (BinaryOp::Le, Dtype::F32) => sink.f32x4_le(),
            (BinaryOp::And, _) | (BinaryOp::Min, Dtype::Bool) => sink.v128_and(),
            (BinaryOp::Or, _) | (BinaryOp::Max, Dtype::Bool) => sink.v128_or(),
            (BinaryOp::Xor, _) => sink.v128_xor(),
            (BinaryOp::Eq, _) => sink.i32x4_eq(),
            (BinaryOp::Ne, _) => sink.i32x4_ne(),
            (BinaryOp::Add, Dtype::I32 | Dtype::U32) => sink.i32x4_add(),
            (BinaryOp::Sub, Dtype::I32 | Dtype::U32) => sink.i32x4_sub(),
            (BinaryOp::Mul, Dtype::I32 | Dtype::U32) => sink.i32x4_mul(),
            (BinaryOp::Min, Dtype::I32) => sink.i32x4_min_s(),
            (BinaryOp::Min, Dtype::U32) => sink.i32x4_min_u(),
            (BinaryOp::Max, Dtype::I32) => sink.i32x4_max_s(),
            (BinaryOp::Max, Dtype::U32) => sink.i32x4_max_u(),
            (BinaryOp::Lt, Dtype::I32) => sink.i32x4_lt_s(),
            // The lanes of a bool are 0 and the greatest number.
            (BinaryOp::Lt, Dtype::U32 | Dtype::Bool) => sink.i32x4_lt_u(),
            (BinaryOp::Le, Dtype::I32) => sink.i32x4_le_s(),
            (BinaryOp::Le, Dtype::U32 | Dtype::Bool) => sink.i32x4_le_u(),
            _ => return None,
        };
        Some(())
    }

    /// Shifts by a constant that is below the number of bits.
    fn shift(&mut self, op: BinaryOp, by: Literal) -> Option<()> {
        let bits = i32::try_from(by.as_i64()).ok().filter(|bits| (0..32).contains(bits))?;
        let mut sink = self.scope.code().sink();
        sink.i32_const(bits);
        match (op, by.dtype()) {
            (BinaryOp::Shl, Dtype::I32 | Dtype::U32) => sink.i32x4_shl(),
            (_, Dtype::I32) => sink.i32x4_shr_s(),
            (_, Dtype::U32) => sink.i32x4_shr_u(),
            _ => return None,
        };
        Some(())
    }

    fn cast(&mut self, from: Dtype, to: Dtype) -> Option<()> {
        if from == to || (from.is_integer() && to.is_integer() && has_lanes(to)) {
            return Some(());
        }
        match (from, to) {
            (Dtype::Bool, _) if has_lanes(to) => {
                self.literal(Literal::from_i64(to, 1))?;
                self.code().sink().v128_and();
            }
            (_, Dtype::Bool) => {
                self.literal(Literal::from_i64(from, 0))?;
                let mut sink = self.code().sink();
                if from == Dtype::F32 {
                    sink.f32x4_ne()
                } else {
                    sink.i32x4_ne()
                };
            }
            _ => {
                let mut sink = self.code().sink();
                match (from, to) {
                    (Dtype::F32, Dtype::I32) => sink.i32x4_trunc_sat_f32x4_s(),
                    (Dtype::F32, Dtype::U32) => sink.i32x4_trunc_sat_f32x4_u(),
                    (Dtype::I32, Dtype::F32) => sink.f32x4_convert_i32x4_s(),
                    (Dtype::U32, Dtype::F32) => sink.f32x4_convert_i32x4_u(),
                    _ => return None,
                };
            }
        }
        Some(())
    }
}
