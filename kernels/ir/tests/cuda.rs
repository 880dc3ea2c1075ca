//! The text of emitted functions: exact, self-contained and stable.

use accelerd_ir::{
    Dtype,
    scalar::{BinaryOp, Builder, Function, Literal, UnaryOp, cuda},
};

/// All operations and casts, one function each.
fn every_function() -> Vec<Function> {
    let mut functions = vec![];
    for dtype in Dtype::ALL {
        let start = || {
            let mut builder = Builder::new(&[dtype, dtype]);
            let a = builder.param(0);
            let b = builder.param(1);
            (builder, a, b)
        };
        for op in UnaryOp::ALL.into_iter().filter(|op| op.result(dtype).is_some()) {
            let (mut builder, a, _) = start();
            let result = builder.unary(op, a).expect("the operation takes the type");
            functions.push(builder.finish(&[result]));
        }
        for op in BinaryOp::ALL.into_iter().filter(|op| op.result(dtype).is_some()) {
            let (mut builder, a, b) = start();
            let result = builder.binary(op, a, b).expect("the operation takes the type");
            functions.push(builder.finish(&[result]));
        }
        for to in Dtype::ALL {
            let (mut builder, a, _) = start();
            let result = builder.cast(a, to);
            functions.push(builder.finish(&[result]));
        }
    }
    functions
}

/// The names after `ir::` in a text.
fn prelude_names(text: &str) -> impl Iterator<Item = &str> {
    text.split("ir::").skip(1).map(|rest| rest.split('(').next().unwrap_or(rest))
}

#[test]
fn the_prelude_defines_what_emitted_functions_call() {
    let defined: Vec<_> = cuda::PRELUDE.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut calls = 0;
    for function in every_function() {
        for name in prelude_names(&cuda::emit(&function, "f")) {
            calls += 1;
            assert!(defined.contains(&name), "{name} is not in the prelude");
        }
    }
    assert!(calls > 100, "casts and operations of integers call the prelude");
}

#[test]
fn functions_that_differ_have_different_text() {
    let functions = every_function();
    for (index, one) in functions.iter().enumerate() {
        let text = cuda::emit(one, "f");
        for other in &functions[..index] {
            let storage =
                |function: &Function| function.values().iter().any(|value| value.dtype.compute() != value.dtype);
            // Copies of values of types that have the same representation.
            let may_agree = one.is_copy() && other.is_copy() && (storage(one) || storage(other));
            assert!(one == other || may_agree || text != cuda::emit(other, "f"), "{text}");
        }
    }
}

#[test]
fn literals_have_all_their_bits() {
    let cases = [
        (Literal::from_i64(Dtype::I64, i64::MIN), "0x8000000000000000"),
        (Literal::from_bits(Dtype::U64, u64::MAX), "0xffffffffffffffff"),
        (Literal::from_i64(Dtype::I8, -2), "0xfe"),
        (Literal::from_f64(Dtype::F32, -0.0), "0x80000000"),
        (Literal::from_bits(Dtype::F32, 0x7fc0_1234), "0x7fc01234"),
        (Literal::from_f64(Dtype::F64, f64::INFINITY), "0x7ff0000000000000"),
        (Literal::from_f64(Dtype::Bf16, 1.0), "0x3f80"),
        (Literal::from_f64(Dtype::F16, -2.0), "0xc000"),
        (Literal::from_bits(Dtype::Bool, 1), "true"),
    ];
    for (literal, bits) in cases {
        let mut builder = Builder::new(&[]);
        let value = builder.literal(literal);
        let text = cuda::emit(&builder.finish(&[value]), "f");
        assert!(text.contains(bits), "{literal:?}: {text}");
    }
}

#[test]
fn a_signature_has_the_types_of_elements_in_memory() {
    let mut builder = Builder::new(&[Dtype::Bool, Dtype::F16, Dtype::F64]);
    let condition = builder.param(0);
    let half = builder.param(1);
    let wide = builder.cast(half, Dtype::F32);
    let function = builder.finish(&[wide, condition]);
    let text = cuda::emit(&function, "widen");
    let signature = "__device__ __forceinline__ void widen(const unsigned char p0, const unsigned short p1, \
                     const double p2, const long long index, float& r0, unsigned char& r1) {\n";
    assert!(text.starts_with(signature), "{text}");
}

#[test]
fn rounding_to_16_bits_permits_shorter_elementary_functions() {
    let text = |from: Dtype, to: Dtype| {
        let mut builder = Builder::new(&[from]);
        let value = builder.param(0);
        let value = builder.cast(value, Dtype::F32);
        let value = builder.unary(UnaryOp::Erf, value).expect("an f32");
        let value = builder.cast(value, to);
        cuda::emit(&builder.finish(&[value]), "f")
    };
    for (from, to) in [(Dtype::F16, Dtype::F16), (Dtype::Bf16, Dtype::F16)] {
        assert!(text(from, to).contains("ir::erf_for_16_bits("), "{from} to {to}");
    }
    for (from, to) in [(Dtype::F32, Dtype::F16), (Dtype::F16, Dtype::F32), (Dtype::I8, Dtype::Bf16)] {
        assert!(text(from, to).contains(" erff("), "{from} to {to}");
    }
}

#[test]
fn equal_functions_have_equal_text() {
    let build = |with_unused: bool| {
        let mut builder = Builder::new(&[Dtype::F32, Dtype::F32]);
        let a = builder.param(0);
        let b = builder.param(1);
        if with_unused {
            builder.unary(UnaryOp::Erf, b).expect("an f32");
        }
        let sum = builder.binary(BinaryOp::Add, a, b).expect("two f32");
        builder.finish(&[sum])
    };
    assert_eq!(cuda::emit(&build(true), "f"), cuda::emit(&build(false), "f"));
    assert_ne!(cuda::emit(&build(true), "f"), cuda::emit(&build(true), "g"), "the name is part of the text");
}
