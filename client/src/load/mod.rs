//! Load generator for any asynchronous call.
//!
//! A closed loop keeps a fixed number of calls in flight and measures the maximum throughput. An open loop starts calls at
//! the times of a schedule, independent of the responses, and measures latency from the scheduled start of a call, which
//! avoids coordinated omission (Tene). It also measures how late the generator itself starts the calls: where
//! [`Report::kept_up`] is false, the figures describe the generator and not the daemon.

mod histogram;
mod mix;
mod report;
mod schedule;

use std::{future::Future, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

pub use self::{
    histogram::Histogram,
    mix::PriorityMix,
    report::{HasCode, Outcomes, Report},
    schedule::{Arrival, Schedule},
};
use crate::Priority;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After a number of calls.
    Requests(u64),
    /// After a time.
    Elapsed(Duration),
}

/// Keeps `concurrency` calls in flight until the limit, then waits for those in flight. `call` takes the index of the call and
/// its priority. An answer after `deadline` does not count as goodput.
pub async fn closed_loop<E, F>(
    concurrency: usize,
    until: Until,
    priorities: impl IntoIterator<Item = Priority>,
    deadline: Option<Duration>,
    call: impl Fn(u64, Priority) -> F,
) -> Report<E>
where
    E: HasCode,
    F: Future<Output = Result<(), E>>,
{
    let start = Instant::now();
    let mut priorities = priorities.into_iter();
    let mut numbers = 0..;
    let mut next = || {
        let number = numbers.next()?;
        let more = match until {
            Until::Requests(most) => number < most,
            Until::Elapsed(most) => start.elapsed() < most,
        };
        if more { Some((number, priorities.next()?)) } else { None }
    };
    let timed = async |number: u64, priority: Priority| {
        let from = Instant::now();
        let result = call(number, priority).await;
        (priority, from.elapsed(), result)
    };
    let mut report = Report::new(deadline);
    let mut running = FuturesUnordered::new();
    running.extend((0..concurrency).map_while(|_| next()).map(|(number, priority)| timed(number, priority)));
    while let Some((priority, latency, result)) = running.next().await {
        report.add(priority, latency, result);
        if let Some((number, priority)) = next() {
            running.push(timed(number, priority));
        }
    }
    report.end(start.elapsed(), start.elapsed());
    report
}

/// Makes the calls of a schedule as they arrive from [`Schedule::run`], then waits for those in flight. `call` takes the index
/// of the call and its priority. An answer later than `deadline` after the scheduled start does not count as goodput. `ramp` is
/// that of the schedule.
pub async fn open_loop<E, F>(
    mut arrivals: UnboundedReceiver<Arrival>,
    ramp: Duration,
    deadline: Option<Duration>,
    call: impl Fn(u64, Priority) -> F,
) -> Report<E>
where
    E: HasCode,
    F: Future<Output = Result<(), E>>,
{
    let start = Instant::now();
    let mut report = Report::new(deadline);
    let timed = async |Arrival { number, due, priority, counted }: Arrival| {
        let lag = due.elapsed();
        let result = call(number, priority).await;
        counted.then(|| (priority, lag, due.elapsed(), result))
    };
    let mut running = FuturesUnordered::new();
    let mut window = None;
    loop {
        tokio::select! {
            arrival = arrivals.recv(), if window.is_none() => match arrival {
                Some(arrival) => running.push(timed(arrival)),
                None => window = Some(start.elapsed().saturating_sub(2 * ramp)),
            },
            Some(completed) = running.next(), if !running.is_empty() => {
                if let Some((priority, lag, latency, result)) = completed {
                    report.lag.record(lag);
                    report.add(priority, latency, result);
                }
            }
            else => break,
        }
    }
    report.end(window.unwrap_or_default(), start.elapsed());
    report
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::{sync::mpsc::unbounded_channel, time::sleep};
    use tonic::Code;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_keeps_its_concurrency_and_stops_at_its_count() {
        let in_flight = Cell::new(0);
        let priorities = std::iter::repeat(Priority::Normal);
        let report = closed_loop(8, Until::Requests(100), priorities, None, |number, _| {
            in_flight.set(in_flight.get() + 1);
            assert!(in_flight.get() <= 8);
            let in_flight = &in_flight;
            async move {
                sleep(Duration::from_millis(10)).await;
                in_flight.set(in_flight.get() - 1);
                if number == 7 { Err(Code::Internal) } else { Ok(()) }
            }
        })
        .await;
        let total = report.total();
        assert_eq!((total.ok(), total.errors(), report.first_error), (99, 1, Some(Code::Internal)));
        assert_eq!(report.elapsed.as_millis(), 130);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_loop_charges_a_stall_to_the_calls_that_had_to_wait() {
        let schedule = Schedule::new(100.0, Until::Elapsed(Duration::from_secs(10)), &PriorityMix::default(), 1);
        let (sender, arrivals) = unbounded_channel();
        let start = Instant::now();
        for (number, at, priority) in schedule {
            sender.send(Arrival { number, due: start + at, priority, counted: true }).expect("it is open");
        }
        drop(sender);
        // The daemon answers nothing for ten seconds.
        sleep(Duration::from_secs(10)).await;
        let report = open_loop(arrivals, Duration::ZERO, None, |_, _| async { Ok::<(), Code>(()) }).await;
        let total = report.total();
        assert!((800..1200).contains(&total.ok()), "{} calls", total.ok());
        let median = total.latencies.quantile(0.5).as_secs_f64();
        assert!((4.0..6.0).contains(&median), "{median} s");
    }

    #[tokio::test(start_paused = true)]
    async fn late_answers_late_sends_and_calls_that_do_not_count_are_told_apart() {
        let (sender, arrivals) = unbounded_channel();
        let start = Instant::now();
        sleep(Duration::from_secs(1)).await;
        // One call is in time, one is answered late, one is sent late by the generator, and one does not count.
        for (number, due) in [(0, Instant::now()), (1, Instant::now()), (2, start), (3, start)] {
            sender.send(Arrival { number, due, priority: Priority::High, counted: number < 3 }).expect("it is open");
        }
        drop(sender);
        let call = async |number, _| {
            sleep(Duration::from_millis(if number == 1 { 700 } else { 10 })).await;
            Ok::<(), Code>(())
        };
        let report = open_loop(arrivals, Duration::ZERO, Some(Duration::from_millis(500)), call).await;
        let total = report.total();
        assert_eq!((total.sent(), total.ok(), total.in_time), (3, 3, 1));
        assert_eq!((report.late_sends(), report.kept_up()), (1, false));
    }
}
