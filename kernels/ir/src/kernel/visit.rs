//! Walks over the expressions and accesses of a body.

use super::{Expr, Place, Stmt, races::Access};

/// Calls `visit` with every access to an array, in the order of the text.
pub(super) fn each_access<'a>(body: &'a [Stmt], visit: &mut dyn FnMut(&'a Place, Access)) {
    for stmt in body {
        match stmt {
            Stmt::Load(_, place) => visit(place, Access::Read),
            Stmt::Store(place, _) => visit(place, Access::Write),
            Stmt::Atomic { op, place, .. } => visit(place, Access::Atomic(*op)),
            Stmt::If(_, then, otherwise) => {
                each_access(then, visit);
                each_access(otherwise, visit);
            }
            Stmt::Loop(_, body) | Stmt::Block(_, body) | Stmt::For { body, .. } => each_access(body, visit),
            Stmt::Assign(..) | Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {}
        }
    }
}

/// Calls `visit` with every expression, operands included, in the order of the text.
pub(super) fn each_expr<'a>(body: &'a [Stmt], visit: &mut dyn FnMut(&'a Expr)) {
    for stmt in body {
        match stmt {
            Stmt::Assign(_, value) => each_operand(value, visit),
            Stmt::Load(_, place) => each_index(place, visit),
            Stmt::Store(place, value) => {
                each_index(place, visit);
                each_operand(value, visit);
            }
            Stmt::Atomic { place, operand, expected, .. } => {
                each_index(place, visit);
                each_operand(operand, visit);
                if let Some(expected) = expected {
                    each_operand(expected, visit);
                }
            }
            Stmt::If(condition, then, otherwise) => {
                each_operand(condition, visit);
                each_expr(then, visit);
                each_expr(otherwise, visit);
            }
            Stmt::Loop(_, body) | Stmt::Block(_, body) => each_expr(body, visit),
            Stmt::For { start, end, step, body, .. } => {
                for bound in [start, end, step] {
                    each_operand(bound, visit);
                }
                each_expr(body, visit);
            }
            Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return | Stmt::Fault(..) => {}
        }
    }
}

fn each_index<'a>(place: &'a Place, visit: &mut dyn FnMut(&'a Expr)) {
    for index in &place.indices {
        each_operand(index, visit);
    }
}

fn each_operand<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    visit(expr);
    match expr {
        Expr::Literal(_) | Expr::Local(_) | Expr::Param(..) | Expr::Extent(..) | Expr::ThreadId(_) => {}
        Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => each_operand(a, visit),
        Expr::Binary(_, a, b) => {
            each_operand(a, visit);
            each_operand(b, visit);
        }
        Expr::Select(condition, a, b) => {
            for operand in [condition, a, b] {
                each_operand(operand, visit);
            }
        }
    }
}
