//! States to the rows of an answer.

use half::{bf16, f16};

use crate::{
    cpu::exact,
    ops::encode::primitives::{Output, Pooled, Reduce, Row},
};

/// Reduces states `[T, hidden]` to rows.
pub(super) fn pool(states: &[f32], hidden: usize, rows: &[Row]) -> Pooled {
    let mut pooled = Pooled { bytes: Vec::with_capacity(rows.iter().map(Row::bytes).sum()), scales: vec![] };
    let (mut sums, mut vector) = (vec![], vec![]);
    for row in rows {
        reduce(states, hidden, row, &mut sums);
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

/// In f64: a text in chunks may have so many tokens that their sum in f32 drifts.
fn reduce(states: &[f32], hidden: usize, row: &Row, vector: &mut Vec<f64>) {
    let tokens = states[row.from as usize * hidden..row.to as usize * hidden].chunks_exact(hidden);
    vector.clear();
    vector.resize(row.dimensions as usize, if row.reduce == Reduce::Max { f64::NEG_INFINITY } else { 0.0 });
    if row.from == row.to {
        vector.fill(0.0);
        return;
    }
    let mut weights = 0.0;
    for (token, at) in tokens.zip(1_u32..) {
        let numbers = vector.iter_mut().zip(token.iter().map(|x| f64::from(*x)));
        match row.reduce {
            Reduce::Mean => numbers.for_each(|(sum, x)| *sum += x),
            Reduce::WeightedMean => numbers.for_each(|(sum, x)| *sum += f64::from(at) * x),
            Reduce::Max => numbers.for_each(|(most, x)| *most = if x > *most { x } else { *most }),
        }
        weights += if row.reduce == Reduce::WeightedMean { f64::from(at) } else { 1.0 };
    }
    if row.reduce != Reduce::Max {
        for x in vector {
            *x /= weights;
        }
    }
}

/// Scales to unit length; zeros stay zeros.
#[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
fn normalize(vector: &mut [f32]) {
    let length = exact::squared_norm(vector).sqrt();
    if length > 0.0 {
        for x in vector {
            *x = (f64::from(*x) / length) as f32;
        }
    }
}

/// Vectors that are reduced already, written as rows.
pub(in crate::ops::encode) fn pooled<'a>(vectors: impl Iterator<Item = (&'a [f32], &'a Row)>) -> Pooled {
    let mut pooled = Pooled::default();
    vectors.for_each(|(vector, row)| write(vector, row.output, &mut pooled));
    pooled
}

impl Pooled {
    /// Vectors of f32 that were made elsewhere, written as rows.
    pub fn of(vectors: &[f32], dimensions: usize, output: Output) -> Self {
        let mut pooled = Self::default();
        vectors.chunks_exact(dimensions.max(1)).for_each(|vector| write(vector, output, &mut pooled));
        pooled
    }
}

fn write(vector: &[f32], output: Output, to: &mut Pooled) {
    match output {
        Output::F32 => to.bytes.extend_from_slice(bytemuck::cast_slice(vector)),
        Output::F16 => to.bytes.extend(vector.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes())),
        Output::Bf16 => to.bytes.extend(vector.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes())),
        Output::Int8 => {
            let scale = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / 127.0;
            to.scales.push(scale);
            to.bytes.extend(vector.iter().map(|x| quantize(*x, scale)));
        }
        Output::Binary => to.bytes.extend(vector.chunks(8).map(bits)),
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
    eight.iter().enumerate().fold(0, |byte, (at, x)| byte | (u8::from(*x > 0.0) << (7 - at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(row: Row) -> Pooled {
        let states = [3.0, 0.0, -4.0, 1.0, 8.0, 4.0, 5.0, 0.0, 0.0];
        pool(&states, 3, &[row])
    }

    fn floats(row: Row) -> Vec<f32> {
        bytemuck::pod_collect_to_vec(&one(row).bytes)
    }

    const ROW: Row = Row { from: 0, to: 3, reduce: Reduce::Mean, dimensions: 3, normalize: false, output: Output::F32 };

    #[test]
    fn tokens_are_reduced_cut_and_scaled() {
        assert_eq!(floats(ROW), [3.0, 8.0 / 3.0, 0.0]);
        assert_eq!(floats(Row { reduce: Reduce::Max, ..ROW }), [5.0, 8.0, 4.0]);
        assert_eq!(floats(Row { reduce: Reduce::WeightedMean, ..ROW }), [20.0 / 6.0, 16.0 / 6.0, 4.0 / 6.0]);
        assert_eq!(floats(Row { to: 1, normalize: true, ..ROW }), [0.6, 0.0, -0.8]);
        assert_eq!(floats(Row { from: 1, to: 2, dimensions: 2, ..ROW }), [1.0, 8.0]);
        for reduce in [Reduce::Mean, Reduce::Max, Reduce::WeightedMean] {
            assert_eq!(floats(Row { to: 0, reduce, normalize: true, ..ROW }), [0.0; 3]);
        }
    }

    #[test]
    fn rows_are_written_in_every_kind_of_number() {
        let first = Row { to: 1, ..ROW };
        assert_eq!(one(Row { output: Output::F16, ..first }).bytes, [0x00, 0x42, 0, 0, 0x00, 0xc4]);
        assert_eq!(one(Row { output: Output::Bf16, ..first }).bytes, [0x40, 0x40, 0, 0, 0x80, 0xc0]);
        let int8 = one(Row { output: Output::Int8, ..first });
        assert_eq!((int8.bytes, int8.scales), (vec![95, 0, 129], vec![4.0 / 127.0]));
        assert_eq!(one(Row { output: Output::Binary, ..first }).bytes, [0b1000_0000]);
        let none = one(Row { to: 0, output: Output::Int8, ..ROW });
        assert_eq!((none.bytes, none.scales), (vec![0; 3], vec![0.0]));
    }
}
