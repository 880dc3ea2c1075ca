//! Compiles generated sources in tests, for the architectures that differ in the features that the texts use.

use std::{
    env,
    num::NonZero,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    thread,
};

use crate::cuda::{Arch, JitSource, compile_jit_quickly, hidden_by_macros, jit_ptx};

/// Sources that are all compiled for every architecture.
const FEW: usize = 8;

/// Compiles every source with hardly any optimisation. A compilation still takes a fraction of a second: of many sources, each is compiled for two of the architectures, which
/// change from source to source. The folder of NVRTC is that of `ACCELERD_NVRTC_PATH`.
///
/// # Panics
/// With the compiler's log of the first source that does not compile, or if a header hides a generated constant.
pub(super) fn compiles(sources: &[JitSource]) {
    for source in sources {
        assert!(hidden_by_macros(source.headers).is_empty(), "{:?}", hidden_by_macros(source.headers));
    }
    let folders = [folder()];
    let compile = |source: &JitSource, arch| {
        let compiled = compile_jit_quickly(source, arch, &folders);
        compiled.unwrap_or_else(|log| panic!("{} for {arch}: {log}\n{}", source.template, source.text));
    };
    let archs = [(7, 5), (8, 0), (9, 0), (12, 0)].map(|(major, minor)| Arch::new(major, minor));
    // All pairs of architectures take their turns.
    let of_source = |nth: usize| match nth + 1 + nth / archs.len() % (archs.len() - 1) {
        _ if sources.len() <= FEW => archs.to_vec(),
        second => vec![archs[nth % archs.len()], archs[second % archs.len()]],
    };
    let jobs =
        sources.iter().enumerate().flat_map(|(nth, source)| of_source(nth).into_iter().map(move |arch| (source, arch)));
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((source, arch)) = next() {
                    compile(source, arch);
                }
            });
        }
    });
}

/// PTX of a source for sm_90.
///
/// # Panics
/// With the compiler's log if it does not compile.
pub(super) fn ptx(source: &JitSource) -> String {
    jit_ptx(source, Arch::new(9, 0), &[folder()]).unwrap_or_else(|log| panic!("{log}"))
}

fn folder() -> PathBuf {
    env::var_os("ACCELERD_NVRTC_PATH").expect("ACCELERD_NVRTC_PATH must name the folder of libnvrtc").into()
}
