//! `grpc.health.v1`: readiness, liveness, and each service by name.

use std::{pin::Pin, sync::Arc};

use accelerd_proto::methods::SERVICES;
use futures::{Stream, StreamExt};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server};

/// Readiness and liveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Accepts calls: false while starting and draining, and without a device that may serve.
    pub ready: bool,
    /// Need not be replaced: false once all GPUs are lost, or a client has drained the daemon.
    pub live: bool,
}

#[derive(Clone, Copy, Debug)]
struct HealthState {
    /// Started, and not shutting down after a signal.
    serving: bool,
    /// The CPU may serve, or a GPU is left.
    devices_ready: bool,
    devices_live: bool,
    /// State of a drain by a client.
    drain: Drain,
    /// Number of drains begun.
    drains: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    None,
    /// Accepted calls are still running, or the grace period has not passed.
    Begun,
    /// The process is to be replaced.
    Final,
}

/// Identifies a drain: a later drain or resumption invalidates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainTicket(u64);

impl HealthState {
    fn health(self) -> Health {
        Health {
            ready: self.serving && self.devices_ready && self.drain == Drain::None,
            live: self.devices_live && self.drain != Drain::Final,
        }
    }
}

/// Holds the daemon's health and serves it. Clones share the state.
#[derive(Clone, Debug)]
pub struct Reporter {
    state: Arc<watch::Sender<HealthState>>,
    /// Ends watch streams, which would keep their connections open.
    closing: CancellationToken,
}

impl Reporter {
    /// The state of a starting daemon: live and not ready.
    pub fn new(closing: CancellationToken) -> Self {
        let state =
            HealthState { serving: false, devices_ready: true, devices_live: true, drain: Drain::None, drains: 0 };
        Self { state: Arc::new(watch::Sender::new(state)), closing }
    }

    /// The current health.
    pub fn now(&self) -> Health {
        self.state.borrow().health()
    }

    /// Updates the state, notifying watchers if the health changes.
    fn update(&self, change: impl FnOnce(&mut HealthState)) {
        self.state.send_if_modified(|state| {
            let before = state.health();
            change(state);
            state.health() != before
        });
    }

    /// Sets whether the daemon accepts calls.
    pub fn set_ready(&self, ready: bool) {
        self.update(|state| state.serving = ready);
    }

    /// Sets whether there is a device that may serve.
    pub fn set_devices_ready(&self, ready: bool) {
        self.update(|state| state.devices_ready = ready);
    }

    /// Sets whether the devices work.
    pub fn set_live(&self, live: bool) {
        self.update(|state| state.devices_live = live);
    }

    /// Begins a drain: not ready until resumed.
    pub fn begin_drain(&self) -> DrainTicket {
        let mut ticket = DrainTicket(0);
        self.update(|state| {
            state.drains += 1;
            ticket = DrainTicket(state.drains);
            // A final drain stays final.
            if state.drain == Drain::None {
                state.drain = Drain::Begun;
            }
        });
        ticket
    }

    /// Ends a drain: not live, unless it was resumed.
    pub fn end_drain(&self, ticket: DrainTicket) {
        self.update(|state| {
            if state.drain == Drain::Begun && state.drains == ticket.0 {
                state.drain = Drain::Final;
            }
        });
    }

    /// Resumes after a drain. Returns whether there was one, or `None` if the daemon is shutting down.
    pub fn resume(&self) -> Option<bool> {
        let mut resumed = None;
        self.update(|state| {
            if state.serving {
                resumed = Some(std::mem::replace(&mut state.drain, Drain::None) != Drain::None);
            }
        });
        resumed
    }

    /// The gRPC service.
    pub fn service(&self) -> health_server::HealthServer<Self> {
        health_server::HealthServer::new(self.clone())
            .max_decoding_message_size(crate::transport::MAX_UNACCOUNTED_REQUEST)
    }
}

/// Subject of a health check, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Liveness,
    Readiness,
}

impl Subject {
    /// The empty name and all services share the daemon's readiness.
    fn parse(name: &str) -> Option<Self> {
        match name {
            "liveness" => Some(Self::Liveness),
            "" | "readiness" | "grpc.health.v1.Health" => Some(Self::Readiness),
            _ => SERVICES.contains(&name).then_some(Self::Readiness),
        }
    }

    fn status(self, health: Health) -> ServingStatus {
        let serving = match self {
            Self::Liveness => health.live,
            Self::Readiness => health.ready && health.live,
        };
        if serving { ServingStatus::Serving } else { ServingStatus::NotServing }
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for Reporter {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let name = &request.get_ref().service;
        let subject = Subject::parse(name).ok_or_else(|| Status::not_found(format!("unknown service {name:?}")))?;
        Ok(Response::new(response(subject.status(self.now()))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let subject = Subject::parse(&request.get_ref().service);
        let mut last = None;
        let changes = WatchStream::new(self.state.subscribe()).filter_map(move |state| {
            // The protocol keeps watches of unknown services open: the service may be added later.
            let status = subject.map_or(ServingStatus::ServiceUnknown, |subject| subject.status(state.health()));
            let is_changed = last.replace(status) != Some(status);
            std::future::ready(is_changed.then(|| Ok(response(status))))
        });
        Ok(Response::new(Box::pin(changes.take_until(self.closing.clone().cancelled_owned()))))
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_health::pb::health_server::Health as _;

    use super::*;

    fn ask(service: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest { service: service.to_owned() })
    }

    async fn check(reporter: &Reporter, service: &str) -> ServingStatus {
        reporter.check(ask(service)).await.expect("a known service").get_ref().status()
    }

    #[tokio::test]
    async fn liveness_and_readiness_are_separate() {
        let reporter = Reporter::new(CancellationToken::new());
        assert_eq!(check(&reporter, "liveness").await, ServingStatus::Serving);
        assert_eq!(check(&reporter, "readiness").await, ServingStatus::NotServing);
        reporter.set_ready(true);
        for service in ["", "readiness", SERVICES[0]] {
            assert_eq!(check(&reporter, service).await, ServingStatus::Serving);
        }
        reporter.set_live(false);
        for service in ["", "liveness", "readiness"] {
            assert_eq!(check(&reporter, service).await, ServingStatus::NotServing);
        }
        assert_eq!(reporter.check(ask("nobody")).await.expect_err("unknown").code(), Code::NotFound);
    }

    #[test]
    fn a_drain_ends_readiness_then_liveness_and_resuming_restores_both() {
        let reporter = Reporter::new(CancellationToken::new());
        let health = || (reporter.now().ready, reporter.now().live);
        reporter.set_ready(true);
        let first = reporter.begin_drain();
        assert_eq!(health(), (false, true));
        assert_eq!(reporter.resume(), Some(true));
        reporter.end_drain(first);
        assert_eq!(health(), (true, true), "a resumed drain does not end liveness later");
        let second = reporter.begin_drain();
        reporter.end_drain(first);
        assert_eq!(health(), (false, true), "nor does it end another drain");
        reporter.end_drain(second);
        assert_eq!(health(), (false, false));
        reporter.begin_drain();
        assert_eq!(health(), (false, false), "a second drain restores nothing");
        assert_eq!((reporter.resume(), health()), (Some(true), (true, true)));
        assert_eq!(reporter.resume(), Some(false));
        reporter.set_live(false);
        reporter.begin_drain();
        reporter.resume();
        assert_eq!(health(), (true, false), "resuming does not restore lost devices");
        reporter.set_ready(false);
        assert_eq!(reporter.resume(), None, "the daemon is shutting down");
    }

    #[tokio::test]
    async fn every_service_is_known_by_its_name() {
        let reporter = Reporter::new(CancellationToken::new());
        reporter.set_ready(true);
        for name in SERVICES {
            assert_eq!(check(&reporter, name).await, ServingStatus::Serving, "{name}");
        }
    }

    #[tokio::test]
    async fn a_watch_reports_changes_and_ends_with_the_daemon() {
        let closing = CancellationToken::new();
        let reporter = Reporter::new(closing.clone());
        let mut watch = reporter.watch(ask("")).await.expect("a stream").into_inner();
        let mut next = async || watch.next().await.map(|response| response.expect("a status").status());
        assert_eq!(next().await, Some(ServingStatus::NotServing));
        reporter.set_ready(true);
        assert_eq!(next().await, Some(ServingStatus::Serving));
        reporter.set_ready(false);
        assert_eq!(next().await, Some(ServingStatus::NotServing));
        closing.cancel();
        assert_eq!(next().await, None);
    }

    #[tokio::test]
    async fn a_watch_of_an_unknown_service_stays_open() {
        let reporter = Reporter::new(CancellationToken::new());
        let mut watch = reporter.watch(ask("nobody")).await.expect("a stream").into_inner();
        let response = watch.next().await.expect("a response").expect("a status");
        assert_eq!(response.status(), ServingStatus::ServiceUnknown);
    }
}
