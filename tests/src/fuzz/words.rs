//! Replacements for texts of requests: words that their fields understand, and words that no field should.

use std::sync::OnceLock;

use accelerd_tensor::signatures;

/// Words for any text.
const ANY: [&str; 16] = [
    "",
    "x",
    "y",
    "float32",
    "cpu",
    "cuda",
    "cuda:7",
    "sm_90",
    "0",
    "-1",
    "a\u{1b}[31m\nb",
    "\u{e9}\u{4e2d}\u{1f600}\u{202e}",
    "../../etc/passwd",
    "\0",
    "{\"a\": [1, null]}",
    "((((((((",
];

/// Names of attributes of operations.
const ATTRIBUTES: [&str; 32] = [
    "alpha",
    "approximate",
    "beta",
    "bins",
    "correction",
    "dim",
    "dims",
    "dilation",
    "dtype",
    "end",
    "eps",
    "groups",
    "index",
    "k",
    "keepdim",
    "kernel_size",
    "largest",
    "num_classes",
    "ord",
    "other",
    "padding",
    "reduction",
    "repeats",
    "seed",
    "shape",
    "sizes",
    "sorted",
    "start",
    "step",
    "stride",
    "transpose_b",
    "value",
];

/// Names of operations of other libraries.
const FOREIGN_OPS: [&str; 6] = ["attention", "chunk", "einsum", "repeat", "scatter", "split"];

/// Parts of programs in Python and CUDA C++.
const SOURCE: [&str; 40] = [
    "(",
    "x < ",
    "1 + ",
    "-",
    "not ",
    " and x",
    " if x else ",
    "[0]",
    ".x",
    "(x, x)",
    "y = ",
    "lambda x: ",
    "while True:\n        pass\n",
    "for i in range(1 << 40):\n        ",
    "for k in range(3):\n    ",
    "    ",
    "\n    return x\n",
    "\n    x = x + 1\n",
    "    if i > 0:\n        return\n",
    "wp.static(1 + 1)",
    "wp.vec3(1.0, 2.0, 3.0)",
    "wp.mat22(1.0)",
    "wp.tid()",
    "wp.atomic_add(y, i, 1.0)",
    "wp.sin(x)",
    "wp.array(dtype=wp.vec3)",
    "wp.float64",
    "wp.int8(",
    "y[i - 1]",
    "y[1 << 62]",
    "1e400",
    "0x7fffffffffffffffffffffff",
    "x ** -1",
    "x // 0",
    "x % 0",
    "math.floor(x)",
    "len(x)",
    "int",
    "list[float]",
    "@wp.func\ndef g(x: float):\n    return g(x)\n",
];

/// Words for a field of this name.
pub(super) fn words(field: &str) -> &'static [&'static str] {
    static ALL_OPS: OnceLock<Vec<&'static str>> = OnceLock::new();
    match field {
        "op" => ALL_OPS.get_or_init(|| signatures().into_iter().map(|one| one.name).chain(FOREIGN_OPS).collect()),
        "source" => &SOURCE,
        "attributes" => &ATTRIBUTES,
        _ => &ANY,
    }
}
