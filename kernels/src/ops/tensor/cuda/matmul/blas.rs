//! Products by cuBLASLt.

use accelerd_tensor::{Accumulate, Dtype, Layout, MatMulStep};

use crate::cuda::{Compute, Element, Epilogue, Product};

/// The library's description of a step, with a bias if it adds one; `None` if it does not multiply such types or strides.
pub(super) fn product(step: &MatMulStep) -> Option<Product> {
    let element = match step.output.dtype {
        Dtype::F64 => Element::F64,
        Dtype::F32 => Element::F32,
        Dtype::F16 => Element::F16,
        Dtype::Bf16 => Element::Bf16,
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64 => return None,
    };
    let &[batch, m, n] = &step.output.layout.shape[..] else { return None };
    let a = Factor::new(&step.a.layout)?;
    let b = Factor::new(&step.b.layout)?;
    let compute = if step.accumulate == Accumulate::Tf32 { Compute::Tf32 } else { Compute::F32 };
    let epilogue = if adds_bias(step) { Epilogue::Bias } else { Epilogue::None };
    if epilogue == Epilogue::Bias && !step.bias.as_ref().is_none_or(MatMulStep::is_bias_aligned) {
        return None;
    }
    Some(Product {
        compute,
        epilogue,
        batch,
        transpose_a: a.is_transposed,
        transpose_b: b.is_transposed,
        lda: a.leading,
        ldb: b.leading,
        stride_a: a.batch_stride,
        stride_b: b.batch_stride,
        stride_c: m * n,
        ..Product::of(element, element, m, n, step.a.layout.shape[2])
    })
}

/// Returns true if the library adds the bias of a step before it rounds the sum; it does not for f64.
pub(super) fn adds_bias(step: &MatMulStep) -> bool {
    step.bias.is_some() && step.output.dtype != Dtype::F64
}

/// The layout of a batch of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Factor {
    is_transposed: bool,
    leading: usize,
    batch_stride: usize,
}

impl Factor {
    /// The factor of a layout of `[batch, rows, columns]`; `None` if neither rows nor columns are contiguous.
    fn new(layout: &Layout) -> Option<Self> {
        let (&[batch, rows, columns], &[batch_stride, row_stride, column_stride]) =
            (&layout.shape[..], &layout.strides[..])
        else {
            return None;
        };
        let leading = |stride: isize, contiguous: usize| usize::try_from(stride).ok().filter(|s| *s >= contiguous);
        let by_rows = leading(row_stride, columns).filter(|_| column_stride == 1).map(|leading| (false, leading));
        let by_columns = || leading(column_stride, rows).filter(|_| row_stride == 1).map(|leading| (true, leading));
        let (is_transposed, leading) = by_rows.or_else(by_columns)?;
        let batch_stride = if batch == 1 { 0 } else { usize::try_from(batch_stride).ok()? };
        Some(Self { is_transposed, leading, batch_stride })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_stored_by_rows_or_by_columns() {
        let matrices = Layout::contiguous(&[2, 3, 5]);
        let factor = |layout: &Layout| {
            Factor::new(layout).map(|factor| (factor.is_transposed, factor.leading, factor.batch_stride))
        };
        assert_eq!(factor(&matrices), Some((false, 5, 15)));
        assert_eq!(factor(&matrices.permuted(&[0, 2, 1])), Some((true, 5, 15)));
        assert_eq!(factor(&matrices.sliced(2, 1, 3, 1)), Some((false, 5, 15)), "rows of a wider matrix");
        assert_eq!(factor(&matrices.sliced(0, 0, 1, 1)), Some((false, 5, 0)));
        let shared = Layout::contiguous(&[1, 3, 5]).broadcast(&[4, 3, 5]).expect("broadcasts");
        assert_eq!(factor(&shared), Some((false, 5, 0)));
    }

    #[test]
    fn strides_that_the_library_lacks_are_refused() {
        let matrices = Layout::contiguous(&[2, 4, 6]);
        for layout in [
            matrices.sliced(2, 0, 3, 2),
            matrices.sliced(1, 3, 4, -1),
            matrices.sliced(0, 1, 2, -1),
            Layout::contiguous(&[2, 1, 6]).broadcast(&[2, 4, 6]).expect("broadcasts"),
            matrices.permuted(&[2, 1, 0]),
        ] {
            assert_eq!(Factor::new(&layout), None, "{layout:?}");
        }
    }
}
