//! Emitted programs test themselves on an example. They are compiled for the host, with a runtime of CUDA that copies memory.

mod common {
    pub(crate) mod cuda;
    mod exact;
    pub(crate) mod host;
    pub(crate) mod random;

    mod builder;
    pub(crate) use builder::*;
    pub(crate) use exact::exact;

    /// Iterations of a thread.
    pub(crate) const LOOP_BUDGET: u64 = 300;
}

use std::{
    fmt::Write as _,
    process::{Command, Output},
};

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, ArrayArgument, AtomicOp, Expr, Kernel, ParamId, Stmt,
        cuda::{Example, Files, standalone},
        interpret::Limits,
    },
    scalar::{BinaryOp, UnaryOp},
};
use common::{
    Builder, add, assign, at, binary, component, element, exact, host, int, less, load, local, mul, number, random,
    range, store, tid, unary, when,
};

fn files(kernel: &Kernel, grid: &[u32], arguments: &[Argument]) -> Files {
    let example = Example::new(kernel, grid, arguments, Limits::default()).expect("the launch has no fault");
    standalone(kernel, &example).expect("the example is a launch of the kernel")
}

fn run(name: &str, source: &str) -> Output {
    let program = host::compile(&host::folder(name), &host::without_ptx(source));
    Command::new(program).output().expect("the program was compiled")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// y[i] = alpha * x[i] + y[i]
fn saxpy() -> (Kernel, Vec<Argument>) {
    let mut builder = Builder::new(1);
    let alpha = builder.value(Dtype::F32);
    let x = builder.array(Dtype::F32, 1);
    let y = builder.array(Dtype::F32, 1);
    let [i, loaded, sum] = [Dtype::I32, Dtype::F32, Dtype::F32].map(|dtype| builder.local(dtype));
    let scaled = mul(Expr::Param(alpha, 0), local(loaded));
    let mut kernel = builder.finish(vec![
        assign(i, tid()),
        load(loaded, x, local(i)),
        load(sum, y, local(i)),
        store(y, local(i), add(scaled, local(sum))),
    ]);
    "saxpy".clone_into(&mut kernel.name);
    for (param, name) in kernel.params.iter_mut().zip(["alpha", "x", "y"]) {
        name.clone_into(&mut param.name);
    }
    "i".clone_into(&mut kernel.locals[0].name);
    let arguments = vec![
        Argument::value(0.1_f32),
        Argument::array(&[1.0_f32, 2.5, f32::MAX]),
        Argument::array(&[3.0_f32, -0.25, 1e38]),
    ];
    (kernel, arguments)
}

#[test]
fn a_program_passes_on_its_example() {
    let (kernel, arguments) = saxpy();
    let files = files(&kernel, &[3], &arguments);
    assert_eq!(files.name, "saxpy");
    let output = run("program_passes", &files.source);
    assert_eq!(text(&output), "PASS\n");
    assert_eq!(output.status.code(), Some(0));
}

/// Programs in namespaces of their own, in one program that runs them all.
fn run_all(name: &str, all: &[Files]) -> Output {
    let mut text = "#include <vector>\n#include <cuda_runtime.h>\n".to_owned();
    for (index, files) in all.iter().enumerate() {
        let lines = files.source.lines().filter(|line| !line.starts_with("#include"));
        let body = lines.collect::<Vec<_>>().join("\n");
        // The shim's definitions are in the global namespace.
        let body = body.replace("namespace ir {\n", "namespace ir {\nusing namespace ::ir;\n");
        writeln!(text, "namespace program_{index} {{\n{body}\n}}").expect("a string grows");
    }
    text.push_str("int main() {\n    int failures = 0;\n");
    for index in 0..all.len() {
        writeln!(text, "    failures += program_{index}::main();").expect("a string grows");
    }
    text.push_str("    return failures;\n}\n");
    run(name, &text)
}

#[test]
fn a_wrong_result_is_reported_with_its_place_and_status_1() {
    let (kernel, arguments) = saxpy();
    let mut example = Example::new(&kernel, &[3], &arguments, Limits::default()).expect("the launch has no fault");
    let Argument::Array(result) = &mut example.expected[2] else { panic!("an array") };
    result.data[4..8].copy_from_slice(&1.5_f32.to_le_bytes());
    let files = standalone(&kernel, &example).expect("the example is a launch of the kernel");
    let output = run("program_fails", &files.source);
    assert_eq!(text(&output), "FAIL: element 1 of y is 0 (0x0), expected 1.5 (0x3fc00000)\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_kernel_of_a_program_reads_like_a_handwritten_one() {
    let (kernel, arguments) = saxpy();
    let source = files(&kernel, &[3], &arguments).source;
    let text = "\
__global__ void saxpy_kernel(float alpha, const float* __restrict__ x, float* __restrict__ y, int threads) {
    const long long thread_number = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread_number >= threads) return;
    const int i = (int)thread_number;
    y[i] = __fmul_rn(alpha, x[i]) + y[i];
}
";
    assert!(source.contains(text), "{source}");
}

#[test]
fn a_program_is_named_neither_as_a_target_of_its_makefile_nor_as_a_makefile() {
    let (mut kernel, arguments) = saxpy();
    for name in ["test", "clean", "Makefile", "makefile", "GNUmakefile"] {
        kernel.name = name.to_owned();
        let files = files(&kernel, &[3], &arguments);
        let renamed = format!("{name}_2");
        assert_eq!(files.name, renamed);
        let targets: Vec<_> = files.makefile.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
        assert_eq!(targets, [renamed.as_str(), ".PHONY", "test", "clean"]);
        assert!(files.makefile.ends_with(&format!("rm -f {renamed}\n")), "{}", files.makefile);
        assert!(files.source.contains(&format!("{renamed}_kernel(")), "{}", files.source);
    }
}

#[test]
fn a_program_comes_with_a_makefile_and_metadata() {
    let (kernel, arguments) = saxpy();
    let files = files(&kernel, &[3], &arguments);
    assert!(files.makefile.contains("saxpy: saxpy.cu\n\t$(NVCC) $(NVCCFLAGS) -o $@ $<\n"), "{}", files.makefile);
    assert!(files.makefile.contains("-fmad=false"));
    let metadata = "\
{
  \"name\": \"saxpy\",
  \"grid\": [3],
  \"parameters\": [
    {\"name\": \"alpha\", \"type\": \"f32\"},
    {\"name\": \"x\", \"type\": \"f32[:]\", \"shape\": [3]},
    {\"name\": \"y\", \"type\": \"f32[:]\", \"shape\": [3]}
  ],
  \"bit_exact\": true,
  \"approximated_operations\": 0,
  \"max_ulp\": 0,
  \"float_sums\": 0,
  \"order_dependent\": false
}
";
    assert_eq!(files.metadata, metadata);
}

/// Points of x, y and a flag, moved by a vector; strided, and in reverse.
fn points() -> Files {
    let mut builder = Builder::new(2);
    let by = builder.value_of(element(&[("x", Dtype::F32, 0), ("y", Dtype::F32, 4)], 8));
    let layout = element(&[("x", Dtype::F64, 0), ("pose.y", Dtype::F64, 8), ("is_set", Dtype::Bool, 16)], 24);
    let points = builder.array_of(layout, 2);
    let [x, y] = [Dtype::F64; 2].map(|dtype| builder.local(dtype));
    let place = |which| component(points, &[tid(), Expr::ThreadId(1)], which);
    let moved = |to, which| {
        let by = Expr::Param(by, which);
        Stmt::Store(place(which), add(mul(local(to), number(Dtype::F64, 3.0)), common::cast(Dtype::F64, by)))
    };
    let kernel = builder.finish(vec![
        Stmt::Load(x, place(0)),
        Stmt::Load(y, place(1)),
        moved(x, 0),
        moved(y, 1),
        Stmt::Store(place(2), less(local(x), local(y))),
    ]);
    let data: Vec<u8> = (0..6 * 24).map(|index| if index % 8 < 6 { index } else { 0x40 }).collect();
    let strided = ArrayArgument { data, shape: vec![3, 2], strides: vec![-48, 24], offset: 96 };
    let by = [1.5_f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    files(&kernel, &[3, 2], &[Argument::Value(by), Argument::Array(strided)])
}

/// Sums and extremes of an array, by atomic operations.
fn reductions() -> Files {
    let mut builder = Builder::new(1);
    let x = builder.array(Dtype::F32, 1);
    let n = builder.array(Dtype::I64, 1);
    let sum = builder.array(Dtype::F32, 1);
    let least = builder.array(Dtype::F32, 1);
    let count = builder.array(Dtype::I64, 1);
    let a = builder.local(Dtype::F32);
    let b = builder.local(Dtype::I64);
    let atomic = |op, array, operand| {
        let place = at(array, &[int(0)]);
        Stmt::Atomic { op, place, operand, expected: None, previous: None }
    };
    let kernel = builder.finish(vec![
        load(a, x, tid()),
        load(b, n, tid()),
        atomic(AtomicOp::Add, sum, unary(UnaryOp::Sin, local(a))),
        atomic(AtomicOp::Min, least, local(a)),
        atomic(AtomicOp::Add, count, local(b)),
    ]);
    let values: Vec<f32> = (0..100_u8).map(|index| f32::from(index) * 0.37 - 11.0).collect();
    let arguments = [
        Argument::array(&values),
        Argument::array(&(0..100).collect::<Vec<i64>>()),
        Argument::array(&[0.0_f32]),
        Argument::array(&[f32::INFINITY]),
        Argument::array(&[1_i64]),
    ];
    files(&kernel, &[100], &arguments)
}

/// Nothing to do, for an array that is empty.
fn empty() -> Files {
    let mut builder = Builder::new(1);
    let x = builder.array(Dtype::F32, 1);
    let kernel = builder.finish(vec![store(x, tid(), number(Dtype::F32, 1.0))]);
    files(&kernel, &[0], &[Argument::array::<f32>(&[])])
}

/// Names that C++ or the program has for something else.
fn names() -> Files {
    let mut builder = Builder::new(1);
    let x = builder.array(Dtype::F32, 1);
    let y = builder.value(Dtype::F32);
    let [a, i] = [Dtype::F32, Dtype::I32].map(|dtype| builder.local(dtype));
    let label = builder.label();
    let sine = unary(UnaryOp::Sin, Expr::Param(y, 0));
    let body = vec![assign(a, add(local(a), sine)), when(less(int(3), local(i)), vec![Stmt::Break(label)])];
    let mut kernel = builder.finish(vec![
        range(label, i, [int(0), binary(BinaryOp::Add, int(9), tid()), int(1)], body),
        store(x, tid(), local(a)),
    ]);
    "main".clone_into(&mut kernel.name);
    "float".clone_into(&mut kernel.params[0].name);
    "CHECK".clone_into(&mut kernel.params[1].name);
    "sinf".clone_into(&mut kernel.locals[0].name);
    "threadIdx".clone_into(&mut kernel.locals[1].name);
    files(&kernel, &[2], &[Argument::array(&[0.0_f32; 2]), Argument::value(1.0_f32)])
}

#[test]
fn programs_pass_with_structs_strides_atomics_and_unusual_names() {
    let output = run_all("programs", &[points(), reductions(), empty(), names()]);
    assert_eq!(text(&output), "PASS\n".repeat(4));
    assert!(output.status.success());
}

#[test]
fn random_programs_pass() {
    let subjects = (0..100).map(random::kernel).chain((0..20).map(random::vector_kernel));
    let programs: Vec<_> = subjects
        .filter_map(|subject| {
            let kernel = exact(subject.kernel);
            let limits = Limits { loop_budget: common::LOOP_BUDGET, ..Limits::default() };
            let example = Example::new(&kernel, &subject.grid, &subject.arguments, limits).ok()?;
            Some(standalone(&kernel, &example).expect("the example is a launch of the kernel"))
        })
        .collect();
    assert!(programs.len() > 30, "most random kernels have no fault");
    let output = run_all("random_programs", &programs);
    assert_eq!(text(&output), "PASS\n".repeat(programs.len()));
    assert!(output.status.success());
}

/// The statements of a kernel of f32 arrays x and y, as a program has them.
fn statements(build: impl Fn(&mut Builder, [ParamId; 2]) -> Vec<Stmt>) -> String {
    let mut builder = Builder::new(1);
    let arrays = [builder.array(Dtype::F32, 1), builder.array(Dtype::F32, 1)];
    let body = build(&mut builder, arrays);
    let kernel = builder.finish(body);
    let source = files(&kernel, &[1], &[Argument::array(&[1.0_f32; 2]), Argument::array(&[1.0_f32; 2])]).source;
    let start = source.find("const int tid").expect("the position is read");
    let body = source[start..].split_once(";\n").expect("a declaration ends").1;
    body[..body.find("}\n\n").expect("a function ends")].to_owned()
}

#[test]
fn products_that_a_compiler_could_contract_are_intrinsics() {
    let product = |a| mul(local(a), local(a));
    let through_a_variable = statements(|builder, [x, y]| {
        let [a, b] = [Dtype::F32; 2].map(|dtype| builder.local(dtype));
        vec![
            load(a, x, tid()),
            assign(b, unary(UnaryOp::Neg, product(a))),
            store(y, tid(), add(number(Dtype::F32, 1.0), local(b))),
        ]
    });
    assert_eq!(
        through_a_variable,
        "    const float v0 = p0[tid];\n    const float v1 = -__fmul_rn(v0, v0);\n    p1[tid] = 1.0f + v1;\n"
    );
    let through_memory = statements(|builder, [x, y]| {
        let [a, b] = [Dtype::F32; 2].map(|dtype| builder.local(dtype));
        vec![
            load(a, x, tid()),
            store(y, tid(), product(a)),
            load(b, y, tid()),
            store(y, tid(), add(local(b), number(Dtype::F32, 1.0))),
        ]
    });
    assert_eq!(
        through_memory,
        "    const float v0 = p0[tid];\n    p1[tid] = __fmul_rn(v0, v0);\n    p1[tid] += 1.0f;\n"
    );
    let not_added = statements(|builder, [x, y]| {
        let a = builder.local(Dtype::F32);
        vec![load(a, x, tid()), store(y, tid(), product(a))]
    });
    assert_eq!(not_added, "    const float v0 = p0[tid];\n    p1[tid] = v0 * v0;\n");
}
