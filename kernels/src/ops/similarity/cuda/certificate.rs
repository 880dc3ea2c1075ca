//! The certificate: whether a query's downloaded hits are proved to be its exact result.

use super::{
    kernels::{OVERFLOWED, SearchStatus},
    plan::{QuerySpec, SearchPlan},
};
use crate::ops::similarity::{metric::Metric, request::Hit};

/// The hits of one query; `None` if its candidates overflowed or the certificate fails.
pub(super) fn certified_hits(
    spec: &QuerySpec<'_>,
    status: SearchStatus,
    keys: &[u32],
    plan: SearchPlan,
    metric: Metric,
) -> Option<Vec<Hit>> {
    let direct = plan == SearchPlan::BruteForce;
    if status.candidates == OVERFLOWED && !direct {
        return None;
    }
    let mut hits = Vec::with_capacity(spec.k.min(keys.len() / 2));
    hits.extend(keys.chunks_exact(2).map_while(|key| hit(key, metric)).take(spec.k));
    (direct || is_certified(&hits, spec, &status, metric)).then_some(hits)
}

/// The row and score of a sort key, low word first; `None` for the key 0.
fn hit(key: &[u32], metric: Metric) -> Option<Hit> {
    if key[0] == 0 && key[1] == 0 {
        return None;
    }
    let bits = if key[1] >> 31 == 1 { key[1] & 0x7fff_ffff } else { !key[1] };
    let value = f32::from_bits(bits);
    Some(Hit { row: !key[0], score: if metric == Metric::SquaredL2 { 0.0 - value } else { value } })
}

/// The certificate that no other row belongs among the hits. Pruned rows have ranks below the pruning threshold, so the
/// last of k hits must reach it; if there are fewer than k hits, only the query's own score threshold may have pruned
/// rows.
fn is_certified(hits: &[Hit], spec: &QuerySpec<'_>, status: &SearchStatus, metric: Metric) -> bool {
    let rank = |score: f32| match metric {
        Metric::Cosine | Metric::Dot => f64::from(score),
        Metric::SquaredL2 => 0.5 * (status.squared_norm - f64::from(score)),
    };
    let required = match hits.last() {
        Some(last) if hits.len() == spec.k => rank(last.score),
        _ => spec.threshold.map_or(f64::NEG_INFINITY, rank),
    };
    f64::from(status.pruning_threshold) <= required
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(score: f32, row: u32) -> [u32; 2] {
        let bits = score.to_bits();
        [!row, if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 }]
    }

    #[test]
    fn keys_decode_to_hits() {
        for score in [0.0, 1.5, -2.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE] {
            assert_eq!(hit(&key(score, 7), Metric::Dot), Some(Hit { row: 7, score }));
            assert_eq!(hit(&key(0.0 - score, u32::MAX - 1), Metric::SquaredL2), Some(Hit { row: u32::MAX - 1, score }));
        }
        assert_eq!(hit(&[0, 0], Metric::Dot), None);
    }

    #[test]
    fn hits_are_certified_only_if_the_threshold_hides_no_row() {
        let spec = |k, threshold| QuerySpec { queries: &[], at: 0, k, threshold, mask: None };
        let status = |pruning_threshold| SearchStatus { candidates: 2, pruning_threshold, squared_norm: 4.0 };
        let hits = [Hit { row: 1, score: 0.9 }, Hit { row: 2, score: 0.5 }];
        assert!(is_certified(&hits, &spec(2, None), &status(0.5), Metric::Dot));
        assert!(!is_certified(&hits, &spec(2, None), &status(0.51), Metric::Dot));
        assert!(!is_certified(&hits, &spec(3, None), &status(0.1), Metric::Dot), "a third may be below the threshold");
        assert!(is_certified(&hits, &spec(3, None), &status(f32::NEG_INFINITY), Metric::Dot));
        assert!(is_certified(&hits, &spec(3, Some(0.2)), &status(0.1999), Metric::Dot));
        assert!(is_certified(&[], &spec(3, Some(0.2)), &status(0.1999), Metric::Dot));
        // A squared distance of 0.5 is a rank of (4 - 0.5) / 2.
        assert!(is_certified(&hits, &spec(2, None), &status(1.75), Metric::SquaredL2));
        assert!(!is_certified(&hits, &spec(2, None), &status(1.76), Metric::SquaredL2));
    }
}
