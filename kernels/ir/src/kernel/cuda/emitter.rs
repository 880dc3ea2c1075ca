//! The state of emitting a kernel: the program and the text written so far.

use std::collections::HashMap;

use super::contraction::Added;
use super::cpp_expr::{CppExpr, Range};
use super::names::Names;
use super::usage::Usage;
use crate::kernel::{Kernel, LabelId, LocalId};

/// The form in which memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By strided arrays, with bounds, budget and abort flag checked.
    Checked,
    /// By strided arrays.
    Unchecked,
    /// By pointers to contiguous arrays.
    Plain,
}

/// The texts of a kernel's parameters.
#[derive(Default)]
pub(super) struct Leaves {
    /// The components of each parameter that is passed by value.
    pub(super) values: Vec<Vec<CppExpr>>,
    /// The arrays.
    pub(super) arrays: Vec<String>,
    /// The extents of each array.
    pub(super) extents: Vec<Vec<String>>,
    /// The suffix of each array's elements that names a component.
    pub(super) fields: Vec<Vec<String>>,
    /// The position along each dimension of the grid.
    pub(super) threads: Vec<String>,
}

/// A loop or block around the current statement.
pub(super) struct Enclosing {
    pub(super) label: LabelId,
    pub(super) is_loop: bool,
    /// The label of C++ after it, if a `goto` needs one.
    pub(super) end: Option<String>,
    /// The label of C++ at the end of its body, if a `goto` needs one.
    pub(super) next: Option<String>,
}

/// Emits one kernel.
pub(super) struct Emitter<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) form: Form,
    pub(super) names: Names,
    pub(super) leaves: Leaves,
    pub(super) usage: Usage,
    /// Where products are kept from contraction.
    pub(super) added: Added,
    /// The ranges of variables that are assigned once, and of counters.
    pub(super) ranges: HashMap<LocalId, Range>,
    /// Loads that take the place of their variable.
    pub(super) inlined: HashMap<LocalId, CppExpr>,
    pub(super) enclosing: Vec<Enclosing>,
    out: String,
    pub(super) indent: usize,
}

impl<'k> Emitter<'k> {
    pub(super) fn new(kernel: &'k Kernel, form: Form) -> Self {
        let mut emitter = Self {
            kernel,
            form,
            names: Names::new(kernel),
            leaves: Leaves::default(),
            usage: Usage::new(kernel),
            added: if form == Form::Plain { Added::new(kernel) } else { Added::default() },
            ranges: HashMap::new(),
            inlined: HashMap::new(),
            enclosing: vec![],
            out: String::new(),
            indent: 1,
        };
        emitter.name_threads();
        emitter
    }

    /// A variable that only holds a position in the grid gives it its name.
    fn name_threads(&mut self) {
        let dims = self.kernel.grid_dims;
        for axis in 0..dims {
            let name = match self.usage.position(self.kernel, axis) {
                Some(local) => self.names.locals[local.0 as usize].clone(),
                None if dims == 1 => self.names.scope.take("tid"),
                None => self.names.scope.take(&format!("tid_{axis}")),
            };
            self.leaves.threads.push(name);
        }
    }

    /// Writes a line.
    pub(super) fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// Writes the start of a block of lines.
    pub(super) fn open(&mut self, text: &str) {
        self.line(text);
        self.indent += 1;
    }

    /// Writes the end of a block of lines.
    pub(super) fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.line(text);
    }

    /// Writes the end of a block of lines that starts another one.
    pub(super) fn reopen(&mut self, text: &str) {
        self.close(text);
        self.indent += 1;
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.out
    }
}
