//! Tables of word embeddings in this format.
#![no_main]

use accelerd_tests::fuzz::models;
use libfuzzer_sys::fuzz_target;

mod shared;

fuzz_target!(|data: &[u8]| shared::run(async |target| models::safetensors(target, data).await));
