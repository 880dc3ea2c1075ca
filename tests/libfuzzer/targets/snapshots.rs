//! Snapshots.
#![no_main]

use std::{path::PathBuf, sync::OnceLock};

use accelerd_tests::fuzz::snapshots;
use libfuzzer_sys::fuzz_target;

mod shared;

static SEED: OnceLock<PathBuf> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    shared::run(async |target| {
        if SEED.get().is_none() {
            SEED.set(snapshots::write(target).await).expect("one thread runs cases");
        }
        snapshots::run(target, SEED.get().expect("it is written"), data).await;
    });
});
