//! Lowers Python kernels to the intermediate representation.
//!
//! 1. `source`: the columns of `accelerd-parser` as nodes with children, declarations, and constants outside functions.
//! 2. `types` and `values`: types of annotations and expressions, values during lowering, operations of scalars.
//! 3. `lowerer`: the state of lowering one kernel, and the kernel under construction.
//! 4. `warp` and `python`: the operators and functions of a dialect.
//! 5. `constructs`: lowering of statements and expressions with inference of types. Functions are inlined, aggregates become scalars.
//! 6. `kernels`: lowering of a function that is a kernel.
//!
//! Each group uses those before it. A construct that this crate does not support is a [`LowerError`] with its position; no other
//! translation replaces it.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "matches on kinds, operators and values name the few that they handle; the others are errors"
)]

mod constructs;
mod error;
mod kernels;
mod lowerer;
mod options;
mod python;
mod source;
mod types;
mod values;
mod warp;

use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;
use std::ops::ControlFlow;

use accelerd_parser::{Mode, SourceType};

pub use error::{ErrorKind, LowerError};
pub use kernels::{LoweredKernel, SourceParameter};
pub use options::{Captured, Dialect, Options};

use source::declarations::{Declarations, FunctionDecl};
use source::environment::Environment;
use source::syntax::Syntax;
use warp::library;

/// A lowered source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its kernels, in order.
    pub kernels: Vec<LoweredKernel>,
}

/// The outcome of lowering one kernel of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The name of its function.
    pub name: String,
    /// The kernel, or the first reason that it cannot be lowered.
    pub kernel: Result<LoweredKernel, LowerError>,
}

/// Lowers the kernels of a source.
///
/// # Errors
/// The source is no valid Python, has no kernel, or has one that cannot be lowered.
pub fn lower(source: &str, options: &Options<'_>) -> Result<Module, LowerError> {
    let outcomes = lower_each(source, options)?;
    let kernels = outcomes.into_iter().map(|outcome| outcome.kernel).collect::<Result<_, _>>()?;
    Ok(Module { kernels })
}

/// Lowers each kernel of a source, and has an error for each that cannot be lowered.
///
/// # Errors
/// The source is no valid Python, or has no kernel.
pub fn lower_each(source: &str, options: &Options<'_>) -> Result<Vec<Outcome>, LowerError> {
    let mut outcomes = vec![];
    let checkpoint = || ControlFlow::Continue(());
    for_each_kernel(source, options, &[], &checkpoint, |outcome| {
        outcomes.push(outcome);
        ControlFlow::Continue(())
    })?;
    Ok(outcomes)
}

/// Lowers the kernels of a source that `names` has, or all without names, and passes each on before the next is lowered, until
/// `visit` breaks. Names of Warp's functions stand for kernels that map them over rows. `checkpoint` is called at short intervals while
/// a kernel is lowered, and ends the lowering if it breaks.
///
/// # Errors
/// The source is no valid Python, or has no kernel, named or not; or `checkpoint` ended the lowering, with [`ErrorKind::Cancelled`].
pub fn for_each_kernel(
    source: &str,
    options: &Options<'_>,
    names: &[String],
    checkpoint: &dyn Fn() -> ControlFlow<()>,
    mut visit: impl FnMut(Outcome) -> ControlFlow<()>,
) -> Result<(), LowerError> {
    let parser = accelerd_parser::Options {
        source_type: SourceType::Text,
        mode: Mode::Exec,
        ..accelerd_parser::Options::default()
    };
    let extended = if options.dialect == Dialect::Warp { library::extended(source) } else { None };
    let mut parsed = accelerd_parser::parse(source.as_bytes(), &parser);
    if let (Ok(_), Some(extended)) = (&parsed.outcome, &extended) {
        parsed = accelerd_parser::parse(extended.as_bytes(), &parser);
    }
    let columns = parsed.outcome.as_ref().map_err(syntax_error)?;
    let syntax = Syntax::new(&parsed.text, columns);
    syntax.check_names()?;
    let declarations = Declarations::new(&syntax);
    let environment = Environment {
        syntax: &syntax,
        declarations: &declarations,
        options,
        numbers: RefCell::default(),
        overloads: OnceCell::new(),
        mutated: RefCell::default(),
        signed: RefCell::default(),
        checkpoint,
    };
    let names: HashSet<_> = names.iter().map(String::as_str).collect();
    let kernels = kernels::kernels(&environment, &names);
    if kernels.is_empty() {
        return Err(kernels::no_kernel(&environment));
    }
    let is_wanted = |function: &&FunctionDecl| names.is_empty() || names.contains(function.name.as_str());
    for function in kernels.into_iter().filter(is_wanted) {
        let mut cancelled = None;
        let flow = kernels::lower_each(&environment, function, |kernel| match kernel {
            Err(error) if error.kind == ErrorKind::Cancelled => {
                cancelled = Some(error);
                ControlFlow::Break(())
            }
            kernel => visit(Outcome { name: function.name.clone(), kernel }),
        });
        cancelled.map_or(Ok(()), Err)?;
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}

fn syntax_error(error: &accelerd_parser::Diagnostic) -> LowerError {
    let position = error.position;
    let number = |value: Option<i32>| value.and_then(|value| u32::try_from(value).ok()).unwrap_or(1).max(1);
    LowerError {
        kind: ErrorKind::Syntax,
        message: error.message.to_string(),
        line: number(position.lineno),
        column: number(position.offset) - 1,
    }
}
