//! The connection to the daemon, and what its GPUs do during a call.

use std::{env, future::Future, path::PathBuf, sync::OnceLock, time::Duration};

use accelerd_client::{
    Client, DEFAULT_URL, Pem, Tls,
    proto::{DeviceKind, GetStatsResponse},
};
use tokio::runtime::{Builder, Runtime};

use crate::CudaResult;

/// Runs a call to its end.
pub(crate) fn block_on<T>(call: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let start = || Builder::new_multi_thread().worker_threads(1).enable_all().build();
    RUNTIME.get_or_init(|| start().expect("a thread and an event queue can be made")).block_on(call)
}

/// A connection to a daemon. Clones share it.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) client: Client,
    has_gpu: bool,
}

impl Connection {
    /// Connects to the daemon that the environment names, or to the one on this machine.
    pub fn from_environment() -> CudaResult<Self> {
        Self::to(&variable("ACCELERD_SERVER").unwrap_or(DEFAULT_URL.to_owned()))
    }

    /// Connects to the daemon at `http://host:port`, `https://host:port` or `unix:///path`, with the credentials of the environment.
    pub fn to(server: &str) -> CudaResult<Self> {
        let mut builder = Client::builder(server).timings(true);
        if let Some(token) = variable("ACCELERD_TOKEN") {
            builder = builder.token(token);
        }
        if let Some(ca) = variable("ACCELERD_TLS_CA").filter(|_| server.starts_with("https://")) {
            builder = builder.tls(Tls::default().ca(Pem::File(PathBuf::from(ca))));
        }
        block_on(async {
            let client = builder.connect().await?;
            let devices = client.devices().await?.devices;
            let has_gpu = devices.iter().any(|device| device.kind() == DeviceKind::Cuda);
            Ok(Self { client, has_gpu })
        })
    }

    /// The statistics of now; `None` without a GPU.
    pub(crate) async fn sample(&self) -> CudaResult<Option<GetStatsResponse>> {
        Ok(if self.has_gpu { Some(self.client.stats().await?) } else { None })
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The share of the time between two samples in which the busiest GPU ran kernels, of all callers.
pub(crate) fn gpu_utilization(before: Option<&GetStatsResponse>, after: Option<&GetStatsResponse>) -> f32 {
    let (Some(before), Some(after)) = (before, after) else { return 0.0 };
    let uptime =
        |stats: &GetStatsResponse| stats.uptime.map_or(Duration::ZERO, |time| duration(time.seconds, time.nanos));
    let elapsed = uptime(after).saturating_sub(uptime(before));
    let busy = gpus(after).map(|name| busy_time(after, name).saturating_sub(busy_time(before, name))).max();
    if elapsed.is_zero() { 0.0 } else { busy.unwrap_or_default().div_duration_f32(elapsed).min(1.0) }
}

fn gpus(stats: &GetStatsResponse) -> impl Iterator<Item = &str> {
    stats.devices.iter().filter(|device| device.kind() == DeviceKind::Cuda).map(|device| device.name.as_str())
}

fn busy_time(stats: &GetStatsResponse, device: &str) -> Duration {
    let kernels = stats.kernels.iter().filter(|kernel| kernel.device == device);
    kernels.filter_map(|kernel| kernel.total).map(|time| duration(time.seconds, time.nanos)).sum()
}

fn duration(seconds: i64, nanos: i32) -> Duration {
    Duration::new(u64::try_from(seconds).unwrap_or_default(), u32::try_from(nanos).unwrap_or_default())
}

/// The memory that the daemon uses on its GPUs.
pub(crate) fn gpu_memory_mb(stats: Option<&GetStatsResponse>) -> f32 {
    let pools = stats.into_iter().flat_map(|stats| &stats.devices).filter_map(|device| device.pool.as_ref());
    pools.map(|pool| pool.used_bytes as f32).sum::<f32>() / (1 << 20) as f32
}

#[cfg(test)]
mod tests {
    use accelerd_client::proto::{Device, KernelStats};

    use super::*;

    fn stats(uptime: i64, busy: [i64; 3]) -> GetStatsResponse {
        let kernel = |(device, seconds): (&str, i64)| {
            let mut kernel = KernelStats { device: device.to_owned(), ..KernelStats::default() };
            kernel.total.get_or_insert_default().seconds = seconds;
            kernel
        };
        let gpu = |name: &str| Device { name: name.to_owned(), kind: DeviceKind::Cuda.into(), ..Device::default() };
        let mut stats = GetStatsResponse {
            kernels: ["cuda:0", "cuda:1", "cpu"].into_iter().zip(busy).map(kernel).collect(),
            devices: ["cuda:0", "cuda:1"].map(gpu).to_vec(),
            ..GetStatsResponse::default()
        };
        stats.uptime.get_or_insert_default().seconds = uptime;
        stats
    }

    #[test]
    fn utilization_is_that_of_the_busiest_gpu_between_two_samples() {
        let before = stats(100, [10, 20, 30]);
        let after = stats(104, [13, 21, 34]);
        assert!((gpu_utilization(Some(&before), Some(&after)) - 0.75).abs() < f32::EPSILON);
        assert!((gpu_utilization(Some(&before), Some(&stats(101, [99, 0, 0]))) - 1.0).abs() < f32::EPSILON);
        assert!(gpu_utilization(Some(&before), Some(&before)).abs() < f32::EPSILON);
        assert!(gpu_utilization(None, None).abs() < f32::EPSILON);
    }

    #[test]
    fn a_daemon_that_is_not_there_is_named() {
        let error = Connection::to("http://127.0.0.1:1").expect_err("nothing listens");
        assert!(error.to_string().contains("cannot connect to http://127.0.0.1:1"), "{error}");
    }
}
