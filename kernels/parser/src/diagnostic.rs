//! Why a source is not Python.

use std::borrow::Cow;

/// The exception CPython would raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// `SyntaxError`.
    Syntax = 1,
    /// `IndentationError`.
    Indentation = 2,
    /// `TabError`.
    Tab = 3,
    /// `ValueError`, for what `ast.parse` refuses without a place.
    Value = 4,
}

/// The first error of a source, as CPython reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Diagnostic {
    /// The exception.
    pub class: Class,
    /// Byte of the text where it starts.
    pub start: u32,
    /// Byte of the text behind it.
    pub end: u32,
    /// The message, in CPython's words where there is but one way to say it.
    pub message: Cow<'static, str>,
}

impl Diagnostic {
    /// A `SyntaxError` at a place.
    pub fn syntax(start: u32, end: u32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { class: Class::Syntax, start, end, message: message.into() }
    }
}
