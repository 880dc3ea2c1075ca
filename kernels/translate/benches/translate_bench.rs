//! Translations per second on one thread, by target. `cargo bench -p accelerd-translate`

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::{
    fmt::Write as _,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use accelerd_translate::{Request, Targets, translate};

const KERNELS: usize = 200;
const RUNS: usize = 9;

/// Distinct kernels of five kinds: elementwise, vectors, a nested loop, branches, atomic operations.
fn source() -> String {
    let mut source = "import warp as wp\n".to_owned();
    for nth in 0..KERNELS {
        let body = match nth % 5 {
            0 => format!("    y[i] = {nth}.0 * x[i] + y[i]"),
            1 => format!(
                "    v = wp.vec3(x[i], y[i], {nth}.0)\n    y[i] = wp.length(wp.cross(v, wp.vec3(1.0, 2.0, 3.0)))"
            ),
            2 => format!(
                "    s = float(0.0)\n    for j in range(4):\n        for k in range({}):\n            \
                 s += x[i] * float(j + k)\n    y[i] = s",
                1 + nth % 7
            ),
            3 => format!(
                "    if x[i] > {nth}.0:\n        y[i] = wp.sin(x[i])\n    elif x[i] < 0.0:\n        y[i] = -x[i]"
            ),
            _ => format!("    wp.atomic_add(y, i % 8, x[i] * {nth}.0)"),
        };
        writeln!(
            source,
            "@wp.kernel\ndef k{nth}(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    i = wp.tid()\n{body}"
        )
        .expect("a string grows");
    }
    source
}

fn main() {
    let source = source();
    for (name, cuda, wasm) in
        [("none", false, false), ("wasm", false, true), ("cuda", true, false), ("both", true, true)]
    {
        let request = Request {
            source: source.clone(),
            targets: Targets { cuda, wasm, device: false },
            max_bytes: 1 << 30,
            ..Request::default()
        };
        let mut times: Vec<Duration> = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                let done = translate(&request, || ControlFlow::Continue(())).expect("a translation");
                assert_eq!((done.kernels.len(), done.diagnostics.len()), (KERNELS, 0));
                start.elapsed()
            })
            .collect();
        times.sort();
        let rate = |time: Duration| KERNELS as f64 / time.as_secs_f64();
        println!(
            "{name}: {:.0} kernels/s ({:.0} to {:.0})",
            rate(times[RUNS / 2]),
            rate(times[RUNS - 1]),
            rate(times[0])
        );
    }
}
