//! Kills a daemon under load, again and again, and checks that nothing it answered is lost; and tells one to end that has not
//! begun to serve.
//!
//! `ACCELERD_KILL_ROUNDS` says how often (default 10), `ACCELERD_KILL_SEED` which run of random choices. The daemon is
//! this program started a second time, so that the test needs nothing but itself; `ACCELERD_BIN` names a built one instead.

use std::{process::ExitCode, str::FromStr};

use libtest_mimic::{Arguments, Trial};

mod daemon;
mod rounds;
mod told;
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
    let told = Trial::test("a_daemon_that_is_told_to_end_while_it_fetches_a_model_ends", || Ok(told::run()?));
    libtest_mimic::run(&Arguments::from_args(), vec![trial, told]).exit_code()
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name)
        .ok()
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number, got {value:?}")))
}
