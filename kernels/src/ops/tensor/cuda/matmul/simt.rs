//! Products on the general-purpose cores: of integers, of strides that the library does not take, and where the library is missing.

use accelerd_ir::{Dtype, scalar::Function};
use accelerd_tensor::MatMulStep;

use super::{
    super::{
        launches::{Launch, Launches},
        operands::operands,
        prelude::{NO_FMA, PRELUDE},
    },
    Checked, LAUNCH, MATMUL_EDGE, MATMUL_THREADS, MatMul,
};
use crate::cuda::{COMMON, Grid, JitSource, Source, cu};

const HEADERS: &[Source] = &[COMMON, LAUNCH, PRELUDE, cu!("tensor/matmul.cuh")];

/// The launch of a product.
pub(super) fn prepare(step: &MatMulStep, checked: &Checked) -> Launches {
    let Checked { batch, m, n, .. } = *checked;
    let tiles =
        (batch as u64).saturating_mul(m.div_ceil(MATMUL_EDGE) as u64).saturating_mul(n.div_ceil(MATMUL_EDGE) as u64);
    Launches::one(Launch::new(
        Variant::of(step).source(step.epilogue.as_ref()),
        Grid::x(i32::try_from(tiles).unwrap_or(i32::MAX).cast_unsigned()),
        MATMUL_THREADS,
        checked.arguments(step),
    ))
}

/// The parameters of the text in addition to the epilogue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    pub(super) dtype: Dtype,
    /// True if the factors are contiguous along the dimension of the sums.
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
             extern \"C\" __global__ void __launch_bounds__({MATMUL_THREADS}) tensor_matmul(const MatMul product) {{\n    \
             matmul<{a}, {b}, {has_bias}, Operands>(product);\n}}\n"
        );
        let options = vec![NO_FMA.to_owned()];
        JitSource { template: "tensor_matmul", text, headers: HEADERS, options, params: vec![size_of::<MatMul>()] }
    }
}
