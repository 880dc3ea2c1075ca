//! Programs of their own, for nvcc: a kernel in plain form, a host function, and a test.
//!
//! Arrays are contiguous. The host guarantees what device code checks for others: the program runs an example whose execution by the
//! interpreter had no fault.

use std::fmt::Write as _;

use super::cpp_expr::{CppExpr, prec, value_type};
use super::device::{comment, describe};
use super::emitter::{Emitter, Form, Leaves};
use super::exact::Exactness;
use super::names::Scope;
use super::snippets::used_by;
use crate::Dtype;
use crate::kernel::interpret::{LaunchError, Limits, check_launch, launch};
use crate::kernel::{Argument, ArgumentError, ArrayArgument, Element, Kernel, Param, ParamId, ParamType};
use crate::scalar::cuda::ctype;

/// Names that a program must not have in a folder with its Makefile: those of its other targets, and those that make looks for.
const NOT_PROGRAMS: [&str; 5] = ["test", "clean", "Makefile", "makefile", "GNUmakefile"];

/// A launch that a program tests itself with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Extents of the grid.
    pub grid: Vec<u32>,
    /// The arguments before the launch. Elements of an array must not overlap.
    pub arguments: Vec<Argument>,
    /// The arguments after the launch.
    pub expected: Vec<Argument>,
}

impl Example {
    /// An example with the results of the interpreter.
    ///
    /// # Errors
    /// The launch fails.
    pub fn new(kernel: &Kernel, grid: &[u32], arguments: &[Argument], limits: Limits) -> Result<Self, LaunchError> {
        let mut expected = arguments.to_vec();
        launch(kernel, grid, &mut expected, limits)?;
        Ok(Self { grid: grid.to_vec(), arguments: arguments.to_vec(), expected })
    }
}

/// The files of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Name of the program, and of its source before `.cu`.
    pub name: String,
    /// The source: `nvcc NAME.cu && ./a.out` prints PASS and ends with status 0, or prints the first difference and ends with status 1.
    /// It ends with status 2 if CUDA fails. It needs CUDA 11.8.
    pub source: String,
    /// Builds and tests the program.
    pub makefile: String,
    /// A JSON object: parameters, grid and example, and how exact the result is.
    pub metadata: String,
}

/// Emits a kernel as a program that tests itself on an example. The text is the same for equal kernels and examples.
///
/// Without options of nvcc it computes the bits of the interpreter, as [`Kernel::is_bit_exact`] limits it: a product that could be
/// contracted with an addition is written `__fmul_rn` or `__dmul_rn`, which nvcc never contracts.
///
/// # Errors
/// The kernel is not well formed, or the example is no launch of it.
pub fn standalone(kernel: &Kernel, example: &Example) -> Result<Files, LaunchError> {
    kernel.check()?;
    let threads = check_launch(kernel, &example.grid, &example.arguments)?;
    check_launch(kernel, &example.grid, &example.expected)?;
    check_shapes(kernel, example)?;
    let mut program = Program::new(kernel, example, threads);
    let source = program.source();
    let name = program.name;
    let makefile = format!(
        "NVCC ?= nvcc\nNVCCFLAGS ?= -O3 -fmad=false\n\n{name}: {name}.cu\n\t$(NVCC) $(NVCCFLAGS) -o $@ $<\n\n\
         .PHONY: test clean\ntest: {name}\n\t./{name}\n\nclean:\n\trm -f {name}\n"
    );
    let metadata = metadata(kernel, example);
    Ok(Files { name, source, makefile, metadata })
}

/// Results have the shape of their argument.
fn check_shapes(kernel: &Kernel, example: &Example) -> Result<(), LaunchError> {
    let shape = |argument: &Argument| match argument {
        Argument::Value(_) => vec![],
        Argument::Array(array) => array.shape.clone(),
    };
    let mut all = kernel.params.iter().zip(example.arguments.iter().zip(&example.expected));
    match all.find(|(_, (argument, expected))| shape(argument) != shape(expected)) {
        Some((param, _)) => {
            let error = ArgumentError::Kind("a result of the shape of the argument, got another");
            Err(LaunchError::Argument { param: param.name.clone(), error })
        }
        None => Ok(()),
    }
}

/// Types of C++ that parameters have.
struct Types {
    /// The type names of each parameter's elements.
    names: Vec<String>,
    /// Definitions of structs.
    text: String,
}

struct Program<'k> {
    kernel: &'k Kernel,
    example: &'k Example,
    threads: u64,
    name: String,
    types: Types,
    /// Names of the arguments of the kernel and the host function.
    params: Vec<String>,
    extents: Vec<Vec<String>>,
    grid: Vec<String>,
    /// Dimensions whose extent the kernel is passed.
    passed: Vec<Vec<bool>>,
    written: Vec<bool>,
}

impl<'k> Program<'k> {
    fn new(kernel: &'k Kernel, example: &'k Example, threads: u64) -> Self {
        Self {
            kernel,
            example,
            threads,
            name: Scope::with(&NOT_PROGRAMS).take(&kernel.name),
            types: Types { names: vec![], text: String::new() },
            params: vec![],
            extents: vec![],
            grid: vec![],
            passed: vec![],
            written: vec![],
        }
    }

    fn source(&mut self) -> String {
        let body = self.kernel_body();
        let definition = format!("__global__ void {}_kernel({}) {{\n{body}}}\n", self.name, self.kernel_params());
        let exactness = self.kernel.exactness();
        let mut text = self.header(exactness, definition.contains("mul_rn("));
        text.push_str(
            "#include <cmath>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <vector>\n\n",
        );
        text.push_str("#include <cuda_runtime.h>\n\n");
        text.push_str(include_str!("host.cuh"));
        text.push('\n');
        text.push_str(&used_by(&definition));
        text.push_str(&self.types.text);
        text.push_str(&definition);
        text.push('\n');
        text.push_str(&self.host_function());
        text.push_str(&self.data());
        text.push_str(include_str!("compare.cuh"));
        text.push('\n');
        text.push_str(&check(exactness, self.threads));
        text.push('\n');
        text.push_str(&self.main());
        text
    }

    fn header(&self, exactness: Exactness, has_products: bool) -> String {
        let name = &self.name;
        let exact = if exactness.is_program_exact() && has_products {
            "// The result has the bits of the reference, also without -fmad=false: products that are added are written with\n\
             // __fmul_rn or __dmul_rn, which the compiler does not contract to fused multiply-adds."
                .to_owned()
        } else if exactness.is_program_exact() {
            "// The result has the bits of the reference.".to_owned()
        } else {
            format!(
                "// The result is close to the reference: {} operations are approximated, each with an error of at most {} units in the\n\
                 // last place, and {} are sums in the order in which threads run.",
                exactness.approximations, exactness.max_ulp, exactness.float_sums
            )
        };
        format!(
            "{}\n//\n// Build and test: nvcc {name}.cu -o {name} && ./{name}\n//\n{exact}\n\n",
            comment(self.kernel)
        )
    }

    /// Emits the kernel's statements, and names its arguments.
    fn kernel_body(&mut self) -> String {
        let kernel = self.kernel;
        let mut emitter = Emitter::new(kernel, Form::Plain);
        for (index, param) in kernel.params.iter().enumerate() {
            self.add_param(&mut emitter, param, index);
        }
        for axis in 0..kernel.grid_dims {
            let name = if kernel.grid_dims == 1 { "threads".to_owned() } else { format!("threads_{axis}") };
            self.grid.push(emitter.names.scope.take(&name));
        }
        self.guard(&mut emitter);
        emitter.list(&kernel.body);
        emitter.into_text()
    }

    fn add_param(&mut self, emitter: &mut Emitter, param: &Param, index: usize) {
        let name = emitter.names.params[index].clone();
        let element = param.ty.element();
        let fields = &emitter.names.components[index];
        let is_scalar = is_scalar(element);
        let wanted = emitter.names.scope.take(&format!("{name}_element"));
        let type_name = self.types.add(element, fields, wanted);
        let fields: Vec<_> =
            if is_scalar { vec![String::new()] } else { fields.iter().map(|field| format!(".{field}")).collect() };
        let mut values = vec![];
        let mut extents = vec![];
        let id = ParamId(u32::try_from(index).expect("a checked kernel has few parameters"));
        let written = emitter.usage.written.contains(&id);
        match &param.ty {
            ParamType::Value(element) => {
                for (component, field) in element.components.iter().zip(&fields) {
                    values.push(value(format!("{name}{field}"), component.dtype, is_scalar));
                }
                self.passed.push(vec![]);
            }
            ParamType::Array(array) => {
                let wanted =
                    |axis| if array.dims == 1 { format!("{name}_size") } else { format!("{name}_shape{axis}") };
                extents = (0..array.dims).map(|axis| emitter.names.scope.take(&wanted(axis))).collect();
                let is_read = |axis| emitter.usage.extents.contains(&(id, axis));
                self.passed.push((0..array.dims).map(|axis| axis > 0 || is_read(axis)).collect());
            }
        }
        let Leaves { values: all_values, arrays, extents: all_extents, fields: all_fields, .. } = &mut emitter.leaves;
        all_values.push(values);
        arrays.push(name.clone());
        all_extents.push(extents.clone());
        all_fields.push(fields);
        let is_array = matches!(param.ty, ParamType::Array(_));
        self.types.names.push(if is_scalar && !is_array {
            value_type(element.components[0].dtype).to_owned()
        } else {
            type_name
        });
        self.params.push(name);
        self.extents.push(extents);
        self.written.push(written);
    }

    /// The position of the thread, and the end of threads beyond the grid.
    fn guard(&self, emitter: &mut Emitter) {
        let names = emitter.leaves.threads.clone();
        let axes = emitter.usage.thread_axes;
        let thread = emitter.names.scope.take("thread_number");
        emitter.line(&format!("const long long {thread} = (long long)blockIdx.x * blockDim.x + threadIdx.x;"));
        let product = self.grid.join(" * ");
        let widened = if self.grid.len() == 1 { product } else { format!("(long long){product}") };
        emitter.line(&format!("if ({thread} >= {widened}) return;"));
        for (axis, name) in names.iter().enumerate().filter(|(axis, _)| axes[*axis]) {
            let faster = &self.grid[axis + 1..];
            let mut position = thread.clone();
            for extent in faster.iter().rev() {
                position = format!("{position} / {extent}");
            }
            if axis > 0 {
                position = format!("{position} % {}", self.grid[axis]);
            }
            let operand = if position == thread { position } else { format!("({position})") };
            emitter.line(&format!("const int {name} = (int){operand};"));
        }
    }

    /// A parameter of the kernel or, with all extents, of the host function.
    fn param(&self, index: usize, is_host: bool) -> Vec<String> {
        let name = &self.params[index];
        let ty = &self.types.names[index];
        if let ParamType::Value(_) = self.kernel.params[index].ty {
            return vec![format!("{ty} {name}")];
        }
        let constant = if self.written[index] { "" } else { "const " };
        let restrict = if is_host { "" } else { " __restrict__" };
        let pointer = format!("{constant}{ty}*{restrict} {name}");
        let extents = self.extents[index].iter().zip(&self.passed[index]).filter(|(_, passed)| is_host || **passed);
        [pointer].into_iter().chain(extents.map(|(extent, _)| format!("int {extent}"))).collect()
    }

    fn all_params(&self, is_host: bool) -> String {
        let params = (0..self.params.len()).flat_map(|index| self.param(index, is_host));
        params.chain(self.grid.iter().map(|extent| format!("int {extent}"))).collect::<Vec<_>>().join(", ")
    }

    fn kernel_params(&self) -> String {
        self.all_params(false)
    }

    fn arrays(&self) -> impl Iterator<Item = usize> {
        (0..self.params.len()).filter(|index| matches!(self.kernel.params[*index].ty, ParamType::Array(_)))
    }

    /// Copies arrays to the device, runs the kernel, and copies back the arrays that it writes.
    fn host_function(&self) -> String {
        let mut scope = Scope::new();
        for name in self.params.iter().chain(self.extents.iter().flatten()).chain(&self.grid) {
            scope.take(name);
        }
        let [least, block, blocks, config] =
            ["least_blocks", "block_size", "blocks", "config"].map(|name| scope.take(name));
        let device: Vec<_> = self.params.iter().map(|name| scope.take(&format!("device_{name}"))).collect();
        let bytes: Vec<_> = self.params.iter().map(|name| scope.take(&format!("{name}_bytes"))).collect();
        let mut text = format!(
            "// Runs the kernel on arrays of the host.\nstatic void {}({}) {{\n",
            self.host_name(),
            self.all_params(true)
        );
        let mut line = |line: &str| writeln!(text, "    {line}").expect("a string grows");
        for index in self.arrays() {
            let ty = &self.types.names[index];
            let name = &self.params[index];
            line(&format!("const size_t {} = sizeof({ty}) * {};", bytes[index], self.extents[index].join(" * ")));
            line(&format!("{ty}* {} = nullptr;", device[index]));
            line(&format!("CHECK(cudaMalloc(&{}, {}));", device[index], bytes[index]));
            line(&format!("CHECK(cudaMemcpy({}, {name}, {}, cudaMemcpyHostToDevice));", device[index], bytes[index]));
        }
        line("");
        line(&format!("int {least} = 0;\n    int {block} = 0;"));
        let kernel = format!("{}_kernel", self.name);
        line(&format!("CHECK(cudaOccupancyMaxPotentialBlockSize(&{least}, &{block}, {kernel}, 0, 0));"));
        let product = format!("(long long){}", self.grid.join(" * "));
        line(&format!("const long long {blocks} = ({product} + {block} - 1) / {block};"));
        line(&format!("if ({blocks} > 0) {{"));
        line(&format!("    cudaLaunchConfig_t {config} = {{}};"));
        line(&format!("    {config}.gridDim = dim3((unsigned int){blocks});"));
        line(&format!("    {config}.blockDim = dim3((unsigned int){block});"));
        line(&format!("    CHECK(cudaLaunchKernelEx({}));", self.launch_arguments(&config, &kernel, &device)));
        line("    CHECK(cudaDeviceSynchronize());");
        line("}\n");
        for index in self.arrays().filter(|index| self.written[*index]) {
            let name = &self.params[index];
            line(&format!("CHECK(cudaMemcpy({name}, {}, {}, cudaMemcpyDeviceToHost));", device[index], bytes[index]));
        }
        for index in self.arrays() {
            line(&format!("CHECK(cudaFree({}));", device[index]));
        }
        text.push_str("}\n\n");
        text.replace("    \n", "\n")
    }

    fn host_name(&self) -> String {
        format!("run_{}", self.name)
    }

    fn launch_arguments(&self, config: &str, kernel: &str, device: &[String]) -> String {
        let mut arguments = vec![format!("&{config}"), kernel.to_owned()];
        for (index, param) in self.kernel.params.iter().enumerate() {
            let is_value = matches!(param.ty, ParamType::Value(_));
            arguments.push(if is_value { self.params[index].clone() } else { device[index].clone() });
            let extents = self.extents[index].iter().zip(&self.passed[index]).filter(|(_, passed)| **passed);
            arguments.extend(extents.map(|(extent, _)| extent.clone()));
        }
        arguments.extend(self.grid.iter().cloned());
        arguments.join(", ")
    }

    /// The example's arguments and results, by their bits.
    fn data(&self) -> String {
        let mut text =
            "// The example: values by their bits, in words of the size of the smallest component.\n".to_owned();
        for (index, argument) in self.example.arguments.iter().enumerate() {
            let element = self.kernel.params[index].ty.element();
            write_words(&mut text, &format!("input_{index}"), element, &compact(argument, element));
            if self.written[index] {
                let expected = compact(&self.example.expected[index], element);
                write_words(&mut text, &format!("expected_{index}"), element, &expected);
            }
        }
        text.push('\n');
        text
    }

    fn main(&self) -> String {
        let mut text = "int main() {\n".to_owned();
        let mut line = |line: &str| writeln!(text, "    {line}").expect("a string grows");
        let mut call = vec![];
        for (index, argument) in self.example.arguments.iter().enumerate() {
            let ty = &self.types.names[index];
            let name = format!("argument_{index}");
            match argument {
                Argument::Value(_) => {
                    line(&format!("const {ty} {name} = value_at<{ty}>(input_{index}, 0);  // {}", self.params[index]));
                    call.push(name);
                }
                Argument::Array(array) => {
                    let count = count(array);
                    line(&format!("std::vector<{ty}> {name}({count});  // {}", self.params[index]));
                    if count > 0 {
                        line(&format!("std::memcpy({name}.data(), input_{index}, sizeof({ty}) * {count});"));
                    }
                    call.push(format!("{name}.data()"));
                    call.extend(array.shape.iter().map(ToString::to_string));
                }
            }
        }
        call.extend(self.example.grid.iter().map(ToString::to_string));
        line(&format!("{}({});\n", self.host_name(), call.join(", ")));
        line("bool pass = true;");
        for index in self.arrays().filter(|index| self.written[*index]) {
            let Argument::Array(array) = &self.example.arguments[index] else { continue };
            self.check_array(&mut line, index, count(array));
        }
        line("if (!pass) return 1;\n    std::printf(\"PASS\\n\");\n    return 0;");
        text.push_str("}\n");
        text.replace("    \n", "\n")
    }

    fn check_array(&self, line: &mut impl FnMut(&str), index: usize, count: usize) {
        let element = self.kernel.params[index].ty.element();
        for component in &element.components {
            let dtype = component.dtype;
            let name = &self.kernel.params[index].name;
            let path = if component.name.is_empty() { name.clone() } else { format!("{name}.{}", component.name) };
            let arguments = format!(
                "\"{path}\", argument_{index}.data(), expected_{index}, {count}, {}, {}",
                element.size, component.offset
            );
            let ty = ctype(dtype);
            let word = word(dtype.size());
            let infinity = infinity(dtype);
            line(&format!("pass = check<{ty}, {word}>({arguments}, {infinity}) && pass;"));
        }
    }
}

impl Types {
    /// The type of an element; a struct unless it is a scalar.
    fn add(&mut self, element: &Element, fields: &[String], name: String) -> String {
        if is_scalar(element) {
            return ctype(element.components[0].dtype).to_owned();
        }
        let members = members(element, fields);
        let marker = format!(" {{\n{members}}};\n");
        // Equal structs are one.
        if let Some(end) = self.text.find(&marker) {
            let start = self.text[..end].rfind("struct ").expect("a struct has a name") + "struct ".len();
            return self.text[start..end].to_owned();
        }
        write!(
            self.text,
            "struct {name}{marker}static_assert(sizeof({name}) == {}, \"as in the arrays\");\n\n",
            element.size
        )
        .expect("a string grows");
        name
    }
}

/// The members of a struct, with its padding.
fn members(element: &Element, fields: &[String]) -> String {
    let mut text = String::new();
    let mut end = 0;
    let pad = |text: &mut String, from: u32, to: u32| {
        if from < to {
            writeln!(text, "    unsigned char padding_at_{from}[{}];", to - from).expect("a string grows");
        }
    };
    for (component, field) in element.components.iter().zip(fields) {
        pad(&mut text, end, component.offset);
        writeln!(text, "    {} {field};", ctype(component.dtype)).expect("a string grows");
        end = component.offset + u32::try_from(component.dtype.size()).expect("at most 8 bytes");
    }
    pad(&mut text, end, element.size);
    text
}

fn is_scalar(element: &Element) -> bool {
    let [only] = element.components.as_slice() else { return false };
    only.name.is_empty() && element.size as usize == only.dtype.size()
}

/// A component of a parameter that is passed by value. A bool in a struct is a byte.
fn value(text: String, dtype: Dtype, is_scalar: bool) -> CppExpr {
    if dtype == Dtype::Bool && !is_scalar {
        CppExpr::new(format!("{text} != 0"), prec::EQUAL, dtype)
    } else {
        CppExpr::primary(text, dtype)
    }
}

fn count(array: &ArrayArgument) -> usize {
    array.shape.iter().map(|extent| usize::try_from(*extent).expect("checked extents are not negative")).product()
}

/// The bytes of a value, or of the elements of an array in row-major order.
fn compact(argument: &Argument, element: &Element) -> Vec<u8> {
    let Argument::Array(array) = argument else { return argument.bytes().to_vec() };
    let size = element.size as usize;
    let mut bytes = Vec::with_capacity(count(array) * size);
    for nth in 0..count(array) {
        let mut rest = nth;
        let mut offset = i64::try_from(array.offset).expect("an offset in memory");
        for (extent, stride) in array.shape.iter().zip(&array.strides).rev() {
            let extent = usize::try_from(*extent).expect("checked extents are not negative");
            offset += i64::try_from(rest % extent).expect("below an extent") * stride;
            rest /= extent;
        }
        let start = usize::try_from(offset).expect("checked elements lie in the data");
        bytes.extend_from_slice(&array.data[start..start + size]);
    }
    bytes
}

/// The unsigned type of this size.
fn word(size: usize) -> &'static str {
    match size {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned int",
        _ => "unsigned long long",
    }
}

/// The bits of infinity; 0 for types without.
fn infinity(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "0x7c00",
        Dtype::Bf16 => "0x7f80",
        Dtype::F32 => "0x7f800000u",
        Dtype::F64 => "0x7ff0000000000000ull",
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64 => "0",
    }
}

fn write_words(text: &mut String, name: &str, element: &Element, bytes: &[u8]) {
    let sizes = element.components.iter().map(|component| component.dtype.size());
    let size = sizes.min().filter(|size| (element.size as usize).is_multiple_of(*size)).unwrap_or(1);
    write!(text, "alignas(8) static const {} {name}[] = {{", word(size)).expect("a string grows");
    let suffix = if size == 8 {
        "ull"
    } else if size == 4 {
        "u"
    } else {
        ""
    };
    // An array of C++ is not empty.
    let chunks = if bytes.is_empty() { &[0; 8][..size] } else { bytes };
    for (index, chunk) in chunks.chunks_exact(size).enumerate() {
        let separator = if index % 12 == 0 { "\n    " } else { " " };
        let mut word = [0; 8];
        word[..size].copy_from_slice(chunk);
        write!(text, "{separator}{:#x}{suffix},", u64::from_le_bytes(word)).expect("a string grows");
    }
    text.push_str("\n};\n");
}

/// The function that compares results. Each approximated operation, and each thread's addition to a sum, is granted its error.
fn check(exactness: Exactness, threads: u64) -> String {
    if exactness.is_program_exact() {
        return include_str!("exact_check.cuh").to_owned();
    }
    let operations = u64::from(exactness.approximations) * u64::from(exactness.max_ulp + 1);
    let units = operations.saturating_add(u64::from(exactness.float_sums).saturating_mul(threads)).saturating_mul(2);
    format!(
        "// {units} units in the last place.\nconstexpr double TOLERANCE_F32 = {units}.0 * {:?};\n\
         constexpr double TOLERANCE_F64 = {units}.0 * {:?};\n\n{}",
        f64::from(f32::EPSILON),
        f64::EPSILON,
        include_str!("close_check.cuh")
    )
}

/// Identifiers, numbers and fixed words need no escapes in JSON.
fn metadata(kernel: &Kernel, example: &Example) -> String {
    let exactness = kernel.exactness();
    let params = kernel.params.iter().zip(&example.arguments).map(|(param, argument)| {
        let shape = match argument {
            Argument::Value(_) => String::new(),
            Argument::Array(array) => format!(", \"shape\": {:?}", array.shape),
        };
        format!("    {{\"name\": \"{}\", \"type\": \"{}\"{shape}}}", param.name, describe(&param.ty))
    });
    format!(
        "{{\n  \"name\": \"{}\",\n  \"grid\": {:?},\n  \"parameters\": [\n{}\n  ],\n  \"bit_exact\": {},\n  \
         \"approximated_operations\": {},\n  \"max_ulp\": {},\n  \"float_sums\": {},\n  \"order_dependent\": {}\n}}\n",
        kernel.name,
        example.grid,
        params.collect::<Vec<_>>().join(",\n"),
        exactness.is_program_exact(),
        exactness.approximations,
        exactness.max_ulp,
        exactness.float_sums,
        exactness.order_dependent > 0,
    )
}
