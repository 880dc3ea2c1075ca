//! What came back from the device, as hits, and whether it proves itself.

use super::{
    kernels::{OVERFLOW, Status},
    plan::Way,
    run::Ask,
};
use crate::ops::similarity::{Hit, Metric};

/// The hits of one query; `None` where candidates had no room, or where they do not prove themselves.
pub(super) fn answer(ask: &Ask<'_>, status: Status, keys: &[u32], way: Way, metric: Metric) -> Option<Vec<Hit>> {
    let direct = way == Way::Direct;
    if status.kept == OVERFLOW && !direct {
        return None;
    }
    let mut hits = Vec::with_capacity(ask.k.min(keys.len() / 2));
    hits.extend(keys.chunks_exact(2).map_while(|key| hit(key, metric)).take(ask.k));
    (direct || is_certain(&hits, ask, &status, metric)).then_some(hits)
}

/// A row and its score from a sort key, low word first; a key of 0 is none.
fn hit(key: &[u32], metric: Metric) -> Option<Hit> {
    if key[0] == 0 && key[1] == 0 {
        return None;
    }
    let bits = if key[1] >> 31 == 1 { key[1] & 0x7fff_ffff } else { !key[1] };
    let value = f32::from_bits(bits);
    Some(Hit { row: !key[0], score: if metric == Metric::SquaredL2 { 0.0 - value } else { value } })
}

/// Whether the hits prove that nothing else belongs among them: rows that were left out have ranks below the floor, so the
/// last hit must reach it; where there are fewer hits than asked for, nothing may have been left out but by the threshold.
fn is_certain(hits: &[Hit], ask: &Ask<'_>, status: &Status, metric: Metric) -> bool {
    let rank = |score: f32| match metric {
        Metric::Cosine | Metric::Dot => f64::from(score),
        Metric::SquaredL2 => 0.5 * (status.norm2 - f64::from(score)),
    };
    let bar = match hits.last() {
        Some(last) if hits.len() == ask.k => rank(last.score),
        _ => ask.threshold.map_or(f64::NEG_INFINITY, rank),
    };
    f64::from(status.floor) <= bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(score: f32, row: u32) -> [u32; 2] {
        let bits = score.to_bits();
        [!row, if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 }]
    }

    #[test]
    fn keys_become_hits_again() {
        for score in [0.0, 1.5, -2.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE] {
            assert_eq!(hit(&key(score, 7), Metric::Dot), Some(Hit { row: 7, score }));
            assert_eq!(hit(&key(0.0 - score, u32::MAX - 1), Metric::SquaredL2), Some(Hit { row: u32::MAX - 1, score }));
        }
        assert_eq!(hit(&[0, 0], Metric::Dot), None);
    }

    #[test]
    fn an_answer_is_certain_only_where_the_floor_does_not_hide_rows() {
        let ask = |k, threshold| Ask { queries: &[], at: 0, k, threshold, mask: None };
        let status = |floor| Status { kept: 2, floor, norm2: 4.0 };
        let hits = [Hit { row: 1, score: 0.9 }, Hit { row: 2, score: 0.5 }];
        assert!(is_certain(&hits, &ask(2, None), &status(0.5), Metric::Dot));
        assert!(!is_certain(&hits, &ask(2, None), &status(0.51), Metric::Dot));
        assert!(!is_certain(&hits, &ask(3, None), &status(0.1), Metric::Dot), "a third may be below the floor");
        assert!(is_certain(&hits, &ask(3, None), &status(f32::NEG_INFINITY), Metric::Dot));
        assert!(is_certain(&hits, &ask(3, Some(0.2)), &status(0.1999), Metric::Dot));
        assert!(is_certain(&[], &ask(3, Some(0.2)), &status(0.1999), Metric::Dot));
        // A squared distance of 0.5 is a rank of (4 - 0.5) / 2.
        assert!(is_certain(&hits, &ask(2, None), &status(1.75), Metric::SquaredL2));
        assert!(!is_certain(&hits, &ask(2, None), &status(1.76), Metric::SquaredL2));
    }
}
