//! Layer norm and RMS norm of rows.

use accelerd_tensor::{NormKind, NormStep, View};

use super::{
    buffers::{Address, BufferSizes},
    launches::{Argument, Launches},
    row::{self, RowKernel, RowKernels, RowVariant, Rows},
    row_source::{RowOperand, RowSource},
};
use crate::OpError;

/// The launches of a step; none if there is no element.
pub(super) fn prepare(step: &NormStep, sizes: &BufferSizes) -> Result<Launches, OpError> {
    let dtype = step.output.dtype;
    let (count, columns) = row::check("a norm", &step.inputs, &step.output)?;
    let source = &RowSource::new("a norm", &step.inputs, &step.prologue, dtype, sizes)?;
    let y = sizes.address_mut(&step.output)?;
    let affine = |view: &Option<View>| view.as_ref().map(|view| affine(view, step, columns, sizes)).transpose();
    let weight = affine(&step.weight)?;
    let bias = affine(&step.bias)?;
    if count == 0 || columns == 0 {
        return Ok(Launches::default());
    }
    let others = [Some(y), weight, bias].into_iter().flatten().map(|address| RowOperand { address, dtype });
    let variant = RowVariant::choose(count, columns, dtype, &source.operands().chain(others).collect::<Vec<_>>());
    let constants = format!(
        "constexpr bool IS_LAYER = {}, HAS_WEIGHT = {}, HAS_BIAS = {};",
        step.kind == NormKind::Layer,
        weight.is_some(),
        bias.is_some()
    );
    let rows = Rows { count, columns, dtype, source, variant, constants, header: "tensor/norm.cuh" };
    let operands = Operands { y, weight: weight.unwrap_or(Address::Null), bias: bias.unwrap_or(Address::Null) };
    rows.launches(&operands.kernels(&rows, step))
}

/// The address of weight or bias.
fn affine(view: &View, step: &NormStep, columns: usize, sizes: &BufferSizes) -> Result<Address, OpError> {
    let layout = &view.layout;
    if view.dtype != step.output.dtype
        || layout.shape != [columns]
        || layout.strides.len() != 1
        || !layout.is_contiguous()
    {
        let dtype = step.output.dtype;
        return Err(OpError::Invalid(format!("a norm: expected weight and bias of {columns} contiguous {dtype}")));
    }
    sizes.address(view)
}

/// Addresses of the operands but the source.
struct Operands {
    y: Address,
    weight: Address,
    bias: Address,
}

impl Operands {
    fn kernels(&self, rows: &Rows<'_>, step: &NormStep) -> RowKernels {
        let word = |value: usize| Argument::Word(value as u64);
        let y = ("Element* y", Argument::Address(self.y));
        let weight = ("const Element* weight", Argument::Address(self.weight));
        let bias = ("const Element* bias", Argument::Address(self.bias));
        let count = ("const u64 rows", word(rows.count));
        let columns = ("const u64 columns", word(rows.columns));
        let part = ("const u64 part", word(rows.variant.block_columns(rows.columns)));
        let epsilon = ("const double epsilon", Argument::F64(f64::from_bits(step.eps_bits)));
        RowKernels {
            registers: RowKernel::new(
                "tensor_norm",
                &[weight, bias, y, count, columns, epsilon],
                "norm_rows(x, Affine{weight, bias}, y, rows, columns, epsilon)",
            ),
            row: RowKernel::new(
                "tensor_norm_long",
                &[weight, bias, y, columns, epsilon],
                "norm_long(x, Affine{weight, bias}, y, columns, epsilon)",
            ),
            parts: [
                RowKernel::new(
                    "tensor_norm_parts",
                    &[("RowState* states", Argument::Workspace(0)), columns, part],
                    "norm_parts(x, states, columns, part)",
                ),
                RowKernel::new(
                    "tensor_norm_scale",
                    &[weight, bias, y, ("const RowState* states", Argument::Workspace(0)), columns, part, epsilon],
                    "norm_scale(x, Affine{weight, bias}, y, states, columns, part, epsilon)",
                ),
            ],
            // Of the part as it is, and shrunk.
            state_bytes: 2 * rows.dtype.compute().size() * if step.kind == NormKind::Layer { 3 } else { 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use accelerd_ir::scalar::Function;
    use accelerd_tensor::{Dtype, Layout, Location};

    use super::{
        super::{compile::compiles, launches::Launch, row_source::tests::prologues},
        *,
    };

    const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];

    /// A norm with the first `affine` of weight and bias.
    fn step(dtype: Dtype, shape: [usize; 2], kind: NormKind, affine: usize) -> NormStep {
        let view = |location, shape: &[usize]| View { location, dtype, layout: Layout::contiguous(shape) };
        let parameter = |nth: usize| (nth <= affine).then(|| view(Location::Input(nth), &shape[1..]));
        NormStep {
            inputs: vec![view(Location::Input(0), &shape)],
            prologue: Function::conversion(dtype, dtype),
            kind,
            eps_bits: 1e-5_f64.to_bits(),
            weight: parameter(1),
            bias: parameter(2),
            output: view(Location::Output(0), &shape),
        }
    }

    fn sizes() -> BufferSizes {
        BufferSizes::new(&[1 << 39; 4], &[1 << 39], 0)
    }

    fn prepared(step: &NormStep) -> Launches {
        prepare(step, &sizes()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_row_is_read_once_if_it_fits_and_by_many_blocks_if_it_is_alone() {
        let geometry = |shape| {
            let geometry =
                |launch: &Launch| (launch.source.template, [launch.grid.x, launch.grid.y], launch.block_threads);
            prepared(&step(Dtype::F32, shape, NormKind::Layer, 2)).launches.iter().map(geometry).collect::<Vec<_>>()
        };
        assert_eq!(geometry([16384, 4096]), [("tensor_norm", [16384, 1], 256)]);
        assert_eq!(geometry([500, 100_000]), [("tensor_norm_long", [500, 1], 512)]);
        let few = geometry([8, 1 << 20]);
        assert_eq!(few, [("tensor_norm_parts", [8, 64], 512), ("tensor_norm_scale", [8, 64], 512)]);
        assert_eq!(prepared(&step(Dtype::F32, [8, 1 << 20], NormKind::Layer, 0)).workspace_bytes, 8 * 64 * 24);
        assert_eq!(prepared(&step(Dtype::F32, [8, 1 << 20], NormKind::Rms, 0)).workspace_bytes, 8 * 64 * 8);
        assert!(geometry([0, 7]).is_empty() && geometry([7, 0]).is_empty());
    }

    #[test]
    fn epsilon_is_an_argument_and_not_a_part_of_the_kernel() {
        let [first, second] = [1e-5, 1e-3].map(|eps: f64| {
            let step = NormStep { eps_bits: eps.to_bits(), ..step(Dtype::F64, [4, 8], NormKind::Rms, 1) };
            prepared(&step).launches.remove(0)
        });
        assert_eq!(first.source, second.source);
        assert!(first.arguments.contains(&Argument::F64(1e-5)) && second.arguments.contains(&Argument::F64(1e-3)));
    }

    #[test]
    fn weight_and_bias_of_other_types_or_shapes_are_refused() {
        let good = step(Dtype::F32, [4, 8], NormKind::Layer, 2);
        let refused = |step: NormStep| matches!(prepare(&step, &sizes()), Err(OpError::Invalid(_)));
        let weight = |dtype, shape: &[usize]| {
            Some(View { location: Location::Input(1), dtype, layout: Layout::contiguous(shape) })
        };
        assert!(!refused(NormStep { weight: weight(Dtype::F32, &[8]), ..good.clone() }));
        assert!(refused(NormStep { weight: weight(Dtype::F16, &[8]), ..good.clone() }));
        assert!(refused(NormStep { weight: weight(Dtype::F32, &[9]), ..good.clone() }));
        assert!(refused(NormStep { bias: weight(Dtype::F32, &[1, 8]), ..good.clone() }));
        assert!(refused(step(Dtype::I8, [4, 8], NormKind::Layer, 0)));
    }

    #[test]
    fn every_type_length_and_kind_compiles() {
        let mut sources = vec![];
        let shapes = [[1000, 3], [100, 1024], [100, 4096], [200, 40_001], [2, 99_998]];
        for (nth, dtype) in FLOATS.into_iter().enumerate() {
            for (index, shape) in shapes.into_iter().enumerate() {
                let kind = if (nth + index) % 2 == 0 { NormKind::Layer } else { NormKind::Rms };
                let step = step(dtype, shape, kind, (nth + index / 2) % 3);
                sources.extend(prepared(&step).launches.into_iter().map(|launch| launch.source));
                let (inputs, prologue) = prologues(dtype, shape).swap_remove((nth + index) % 3);
                let launches = prepared(&NormStep { inputs, prologue, ..step });
                sources.extend(launches.launches.into_iter().map(|launch| launch.source));
            }
        }
        compiles(&sources);
    }
}
