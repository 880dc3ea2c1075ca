//! Data sets from a caller's view: pairs are new, run as they should, and come again from the same request.

use std::collections::{BTreeMap, BTreeSet};

use accelerd_proto::v1::{self, DatasetAgreement, DatasetCategory, KernelDevice, KernelDialect, KernelTarget};
use tonic::{Code, Status};

use super::{
    harness::{TestServer, assert_refused},
    kernel_cuda::with_compiler,
    kernel_launch::assert_reason,
};

/// Numbers of the categories; the first value is not used.
const CATEGORIES: std::ops::RangeInclusive<i32> = 1..=12;

fn request(pair_count: u64) -> v1::GenerateDatasetRequest {
    v1::GenerateDatasetRequest { pair_count, seed: 11, ..Default::default() }
}

async fn pairs(server: &TestServer, request: v1::GenerateDatasetRequest) -> Result<Vec<v1::DatasetPair>, Status> {
    let mut responses = server.kernels().generate_dataset(request).await?.into_inner();
    let mut pairs = vec![];
    while let Some(response) = responses.message().await? {
        pairs.push(response.pair.expect("a pair"));
    }
    Ok(pairs)
}

/// The parts of a pair that do not depend on time.
fn made(pair: v1::DatasetPair) -> v1::DatasetPair {
    let runs = pair.runs.into_iter().map(|run| v1::DatasetRun { execution_time: None, ..run });
    v1::DatasetPair { runs: runs.collect(), ..pair }
}

#[tokio::test]
async fn each_category_has_pairs_that_are_translated_and_agree_with_the_interpreter() {
    let server = TestServer::start().await;
    let pairs = pairs(&server, request(48)).await.expect("pairs");
    assert_eq!(pairs.len(), 48);
    let ids: BTreeSet<_> = pairs.iter().map(|pair| &pair.id).collect();
    assert_eq!(ids.len(), 48, "each is new");
    let mut seen = BTreeMap::new();
    for pair in &pairs {
        *seen.entry(pair.category).or_insert(0) += 1;
        let names: Vec<_> = pair.files.iter().map(|file| file.name.as_str()).collect();
        let [program, module] = ["cu", "wasm"].map(|kind| format!("{}.{kind}", pair.name));
        assert_eq!(names, [&program, "Makefile", "metadata.json", &module]);
        assert!(pair.source.contains(&format!("def {}(", pair.name)), "{}", pair.source);
        let run = pair.runs.first().expect("it ran on the CPU");
        assert_eq!(run.device(), KernelDevice::Cpu);
        assert_eq!(run.agreement(), DatasetAgreement::Equal, "{run:?} of\n{}", pair.source);
        assert!(run.element_count >= 4, "{run:?}");
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), CATEGORIES.collect::<Vec<_>>());
    let structures: BTreeMap<_, _> = pairs.iter().map(|pair| (&pair.structure_id, pair.split)).collect();
    assert!(pairs.iter().all(|pair| structures[&pair.structure_id] == pair.split), "a structure is in one part");
}

#[tokio::test]
async fn equal_requests_have_equal_pairs_also_from_the_middle_on() {
    let server = TestServer::start().await;
    let only = |first_index, pair_count| v1::GenerateDatasetRequest {
        first_index,
        categories: vec![DatasetCategory::Math.into(), DatasetCategory::Atomic.into()],
        // On a GPU, sums of floating-point numbers depend on the order of the threads.
        device: KernelDevice::Cpu.into(),
        ..request(pair_count)
    };
    let all: Vec<_> = pairs(&server, only(0, 40)).await.expect("pairs").into_iter().map(made).collect();
    let next = all[19].index + 1;
    let rest: Vec<_> = pairs(&server, only(next, 20)).await.expect("pairs").into_iter().map(made).collect();
    assert_eq!(rest, all[20..]);
    let atomic = all.iter().filter(|pair| pair.category() == DatasetCategory::Atomic);
    assert!(atomic.clone().count() >= 15 && atomic.clone().all(|pair| pair.dialect() == KernelDialect::Warp));
    let other = v1::GenerateDatasetRequest { seed: 12, ..only(0, 1) };
    assert_ne!(pairs(&server, other).await.expect("a pair")[0].source, all[0].source);
}

#[tokio::test]
async fn parts_have_their_percentages_and_files_their_targets() {
    let server = TestServer::start_with(with_compiler).await;
    let request = v1::GenerateDatasetRequest {
        validation_percent: Some(0),
        test_percent: Some(100),
        targets: vec![KernelTarget::Ptx.into()],
        dialects: vec![KernelDialect::Python.into()],
        device: KernelDevice::Cpu.into(),
        ..request(3)
    };
    for pair in pairs(&server, request).await.expect("pairs") {
        assert_eq!((pair.split(), pair.dialect()), (v1::DatasetSplit::Test, KernelDialect::Python));
        let names: Vec<_> = pair.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, [&format!("{}.ptx", pair.name), "resources.json"]);
        assert_eq!(pair.runs.len(), 1, "on the CPU alone");
    }
}

#[tokio::test]
async fn on_a_gpu_bit_exact_pairs_have_the_same_bits_and_others_run() {
    let server = TestServer::start_with(with_compiler).await;
    let is_required = std::env::var("ACCELERD_REQUIRE_CUDA").is_ok_and(|value| value == "1");
    assert!(server.has_gpu() || !is_required, "there is no GPU");
    let request = v1::GenerateDatasetRequest { device: KernelDevice::Cuda.into(), ..request(96) };
    let generated = pairs(&server, request).await;
    if !server.has_gpu() {
        return assert_reason(generated, Code::FailedPrecondition, "NO_GPU");
    }
    for pair in generated.expect("pairs") {
        let [_, run] = pair.runs.as_slice() else { panic!("two runs of {}", pair.name) };
        assert_eq!(run.device(), KernelDevice::Cuda);
        // Only a loop can amplify the errors of elementary functions beyond the tolerance.
        let has_loop = ["for ", "while "].iter().any(|header| pair.source.contains(header));
        let agrees = match run.agreement() {
            DatasetAgreement::Equal => true,
            DatasetAgreement::Close => !pair.bit_exact,
            DatasetAgreement::Different => !pair.bit_exact && has_loop,
            DatasetAgreement::Unspecified | DatasetAgreement::Fault | DatasetAgreement::Failed => false,
        };
        assert!(agrees, "{run:?} of\n{}", pair.source);
    }
}

#[tokio::test]
async fn invalid_requests_name_the_field() {
    let server = TestServer::start().await;
    let valid = request(1);
    let cases = [
        (v1::GenerateDatasetRequest { pair_count: 0, ..valid.clone() }, "pair_count"),
        (v1::GenerateDatasetRequest { pair_count: 100_001, ..valid.clone() }, "pair_count"),
        (v1::GenerateDatasetRequest { categories: vec![0], ..valid.clone() }, "categories[0]"),
        (v1::GenerateDatasetRequest { categories: vec![1, 13], ..valid.clone() }, "categories[1]"),
        (v1::GenerateDatasetRequest { categories: vec![1, 1], ..valid.clone() }, "categories"),
        (v1::GenerateDatasetRequest { dialects: vec![0], ..valid.clone() }, "dialects[0]"),
        (v1::GenerateDatasetRequest { dialects: vec![2, 2], ..valid.clone() }, "dialects"),
        (v1::GenerateDatasetRequest { categories: vec![6], dialects: vec![2], ..valid.clone() }, "categories"),
        (v1::GenerateDatasetRequest { test_percent: Some(91), ..valid.clone() }, "test_percent"),
        (v1::GenerateDatasetRequest { validation_percent: Some(u32::MAX), ..valid.clone() }, "test_percent"),
        (v1::GenerateDatasetRequest { targets: vec![9], ..valid.clone() }, "targets[0]"),
        (v1::GenerateDatasetRequest { device: 9, ..valid.clone() }, "device"),
    ];
    for (request, field) in cases {
        assert_refused(pairs(&server, request).await, Code::InvalidArgument, field);
    }
    let last = v1::GenerateDatasetRequest { first_index: u64::MAX, ..request(2) };
    assert_eq!(pairs(&server, last).await.expect_err("the sequence ends").code(), Code::OutOfRange);
}

#[tokio::test]
async fn pairs_need_processes_that_run_them() {
    let server = TestServer::start_with(|config| config.sandbox.processes = 0).await;
    assert_reason(pairs(&server, request(1)).await, Code::FailedPrecondition, "SANDBOX_DISABLED");
}
