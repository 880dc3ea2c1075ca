//! Executes plans one element at a time: functions by [`interpret`], floating-point sums in f64 with compensation, integers exactly. Backends are compared
//! with it.
//!
//! It trusts plan and inputs, and panics where they do not fit.

use accelerd_tensor::{
    Accumulate, ArgReduction, Dtype, Layout, Location, MapStep, MatMulStep, NormKind, NormStep, Plan, ReduceStep,
    Reduction, SoftmaxStep, Step, View,
    scalar::{Function, Literal, interpret},
};

/// The outputs of a plan, little-endian.
pub fn execute(plan: &Plan, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut memory = Memory {
        inputs: inputs.iter().map(|bytes| bytes.to_vec()).collect(),
        outputs: plan.outputs.iter().map(|of| vec![0; of.bytes()]).collect(),
        arena: vec![0; plan.arena_bytes],
    };
    for step in &plan.steps {
        match step {
            Step::Map(step) => memory.map(step),
            Step::Reduce(step) => memory.reduce(step),
            Step::ArgReduce(step) => memory.arg_reduce(step),
            Step::Softmax(step) => memory.softmax(step),
            Step::Norm(step) => memory.norm(step),
            Step::MatMul(step) => memory.matmul(step),
        }
    }
    memory.outputs
}

struct Memory {
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    arena: Vec<u8>,
}

/// All indices of a shape, row-major.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |indices, extent| {
        indices.iter().flat_map(|index| (0..*extent).map(move |at| [index.as_slice(), &[at]].concat())).collect()
    })
}

fn position(layout: &Layout, index: &[usize]) -> usize {
    let moved: isize = index.iter().zip(&layout.strides).map(|(at, stride)| at.cast_signed() * stride).sum();
    usize::try_from(layout.offset.cast_signed() + moved).expect("indices of a view have positions")
}

impl Memory {
    fn load(&self, view: &View, index: &[usize]) -> Literal {
        let (buffer, start) = match view.location {
            Location::Input(nth) => (&self.inputs[nth], 0),
            Location::Output(nth) => (&self.outputs[nth], 0),
            Location::Arena(start) => (&self.arena, start),
        };
        let size = view.dtype.size();
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(&buffer[start + position(&view.layout, index) * size..][..size]);
        Literal::from_bits(view.dtype, u64::from_le_bytes(bits))
    }

    fn store(&mut self, view: &View, index: &[usize], value: Literal) {
        assert_eq!(value.dtype(), view.dtype, "a value has the type of its view");
        let (buffer, start) = match view.location {
            Location::Input(_) => panic!("inputs are not written"),
            Location::Output(nth) => (&mut self.outputs[nth], 0),
            Location::Arena(start) => (&mut self.arena, start),
        };
        let size = view.dtype.size();
        let bytes = value.bits().to_le_bytes();
        buffer[start + position(&view.layout, index) * size..][..size].copy_from_slice(&bytes[..size]);
    }

    /// A function of the elements of views at an index.
    fn call(&self, function: &Function, views: &[View], index: &[usize], nth: usize) -> Vec<Literal> {
        let arguments: Vec<_> = views.iter().map(|view| self.load(view, index)).collect();
        interpret(function, &arguments, to_i64(nth))
    }

    fn map(&mut self, step: &MapStep) {
        for (nth, index) in indices(&step.shape).iter().enumerate() {
            let results = self.call(&step.function, &step.inputs, index, nth);
            for (view, result) in step.outputs.iter().zip(results) {
                self.store(view, index, result);
            }
        }
    }

    fn reduce(&mut self, step: &ReduceStep) {
        let inner = indices(&step.inner);
        for (row, outer) in indices(&step.outer).iter().enumerate() {
            let values: Vec<Literal> = inner
                .iter()
                .enumerate()
                .map(|(nth, inner)| {
                    let index = [outer.as_slice(), inner].concat();
                    self.call(&step.prologue, &step.inputs, &index, row * step.inner.iter().product::<usize>() + nth)[0]
                })
                .collect();
            let combined = combine(step.reduction, step.accumulate, &values);
            let result = interpret(&step.epilogue, &[combined], to_i64(row))[0];
            self.store(&step.output, outer, result);
        }
    }

    fn arg_reduce(&mut self, step: &ArgReduction) {
        let inner = indices(&step.inner);
        for outer in indices(&step.outer) {
            let value = |nth: usize| self.load(&step.input, &[outer.as_slice(), &inner[nth]].concat());
            let mut best = 0;
            for nth in 1..inner.len() {
                if exceeds(value(nth), value(best), step.is_max) {
                    best = nth;
                }
            }
            self.store(&step.output, &outer, Literal::from_i64(Dtype::I64, to_i64(best)));
        }
    }

    fn row(&self, view: &View, row: usize) -> Vec<f64> {
        (0..view.layout.shape[1]).map(|column| self.load(view, &[row, column]).as_f64()).collect()
    }

    fn store_row(&mut self, view: &View, row: usize, values: &[f64]) {
        for (column, value) in values.iter().enumerate() {
            self.store(view, &[row, column], Literal::from_f64(view.dtype, *value));
        }
    }

    fn softmax(&mut self, step: &SoftmaxStep) {
        for row in 0..step.input.layout.shape[0] {
            let values = self.row(&step.input, row);
            let greatest = values.iter().copied().reduce(maximum).unwrap_or(0.0);
            let sum = sum(values.iter().map(|x| (x - greatest).exp()));
            let of = |x: &f64| if step.is_log { x - greatest - sum.ln() } else { (x - greatest).exp() / sum };
            self.store_row(&step.output, row, &values.iter().map(of).collect::<Vec<_>>());
        }
    }

    fn norm(&mut self, step: &NormStep) {
        let eps = f64::from_bits(step.eps_bits);
        for row in 0..step.input.layout.shape[0] {
            let values = self.row(&step.input, row);
            let count = values.len() as f64;
            let mean = match step.kind {
                NormKind::Layer => sum(values.iter().copied()) / count,
                NormKind::Rms => 0.0,
            };
            let variance = sum(values.iter().map(|x| (x - mean) * (x - mean))) / count;
            let of = |(column, x): (usize, &f64)| {
                let at = |view: &Option<View>| view.as_ref().map(|view| self.load(view, &[column]).as_f64());
                (x - mean) / (variance + eps).sqrt() * at(&step.weight).unwrap_or(1.0) + at(&step.bias).unwrap_or(0.0)
            };
            let normalized: Vec<f64> = values.iter().enumerate().map(of).collect();
            self.store_row(&step.output, row, &normalized);
        }
    }

    fn matmul(&mut self, step: &MatMulStep) {
        let inner = step.a.layout.shape[2];
        for (nth, index) in indices(&step.output.layout.shape).iter().enumerate() {
            let (batch, row, column) = (index[0], index[1], index[2]);
            let bias = step.bias.as_ref().map(|bias| self.load(bias, &[column]));
            let factors = |k: usize| (self.load(&step.a, &[batch, row, k]), self.load(&step.b, &[batch, k, column]));
            let mut result = match step.accumulate {
                Accumulate::Wrapping => {
                    let products = (0..inner).map(factors).map(|(a, b)| integer(a).wrapping_mul(integer(b)));
                    let sum = products.chain(bias.map(integer)).fold(0, i128::wrapping_add);
                    from_integer(step.output.dtype, sum)
                }
                Accumulate::F32 | Accumulate::Tf32 | Accumulate::F64 => {
                    let products = (0..inner).map(factors).map(|(a, b)| a.as_f64() * b.as_f64());
                    Literal::from_f64(
                        step.output.dtype,
                        products.chain(bias.map(Literal::as_f64)).fold(0.0, |sum, x| sum + x),
                    )
                }
            };
            if let Some(epilogue) = &step.epilogue {
                result = interpret(epilogue, &[result], to_i64(nth))[0];
            }
            self.store(&step.output, index, result);
        }
    }
}

fn to_i64(nth: usize) -> i64 {
    i64::try_from(nth).expect("few elements")
}

/// The value of an integer or bool.
fn integer(value: Literal) -> i128 {
    if value.dtype() == Dtype::U64 { i128::from(value.bits()) } else { i128::from(value.as_i64()) }
}

/// Wraps.
fn from_integer(dtype: Dtype, value: i128) -> Literal {
    #[expect(clippy::cast_possible_truncation, reason = "wraps")]
    Literal::from_i64(dtype, value as i64)
}

/// The sum with about twice the precision of f64: Neumaier's compensated summation.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0);
    for x in values {
        let next = sum + x;
        lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        sum = next;
    }
    // Infinities leave NaN as what was lost.
    if sum.is_finite() { sum + lost } else { sum }
}

/// `f64::max` prefers numbers to NaN.
fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || a >= b { a } else { b }
}

/// Whether a later value is sought rather than an earlier one.
fn exceeds(later: Literal, earlier: Literal, is_max: bool) -> bool {
    if later.dtype().is_float() {
        let (later, earlier) = (later.as_f64(), earlier.as_f64());
        let is_further = if is_max { later > earlier } else { later < earlier };
        return !earlier.is_nan() && (later.is_nan() || is_further);
    }
    let (later, earlier) = (integer(later), integer(earlier));
    if is_max { later > earlier } else { later < earlier }
}

fn combine(reduction: Reduction, dtype: Dtype, values: &[Literal]) -> Literal {
    if !dtype.is_float() {
        return combine_integers(reduction, dtype, values);
    }
    let values: Vec<f64> = values.iter().map(|value| value.as_f64()).collect();
    let count = values.len() as f64;
    let result = match reduction {
        Reduction::Sum => sum(values.iter().copied()),
        Reduction::Prod => values.iter().product(),
        Reduction::Max => values.iter().copied().reduce(maximum).expect("the maximum of some values"),
        Reduction::Min => -values.iter().map(|x| -x).reduce(maximum).expect("the minimum of some values"),
        Reduction::LogSumExp => {
            let greatest = values.iter().copied().fold(f64::NEG_INFINITY, maximum);
            if greatest.is_infinite() {
                greatest
            } else {
                greatest + sum(values.iter().map(|x| (x - greatest).exp())).ln()
            }
        }
        Reduction::SquaredDeviations => {
            let mean = sum(values.iter().copied()) / count;
            sum(values.iter().map(|x| (x - mean) * (x - mean)))
        }
    };
    Literal::from_f64(dtype, result)
}

fn combine_integers(reduction: Reduction, dtype: Dtype, values: &[Literal]) -> Literal {
    let mut values = values.iter().copied().map(integer);
    let result = match reduction {
        Reduction::Sum => values.fold(0, i128::wrapping_add),
        Reduction::Prod => values.fold(1_i128, |product, x| integer(from_integer(dtype, product.wrapping_mul(x)))),
        Reduction::Max if dtype == Dtype::Bool => values.fold(0, i128::max),
        Reduction::Min if dtype == Dtype::Bool => values.fold(1, i128::min),
        Reduction::Max => values.max().expect("the maximum of some values"),
        Reduction::Min => values.min().expect("the minimum of some values"),
        Reduction::LogSumExp | Reduction::SquaredDeviations => {
            values.next();
            panic!("{reduction:?} reduces floating-point numbers")
        }
    };
    from_integer(dtype, result)
}
