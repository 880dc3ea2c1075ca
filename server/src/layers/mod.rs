//! Tower layers around every call, from the outside in: trace, deadline, panics, timing.

pub mod deadline;
pub mod panic;
pub mod timing;
pub mod trace;
