//! Loss of all GPUs: what outlives it, and the state that probes and metrics report.

use std::error::Error;

use accelerd_proto::v1::{
    self, DeviceState, embed_request::Input, embed_service_client::EmbedServiceClient,
    similarity_service_client::SimilarityServiceClient,
};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::{
    daemon::{ANSWERED, Addresses, Running, text},
    faulty::{ACCESS_ILLEGAL_ADDRESS, Fault, Gpus},
    points,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Waits until all GPUs are lost to a sticky error. Returns the cause for each, by ordinal.
pub(crate) fn wait_for_sticky_error(running: &mut Running, gpus: Gpus) -> Vec<String> {
    let mut causes = vec![];
    for _ in 0..gpus.count() {
        let line = running.line("a device is lost; its requests are rerouted");
        assert_eq!(text(&line, "lane"), "faulty", "{line}");
        assert!(text(&line, "reason").contains(ACCESS_ILLEGAL_ADDRESS.name), "{line}");
        causes.push((text(&line, "device").to_owned(), text(&line, "cause").to_owned()));
    }
    causes.sort();
    let devices: Vec<_> = (0..gpus.count()).map(|ordinal| format!("cuda:{ordinal}")).collect();
    assert!(causes.iter().map(|(device, _)| device).eq(&devices), "{causes:?}");
    let causes: Vec<_> = causes.into_iter().map(|(_, cause)| cause).collect();
    let count = |name: &str| causes.iter().filter(|cause| *cause == name).count();
    assert_eq!((count("sticky_error"), count("peer_error")), (1, devices.len() - 1), "{causes:?}");
    causes
}

/// Searches and embeddings before and after a sticky error agree, and the devices are reported as lost.
pub(crate) fn collections_and_models(gpus: Gpus) -> Outcome {
    // With a daemon that does not start again.
    let settings = [("CUDA__RESTART", "never"), ("CUDA__LOST_GRACE", "1h")];
    let mut running = Running::start(gpus, Fault::StickyError, &settings)?;
    let addresses = running.serving();
    Runtime::new()?.block_on(async {
        let mut similarity = SimilarityServiceClient::connect(addresses.grpc.clone()).await?;
        let mut embed = EmbedServiceClient::connect(addresses.grpc.clone()).await?;
        for name in ["first", "second"] {
            points::create(&mut similarity, name, false).await?;
        }
        let on_gpus = points::devices(&mut similarity).await?;
        assert!(on_gpus.iter().all(|device| device.starts_with("cuda:")), "{on_gpus:?}");
        let hits = search(&mut similarity).await?;
        let vectors = vectors(&mut embed).await?;

        running.fail()?;
        let causes = wait_for_sticky_error(&mut running, gpus);
        assert_eq!(running.line(ANSWERED)["error"], serde_json::Value::Null, "the CPU answers it");
        assert_eq!(search(&mut similarity).await?, hits);
        assert_close(&self::vectors(&mut embed).await?, &vectors);
        points::create(&mut similarity, "third", false).await?;
        assert_eq!(points::devices(&mut similarity).await?, ["cpu", "cpu", "cpu"], "new ones avoid what is lost");
        let mut states = points::states(&addresses.grpc).await?;
        assert_eq!(states.pop(), Some(DeviceState::Ready), "the CPU");
        assert!(states.iter().all(|state| *state == DeviceState::Lost), "{states:?}");
        assert_counted(&addresses, &causes)?;
        assert_eq!(addresses.get("/readyz")?.0, 200, "the CPU serves");
        Ok(())
    })
}

async fn search(similarity: &mut points::Similarity) -> Result<[v1::SearchResponse; 2], Box<dyn Error>> {
    Ok([points::search(similarity, "first").await?, points::search(similarity, "second").await?])
}

/// Embeddings of more text than what runs on the CPU in any case.
async fn vectors(embed: &mut EmbedServiceClient<Channel>) -> Result<Vec<f32>, Box<dyn Error>> {
    let texts = v1::TextInput { values: vec!["def parse(text): return text".repeat(200); 500] };
    let texts = v1::EmbedRequest { input: Some(Input::Texts(texts)), ..Default::default() };
    let data = embed.embed(texts).await?.into_inner().embeddings.ok_or("embeddings")?.data;
    Ok(data.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().expect("four bytes"))).collect())
}

/// Unit vectors may differ in rounding between devices.
fn assert_close(vectors: &[f32], expected: &[f32]) {
    assert_eq!(vectors.len(), expected.len());
    let largest = vectors.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(largest < 1e-5, "they differ by {largest}");
}

/// Each loss is counted once, with its cause.
fn assert_counted(addresses: &Addresses, causes: &[String]) -> Outcome {
    let metrics = addresses.get("/metrics")?.1;
    for (ordinal, cause) in causes.iter().enumerate() {
        let device = format!("device=\"cuda:{ordinal}\"");
        let reason = format!("reason=\"{cause}\"");
        let mut samples = metrics.lines().filter(|line| line.starts_with("accelerd_device_losses_total{"));
        let counted = samples.any(|line| line.contains(&device) && line.contains(&reason) && line.ends_with(" 1"));
        assert!(counted, "{device}, {reason} in\n{metrics}");
    }
    Ok(())
}

/// With `backend.kind = "cuda"` the loss of all GPUs ends readiness, and liveness only after the grace.
pub(crate) fn probes(gpus: Gpus, grace: &str) -> Outcome {
    let settings = [("CUDA__RESTART", "never"), ("BACKEND__KIND", "cuda"), ("CUDA__LOST_GRACE", grace)];
    let mut running = Running::start(gpus, Fault::StickyError, &settings)?;
    let addresses = running.serving();
    assert_eq!((addresses.get("/readyz")?.0, addresses.get("/healthz")?.0), (200, 200));
    running.fail()?;
    wait_for_sticky_error(&mut running, gpus);
    addresses.wait_until_failing("/readyz")?;
    if grace == "0s" {
        addresses.wait_until_failing("/healthz")?;
    } else {
        assert_eq!(addresses.get("/healthz")?.0, 200, "within the grace");
    }
    Ok(())
}
