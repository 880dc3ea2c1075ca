//! Metrics that compare rows, and the order of scores.

use std::cmp::Ordering;

/// A metric that compares two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Cosine; 0 if either row is all zeros. Higher is nearer.
    Cosine,
    /// Inner product. Higher is nearer.
    Dot,
    /// Squared Euclidean distance. Lower is nearer.
    SquaredL2,
}

impl Metric {
    /// `Less` if `a` is the better score.
    pub(crate) fn compare(self, a: f32, b: f32) -> Ordering {
        match self {
            Self::Cosine | Self::Dot => b.total_cmp(&a),
            Self::SquaredL2 => a.total_cmp(&b),
        }
    }
}

/// Precision of the copy that a GPU scans. Results are the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// The f32 rows themselves.
    F32,
    /// A binary16 copy.
    F16,
    /// A bfloat16 copy.
    Bf16,
    /// An int8 copy with one scale per row.
    I8,
}
