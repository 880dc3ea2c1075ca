//! `files::npy`; see the harness.
#![no_main]

use accelerd_tests::fuzz::files;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| files::npy(data));
