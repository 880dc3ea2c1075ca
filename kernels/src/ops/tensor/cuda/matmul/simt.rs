//! Products on the general-purpose cores: of integers, of strides that the library does not take, and where the library is missing.

use accelerd_ir::{
    Dtype,
    scalar::{
        Function,
        cuda::{ctype, emit},
    },
};
use accelerd_tensor::MatMulStep;

use super::{
    super::prelude::{NO_FMA, PRELUDE},
    Checked,
};
use crate::{
    OpError,
    cuda::{Args, COMMON, Grid, JitSource, Source, Worker, cu, launch_structs},
};

launch_structs! {
    header LAUNCH = "tensor/matmul_launch.cuh";

    /// A batch of products. Strides are in elements: of the batch, the rows and the columns.
    struct MatMul {
        a: u64,
        b: u64,
        bias: u64,
        output: u64,
        batch: u64,
        m: u64,
        n: u64,
        k: u64,
        a_strides: [i64; 3],
        b_strides: [i64; 3],
    }
}

const HEADERS: &[Source] = &[COMMON, LAUNCH, PRELUDE, cu!("tensor/matmul.cuh")];
const THREADS: u32 = 256;
/// Rows and columns of a block's tile.
const EDGE: usize = 64;

/// Enqueues a product.
pub(super) fn launch(step: &MatMulStep, checked: &Checked, worker: &Worker) -> Result<(), OpError> {
    let variant = Variant::of(step);
    let kernel = worker.jit(&variant.source(step.epilogue.as_ref()))?;
    let Checked { batch, m, n, k, .. } = *checked;
    let tiles = (batch as u64).saturating_mul(m.div_ceil(EDGE) as u64).saturating_mul(n.div_ceil(EDGE) as u64);
    let product = MatMul {
        a: checked.a,
        b: checked.b,
        bias: checked.bias,
        output: checked.output,
        batch: batch as u64,
        m: m as u64,
        n: n as u64,
        k: k as u64,
        a_strides: strides(&step.a.layout.strides),
        b_strides: strides(&step.b.layout.strides),
    };
    let grid = Grid::x(i32::try_from(tiles).unwrap_or(i32::MAX).cast_unsigned());
    worker.launch_jit(&kernel, grid, THREADS, 0, &mut Args::new().value(product))
}

fn strides(strides: &[isize]) -> [i64; 3] {
    [0, 1, 2].map(|dim| strides.get(dim).map_or(0, |&stride| stride as i64))
}

/// What the text depends on in addition to the epilogue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    pub(super) dtype: Dtype,
    /// Whether the factors are contiguous along the dimension of the sums.
    pub(super) by_terms: [bool; 2],
    pub(super) has_bias: bool,
}

impl Variant {
    fn of(step: &MatMulStep) -> Self {
        let by_terms = [step.a.layout.strides[2] == 1, step.b.layout.strides[1] == 1];
        Self { dtype: step.output.dtype, by_terms, has_bias: step.bias.is_some() }
    }

    /// The kernel of this variant.
    pub(super) fn source(self, epilogue: Option<&Function>) -> JitSource {
        let Self { dtype, by_terms: [a, b], has_bias } = self;
        let element = ctype(dtype);
        let (emitted, store) = match epilogue {
            Some(epilogue) => (emit(epilogue, "epilogue"), "epilogue(value, index, to)"),
            None => (String::new(), "to = value"),
        };
        let (sum, widen, multiply_add, narrow) = arithmetic(dtype);
        let text = format!(
            "#include \"ir/prelude.cuh\"\n#include \"tensor/matmul.cuh\"\n\n{emitted}\n\
             struct Operands {{\n    typedef {element} Element;\n    typedef {sum} Sum;\n    \
             static __device__ __forceinline__ Sum widen(Element x) {{ return {widen}; }}\n    \
             static __device__ __forceinline__ Element narrow(Sum x) {{ return {narrow}; }}\n    \
             static __device__ __forceinline__ Sum multiply_add(Sum a, Sum b, Sum c) {{ return {multiply_add}; }}\n    \
             static __device__ __forceinline__ void store(Element value, i64 index, Element& to) {{ {store}; }}\n}};\n\n\
             extern \"C\" __global__ void __launch_bounds__({THREADS}) tensor_matmul(const MatMul product) {{\n    \
             matmul<{a}, {b}, {has_bias}, Operands>(product);\n}}\n"
        );
        let options = vec![NO_FMA.to_owned()];
        JitSource { template: "tensor_matmul", text, headers: HEADERS, options, params: vec![size_of::<MatMul>()] }
    }
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
