//! Generated cases of functions in Python on a GPU: the summary is that of the CPU.

use std::collections::BTreeMap;

use accelerd_proto::v1::{
    self, KernelDevice, input_domain,
    verify_header::{Reference, Subject},
    verify_response::Part,
};
use tonic::{Code, Status};

use super::{
    harness::{TestServer, assert_refused},
    kernel_gpu::{gpu_server, server},
    verify_functions::{outcomes, python, start, wasm},
};

/// The function `f` of a module. Warp's functions are verified by their name.
fn named(source: &str) -> v1::KernelProgram {
    v1::KernelProgram { name: "f".to_owned(), ..python(source) }
}

/// Functions `f`: the subject, and the reference.
fn header(subject: &str, reference: &str, case_count: u64) -> v1::VerifyHeader {
    v1::VerifyHeader {
        subject: Some(Subject::Kernel(named(subject))),
        reference: Some(Reference::ReferenceKernel(named(reference))),
        generator: Some(v1::CaseGenerator { case_count, seed: 3, domains: BTreeMap::new() }),
        ..Default::default()
    }
}

fn with_domain(mut header: v1::VerifyHeader, name: &str, domain: v1::InputDomain) -> v1::VerifyHeader {
    let generator = header.generator.as_mut().expect("the cases are generated");
    generator.domains.insert(name.to_owned(), domain);
    header
}

fn integers(min: i64, max: i64) -> v1::InputDomain {
    let lower = input_domain::Lower::MinInteger(min);
    let upper = input_domain::Upper::MaxInteger(max);
    v1::InputDomain { lower: Some(lower), upper: Some(upper), ..Default::default() }
}

/// The summary of a header on a device, and the bits of the cases that fail, if they are wanted.
async fn run(
    server: &TestServer,
    device: KernelDevice,
    header: &v1::VerifyHeader,
) -> Result<(v1::VerifySummary, Vec<u64>), Status> {
    let sent = start(v1::VerifyHeader { device: device.into(), ..header.clone() });
    let mut answers = server.verify().verify(tokio_stream::iter(sent)).await?.into_inner();
    let mut failed = vec![];
    let mut cases = 0;
    while let Some(answer) = answers.message().await? {
        match answer.part.expect("a part") {
            Part::Cases(verdicts) => {
                assert_eq!(verdicts.first_case, cases, "chunks follow one another");
                cases += verdicts.case_count;
                let bits = (0..verdicts.case_count).filter(|case| {
                    let place = usize::try_from(case / 8).expect("small");
                    verdicts.failed_cases.get(place).is_some_and(|byte| byte >> (case % 8) & 1 == 1)
                });
                failed.extend(bits.map(|case| verdicts.first_case + case));
            }
            Part::Summary(summary) => {
                assert_eq!(summary.case_count, cases);
                return Ok((summary, failed));
            }
        }
    }
    panic!("a stream ends with a summary")
}

/// Asserts that both devices have the same summary, and returns it with the number of cases that the GPU decided.
async fn assert_same(server: &TestServer, name: &str, header: v1::VerifyHeader) -> (v1::VerifySummary, u64) {
    let header = v1::VerifyHeader { case_verdicts: true, ..header };
    let (cpu, failed) = run(server, KernelDevice::Cpu, &header).await.expect("it runs on the CPU");
    let (mut gpu, failed_there) = run(server, KernelDevice::Cuda, &header).await.expect("it runs on the GPU");
    let functions = gpu.functions.as_mut().expect("functions have a summary");
    let decided = std::mem::take(&mut functions.gpu_decided_count);
    assert_eq!(gpu, cpu, "{name}");
    assert_eq!(failed_there, failed, "{name}");
    (cpu, decided)
}

const CASES: u64 = 300_000;

#[tokio::test]
#[ignore = "needs a GPU"]
async fn equal_functions_are_decided_on_the_gpu() {
    let server = gpu_server(|_| {}).await;
    let horner = "def f(x: float, n: int) -> float:\n    y = 1.0\n    for i in range(n % 7):\n        y = y * x + i\n    return y\n";
    let (summary, decided) = assert_same(&server, "horner", header(horner, horner, CASES)).await;
    let nan = summary.outputs[0].differences.as_ref().expect("compared").counts.expect("counts");
    let all = CASES;
    assert!(decided > all / 2 && decided < all, "{decided} of {all} decided, {nan:?}");
    let raising = "def f(a: int, b: int) -> int:\n    assert a != 3\n    return a // b + a\n";
    let (summary, _) = assert_same(&server, "raising", header(raising, raising, CASES)).await;
    let functions = summary.functions.expect("functions have a summary");
    assert!(outcomes(&functions.subject_outcomes).len() >= 3, "{functions:?}");
    let warp = "import warp as wp\n\n@wp.func\ndef f(a: wp.float32, b: wp.int8, c: bool):\n    if c:\n        return wp.sin(a) * float(b), b\n    return wp.exp(a), wp.int8(1)\n";
    let (summary, decided) = assert_same(&server, "warp", header(warp, warp, CASES)).await;
    assert!(summary.passed && decided > CASES * 9 / 10, "{decided} decided");
}

#[tokio::test]
#[ignore = "needs a GPU"]
async fn differences_are_found_and_reported_as_on_the_cpu() {
    let server = gpu_server(|_| {}).await;
    let sum = "def f(x: float, y: float, z: float) -> float:\n    return (x + y) + z\n";
    let other = "def f(x: float, y: float, z: float) -> float:\n    return x + (y + z)\n";
    // Rounding, infinities and NaN.
    let (summary, decided) = assert_same(&server, "associativity", header(other, sum, CASES)).await;
    assert!(!summary.passed && decided > 0, "{decided} decided");
    let tolerant = v1::ComparisonPolicy {
        nan: v1::NanPolicy::Equal.into(),
        infinity: v1::InfinityPolicy::Forbidden.into(),
        ..Default::default()
    };
    let header_of = |policy| v1::VerifyHeader { policy: Some(policy), ..header(other, sum, CASES) };
    assert_same(&server, "no infinities", header_of(tolerant)).await;
    let off_by_one = "def f(n: int) -> int:\n    return n * n if n < 46341 else n * n + (1 if n == 46342 else 0)\n";
    let square = "def f(n: int) -> int:\n    return n * n\n";
    let rare = with_domain(header(off_by_one, square, 3_000_000), "n", integers(0, 100_000));
    let (summary, decided) = assert_same(&server, "off by one", rare).await;
    assert!(summary.failed_count > 0 && decided > 2_900_000, "{decided} decided");
    let one_side = "def f(n: int) -> int:\n    assert n % 1000 != 7\n    return n * n\n";
    let one_side = with_domain(header(one_side, square, CASES), "n", integers(-50_000, 50_000));
    let (summary, _) = assert_same(&server, "one side raises", one_side).await;
    assert!(!summary.passed);
    let required =
        v1::VerifyHeader { outcome_policy: v1::OutcomePolicy::ResultRequired.into(), ..header(square, square, CASES) };
    let (summary, _) = assert_same(&server, "results are required", required).await;
    assert!(!summary.passed, "some squares overflow");
}

#[tokio::test]
#[ignore = "needs a GPU"]
async fn loops_without_end_are_left_to_the_cpu() {
    let server = gpu_server(|_| {}).await;
    let endless = "def f(n: int) -> int:\n    i = 0\n    while i != n:\n        i = i + 1\n    return i\n";
    let limits = v1::CaseLimits { loop_budget: Some(1000), ..Default::default() };
    let header = v1::VerifyHeader { limits: Some(limits), ..header(endless, endless, 100_000) };
    let (summary, decided) = assert_same(&server, "loops", header).await;
    let functions = summary.functions.expect("functions have a summary");
    assert_eq!(functions.subject_outcomes["loop_budget"] + functions.subject_outcomes["ok"], 100_000);
    assert!(decided < functions.subject_outcomes["ok"], "the first cases run on the CPU");
}

#[tokio::test]
async fn functions_that_no_gpu_runs_are_refused() {
    let server = server(|_| {}).await;
    let line = "def f(x: float, n: int) -> float:\n    return 2.0 * x + n\n";
    let total = "def f(xs: list[float]) -> float:\n    total = 0.0\n    for i in range(len(xs)):\n        total += xs[i]\n    return total\n";
    let wide = "def f(n: int) -> int:\n    return n\n";
    let narrow = "import warp as wp\n\n@wp.func\ndef f(n: wp.int32):\n    return wp.int64(n)\n";
    let of_module = v1::VerifyHeader { subject: Some(Subject::Wasm(wasm("line"))), ..header(line, line, 10) };
    let twice = v1::VerifyHeader { check_determinism: true, ..header(line, line, 10) };
    let expecting = v1::VerifyHeader { expected_outcome: "ok".to_owned(), ..header(line, line, 10) };
    let given = v1::VerifyHeader { generator: None, ..header(line, line, 10) };
    for header in [of_module, twice, expecting, given, header(total, total, 10), header(narrow, wide, 10)] {
        assert_refused(run(&server, KernelDevice::Cuda, &header).await, Code::InvalidArgument, "header.device");
    }
    let unknown = v1::VerifyHeader { device: 7, ..header(line, line, 10) };
    let mut answers = server.verify().verify(tokio_stream::iter(start(unknown))).await.expect("a stream").into_inner();
    assert_refused(answers.message().await, Code::InvalidArgument, "header.device");
}

#[tokio::test]
async fn without_a_gpu_the_call_is_refused() {
    let server = TestServer::start_with(|config| config.sandbox.gpu = accelerd::config::SandboxGpu::Off).await;
    let line = "def f(x: float) -> float:\n    return 2.0 * x\n";
    let refused = run(&server, KernelDevice::Cuda, &header(line, line, 10)).await.expect_err("there is no GPU");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("sandbox.gpu is off"), "{refused}");
}
