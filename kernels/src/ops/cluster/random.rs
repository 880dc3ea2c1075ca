//! The random numbers of k-means++: a function of the seed and the position, so that every backend draws the same.

/// A uniform number in [0, 1), the same on all machines for the same arguments.
///
/// Applies the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
/// 2014) to one coordinate of the position at a time.
pub(crate) fn uniform(seed: u64, start: u64, step: u64, trial: u64) -> f64 {
    let bits = [start, step, trial].into_iter().fold(mix(seed), |state, index| mix(state ^ index.wrapping_mul(GOLDEN)));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(GOLDEN);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The number of candidates per step of greedy k-means++.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
pub(crate) fn trials(clusters: usize) -> usize {
    2 + (clusters.max(1) as f64).ln() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_in_every_coordinate_and_fill_the_interval() {
        let mut drawn: Vec<f64> = (0..4_u64)
            .flat_map(|seed| {
                (0..8).flat_map(move |start| (0..8).flat_map(move |step| (0..8).map(move |t| [seed, start, step, t])))
            })
            .map(|[seed, start, step, trial]| uniform(seed, start, step, trial))
            .collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        drawn.sort_by(f64::total_cmp);
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "all are distinct");
        assert!((0.0..0.01).contains(&drawn[0]) && (0.99..1.0).contains(&drawn[drawn.len() - 1]));
        assert!((mean - 0.5).abs() < 0.02, "mean {mean}");
    }
}
