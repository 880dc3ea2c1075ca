//! Pooling, and conversion to the output type.

use half::{bf16, f16};

use crate::{
    cpu::f64_sums,
    ops::encode::primitives::{OutputRow, OutputType, PooledOutput, Reduction},
};

/// Pools hidden states `[T, hidden]` to output rows.
pub(super) fn pool(hidden_states: &[f32], hidden: usize, rows: &[OutputRow]) -> PooledOutput {
    let mut pooled =
        PooledOutput { bytes: Vec::with_capacity(rows.iter().map(OutputRow::bytes).sum()), scales: vec![] };
    let mut sums = vec![];
    let mut vector = vec![];
    for row in rows {
        reduce(hidden_states, hidden, row, &mut sums);
        vector.clear();
        #[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
        vector.extend(sums.iter().map(|x| *x as f32));
        if row.normalize {
            normalize(&mut vector);
        }
        write(&vector, row.output, &mut pooled);
    }
    pooled
}

/// In f64, because the f32 sum of a very long range would drift.
fn reduce(hidden_states: &[f32], hidden: usize, row: &OutputRow, vector: &mut Vec<f64>) {
    let tokens = hidden_states[row.from as usize * hidden..row.to as usize * hidden].chunks_exact(hidden);
    vector.clear();
    vector.resize(row.dimensions as usize, if row.reduce == Reduction::Max { f64::NEG_INFINITY } else { 0.0 });
    if row.from == row.to {
        vector.fill(0.0);
        return;
    }
    let mut weights = 0.0;
    for (token, index) in tokens.zip(1_u32..) {
        let numbers = vector.iter_mut().zip(token.iter().map(|x| f64::from(*x)));
        match row.reduce {
            Reduction::Mean => numbers.for_each(|(sum, x)| *sum += x),
            Reduction::WeightedMean => numbers.for_each(|(sum, x)| *sum += f64::from(index) * x),
            Reduction::Max => numbers.for_each(|(max, x)| *max = if x > *max { x } else { *max }),
        }
        weights += if row.reduce == Reduction::WeightedMean { f64::from(index) } else { 1.0 };
    }
    if row.reduce != Reduction::Max {
        for x in vector {
            *x /= weights;
        }
    }
}

/// Scales to unit length; zeros stay zeros.
#[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
fn normalize(vector: &mut [f32]) {
    let length = f64_sums::squared_norm(vector).sqrt();
    if length > 0.0 {
        for x in vector {
            *x = (f64::from(*x) / length) as f32;
        }
    }
}

/// Converts pooled vectors to output rows.
pub(in crate::ops::encode) fn pooled<'a>(vectors: impl Iterator<Item = (&'a [f32], &'a OutputRow)>) -> PooledOutput {
    let mut pooled = PooledOutput::default();
    vectors.for_each(|(vector, row)| write(vector, row.output, &mut pooled));
    pooled
}

impl PooledOutput {
    /// Converts f32 vectors, `[n, dimensions]`, to the output type.
    pub fn of(vectors: &[f32], dimensions: usize, output: OutputType) -> Self {
        let mut pooled = Self::default();
        vectors.chunks_exact(dimensions.max(1)).for_each(|vector| write(vector, output, &mut pooled));
        pooled
    }
}

fn write(vector: &[f32], output: OutputType, to: &mut PooledOutput) {
    match output {
        OutputType::F32 => to.bytes.extend_from_slice(bytemuck::cast_slice(vector)),
        OutputType::F16 => to.bytes.extend(vector.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes())),
        OutputType::Bf16 => to.bytes.extend(vector.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes())),
        OutputType::Int8 => {
            let scale = vector.iter().fold(0.0_f32, |max, x| max.max(x.abs())) / 127.0;
            to.scales.push(scale);
            to.bytes.extend(vector.iter().map(|x| quantize(*x, scale)));
        }
        OutputType::Binary => to.bytes.extend(vector.chunks(8).map(bits)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range")]
fn quantize(x: f32, scale: f32) -> u8 {
    if scale == 0.0 {
        return 0;
    }
    ((x / scale).round_ties_even().clamp(-127.0, 127.0) as i8).cast_unsigned()
}

fn bits(eight: &[f32]) -> u8 {
    eight.iter().enumerate().fold(0, |byte, (index, x)| byte | (u8::from(*x > 0.0) << (7 - index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(row: OutputRow) -> PooledOutput {
        let hidden_states = [3.0, 0.0, -4.0, 1.0, 8.0, 4.0, 5.0, 0.0, 0.0];
        pool(&hidden_states, 3, &[row])
    }

    fn floats(row: OutputRow) -> Vec<f32> {
        bytemuck::pod_collect_to_vec(&one(row).bytes)
    }

    const ROW: OutputRow =
        OutputRow { from: 0, to: 3, reduce: Reduction::Mean, dimensions: 3, normalize: false, output: OutputType::F32 };

    #[test]
    fn tokens_are_pooled_truncated_and_normalised() {
        assert_eq!(floats(ROW), [3.0, 8.0 / 3.0, 0.0]);
        assert_eq!(floats(OutputRow { reduce: Reduction::Max, ..ROW }), [5.0, 8.0, 4.0]);
        assert_eq!(floats(OutputRow { reduce: Reduction::WeightedMean, ..ROW }), [20.0 / 6.0, 16.0 / 6.0, 4.0 / 6.0]);
        assert_eq!(floats(OutputRow { to: 1, normalize: true, ..ROW }), [0.6, 0.0, -0.8]);
        assert_eq!(floats(OutputRow { from: 1, to: 2, dimensions: 2, ..ROW }), [1.0, 8.0]);
        for reduce in [Reduction::Mean, Reduction::Max, Reduction::WeightedMean] {
            assert_eq!(floats(OutputRow { to: 0, reduce, normalize: true, ..ROW }), [0.0; 3]);
        }
    }

    #[test]
    fn rows_are_converted_to_every_output_type() {
        let first = OutputRow { to: 1, ..ROW };
        assert_eq!(one(OutputRow { output: OutputType::F16, ..first }).bytes, [0x00, 0x42, 0, 0, 0x00, 0xc4]);
        assert_eq!(one(OutputRow { output: OutputType::Bf16, ..first }).bytes, [0x40, 0x40, 0, 0, 0x80, 0xc0]);
        let int8 = one(OutputRow { output: OutputType::Int8, ..first });
        assert_eq!((int8.bytes, int8.scales), (vec![95, 0, 129], vec![4.0 / 127.0]));
        assert_eq!(one(OutputRow { output: OutputType::Binary, ..first }).bytes, [0b1000_0000]);
        let none = one(OutputRow { to: 0, output: OutputType::Int8, ..ROW });
        assert_eq!((none.bytes, none.scales), (vec![0; 3], vec![0.0]));
    }
}
