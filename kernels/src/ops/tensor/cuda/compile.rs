//! Compiles generated sources in tests, for the architectures that differ in what the texts use.

use std::{env, path::PathBuf, thread};

use crate::cuda::{Arch, JitSource, compile_jit, jit_ptx};

/// Compiles every source; the folder of NVRTC is that of `ACCELERD_NVRTC_PATH`.
///
/// # Panics
/// With the compiler's log of the first source that does not compile.
pub(super) fn compiles(sources: &[JitSource]) {
    let path = folder();
    let cache = tempfile::tempdir().expect("a temporary folder");
    let compile = |source: &JitSource, arch| {
        let compiled = compile_jit(source, arch, cache.path(), std::slice::from_ref(&path));
        compiled.unwrap_or_else(|error| panic!("{error}\n{}", source.text));
    };
    let archs = [(7, 5), (8, 0), (9, 0), (12, 0)].map(|(major, minor)| Arch::new(major, minor));
    let compile = &compile;
    thread::scope(|scope| {
        for arch in archs {
            scope.spawn(move || sources.iter().for_each(|source| compile(source, arch)));
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
