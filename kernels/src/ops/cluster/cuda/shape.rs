//! The sizes of a k-means run on a GPU.

use super::kernels::{MAX_TRIALS, SEGMENT, SHARE_STEP, WIDE_TILE, counter_bytes};
use crate::{OpError, ops::cluster::random::trials};

/// Dynamic shared memory available without opting in. The sort keeps its counters there if they fit.
const SHARED_BYTES: usize = 48 << 10;
/// The most counters of the sort: 128 MiB.
const MAX_COUNTERS: usize = 32 << 20;

/// The sizes of a run, as the kernels take them.
#[derive(Clone, Copy, Debug)]
pub(super) struct KMeansShape {
    pub(super) count: usize,
    pub(super) dim: usize,
    pub(super) clusters: usize,
    /// Columns of centred rows.
    pub(super) pitch: usize,
    /// Rows of the centred centres: a multiple of the largest tile of the assignment.
    pub(super) padded: usize,
    /// Rows per run of the sort, and the number of runs.
    pub(super) run: usize,
    pub(super) runs: usize,
    /// Elements between the distances of two candidates.
    pub(super) stride: usize,
    /// Candidates per step of k-means++.
    pub(super) trials: usize,
    /// Rows per block in k-means++, and the number of blocks.
    pub(super) share: usize,
    pub(super) shares: usize,
}

impl KMeansShape {
    pub(super) fn new(count: usize, dim: usize, clusters: usize, units: usize) -> Result<Self, OpError> {
        if dim == 0 || clusters == 0 || clusters > count {
            return Err(OpError::Invalid(format!("{clusters} clusters of {count} rows of {dim} columns")));
        }
        if count >= 1 << 31 || dim >= 1 << 24 {
            return Err(OpError::Invalid(format!("{count} rows of {dim} columns are too many for a GPU")));
        }
        let run = |rows: usize, step: usize, most: usize| {
            let share = rows.div_ceil(most.clamp(1, rows.div_ceil(step))).next_multiple_of(step);
            (share, rows.div_ceil(share))
        };
        let (share, shares) = run(count, SHARE_STEP, 2 * units);
        let (run, runs) = run(count, 32, (16 * units).min(MAX_COUNTERS / clusters));
        Ok(Self {
            count,
            dim,
            clusters,
            pitch: dim.next_multiple_of(if dim <= 128 { dim.next_power_of_two().max(64) } else { 64 }),
            padded: clusters.next_multiple_of(WIDE_TILE),
            run,
            runs,
            stride: count.next_multiple_of(SHARE_STEP),
            trials: trials(clusters).min(MAX_TRIALS),
            share,
            shares,
        })
    }

    pub(super) fn segments(&self) -> usize {
        self.count.div_ceil(SEGMENT)
    }

    /// Dynamic shared memory of the sort's counters; 0 if they do not fit.
    pub(super) fn counter_bytes(&self) -> usize {
        let bytes = counter_bytes(self.clusters);
        if bytes <= SHARED_BYTES { bytes } else { 0 }
    }
}

/// A size that [`KMeansShape`] has checked, as a kernel argument.
#[expect(clippy::cast_possible_truncation, reason = "shapes are checked to be below 2^31")]
pub(super) fn word(count: usize) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_rows_and_none_is_empty() {
        for count in [1, 31, 32, 33, 127, 128, 129, 1025, 99_999, 1_000_000] {
            for clusters in [1, 2, 256, 5000] {
                let Ok(shape) = KMeansShape::new(count, 17, clusters, 132) else { continue };
                assert!(shape.share % SHARE_STEP == 0 && shape.run % 32 == 0);
                assert!(shape.share * shape.shares >= count && shape.share * (shape.shares - 1) < count);
                assert!(shape.run * shape.runs >= count && shape.run * (shape.runs - 1) < count);
                assert!(shape.runs * clusters <= MAX_COUNTERS);
            }
        }
    }

    #[test]
    fn pitches_match_the_instances_of_the_assignment() {
        let pitch = |dim| KMeansShape::new(10, dim, 2, 132).map(|shape| shape.pitch).expect("small");
        assert_eq!([1, 64, 65, 96, 128, 129, 192, 768].map(pitch), [64, 64, 128, 128, 128, 192, 192, 768]);
    }
}
