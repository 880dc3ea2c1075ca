//! Sends requests that are made to end a daemon, or to keep others from it: the daemon and its children live on within their
//! memory, and polite callers are answered within their deadlines.
//!
//! The daemon is this program started again, with a limit of memory; `ACCELERD_BIN` names a built daemon instead.

use std::{env, process::ExitCode};

use libtest_mimic::{Arguments, Trial};

mod attack;
mod daemon;
mod polite;
mod round;

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some(daemon::AS_DAEMON) => return daemon::run(),
        Some("sandbox") => return accelerd::sandbox::child_main(),
        _ => {}
    }
    let trials = attack::ALL.iter().map(|attack| {
        let name = format!("polite_callers_are_served_during_{}", attack.name);
        Trial::test(name, || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            Ok(runtime.block_on(round::run(attack))?)
        })
    });
    // One daemon at a time: each test measures memory and answers of its own.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
