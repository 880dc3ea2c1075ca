//! Graphs of tensor operations: executes the plans of `accelerd-tensor`.

#[cfg_attr(not(test), expect(dead_code, reason = "executed by the tests until an operation takes plans"))]
pub(crate) mod cuda;
