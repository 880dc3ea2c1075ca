//! `rpc::run` with a daemon in this process; the first byte chooses the method. `ACCELERD_SANDBOX_PROCESS` is the path of the program
//! `sandbox-process` of `tests`.
#![no_main]

use std::sync::OnceLock;

use accelerd_tests::fuzz::{daemon, rpc, seeds};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

static DAEMON: OnceLock<(Runtime, Channel)> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let (runtime, channel) = DAEMON.get_or_init(|| {
        let runtime = Runtime::new().expect("a runtime");
        let program = std::env::var_os("ACCELERD_SANDBOX_PROCESS").expect("ACCELERD_SANDBOX_PROCESS is a path");
        let (daemon, channel) = runtime.block_on(daemon::start(program.into()));
        std::mem::forget(daemon);
        (runtime, channel)
    });
    let methods = rpc::methods();
    let method = &methods[usize::from(*first) % methods.len()];
    runtime.block_on(rpc::run(channel, method, &seeds::seeds(), data));
});
