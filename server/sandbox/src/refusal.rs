//! Why a request cannot be served.

use serde::{Deserialize, Serialize};

/// Why a request cannot be served. The module or the request is wrong; the sandbox can serve others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The module has too many or too large parts.
    #[error("the module has {got} {what}, at most {limit} are allowed")]
    ModuleTooLarge {
        /// Name of the items that are counted.
        what: String,
        /// Number of items.
        got: u64,
        /// Maximum number of items.
        limit: u64,
    },
    /// The module is malformed, invalid, or uses a proposal that is not enabled.
    #[error("invalid module: {0}")]
    InvalidModule(String),
    /// The module imports functions that the sandbox does not provide.
    #[error("{} of the module's imports are not provided: {}", .count, .names.join(", "))]
    UnknownImports {
        /// The first of them: module, name and type.
        names: Vec<String>,
        /// Their number.
        count: u64,
    },
    /// The module imports functions of `math`, and the call does not allow it.
    #[error("the module imports functions of `math`, which the call does not enable: {}", .0.join(", "))]
    MathNotEnabled(Vec<String>),
    /// The module could be validated, but not compiled.
    #[error("it cannot be compiled: {0}")]
    NotCompiled(String),
    /// The CUDA compiler is not installed.
    #[error("the CUDA compiler cannot be used: {0}")]
    NoCompiler(String),
    /// The module has no exported function of that name.
    #[error("the module exports no function `{name}`; it exports {}", .exported.join(", "))]
    NoSuchFunction {
        /// The name.
        name: String,
        /// Names of the first exported functions.
        exported: Vec<String>,
    },
    /// The function has other parameters or results than the call says.
    #[error("function `{name}` has type {got}, the call expects {expected}")]
    SignatureMismatch {
        /// The function.
        name: String,
        /// Its type by the signature of the call.
        expected: String,
        /// Its type in the module.
        got: String,
    },
    /// The signature of the call has too many parameters or results.
    #[error("the signature has {got} {what}, at most {limit} are allowed")]
    SignatureTooLarge {
        /// Name of the items that are counted.
        what: String,
        /// Number of items.
        got: u64,
        /// Maximum number of items.
        limit: u64,
    },
    /// The call has buffers or is a launch, and the module exports no memory.
    #[error("the call needs memory, and the module exports no memory `memory`")]
    NoMemory,
    /// Addresses of a launch lie outside of its memory, or its threads cannot be counted.
    #[error("{what}: expected at most {limit}, got {got}")]
    OutOfRange {
        /// The item that lies outside.
        what: String,
        /// The greatest number that is allowed.
        limit: u64,
        /// The number.
        got: u64,
    },
    /// The child process cannot start a launch.
    #[error("the launch cannot be started: {0}")]
    NotStarted(String),
    /// The module of a launch breaks the protocol of modules of kernels.
    #[error("the module is not that of a kernel: {0}")]
    NotAKernel(String),
    /// The columns of the call do not fit its cases and signature.
    #[error("{what}: expected {expected} bytes, got {got}")]
    ColumnMismatch {
        /// Which column, or all of them.
        what: String,
        /// Bytes by signature and number of cases.
        expected: u64,
        /// Bytes that are there.
        got: u64,
    },
    /// The request has another number of columns than its signature.
    #[error("the signature has {expected} input columns, got {got}")]
    ColumnCount {
        /// By the signature.
        expected: u64,
        /// Columns that are there.
        got: u64,
    },
    /// A limit of the call exceeds that of the sandbox.
    #[error("{what} is {got}, at most {limit} is allowed")]
    LimitTooHigh {
        /// Which limit.
        what: String,
        /// The limit that the call asks for.
        got: u64,
        /// The greatest limit that is allowed.
        limit: u64,
    },
}

/// Text of an error, cut to a bounded length.
pub(crate) fn bounded(text: impl Into<String>) -> String {
    bounded_to(500, text)
}

/// Text of an error, cut to at most `max_bytes`.
pub(crate) fn bounded_to(max_bytes: usize, text: impl Into<String>) -> String {
    let mut text: String = text.into();
    if text.len() > max_bytes {
        let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(bounded("short"), "short");
        let cut = bounded("\u{20ac}".repeat(1000));
        assert_eq!(cut.len(), 498 + 3);
        assert!(cut.ends_with("\u{20ac}..."));
    }
}
