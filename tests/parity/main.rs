//! Every operation on every backend against its f64 oracle. Lists `op::case::backend`; without a GPU the CUDA cases
//! show as ignored, and with `ACCELERD_REQUIRE_CUDA=1` a missing GPU fails.

use std::sync::Arc;

use accelerd_kernels::Backend;
use accelerd_parity::{device, open};
use libtest_mimic::{Arguments, Failed, Trial};

mod along_dim;
mod attention;
mod benchmark;
mod beyond_31_bits;
mod cluster;
mod compare;
mod composites;
mod embed;
mod encode;
mod fused_rows;
mod heads;
mod memory;
mod parse;
mod rerank;
mod resident;
mod similarity;
mod tensor;
mod windows;

/// One input with its oracle and tolerance, to be run on any backend.
struct Case {
    name: String,
    check: Arc<Check>,
}

type Check = dyn Fn(&mut Backend) -> Result<(), String> + Send + Sync;

impl Case {
    fn new(
        name: impl Into<String>,
        check: impl Fn(&mut Backend) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), check: Arc::new(check) }
    }
}

/// One trial per backend. It is ignored if the device is missing, or if the case runs `on_request` only.
fn trials(case: &Case, on_request: bool) -> [Trial; 2] {
    [("cpu", false), ("cuda", true)].map(|(backend, cuda)| {
        let check = Arc::clone(&case.check);
        let run = move || -> Result<(), Failed> {
            let device = device(cuda).ok_or("there is no such device")?;
            let mut backend = open(device)?;
            Ok(check(&mut backend)?)
        };
        Trial::test(format!("{}::{backend}", case.name), run).with_ignored_flag(on_request || device(cuda).is_none())
    })
}

fn main() {
    let cases = embed::cases()
        .into_iter()
        .chain(encode::cases())
        .chain(heads::cases())
        .chain(rerank::cases())
        .chain(similarity::cases())
        .chain(cluster::cases())
        .chain(compare::cases())
        .chain(parse::cases())
        .chain(tensor::cases())
        .chain(fused_rows::cases())
        .chain(along_dim::cases())
        .chain(composites::cases())
        .chain(windows::cases())
        .chain(attention::cases())
        .chain(resident::cases())
        .chain(benchmark::cases());
    let large = beyond_31_bits::cases().into_iter().flat_map(|case| trials(&case, true));
    let trials = cases.flat_map(|case| trials(&case, false)).chain(large).chain(memory::trials());
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
