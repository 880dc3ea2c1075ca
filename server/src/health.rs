//! `grpc.health.v1`: readiness and liveness apart, and every service by its name.

use std::{pin::Pin, sync::Arc};

use futures::{Stream, StreamExt};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server};

/// How the daemon fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// It takes calls: false while it starts and while it drains.
    pub ready: bool,
    /// It need not be replaced: false once all its GPUs are lost for good, or a caller has drained it.
    pub live: bool,
}

/// What the daemon's health is made of.
#[derive(Clone, Copy, Debug)]
struct State {
    /// It has started, and no signal has ended it.
    serving: bool,
    /// Its devices need not be replaced.
    sound: bool,
    /// A caller drained it.
    drain: Drain,
    /// Drains so far.
    drains: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    None,
    /// Accepted calls are answered, or a caller may still resume it.
    Begun,
    /// Nothing is expected of this process any more.
    Final,
}

/// A drain that a caller began. Another one may have ended or replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainTicket(u64);

impl State {
    fn health(self) -> Health {
        Health { ready: self.serving && self.drain == Drain::None, live: self.sound && self.drain != Drain::Final }
    }
}

/// Where the daemon's health is said and heard. Clones share it.
#[derive(Clone, Debug)]
pub struct Reporter {
    state: Arc<watch::Sender<State>>,
    /// Ends watches, which would otherwise hold up the end of their connection.
    closing: CancellationToken,
}

impl Reporter {
    /// A reporter of a daemon that starts: alive, and not ready yet.
    pub fn new(closing: CancellationToken) -> Self {
        let state = State { serving: false, sound: true, drain: Drain::None, drains: 0 };
        Self { state: Arc::new(watch::Sender::new(state)), closing }
    }

    /// How the daemon fares now.
    pub fn now(&self) -> Health {
        self.state.borrow().health()
    }

    /// Changes the state; watchers are told where the health changes with it.
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_if_modified(|state| {
            let before = state.health();
            change(state);
            state.health() != before
        });
    }

    /// Whether it takes calls from now on.
    pub fn set_ready(&self, ready: bool) {
        self.change(|state| state.serving = ready);
    }

    /// Whether it need not be replaced from now on.
    pub fn set_live(&self, live: bool) {
        self.change(|state| state.sound = live);
    }

    /// A caller drains it: not ready from now on.
    pub fn begin_drain(&self) -> DrainTicket {
        let mut ticket = DrainTicket(0);
        self.change(|state| {
            state.drains += 1;
            ticket = DrainTicket(state.drains);
            // One that had ended already stays so.
            if state.drain == Drain::None {
                state.drain = Drain::Begun;
            }
        });
        ticket
    }

    /// The drain is over and nobody has resumed the daemon: it may be replaced.
    pub fn end_drain(&self, ticket: DrainTicket) {
        self.change(|state| {
            if state.drain == Drain::Begun && state.drains == ticket.0 {
                state.drain = Drain::Final;
            }
        });
    }

    /// Ends a drain, and says whether there was one. `None`: the daemon is about to exit.
    pub fn resume(&self) -> Option<bool> {
        let mut resumed = None;
        self.change(|state| {
            if state.serving {
                resumed = Some(std::mem::replace(&mut state.drain, Drain::None) != Drain::None);
            }
        });
        resumed
    }

    /// The gRPC service.
    pub fn service(&self) -> health_server::HealthServer<Self> {
        health_server::HealthServer::new(self.clone()).max_decoding_message_size(crate::grpc::SMALL_REQUEST)
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Liveness,
    Readiness,
}

impl Subject {
    /// The whole daemon and each of its services are as ready as the daemon.
    fn parse(name: &str) -> Option<Self> {
        match name {
            "liveness" => Some(Self::Liveness),
            ""
            | "readiness"
            | "accelerd.v1.DeviceService"
            | "accelerd.v1.EmbedService"
            | "accelerd.v1.ParseService"
            | "accelerd.v1.SimilarityService"
            | "grpc.health.v1.Health" => Some(Self::Readiness),
            _ => None,
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
        let subject = Subject::parse(name).ok_or_else(|| Status::not_found(format!("no service {name:?} here")))?;
        Ok(Response::new(response(subject.status(self.now()))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let subject = Subject::parse(&request.get_ref().service);
        let mut last = None;
        let changes = WatchStream::new(self.state.subscribe()).filter_map(move |state| {
            // The protocol wants an unknown name answered and kept, not refused: it may come to be known.
            let status = subject.map_or(ServingStatus::ServiceUnknown, |subject| subject.status(state.health()));
            let news = last.replace(status) != Some(status);
            std::future::ready(news.then(|| Ok(response(status))))
        });
        Ok(Response::new(Box::pin(changes.take_until(self.closing.clone().cancelled_owned()))))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
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
    async fn liveness_and_readiness_are_apart() {
        let reporter = Reporter::new(CancellationToken::new());
        assert_eq!(check(&reporter, "liveness").await, ServingStatus::Serving);
        assert_eq!(check(&reporter, "readiness").await, ServingStatus::NotServing);
        reporter.set_ready(true);
        for service in ["", "readiness", "accelerd.v1.EmbedService"] {
            assert_eq!(check(&reporter, service).await, ServingStatus::Serving);
        }
        reporter.set_live(false);
        for service in ["", "liveness", "readiness"] {
            assert_eq!(check(&reporter, service).await, ServingStatus::NotServing);
        }
        assert_eq!(reporter.check(ask("nobody")).await.expect_err("unknown").code(), Code::NotFound);
    }

    #[test]
    fn a_drain_ends_readiness_then_liveness_and_a_resumption_brings_both_back() {
        let reporter = Reporter::new(CancellationToken::new());
        let health = || (reporter.now().ready, reporter.now().live);
        reporter.set_ready(true);
        let first = reporter.begin_drain();
        assert_eq!(health(), (false, true));
        assert_eq!(reporter.resume(), Some(true));
        reporter.end_drain(first);
        assert_eq!(health(), (true, true), "a drain that was resumed does not end the daemon later");
        let second = reporter.begin_drain();
        reporter.end_drain(first);
        assert_eq!(health(), (false, true), "nor does it end another one");
        reporter.end_drain(second);
        assert_eq!(health(), (false, false));
        reporter.begin_drain();
        assert_eq!(health(), (false, false), "a second drain brings nothing back");
        assert_eq!((reporter.resume(), health()), (Some(true), (true, true)));
        assert_eq!(reporter.resume(), Some(false));
        reporter.set_live(false);
        reporter.begin_drain();
        reporter.resume();
        assert_eq!(health(), (true, false), "lost devices are another matter");
        reporter.set_ready(false);
        assert_eq!(reporter.resume(), None, "it is about to exit");
    }

    #[tokio::test]
    async fn every_service_is_known_by_its_name() {
        let reporter = Reporter::new(CancellationToken::new());
        reporter.set_ready(true);
        let set = prost_types::FileDescriptorSet::decode(accelerd_proto::DESCRIPTORS).expect("a descriptor set");
        let services =
            set.file.iter().flat_map(|file| file.service.iter().map(move |one| (file.package(), one.name())));
        let names: Vec<_> = services.map(|(package, name)| format!("{package}.{name}")).collect();
        assert!(names.len() >= 4, "{names:?}");
        for name in names {
            assert_eq!(check(&reporter, &name).await, ServingStatus::Serving, "{name}");
        }
    }

    #[tokio::test]
    async fn a_watch_says_what_changes_and_ends_with_the_daemon() {
        let closing = CancellationToken::new();
        let reporter = Reporter::new(closing.clone());
        let mut watch = reporter.watch(ask("")).await.expect("a stream").into_inner();
        let mut next = async || watch.next().await.map(|answer| answer.expect("a status").status());
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
        let answer = watch.next().await.expect("an answer").expect("a status");
        assert_eq!(answer.status(), ServingStatus::ServiceUnknown);
    }
}
