//! The arithmetic of elements in kernels that multiply and add.

use accelerd_ir::{
    Dtype,
    scalar::{
        Function,
        cuda::{ctype, emit},
    },
};

/// C++ of `Operands`: the types of elements and sums, conversions, multiply-add, and `store`, which applies the epilogue. `members` is the
/// text of others.
pub(super) fn operands(dtype: Dtype, epilogue: Option<&Function>, members: &str) -> String {
    let element = ctype(dtype);
    let (emitted, store) = match epilogue {
        Some(epilogue) => (emit(epilogue, "epilogue"), "epilogue(value, index, to)"),
        None => (String::new(), "to = value"),
    };
    let (sum, widen, multiply_add, narrow) = arithmetic(dtype);
    format!(
        "{emitted}\n\
         struct Operands {{\n    typedef {element} Element;\n    typedef {sum} Sum;\n{members}    \
         static __device__ __forceinline__ Sum widen(Element x) {{ return {widen}; }}\n    \
         static __device__ __forceinline__ Element narrow(Sum x) {{ return {narrow}; }}\n    \
         static __device__ __forceinline__ Sum multiply_add(Sum a, Sum b, Sum c) {{ return {multiply_add}; }}\n    \
         static __device__ __forceinline__ void store(Element value, i64 index, Element& to) {{ {store}; }}\n}};\n"
    )
}

/// The type of sums, and C++ of: an element `x` as a sum, `a * b + c`, and a sum `x` rounded to an element. Integers wrap, so unsigned
/// ones of at least their size serve them all.
fn arithmetic(dtype: Dtype) -> (&'static str, String, &'static str, String) {
    let element = ctype(dtype);
    match dtype {
        Dtype::F64 => ("double", "x".to_owned(), "fma(a, b, c)", "x".to_owned()),
        Dtype::F32 => ("float", "x".to_owned(), "fmaf(a, b, c)", "x".to_owned()),
        Dtype::F16 | Dtype::Bf16 => {
            ("float", format!("ir::{dtype}_to_f32(x)"), "fmaf(a, b, c)", format!("ir::f32_to_{dtype}(x)"))
        }
        Dtype::I64 | Dtype::U64 => ("u64", "(u64)x".to_owned(), "a * b + c", format!("({element})x")),
        Dtype::Bool | Dtype::U8 | Dtype::I8 | Dtype::U16 | Dtype::I16 | Dtype::U32 | Dtype::I32 => {
            ("u32", "(u32)x".to_owned(), "a * b + c", format!("({element})x"))
        }
    }
}
