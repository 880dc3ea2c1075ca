//! Graphs of tensor operations: executes the plans of `accelerd-tensor`.

#[expect(dead_code, reason = "no operation takes plans yet")]
mod cuda;
