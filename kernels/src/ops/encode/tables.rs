//! Tables derived from the configuration: rotations, ALiBi slopes, relative position biases. All backends use them.

use super::{
    config::{EncoderConfig, Positions, invalid},
    weights::{Tensor, Weights},
};
use crate::OpError;

/// Fills in the tables of a checked configuration. `buckets` is the learned relative bias, f32 `[buckets, heads]`, or empty.
pub fn fill(config: &EncoderConfig, buckets: &[f32], weights: &mut Weights<Tensor>) -> Result<(), OpError> {
    let tokens = config.max_tokens;
    match config.positions {
        Positions::None | Positions::Absolute => {}
        Positions::Rotary { theta, local_theta, dims } => {
            let table = |theta| Tensor::from_f32(&[tokens, dims], &rotary(theta, dims, tokens)).map(Some);
            weights.rotary = table(theta)?;
            if config.window.is_some() && theta.to_bits() != local_theta.to_bits() {
                weights.local_rotary = table(local_theta)?;
            }
        }
        Positions::Alibi => weights.slopes = Some(Tensor::from_f32(&[config.heads], &slopes(config.heads))?),
        Positions::RelativeBias { buckets: count, max_distance } => {
            let bias = relative_bias(buckets, config.heads, count, max_distance, tokens)?;
            weights.relative_bias = Some(Tensor::from_f32(&[config.heads, 2 * tokens - 1], &bias)?);
        }
    }
    Ok(())
}

/// Rotations, f32 `[positions, dims]`: of each position the cosines of `dims / 2` angles, then their sines.
///
/// Angle `i` of position `p` is `p * theta^(-2i / dims)` (Su et al., "RoFormer", 2021). As in the implementations that
/// models were trained with, the frequencies are rounded to f32, and so is their product with the position.
#[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
pub fn rotary(theta: f64, dims: usize, positions: usize) -> Vec<f32> {
    let half = dims / 2;
    let frequencies: Vec<_> = (0..half).map(|i| theta.powf(-((2 * i) as f64) / dims as f64) as f32).collect();
    let mut table = Vec::with_capacity(positions * dims);
    for position in 0..positions {
        let angles = || frequencies.iter().map(|frequency| f64::from(position as f32 * frequency));
        table.extend(angles().map(|angle| angle.cos() as f32));
        table.extend(angles().map(|angle| angle.sin() as f32));
    }
    table
}

/// The slope of each head (Press et al., "Train Short, Test Long", 2022): a geometric sequence for a power of two, and
/// the nearest powers' sequences mixed for other numbers.
#[expect(clippy::cast_possible_truncation, reason = "the rounding to f32 is meant")]
pub fn slopes(heads: usize) -> Vec<f32> {
    let powers = |count: usize| {
        let start = (-8.0 / count as f64).exp2();
        (1..=count).map(move |i| start.powf(i as f64) as f32)
    };
    let whole = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    powers(whole).chain(powers(2 * whole).step_by(2).take(heads - whole)).collect()
}

/// The bias of a score, f32 `[heads, 2 * tokens - 1]`: at `key - query + tokens - 1`.
///
/// `table` is f32 `[buckets, heads]`, of which half belong to keys after the query. Near distances have a bucket each,
/// far ones share them logarithmically (Raffel et al., "Exploring the Limits of Transfer Learning", 2020).
pub fn relative_bias(
    table: &[f32],
    heads: usize,
    buckets: usize,
    max_distance: usize,
    tokens: usize,
) -> Result<Vec<f32>, OpError> {
    if tokens == 0 || table.len() != buckets * heads {
        return invalid(format!("a bias table of [{buckets}, {heads}] has {} numbers", table.len()));
    }
    let half = buckets / 2;
    let behind = (1..tokens).rev().map(|distance| bucket(distance, half, max_distance));
    let ahead = (1..tokens).map(|distance| half + bucket(distance, half, max_distance));
    let places: Vec<_> = behind.chain([0]).chain(ahead).collect();
    Ok((0..heads).flat_map(|head| places.iter().map(move |place| table[place * heads + head])).collect())
}

/// The bucket of a distance, of `half` that its direction has.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down to a small count")]
fn bucket(distance: usize, half: usize, max_distance: usize) -> usize {
    let exact = half / 2;
    if distance < exact {
        return distance;
    }
    let share = (distance as f32 / exact as f32).ln() / (max_distance as f64 / exact as f64).ln() as f32;
    (exact + (share * (half - exact) as f32) as usize).min(half - 1)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "powers of two and copied numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn rotations_start_at_one_and_turn_by_their_frequency() {
        let table = rotary(10_000.0, 4, 3);
        assert_eq!(table[..4], [1.0, 1.0, 0.0, 0.0]);
        let close = |got: f32, expected: f64| (f64::from(got) - expected).abs() < 1e-6;
        assert!(close(table[8], 2_f64.cos()) && close(table[9], 0.02_f64.cos()), "{table:?}");
        assert!(close(table[10], 2_f64.sin()) && close(table[11], 0.02_f64.sin()), "{table:?}");
    }

    #[test]
    fn slopes_are_those_of_the_paper() {
        assert_eq!(slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015_625, 0.007_812_5, 0.003_906_25]);
        let twelve = slopes(12);
        assert_eq!(twelve[..8], slopes(8));
        let expected = [0.5_f64.sqrt(), 0.125_f64.sqrt(), 0.031_25_f64.sqrt(), 0.007_812_5_f64.sqrt()];
        assert!(twelve[8..].iter().zip(expected).all(|(got, e)| (f64::from(*got) - e).abs() < 1e-7), "{twelve:?}");
    }

    #[test]
    fn near_distances_have_a_bucket_each_and_far_ones_share_the_last() {
        let table: Vec<f32> = (0..32_u8).map(f32::from).collect();
        let bias = relative_bias(&table, 1, 32, 128, 200).expect("a fit table");
        let at = |distance: isize| bias[usize::try_from(distance + 199).expect("in range")];
        assert_eq!([at(0), at(-1), at(-7), at(1), at(7)], [0.0, 1.0, 7.0, 17.0, 23.0]);
        assert_eq!([at(-8), at(-128), at(-199), at(199)], [8.0, 15.0, 15.0, 31.0]);
        assert!(relative_bias(&table, 2, 32, 128, 9).is_err(), "of another size");
    }
}
