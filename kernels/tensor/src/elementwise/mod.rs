//! Stand-in.
use crate::{GraphError, NodeSpec};
use accelerd_ir::{
    Dtype,
    scalar::{BinaryOp, Builder, Function, UnaryOp},
};
pub(crate) fn function(node: &NodeSpec, operands: &[Dtype]) -> Option<Result<Function, GraphError>> {
    let mut b = Builder::new(operands);
    let r = match node.op.as_str() {
        "add" => {
            let (x, y) = (b.param(0), b.param(1));
            b.binary(BinaryOp::Add, x, y).ok()?
        }
        "mul" => {
            let (x, y) = (b.param(0), b.param(1));
            b.binary(BinaryOp::Mul, x, y).ok()?
        }
        "exp" => {
            let x = b.param(0);
            b.unary(UnaryOp::Exp, x).ok()?
        }
        _ => return None,
    };
    Some(Ok(b.finish(&[r])))
}
