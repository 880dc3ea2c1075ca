//! Which kernels compute the same bits everywhere.

use crate::Dtype;
use crate::kernel::{AtomicOp, Expr, Kernel, Place, Stmt};

/// Limits to the agreement of two executions of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exactness {
    /// Occurrences of operations that math libraries approximate.
    pub approximations: u32,
    /// Those of them on f64. Of f32, only standalone programs call CUDA's.
    pub approximations_f64: u32,
    /// Greatest error of one of them, in units of the last place, in CUDA's math library.
    pub max_ulp: u32,
    /// Atomic sums of floating-point numbers, which depend on the order of the threads.
    pub float_sums: u32,
    /// Atomic operations whose previous value is used, or the order of which shows in memory.
    pub order_dependent: u32,
}

impl Kernel {
    /// Returns true if interpreter, WebAssembly and device code compute the same bits, except those of NaNs: it has no approximated
    /// operation of f64 and no atomic sum of floating-point numbers. Threads that see the order in which they run may still differ.
    pub fn is_bit_exact(&self) -> bool {
        let exactness = self.exactness();
        exactness.approximations_f64 == 0 && exactness.float_sums == 0
    }

    /// Limits to the agreement of two executions.
    pub fn exactness(&self) -> Exactness {
        let mut counter = Counter { kernel: self, found: Exactness::default() };
        counter.list(&self.body);
        counter.found
    }
}

impl Exactness {
    /// Returns true if a standalone program has the bits of the interpreter: it has no approximated operation and no atomic sum.
    pub(super) fn is_program_exact(&self) -> bool {
        self.approximations == 0 && self.float_sums == 0
    }
}

struct Counter<'k> {
    kernel: &'k Kernel,
    found: Exactness,
}

impl Counter<'_> {
    fn list(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign(_, value) => self.expr(value),
            Stmt::Load(_, place) => self.place(place),
            Stmt::Store(place, value) => {
                self.place(place);
                self.expr(value);
            }
            Stmt::Atomic { op, place, operand, expected, previous } => {
                self.place(place);
                self.expr(operand);
                if let Some(expected) = expected {
                    self.expr(expected);
                }
                let is_float = operand.dtype(self.kernel).is_float();
                self.found.float_sums += u32::from(*op == AtomicOp::Add && is_float);
                let replaces = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
                self.found.order_dependent += u32::from(replaces || previous.is_some());
            }
            Stmt::If(condition, then, otherwise) => {
                self.expr(condition);
                self.list(then);
                self.list(otherwise);
            }
            Stmt::For { start, end, step, body, .. } => {
                for bound in [start, end, step] {
                    self.expr(bound);
                }
                self.list(body);
            }
            Stmt::Loop(_, body) | Stmt::Block(_, body) => self.list(body),
            Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {}
        }
    }

    fn place(&mut self, place: &Place) {
        for index in &place.indices {
            self.expr(index);
        }
    }

    fn approximated(&mut self, ulp: u32, operand: &Expr) {
        let is_approximated = u32::from(ulp > 0);
        self.found.approximations += is_approximated;
        if operand.dtype(self.kernel) == Dtype::F64 {
            self.found.approximations_f64 += is_approximated;
        }
        self.found.max_ulp = self.found.max_ulp.max(ulp);
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => {}
            Expr::Unary(op, a) => {
                self.approximated(op.max_ulp(), a);
                self.expr(a);
            }
            Expr::Binary(op, a, b) => {
                self.approximated(op.max_ulp(), a);
                self.expr(a);
                self.expr(b);
            }
            Expr::Select(condition, a, b) => {
                self.expr(condition);
                self.expr(a);
                self.expr(b);
            }
            Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.expr(a),
        }
    }
}
