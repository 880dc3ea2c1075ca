//! Generated kernels: compiled for every architecture, kept on disk, and refused with the compiler's words.
//!
//! Needs NVRTC, but no GPU: set `ACCELERD_NVRTC_PATH` to the folder of `libnvrtc.so`, or install the CUDA toolkit.

use std::{env, path::PathBuf};

use accelerd_kernels::cuda::{Arch, CompileError, JitSource, Source, compile_jit, jit_ptx};

const HEADERS: &[Source] = &[Source { path: "common/common.cuh", text: include_str!("../cu/common/common.cuh") }];

fn folders() -> Vec<PathBuf> {
    let path = env::var_os("ACCELERD_NVRTC_PATH").expect("ACCELERD_NVRTC_PATH must name the folder of libnvrtc");
    vec![path.into()]
}

/// `y[i] = EXPRESSION` over `x[i]`.
fn elementwise(element: &str, expression: &str) -> JitSource {
    let text = format!(
        "#include \"common/common.cuh\"\n\
         extern \"C\" __global__ void tensor_elementwise(const {element}* x, {element}* y, u64 n) {{\n\
         const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;\n\
         if (i < n) y[i] = {expression};\n\
         }}\n"
    );
    JitSource { template: "tensor_elementwise", text, headers: HEADERS, options: vec![], params: vec![8, 8, 8] }
}

fn ptx(source: &JitSource) -> String {
    jit_ptx(source, Arch::new(9, 0), &folders()).unwrap_or_else(|log| panic!("{log}"))
}

#[test]
fn a_generated_kernel_compiles_for_every_architecture_and_is_kept_on_disk() {
    let cache = tempfile::tempdir().expect("a temporary folder");
    let source = elementwise("float", "x[i] * 2 + 1");
    let compile = |arch| compile_jit(&source, arch, cache.path(), &folders()).unwrap_or_else(|e| panic!("{e}"));
    for arch in Arch::SUPPORTED {
        let first = compile(arch);
        let again = compile(arch);
        assert_eq!((first.module, first.cached, again.cached), ("tensor_elementwise", false, true), "{arch}");
        assert!(first.bytes > 0 && first.bytes == again.bytes, "{arch}");
    }
    let entries = std::fs::read_dir(cache.path().join("jit")).expect("a folder of its own").count();
    assert_eq!(entries, Arch::SUPPORTED.len());
}

#[test]
fn an_error_names_the_template_and_starts_with_the_first_error() {
    let cache = tempfile::tempdir().expect("a temporary folder");
    let mut source = elementwise("float", "x[i] + unknown_name");
    source.text.insert_str(0, "__device__ int warned() { int unused; }\n");
    let error = compile_jit(&source, Arch::new(9, 0), cache.path(), &folders()).expect_err("an unknown name");
    let CompileError::Compile { module, log, .. } = &error else { panic!("{error}") };
    assert_eq!(*module, "tensor_elementwise");
    let first = log.split("; ").find(|line| line.contains("tensor_elementwise.cu("));
    assert!(first.is_some_and(|line| line.contains("error") && line.contains("unknown_name")), "{log}");
    assert!(!log.contains('\n') && !cache.path().join("jit").exists(), "{log}");
}

#[test]
fn options_follow_those_of_every_kernel_and_may_replace_fmad() {
    let fused = elementwise("float", "x[i] * 3 + SCALE");
    let with = |options: &[&str]| JitSource {
        options: options.iter().map(|&option| option.to_owned()).collect(),
        ..fused.clone()
    };
    assert!(ptx(&with(&["-DSCALE=0.5f"])).contains("fma.rn.f32"));
    let separate = ptx(&with(&["-DSCALE=0.5f", "--fmad=false"]));
    assert!(separate.contains("mul.rn.f32") && !separate.contains("fma.rn.f32"), "{separate}");
    let error = jit_ptx(&fused, Arch::new(9, 0), &folders()).expect_err("SCALE is not defined");
    assert!(error.contains("SCALE"), "{error}");
}

#[test]
fn parameters_are_declared_in_the_order_of_the_kernel() {
    let source = elementwise("float", "x[i]");
    let text = ptx(&source);
    assert_eq!(text.matches(".param .u64").count(), source.params.len());
    assert!(text.contains(".entry tensor_elementwise("));
}

#[test]
fn sixteen_bit_types_are_converted_by_the_common_header() {
    for (load, store) in [("bf16_to_f32", "f32_to_bf16"), ("f16_to_f32", "f32_to_f16")] {
        let source = elementwise("u16", &format!("{store}(tanhf({load}(x[i])))"));
        for arch in Arch::SUPPORTED {
            jit_ptx(&source, arch, &folders()).unwrap_or_else(|log| panic!("{arch}: {log}"));
        }
    }
}

#[test]
fn the_functions_of_cuda_math_need_no_header() {
    let unary = [
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "tgamma", "lgamma",
        "floor", "ceil", "trunc", "rint", "round", "fabs",
    ];
    for (element, suffix) in [("float", "f"), ("double", "")] {
        let sum: Vec<_> = unary.iter().map(|name| format!("{name}{suffix}(x[i])")).collect();
        let binary = ["pow", "fmod", "atan2", "hypot", "fmin", "fmax", "copysign", "remainder", "nextafter"];
        let binary: Vec<_> = binary.iter().map(|name| format!("{name}{suffix}(x[i], x[0])")).collect();
        let fma = format!("fma{suffix}(x[i], x[i], x[0]) + (isnan(x[i]) || isinf(x[i]) || signbit(x[i]))");
        ptx(&elementwise(element, &[sum.join(" + "), binary.join(" + "), fma].join(" + ")));
    }
}
