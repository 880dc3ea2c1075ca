//! Tower layers around every call, from the outside in: trace, panics, deadline, timing, admission.

pub mod admission;
pub mod deadline;
pub mod panic;
pub mod timing;
pub mod trace;
