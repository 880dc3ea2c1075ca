//! Softmax and its logarithm of rows.

use accelerd_tensor::SoftmaxStep;

use super::{
    buffers::{Address, BufferSizes},
    launches::{Argument, Launches},
    row::{self, RowKernel, RowKernels, RowVariant, Rows},
    row_source::{RowOperand, RowSource},
};
use crate::OpError;

/// The launches of a step; none if there is no element.
pub(super) fn prepare(step: &SoftmaxStep, sizes: &BufferSizes) -> Result<Launches, OpError> {
    let dtype = step.output.dtype;
    let (count, columns) = row::check("softmax", &step.inputs, &step.output)?;
    let source = &RowSource::new("softmax", &step.inputs, &step.prologue, dtype, sizes)?;
    let y = sizes.address_mut(&step.output)?;
    if count == 0 || columns == 0 {
        return Ok(Launches::default());
    }
    let operands: Vec<_> = source.operands().chain([RowOperand { address: y, dtype }]).collect();
    let variant = RowVariant::choose(count, columns, dtype, &operands);
    let constants = format!("constexpr bool IS_LOG = {};", step.is_log);
    let rows = Rows { count, columns, dtype, source, variant, constants, header: "tensor/softmax.cuh" };
    rows.launches(&kernels(&rows, y))
}

fn kernels(rows: &Rows<'_>, y: Address) -> RowKernels {
    let word = |value: usize| Argument::Word(value as u64);
    let y = ("Element* y", Argument::Address(y));
    let columns = ("const u64 columns", word(rows.columns));
    let part = ("const u64 part", word(rows.variant.block_columns(rows.columns)));
    let count = ("const u64 rows", word(rows.count));
    RowKernels {
        registers: RowKernel::new("tensor_softmax", &[y, count, columns], "softmax_rows(x, y, rows, columns)"),
        row: RowKernel::new("tensor_softmax_long", &[y, columns], "softmax_long(x, y, columns)"),
        parts: [
            RowKernel::new(
                "tensor_softmax_parts",
                &[("RowState* states", Argument::Workspace(0)), columns, part],
                "softmax_parts(x, states, columns, part)",
            ),
            RowKernel::new(
                "tensor_softmax_scale",
                &[y, ("const RowState* states", Argument::Workspace(0)), columns, part],
                "softmax_scale(x, y, states, columns, part)",
            ),
        ],
        state_bytes: 2 * rows.dtype.compute().size(),
    }
}

#[cfg(test)]
mod tests {
    use accelerd_ir::scalar::Function;
    use accelerd_tensor::{Dtype, Layout, Location, View};

    use super::{
        super::{compile::compiles, launches::Launch, row_source::tests::prologues},
        *,
    };

    const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];

    fn step(dtype: Dtype, shape: [usize; 2], is_log: bool) -> SoftmaxStep {
        let view = |location| View { location, dtype, layout: Layout::contiguous(&shape) };
        SoftmaxStep {
            inputs: vec![view(Location::Input(0))],
            prologue: Function::conversion(dtype, dtype),
            is_log,
            output: view(Location::Output(0)),
        }
    }

    fn prepared(step: &SoftmaxStep) -> Launches {
        let sizes = BufferSizes::new(&[1 << 39; 4], &[1 << 39], 0);
        prepare(step, &sizes).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_row_is_read_once_if_it_fits_and_by_many_blocks_if_it_is_alone() {
        let geometry = |shape| {
            let geometry =
                |launch: &Launch| (launch.source.template, [launch.grid.x, launch.grid.y], launch.block_threads);
            prepared(&step(Dtype::F32, shape, false)).launches.iter().map(geometry).collect::<Vec<_>>()
        };
        assert_eq!(geometry([16384, 4096]), [("tensor_softmax", [16384, 1], 256)]);
        assert_eq!(geometry([16384, 64]), [("tensor_softmax", [1024, 1], 128)]);
        assert_eq!(geometry([500, 100_000]), [("tensor_softmax_long", [500, 1], 512)]);
        let alone = geometry([1, 1 << 20]);
        assert_eq!(alone, [("tensor_softmax_parts", [1, 128], 512), ("tensor_softmax_scale", [1, 128], 512)]);
        assert_eq!(prepared(&step(Dtype::F32, [1, 1 << 20], false)).workspace_bytes, 128 * 8);
        assert!(geometry([0, 7]).is_empty() && geometry([7, 0]).is_empty());
    }

    #[test]
    fn a_step_that_is_no_softmax_is_refused() {
        let sizes = BufferSizes::new(&[1 << 39], &[1 << 39], 0);
        let good = step(Dtype::F32, [4, 8], false);
        let refused = |step: SoftmaxStep| matches!(prepare(&step, &sizes), Err(OpError::Invalid(_)));
        assert!(refused(step(Dtype::I32, [4, 8], false)));
        let other = step(Dtype::F32, [8, 4], false);
        assert!(refused(SoftmaxStep { output: other.output, ..good.clone() }));
        let input = good.inputs[0].clone();
        let columns = View { layout: Layout::contiguous(&[8, 4]).permuted(&[1, 0]), ..input.clone() };
        assert!(refused(SoftmaxStep { inputs: vec![columns], ..good.clone() }));
        let line = View { layout: Layout::contiguous(&[32]), ..input.clone() };
        assert!(refused(SoftmaxStep { inputs: vec![line.clone()], output: line, ..good.clone() }));
        assert!(refused(SoftmaxStep { inputs: vec![], ..good.clone() }));
        assert!(refused(SoftmaxStep { inputs: vec![input; 2], ..good.clone() }));
        assert!(refused(SoftmaxStep { prologue: Function::conversion(Dtype::F32, Dtype::F64), ..good }));
    }

    #[test]
    fn every_type_and_length_compiles() {
        let mut sources = vec![];
        for (nth, dtype) in FLOATS.into_iter().enumerate() {
            for (index, shape) in
                [[1000, 3], [100, 1024], [100, 4096], [200, 40_001], [2, 99_998]].into_iter().enumerate()
            {
                let launches = prepared(&step(dtype, shape, (nth + index) % 2 == 0));
                sources.extend(launches.launches.into_iter().map(|launch| launch.source));
                let (inputs, prologue) = prologues(dtype, shape).swap_remove((nth + index) % 3);
                let launches = prepared(&SoftmaxStep { inputs, prologue, ..step(dtype, shape, index % 2 == 0) });
                sources.extend(launches.launches.into_iter().map(|launch| launch.source));
            }
        }
        compiles(&sources);
    }
}
