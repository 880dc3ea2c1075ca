//! The generator of cases.
#![no_main]

use accelerd_tests::fuzz::cases;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cases::run(data));
