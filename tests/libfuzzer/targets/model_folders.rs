//! `files::model_folder`; see the harness.
#![no_main]

use accelerd_tests::{encoders, fuzz::files};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| files::model_folder(&encoders(), data));
