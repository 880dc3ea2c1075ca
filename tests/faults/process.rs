//! What a process does after its GPUs failed: it starts again, and it always ends.

use std::error::Error;

use accelerd_proto::v1::{self, similarity_service_client::SimilarityServiceClient};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::daemon::{RUNS, Running};

type Outcome = Result<(), Box<dyn Error>>;

/// A sticky error: the daemon drains and executes itself again, in the same process.
pub(crate) fn restarts() -> Outcome {
    let data = tempfile::tempdir()?;
    let folder = data.path().to_str().ok_or("a path")?;
    seed(folder)?;
    let mut running = Running::start("sticky", &[("STORE__DATA_DIR", folder)])?;
    let process = running.id();
    running.line("serving");
    let lost = running.line("a device is lost; its requests are rerouted");
    let fields = |line: &Value| ["device", "cause", "lane"].map(|field| line[field].as_str().map(str::to_owned));
    assert_eq!(fields(&lost), ["cuda:0", "sticky_error", "faulty"].map(|text| Some(text.to_owned())), "{lost}");
    let peer = running.line("a device is lost; its requests are rerouted");
    assert_eq!(fields(&peer)[..2], ["cuda:1", "peer_error"].map(|text| Some(text.to_owned())), "{peer}");
    assert_eq!(running.line("draining")["restart"], true);
    assert_eq!(running.line("drained")["complete"], true);
    let again = running.line("serving");
    assert_eq!(running.id(), process);
    Runtime::new()?.block_on(async {
        let mut similarity = SimilarityServiceClient::connect(format!("http://{}", text(&again, "grpc"))).await?;
        let got = similarity.get_collection(v1::GetCollectionRequest { name: "kept".to_owned() }).await?;
        assert_eq!(got.into_inner().collection.expect("it is described").name, "kept");
        Ok::<_, Box<dyn Error>>(())
    })?;
    running.signal("-TERM")?;
    assert_eq!(running.wait()?.code(), Some(0));
    Ok(())
}

/// Writes a durable collection with a daemon that has no fault.
fn seed(folder: &str) -> Outcome {
    // Restarts are forbidden, so that the fault of this daemon does not matter: it is answered by the CPU.
    let settings = [("STORE__DATA_DIR", folder), ("CUDA__RESTART", "never")];
    let mut running = Running::start("sticky", &settings)?;
    let serving = running.line("serving");
    Runtime::new()?.block_on(async {
        let mut similarity = SimilarityServiceClient::connect(format!("http://{}", text(&serving, "grpc"))).await?;
        let metric = v1::Metric::Dot.into();
        let request = v1::CreateCollectionRequest {
            name: "kept".to_owned(),
            dimensions: 2,
            metric,
            durable: true,
            ..Default::default()
        };
        similarity.create_collection(request).await?;
        Ok::<_, Box<dyn Error>>(())
    })?;
    running.signal("-TERM")?;
    assert_eq!(running.wait()?.code(), Some(0));
    Ok(())
}

fn text<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().unwrap_or_else(|| panic!("{field} in {line}"))
}

/// SIGTERM while a worker hangs, with or without a watchdog that has given it up.
pub(crate) fn hangs(hang_timeout: &str) -> Outcome {
    let settings = [("CUDA__HANG_TIMEOUT", hang_timeout), ("CUDA__RESTART", "never"), ("DRAIN__TIMEOUT", "1s")];
    let mut running = Running::start("hang", &settings)?;
    if hang_timeout == "0s" {
        running.line(RUNS);
    } else {
        let lost = running.line("a device is lost; its requests are rerouted");
        assert_eq!((text(&lost, "cause"), text(&lost, "lane")), ("hang", "faulty"), "{lost}");
    }
    running.line("serving");
    running.signal("-TERM")?;
    let left = running.line("a worker hangs and is left behind");
    assert_eq!((text(&left, "device"), text(&left, "lane")), ("cuda:0", "faulty"), "{left}");
    let drained = running.line("drained");
    assert_eq!(drained["complete"], false, "{drained}");
    assert!(text(&drained, "hung").contains("lane faulty"), "{drained}");
    assert_eq!(running.wait()?.code(), Some(1));
    Ok(())
}
