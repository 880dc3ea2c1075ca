//! What tests of the kernels share: the backends of this machine, seeded inputs, closeness.

pub mod columns;

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use accelerd_kernels::{Backend, Choice, Device, DeviceId, Discovered, Op, OpError, Settings, discover};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Settings of device discovery. `ACCELERD_CUDA_LIBRARY_PATH` lists folders of NVRTC and cuBLASLt, `ACCELERD_KERNEL_CACHE`
/// is the folder of the kernel cache, `ACCELERD_REQUIRE_CUDA=1` makes a missing GPU an error, and
/// `ACCELERD_MAX_COMPUTE_CAPABILITY=8.0` selects the kernels of older GPUs.
pub fn settings() -> Settings {
    let required = std::env::var("ACCELERD_REQUIRE_CUDA").is_ok_and(|v| v == "1");
    let folders = std::env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    Settings {
        choice: if required { Choice::Cuda } else { Choice::Auto },
        cuda_library_paths: std::env::split_paths(&folders).filter(|p| p != &PathBuf::new()).collect(),
        staging_bytes: 32 << 20,
        kernel_cache: std::env::var_os("ACCELERD_KERNEL_CACHE").map(PathBuf::from),
        kernel_cache_bytes: 1 << 30,
        max_compute_capability: std::env::var("ACCELERD_MAX_COMPUTE_CAPABILITY").ok().map(|text| capability(&text)),
        pinned_bytes: 64 << 20,
        ..Settings::default()
    }
}

fn capability(text: &str) -> (u32, u32) {
    let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.unwrap_or_else(|| panic!("expected a compute capability such as 8.0, got {text}"))
}

/// The devices of this machine, discovered once.
pub fn discovered() -> &'static Discovered {
    static FOUND: OnceLock<Discovered> = OnceLock::new();
    FOUND.get_or_init(|| discover(&settings()).unwrap_or_else(|e| panic!("{e}")))
}

/// The folder of small models that PyTorch wrote. `ACCELERD_ENCODERS` names it if the sources are not available.
pub fn encoders() -> PathBuf {
    let sources = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels/models/tests/encoders");
    std::env::var_os("ACCELERD_ENCODERS").map_or_else(sources, PathBuf::from)
}

/// The names of the models with hidden states that PyTorch computed.
pub fn pytorch_models() -> Vec<String> {
    models_with("states.f32")
}

/// The names of the cross-encoders with scores that PyTorch computed.
pub fn pytorch_rerankers() -> Vec<String> {
    let is_reranker = |name: &String| name.starts_with("reranker-");
    models_with("expected.json").into_iter().filter(is_reranker).collect()
}

/// The names of the models that have this file.
fn models_with(file: &str) -> Vec<String> {
    let entries =
        std::fs::read_dir(encoders()).unwrap_or_else(|e| panic!("{} (ACCELERD_ENCODERS): {e}", encoders().display()));
    let folders = entries.map(|entry| entry.expect("a folder's entry can be read").path());
    let named = folders
        .filter(|folder| folder.join(file).is_file())
        .filter_map(|folder| folder.file_name().map(ToOwned::to_owned));
    let mut names: Vec<_> = named.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// The first GPU, or the CPU.
pub fn device(cuda: bool) -> Option<&'static Device> {
    discovered().devices.iter().find(|d| matches!(d.id(), DeviceId::Cuda(_)) == cuda)
}

/// Opens a backend on the calling thread.
pub fn open(device: &Device) -> Result<Backend, String> {
    device.open().map_err(|e| e.to_string())
}

/// Runs requests as one batch.
pub fn run_batch<O: Op>(requests: &[O::Request], on: &mut Backend) -> Result<Vec<O::Response>, OpError> {
    O::run(&requests.iter().collect::<Vec<_>>(), on)
}

/// A seeded source of test data.
pub fn random(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Roughly normal numbers; one in two hundred is forty times as large, to expose rounding errors.
pub fn with_outliers(random: &mut StdRng, count: usize) -> Vec<f32> {
    (0..count)
        .map(|_| {
            let sum: f32 = (0..4).map(|_| random.random_range(-0.866_f32..0.866)).sum();
            if random.random_ratio(1, 200) { sum * 40.0 } else { sum }
        })
        .collect()
}

/// Returns true if two numbers differ by at most `units` units in the last place of an f32.
pub fn within_ulps(a: f32, b: f32, units: u32) -> bool {
    let ordered = |x: f32| {
        let bits = i64::from(x.to_bits() & 0x7fff_ffff);
        if x.is_sign_negative() { -bits } else { bits }
    };
    !a.is_nan() && !b.is_nan() && (ordered(a) - ordered(b)).unsigned_abs() <= u64::from(units)
}
