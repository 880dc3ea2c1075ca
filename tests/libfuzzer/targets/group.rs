//! Fuzzes the group of inputs that `ACCELERD_FUZZ_GROUP` names. One program has all groups, since each links a whole daemon.
//! `ACCELERD_SANDBOX_PROCESS` is the path of the program `sandbox-process` of `tests`.
#![no_main]

use std::{
    env,
    path::PathBuf,
    sync::{LazyLock, OnceLock},
};

use accelerd_parity::encoders;
use accelerd_tests::fuzz::{cases, models, rpc, snapshots, target::Target};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

static GROUP: LazyLock<String> = LazyLock::new(|| env::var("ACCELERD_FUZZ_GROUP").expect("ACCELERD_FUZZ_GROUP is a name"));
static DAEMON: LazyLock<(Runtime, Target)> = LazyLock::new(start);
static SNAPSHOT: OnceLock<PathBuf> = OnceLock::new();

fuzz_target!(|data: &[u8]| match GROUP.as_str() {
    "bodies" => accelerd_http::fuzz::decode(data),
    "calls" => calls(data),
    "cases" => cases::run(data),
    "model_folders" => on_daemon(async |target| models::folder(target, &encoders(), data).await),
    "npy" => on_daemon(async |target| models::npy(target, data).await),
    "safetensors" => on_daemon(async |target| models::safetensors(target, data).await),
    "snapshots" => on_daemon(async |target| snapshot(target, data).await),
    group => panic!("no group is named {group}"),
});

/// A daemon for all cases of a process.
fn start() -> (Runtime, Target) {
    let program = env::var_os("ACCELERD_SANDBOX_PROCESS").expect("ACCELERD_SANDBOX_PROCESS is a path");
    let runtime = Runtime::new().expect("a runtime");
    let target = runtime.block_on(Target::start(program.into()));
    (runtime, target)
}

fn on_daemon(case: impl AsyncFnOnce(&Target)) {
    let (runtime, target) = &*DAEMON;
    runtime.block_on(case(target));
}

/// Calls a method for tensors, kernels or verification, which the first byte chooses.
fn calls(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let methods = rpc::methods();
    let method = &methods[usize::from(*first) % methods.len()];
    on_daemon(async |target| {
        rpc::run(target, method, data).await;
    });
}

async fn snapshot(target: &Target, data: &[u8]) {
    if SNAPSHOT.get().is_none() {
        SNAPSHOT.set(snapshots::write(target).await).expect("one thread runs cases");
    }
    snapshots::run(target, SNAPSHOT.get().expect("it is written"), data).await;
}
