//! Kernels whose results are exact.

use accelerd_ir::{
    kernel::{Expr, Kernel, Stmt},
    scalar::{BinaryOp, UnaryOp},
};

/// Replaces operations that math libraries approximate by others.
pub(crate) fn exact(mut kernel: Kernel) -> Kernel {
    exact_body(&mut kernel.body);
    kernel
}

fn exact_body(body: &mut [Stmt]) {
    for stmt in body {
        match stmt {
            Stmt::Assign(_, value) => exact_expr(value),
            Stmt::Load(_, place) => place.indices.iter_mut().for_each(exact_expr),
            Stmt::Store(place, value) => {
                place.indices.iter_mut().for_each(exact_expr);
                exact_expr(value);
            }
            Stmt::Atomic { place, operand, expected, .. } => {
                place.indices.iter_mut().for_each(exact_expr);
                exact_expr(operand);
                expected.iter_mut().for_each(exact_expr);
            }
            Stmt::If(condition, then, otherwise) => {
                exact_expr(condition);
                exact_body(then);
                exact_body(otherwise);
            }
            Stmt::For { start, end, step, body, .. } => {
                [start, end, step].into_iter().for_each(exact_expr);
                exact_body(body);
            }
            Stmt::Loop(_, body) | Stmt::Block(_, body) => exact_body(body),
            Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {}
        }
    }
}

fn exact_expr(expr: &mut Expr) {
    match expr {
        Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => {}
        Expr::Unary(op, a) => {
            if op.is_elementary() {
                *op = UnaryOp::Sqrt;
            }
            exact_expr(a);
        }
        Expr::Binary(op, a, b) => {
            if op.is_elementary() {
                *op = BinaryOp::Div;
            }
            exact_expr(a);
            exact_expr(b);
        }
        Expr::Select(condition, a, b) => [condition, a, b].into_iter().for_each(|operand| exact_expr(operand)),
        Expr::Cast(_, a) | Expr::Bitcast(_, a) => exact_expr(a),
    }
}
