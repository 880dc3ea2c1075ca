//! Priorities of the calls of a load.

use std::str::FromStr;

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::Priority;

/// Shares of the priorities in a load; by default all calls have normal priority.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityMix(Vec<(Priority, f64)>);

impl Default for PriorityMix {
    fn default() -> Self {
        Priority::Normal.into()
    }
}

/// All calls have this priority.
impl From<Priority> for PriorityMix {
    fn from(priority: Priority) -> Self {
        Self(vec![(priority, 1.0)])
    }
}

impl PriorityMix {
    /// Returns true if calls of this priority occur.
    pub fn contains(&self, priority: Priority) -> bool {
        self.0.iter().any(|(own, _)| *own == priority)
    }

    /// The priorities of the calls, at random by their shares; equal seeds give equal priorities.
    pub fn draws(&self, seed: u64) -> impl Iterator<Item = Priority> + Send + use<> {
        let shares = self.0.clone();
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        let mut random = StdRng::seed_from_u64(seed);
        std::iter::repeat_with(move || {
            let mut left = random.random::<f64>() * total;
            let drawn = shares.iter().find(|(_, share)| {
                left -= share;
                left < 0.0
            });
            drawn.or(shares.last()).map_or(Priority::Normal, |(priority, _)| *priority)
        })
    }
}

/// Parses `high` or `high=1,normal=8,low=1`.
impl FromStr for PriorityMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut shares: Vec<(Priority, f64)> = vec![];
        for part in text.split(',') {
            let (name, share) = part.split_once('=').unwrap_or((part, "1"));
            let priority = name.trim().parse()?;
            let share = share.trim().parse().ok().filter(|share: &f64| share.is_finite() && *share > 0.0);
            let share = share.ok_or_else(|| format!("expected a share above 0 for {priority}, got {part:?}"))?;
            if shares.iter().any(|(earlier, _)| *earlier == priority) {
                return Err(format!("{priority} has two shares"));
            }
            shares.push((priority, share));
        }
        Ok(Self(shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_occur_by_their_shares_and_repeat_with_the_seed() {
        let mix: PriorityMix = "high=1,normal=8,low=1".parse().expect("it is valid");
        let drawn: Vec<_> = mix.draws(7).take(10_000).collect();
        for (priority, expected) in [(Priority::High, 0.1), (Priority::Normal, 0.8), (Priority::Low, 0.1)] {
            let share = drawn.iter().filter(|one| **one == priority).count() as f64 / 1e4;
            assert!((share - expected).abs() < 0.02, "{priority}: {share}");
        }
        assert!(mix.draws(7).take(100).eq(drawn[..100].iter().copied()));
        assert!(!mix.draws(8).take(100).eq(drawn[..100].iter().copied()));
    }

    #[test]
    fn one_priority_needs_no_share() {
        let mix: PriorityMix = "low".parse().expect("it is valid");
        assert!(mix.draws(1).take(50).all(|priority| priority == Priority::Low));
        assert!(mix.contains(Priority::Low) && !mix.contains(Priority::Normal));
    }

    #[test]
    fn shares_must_be_positive_and_priorities_distinct() {
        for bad in ["", "high=0", "high=-1", "high=x", "high=nan", "urgent=1", "high=1,high=2", "high=1,"] {
            assert!(bad.parse::<PriorityMix>().is_err(), "{bad:?}");
        }
    }
}
