//! Any source is lowered to kernels that are well formed, or refused: never a panic.

use accelerd_lower::{Dialect, ErrorKind, Options, lower_each};
use proptest::prelude::*;

/// Fragments of statements, chosen so that many sequences are valid.
#[rustfmt::skip]
const LINES: &[&str] = &[
    "x = 1", "y = 2.0", "z = x", "x = x + 1", "y += float(x)", "v = wp.vec3(1.0, y, 2.0)", "v[0] = y", "v[x] = 1.0", "v.y += y",
    "m = wp.mat22(1.0, 2.0, 3.0, y)", "m[x, 0] = y", "m[x] = wp.vec2(y)", "w = m[0]", "v = wp.cross(v, v)", "y = wp.dot(v, v)", "out[i] = y",
    "out[x] += 1.0", "i = wp.tid()", "i, j = wp.tid()", "if x > 1:", "elif y < 2.0:", "else:", "for i in range(x):",
    "for k in range(3, 0, -1):", "while x < 3:", "break", "continue", "return", "pass", "s = S()", "s.a = y", "s.b[1] = y", "q = S",
    "y = f(y)", "y = f(x)", "a, b = g(x)", "a, b = b, a", "b = a[0]", "row = grid[x]", "row[1] = y", "grid[0, 1] -= y",
    "x = wp.atomic_add(counts, 0, 1)", "assert x > 0", "y = y if x else 1.0", "x = y and x", "c = 0 < x < 3 or not c", "x = 99999999999",
    "y = -y ** 2.0", "x = x // 0 % 3 << 40", "u = wp.uint8(300)", "y = wp.float64(y)", "y = wp.min(y, 1.0)", "y = wp.nothing()", "x: int = 3",
    "q = wp.quat_identity()", "v = wp.quat_rotate(q, v)", "x = len(out)", "x = out.shape[0]", "v = v[0:2]", "t = (x, y)", "x = t[0]", "x = t[x]",
    "fn = f", "fn = wp.sqrt", "y = fn(y)", "y = apply(fn, y)", "h(y)", "h(v.y)", "h(out[x])", "h(row[1])", "h(s.b[x])", "row = grid[x:, 0]", "row = grid[0, ::x]",
    "row = row[1:x]", "grid[1:][0, x] = y", "for k in reversed(range(x, 5, x)):", "v = wp.vec3(*v)", "a, b = g(*t)", "v = wp.vec3(*row)",
    "y = wp.randn(r)", "x = int(wp.poisson(r, y))", "q = wp.quat_from_euler(v, x, 1, 2)", "x = out[-1]",
    "for x in range(2):", "for y in range(x):", "for v in reversed(range(i)):", "x = out.dtype(2)", "y = v.dtype(x)", "y = type(row).dtype(x)",
    "x = grid.shape[2]", "wp.printf('a', x)", "print(v)", "v = v5(1.0)", "x = 2.5", "x = v", "y = wp.acos(y)", "e(y)", "out[x] = grid[x - 1, i]",
    "del x", "x = wp.rand_init(3)", "r = wp.rand_init(3)", "y = wp.randf(r)", "x = [1]", "x = 'a'", "x = None", "v = -v * 2.0 / y",
    "b = wp.tile(y)", "b = wp.tile_zeros((2, 3))", "b = wp.tile_load(grid, (2, 3), (x, 1))", "b[x, 1] = y", "y = b[0]", "y = wp.tile_sum(b)[0]",
    "b = wp.tile_map(f, b) * y", "b += wp.tile(v)", "b = wp.tile(v)", "wp.tile_store(grid[x:], b, (x, 0))", "v = wp.untile(b)", "y = apply(f, b)",
];

/// Fragments of snippets of C++.
#[rustfmt::skip]
const FRAGMENTS: &[&str] = &[
    "x", "y", "a", "v", "p", "int ", "float ", "unsigned long long ", "auto ", "bool b", "= ", "+= ", "- ", "++", "--", "* ", "&", "&& ", "|| ", "? ", ": ",
    "(", ")", "[", "]", "{", "}", ";", ",", ".x", ".data", ".shape[0]", ".c[1]", "1", "0x80000000", "2.5f", "1e-3", "return ", "if (", "else ", "while (",
    "for (int i = 0; i < 3; i++) ", "break;", "continue;", "(int)", "(float*)", "reinterpret_cast<uint32_t&>(x)", "reinterpret_cast<int*>(", "sqrtf(",
    "nextafter(", "__popc(", "__clz(", "__ffs(", "min(", "wp::dot(", "wp::address(a, ", "atomicAdd(", "memcpy(&", "sizeof(x)", "__syncthreads()", "<< ", ">> ",
    "< ", "== ", "% ", "~", "!", "union { float f; int i; } u;", "u.f", "\n#ifdef __CUDA_ARCH__\n", "\n#else\n", "\n#endif\n", "// c\n", "/*", "*/", "#", "é",
    "x = x + 1;", "y = y * 2.0f;", "a.data[x] = y;", "return y;", "return x;", "v[0] = y;", "if (x > 1) return y;", "float z = y;", "p += x;",
];

const HEADER: &str = "
import warp as wp

@wp.struct
class S:
    a: float
    b: wp.vec2

@wp.func
def f(x: float):
    if x > 0.0:
        return x
    return -x

@wp.func
def g(x: int):
    return x, float(x)

@wp.func
def h(x: wp.ref[wp.float32]):
    x += 1.0

class v5(wp.types.vector(length=5, dtype=float)):
    pass

@wp.func
def e(x: float):
    if x > 0.0:
        return
    x = 1

@wp.func
def apply(fn: wp.Function, x: float):
    return fn(x)

@wp.kernel
def k(out: wp.array(dtype=float), grid: wp.array2d(dtype=float), counts: wp.array(dtype=int), c: bool):
";

fn check(source: &str, dialect: Dialect) {
    let options = Options { dialect, ..Options::default() };
    for outcome in lower_each(source, &options).unwrap_or_default() {
        match outcome.kernel {
            Ok(lowered) => assert_eq!(lowered.kernel.check(), Ok(()), "{source}"),
            Err(error) => assert_ne!(error.kind, ErrorKind::InvalidKernel, "{error}\n{source}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_snippet_is_lowered_or_refused(fragments in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..25)) {
        let snippet = fragments.concat();
        let parameters = "x: int, y: float, a: wp.array(dtype=float), v: wp.vec3, p: wp.ref[int]";
        let native = format!("\n@wp.func_native({snippet:?})\ndef n({parameters}) -> float: ...\n\n@wp.kernel\ndef k(");
        let source = HEADER.replace("\n@wp.kernel\ndef k(", &native);
        let body = "    r = int(1)\n    while r < 9:\n        out[0] = n(r, out[1], out, wp.vec3(), r)\n        r += 1\n";
        check(&format!("{source}{body}"), Dialect::Warp);
    }

    #[test]
    fn any_statements_are_lowered_or_refused(lines in prop::collection::vec((prop::sample::select(LINES), 0..3_usize), 1..30)) {
        // A line is indented at most one level below the line before, if that has a body.
        let mut body = String::new();
        let mut level = 0_usize;
        let mut opens = false;
        for (line, less) in lines {
            level = if opens { level + 1 } else { level.saturating_sub(less) };
            let indent = "    ".repeat(level + 1);
            body.extend([indent.as_str(), line, "\n"]);
            opens = line.ends_with(':');
        }
        if opens {
            body.extend(["    ".repeat(level + 2).as_str(), "pass\n"]);
        }
        check(&format!("{HEADER}{body}"), Dialect::Warp);
        check(&format!("def f(x: int, y: float, out: list[float], c: bool) -> float:\n{body}    return y\n"), Dialect::Python);
    }

    #[test]
    fn any_text_is_lowered_or_refused(source in "(import warp as wp\n)?(@wp\\.kernel\n)?(def f\\(x: (int|float|wp\\.array)\\):\n    )?[a-z0-9 .,:=()+*\\[\\]\n-]{0,80}") {
        check(&source, Dialect::Warp);
        check(&source, Dialect::Python);
    }
}
