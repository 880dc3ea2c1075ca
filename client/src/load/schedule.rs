//! Arrivals of an open loop: a Poisson process, and the thread that waits for its times.

use std::{thread, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{sync::mpsc::UnboundedSender, time::Instant};

use super::{PriorityMix, Until};
use crate::Priority;

/// Separates the random numbers of priorities from those of arrival times.
const PRIORITY_STREAM: u64 = 0x9e37_79b9_7f4a_7c15;
/// Rates below are raised to it, which bounds the time between two arrivals.
const MIN_RATE: f64 = 1e-3;

/// A call that is due.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Index of the call in the schedule.
    pub number: u64,
    /// Its scheduled start.
    pub due: Instant,
    /// Its priority.
    pub priority: Priority,
    /// True if it counts, or only loads the daemon.
    pub counted: bool,
}

/// Index, time since the start, and priority of each call of a Poisson process. Equal seeds give equal schedules.
pub struct Schedule {
    rate: f64,
    until: Until,
    ramp: Duration,
    at: f64,
    number: u64,
    gaps: StdRng,
    priorities: Box<dyn Iterator<Item = Priority> + Send>,
}

impl Schedule {
    /// A schedule of `rate` calls per second on average.
    pub fn new(rate: f64, until: Until, mix: &PriorityMix, seed: u64) -> Self {
        Self {
            rate: rate.max(MIN_RATE),
            until,
            ramp: Duration::ZERO,
            at: 0.0,
            number: 0,
            gaps: StdRng::seed_from_u64(seed),
            priorities: Box::new(mix.draws(seed ^ PRIORITY_STREAM)),
        }
    }

    /// Adds this time before and after the window of `Until::Elapsed`. Its calls load the daemon and do not count, so that the
    /// others meet the queue of a lasting load, from the first to the last.
    #[must_use]
    pub fn with_ramp(mut self, ramp: Duration) -> Self {
        self.ramp = ramp;
        self
    }

    /// Start and end of the window whose calls count, and the end of the schedule; nothing if it ends after a number of calls.
    fn window(&self) -> Option<(Duration, Duration, Duration)> {
        match self.until {
            Until::Elapsed(window) => Some((self.ramp, self.ramp + window, self.ramp + window + self.ramp)),
            Until::Requests(_) => None,
        }
    }

    /// Waits for each arrival and sends it to the receivers in turn. Returns at the end of the schedule, or when a receiver is
    /// gone. It blocks its thread, since the timers of a runtime are precise to a millisecond only.
    pub fn run(self, receivers: &[UnboundedSender<Arrival>]) {
        let start = Instant::now();
        let window = self.window();
        for ((number, at, priority), receiver) in self.zip(receivers.iter().cycle()) {
            let due = start + at;
            sleep_until(due);
            let counted = window.is_none_or(|(first, last, _)| (first..last).contains(&at));
            if receiver.send(Arrival { number, due, priority, counted }).is_err() {
                return;
            }
        }
        if let Some((.., end)) = window {
            sleep_until(start + end);
        }
    }
}

impl Iterator for Schedule {
    type Item = (u64, Duration, Priority);

    fn next(&mut self) -> Option<Self::Item> {
        let uniform: f64 = self.gaps.random();
        self.at -= (1.0 - uniform).ln() / self.rate;
        let at = Duration::try_from_secs_f64(self.at).ok()?;
        let number = self.number;
        self.number += 1;
        let more = match self.until {
            Until::Requests(most) => number < most,
            Until::Elapsed(_) => self.window().is_some_and(|(.., end)| at < end),
        };
        if more { Some((number, at, self.priorities.next()?)) } else { None }
    }
}

fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn times(rate: f64, seed: u64) -> Vec<f64> {
        let window = Until::Elapsed(Duration::from_secs(100));
        let schedule = Schedule::new(rate, window, &PriorityMix::default(), seed);
        schedule.map(|(_, at, _)| at.as_secs_f64()).collect()
    }

    #[test]
    fn gaps_are_exponential_and_repeat_with_the_seed() {
        let times = times(100.0, 3);
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 100.0 - 1.0).abs() < 0.05, "mean {mean}");
        // The standard deviation of an exponential distribution is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "deviation {}", variance.sqrt());
        assert!(gaps.iter().all(|gap| *gap >= 0.0) && times.last().is_some_and(|last| *last < 100.0));
        assert_eq!(times, self::times(100.0, 3));
        assert_ne!(times, self::times(100.0, 4));
    }

    #[test]
    fn a_schedule_ends_at_its_count() {
        for count in [0, 1, 17] {
            let schedule = Schedule::new(5.0, Until::Requests(count), &PriorityMix::default(), 1);
            assert!(schedule.map(|(number, ..)| number).eq(0..count));
        }
    }

    #[test]
    fn calls_of_the_ramp_do_not_count() {
        let window = Duration::from_millis(40);
        let ramp = Duration::from_millis(20);
        let (sender, mut receiver) = unbounded_channel();
        let start = Instant::now();
        Schedule::new(2e4, Until::Elapsed(window), &PriorityMix::default(), 1).with_ramp(ramp).run(&[sender]);
        assert!(start.elapsed() >= window + 2 * ramp);
        let arrivals: Vec<_> = std::iter::from_fn(|| receiver.blocking_recv()).collect();
        let counted = arrivals.iter().filter(|arrival| arrival.counted).count();
        let share = counted as f64 / arrivals.len() as f64;
        assert!((share - 0.5).abs() < 0.1, "{counted} of {}", arrivals.len());
        assert!(
            arrivals.first().is_some_and(|first| !first.counted) && arrivals.last().is_some_and(|last| !last.counted)
        );
    }

    #[test]
    fn arrivals_are_sent_in_order_to_the_receivers_in_turn() {
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| unbounded_channel()).unzip();
        Schedule::new(1e6, Until::Requests(30), &PriorityMix::default(), 1).run(&senders);
        drop(senders);
        for (own, receiver) in (0..).zip(&mut receivers) {
            let numbers = std::iter::from_fn(|| receiver.blocking_recv()).map(|arrival| arrival.number);
            assert!(numbers.eq((own..30).step_by(3)));
        }
    }
}
