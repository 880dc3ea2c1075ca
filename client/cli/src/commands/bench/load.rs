//! Options of a benchmark's load.

use std::{net::IpAddr, num::NonZeroUsize, time::Duration};

use accelerd_client::{
    Builder, Priority, RetryPolicy,
    load::{PriorityMix, Until},
};
use clap::Args;

use super::clients::{Plan, Shape};
use crate::args::duration;

/// Calls in flight per connection at most that an open loop plans for. The daemon's default limit is twice as high.
const STREAMS_PER_CONNECTION: f64 = 500.0;
/// Bounds of the connections of an open loop, unless they are given.
const CONNECTIONS: (usize, usize) = (8, 256);
/// Minimum calls of a warm-up, unless they are given.
const WARM_UP_CALLS: u64 = 64;

#[derive(Debug, Args)]
pub(super) struct Load {
    /// Calls in flight (closed loop); several levels are measured one after another.
    #[arg(long, value_delimiter = ',', default_value = "1,32,100", value_name = "N,...")]
    concurrency: Vec<NonZeroUsize>,
    /// Calls per second (open loop: a Poisson process, independent of the responses); several levels are measured one after
    /// another. Latency counts from a call's scheduled start. Calls are not retried.
    #[arg(long, value_delimiter = ',', value_parser = rate, value_name = "N,...", conflicts_with = "concurrency")]
    rate: Vec<f64>,
    /// Deadline of each call; only answers within it count as goodput. Calls are not retried.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    deadline: Option<Duration>,
    /// Priorities of the calls by share, as in high=1,normal=8,low=1 [default: all as --priority].
    #[arg(long, value_name = "MIX")]
    priorities: Option<PriorityMix>,
    /// Seed of the open loop's schedule and of the priorities.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Connections that the calls share [default: one per call in flight; for an open loop, 8 or more].
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroUsize>,
    /// Local addresses of the connections, in turn, such as 127.0.0.2,127.0.0.3.
    #[arg(long, value_delimiter = ',', value_name = "IP,...")]
    local_addresses: Vec<IpAddr>,
    /// Duration of each level.
    #[arg(long, value_parser = duration, default_value = "3s", value_name = "TIME", conflicts_with = "requests")]
    duration: Duration,
    /// Calls of each level, instead of a duration.
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Time before and after each level of an open loop in which calls are made and not counted, so that the others meet a
    /// lasting load; the deadline is a good value.
    #[arg(long, value_parser = duration, default_value = "0s", value_name = "TIME", requires = "rate", conflicts_with = "requests")]
    ramp: Duration,
    /// Calls before each level, which warm connections and caches [default: one per call in flight, 64 or more].
    #[arg(long, value_name = "N")]
    warm_up: Option<u64>,
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    number.ok_or_else(|| format!("expected calls per second above 0, got {text:?}"))
}

impl Load {
    /// The levels to measure. Without `--priorities`, all calls have `priority`.
    pub(super) fn plans(&self, priority: Priority) -> Vec<Plan> {
        let open = self.rate.iter().map(|rate| Shape::Open { rate: *rate });
        let closed = self.concurrency.iter().map(|concurrency| Shape::Closed { concurrency: concurrency.get() });
        let shapes: Vec<_> = if self.rate.is_empty() { closed.collect() } else { open.collect() };
        shapes.into_iter().map(|shape| self.plan(shape, priority)).collect()
    }

    fn plan(&self, shape: Shape, priority: Priority) -> Plan {
        let given = self.connections.map(NonZeroUsize::get);
        let (connections, in_flight) = match shape {
            Shape::Closed { concurrency } => (given.unwrap_or(concurrency).min(concurrency), concurrency),
            Shape::Open { rate } => {
                let connections = given.unwrap_or_else(|| self.connections_at(rate));
                (connections, connections)
            }
        };
        Plan {
            shape,
            connections,
            until: self.requests.map_or(Until::Elapsed(self.duration), Until::Requests),
            ramp: self.ramp,
            deadline: self.deadline,
            priorities: self.priorities.clone().unwrap_or_else(|| priority.into()),
            seed: self.seed,
            warm_up: self.warm_up.unwrap_or(WARM_UP_CALLS.max(in_flight as u64)),
            local_addresses: self.local_addresses.clone(),
        }
    }

    /// Enough connections for all calls that the deadline lets be in flight, so that none waits in the client.
    fn connections_at(&self, rate: f64) -> usize {
        let in_flight = rate * self.deadline.unwrap_or(Duration::from_secs(1)).as_secs_f64();
        let (minimum, maximum) = CONNECTIONS;
        (minimum..maximum)
            .find(|connections| *connections as f64 * STREAMS_PER_CONNECTION >= in_flight)
            .unwrap_or(maximum)
    }

    /// Returns true if results are reported by priority.
    pub(super) fn by_priority(&self) -> bool {
        self.priorities.is_some()
    }

    /// The client of the calls.
    pub(super) fn builder(&self, builder: &Builder) -> Builder {
        let mut builder = builder.clone();
        if let Some(deadline) = self.deadline {
            builder = builder.deadline(deadline);
        }
        if self.deadline.is_some() || !self.rate.is_empty() {
            builder = builder.retry(RetryPolicy::NEVER);
        }
        builder
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: Load,
    }

    fn plans(words: &[&str]) -> Vec<Plan> {
        Line::parse_from([&["bench"], words].concat()).load.plans(Priority::Low)
    }

    #[test]
    fn each_level_is_closed_unless_there_is_a_rate() {
        let shapes = |words: &[&str]| plans(words).into_iter().map(|plan| plan.shape).collect::<Vec<_>>();
        let closed = |concurrency| Shape::Closed { concurrency };
        assert_eq!(shapes(&[]), [closed(1), closed(32), closed(100)]);
        assert_eq!(shapes(&["--concurrency", "5"]), [closed(5)]);
        assert_eq!(shapes(&["--rate", "0.5,800"]), [0.5, 800.0].map(|rate| Shape::Open { rate }));
        for bad in [["--rate", "0"], ["--rate", "nan"], ["--rate", "-1"], ["--priorities", "top=1"]] {
            assert!(Line::try_parse_from([&["bench"], &bad[..]].concat()).is_err(), "{bad:?}");
        }
        assert!(Line::try_parse_from(["bench", "--rate", "5", "--concurrency", "5"]).is_err());
        assert!(Line::try_parse_from(["bench", "--ramp", "1s"]).is_err());
        assert_eq!(plans(&["--rate", "5", "--ramp", "1s"])[0].ramp, Duration::from_secs(1));
    }

    #[test]
    fn an_open_loop_has_connections_for_all_calls_that_may_be_in_flight() {
        let connections = |words: &[&str]| plans(words)[0].connections;
        assert_eq!(connections(&["--rate", "100", "--deadline", "1s"]), 8);
        assert_eq!(connections(&["--rate", "4000", "--deadline", "5s"]), 40);
        assert_eq!(connections(&["--rate", "1000000", "--deadline", "5s"]), 256);
        assert_eq!(connections(&["--rate", "4000", "--connections", "3"]), 3);
        assert_eq!(connections(&["--concurrency", "4", "--connections", "9"]), 4);
    }

    #[test]
    fn priorities_default_to_that_of_the_command_line() {
        let mix = |words: &[&str]| plans(words)[0].priorities.clone();
        assert_eq!(mix(&[]), Priority::Low.into());
        assert_eq!(mix(&["--priorities", "high"]), Priority::High.into());
    }
}
