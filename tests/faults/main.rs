//! GPUs that fail. CPU pools stand in for them, where a faulty operation imitates kernels that fail; with GPUs the same tests
//! launch such kernels. Without a GPU the CUDA cases show as ignored, and with `ACCELERD_REQUIRE_CUDA=1` a missing GPU fails.
//!
//! The daemon is this program started again, so that it can execute itself again and exit.

use std::{error::Error, process::ExitCode};

use libtest_mimic::{Arguments, Trial};

use crate::faulty::{Fault, Gpus};

mod daemon;
mod faulty;
mod lost;
mod memory;
mod points;
mod process;

/// A test, for GPUs or what stands in for them.
type Check = fn(Gpus) -> Result<(), Box<dyn Error>>;

/// The tests of machines with any number of GPUs.
const ANY_COUNT: [(&str, Check); 7] = [
    ("what_a_gpu_has_no_memory_for_runs_on_the_cpu_until_there_is_memory", memory::falls_back),
    ("a_daemon_that_lost_cuda_starts_again_and_keeps_durable_collections", |gpus| {
        process::restarts(gpus, Fault::StickyError)
    }),
    ("sigterm_ends_a_daemon_whose_worker_hangs_and_names_it", |gpus| process::hangs(gpus, "0s")),
    ("sigterm_ends_a_daemon_that_gave_a_hung_gpu_up", |gpus| process::hangs(gpus, "50ms")),
    ("collections_and_models_outlive_all_gpus", lost::collections_and_models),
    ("a_daemon_that_may_not_serve_on_the_cpu_is_not_ready_without_gpus", |gpus| lost::probes(gpus, "1h")),
    ("a_daemon_without_gpus_is_not_live_after_the_grace", |gpus| lost::probes(gpus, "0s")),
];

/// The tests of machines whose only GPU fails. A GPU that hangs is lost alone.
const ONE: [(&str, Check); 1] =
    [("a_daemon_whose_only_gpu_hangs_starts_again_and_keeps_durable_collections", |gpus| {
        process::restarts(gpus, Fault::Hang)
    })];

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == daemon::AS_DAEMON) {
        return daemon::run();
    }
    let gpus = u32::try_from(accelerd_parity::discovered().devices.len() - 1).expect("a few");
    let any = ANY_COUNT.iter().flat_map(|test| trials(test, 2, gpus));
    let one = ONE.iter().flat_map(|test| trials(test, 1, gpus.min(1)));
    libtest_mimic::run(&Arguments::from_args(), any.chain(one).collect()).exit_code()
}

/// A test with the given numbers of stand-ins and of GPUs.
fn trials((name, check): &(&'static str, Check), stand_ins: u32, gpus: u32) -> [Trial; 2] {
    let check = *check;
    let cases = [("stand_ins", Gpus::StandIns(stand_ins)), ("cuda", Gpus::Real(gpus))];
    cases.map(|(label, gpus)| {
        let run = move || check(gpus).map_err(|error| error.to_string().into());
        Trial::test(format!("{name}::{label}"), run).with_ignored_flag(gpus.count() == 0)
    })
}
