//! Behaviour of a process after its GPUs failed: it starts again, and it always ends.

use std::{error::Error, time::Instant};

use accelerd_proto::v1::{DeviceState, similarity_service_client::SimilarityServiceClient};
use tokio::runtime::Runtime;

use crate::{
    daemon::{ANSWERED, Running, text},
    faulty::{Fault, Gpus, RUNS},
    lost::wait_for_sticky_error,
    points,
};

type Outcome = Result<(), Box<dyn Error>>;

/// The name of the durable collection.
const KEPT: &str = "kept";

/// All GPUs fail: the daemon drains and executes itself again, in the same process, with the same GPUs.
pub(crate) fn restarts(gpus: Gpus, fault: Fault) -> Outcome {
    let data = tempfile::tempdir()?;
    let runtime = Runtime::new()?;
    let folder = data.path().to_str().ok_or("a path")?;
    let settings = [("STORE__DATA_DIR", folder), ("CUDA__HANG_TIMEOUT", "1s"), ("DRAIN__TIMEOUT", "5s")];
    let mut running = Running::start(gpus, fault, &settings)?;
    let process = running.id();
    let addresses = running.serving();
    let hits = runtime.block_on(async {
        let mut similarity = SimilarityServiceClient::connect(addresses.grpc.clone()).await?;
        points::create(&mut similarity, KEPT, true).await?;
        points::search(&mut similarity, KEPT).await
    })?;

    running.fail()?;
    match fault {
        Fault::StickyError => drop(wait_for_sticky_error(&mut running, gpus)),
        Fault::Hang => wait_for_hang(&mut running),
    }
    let lost = Instant::now();
    let error = &running.line(ANSWERED)["error"];
    assert_eq!(error.is_null(), fault == Fault::StickyError, "a hang is answered with an error: {error}");
    assert_eq!(running.line("draining")["restart"], true);
    let hung = fault == Fault::Hang;
    assert_eq!(running.line("drained")["complete"], !hung);
    let drained = lost.elapsed();
    let addresses = running.serving();
    eprintln!("{fault:?}, {gpus:?}: drained after {drained:.1?}, serving after {:.1?}", lost.elapsed());
    assert_eq!(running.id(), process);
    runtime.block_on(async {
        let states = points::states(&addresses.grpc).await?;
        assert_eq!(states, vec![DeviceState::Ready; gpus.count() as usize + 1]);
        let mut similarity = SimilarityServiceClient::connect(addresses.grpc.clone()).await?;
        assert_eq!(points::search(&mut similarity, KEPT).await?, hits);
        let device = points::devices(&mut similarity).await?.remove(0);
        assert!(device.starts_with("cuda:"), "{device}");
        Ok::<_, Box<dyn Error>>(())
    })?;
    running.stop()?;
    Ok(())
}

/// Waits until the hung GPU is lost.
fn wait_for_hang(running: &mut Running) {
    let lost = running.line("a device is lost; its requests are rerouted");
    assert_eq!(["cause", "lane"].map(|field| text(&lost, field)), ["hang", "faulty"], "{lost}");
}

/// SIGTERM while a worker hangs, with or without a watchdog that has given it up.
pub(crate) fn hangs(gpus: Gpus, hang_timeout: &str) -> Outcome {
    let settings = [("CUDA__HANG_TIMEOUT", hang_timeout), ("CUDA__RESTART", "never"), ("DRAIN__TIMEOUT", "1s")];
    let mut running = Running::start(gpus, Fault::Hang, &settings)?;
    running.serving();
    running.fail()?;
    running.line(RUNS);
    if hang_timeout != "0s" {
        wait_for_hang(&mut running);
        assert!(running.line(ANSWERED)["error"].is_string());
    }
    running.signal("-TERM")?;
    let left = running.line("a worker hangs and is left behind");
    assert_eq!(text(&left, "lane"), "faulty", "{left}");
    let drained = running.line("drained");
    assert_eq!(drained["complete"], false, "{drained}");
    assert!(text(&drained, "hung").contains("lane faulty"), "{drained}");
    assert_eq!(running.wait()?.code(), Some(1));
    Ok(())
}
