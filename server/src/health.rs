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
    /// It need not be replaced: false once all its GPUs are lost for good.
    pub live: bool,
}

/// Where the daemon's health is said and heard. Clones share it.
#[derive(Clone, Debug)]
pub struct Reporter {
    health: Arc<watch::Sender<Health>>,
    /// Ends watches, which would otherwise hold up the end of their connection.
    closing: CancellationToken,
}

impl Reporter {
    /// A reporter of a daemon that starts: alive, and not ready yet.
    pub fn new(closing: CancellationToken) -> Self {
        Self { health: Arc::new(watch::Sender::new(Health { ready: false, live: true })), closing }
    }

    /// How the daemon fares now.
    pub fn now(&self) -> Health {
        *self.health.borrow()
    }

    /// Whether it takes calls from now on.
    pub fn set_ready(&self, ready: bool) {
        self.health.send_if_modified(|health| std::mem::replace(&mut health.ready, ready) != ready);
    }

    /// Whether it need not be replaced from now on.
    pub fn set_live(&self, live: bool) {
        self.health.send_if_modified(|health| std::mem::replace(&mut health.live, live) != live);
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
        let changes = WatchStream::new(self.health.subscribe()).filter_map(move |health| {
            // The protocol wants an unknown name answered and kept, not refused: it may come to be known.
            let status = subject.map_or(ServingStatus::ServiceUnknown, |subject| subject.status(health));
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
