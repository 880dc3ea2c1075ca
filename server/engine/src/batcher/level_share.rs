//! The share of the device that a priority keeps while higher ones take all the rest: priorities are strict, except that a
//! level whose oldest entry is overdue earns credit for every batch of higher levels. Once the credit pays for its next entry,
//! that entry goes first.

use crate::config::Priority;

/// The part of the time of higher levels that an overdue level earns.
const SHARE: f64 = 0.1;

#[derive(Debug, Default)]
pub(super) struct LevelShare {
    /// Seconds.
    credit: [f64; Priority::COUNT],
}

impl LevelShare {
    /// Accounts for a batch: the seconds that each level took of it, and which levels are overdue. A level owes at most
    /// `max_debt` seconds for what it took.
    pub(super) fn record(&mut self, seconds: [f64; Priority::COUNT], overdue: [bool; Priority::COUNT], max_debt: f64) {
        let mut higher = 0.0;
        for level in Priority::DESCENDING.map(Priority::index) {
            let earned = if overdue[level] { higher * SHARE } else { 0.0 };
            self.credit[level] = (self.credit[level] + earned - seconds[level]).max(-max_debt);
            higher += seconds[level];
        }
    }

    /// Returns true if the credit of a level pays for an entry.
    pub(super) fn affords(&self, level: Priority, seconds: f64) -> bool {
        let credit = self.credit[level.index()];
        credit > 0.0 && credit >= seconds
    }

    /// A level without entries keeps no credit.
    pub(super) fn clear(&mut self, level: Priority) {
        let credit = &mut self.credit[level.index()];
        *credit = credit.min(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overdue_level_gets_a_tenth_of_the_time_of_higher_ones() {
        let mut share = LevelShare::default();
        let (mut high, mut low) = (0.0, 0.0);
        for _ in 0..10_000 {
            let is_low = share.affords(Priority::Low, 0.02);
            *(if is_low { &mut low } else { &mut high }) += if is_low { 0.05 } else { 0.01 };
            let seconds = if is_low { [0.05, 0.0, 0.0] } else { [0.0, 0.0, 0.01] };
            share.record(seconds, [true, false, false], 0.05);
        }
        let part: f64 = low / high;
        assert!((0.09..0.11).contains(&part), "{part}");
    }

    #[test]
    fn a_level_that_is_not_overdue_earns_nothing() {
        let mut share = LevelShare::default();
        (0..1000).for_each(|_| share.record([0.0, 0.0, 1.0], [false; 3], 0.05));
        assert!(!share.affords(Priority::Low, 0.0) && !share.affords(Priority::Normal, 0.0));
    }
}
