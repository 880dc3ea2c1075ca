//! Accounting of a load by gRPC code and priority.

use std::time::Duration;

use tonic::Code;

use super::Histogram;
use crate::{Error, Priority};

/// A generator is late with a call that it starts this long after its scheduled start.
const LATE_SEND: Duration = Duration::from_millis(10);
/// Share of late sends up to which the generator keeps up.
const LATE_SHARE: f64 = 0.01;
/// Number of gRPC codes.
const CODES: usize = 17;

/// An error with a gRPC code.
pub trait HasCode {
    /// The code, or the closest one.
    fn code(&self) -> Code;
}

impl HasCode for Error {
    fn code(&self) -> Code {
        Self::code(self)
    }
}

impl HasCode for Code {
    fn code(&self) -> Code {
        *self
    }
}

/// Results of the calls of a priority, or of all calls.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    codes: [u64; CODES],
    /// Successful calls that were answered within the deadline.
    pub in_time: u64,
    /// Latencies of the successful calls.
    pub latencies: Histogram,
    /// Latencies of the refused calls.
    pub refusals: Histogram,
}

impl Outcomes {
    /// Calls with this code.
    pub fn count(&self, code: Code) -> u64 {
        self.codes[index(code)]
    }

    /// The codes that occurred, with their counts.
    pub fn codes(&self) -> impl Iterator<Item = (Code, u64)> {
        (0..).map(Code::from_i32).zip(self.codes).filter(|(_, count)| *count > 0)
    }

    /// All completed calls.
    pub fn sent(&self) -> u64 {
        self.codes.iter().sum()
    }

    /// Successful calls.
    pub fn ok(&self) -> u64 {
        self.count(Code::Ok)
    }

    /// Calls that the daemon refused for lack of room or time: `ResourceExhausted`.
    pub fn refused(&self) -> u64 {
        self.count(Code::ResourceExhausted)
    }

    /// Calls whose deadline passed, in the daemon or in the client.
    pub fn expired(&self) -> u64 {
        self.count(Code::DeadlineExceeded)
    }

    /// Calls that failed in another way.
    pub fn errors(&self) -> u64 {
        self.sent() - self.ok() - self.refused() - self.expired()
    }

    /// Calls that did not succeed.
    pub fn failed(&self) -> u64 {
        self.sent() - self.ok()
    }

    fn add(&mut self, code: Code, latency: Duration, deadline: Option<Duration>) {
        self.codes[index(code)] += 1;
        if code == Code::Ok {
            self.in_time += u64::from(deadline.is_none_or(|deadline| latency <= deadline));
            self.latencies.record(latency);
        }
        if code == Code::ResourceExhausted {
            self.refusals.record(latency);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.codes.iter_mut().zip(other.codes).for_each(|(own, count)| *own += count);
        self.in_time += other.in_time;
        self.latencies.merge(&other.latencies);
        self.refusals.merge(&other.refusals);
    }
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Report<E> {
    /// The first error; refusals and expired deadlines count only if there is no other error.
    pub first_error: Option<E>,
    /// Time in which calls were started.
    pub window: Duration,
    /// Time from the first start to the last completion.
    pub elapsed: Duration,
    /// Delays with which the generator started the calls of an open loop; empty for a closed loop.
    pub lag: Histogram,
    deadline: Option<Duration>,
    by_priority: [Outcomes; Priority::ALL.len()],
}

impl<E: HasCode> Report<E> {
    pub(super) fn new(deadline: Option<Duration>) -> Self {
        Self {
            first_error: None,
            window: Duration::ZERO,
            elapsed: Duration::ZERO,
            lag: Histogram::default(),
            deadline,
            by_priority: std::array::from_fn(|_| Outcomes::default()),
        }
    }

    /// Results of a priority's calls.
    pub fn of(&self, priority: Priority) -> &Outcomes {
        &self.by_priority[priority as usize]
    }

    /// Results of all calls.
    pub fn total(&self) -> Outcomes {
        let mut total = Outcomes::default();
        self.by_priority.iter().for_each(|outcomes| total.merge(outcomes));
        total
    }

    /// Successful calls per second until the last completion.
    pub fn rate(&self) -> f64 {
        per_second(self.total().ok(), self.elapsed)
    }

    /// Of these calls, those that succeeded within the deadline, per second of the window.
    pub fn goodput(&self, outcomes: &Outcomes) -> f64 {
        per_second(outcomes.in_time, self.window)
    }

    /// Calls that the generator started more than 10 ms late.
    pub fn late_sends(&self) -> u64 {
        self.lag.count_above(LATE_SEND)
    }

    /// Returns true if the generator started at most 1% of the calls late.
    pub fn kept_up(&self) -> bool {
        self.late_sends() as f64 <= LATE_SHARE * self.lag.total() as f64
    }

    /// Merges the report of a concurrent run.
    pub fn merge(&mut self, other: Self) {
        other.first_error.into_iter().for_each(|error| self.note(error));
        self.window = self.window.max(other.window);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.lag.merge(&other.lag);
        self.by_priority.iter_mut().zip(&other.by_priority).for_each(|(own, outcomes)| own.merge(outcomes));
    }

    pub(super) fn add(&mut self, priority: Priority, latency: Duration, result: Result<(), E>) {
        let code = result.as_ref().err().map_or(Code::Ok, HasCode::code);
        self.by_priority[priority as usize].add(code, latency, self.deadline);
        result.err().into_iter().for_each(|error| self.note(error));
    }

    pub(super) fn end(&mut self, window: Duration, elapsed: Duration) {
        (self.window, self.elapsed) = (window, elapsed);
    }

    fn note(&mut self, error: E) {
        let is_overload = |error: &E| matches!(error.code(), Code::ResourceExhausted | Code::DeadlineExceeded);
        if self.first_error.as_ref().is_none_or(|first| is_overload(first) && !is_overload(&error)) {
            self.first_error = Some(error);
        }
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

fn index(code: Code) -> usize {
    usize::try_from(i32::from(code)).unwrap_or_default().min(CODES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn report(results: &[(Priority, u64, Code)]) -> Report<Code> {
        let mut report = Report::new(Some(SECOND));
        for &(priority, millis, code) in results {
            let result = if code == Code::Ok { Ok(()) } else { Err(code) };
            report.add(priority, Duration::from_millis(millis), result);
        }
        report.end(2 * SECOND, 3 * SECOND);
        report
    }

    #[test]
    fn calls_are_counted_by_code_priority_and_deadline() {
        let mut first = report(&[
            (Priority::High, 900, Code::Ok),
            (Priority::High, 1001, Code::Ok),
            (Priority::Low, 4, Code::ResourceExhausted),
            (Priority::Low, 1000, Code::DeadlineExceeded),
        ]);
        let second = report(&[(Priority::Low, 1, Code::Unavailable), (Priority::Low, 1, Code::Ok)]);
        assert_eq!(first.first_error, Some(Code::ResourceExhausted));
        first.merge(second);
        assert_eq!(first.first_error, Some(Code::Unavailable));
        let high = first.of(Priority::High);
        let low = first.of(Priority::Low);
        let total = first.total();
        assert_eq!((high.sent(), high.ok(), high.in_time), (2, 2, 1));
        assert_eq!((low.sent(), low.refused(), low.expired(), low.errors(), low.failed()), (4, 1, 1, 1, 3));
        assert_eq!((total.sent(), total.ok(), total.in_time, total.latencies.total()), (6, 3, 2, 3));
        assert!(total.refusals.max() == Duration::from_millis(4) && total.latencies.max() > SECOND);
        let codes: Vec<_> = total.codes().collect();
        assert_eq!(codes.len(), 4);
        assert!(codes.contains(&(Code::Ok, 3)) && codes.contains(&(Code::Unavailable, 1)));
        // Goodput is per second of arrivals, the rate per second until the last answer.
        assert!((first.goodput(&total) - 1.0).abs() < 1e-9 && (first.rate() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_generator_keeps_up_with_up_to_a_hundredth_of_late_sends() {
        let mut report = report(&[]);
        assert!(report.kept_up());
        (0..990).for_each(|_| report.lag.record(Duration::from_millis(1)));
        (0..10).for_each(|_| report.lag.record(Duration::from_millis(50)));
        assert!(report.kept_up() && report.late_sends() == 10);
        report.lag.record(SECOND);
        assert!(!report.kept_up());
    }
}
