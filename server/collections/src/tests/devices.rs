//! Collections of GPUs that are lost or have no memory.

use accelerd_engine::SubmitError;
use accelerd_kernels::{LossScope, OpError, cpu::Pool};

use super::*;

#[tokio::test]
async fn collections_of_a_lost_gpu_move_to_the_cpu_and_new_ones_avoid_it() {
    let fixture = fixture(Settings::default());
    let gpus = vec![DeviceId::Cuda(0), DeviceId::Cuda(1), DeviceId::Cpu];
    let collections = Collections::open(Settings::default(), services(&fixture.engine, gpus));
    let collections = collections.expect("there is no folder to open");
    let on = async |name: &str| collections.create(spec(name)).await.expect("the name is free").describe().device;
    assert_eq!(on("a").await, DeviceId::Cuda(0));
    let corpus = Arc::clone(&collections.get("a").expect("it is there").shared().generation().corpus);
    let device = DeviceId::Cuda(0);
    let reason = "illegal address".to_owned();
    let lost = SubmitError::Op(OpError::DeviceLost { device, scope: LossScope::Device, reason });
    assert!(collections.env.fall_back_if_lost(&corpus, device, &lost));
    assert_eq!(corpus.device(), DeviceId::Cpu);
    assert!(!collections.env.fall_back_if_lost(&corpus, DeviceId::Cpu, &lost), "there is nowhere else to go");
    assert!(!collections.env.fall_back_if_lost(&corpus, device, &SubmitError::Draining));
    let collection = collections.get("a").expect("it is there");
    upsert(&collection, &[1], 0.0).await;
    assert_eq!(ids(&collection, near([0.0; 4], 1)).await, [1]);
    assert_eq!(on("b").await, DeviceId::Cuda(1));
    let device = DeviceId::Cuda(1);
    let reason = "trap".to_owned();
    let sticky = SubmitError::Op(OpError::DeviceLost { device, scope: LossScope::Cuda, reason });
    let corpus = Arc::clone(&collections.get("b").expect("it is there").shared().generation().corpus);
    assert!(collections.env.fall_back_if_lost(&corpus, device, &sticky));
    assert_eq!(on("c").await, DeviceId::Cpu, "all GPUs are lost");
}

#[tokio::test]
async fn collections_of_a_gpu_without_memory_are_searched_and_clustered_by_the_cpu_until_there_is_some() {
    let gpu = Pool::stand_in(DeviceId::Cuda(0), 1).expect("a thread");
    let devices = vec![Device::Cpu(Arc::clone(&gpu)), Device::Cpu(Pool::start(1).expect("a thread"))];
    let engine = engine(devices.clone());
    let services = services(&engine, devices.iter().map(Device::id).collect());
    let ledger = ledger::Ledger::new();
    let settings = Settings { ledger: Arc::clone(&ledger), ..Settings::default() };
    let collections = Collections::open(settings, services).expect("there is no folder to open");
    let collection = collections.create(spec("c")).await.expect("the name is free");
    upsert(&collection, &[1, 50, 2, 51], 0.0).await;
    assert_eq!(collection.describe().device, DeviceId::Cuda(0));
    let lane = engine.lane(lane());
    let clusters = async || {
        let request = |rows| ClusterRequest {
            rows,
            clusters: 2,
            max_iterations: 10,
            tolerance: 0.0,
            init_count: 1,
            spherical: false,
            seed: 7,
        };
        collection.cluster(&lane, request, Context::default()).await.map(|(clusters, _)| clusters.assignments)
    };
    let expected = (ids(&collection, near([1.0; 4], 3)).await, clusters().await.expect("there are rows"));
    let counts = || engine.cpu_fallbacks().iter().map(|one| (one.lane, one.requests)).collect::<Vec<_>>();
    assert_eq!(counts(), []);

    gpu.set_full(true);
    let found = (ids(&collection, near([1.0; 4], 3)).await, clusters().await.expect("the CPU computes"));
    assert_eq!(found, expected);
    assert_eq!(counts(), [("cluster", 1), ("search", 1)]);
    upsert(&collection, &[3], 0.0).await;
    assert_eq!(ids(&collection, near([3.0, 0.0, 0.0, 0.0], 1)).await, [3], "changes are seen at once");
    assert_eq!(collection.describe().device, DeviceId::Cuda(0), "it stays where it is");

    // The CPU clusters a copy of the rows, for which the host must have memory.
    ledger.limit(ledger::Place::Host, ledger::Limit { bytes: 1, setting: "memory.host_limit" });
    assert!(message(clusters().await).contains("memory.host_limit"));

    gpu.set_full(false);
    let before = counts();
    assert_eq!(ids(&collection, near([1.0; 4], 3)).await.len(), 3);
    assert_eq!(clusters().await.expect("the GPU computes").len(), 5);
    assert_eq!(counts(), before);
}
