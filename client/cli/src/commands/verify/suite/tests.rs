//! Suites of checks: their parsed form, and reports of all of their errors.

use accelerd_client::{
    Cases, Domain, KernelDevice, KernelProgram, NanPolicy, OutcomePolicy, Policy, Verification, VerifySide,
    WasmFunction,
    proto::{Dtype, Tensor, WasmParam, WasmParamKind},
};

use super::*;
use crate::npy;

/// A folder with `f.py`, `f.wasm`, and arrays of three cases.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.py"), "source").unwrap();
    fs::write(folder.path().join("f.wasm"), [0, 1]).unwrap();
    for (name, shape) in
        [("three.npy", vec![3, 2]), ("two.npy", vec![2]), ("none.npy", vec![0]), ("scalar.npy", vec![])]
    {
        npy::write_tensor(&folder.path().join(name), &tensor(&shape)).unwrap();
    }
    folder
}

fn tensor(shape: &[i64]) -> Tensor {
    let count = u8::try_from(shape.iter().product::<i64>()).unwrap();
    let data: Vec<u8> = (0..count).collect();
    Tensor { dtype: Dtype::U8.into(), shape: shape.to_vec(), data: data.into() }
}

fn read_text(name: &str, text: &str) -> Result<Vec<Check>> {
    let folder = folder();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    read(&path)
}

/// The mistakes of a suite, without the name of its file.
fn mistakes(text: &str) -> Vec<String> {
    match read_text("s.toml", text) {
        Err(CliError::Suite(mistakes)) => {
            mistakes.iter().map(|mistake| mistake.split_once("s.toml: ").expect("the file").1.to_owned()).collect()
        }
        other => panic!("expected mistakes, got {other:?}"),
    }
}

const FUNCTIONS: &str = "name = 'f'\nsubject = { wasm = 'f.wasm', function = 'f' }\nreference = { python = 'f.py' }\n";

#[test]
fn a_check_has_what_its_suite_and_its_own_keys_say() {
    let suite = format!(
        "count = 7\nseed = 3\nmax_ulps = 4\nnan = 'equal'\ncase_timeout = '500ms'\nmemory = '1MiB'\n\
         [[check]]\n{FUNCTIONS}rtol = 1\ncount = 9\noutcomes = 'reference_defines'\nshrink = false\n\
         [check.outputs.y]\nexact = true\n\
         [check.inputs]\nn = {{ min = 0, max = 5 }}\nx = {{ max = 1e300, allow_nan = true, length = 3 }}\n"
    );
    let checks = read_text("s.toml", &suite).unwrap();
    let wasm = WasmFunction::new(vec![0, 1]).name("f");
    let python = KernelProgram::new("source").name("");
    let expected = Verification::of(wasm)
        .against(python)
        .policy(Policy::default().close(0.0, 1.0).nan(NanPolicy::Equal))
        .output_policy("y", Policy::default().exact())
        .outcomes(OutcomePolicy::ReferenceDefines)
        .case_timeout(std::time::Duration::from_millis(500))
        .memory_bytes(1 << 20)
        .skip_shrinking()
        .generate(9, 3)
        .domain("n", 0..=5)
        .domain("x", Domain::from(..=1e300).allow_nan().length(3));
    assert_eq!(checks[0].verification(), expected);
    assert!(checks[0].chunks().is_empty() && checks[0].whole_arrays().is_none());
    assert_eq!(
        (checks[0].subject.description.as_str(), checks[0].reference.description.as_str()),
        ("f.wasm: f", "f.py")
    );
}

#[test]
fn json_and_toml_say_the_same() {
    let toml = format!("[[check]]\n{FUNCTIONS}");
    let json = r#"{"check": [{"name": "f", "subject": {"wasm": "f.wasm", "function": "f"}, "reference": {"python": "f.py"}}]}"#;
    let [toml, json] = [("s.toml", toml.as_str()), ("s.json", json)].map(|(name, text)| read_text(name, text).unwrap());
    assert_eq!(toml[0].verification(), json[0].verification());
    assert!(matches!(read_text("s.yaml", ""), Err(CliError::Format { .. })));
    assert!(matches!(read_text("s.toml", "count ="), Err(CliError::Format { .. })));
    assert!(matches!(read_text("s.json", "{\"check\": null}"), Err(CliError::Format { .. })));
}

#[test]
fn parameters_of_webassembly_and_constants_of_python_are_passed_on() {
    let suite = "[[check]]\nname = 'f'\nreference = { python = 'f.py', constants = { N = 3, X = 0.5, B = true } }\n\
        [check.subject]\nwasm = 'f.wasm'\nshare_instance = true\nresults = [{ name = 'r', dtype = 'i32' }]\n\
        params = [{ name = 'n', dtype = 'i64' }, { name = 'x', dtype = 'f64', kind = 'in_out', length = 8, address_only = true }]\n";
    let param = |name: &str, dtype: Dtype, kind: WasmParamKind, length| WasmParam {
        name: name.to_owned(),
        dtype: dtype.into(),
        kind: kind.into(),
        length,
        address_only: kind == WasmParamKind::InOut,
    };
    let wasm = WasmFunction::new(vec![0, 1])
        .name("")
        .param(param("n", Dtype::I64, WasmParamKind::Value, 0))
        .param(param("x", Dtype::F64, WasmParamKind::InOut, 8))
        .result("r", Dtype::I32)
        .share_instance();
    let python = KernelProgram::new("source").name("").constant("N", 3).constant("X", 0.5).constant("B", true);
    let expected = Verification::of(wasm).against(python).policy(Policy::default()).generate(10_000, 0);
    assert_eq!(read_text("s.toml", suite).unwrap()[0].verification(), expected);
}

#[test]
fn a_device_is_that_of_generated_cases() {
    let given = "[[check]]\nname = 'given'\nsubject = { python = 'f.py' }\nreference = { python = 'f.py' }\n\
        cases = { x = 'three.npy' }\n";
    let own = FUNCTIONS.replace("'f'\nsubject", "'own'\nsubject");
    let suite = format!("device = 'cuda'\n[[check]]\n{FUNCTIONS}[[check]]\n{own}device = 'cpu'\n{given}");
    let checks = read_text("s.toml", &suite).unwrap();
    let python = || KernelProgram::new("source").name("");
    let wasm = WasmFunction::new(vec![0, 1]).name("f");
    let generated = Verification::of(wasm).against(python()).policy(Policy::default()).generate(10_000, 0);
    assert_eq!(checks[0].verification(), generated.clone().device(KernelDevice::Cuda));
    assert_eq!(checks[1].verification(), generated.device(KernelDevice::Cpu));
    assert_eq!(checks[2].verification(), Verification::of(python()).against(python()).policy(Policy::default()));
}

#[test]
fn arrays_are_sent_in_chunks_of_their_cases() {
    let suite = "[[check]]\nname = 'f'\nsubject = { npy = { y = 'three.npy' } }\nreference = { python = 'f.py' }\n\
        cases = { x = 'three.npy' }\n[[check]]\nname = 'norm'\nmax_norm = 1e-3\n\
        subject = { npy = { y = 'three.npy' } }\nreference = { npy = { y = 'three.npy' } }\n";
    let checks = read_text("s.toml", suite).unwrap();
    let python = KernelProgram::new("source").name("");
    let expected = Verification::of(VerifySide::Given).against(python).policy(Policy::default());
    assert_eq!(checks[0].verification(), expected);
    assert_eq!(checks[0].chunks(), [Cases::default().input("x", tensor(&[3, 2])).actual("y", tensor(&[3, 2]))]);
    assert!(checks[0].whole_arrays().is_none() && checks[1].whole_arrays().is_some());
}

#[test]
fn expected_outcomes_are_those_of_all_cases_or_of_each() {
    let all = format!("[[check]]\n{FUNCTIONS}expect = 'unreachable'\nany_order = true\n");
    let each = format!("[[check]]\n{FUNCTIONS}cases = {{ x = 'three.npy' }}\nexpect = ['ok', '', 'timeout']\n");
    let [all, each] = [all, each].map(|suite| read_text("s.toml", &suite).unwrap());
    let wasm = WasmFunction::new(vec![0, 1]).name("f");
    let python = KernelProgram::new("source").name("");
    let expected = Verification::of(wasm).against(python).policy(Policy::default().any_order());
    assert_eq!(all[0].verification(), expected.expect_outcome("unreachable").generate(10_000, 0));
    let chunk = Cases::default().input("x", tensor(&[3, 2])).expected_outcomes(["ok", "", "timeout"]);
    assert_eq!(each[0].chunks(), [chunk]);
}

#[test]
fn chunks_are_bounded_and_have_every_case_once() {
    let folder = tempfile::tempdir().unwrap();
    let cases = 3 * (1 << 20) + 5;
    let data: Vec<u8> = (0..=250).cycle().take(cases).collect();
    let array =
        Tensor { dtype: Dtype::U8.into(), shape: vec![i64::try_from(cases).unwrap()], data: data.clone().into() };
    npy::write_tensor(&folder.path().join("y.npy"), &array).unwrap();
    let suite = "[[check]]\nname = 'f'\nsubject = { npy = { y = 'y.npy' } }\nreference = { npy = { y = 'y.npy' } }\n";
    let path = folder.path().join("s.toml");
    fs::write(&path, suite).unwrap();
    let chunks = read(&path).unwrap()[0].chunks();
    let mut first = 0;
    for chunk in &chunks {
        let rows = (cases - first).min(1 << 19);
        let data = data[first..first + rows].to_vec().into();
        let rows = Tensor { dtype: array.dtype, shape: vec![i64::try_from(rows).unwrap()], data };
        assert_eq!(*chunk, Cases::default().actual("y", rows.clone()).expected("y", rows.clone()));
        first += rows.data.len();
    }
    assert_eq!((first, chunks.len()), (cases, 7));
}

#[test]
fn all_mistakes_are_reported_with_check_and_key() {
    let found = mistakes(
        "counts = 3\n[[check]]\nsubject = { wasm = 'gone.wasm', fn = 'f' }\nreference = { python = 'f.py', wasm = 'f.wasm' }\n\
         max_ulps = -1\nnan = 'no'\n[[check]]\nname = 'b'\nsubject = 3\n[check.inputs]\nx = { min = 2, max = 1 }\ny = { mni = 0 }\n",
    );
    for expected in [
        "counts: unknown key, expected count, seed,",
        "check 1: name: expected a text, got nothing",
        "check 1: subject.wasm: ",
        "check 1: subject.fn: unknown key, expected wasm, function,",
        "check 1: reference: expected one of python, wasm and npy, got 2",
        "check 1: max_ulps: expected an integer of at least 0, got -1",
        "check 1: nan: expected \"none\" or \"equal\" or \"bits\", got \"no\"",
        "check \"b\": subject: expected a table, got 3",
        "check \"b\": reference: expected a table with python, wasm or npy",
        "check \"b\": inputs.x.max: expected at least min",
        "check \"b\": inputs.y.mni: unknown key, expected min, max, allow_nan, allow_infinity, length",
    ] {
        let matching = found.iter().filter(|mistake| mistake.starts_with(expected)).count();
        assert_eq!(matching, 1, "{expected}: {found:#?}");
    }
    assert_eq!(found.len(), 11, "{found:#?}");
}

#[test]
fn every_kind_of_mistake_is_named() {
    let functions = |more: &str| format!("[[check]]\n{FUNCTIONS}{more}");
    let arrays = |more: &str| {
        format!(
            "[[check]]\nname = 'f'\nreference = {{ python = 'f.py' }}\nsubject = {{ npy = {{ y = 'three.npy' }} }}\n{more}"
        )
    };
    for (suite, expected) in [
        ("count = 3".to_owned(), "check: expected a list of at least one check"),
        ("check = [3]".to_owned(), "check: expected a list of at least one check"),
        ("count = 0\n".to_owned() + &functions(""), "count: expected an integer of at least 1, got 0"),
        (functions("") + &functions(""), "check \"f\": name: expected a name of its own"),
        (functions("atol = -1\n"), "atol: expected a number of at least 0, got -1"),
        (functions("atol = inf\n"), "atol: expected a number of at least 0, got inf"),
        (functions("exact = true\nmax_ulps = 1\n"), "exact: expected no other tolerance"),
        (functions("max_norm = 1e-3\n"), "max_norm: expected npy on both sides"),
        (functions("outcomes = 'none'\n"), "outcomes: expected \"both_or_neither\" or"),
        (functions("device = 'gpu'\n"), "device: expected \"cpu\" or \"cuda\", got \"gpu\""),
        (functions("case_timeout = 1\n"), "case_timeout: expected a time such as \"500ms\", got 1"),
        (functions("memory = '1 parsec'\n"), "memory: expected a size such as \"64MiB\""),
        (functions("expect = 3\n"), "expect: expected the name of an outcome, or a list of one for each case, got 3"),
        (functions("expect = ['ok']\n"), "expect: expected one name, for there are no cases, got 1"),
        (functions("cases = { x = 'three.npy' }\nexpect = ['ok']\n"), "expect: expected 3 names, got 1"),
        (functions("max_norm = 1\nany_order = true\n"), "any_order: expected no max_norm"),
        (functions("shrink = 1\n"), "shrink: expected true or false, got 1"),
        (functions("max_counterexamples = 4294967296\n"), "max_counterexamples: expected an integer from 0"),
        (functions("inputs = { x = { min = 0, max = 1.5 } }\n"), "inputs.x.max: expected the type of min"),
        (functions("inputs = { x = { min = nan } }\n"), "inputs.x.min: expected a number, got nan"),
        (functions("inputs = { x = 3 }\n"), "inputs.x: expected a table, got 3"),
        (functions("outputs = { y = { tolerance = 3 } }\n"), "outputs.y.tolerance: unknown key, expected exact"),
        (functions("cases = { x = 'three.npy' }\ncount = 3\n"), "count: expected none, because the cases are given"),
        (
            functions("cases = { x = 'three.npy' }\ndevice = 'cpu'\n"),
            "device: expected none, because the cases are given",
        ),
        (functions("cases = { x = 'three.npy' }\ninputs = {}\n"), "inputs: expected inputs or cases, got both"),
        (functions("cases = { x = 3 }\n"), "cases.x: expected a text, got 3"),
        (functions("cases = {}\n"), "cases: expected NAME = \"FILE.npy\""),
        (functions("cases = { x = 'scalar.npy' }\n"), "cases.x: scalar.npy: expected a dimension of cases"),
        (functions("cases = { x = 'none.npy' }\n"), "cases: expected at least one case, got none"),
        (functions("cases = { x = 'f.py' }\n"), "cases.x: "),
        (arrays(""), "cases: expected the inputs of the cases whose outputs are given"),
        (arrays("inputs = {}\n"), "inputs: expected functions on both sides"),
        (arrays("cases = { x = 'two.npy' }\n"), "cases: expected 2 cases in all arrays, got 3 in \"y\""),
    ] {
        let found = mistakes(&suite);
        let is_named = |mistake: &String| {
            mistake.trim_start_matches("check \"f\": ").starts_with(expected.trim_start_matches("check \"f\": "))
        };
        assert!(found.iter().any(is_named), "{expected}: {found:#?}");
    }
}
