//! Requirements on every answer of a daemon: a status that names the reason, of a bounded size, from a process without panics and within
//! its memory.

use std::fs;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::panics;

/// The most bytes of a message and its details: clients report longer trailers as RESOURCE_EXHAUSTED.
pub const MAX_STATUS_BYTES: usize = 4096;

/// Codes that a request can be answered with. The others say that the daemon failed.
const NAMED: [Code; 9] = [
    Code::Ok,
    Code::InvalidArgument,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::FailedPrecondition,
    Code::ResourceExhausted,
    Code::DeadlineExceeded,
    Code::OutOfRange,
];

/// Checks a status.
///
/// # Errors
/// The reason.
pub fn status(status: &Status) -> Result<(), String> {
    if !NAMED.contains(&status.code()) {
        return Err(format!("it is answered with {:?}", status.code()));
    }
    let bytes = status.message().len() + status.details().len();
    if bytes > MAX_STATUS_BYTES {
        return Err(format!("its status has {bytes} bytes"));
    }
    if status.code() != Code::Ok && status.message().is_empty() {
        return Err("its status has no message".to_owned());
    }
    let violations = status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default();
    if status.code() == Code::InvalidArgument && violations.iter().all(|violation| violation.field.is_empty()) {
        return Err("its status names no field".to_owned());
    }
    Ok(())
}

/// The panics of this process since the last call, if any.
///
/// # Errors
/// The panics.
pub fn panics() -> Result<(), String> {
    let seen = panics::take();
    if seen.is_empty() { Ok(()) } else { Err(format!("it panicked: {}", seen.join("; "))) }
}

/// The largest resident memory of this process so far.
pub fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line with the peak");
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).expect("a number") * 1024
}
