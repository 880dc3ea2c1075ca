//! Products of matrices: with an epilogue in one launch on Hopper, by cuBLASLt, or on the general-purpose cores where the library does not multiply.

mod blas;
mod simt;
mod sm90;
#[cfg(test)]
mod tests;

use accelerd_ir::scalar::{BinaryOp, Builder, Function, TypeError};
use accelerd_tensor::{Dtype, MapStep, MatMulStep, View};

use super::{
    buffers::{Address, BufferSizes},
    launches::{Argument, Launches, ProductLaunch},
    map,
};
use crate::{
    OpError,
    cuda::{Product, Worker, launch_structs},
};

launch_structs! {
    header LAUNCH = "tensor/matmul_launch.cuh";

    /// Rows and columns of a block's tile on the general-purpose cores.
    const MATMUL_EDGE: usize = 64;
    const MATMUL_THREADS: u32 = 256;
    /// The pipeline of the kernel for Hopper: stages of k tiles, and staging buffers of each consumer warp. A store reads one while the
    /// other is filled.
    const LINEAR_STAGES: usize = 4;
    const LINEAR_BUFFERS: usize = 2;
    /// Boxes of its tensor maps: the columns of all, and the rows of both factors and of the results.
    const BOX_COLUMNS: u32 = 64;
    const A_BOX_ROWS: u32 = 128;
    const B_BOX_ROWS: u32 = 96;
    const OUTPUT_BOX_ROWS: u32 = 16;

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

/// The launches of a step; the library creates its plan of the product.
pub(super) fn prepare(step: &MatMulStep, sizes: &BufferSizes, worker: &Worker) -> Result<Launches, OpError> {
    let checked = Checked::new(step, sizes)?;
    if checked.is_empty() {
        return Ok(Launches::default());
    }
    if checked.k == 0 {
        return map::prepare(&without_terms(step)?, sizes);
    }
    if let Some(launches) = sm90::prepare(step, &checked, worker.compute_capability())? {
        return Ok(launches);
    }
    let Some(product) = blas::product(step).map(|product| checked.product(product)) else {
        return Ok(simt::prepare(step, &checked));
    };
    match product.prepare(worker) {
        // The library is missing, or does not multiply this.
        Err(OpError::Failed { .. }) => Ok(simt::prepare(step, &checked)),
        Err(error) => Err(error),
        Ok(()) => {
            let rest = rest(step)?.map(|rest| map::prepare(&rest, sizes)).transpose()?;
            Ok(Launches { product: Some(product), ..rest.unwrap_or_default() })
        }
    }
}

/// The rest of the step that the library does not compute, in place.
fn rest(step: &MatMulStep) -> Result<Option<MapStep>, OpError> {
    let bias = step.bias.as_ref().filter(|_| !blas::adds_bias(step));
    if bias.is_none() && step.epilogue.is_none() {
        return Ok(None);
    }
    elementwise(step, true, bias).map(Some)
}

/// The step for sums without terms.
fn without_terms(step: &MatMulStep) -> Result<MapStep, OpError> {
    elementwise(step, false, step.bias.as_ref())
}

/// `output = epilogue(output + bias)`, or from 0 instead of the output.
fn elementwise(step: &MatMulStep, reads_output: bool, bias: Option<&View>) -> Result<MapStep, OpError> {
    let shape = step.output.layout.shape.clone();
    let mut inputs: Vec<View> = if reads_output { vec![step.output.clone()] } else { vec![] };
    if let Some(bias) = bias {
        let layout = bias.layout.broadcast(&shape).ok_or_else(|| invalid("a bias for each column"))?;
        inputs.push(View { layout, ..bias.clone() });
    }
    let function = sum(step.output.dtype, inputs.len(), step.epilogue.as_ref()).map_err(|e| invalid(&e.to_string()))?;
    Ok(MapStep { shape, inputs, function, outputs: vec![step.output.clone()] })
}

/// The epilogue of the sum of `params` parameters.
fn sum(dtype: Dtype, params: usize, epilogue: Option<&Function>) -> Result<Function, TypeError> {
    let mut builder = Builder::new(&vec![dtype; params]);
    let mut sum = None;
    for nth in 0..params {
        let value = builder.param(nth);
        let value = builder.cast(value, dtype.compute());
        sum = Some(match sum {
            Some(sum) => builder.binary(BinaryOp::Add, sum, value)?,
            None => value,
        });
    }
    let sum = sum.unwrap_or_else(|| builder.number(dtype.compute(), 0.0));
    let rounded = builder.cast(sum, dtype);
    let results = epilogue.map_or(vec![rounded], |epilogue| builder.call(epilogue, &[rounded]));
    Ok(builder.finish(&results))
}

/// Extents and addresses of a step whose views fit each other.
#[derive(Clone, Copy, Debug)]
struct Checked {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    a: Address,
    b: Address,
    /// Null without a bias.
    bias: Address,
    output: Address,
}

impl Checked {
    fn new(step: &MatMulStep, sizes: &BufferSizes) -> Result<Self, OpError> {
        let (&[batch, m, n], &[_, _, k]) = (&step.output.layout.shape[..], &step.a.layout.shape[..]) else {
            return Err(invalid("matrices of three dimensions"));
        };
        if step.a.layout.shape != [batch, m, k] || step.b.layout.shape != [batch, k, n] {
            return Err(invalid("factors of equal inner extents"));
        }
        let dtype = step.output.dtype;
        if step.a.dtype != dtype || step.b.dtype != dtype || !step.output.layout.is_contiguous() {
            return Err(invalid("factors of the type of a contiguous result"));
        }
        let is_fitting = |bias: &View| bias.dtype == dtype && bias.layout.shape == [n] && bias.layout.is_contiguous();
        if !step.bias.as_ref().is_none_or(is_fitting) {
            return Err(invalid("a contiguous bias with an element of the result's type for each column"));
        }
        let is_unary = |f: &Function| f.params() == [dtype] && matches!(f.results(), [only] if f.dtype(*only) == dtype);
        if !step.epilogue.as_ref().is_none_or(is_unary) {
            return Err(invalid("an epilogue of one parameter and one result of the result's type"));
        }
        let bias = step.bias.as_ref().map_or(Ok(Address::Null), |bias| sizes.address(bias))?;
        let a = sizes.address(&step.a)?;
        let b = sizes.address(&step.b)?;
        Ok(Self { batch, m, n, k, a, b, bias, output: sizes.address_mut(&step.output)? })
    }

    fn product(&self, product: Product) -> ProductLaunch {
        ProductLaunch { product, a: self.a, b: self.b, output: self.output, bias: self.bias }
    }

    /// The arguments of a kernel that takes the product.
    fn arguments(&self, step: &MatMulStep) -> Vec<Argument> {
        let strides =
            |view: &View| [0, 1, 2].map(|dim| view.layout.strides.get(dim).map_or(0, |&stride| stride as i64));
        let product = MatMul {
            a: 0,
            b: 0,
            bias: 0,
            output: 0,
            batch: self.batch as u64,
            m: self.m as u64,
            n: self.n as u64,
            k: self.k as u64,
            a_strides: strides(&step.a),
            b_strides: strides(&step.b),
        };
        Argument::structure(product, &[self.a, self.b, self.bias, self.output])
    }

    fn is_empty(&self) -> bool {
        self.batch == 0 || self.m == 0 || self.n == 0
    }
}

fn invalid(expected: &str) -> OpError {
    OpError::Invalid(format!("a product of matrices: expected {expected}"))
}
