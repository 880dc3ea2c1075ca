//! Tower layers around every call, outermost first: trace, deadline, panic, timing.

pub mod deadline;
pub mod panic;
pub mod timing;
pub mod trace;
