//! `files::snapshot`; see the harness.
#![no_main]

use std::sync::OnceLock;

use accelerd_tests::fuzz::files;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokio::runtime::Runtime;

static SEED: OnceLock<(Runtime, TempDir)> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let (runtime, folder) = SEED.get_or_init(|| {
        let (runtime, folder) = (Runtime::new().expect("a runtime"), tempfile::tempdir().expect("a folder"));
        runtime.block_on(files::write_snapshot(folder.path()));
        (runtime, folder)
    });
    runtime.block_on(files::snapshot(folder.path(), data));
});
