//! Calls of all methods for tensors, kernels and verification; the first byte chooses the method.
#![no_main]

use accelerd_tests::fuzz::rpc;
use libfuzzer_sys::fuzz_target;

mod shared;

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let methods = rpc::methods();
    let method = &methods[usize::from(*first) % methods.len()];
    shared::run(async |target| {
        rpc::run(target, method, data).await;
    });
});
