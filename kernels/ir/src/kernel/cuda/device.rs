//! Device code for a host that cannot trust the kernel.

use std::fmt::Write as _;

use super::cpp_expr::{CppExpr, prec};
use super::emitter::{Emitter, Form, Leaves};
use super::layout::Layout;
use super::names::Scope;
use super::read_ahead::ReadAhead;
use crate::Dtype;
use crate::kernel::{Kernel, ParamType};
use crate::scalar::cuda::{self as scalar, ctype, elementary};

/// Options of the emission of device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// True if accesses, budgets of loops and, within loops, the word [`Launch::stop`](super::Launch::stop) are checked. Without checks an
    /// access outside its array is undefined.
    pub checks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { checks: true }
    }
}

/// The code of one kernel in CUDA C++, for NVRTC or nvcc. It stands after [`prelude`] in a translation unit, also together with other
/// kernels of other names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCode {
    /// The text.
    pub source: String,
    /// The name of its `__global__` function, which is not mangled. It takes a [`Launch`](super::Launch) and the parameter block.
    pub entry: String,
    layout: Layout,
    /// Bytes of the source before the parameter block, and before the `__global__` function.
    functions_bytes: usize,
    thread_bytes: usize,
    /// The prefix of the names of its types and functions.
    name: String,
    reads_ahead: bool,
}

impl DeviceCode {
    /// Where the arguments lie in the parameter block.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The functions that the code calls besides those of the prelude. Programs of several kernels may have them several times.
    pub fn functions(&self) -> &str {
        &self.source[..self.functions_bytes]
    }

    /// The parameter block, and what runs a thread by [`Self::run_thread`]. It stands after [`Self::functions`], perhaps in a namespace.
    pub fn thread_source(&self) -> &str {
        &self.source[self.functions_bytes..self.thread_bytes]
    }

    /// The type of the parameter block: a member for each parameter that is an array, `ir::Array<N>`, or one for each of its components.
    pub fn params_type(&self) -> String {
        format!("{}_params", self.name)
    }

    /// Statements that run a thread. `scope` stands before the names of [`Self::thread_source`]; `params` and `thread` are variables of
    /// types [`Self::params_type`] and `ir::Thread`.
    pub fn run_thread(&self, scope: &str, params: &str, thread: &str) -> String {
        let name = format!("{}_thread", self.name);
        if !self.reads_ahead {
            return format!("{scope}{name}({params}, {thread});");
        }
        let read = format!("{scope}{name} {name}_one; {name}_one.read_inputs({params}, {thread});");
        format!("{read} if ({name}_one.has_read) {name}_one.write_outputs({params}, {thread});")
    }
}

/// Functions that device code calls, written once before it.
pub fn prelude() -> String {
    [scalar::PRELUDE, include_str!("compute.cuh"), include_str!("kernel.cuh")].join("\n")
}

/// As [`prelude`], for a program in which each thread has an `ir::Fault` of its own, of which `kind` and `stopped` are set.
pub fn one_thread_prelude() -> String {
    ["#define IR_ONE_THREAD\n", &prelude()].concat()
}

/// Emits a kernel as device code. The text is the same for equal kernels.
///
/// With `-fmad=false`, and without `-use_fast_math`, it computes what [`interpret`](crate::kernel::interpret::launch) does, as
/// [`Kernel::is_bit_exact`] limits it. A fault ends its thread, never the launch, and the record kept is that of the lowest thread.
///
/// # Panics
/// If the kernel is not well formed, which [`Kernel::check`] tells.
pub fn device(kernel: &Kernel, options: Options) -> DeviceCode {
    let name = Scope::new().take(&kernel.name);
    let mut fields = Fields::default();
    let form = if options.checks { Form::Checked } else { Form::Unchecked };
    let mut emitter = Emitter::new(kernel, form);
    fields.leaves(&mut emitter);
    emitter.indent = 0;
    let parts = ReadAhead::of(kernel);
    let reads_ahead = parts.is_some();
    let run = match parts {
        Some(parts) => read_ahead(&mut emitter, &name, &parts),
        None => thread_by_thread(&mut emitter, &name),
    };
    let body = emitter.into_text();
    let members = fields.members;
    let mut source = elementary::used_by(&body);
    let functions_bytes = source.len();
    write!(
        source,
        "{comment}
struct {name}_params {{
{members}}};

{body}
",
        comment = comment(kernel),
    )
    .expect("a string grows");
    let thread_bytes = source.len();
    let entry = format!("{name}_kernel");
    write!(
        source,
        "extern \"C\" __global__ void {entry}(
    const __grid_constant__ ir::Launch launch, const __grid_constant__ {name}_params params) {{
    {run}
}}
"
    )
    .expect("a string grows");
    DeviceCode { source, entry, layout: Layout::new(kernel), functions_bytes, thread_bytes, name, reads_ahead }
}

/// Emits a function for a thread of the grid. How the kernel calls it.
fn thread_by_thread(emitter: &mut Emitter, name: &str) -> String {
    emitter.open(&format!(
        "static __device__ __forceinline__ void {name}_thread(const {name}_params& params, ir::Thread& thread) {{"
    ));
    positions(emitter, "const int ");
    emitter.list(&emitter.kernel.body);
    emitter.close("}");
    format!("for (ir::Thread thread(launch); thread.is_running(); thread.advance()) {name}_thread(params, thread);")
}

/// Emits a type with two methods, which share the variables of a thread of the grid. How the kernel calls them.
fn read_ahead(emitter: &mut Emitter, name: &str, parts: &ReadAhead) -> String {
    let method = |method: &str| {
        format!("__device__ __forceinline__ void {method}(const {name}_params& params, ir::Thread& thread) {{")
    };
    emitter.open(&format!("struct {name}_thread {{"));
    for axis in 0..emitter.leaves.threads.len() {
        if emitter.usage.thread_axes[axis] {
            emitter.line(&format!("int {};", emitter.leaves.threads[axis]));
        }
    }
    for local in &parts.shared {
        if !emitter.leaves.threads.contains(&emitter.names.locals[local.0 as usize]) {
            let is_zero = emitter.usage.make_member(*local);
            emitter.declare(*local, is_zero);
        }
    }
    emitter.line("bool has_read = false;");
    emitter.open(&method("read_inputs"));
    positions(emitter, "");
    emitter.list(parts.reads);
    emitter.line("has_read = true;");
    emitter.close("}");
    emitter.open(&method("write_outputs"));
    emitter.list(parts.rest);
    emitter.close("}");
    emitter.close("};");
    format!("ir::read_ahead<{name}_thread>(launch, params);")
}

/// The signature as in the source.
pub(super) fn comment(kernel: &Kernel) -> String {
    let params: Vec<_> = kernel.params.iter().map(|param| format!("{}: {}", param.name, describe(&param.ty))).collect();
    let plural = if kernel.grid_dims == 1 { "" } else { "s" };
    format!("// {}({}), over a grid of {} dimension{plural}.", kernel.name, params.join(", "), kernel.grid_dims)
}

/// `f32`, `f32[:, :]` or `{x f32, y f32}[:]`.
pub(super) fn describe(ty: &ParamType) -> String {
    let element = match ty.element().components.as_slice() {
        [only] if only.name.is_empty() => only.dtype.to_string(),
        several => {
            let each: Vec<_> =
                several.iter().map(|component| format!("{} {}", component.name, component.dtype)).collect();
            format!("{{{}}}", each.join(", "))
        }
    };
    match ty {
        ParamType::Value(_) => element,
        ParamType::Array(array) => format!("{element}[{}]", vec![":"; array.dims.into()].join(", ")),
    }
}

/// The members of the parameter block.
#[derive(Default)]
struct Fields {
    members: String,
    scope: Option<Scope>,
}

impl Fields {
    fn leaves(&mut self, emitter: &mut Emitter) {
        let kernel = emitter.kernel;
        let mut leaves = Leaves { threads: std::mem::take(&mut emitter.leaves.threads), ..Leaves::default() };
        for param in &kernel.params {
            let mut values = vec![];
            let mut array = String::new();
            let mut extents = vec![];
            match &param.ty {
                ParamType::Value(element) => {
                    for component in &element.components {
                        let member = self.member(&format!("{}_{}", param.name, component.name), ctype(component.dtype));
                        values.push(value(member, component.dtype));
                    }
                }
                ParamType::Array(ty) => {
                    array = self.member(&param.name, &format!("ir::Array<{}>", ty.dims));
                    extents = (0..ty.dims).map(|axis| format!("{array}.shape[{axis}]")).collect();
                }
            }
            leaves.values.push(values);
            leaves.arrays.push(array);
            leaves.extents.push(extents);
        }
        if kernel.params.is_empty() {
            self.member("unused", "ir::u64");
        }
        emitter.leaves = leaves;
    }

    /// Adds a member; how the code names it.
    fn member(&mut self, name: &str, ty: &str) -> String {
        let name = self.scope.get_or_insert_with(Scope::new).take(name.replace('.', "_").trim_end_matches('_'));
        writeln!(self.members, "    {ty} {name};").expect("a string grows");
        format!("params.{name}")
    }
}

fn value(member: String, dtype: Dtype) -> CppExpr {
    if dtype == Dtype::Bool {
        CppExpr::new(format!("{member} != 0"), prec::EQUAL, dtype)
    } else {
        CppExpr::primary(member, dtype)
    }
}

/// Assigns the position of the thread along the dimensions whose position is read. `declaration` stands before each name.
fn positions(emitter: &mut Emitter, declaration: &str) {
    let axes = emitter.usage.thread_axes;
    let names = emitter.leaves.threads.clone();
    let Some(lowest) = axes.iter().position(|is_read| *is_read) else { return };
    if names.len() == 1 {
        return emitter.line(&format!("{declaration}{} = (int)thread.id;", names[0]));
    }
    emitter.line("ir::u64 rest = thread.id;");
    for axis in (lowest.max(1)..names.len()).rev() {
        let split = format!("ir::split(rest, thread.launch.grid[{axis}])");
        if axes[axis] {
            emitter.line(&format!("{declaration}{} = {split};", names[axis]));
        } else {
            emitter.line(&format!("{split};"));
        }
    }
    if axes[0] {
        emitter.line(&format!("{declaration}{} = (int)rest;", names[0]));
    }
}
