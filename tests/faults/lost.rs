//! What outlives the loss of all GPUs, and what probes and metrics say about it.

use std::{error::Error, time::Duration};

use accelerd::{Config, Daemon, config::BackendKind};
use accelerd_proto::v1::{
    self, device_service_client::DeviceServiceClient, embed_request::Input, embed_service_client::EmbedServiceClient,
    similarity_service_client::SimilarityServiceClient,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::faulty::{self, Fault};

type Outcome = Result<(), Box<dyn Error>>;

/// A daemon on stand-ins of GPUs that does not start again.
async fn daemon(change: impl FnOnce(&mut Config)) -> Result<Daemon, Box<dyn Error>> {
    let mut config = Config::loopback();
    config.backend.kind = BackendKind::Auto;
    config.cuda.restart = accelerd::config::Restart::Never;
    config.cuda.lost_grace = Duration::from_secs(3600);
    change(&mut config);
    Ok(Daemon::start_on(Some(faulty::devices()), CancellationToken::new(), config).await?)
}

/// Searches and embeddings before and after a sticky error are equal, and the devices are reported as lost.
pub(crate) fn collections_and_models() -> Outcome {
    Runtime::new()?.block_on(async {
        let daemon = daemon(|_| {}).await?;
        let address = format!("http://{}", daemon.grpc_addr());
        let mut similarity = SimilarityServiceClient::connect(address.clone()).await?;
        for name in ["first", "second"] {
            fill(&mut similarity, name).await?;
        }
        let devices = devices(&mut similarity).await?;
        assert_eq!(devices, ["cuda:0", "cuda:1"], "each has a GPU");
        let mut embed = EmbedServiceClient::connect(address.clone()).await?;
        // Larger than what runs on the CPU in any case.
        let texts = v1::TextInput { values: vec!["def parse(text): return text".repeat(200); 500] };
        let texts = v1::EmbedRequest { input: Some(Input::Texts(texts)), ..Default::default() };
        let before = (search(&mut similarity).await?, embed.embed(texts.clone()).await?.into_inner().embeddings);

        faulty::submit(&daemon.app().engine, Fault::StickyError).await;
        let after = (search(&mut similarity).await?, embed.embed(texts).await?.into_inner().embeddings);
        assert_eq!(before, after);
        assert_eq!(self::devices(&mut similarity).await?, ["cpu", "cpu"]);
        fill(&mut similarity, "third").await?;
        assert_eq!(self::devices(&mut similarity).await?, ["cpu", "cpu", "cpu"], "new ones avoid what is lost");

        let listed = DeviceServiceClient::connect(address).await?.list_devices(v1::ListDevicesRequest {}).await?;
        let states: Vec<_> = listed.into_inner().devices.iter().map(v1::Device::state).collect();
        assert_eq!(states, [v1::DeviceState::Lost, v1::DeviceState::Lost, v1::DeviceState::Ready]);
        let metrics = daemon.app().metrics.text();
        for (device, reason) in [("cuda:0", "sticky_error"), ("cuda:1", "peer_error")] {
            let (device, reason) = (format!("device=\"{device}\""), format!("reason=\"{reason}\""));
            let mut samples = metrics.lines().filter(|line| line.starts_with("accelerd_device_losses_total{"));
            let counted = samples.any(|line| line.contains(&device) && line.contains(&reason) && line.ends_with(" 1"));
            assert!(counted, "{device}, {reason} in\n{metrics}");
        }
        assert!(daemon.app().health.now().ready, "the CPU serves");
        Ok(())
    })
}

/// Creates a collection of four points.
async fn fill(
    similarity: &mut SimilarityServiceClient<tonic::transport::Channel>,
    name: &str,
) -> Result<(), Box<dyn Error>> {
    let (name, metric) = (name.to_owned(), v1::Metric::Dot.into());
    let create = v1::CreateCollectionRequest { name: name.clone(), dimensions: 2, metric, ..Default::default() };
    similarity.create_collection(create).await?;
    let data = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [-1.0, 0.0]].concat();
    let vectors = tensor(4, &data);
    let ids = Some(v1::PointIds { numbers: vec![1, 2, 3, 4], ..Default::default() });
    let points = Some(v1::upsert_request::Points::Vectors(vectors));
    similarity.upsert(v1::UpsertRequest { collection: name, ids, points, ..Default::default() }).await?;
    Ok(())
}

fn tensor(rows: i64, values: &[f32]) -> v1::Tensor {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>().into();
    v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![rows, 2], data }
}

/// The hits of a search in the first two collections.
async fn search(
    similarity: &mut SimilarityServiceClient<tonic::transport::Channel>,
) -> Result<Vec<v1::SearchResponse>, Box<dyn Error>> {
    let mut found = vec![];
    for collection in ["first", "second"] {
        let query = Some(v1::search_request::Query::Vectors(tensor(1, &[1.0, 0.25])));
        let request = v1::SearchRequest { collection: collection.to_owned(), query, limit: 3, ..Default::default() };
        found.push(similarity.search(request).await?.into_inner());
    }
    Ok(found)
}

/// The devices of all collections, by name.
async fn devices(
    similarity: &mut SimilarityServiceClient<tonic::transport::Channel>,
) -> Result<Vec<String>, Box<dyn Error>> {
    let listed = similarity.list_collections(v1::ListCollectionsRequest::default()).await?.into_inner();
    Ok(listed.collections.into_iter().map(|collection| collection.device).collect())
}

/// With `backend.kind = "cuda"` the loss of all GPUs ends readiness, and liveness only after the grace.
pub(crate) fn readiness() -> Outcome {
    Runtime::new()?.block_on(async {
        let daemon = daemon(|config| config.backend.kind = BackendKind::Cuda).await?;
        let health = daemon.app().health.clone();
        assert!(health.now().ready && health.now().live);
        faulty::submit(&daemon.app().engine, Fault::StickyError).await;
        while health.now().ready {
            tokio::task::yield_now().await;
        }
        assert!(health.now().live, "within the grace");
        Ok(())
    })
}
