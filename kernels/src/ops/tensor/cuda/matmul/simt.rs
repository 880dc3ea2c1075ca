//! Products on the general-purpose cores: of integers, of strides that the library does not take, and where the library is missing.

use accelerd_ir::{Dtype, scalar::Function};
use accelerd_tensor::MatMulStep;

use super::{
    super::{
        launches::{Argument, Launch, Launches},
        operands::operands,
        prelude::{NO_FMA, PRELUDE},
    },
    Checked,
};
use crate::cuda::{COMMON, Grid, JitSource, Source, cu, launch_structs};

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

/// The launch of a product.
pub(super) fn prepare(step: &MatMulStep, checked: &Checked) -> Launches {
    let Checked { batch, m, n, k, .. } = *checked;
    let tiles = (batch as u64).saturating_mul(m.div_ceil(EDGE) as u64).saturating_mul(n.div_ceil(EDGE) as u64);
    let product = MatMul {
        a: 0,
        b: 0,
        bias: 0,
        output: 0,
        batch: batch as u64,
        m: m as u64,
        n: n as u64,
        k: k as u64,
        a_strides: strides(&step.a.layout.strides),
        b_strides: strides(&step.b.layout.strides),
    };
    Launches::one(Launch {
        source: Variant::of(step).source(step.epilogue.as_ref()),
        grid: Grid::x(i32::try_from(tiles).unwrap_or(i32::MAX).cast_unsigned()),
        waves: None,
        block_threads: THREADS,
        shared_bytes: 0,
        arguments: Argument::structure(product, &[checked.a, checked.b, checked.bias, checked.output]),
    })
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
        let operands = operands(dtype, epilogue, "");
        let text = format!(
            "#include \"ir/prelude.cuh\"\n#include \"tensor/matmul.cuh\"\n\n{operands}\n\
             extern \"C\" __global__ void __launch_bounds__({THREADS}) tensor_matmul(const MatMul product) {{\n    \
             matmul<{a}, {b}, {has_bias}, Operands>(product);\n}}\n"
        );
        let options = vec![NO_FMA.to_owned()];
        JitSource { template: "tensor_matmul", text, headers: HEADERS, options, params: vec![size_of::<MatMul>()] }
    }
}
