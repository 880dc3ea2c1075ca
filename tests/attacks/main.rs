//! Sends requests that are made to end a daemon, or to keep others from it: the daemon and its children live on within their
//! memory, and polite callers are answered within their deadlines.
//!
//! The daemon is this program started again, with a limit of memory; `ACCELERD_BIN` names a built daemon instead. With the argument
//! `measure` and a number of seconds the program prints the times of polite calls without and during each attack.

#![expect(clippy::print_stdout, reason = "prints a table for people")]

use std::{env, process::ExitCode, time::Duration};

use libtest_mimic::{Arguments, Trial};

mod attack;
mod daemon;
mod polite;
mod round;

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some(daemon::AS_DAEMON) => return daemon::run(),
        Some("measure") => return measure(),
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

/// Prints a row for an idle daemon, and one for each attack.
fn measure() -> ExitCode {
    let seconds = env::args().nth(2).and_then(|seconds| seconds.parse().ok()).unwrap_or(10.0);
    let time = Duration::from_secs_f64(seconds);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("threads can be started");
    println!(
        "| attack | polite calls | launch p50 / p99 / longest, ms | embed p50 / p99 / longest, ms |\n|---|---|---|---|"
    );
    for attack in std::iter::once(None).chain(attack::ALL.iter().map(Some)) {
        let name = attack.map_or("none", |attack| attack.name);
        match runtime.block_on(round::measure(attack, time)) {
            Ok(times) => println!("| {name} | {} | {} | {} |", times.len(), spread(&times, 0), spread(&times, 1)),
            Err(error) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Median, 99th percentile and the longest of one of the times.
fn spread(times: &[[Duration; 2]], nth: usize) -> String {
    let mut sorted: Vec<f64> = times.iter().map(|times| times[nth].as_secs_f64() * 1e3).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len() - 1;
    let [median, p99] = [50, 99].map(|percent| sorted[last * percent / 100]);
    format!("{median:.1} / {p99:.1} / {:.1}", sorted[last])
}
