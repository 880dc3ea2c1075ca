//! The clients of a benchmark: connections spread over single-threaded runtimes, which share nothing, as clients on other
//! machines would.

use std::{num::NonZeroUsize, ops::Range, sync::Arc, thread};

use accelerd_client::{
    Builder, Client, Error,
    load::{self, Shape, Until},
};
use futures::future::{BoxFuture, join_all, try_join_all};
use tokio::{runtime, sync::oneshot};

use crate::error::{CliError, Result};

/// Calls before the measurement, which warm connections, pools and caches.
const WARM_UP_CALLS: usize = 64;

/// A call, by its index.
pub(super) type Call = Arc<dyn Fn(u64) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>;

/// Creates the calls of a connection.
pub(super) type Calls = Arc<dyn Fn(&Client) -> Call + Send + Sync>;

/// Merged measurements.
pub(super) type Report = load::Report<Error>;

/// Number of clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// Calls in flight over all connections.
    pub(super) concurrency: usize,
    /// Connections, at most one per call in flight.
    pub(super) connections: usize,
}

impl Crowd {
    /// Defaults to one connection per call in flight.
    pub(super) fn new(concurrency: NonZeroUsize, connections: Option<NonZeroUsize>) -> Self {
        let connections = connections.unwrap_or(concurrency).min(concurrency).get();
        Self { concurrency: concurrency.get(), connections }
    }

    /// The connections of each thread.
    fn threads(self) -> Vec<Range<usize>> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(self.connections);
        let first = |thread| thread * self.connections / threads;
        (0..threads).map(|thread| first(thread)..first(thread + 1)).collect()
    }

    /// Share of a connection in a total.
    fn share(self, total: usize, connection: usize) -> usize {
        total / self.connections + usize::from(connection < total % self.connections)
    }
}

/// Connected and warm clients.
pub(super) struct Clients {
    threads: Vec<Member>,
}

struct Member {
    go: oneshot::Sender<Until>,
    done: oneshot::Receiver<Vec<Report>>,
}

impl Clients {
    /// Connects and warms all clients.
    pub(super) async fn gather(crowd: Crowd, builder: &Builder, calls: &Calls) -> Result<Self> {
        let start = |own| {
            let (ready, is_ready) = oneshot::channel();
            let ((go, told), (done, reports)) = (oneshot::channel(), oneshot::channel());
            let (builder, calls) = (builder.clone(), Arc::clone(calls));
            let work = async move {
                match connected(crowd, own, &builder, &calls).await {
                    Ok(callers) => {
                        let _given_up = ready.send(Ok(()));
                        if let Ok(until) = told.await {
                            let _given_up = done.send(measured(crowd, &callers, until).await);
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
        let started = crowd.threads().into_iter().map(start).collect::<Result<Vec<_>>>()?;
        let mut threads = vec![];
        for (is_ready, member) in started {
            is_ready.await.map_err(lost)??;
            threads.push(member);
        }
        Ok(Self { threads })
    }

    /// Runs all clients and merges their measurements.
    pub(super) async fn run(self, until: Until) -> Result<Report> {
        let told = self.threads.into_iter().map(|Member { go, done }| {
            // A failed thread is reported where its results are awaited.
            let _gone = go.send(until);
            done
        });
        let told: Vec<_> = told.collect();
        let reports = try_join_all(told).await.map_err(lost)?;
        let merged = reports.into_iter().flatten().reduce(|mut sum, report| {
            sum.merge(report);
            sum
        });
        merged.ok_or_else(|| CliError::Usage("--concurrency names no level".into()))
    }
}

/// Index of a connection, and its calls.
type Caller = (usize, Call);

/// Connects and warms the clients of a thread.
async fn connected(crowd: Crowd, own: Range<usize>, builder: &Builder, calls: &Calls) -> Result<Vec<Caller>, Error> {
    let clients = try_join_all(own.clone().map(|_| builder.clone().connect())).await?;
    let callers: Vec<_> = own.zip(clients.iter().map(|client| calls(client))).collect();
    let warm_up = Until::Requests(WARM_UP_CALLS.max(crowd.concurrency) as u64);
    measured(crowd, &callers, warm_up).await;
    Ok(callers)
}

/// Runs the clients of a thread concurrently.
async fn measured(crowd: Crowd, callers: &[Caller], until: Until) -> Vec<Report> {
    let loops = callers.iter().map(|(connection, call)| {
        let until = match until {
            Until::Requests(total) => {
                let total = usize::try_from(total).unwrap_or(usize::MAX);
                Until::Requests(crowd.share(total, *connection) as u64)
            }
            Until::Elapsed(time) => Until::Elapsed(time),
        };
        let shape = Shape::Closed { concurrency: crowd.share(crowd.concurrency, *connection) };
        // Connections start with different inputs.
        load::run(shape, until, |number| call(*connection as u64 + number))
    });
    join_all(loops).await
}

fn lost(error: impl std::fmt::Display) -> CliError {
    CliError::Partial(format!("a thread of callers was lost: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    fn crowd(concurrency: usize, connections: Option<usize>) -> Crowd {
        let count = |n| NonZeroUsize::new(n).expect("at least one");
        Crowd::new(count(concurrency), connections.map(count))
    }

    #[test]
    fn every_connection_has_a_thread_and_every_call_a_connection() {
        for (concurrency, connections) in [(1, None), (3, Some(1)), (500, None), (500, Some(7)), (2, Some(9))] {
            let crowd = crowd(concurrency, connections);
            let owned: Vec<_> = crowd.threads().into_iter().flatten().collect();
            assert_eq!(owned, (0..crowd.connections).collect::<Vec<_>>());
            let shares: Vec<_> = owned.iter().map(|connection| crowd.share(concurrency, *connection)).collect();
            assert_eq!(shares.iter().sum::<usize>(), concurrency);
            assert!(shares.iter().all(|share| *share > 0), "{crowd:?} has idle connections");
        }
    }

    #[tokio::test]
    async fn calls_are_spread_without_loss() {
        for (concurrency, connections) in [(1, None), (3, None), (7, Some(2))] {
            let crowd = crowd(concurrency, connections);
            let made = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&made);
            let call: Call = Arc::new(move |_| {
                count.fetch_add(1, Relaxed);
                Box::pin(async { Ok(()) })
            });
            let callers: Vec<_> = (0..crowd.connections).map(|connection| (connection, Arc::clone(&call))).collect();
            let reports = measured(crowd, &callers, Until::Requests(101)).await;
            let answered: u64 = reports.iter().map(|report| report.succeeded).sum();
            assert_eq!((answered, made.load(Relaxed)), (101, 101));
        }
    }
}
