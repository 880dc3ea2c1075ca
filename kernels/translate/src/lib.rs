//! Translates the kernels of a Python module: source to intermediate representation, and that to files for each target.
//!
//! A program in CUDA C++ tests itself on an example: arguments on which the interpreter runs the kernel without a
//! fault, and its results.

mod example;
mod files;
mod geometry;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use accelerd_ir::kernel::cuda::{self, DeviceCode, Example};
use accelerd_ir::kernel::interpret::LaunchError;
use accelerd_ir::kernel::{Kernel, Site};
use accelerd_ir::scalar::Literal;
use accelerd_lower::{ErrorKind, LowerError, Options, Outcome, for_each_kernel};

pub use accelerd_lower::{Captured, Dialect};
pub use files::File;

use example::{Budget, NoExample};

/// A request to translate a module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The module.
    pub source: String,
    /// The language. If it is absent, it is Warp's if the module has a kernel with its decorator that is to be translated, and else
    /// Python.
    pub dialect: Option<Dialect>,
    /// Values of names that the module does not define.
    pub constants: BTreeMap<String, Captured>,
    /// The kernels to translate; all if it is empty. A function of Warp that it names is mapped over rows, as one of Python is.
    pub names: Vec<String>,
    /// The targets of their translation.
    pub targets: Targets,
    /// The most bytes of all files.
    pub max_bytes: usize,
}

/// The languages that kernels are translated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    /// A program in CUDA C++, with its Makefile and a description.
    pub cuda: bool,
    /// A module of WebAssembly.
    pub wasm: bool,
    /// Device code in CUDA C++, which checks accesses: [`Translated::device`].
    pub device: bool,
}

impl Default for Targets {
    fn default() -> Self {
        Self { cuda: true, wasm: true, device: false }
    }
}

/// The kernels of a module that were translated, and the errors of the others, in the order of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Translated kernels.
    pub kernels: Vec<Translated>,
    /// Reasons why others, or the module, are not.
    pub diagnostics: Vec<Diagnostic>,
}

/// A translated kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translated {
    /// The name of its function.
    pub name: String,
    /// Its language.
    pub dialect: Dialect,
    /// True if it maps a function over rows.
    pub maps_rows: bool,
    /// The kernel without its body, for callers that launch it.
    pub kernel: Kernel,
    /// For each parameter, whether it is an array that the kernel writes.
    pub written: Vec<bool>,
    /// [`Kernel::is_repeatable`].
    pub is_repeatable: bool,
    /// The constants of its body, each once.
    pub literals: Vec<Literal>,
    /// True if all targets compute the same bits.
    pub is_bit_exact: bool,
    /// Its files.
    pub files: Vec<File>,
    /// Its device code, if it is requested.
    pub device: Option<DeviceCode>,
    /// The example of its program in CUDA C++, if there is one.
    pub example: Option<Example>,
}

/// Why a kernel, or the module, is not translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kernel; empty for the module.
    pub kernel: String,
    /// A stable name of the reason.
    pub code: &'static str,
    /// The expectation and the finding.
    pub message: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 0.
    pub column: u32,
}

/// A module cannot be translated as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// The files exceed [`Request::max_bytes`].
    #[error("the files have more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The checkpoint ended the translation.
    #[error("the translation was cancelled")]
    Cancelled,
}

/// Translates kernel by kernel; calls `checkpoint` before each and at short intervals while it is lowered, and ends if it breaks.
///
/// # Errors
/// The files are too large, or `checkpoint` ended the translation. A module that is not valid, and kernels outside the language, have
/// diagnostics. So has a requested name that is not one of a kernel, with the code `no_kernel`.
pub fn translate(
    request: &Request,
    checkpoint: impl FnMut() -> ControlFlow<()>,
) -> Result<Translation, TranslateError> {
    let dialects: &[Dialect] = match &request.dialect {
        Some(dialect) => std::slice::from_ref(dialect),
        None => &[Dialect::Warp, Dialect::Python],
    };
    let checkpoint = RefCell::new(checkpoint);
    let checkpoint = || (checkpoint.borrow_mut())();
    let mut translation = Translation::default();
    // True if the module has kernels of a dialect, named or not.
    let mut has_kernels = false;
    for (nth, dialect) in dialects.iter().enumerate() {
        let mut translator = Translator::new(request);
        let outcome = translator.run(*dialect, &checkpoint);
        translator.error.map_or(Ok(()), Err)?;
        translation = translator.translation;
        let is_found = !translation.kernels.is_empty() || !translation.diagnostics.is_empty();
        match outcome {
            Err(error) if error.kind == ErrorKind::NoKernel && (has_kernels || nth + 1 < dialects.len()) => {}
            Err(error) => {
                translation.diagnostics.push(diagnostic("", &error));
                return Ok(translation);
            }
            Ok(()) => has_kernels = true,
        }
        if is_found {
            break;
        }
    }
    let names: HashSet<_> = translation
        .kernels
        .iter()
        .map(|kernel| &kernel.name)
        .chain(translation.diagnostics.iter().map(|diagnostic| &diagnostic.kernel))
        .cloned()
        .collect();
    for name in &request.names {
        if !names.contains(name) {
            let message = format!("expected a kernel named `{name}`, got none");
            let code = ErrorKind::NoKernel.code();
            translation.diagnostics.push(Diagnostic { kernel: name.clone(), code, message, line: 1, column: 0 });
        }
    }
    Ok(translation)
}

struct Translator<'r> {
    request: &'r Request,
    translation: Translation,
    /// Bytes of files so far.
    bytes: usize,
    /// The remaining budget of examples.
    budget: Budget,
    /// Why the translation ended early.
    error: Option<TranslateError>,
}

impl<'r> Translator<'r> {
    fn new(request: &'r Request) -> Self {
        Self { request, translation: Translation::default(), bytes: 0, budget: Budget::default(), error: None }
    }

    fn run(&mut self, dialect: Dialect, checkpoint: &dyn Fn() -> ControlFlow<()>) -> Result<(), LowerError> {
        let request = self.request;
        let options = Options { dialect, constants: request.constants.clone(), entry: None };
        let outcome = for_each_kernel(&request.source, &options, &request.names, checkpoint, |outcome| {
            if checkpoint().is_break() {
                self.error = Some(TranslateError::Cancelled);
                return ControlFlow::Break(());
            }
            self.add(dialect, outcome)
        });
        if matches!(&outcome, Err(error) if error.kind == ErrorKind::Cancelled) {
            self.error = Some(TranslateError::Cancelled);
        }
        outcome
    }

    fn add(&mut self, dialect: Dialect, outcome: Outcome) -> ControlFlow<()> {
        match outcome.kernel {
            Ok(lowered) => {
                let kernel = lowered.kernel;
                let maps_rows = lowered.maps_rows;
                let (files, example) = files::emit(&kernel, self.request.targets, &mut self.budget);
                let device = self.request.targets.device.then(|| cuda::device(&kernel, cuda::Options::default()));
                self.bytes += files.iter().map(|file| file.content.len()).sum::<usize>();
                self.bytes += device.as_ref().map_or(0, |code| code.source.len());
                let example = example.unwrap_or_else(|error| {
                    self.translation.diagnostics.push(no_example(&outcome.name, &error));
                    None
                });
                self.translation.kernels.push(Translated {
                    maps_rows,
                    device,
                    example,
                    ..translated(outcome.name, dialect, kernel, files)
                });
            }
            Err(error) => {
                self.bytes += error.message.len();
                self.translation.diagnostics.push(diagnostic(&outcome.name, &error));
            }
        }
        if self.bytes > self.request.max_bytes {
            self.error = Some(TranslateError::TooLarge { limit: self.request.max_bytes });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn translated(name: String, dialect: Dialect, kernel: Kernel, files: Vec<File>) -> Translated {
    Translated {
        name,
        dialect,
        maps_rows: false,
        written: kernel.written(),
        is_repeatable: kernel.is_repeatable(),
        literals: kernel.literals(),
        is_bit_exact: kernel.is_bit_exact(),
        kernel: Kernel { body: vec![], locals: vec![], ..kernel },
        files,
        device: None,
        example: None,
    }
}

/// Stands where the kernel faults, if it does.
fn no_example(kernel: &str, error: &NoExample) -> Diagnostic {
    let site = if let NoExample::Launch(LaunchError::Fault(fault)) = error { fault.site } else { None };
    let Site { line, column } = site.unwrap_or(Site { line: 1, column: 0 });
    let message = format!("expected inputs on which the kernel runs without fault and race: {error}");
    Diagnostic { kernel: kernel.to_owned(), code: "no_example", message, line, column }
}

fn diagnostic(kernel: &str, error: &LowerError) -> Diagnostic {
    let LowerError { kind, message, line, column } = error;
    let kernel = kernel.to_owned();
    let message = message.clone();
    Diagnostic { kernel, code: kind.code(), message, line: *line, column: *column }
}
