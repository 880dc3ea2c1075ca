//! The clients of a benchmark: connections spread over single-threaded runtimes, which share nothing, as clients on other
//! machines would.

use std::{net::IpAddr, num::NonZeroUsize, ops::Range, sync::Arc, thread, time::Duration};

use accelerd_client::{
    Builder, Client, Error, Priority,
    load::{self, Arrival, PriorityMix, Schedule, Until},
};
use futures::future::{BoxFuture, join_all, try_join_all};
use tokio::{
    runtime,
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
};

use crate::error::{CliError, Result};

/// A call, by its index.
pub(super) type Call = Arc<dyn Fn(u64) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>;

/// Creates the calls of a client.
pub(super) type Calls = Arc<dyn Fn(&Client) -> Call + Send + Sync>;

/// Merged measurements.
pub(super) type Report = load::Report<Error>;

/// The arrival pattern of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// Closed loop.
    Closed {
        /// Calls in flight over all connections.
        concurrency: usize,
    },
    /// Open loop.
    Open {
        /// Mean calls per second over all connections.
        rate: f64,
    },
}

/// A level of a benchmark.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) shape: Shape,
    /// In a closed loop, at most one per call in flight.
    pub(super) connections: usize,
    pub(super) until: Until,
    /// Time before and after the window of an open loop whose calls do not count.
    pub(super) ramp: Duration,
    /// Only answers within it count as goodput.
    pub(super) deadline: Option<Duration>,
    pub(super) priorities: PriorityMix,
    pub(super) seed: u64,
    /// Calls before the measurement.
    pub(super) warm_up: u64,
    /// Local addresses of the connections, in turn; empty for any.
    pub(super) local_addresses: Vec<IpAddr>,
}

impl Plan {
    /// The connections of each thread.
    fn threads(&self) -> Vec<Range<usize>> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(self.connections);
        let first = |thread| thread * self.connections / threads;
        (0..threads).map(|thread| first(thread)..first(thread + 1)).collect()
    }

    /// Share of a connection in a total.
    fn share(&self, total: usize, connection: usize) -> usize {
        total / self.connections + usize::from(connection < total % self.connections)
    }

    /// Share of a connection in the limit of a closed loop.
    fn share_of_limit(&self, until: Until, connection: usize) -> Until {
        match until {
            Until::Requests(total) => {
                let total = usize::try_from(total).unwrap_or(usize::MAX);
                Until::Requests(self.share(total, connection) as u64)
            }
            Until::Elapsed(time) => Until::Elapsed(time),
        }
    }

    /// Calls in flight of a connection in a closed loop.
    fn concurrency(&self, connection: usize) -> usize {
        match self.shape {
            Shape::Closed { concurrency } => self.share(concurrency, connection),
            Shape::Open { .. } => 1,
        }
    }

    fn builder(&self, builder: &Builder, connection: usize) -> Builder {
        match self.local_addresses.as_slice() {
            [] => builder.clone(),
            addresses => builder.clone().local_address(addresses[connection % addresses.len()]),
        }
    }
}

/// Connected and warm clients.
pub(super) struct Clients {
    threads: Vec<Member>,
    /// The schedule of an open loop, and where its arrivals go.
    pacer: Option<(Schedule, Vec<UnboundedSender<Arrival>>)>,
}

struct Member {
    go: oneshot::Sender<()>,
    done: oneshot::Receiver<Vec<Report>>,
}

/// A connection.
struct Caller {
    connection: usize,
    /// The calls of each priority, in the order of [`Priority::ALL`].
    calls: [Call; Priority::ALL.len()],
}

impl Caller {
    fn call(&self, number: u64, priority: Priority) -> BoxFuture<'static, Result<(), Error>> {
        let index = Priority::ALL.iter().position(|candidate| *candidate == priority).unwrap_or_default();
        self.calls[index](number)
    }
}

impl Clients {
    /// Connects and warms all clients.
    pub(super) async fn gather(plan: &Plan, builder: &Builder, calls: &Calls) -> Result<Self> {
        let (pacer, mut arrivals) = pacer(plan);
        let start = |own: Range<usize>| {
            let (ready, is_ready) = oneshot::channel();
            let (go, told) = oneshot::channel();
            let (done, reports) = oneshot::channel();
            let builder = builder.clone();
            let calls = Arc::clone(calls);
            let plan = plan.clone();
            let arrivals: Vec<_> = arrivals.drain(..own.len().min(arrivals.len())).collect();
            let work = async move {
                match connected(&plan, own, &builder, &calls).await {
                    Ok(callers) => {
                        let _given_up = ready.send(Ok(()));
                        if told.await.is_ok() {
                            let _given_up = done.send(measured(&plan, &callers, arrivals).await);
                        }
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            };
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            let spawn = |runtime: runtime::Runtime| thread::Builder::new().spawn(move || runtime.block_on(work));
            runtime.and_then(spawn).map_err(lost)?;
            Ok::<_, CliError>((is_ready, Member { go, done: reports }))
        };
        let started = plan.threads().into_iter().map(start).collect::<Result<Vec<_>>>()?;
        let mut threads = vec![];
        for (is_ready, member) in started {
            is_ready.await.map_err(lost)??;
            threads.push(member);
        }
        Ok(Self { threads, pacer })
    }

    /// Runs all clients and merges their measurements.
    pub(super) async fn run(self) -> Result<Report> {
        let told = self.threads.into_iter().map(|Member { go, done }| {
            // A failed thread is reported where its results are awaited.
            let _gone = go.send(());
            done
        });
        let told: Vec<_> = told.collect();
        if let Some((schedule, senders)) = self.pacer {
            thread::Builder::new().spawn(move || schedule.run(&senders)).map_err(lost)?;
        }
        let reports = try_join_all(told).await.map_err(lost)?;
        let merged = reports.into_iter().flatten().reduce(|mut sum, report| {
            sum.merge(report);
            sum
        });
        merged.ok_or_else(|| CliError::Usage("--concurrency names no level".into()))
    }
}

/// Pacer of an open loop, and where its arrivals come out.
type Pacer = (Option<(Schedule, Vec<UnboundedSender<Arrival>>)>, Vec<UnboundedReceiver<Arrival>>);

/// The pacer of a plan, with a receiver for each connection; nothing for a closed loop.
fn pacer(plan: &Plan) -> Pacer {
    let Shape::Open { rate } = plan.shape else { return (None, vec![]) };
    let (senders, receivers) = (0..plan.connections).map(|_| unbounded_channel()).unzip();
    (Some((Schedule::new(rate, plan.until, &plan.priorities, plan.seed).with_ramp(plan.ramp), senders)), receivers)
}

/// Connects and warms the clients of a thread.
async fn connected(plan: &Plan, own: Range<usize>, builder: &Builder, calls: &Calls) -> Result<Vec<Caller>, Error> {
    let connect = |connection| plan.builder(builder, connection).connect();
    let clients = try_join_all(own.clone().map(connect)).await?;
    let callers: Vec<_> = own
        .zip(clients)
        .map(|(connection, client)| {
            let calls = Priority::ALL.map(|priority| calls(&client.clone().with_priority(priority)));
            Caller { connection, calls }
        })
        .collect();
    join_all(callers.iter().map(|caller| closed(plan, caller, Until::Requests(plan.warm_up)))).await;
    Ok(callers)
}

/// Runs the clients of a thread concurrently. In an open loop, each has a receiver of arrivals.
async fn measured(plan: &Plan, callers: &[Caller], arrivals: Vec<UnboundedReceiver<Arrival>>) -> Vec<Report> {
    if arrivals.is_empty() {
        return join_all(callers.iter().map(|caller| closed(plan, caller, plan.until))).await;
    }
    join_all(callers.iter().zip(arrivals).map(|(caller, arrivals)| open(plan, caller, arrivals))).await
}

async fn open(plan: &Plan, caller: &Caller, arrivals: UnboundedReceiver<Arrival>) -> Report {
    let call = |number, priority| caller.call(number, priority);
    load::open_loop(arrivals, plan.ramp, plan.deadline, call).await
}

async fn closed(plan: &Plan, caller: &Caller, until: Until) -> Report {
    let first = caller.connection as u64;
    let concurrency = plan.concurrency(caller.connection);
    let until = plan.share_of_limit(until, caller.connection);
    let priorities = plan.priorities.draws(plan.seed.wrapping_add(first));
    // Connections start with different inputs.
    let call = |number, priority| caller.call(first + number, priority);
    load::closed_loop(concurrency, until, priorities, plan.deadline, call).await
}

fn lost(error: impl std::fmt::Display) -> CliError {
    CliError::Partial(format!("a thread of callers was lost: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    fn plan(shape: Shape, connections: usize, until: Until) -> Plan {
        let priorities = PriorityMix::default();
        let local_addresses = vec![];
        Plan {
            shape,
            connections,
            until,
            ramp: Duration::ZERO,
            deadline: None,
            priorities,
            seed: 1,
            warm_up: 0,
            local_addresses,
        }
    }

    #[test]
    fn every_connection_has_a_thread_and_every_call_a_connection() {
        for (concurrency, connections) in [(1, 1), (3, 1), (500, 500), (500, 7), (2, 2)] {
            let plan = plan(Shape::Closed { concurrency }, connections, Until::Requests(1));
            let owned: Vec<_> = plan.threads().into_iter().flatten().collect();
            assert_eq!(owned, (0..plan.connections).collect::<Vec<_>>());
            let shares: Vec<_> = owned.iter().map(|connection| plan.share(concurrency, *connection)).collect();
            assert_eq!(shares.iter().sum::<usize>(), concurrency);
            assert!(shares.iter().all(|share| *share > 0), "{plan:?} has idle connections");
        }
    }

    #[tokio::test]
    async fn calls_are_spread_without_loss() {
        let closed = |concurrency| Shape::Closed { concurrency };
        let open = Shape::Open { rate: 1e5 };
        for (shape, connections) in [(closed(1), 1), (closed(3), 3), (closed(7), 2), (open, 1), (open, 3)] {
            let plan = plan(shape, connections, Until::Requests(101));
            let made = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&made);
            let call: Call = Arc::new(move |_| {
                count.fetch_add(1, Relaxed);
                Box::pin(async { Ok(()) })
            });
            let caller = |connection| Caller { connection, calls: std::array::from_fn(|_| Arc::clone(&call)) };
            let callers: Vec<_> = (0..connections).map(caller).collect();
            let (pacer, arrivals) = pacer(&plan);
            let pacer = pacer.map(|(schedule, senders)| thread::spawn(move || schedule.run(&senders)));
            let reports = measured(&plan, &callers, arrivals).await;
            let answered: u64 = reports.iter().map(|report| report.total().ok()).sum();
            assert_eq!((answered, made.load(Relaxed)), (101, 101), "{shape:?}");
            assert!(pacer.is_none_or(|pacer| pacer.join().is_ok()));
        }
    }
}
