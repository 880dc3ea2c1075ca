//! Model folders.
#![no_main]

use accelerd_tests::{encoders, fuzz::models};
use libfuzzer_sys::fuzz_target;

mod shared;

fuzz_target!(|data: &[u8]| shared::run(async |target| models::folder(target, &encoders(), data).await));
