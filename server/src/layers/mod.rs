//! Tower layers around every call, outermost first: trace, deadline, panic, auth, timing.

pub(crate) mod auth;
pub mod deadline;
pub mod panic;
pub mod timing;
pub mod trace;
