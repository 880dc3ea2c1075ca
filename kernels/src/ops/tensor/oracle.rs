//! Executes plans one element at a time: functions by [`interpret`], floating-point sums in f64 with compensation, integers exactly. Backends are compared
//! with it.
//!
//! It trusts plan and inputs, and panics where they do not fit.

use std::cmp::Ordering;

use accelerd_tensor::{
    Accumulate, ArgReduction, AttentionStep, ConvStep, Divisor, Dtype, IndexStep, Layout, Location, MapStep,
    MatMulStep, NormKind, NormStep, Plan, PoolKind, PoolStep, PoolWindows, ReduceStep, Reduction, ScanKind, ScanStep,
    SoftmaxStep, SortStep, Step, View, Windows,
    scalar::{Function, Literal, interpret},
};

/// The outputs of a plan, little-endian.
pub fn execute(plan: &Plan, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut memory = Memory {
        inputs: inputs.iter().map(|bytes| bytes.to_vec()).collect(),
        outputs: plan.outputs.iter().map(|ty| vec![0; ty.bytes()]).collect(),
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
            Step::Index(step) => memory.index(step),
            Step::Scan(step) => memory.scan(step),
            Step::Sort(step) => memory.sort(step),
            Step::Conv(step) => memory.conv(step),
            Step::Pool(step) => memory.pool(step),
            Step::Attention(step) => memory.attention(step),
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
struct Indices {
    /// One after another.
    flat: Vec<usize>,
    rank: usize,
    count: usize,
}

impl Indices {
    fn iter(&self) -> impl Iterator<Item = &[usize]> {
        (0..self.count).map(|nth| &self.flat[nth * self.rank..][..self.rank])
    }
}

fn indices(shape: &[usize]) -> Indices {
    let rank = shape.len();
    let count = shape.iter().product();
    let mut flat = Vec::with_capacity(count * rank);
    let mut index = vec![0; rank];
    for _ in 0..count {
        flat.extend_from_slice(&index);
        for (position, extent) in index.iter_mut().zip(shape).rev() {
            *position += 1;
            if *position < *extent {
                break;
            }
            *position = 0;
        }
    }
    Indices { flat, rank, count }
}

fn position(layout: &Layout, index: &[usize]) -> usize {
    let moved: isize =
        index.iter().zip(&layout.strides).map(|(position, stride)| position.cast_signed() * stride).sum();
    usize::try_from(layout.offset.cast_signed() + moved).expect("indices of a view have positions")
}

/// Numbers of a view, which are converted once: those of products are read many times.
struct Numbers<T = f64> {
    /// Row-major.
    values: Vec<T>,
    shape: Vec<usize>,
}

impl<T: Copy> Numbers<T> {
    fn at(&self, index: &[usize]) -> T {
        self.values[self.position(index)]
    }

    /// The last dimension at an index of the others.
    fn row(&self, index: &[usize]) -> &[T] {
        let length = self.shape[index.len()];
        &self.values[self.position(index) * length..][..length]
    }

    fn position(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.shape).fold(0, |position, (offset, extent)| position * extent + offset)
    }
}

impl Memory {
    fn numbers(&self, view: &View) -> Numbers {
        self.converted(view, Literal::as_f64)
    }

    fn converted<T>(&self, view: &View, convert: impl Fn(Literal) -> T) -> Numbers<T> {
        let shape = view.layout.shape.clone();
        let values = indices(&shape).iter().map(|index| convert(self.load(view, index))).collect();
        Numbers { values, shape }
    }

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
        let count = inner.count;
        for (row, outer) in indices(&step.outer).iter().enumerate() {
            let values: Vec<Literal> = inner
                .iter()
                .enumerate()
                .map(|(nth, inner)| {
                    let index = [outer, inner].concat();
                    self.call(&step.prologue, &step.inputs, &index, row * count + nth)[0]
                })
                .collect();
            let combined = combine(step.reduction, step.accumulate, &values);
            let result = interpret(&step.epilogue, &[combined], to_i64(row))[0];
            self.store(&step.output, outer, result);
        }
    }

    fn arg_reduce(&mut self, step: &ArgReduction) {
        let inner = indices(&step.inner);
        for outer in indices(&step.outer).iter() {
            let value = |inner: &[usize]| self.load(&step.input, &[outer, inner].concat());
            let values: Vec<_> = inner.iter().map(value).collect();
            let mut best = 0;
            for nth in 1..values.len() {
                if exceeds(values[nth], values[best], step.is_max) {
                    best = nth;
                }
            }
            self.store(&step.output, outer, Literal::from_i64(Dtype::I64, to_i64(best)));
        }
    }

    /// The values of a row of a step, from its inputs.
    fn row(&self, prologue: &Function, inputs: &[View], output: &View, row: usize) -> Vec<f64> {
        let columns = output.layout.shape[1];
        let value = |column: usize| self.call(prologue, inputs, &[row, column], row * columns + column)[0].as_f64();
        (0..columns).map(value).collect()
    }

    fn store_row(&mut self, view: &View, row: usize, values: &[f64]) {
        for (column, value) in values.iter().enumerate() {
            self.store(view, &[row, column], Literal::from_f64(view.dtype, *value));
        }
    }

    fn softmax(&mut self, step: &SoftmaxStep) {
        for row in 0..step.output.layout.shape[0] {
            let values = self.row(&step.prologue, &step.inputs, &step.output, row);
            let greatest = values.iter().copied().reduce(maximum).unwrap_or(0.0);
            let sum = sum(values.iter().map(|x| (x - greatest).exp()));
            let value = |x: &f64| if step.is_log { x - greatest - sum.ln() } else { (x - greatest).exp() / sum };
            self.store_row(&step.output, row, &values.iter().map(value).collect::<Vec<_>>());
        }
    }

    fn norm(&mut self, step: &NormStep) {
        let eps = f64::from_bits(step.eps_bits);
        for row in 0..step.output.layout.shape[0] {
            let values = self.row(&step.prologue, &step.inputs, &step.output, row);
            let count = values.len() as f64;
            let mean = match step.kind {
                NormKind::Layer => sum(values.iter().copied()) / count,
                NormKind::Rms => 0.0,
            };
            let variance = sum(values.iter().map(|x| (x - mean) * (x - mean))) / count;
            let normalize = |(column, x): (usize, &f64)| {
                let at = |view: &Option<View>| view.as_ref().map(|view| self.load(view, &[column]).as_f64());
                (x - mean) / (variance + eps).sqrt() * at(&step.weight).unwrap_or(1.0) + at(&step.bias).unwrap_or(0.0)
            };
            let normalized: Vec<f64> = values.iter().enumerate().map(normalize).collect();
            self.store_row(&step.output, row, &normalized);
        }
    }

    fn index(&mut self, step: &IndexStep) {
        let extent = step.input.layout.shape[step.input.layout.rank() - 1];
        for position in indices(&step.output.layout.shape).iter() {
            let index = self.load(&step.index, position).as_i64();
            let index = if index < 0 && step.op.wraps() { index + to_i64(extent) } else { index };
            let index = usize::try_from(index).ok().filter(|index| *index < extent).expect("indices within the extent");
            let value = self.load(&step.input, &[position, &[index]].concat());
            self.store(&step.output, position, value);
        }
    }

    fn scan(&mut self, step: &ScanStep) {
        let [outer, extent, inner] = step.input.layout.shape[..] else { panic!("a scan of {:?}", step.input) };
        for (row, column) in (0..outer).flat_map(|row| (0..inner).map(move |column| (row, column))) {
            let index = |position: usize| [row, position, column];
            let values: Vec<_> =
                (0..extent).map(|position| self.load(&step.input, &index(position)).cast(step.accumulate)).collect();
            for (position, value) in scanned(step.kind, step.accumulate, &values).into_iter().enumerate() {
                self.store(&step.output, &index(position), value.cast(step.output.dtype));
            }
        }
    }

    fn sort(&mut self, step: &SortStep) {
        let [rows, columns] = step.input.layout.shape[..] else { panic!("a sort of {:?}", step.input) };
        for row in 0..rows {
            let values: Vec<_> = (0..columns).map(|column| self.load(&step.input, &[row, column])).collect();
            let mut order: Vec<_> = (0..columns).collect();
            order.sort_by(|&a, &b| {
                let order = total_order(values[a], values[b]);
                if step.is_descending { order.reverse() } else { order }
            });
            for (nth, index) in order.into_iter().take(step.output.layout.shape[1]).enumerate() {
                self.store(&step.output, &[row, nth], Literal::from_i64(Dtype::I64, to_i64(index)));
            }
        }
    }

    fn matmul(&mut self, step: &MatMulStep) {
        let dtype = step.output.dtype;
        match step.accumulate {
            Accumulate::Wrapping => self.products(step, integer, |row, column, bias| {
                let products = row.iter().zip(column).map(|(a, b)| a.wrapping_mul(*b));
                from_integer(dtype, products.chain(bias).fold(0, i128::wrapping_add))
            }),
            Accumulate::F32 | Accumulate::Tf32 | Accumulate::F64 => {
                self.products(step, Literal::as_f64, |row, column, bias| {
                    let products = row.iter().zip(column).map(|(a, b)| a * b);
                    Literal::from_f64(dtype, products.chain(bias).fold(0.0, |sum, x| sum + x))
                });
            }
        }
    }

    /// Writes what `product` makes of a row of the first matrix, a column of the second, and the bias.
    fn products<T: Copy>(
        &mut self,
        step: &MatMulStep,
        convert: impl Fn(Literal) -> T + Copy,
        product: impl Fn(&[T], &[T], Option<T>) -> Literal,
    ) {
        let columns = View { layout: step.b.layout.permuted(&[0, 2, 1]), ..step.b.clone() };
        let [a, b] = [&step.a, &columns].map(|view| self.converted(view, convert));
        for (nth, index) in indices(&step.output.layout.shape).iter().enumerate() {
            let [batch, row, column] = index[..] else { panic!("batch, row and column") };
            let bias = step.bias.as_ref().map(|bias| convert(self.load(bias, &[column])));
            let mut result = product(a.row(&[batch, row]), b.row(&[batch, column]), bias);
            if let Some(epilogue) = &step.epilogue {
                result = interpret(epilogue, &[result], to_i64(nth))[0];
            }
            self.store(&step.output, index, result);
        }
    }

    fn conv(&mut self, step: &ConvStep) {
        let filter = indices(&step.weight.layout.shape[1..]);
        let input = self.numbers(&step.input);
        let weight = self.numbers(&step.weight);
        let [group_channels, group_outputs] =
            [&step.input, &step.output].map(|tensor| tensor.layout.shape[1] / step.groups);
        for (nth, index) in indices(&step.output.layout.shape).iter().enumerate() {
            let image = index[0];
            let out = index[1];
            let position = [index[2], index[3]];
            let term = |tap: &[usize]| {
                let channel = out / group_outputs * group_channels + tap[0];
                let row = position_of(&step.windows, 0, position[0], tap[1], step.input.layout.shape[2])?;
                let column = position_of(&step.windows, 1, position[1], tap[2], step.input.layout.shape[3])?;
                Some(input.at(&[image, channel, row, column]) * weight.at(&[out, tap[0], tap[1], tap[2]]))
            };
            let bias = step.bias.as_ref().map(|bias| self.load(bias, &[out]).as_f64());
            let mut result = Literal::from_f64(step.output.dtype, sum(filter.iter().filter_map(term).chain(bias)));
            if let Some(epilogue) = &step.epilogue {
                result = interpret(epilogue, &[result], to_i64(nth))[0];
            }
            self.store(&step.output, index, result);
        }
    }

    fn pool(&mut self, step: &PoolStep) {
        let input = &step.input.layout.shape;
        let output = &step.output.layout.shape;
        let dtype = step.output.dtype;
        for index in indices(output).iter() {
            let axes =
                [0, 1].map(|axis| pooled(&step.windows, axis, index[axis + 1], input[axis + 1], output[axis + 1]));
            let [(rows, height), (columns, width)] = &axes;
            let of_row =
                |row: &usize| columns.iter().map(|column| self.load(&step.input, &[index[0], *row, *column])).collect();
            let values: Vec<Literal> = rows.iter().flat_map(|row| -> Vec<Literal> { of_row(row) }).collect();
            let result = match step.kind {
                PoolKind::Max if values.is_empty() => least(dtype),
                PoolKind::Max => combine(Reduction::Max, dtype, &values),
                PoolKind::Average(_) if values.is_empty() => Literal::from_f64(dtype, 0.0),
                PoolKind::Average(divisor) => {
                    let count = match divisor {
                        Divisor::Elements => values.len() as f64,
                        Divisor::Padded => (height * width) as f64,
                        Divisor::Number(number) => number as f64,
                    };
                    Literal::from_f64(dtype, sum(values.iter().map(|value| value.as_f64())) / count)
                }
            };
            self.store(&step.output, index, result);
        }
    }
}

/// The least value of a type of numbers.
fn least(dtype: Dtype) -> Literal {
    if dtype.is_float() {
        return Literal::from_f64(dtype, f64::NEG_INFINITY);
    }
    Literal::from_i64(dtype, if dtype.is_signed() { i64::MIN >> (64 - 8 * dtype.size()) } else { 0 })
}

/// The position in an image of extent `extent` that window `index` has at position `tap` of its kernel; `None` in the padding.
fn position_of(windows: &Windows, axis: usize, index: usize, tap: usize, extent: usize) -> Option<usize> {
    let padded = index * windows.stride[axis] + tap * windows.dilation[axis];
    padded.checked_sub(windows.padding[axis]).filter(|position| *position < extent)
}

/// The positions of window `index` in an image of extent `extent`, and their number with those in the padding.
fn pooled(windows: &PoolWindows, axis: usize, index: usize, extent: usize, count: usize) -> (Vec<usize>, usize) {
    match windows {
        PoolWindows::Sliding(windows) => {
            let taps = 0..windows.kernel[axis];
            let first = index * windows.stride[axis];
            let end = (first + windows.kernel[axis]).min(extent + 2 * windows.padding[axis]);
            (taps.filter_map(|tap| position_of(windows, axis, index, tap, extent)).collect(), end.saturating_sub(first))
        }
        PoolWindows::Adaptive => {
            let range = index * extent / count..((index + 1) * extent).div_ceil(count);
            (range.clone().collect(), range.len())
        }
    }
}

impl Memory {
    fn attention(&mut self, step: &AttentionStep) {
        let heads = step.query.layout.shape[1];
        let kv_heads = step.key.layout.shape[1];
        let [query_numbers, keys, values] = [&step.query, &step.key, &step.value].map(|view| self.numbers(view));
        for index in indices(&step.output.layout.shape[..3]).iter() {
            let [batch, head, query] = index[..] else { panic!("batch, head and query") };
            let kv_head = head / (heads / kv_heads);
            let scores = self.scores(step, [&query_numbers, &keys], [batch, head, query], kv_head);
            let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, maximum);
            let reference = if greatest == f64::NEG_INFINITY { 0.0 } else { greatest };
            let probabilities: Vec<f64> = scores.iter().map(|score| (score - reference).exp()).collect();
            let total = sum(probabilities.iter().copied());
            for column in 0..step.output.layout.shape[3] {
                let value = |key: usize| values.at(&[batch, kv_head, key, column]);
                let weighted = sum(probabilities.iter().enumerate().map(|(key, p)| p * value(key)));
                let result = if total == 0.0 { 0.0 } else { weighted / total };
                self.store(&step.output, &[batch, head, query, column], Literal::from_f64(step.output.dtype, result));
            }
        }
    }

    /// The scores of the keys before the length of the batch; minus infinity where a key takes no part.
    fn scores(
        &self,
        step: &AttentionStep,
        [query_numbers, key_numbers]: [&Numbers; 2],
        [batch, head, query]: [usize; 3],
        kv_head: usize,
    ) -> Vec<f64> {
        let keys = step.key.layout.shape[2];
        let dim = step.key.layout.shape[3];
        let length = step.lengths.as_ref().map(|lengths| self.load(lengths, &[batch]).as_i64());
        let end = length.map_or(keys, |length| usize::try_from(length).unwrap_or(0).min(keys));
        let score = |key: usize| {
            let terms = (0..dim)
                .map(|d| query_numbers.at(&[batch, head, query, d]) * key_numbers.at(&[batch, kv_head, key, d]));
            let score = f64::from_bits(step.scale_bits) * sum(terms);
            let mask = step.mask.as_ref().map(|mask| self.load(mask, &[batch, head, query, key]));
            match mask {
                _ if step.is_causal && key > query => f64::NEG_INFINITY,
                Some(mask) if mask.dtype() == Dtype::Bool && mask.bits() == 0 => f64::NEG_INFINITY,
                Some(mask) if mask.dtype() != Dtype::Bool => score + mask.as_f64(),
                Some(_) | None => score,
            }
        };
        (0..end).map(score).collect()
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
    let mut sum = 0.0_f64;
    let mut lost = 0.0;
    for x in values {
        let next = sum + x;
        lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        sum = next;
    }
    // The rounding error of infinities is NaN.
    if sum.is_finite() { sum + lost } else { sum }
}

/// `f64::max` prefers numbers to NaN.
fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || a >= b { a } else { b }
}

/// Returns true if a later value is sought rather than an earlier one.
fn exceeds(later: Literal, earlier: Literal, is_max: bool) -> bool {
    if later.dtype().is_float() {
        let later = later.as_f64();
        let earlier = earlier.as_f64();
        let is_further = if is_max { later > earlier } else { later < earlier };
        return !earlier.is_nan() && (later.is_nan() || is_further);
    }
    let later = integer(later);
    let earlier = integer(earlier);
    if is_max { later > earlier } else { later < earlier }
}

/// Each value combined with all before it; floating-point numbers in f64, sums with compensation.
fn scanned(kind: ScanKind, dtype: Dtype, values: &[Literal]) -> Vec<Literal> {
    if matches!(kind, ScanKind::Min | ScanKind::Max) {
        let extreme = |state: &mut Option<Literal>, x: &Literal| {
            let best = state.filter(|best| !exceeds(*x, *best, kind == ScanKind::Max)).unwrap_or(*x);
            *state = Some(best);
            *state
        };
        return values.iter().scan(None, extreme).collect();
    }
    if !dtype.is_float() {
        let combined = values.iter().copied().map(integer).scan(None, |state, x| {
            let before: i128 = state.unwrap_or(i128::from(kind == ScanKind::Prod));
            let next = if kind == ScanKind::Sum { before.wrapping_add(x) } else { before.wrapping_mul(x) };
            *state = Some(integer(from_integer(dtype, next)));
            *state
        });
        return combined.map(|value| from_integer(dtype, value)).collect();
    }
    // The first number added to -0 is that number, also if it is -0.
    let mut total = -0.0_f64;
    let mut lost = 0.0;
    let mut product = 1.0;
    let number = |x: &Literal| {
        let x = x.as_f64();
        let next = total + x;
        lost += if total.abs() >= x.abs() { (total - next) + x } else { (x - next) + total };
        (total, product) = (next, product * x);
        let sum = if total.is_finite() && lost != 0.0 { total + lost } else { total };
        Literal::from_f64(dtype, if kind == ScanKind::Sum { sum } else { product })
    };
    values.iter().map(number).collect()
}

/// The order of sorts: NaN is equal to NaN and greater than any number, and -0 equals 0.
fn total_order(a: Literal, b: Literal) -> Ordering {
    if !a.dtype().is_float() {
        return integer(a).cmp(&integer(b));
    }
    let a = a.as_f64();
    let b = b.as_f64();
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
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
