//! Long and deep sources are lowered or refused by name, on the stack of a worker and in time that grows with the source only.

mod common;

use std::cell::Cell;
use std::ops::ControlFlow;

use accelerd_lower::{Dialect, ErrorKind, LowerError, for_each_kernel, lower};

use common::options;

/// The stack of a thread that runs operations on a CPU: the default of Rust.
const STACK: usize = 2 << 20;

/// The outcome for the first kernel of a source on a worker's stack.
fn outcome(dialect: Dialect, source: String) -> Result<(), LowerError> {
    let run = move || lower(&source, &options(dialect)).map(|module| module.kernels[0].kernel.check().expect("valid"));
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread");
    thread.join().expect("no panic")
}

fn refusal(dialect: Dialect, source: String) -> ErrorKind {
    outcome(dialect, source).expect_err("a source beyond a limit").kind
}

fn python(body: &str) -> String {
    format!("def f(x: int) -> bool:\n    {body}\n")
}

fn warp(body: &str) -> String {
    format!("import warp as wp\n\n@wp.kernel\ndef k(out: wp.array(dtype=float)):\n    x = 1\n    {body}\n")
}

#[test]
fn long_chains_are_lowered_without_deep_expressions() {
    for operator in [" < ", " and ", " or "] {
        let operand = if operator == " < " { "x" } else { "x > 0" };
        let source = python(&format!("return {}", vec![operand; 2000].join(operator)));
        assert_eq!(outcome(Dialect::Python, source), Ok(()), "{operator}");
    }
}

#[test]
fn chains_beyond_the_size_of_a_kernel_are_refused() {
    for operator in [" < ", " and ", " or "] {
        let operand = if operator == " < " { "x" } else { "x > 0" };
        let source = python(&format!("return {}", vec![operand; 200_000].join(operator)));
        let kind = refusal(Dialect::Python, source);
        assert!(matches!(kind, ErrorKind::TooLarge | ErrorKind::InvalidKernel), "{operator}: {kind:?}");
    }
}

#[test]
fn deep_expressions_are_refused() {
    let sum = vec!["1"; 500_000].join("+");
    assert_eq!(refusal(Dialect::Python, python(&format!("return {sum} > x"))), ErrorKind::TooDeep);
    assert_eq!(refusal(Dialect::Warp, warp(&format!("y = wp.static({sum})"))), ErrorKind::TooDeep);
    let range = format!("for i in range({sum}):\n        y = wp.static(i)");
    assert_eq!(refusal(Dialect::Warp, warp(&range)), ErrorKind::TooDeep);
}

#[test]
fn tuples_that_grow_with_each_statement_are_refused() {
    let nested = (0..50_000).map(|nth| format!("t{} = (t{nth},)\n    ", nth + 1)).collect::<Vec<_>>().concat();
    assert_eq!(refusal(Dialect::Warp, warp(&format!("t0 = (x,)\n    {nested}pass"))), ErrorKind::TooDeep);
    let doubled = (0..60).map(|nth| format!("t{} = (t{nth}, t{nth})\n    ", nth + 1)).collect::<Vec<_>>().concat();
    assert_eq!(refusal(Dialect::Warp, warp(&format!("t0 = (x,)\n    {doubled}pass"))), ErrorKind::TooLarge);
}

#[test]
fn functions_that_call_others_twice_are_refused() {
    let calls: String = (0..30)
        .map(|nth| format!("def f{}() -> int:\n    return f{nth}() + f{nth}()\n", nth + 1))
        .collect::<Vec<_>>()
        .concat();
    let source = format!("def f0() -> int:\n    return 1\n{calls}def k(x: int) -> int:\n    return f30()\n");
    let mut kind = None;
    let names = ["k".to_owned()];
    for_each_kernel(&source, &options(Dialect::Python), &names, &|| ControlFlow::Continue(()), |outcome| {
        kind = outcome.kernel.err().map(|error| error.kind);
        ControlFlow::Continue(())
    })
    .expect("a module");
    assert_eq!(kind, Some(ErrorKind::TooLarge));
}

#[test]
fn structs_that_mention_others_twice_are_refused() {
    let structs: String = (0..60)
        .map(|nth| format!("@wp.struct\nclass S{}:\n    a: S{nth}\n    b: S{nth}\n", nth + 1))
        .collect::<Vec<_>>()
        .concat();
    let source = format!(
        "import warp as wp\n@wp.struct\nclass S0:\n    a: wp.array(dtype=float)\n{structs}@wp.kernel\ndef k(s: S60):\n    pass\n"
    );
    assert_eq!(refusal(Dialect::Warp, source), ErrorKind::UnsupportedType);
}

#[test]
fn long_lists_are_refused_before_they_are_lowered() {
    let items = vec!["x"; 300_000].join(", ");
    assert_eq!(refusal(Dialect::Python, python(&format!("return ({items})"))), ErrorKind::TooLarge);
    let targets = "y = ".repeat(250_000);
    assert_eq!(refusal(Dialect::Python, python(&format!("{targets}x"))), ErrorKind::TooLarge);
    assert_eq!(refusal(Dialect::Python, python(&format!("return max({items})"))), ErrorKind::TooLarge);
}

#[test]
fn long_lists_of_parameters_are_refused() {
    for default in ["", " = 1"] {
        let parameters: Vec<_> = (0..80_000).map(|nth| format!("p{nth}: int{default}")).collect();
        let helper = format!("import warp as wp\n\n@wp.func\ndef h({}):\n    return 1\n", parameters.join(", "));
        let source = format!("{helper}\n@wp.kernel\ndef k(out: wp.array(dtype=float)):\n    x = h(1)\n");
        assert_eq!(refusal(Dialect::Warp, source), ErrorKind::TooLarge, "{default}");
    }
}

#[test]
fn chains_of_assignment_expressions_are_refused() {
    let chain = format!("{}x{}", "(y := ".repeat(20_000), ")".repeat(20_000));
    let kind = refusal(Dialect::Python, python(&format!("return {chain} > 0")));
    assert!(matches!(kind, ErrorKind::UnsupportedExpression | ErrorKind::Syntax), "{kind:?}");
    let sum = vec!["(y := x)"; 100_000].join("+");
    assert_eq!(refusal(Dialect::Python, python(&format!("return {sum} > 0"))), ErrorKind::TooDeep);
}

#[test]
fn long_names_are_refused() {
    let name = "n".repeat(500_000);
    let error =
        outcome(Dialect::Python, format!("def f({name}: int) -> int:\n    return 1\n")).expect_err("a long name");
    assert_eq!((error.kind, error.line, error.column), (ErrorKind::TooLarge, 1, 6));
}

#[test]
fn a_checkpoint_that_breaks_ends_the_lowering_of_a_kernel() {
    let lines = "y = x + 1\n    ".repeat(20_000);
    let source = python(&format!("{lines}return x > 0"));
    let calls = Cell::new(0);
    let visited = Cell::new(false);
    let checkpoint = || {
        calls.set(calls.get() + 1);
        if calls.get() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let error = for_each_kernel(&source, &options(Dialect::Python), &[], &checkpoint, |_| {
        visited.set(true);
        ControlFlow::Continue(())
    });
    assert_eq!(error.map_err(|error| error.kind), Err(ErrorKind::Cancelled));
    assert_eq!((calls.get(), visited.get()), (3, false));
}

#[test]
fn columns_count_characters_on_long_lines() {
    let text = "ä\u{feff}".repeat(400);
    let source = format!("def f(x: int) -> int:\n    s = '{text}'; return y\n");
    let error = outcome(Dialect::Python, source).expect_err("a string as a variable");
    assert_eq!((error.line, error.column), (2, 4));
    let source = format!("def f(x: int) -> int:\n    '{text}'; return y\n");
    let error = outcome(Dialect::Python, source).expect_err("an unknown name");
    assert_eq!((error.line, error.column), (2, 4 + 1 + 400 + 3 + 7));
}
