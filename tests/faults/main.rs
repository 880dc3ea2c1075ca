//! GPUs that fail, without a GPU: CPU pools stand in for them, and a faulty operation loses them or hangs on them.
//!
//! The daemon is this program started again, so that it can execute itself again and exit.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

mod daemon;
mod faulty;
mod lost;
mod process;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == daemon::AS_DAEMON) {
        return daemon::run();
    }
    let trials = vec![
        Trial::test("a_daemon_that_lost_cuda_starts_again_and_keeps_durable_collections", || Ok(process::restarts()?)),
        Trial::test("sigterm_ends_a_daemon_whose_worker_hangs_and_names_it", || Ok(process::hangs("0s")?)),
        Trial::test("sigterm_ends_a_daemon_that_gave_a_hung_gpu_up", || Ok(process::hangs("50ms")?)),
        Trial::test("collections_and_models_outlive_all_gpus", || Ok(lost::collections_and_models()?)),
        Trial::test("a_daemon_that_may_not_serve_on_the_cpu_is_not_ready_without_gpus", || Ok(lost::readiness()?)),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
