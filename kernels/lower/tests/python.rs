//! Functions of plain Python compute what CPython computes, row by row.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind, Scalar};
use accelerd_lower::{Dialect, ErrorKind, Options, lower};
use common::{fault, options, read, refused, shaped, try_run, whole_fault};

fn python() -> Options<'static> {
    options(Dialect::Python)
}

/// The results of a function of rows.
fn rows<T: Scalar>(source: &str, mut arguments: Vec<Argument>, count: usize, zero: T) -> Vec<T> {
    arguments.push(Argument::array(&vec![zero; count]));
    let grid = [u32::try_from(count).expect("few rows")];
    try_run(source, &python(), &grid, &mut arguments).unwrap_or_else(|error| panic!("{error}\n{source}"));
    read(arguments.last().expect("an array of results"))
}

/// The fault of a function of one row.
fn fault_of<T: Scalar>(source: &str, mut arguments: Vec<Argument>, zero: T) -> FaultKind {
    arguments.push(Argument::array(&[zero]));
    fault(source, &python(), &[1], &mut arguments)
}

#[test]
fn a_function_is_applied_to_each_row() {
    let source = "
import math

def norm(x: float, y: float) -> float:
    \"\"\"The length.\"\"\"
    return math.sqrt(x * x + y * y)
";
    let results = rows(source, vec![Argument::array(&[3.0, 5.0]), Argument::array(&[4.0, 12.0])], 2, 0.0_f64);
    assert_eq!(results, [5.0, 13.0]);
    let module = lower(source, &python()).expect("lowers");
    let names: Vec<_> = module.kernels[0].kernel.params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "result"]);
    assert_eq!(module.kernels[0].docstring.as_deref(), Some("The length."));
}

const INTEGERS: [i64; 9] = [-7, -2, -1, 1, 2, 3, 7, i64::MAX, i64::MIN];

#[test]
fn integers_divide_with_pythons_signs() {
    for (op, expected) in [
        (
            "//",
            (|a, b| i128::div_euclid(a, b) - i128::from(b < 0 && i128::rem_euclid(a, b) != 0))
                as fn(i128, i128) -> i128,
        ),
        ("%", |a, b| ((a % b) + b) % b),
        ("+", |a, b| a + b),
        ("-", |a, b| a - b),
        ("*", |a, b| a * b),
    ] {
        let source = format!("def f(a: int, b: int) -> int:\n    return a {op} b\n");
        for a in INTEGERS {
            for b in INTEGERS {
                let arguments = vec![Argument::array(&[a]), Argument::array(&[b])];
                match i64::try_from(expected(a.into(), b.into())) {
                    Ok(expected) => assert_eq!(rows(&source, arguments, 1, 0_i64), [expected], "{a} {op} {b}"),
                    Err(_) => assert_eq!(fault_of(&source, arguments, 0_i64), FaultKind::InvalidValue, "{a} {op} {b}"),
                }
            }
        }
    }
}

#[test]
fn division_by_zero_is_a_fault() {
    for (types, op) in [("int", "//"), ("int", "%"), ("int", "/"), ("float", "/"), ("float", "//"), ("float", "%")] {
        let result = if op == "/" { "float" } else { types };
        let source = format!("def f(a: {types}, b: {types}) -> {result}:\n    return a {op} b\n");
        let kind = match types {
            "int" if op == "/" => fault_of(&source, vec![Argument::array(&[1_i64]), Argument::array(&[0_i64])], 0.0),
            "int" => fault_of(&source, vec![Argument::array(&[1_i64]), Argument::array(&[0_i64])], 0_i64),
            _ => fault_of(&source, vec![Argument::array(&[1.0]), Argument::array(&[0.0])], 0.0),
        };
        assert_eq!(kind, FaultKind::DivisionByZero, "{types} {op}");
    }
}

#[test]
fn floats_divide_with_pythons_signs() {
    let a = [7.5, -7.5, 7.5, -7.5, 6.0, -6.0, 1e308, 0.3];
    let b = [2.0, 2.0, -2.0, -2.0, -3.0, 3.0, 1e-3, 0.1];
    let arguments = || vec![Argument::array(&a), Argument::array(&b)];
    let floor = rows("def f(a: float, b: float) -> float:\n    return a // b\n", arguments(), 8, 0.0_f64);
    // As CPython prints them.
    assert_eq!(floor[..6], [3.0, -4.0, -4.0, 3.0, -2.0, -2.0]);
    assert_eq!((floor[6].is_infinite(), floor[7]), (true, 2.0));
    let rest = rows("def f(a: float, b: float) -> float:\n    return a % b\n", arguments(), 8, 0.0_f64);
    assert_eq!(rest[..6], [1.5, 0.5, -0.5, -1.5, 0.0, 0.0]);
    assert!(rest[4].is_sign_negative() && rest[5].is_sign_positive(), "a zero has the sign of the divisor");
    assert_eq!(rest[7].to_bits(), (0.3_f64 % 0.1).to_bits());
    let quotient = rows(
        "def f(a: int, b: int) -> float:\n    return a / b\n",
        vec![Argument::array(&[7_i64]), Argument::array(&[2_i64])],
        1,
        0.0_f64,
    );
    assert_eq!(quotient, [3.5]);
}

#[test]
fn a_quotient_of_integers_that_floats_do_not_have_is_a_fault() {
    let source = "def f(a: int, b: int) -> float:\n    return a / b\n";
    let arguments = vec![Argument::array(&[(1_i64 << 53) + 1]), Argument::array(&[1_i64])];
    assert_eq!(fault_of(source, arguments, 0.0), FaultKind::InvalidValue);
}

#[test]
fn integers_and_floats_compare_exactly() {
    let ints = [i64::MAX, i64::MAX, (1 << 53) + 1, (1 << 53) + 1, 3, 3, i64::MIN, 0, 5];
    let floats = [
        9_223_372_036_854_775_808.0,
        9e18,
        9_007_199_254_740_992.0,
        9_007_199_254_740_994.0,
        3.0,
        3.5,
        -9_223_372_036_854_775_808.0,
        f64::NAN,
        f64::INFINITY,
    ];
    for (op, order) in
        [("<", &[-1][..]), ("<=", &[-1, 0]), ("==", &[0]), ("!=", &[-1, 1, 2]), (">", &[1]), (">=", &[0, 1])]
    {
        // -1, 0 and 1 are the order; 2 stands for no order.
        let orders = [-1, 1, 1, -1, 0, -1, 0, 2, -1];
        let arguments = || vec![Argument::array(&ints), Argument::array(&floats)];
        let source = format!("def f(a: int, b: float) -> bool:\n    return a {op} b\n");
        let expected: Vec<_> = orders.iter().map(|of| order.contains(of)).collect();
        assert_eq!(rows(&source, arguments(), 9, false), expected, "a {op} b");
        let source = format!("def f(a: int, b: float) -> bool:\n    return b {op} a\n");
        let expected: Vec<_> = orders
            .iter()
            .map(|of| {
                order.contains(if *of == 2 { of } else { &[1, 0, -1][usize::try_from(of + 1).expect("an order")] })
            })
            .collect();
        assert_eq!(rows(&source, arguments(), 9, false), expected, "b {op} a");
    }
}

#[test]
fn powers_follow_python() {
    let source = "def f(a: int) -> int:\n    return a ** 3 + a ** 0\n";
    assert_eq!(rows(source, vec![Argument::array(&[-4_i64])], 1, 0_i64), [-63]);
    assert_eq!(fault_of(source, vec![Argument::array(&[1_i64 << 32])], 0_i64), FaultKind::InvalidValue);
    let source = "def f(a: float, b: float) -> float:\n    return a ** b\n";
    let power = |a: f64, b: f64| vec![Argument::array(&[a]), Argument::array(&[b])];
    assert_eq!(rows(source, power(2.0, -2.0), 1, 0.0), [0.25]);
    assert_eq!(fault_of(source, power(0.0, -1.0), 0.0), FaultKind::DivisionByZero);
    assert_eq!(rows(source, power(0.0, f64::NEG_INFINITY), 1, 0.0), [f64::INFINITY]);
    assert_eq!(fault_of(source, power(-8.0, 0.5), 0.0), FaultKind::InvalidValue, "Python has a complex number");
    assert_eq!(fault_of(source, power(1e200, 2.0), 0.0), FaultKind::InvalidValue, "OverflowError");
    let source = "def f(a: int, b: int) -> int:\n    return a ** b\n";
    assert_eq!(refused(source, &python()).kind, ErrorKind::NotConstant);
}

#[test]
fn math_raises_errors_of_domain_and_range() {
    for (call, argument) in
        [("sqrt", -1.0), ("log", 0.0), ("log", -1.0), ("exp", 1000.0), ("asin", 2.0), ("sin", f64::INFINITY)]
    {
        let source = format!("import math\n\ndef f(x: float) -> float:\n    return math.{call}(x)\n");
        assert_eq!(fault_of(&source, vec![Argument::array(&[argument])], 0.0), FaultKind::InvalidValue, "{call}");
    }
    let source = "import math\n\ndef f(x: float) -> float:\n    return math.hypot(x, x)\n";
    assert_eq!(rows(source, vec![Argument::array(&[f64::MAX])], 1, 0.0), [f64::INFINITY], "no exception");
    let source = "from math import log, inf\n\ndef f(x: float) -> float:\n    return log(x) if x < inf else x\n";
    assert_eq!(rows(source, vec![Argument::array(&[1.0, f64::INFINITY])], 2, 0.0), [0.0, f64::INFINITY]);
}

#[test]
fn numbers_are_rounded_and_converted() {
    let source = "
import math

def f(x: float) -> int:
    return round(x) + 100 * int(x) + 10000 * math.floor(x) + abs(int(x)) + int(x > 0) + max(1, 2, 2)
";
    let of =
        |round: i64, int: i64, floor: i64, positive: i64| round + 100 * int + 10000 * floor + int.abs() + positive + 2;
    assert_eq!(
        rows(source, vec![Argument::array(&[2.5, -2.5, 3.5])], 3, 0_i64),
        [of(2, 2, 2, 1), of(-2, -2, -3, 0), of(4, 3, 3, 1)]
    );
    for x in [f64::NAN, f64::INFINITY, 1e19] {
        assert_eq!(fault_of(source, vec![Argument::array(&[x])], 0_i64), FaultKind::InvalidValue);
    }
}

/// The digits are those that CPython computes.
#[test]
fn ranges_run_in_reverse() {
    let source = "
def f(start: int, stop: int, step: int) -> int:
    digits = 0
    n = 0
    for i in reversed(range(start, stop, step)):
        if n == 6:
            break
        digits = digits * 100 + i + 50
        n += 1
    for j in reversed(range(2)):
        digits = digits * 10 + j
    return digits
";
    let bounds = [(0, 5, 1), (0, 5, 2), (5, 0, -2), (5, 0, 1), (-3, 4, 3), (7, -7, -5), (0, 0, 1)];
    let column = |part: fn(&(i64, i64, i64)) -> i64| Argument::array(&bounds.iter().map(part).collect::<Vec<_>>());
    let arguments = vec![column(|b| b.0), column(|b| b.1), column(|b| b.2)];
    let expected = [545_352_515_010, 54_525_010, 51_535_510, 10, 53_504_710, 47_525_710, 10];
    assert_eq!(rows(source, arguments, bounds.len(), 0_i64), expected);
    let of = |start: i64, stop: i64, step: i64| [start, stop, step].map(|bound| Argument::array(&[bound])).to_vec();
    for bounds in [of(0, 5, 0), of(i64::MIN, i64::MAX, 1), of(0, i64::MAX, 1)] {
        assert_eq!(fault_of(source, bounds, 0_i64), FaultKind::InvalidValue);
    }
    let large = of(1 << 60, (1 << 60) + 3, 1);
    let last = "
def f(start: int, stop: int, step: int) -> int:
    for i in reversed(range(start, stop, step)):
        return i
    return 0
";
    assert_eq!(rows(last, large, 1, 0_i64), [(1 << 60) + 2]);
    let own = "def range(x: int) -> int:\n    return x\n\ndef f(x: int) -> int:\n    for i in range(x):\n        x = i\n    return x\n";
    assert_eq!(refused(own, &Options { entry: Some("f"), ..python() }).kind, ErrorKind::UnsupportedStatement);
    let own = "def reversed(x: int) -> int:\n    return x\n\ndef f(x: int) -> int:\n    for i in reversed(range(x)):\n        x = i\n    return x\n";
    assert_eq!(refused(own, &Options { entry: Some("f"), ..python() }).kind, ErrorKind::UnsupportedStatement);
}

#[test]
fn lists_are_rows_with_lengths_and_negative_indices() {
    let source = "
def f(x: list[float], n: int) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total * 10 + x[n]
";
    let list = || shaped(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    assert_eq!(rows(source, vec![list(), Argument::array(&[-1_i64, 0])], 2, 0.0), [63.0, 154.0]);
    for n in [3_i64, -4] {
        let mut arguments = [list(), Argument::array(&[n]), Argument::array(&[0.0])];
        let fault = whole_fault(source, &python(), &[1], &mut arguments);
        assert_eq!(fault.access.map(|access| (access.index, access.axis, access.extent)), Some((n, 1, 3)));
    }
    let source = "def f(x: list[float]) -> float:\n    x[0] = 1.0\n    return x[0]\n";
    assert_eq!(refused(source, &python()).kind, ErrorKind::UnsupportedStatement);
}

#[test]
fn tuples_of_results_are_arrays() {
    let source = "
def swap(a: float, b: int) -> tuple[int, float]:
    if b < 0:
        return 0, 0.0
    return b, a
";
    let mut arguments = [
        Argument::array(&[1.5, 2.5]),
        Argument::array(&[3_i64, -4]),
        Argument::array(&[9_i64; 2]),
        Argument::array(&[9.0; 2]),
    ];
    try_run(source, &python(), &[2], &mut arguments).expect("runs");
    assert_eq!(read::<i64>(&arguments[2]), [3, 0]);
    assert_eq!(read::<f64>(&arguments[3]), [1.5, 0.0]);
}

#[test]
fn exceptions_assertions_and_missing_results_are_faults() {
    for (body, kind) in [
        ("assert x > 0", FaultKind::Assertion),
        ("raise ValueError('no')", FaultKind::InvalidValue),
        ("raise ZeroDivisionError", FaultKind::DivisionByZero),
        ("if x > 0:\n        return 1.0", FaultKind::InvalidValue),
        ("if x > 0:\n        y = 1.0\n    return y", FaultKind::InvalidValue),
        ("for i in range(0, 3, int(x + 1)):\n        pass", FaultKind::InvalidValue),
        ("n = 1 << int(x + 63)", FaultKind::InvalidValue),
    ] {
        let source = format!("def f(x: float) -> float:\n    {body}\n    return 2.0\n");
        let kinds = if body.contains("return") {
            let source = format!("def f(x: float) -> float:\n    {body}\n");
            fault_of(&source, vec![Argument::array(&[-1.0])], 0.0)
        } else {
            fault_of(&source, vec![Argument::array(&[if body.contains("<<") { 0.0 } else { -1.0 }])], 0.0)
        };
        assert_eq!(kinds, kind, "{body}");
    }
}

#[test]
fn a_fault_names_the_variable_that_is_not_assigned() {
    // Another fault has the same place as the read of the variable.
    let source = "
def f(x: int) -> int:
    if x != 0:
        y = 1
    return y << x
";
    for (x, name) in [(0_i64, Some("y")), (-1, None)] {
        let mut arguments = [Argument::array(&[x]), Argument::array(&[0_i64])];
        let fault = whole_fault(source, &python(), &[1], &mut arguments);
        assert_eq!((fault.kind, fault.unassigned.as_deref()), (FaultKind::InvalidValue, name));
        assert_eq!(fault.site.map(|site| (site.line, site.column)), Some((5, 11)));
    }
}

#[test]
fn a_chain_of_comparisons_stops_where_it_fails() {
    let source = "def f(a: int, b: int) -> bool:\n    return 0 < b < 10 // b\n";
    let arguments = vec![Argument::array(&[1_i64, 1]), Argument::array(&[0_i64, 2])];
    assert_eq!(rows(source, arguments, 2, false), [false, true]);
}

#[test]
fn helpers_are_inlined() {
    let source = "
def square(x):
    return x * x

def f(x: float, n: int = 2) -> float:
    return square(x) + square(n) + (0.5 if n % 2 == 0 else 0.0)
";
    let arguments = vec![Argument::array(&[3.0, 1.0]), Argument::array(&[2_i64, 3])];
    assert_eq!(rows(source, arguments, 2, 0.0), [13.5, 10.0]);
}

#[test]
fn a_conditional_expression_can_be_a_tuple() {
    let source = "
def f(x: float, n: int) -> float:
    a, (b, c) = (x, (n, x + 1.0)) if n > 1 else (-x, (n // 3, 0.5))
    return a * 100.0 + b * 10.0 + c
";
    let arguments = vec![Argument::array(&[3.0, 2.0]), Argument::array(&[7_i64, 1])];
    assert_eq!(rows(source, arguments, 2, 0.0), [374.0, -199.5]);
    let source = "def f(x: float) -> float:\n    a, b = (x, 1) if x > 0.0 else (x, 1.0)\n    return a + b\n";
    let message = refused(source, &python()).message;
    assert_eq!(message, "expected values of one type, got (float64, int64) and (float64, float64)");
}

#[test]
fn what_is_unsupported_is_refused() {
    for (body, kind) in [
        ("x = 1\n    x = 2.0\n    return x", ErrorKind::TypeMismatch),
        ("return 1 if x else 'a'", ErrorKind::TypeMismatch),
        ("return x and 1.0", ErrorKind::TypeMismatch),
        ("return (x, 1) if x > 0.0 else (x, 1.0)", ErrorKind::TypeMismatch),
        ("return (x, x) if x > 0.0 else (x, x, x)", ErrorKind::TypeMismatch),
        ("return sum([x])", ErrorKind::UnsupportedExpression),
        ("return open(x)", ErrorKind::UnsupportedBuiltin),
        ("return unknown", ErrorKind::UnknownName),
        ("return 99999999999999999999 + x", ErrorKind::ConstantOutOfRange),
    ] {
        let source = format!("def f(x: float) -> float:\n    {body}\n");
        assert_eq!(refused(&source, &python()).kind, kind, "{body}");
    }
}

#[test]
fn a_source_without_a_kernel_is_refused_with_the_reason() {
    let reasons = [
        ("def f(x: float, y) -> float:\n    return x\n", (1, "parameter `y` of `f` has no annotation")),
        ("class C:\n    def f(self: int) -> int:\n        return 1\n", (2, "`f` is a method")),
        (
            "import a\n\n@a.jit\ndef f(x: float) -> float:\n    return x\n",
            (4, "`f` has a decorator, which may change what it does"),
        ),
    ];
    for (source, (line, reason)) in reasons {
        let error = refused(source, &python());
        let expected = (ErrorKind::NoKernel, line, format!("expected a kernel, got none: {reason}"));
        assert_eq!((error.kind, error.line, error.message), expected);
    }
    let named = refused("x = 1\n", &Options { entry: Some("f"), ..python() });
    assert_eq!(named.message, "expected a kernel named `f`, got none");
}
