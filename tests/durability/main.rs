//! Kills a daemon under load repeatedly and checks that no acknowledged write is lost; sends SIGTERM to a daemon before it
//! serves.
//!
//! `ACCELERD_KILL_ROUNDS` is the number of rounds (default 10), `ACCELERD_KILL_SEED` the seed. The daemon is this program
//! started again, so the test needs no other binary; `ACCELERD_BIN` names a built daemon instead.

use std::{process::ExitCode, str::FromStr};

use libtest_mimic::{Arguments, Trial};

mod daemon;
mod rounds;
mod sigterm;
mod writer;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|argument| argument == daemon::AS_DAEMON) {
        return daemon::run();
    }
    let name = "nothing_that_was_answered_is_lost_when_the_daemon_is_killed";
    let trial = Trial::test(name, || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(rounds::run(setting("ACCELERD_KILL_ROUNDS", 10), setting("ACCELERD_KILL_SEED", 7)));
        Ok(())
    });
    let sigterm = Trial::test("sigterm_cancels_a_model_download_before_the_daemon_serves", || Ok(sigterm::run()?));
    libtest_mimic::run(&Arguments::from_args(), vec![trial, sigterm]).exit_code()
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name)
        .ok()
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number, got {value:?}")))
}
