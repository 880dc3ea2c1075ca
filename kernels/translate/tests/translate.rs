//! Translations of modules.

use std::ops::ControlFlow;

use accelerd_ir::kernel::{Argument, Scalar as _};
use accelerd_translate::{Captured, Dialect, Request, Targets, TranslateError, Translation, translate};

const SAXPY: &str = "
import warp as wp

@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]
";

fn request(source: &str) -> Request {
    Request { source: source.to_owned(), max_bytes: 1 << 20, ..Request::default() }
}

fn translated(request: &Request) -> Translation {
    translate(request, || ControlFlow::Continue(())).expect("a translation")
}

fn codes(translation: &Translation) -> Vec<(&str, &str)> {
    translation.diagnostics.iter().map(|diagnostic| (diagnostic.kernel.as_str(), diagnostic.code)).collect()
}

#[test]
fn a_kernel_becomes_a_program_and_a_module() {
    let translation = translated(&request(SAXPY));
    let [kernel] = &translation.kernels[..] else { panic!("one kernel, got {translation:?}") };
    assert_eq!((kernel.name.as_str(), kernel.is_bit_exact, kernel.kernel.grid_dims), ("saxpy", true, 1));
    let names: Vec<_> = kernel.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["saxpy.cu", "Makefile", "metadata.json", "saxpy.wasm"]);
    assert!(kernel.files[3].content.starts_with(b"\0asm"));
    let source = String::from_utf8(kernel.files[0].content.clone()).expect("text");
    assert!(source.contains("__global__ void saxpy_kernel") && source.contains("int main"), "{source}");
    assert_eq!(codes(&translation), []);
}

#[test]
fn only_requested_targets_are_translated_to() {
    let targets = Targets { cuda: false, wasm: true, ..Targets::default() };
    let translation = translated(&Request { targets, ..request(SAXPY) });
    let names: Vec<_> = translation.kernels[0].files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["saxpy.wasm"]);
}

#[test]
fn the_dialect_of_functions_without_decorators_is_python() {
    let source = "def f(x: float) -> float:\n    return x * x\n";
    let translation = translated(&request(source));
    assert_eq!(translation.kernels[0].kernel.params.len(), 2);
    let warp = translated(&Request { dialect: Some(Dialect::Warp), ..request(source) });
    assert_eq!((warp.kernels.len(), codes(&warp)), (0, vec![("", "no_kernel")]));
}

#[test]
fn a_kernel_outside_the_language_does_not_keep_others_from_being_translated() {
    let source =
        format!("{SAXPY}\n@wp.kernel\ndef other(x: wp.array(dtype=float)):\n    with open('f'):\n        pass\n");
    let translation = translated(&request(&source));
    assert_eq!(translation.kernels.len(), 1);
    assert_eq!(codes(&translation), [("other", "unsupported_statement")]);
    let diagnostic = &translation.diagnostics[0];
    assert_eq!((diagnostic.line, diagnostic.column), (11, 4));
}

#[test]
fn only_named_kernels_are_translated_and_unknown_names_are_reported() {
    let source = format!("{SAXPY}\n@wp.kernel\ndef other(x: wp.array(dtype=float)):\n    x[wp.tid()] = 1.0\n");
    let names = vec!["other".to_owned(), "missing".to_owned()];
    let translation = translated(&Request { names, ..request(&source) });
    let kernels: Vec<_> = translation.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!((kernels, codes(&translation)), (vec!["other"], vec![("missing", "no_kernel")]));
}

#[test]
fn a_name_decides_the_dialect() {
    let source = format!(
        "{SAXPY}\n@wp.func\ndef halved(x: float):\n    return x / 2.0\n\ndef doubled(x: float) -> float:\n    return 2.0 * x\n"
    );
    let named = |name: &str| translated(&Request { names: vec![name.to_owned()], ..request(&source) });
    for (name, dialect, maps_rows) in
        [("saxpy", Dialect::Warp, false), ("halved", Dialect::Warp, true), ("doubled", Dialect::Python, true)]
    {
        let translation = named(name);
        let kernel = &translation.kernels[0];
        assert_eq!((kernel.dialect, kernel.maps_rows), (dialect, maps_rows), "{name}");
    }
    assert_eq!(codes(&named("missing")), [("missing", "no_kernel")]);
}

#[test]
fn invalid_python_is_a_diagnostic_of_the_module() {
    let translation = translated(&request("def f(:\n"));
    assert_eq!((translation.kernels.len(), codes(&translation)), (0, vec![("", "syntax")]));
}

#[test]
fn captured_constants_are_known() {
    let source = "def f(x: float) -> float:\n    return x * SCALE\n";
    assert_eq!(codes(&translated(&request(source))), [("f", "unknown_name")]);
    let constants = [("SCALE".to_owned(), Captured::Float(2.5))].into();
    let translation = translated(&Request { constants, ..request(source) });
    assert_eq!((translation.kernels.len(), codes(&translation)), (1, vec![]));
}

#[test]
fn a_kernel_that_always_faults_has_a_module_and_no_program() {
    let source = "def f(x: float) -> float:\n    assert x != x\n    return x\n";
    let translation = translated(&request(source));
    assert_eq!(codes(&translation), [("f", "no_example")]);
    assert_eq!((translation.diagnostics[0].line, translation.diagnostics[0].column), (2, 4));
    let names: Vec<_> = translation.kernels[0].files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["f.wasm"]);
}

#[test]
fn examples_of_many_slow_kernels_are_bounded() {
    let slow =
        |nth: usize| format!("def f{nth}(x: float) -> float:\n    while x == x:\n        x += 1.0\n    return x\n");
    let source: String = (0..40).map(slow).collect();
    let translation = translated(&request(&source));
    assert_eq!((translation.kernels.len(), translation.diagnostics.len()), (40, 40));
    assert!(translation.diagnostics.iter().all(|diagnostic| diagnostic.code == "no_example"));
}

#[test]
fn examples_have_inputs_that_domains_and_neighbors_admit() {
    let root = "import math\ndef f(x: float) -> float:\n    return math.sqrt(x) + math.log(x)\n";
    let neighbor = "import warp as wp\n@wp.kernel\ndef shift(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    \
                    i = wp.tid()\n    y[i] = x[i + 1]\n";
    for source in [root, neighbor] {
        assert_eq!(codes(&translated(&request(source))), [], "{source}");
    }
}

#[test]
fn files_beyond_the_limit_and_cancelled_translations_are_errors() {
    let small = Request { max_bytes: 1000, ..request(SAXPY) };
    assert_eq!(translate(&small, || ControlFlow::Continue(())), Err(TranslateError::TooLarge { limit: 1000 }));
    assert_eq!(translate(&request(SAXPY), || ControlFlow::Break(())), Err(TranslateError::Cancelled));
}

#[test]
fn the_example_of_a_kernel_whose_threads_race_has_one_thread() {
    let grid = |statement: &str| {
        let source = format!(
            "import warp as wp\n@wp.kernel\ndef count(n: wp.array(dtype=int)):\n    i = wp.tid()\n    {statement}\n"
        );
        let translation = translated(&request(&source));
        assert_eq!(codes(&translation), [], "{statement}");
        let metadata = String::from_utf8(translation.kernels[0].files[2].content.clone()).expect("text");
        metadata.contains("\"grid\": [1]")
    };
    // Lost updates, an order that decides, and a sum that is the same in every order.
    assert!(grid("n[0] = n[0] - 1"));
    assert!(grid("n[wp.atomic_add(n, 0, 1) % 64] = i"));
    assert!(!grid("wp.atomic_add(n, 0, i)"));
}

#[test]
fn a_kernel_is_described_without_its_body() {
    let source = "
import warp as wp

@wp.kernel
def k(x: wp.array(dtype=float), count: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.25:
        wp.atomic_add(count, 0, 7)
        y[i] = 0.25
";
    let translation =
        translated(&Request { targets: Targets { cuda: false, wasm: true, ..Targets::default() }, ..request(source) });
    let kernel = &translation.kernels[0];
    assert_eq!((kernel.dialect, &kernel.written[..]), (Dialect::Warp, &[false, true, true][..]));
    assert!(!kernel.is_repeatable, "it counts");
    let literals: Vec<_> = kernel.literals.iter().map(|literal| literal.as_f64()).collect();
    assert_eq!(literals, [0.25, 0.0, 7.0]);
}

#[test]
fn inverse_sines_and_cosines_clamp_their_operand_in_every_program() {
    let source = "
import warp as wp

@wp.kernel
def k(x: wp.array(dtype=float), angles: wp.array(dtype=float)):
    i = wp.tid()
    angles[i] = wp.acos(1000.0 * x[i]) - wp.asin(1000.0 * x[i])
";
    let targets = Targets { cuda: true, wasm: false, device: true };
    let translation = translated(&Request { targets, ..request(source) });
    let kernel = &translation.kernels[0];
    let program = String::from_utf8(kernel.files[0].content.clone()).expect("text");
    let device = kernel.device.as_ref().expect("device code");
    for text in [&program, &device.source] {
        assert!(text.contains("-1.0f"), "{text}");
    }
    let example = kernel.example.as_ref().expect("an example");
    let Argument::Array(angles) = &example.expected[1] else { panic!("an array") };
    let angles: Vec<_> = angles.data.chunks(4).map(f32::read).collect();
    assert!(angles.iter().all(|angle| (-1.6..4.8).contains(angle)), "{angles:?}");
}

#[test]
fn queries_of_geometry_have_programs() {
    for (parameters, statements) in [
        ("id: wp.uint64", "out[i] = wp.mesh_eval_position(id, 1, 0.25, 0.5)[0]"),
        (
            "id: wp.uint64",
            "for point in wp.hash_grid_query(id, wp.vec3(0.5, 0.5, 0.5), 0.25):\n        out[i] += float(point)",
        ),
        ("id: wp.uint64", "out[i] = wp.volume_sample_f(id, wp.vec3(float(i), 0.5, 0.5), 1)"),
        ("ids: wp.array(dtype=wp.uint64)", "out[i] = float(wp.mesh_query_point(ids[i], wp.vec3(), 10.0).face)"),
    ] {
        let source = format!(
            "import warp as wp\n\n@wp.kernel\ndef k({parameters}, out: wp.array(dtype=float)):\n    i = wp.tid()\n    {statements}\n"
        );
        let translation = translated(&request(&source));
        assert!(translation.diagnostics.is_empty(), "{statements}: {:?}", translation.diagnostics);
    }
}
