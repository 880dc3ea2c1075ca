//! A daemon for all cases of a process. `ACCELERD_SANDBOX_PROCESS` is the path of the program `sandbox-process` of `tests`.

use std::sync::OnceLock;

use accelerd_tests::fuzz::target::Target;
use tokio::runtime::Runtime;

static DAEMON: OnceLock<(Runtime, Target)> = OnceLock::new();

/// Runs a case.
pub fn run(case: impl AsyncFnOnce(&Target)) {
    let (runtime, target) = DAEMON.get_or_init(|| {
        let program = std::env::var_os("ACCELERD_SANDBOX_PROCESS").expect("ACCELERD_SANDBOX_PROCESS is a path");
        let runtime = Runtime::new().expect("a runtime");
        let target = runtime.block_on(Target::start(program.into()));
        (runtime, target)
    });
    runtime.block_on(case(target));
}
