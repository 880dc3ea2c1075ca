//! Functions of Warp whose bodies are snippets of C++. Results are those of Warp 1.19 on the CPU.

mod common;

use accelerd_ir::kernel::{Argument, FaultKind, Scalar};
use accelerd_lower::{Dialect, ErrorKind};
use common::{fault, options, read, refused, run};

/// A kernel that applies a native function to each element.
fn source(snippet: &str, from: &str, to: &str) -> String {
    format!(
        "
import warp as wp

@wp.func_native('''{snippet}''')
def f(x: wp.{from}) -> wp.{to}: ...

@wp.kernel
def k(x: wp.array(dtype=wp.{from}), out: wp.array(dtype=wp.{to})):
    i = wp.tid()
    out[i] = f(x[i])
"
    )
}

/// The results of a native function.
fn results<A: Scalar, B: Scalar + Default>(snippet: &str, types: [&str; 2], operands: &[A]) -> Vec<B> {
    let grid = [u32::try_from(operands.len()).expect("few")];
    let zeros: Vec<B> = operands.iter().map(|_| B::default()).collect();
    let mut arguments = [Argument::array(operands), Argument::array(&zeros)];
    run(&source(snippet, types[0], types[1]), &grid, &mut arguments);
    read(&arguments[1])
}

fn message(snippet: &str) -> String {
    let error = refused(&source(snippet, "float32", "float32"), &options(Dialect::Warp));
    assert_eq!(error.kind, ErrorKind::UnsupportedExpression, "{error}");
    let message = error.message.strip_prefix("the native snippet of `f`: ");
    message.unwrap_or_else(|| panic!("{error}")).to_owned()
}

const FLOATS: [f32; 8] = [0.0, -0.0, 1.0, -1.5, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, -3.4e38];

#[test]
fn bits_of_floats_order_as_the_floats() {
    let flipped = FLOATS.map(f32::to_bits).map(|bits| if bits >> 31 == 1 { !bits } else { bits | 1 << 31 });
    for snippet in [
        "uint32_t i = reinterpret_cast<uint32_t&>(x); return i ^ ((uint32_t)(-(int)(i >> 31)) | 0x80000000);",
        "unsigned i = *(unsigned*)&x; i ^= static_cast<uint32_t>(-int(i >> 31)) | 1u << 31; return i;",
        "uint32_t i; memcpy(&i, &x, sizeof(i)); return i ^ (i & 0x80000000u ? 0xffffffffu : 0x80000000u);",
        "union { float f; uint32_t u; } b; b.f = x; return b.u ^ ((b.u >> 31 ? ~0u : 0u) | 0x80000000u);",
        "union { float f; int i; } b = {x}; int m = b.i >> 31; return std::bit_cast<uint32_t>(b.i ^ (m | INT_MIN));",
        "const uint32_t i = __float_as_uint(x);
         if (i >> 31) return ~i; else { return i | 0x80000000; }",
        "uint32_t* bits = reinterpret_cast<uint32_t*>(&x); *bits ^= -(*bits >> 31) | 0x80000000u; return *bits;",
    ] {
        assert_eq!(results::<f32, u32>(snippet, ["float32", "uint32"], &FLOATS), flipped, "{snippet}");
    }
    let back = "uint32_t i = x ^ (((x >> 31) - 1) | 0x80000000); return reinterpret_cast<float&>(i);";
    let bits: Vec<_> = results::<u32, f32>(back, ["uint32", "float32"], &flipped).iter().map(|x| x.to_bits()).collect();
    assert_eq!(bits, FLOATS.map(f32::to_bits));
}

#[test]
fn neighbours_are_those_of_the_library() {
    let operands = [0.0_f32, -0.0, 1.0, -1.0, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, -1e-45, 1e-45, 2.0];
    let up = operands.map(f32::next_up).map(f32::to_bits);
    let down = operands.map(f32::next_down).map(f32::to_bits);
    let bits = |snippet| -> Vec<u32> {
        results::<f32, f32>(snippet, ["float32", "float32"], &operands).iter().map(|x| x.to_bits()).collect()
    };
    assert_eq!(
        bits(
            "#if defined(__CUDA_ARCH__)\nreturn nextafterf(x, INFINITY);\n#else\nreturn __builtin_nextafterf(x, INFINITY);\n#endif"
        ),
        up
    );
    assert_eq!(bits("return nextafterf(x, -INFINITY);"), down);
    assert_eq!(bits("return nextafter(x, x);"), operands.map(f32::to_bits));
    assert!(results::<f32, f32>("return nextafterf(x, 1.0f);", ["float32"; 2], &[f32::NAN])[0].is_nan());
    assert!(results::<f32, f32>("return nextafterf(x, NAN);", ["float32"; 2], &[1.0])[0].is_nan());
    let zero = results::<f32, f32>("return nextafterf(x, -0.0f);", ["float32"; 2], &[0.0])[0];
    assert!(zero.is_sign_negative());
    let double = results::<f64, f64>("return nextafter(x, 2.0);", ["float64"; 2], &[1.0, 3.0]);
    assert_eq!(double, [1.0_f64.next_up(), 3.0_f64.next_down()]);
}

#[test]
fn bits_are_counted_and_found() {
    let operands = [0_u64, 1, 0x8000_0000_0000_0000, 0xff00, u64::MAX, 0x1_0000_0000];
    let count = |snippet| results::<u64, i32>(snippet, ["uint64", "int32"], &operands);
    let expected = |f: fn(u64) -> u32| operands.map(|x| i32::try_from(f(x)).expect("small")).to_vec();
    assert_eq!(count("return __builtin_popcountll((unsigned long long)x);"), expected(u64::count_ones));
    assert_eq!(count("return __popc(x);"), expected(|x| (x << 32).count_ones()));
    assert_eq!(count("return x ? __builtin_ctzll(x) : 64;"), expected(u64::trailing_zeros));
    assert_eq!(count("return __clzll((long long)x);"), expected(u64::leading_zeros));
    assert_eq!(count("return __clz((int)x);"), expected(|x| (x << 32 | 0xffff_ffff).leading_zeros()));
    let first = expected(|x| if x == 0 { 0 } else { x.trailing_zeros() + 1 });
    assert_eq!(count("return __ffsll((long long)x);"), first);
    assert_eq!(
        count(
            "if (x == 0) return 0; int position = 1; while ((x & 1LL) == 0LL) { x >>= 1; position++; } return position;"
        ),
        first
    );
    let constants = results::<u64, u64>("return 0x7FFFFFFFFFFFFFFFull;", ["uint64"; 2], &[0]);
    assert_eq!(constants, [i64::MAX as u64]);
}

#[test]
fn conversions_are_those_of_c() {
    let one = |snippet: &str, x: i32| results::<i32, i32>(snippet, ["int32"; 2], &[x])[0];
    assert_eq!(one("return -x / 2 * 3 % 5;", 9), -12 % 5);
    assert_eq!(one("return x < 1u ? 1 : 2;", -1), 2);
    assert_eq!(one("unsigned char c = x; c += 1; return c;", 0x1ff), 0);
    assert_eq!(one("short s = (short)x; return s >> 1;", 0x1_8000), -0x4000);
    assert_eq!(one("return (int)(x * 0.5f) + (x == 7) + !x;", 7), 4);
    assert_eq!(one("return (1 << x) - 1;", 5), 31);
    assert_eq!(one("return (int64_t(x) << 33) >> 32;", 3), 6);
    assert_eq!(one("bool b = x; return b + b;", 8), 2);
    assert_eq!(one("return x ? 1.75 : 2;", 1), 1);
    assert_eq!(one("long long y = x; return (int)(y * y >> 4);", 1 << 20), 0);
    assert_eq!(one("auto y = x, z = y; y--; return z - --y;", 1), 2);
    let halves = results::<f32, f32>("return 1.0f / sqrtf(x) + fabsf(-x) + max(x, 2.0f);", ["float32"; 2], &[4.0]);
    assert_eq!(halves, [8.5]);
    assert_eq!(results::<f32, f32>("return -x;", ["float32"; 2], &[0.0])[0].to_bits(), 1 << 31);
}

#[test]
fn control_flow_is_that_of_c() {
    let one = |snippet: &str, x: i32| results::<i32, i32>(snippet, ["int32"; 2], &[x])[0];
    let collatz = "int n = 0;
        for (; x != 1; ++n) { if (x % 2 == 0) { x /= 2; continue; } x = 3 * x + 1; if (n > 100) break; }
        return n; /* steps */ ignored";
    assert_eq!(one(collatz, 27), 106);
    assert_eq!(one(collatz, 6), 8);
    assert_eq!(one("int s = 0; for (int i = 0, j = 9; i < j; i++, --j) s += j - i; return s;", 0), 25);
    assert_eq!(one("while (true) { x++; if (x > 5 && x % 3 == 0 || x == 100) return x; }", 1), 6);
    assert_eq!(one("{ int y = x; { int y = 3; x += y; } x += y; } ; return x;", 2), 7);
    assert_eq!(one("#pragma unroll\nfor (int i = 0; i < 4; i++) x += i;\nreturn x; // sum", 0), 6);
    let missing = source("if (x > 0.0f) return x;", "float32", "float32");
    let mut arguments = [Argument::array(&[-1.0_f32]), Argument::array(&[0.0_f32])];
    assert_eq!(fault(&missing, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::InvalidValue);
}

const ARRAYS: &str = "
import warp as wp

snippet = '''
if (value > 0.0f) {
#if defined(__CUDA_ARCH__)
    atomicMax(reinterpret_cast<int*>(wp::address(values, index)), __float_as_int(value));
#else
    float* address = wp::address(values, index);
    if (value > *address)
        *address = value;
#endif
}
'''

@wp.func_native(snippet)
def atomic_max_nonnegative(values: wp.array[float], index: int, value: float):
    ...

@wp.func_native(snippet='''
    const int n = a.shape[0];
    if (n == 0 || i >= n || a.data[i].x < 0.0f) return;
    a.data[i].x += v[1] + v.c[2];
    a[i].y = atomicAdd(&total.data[0], n) + a.shape[1] + a.ndim;
''')
def change(a: wp.array(dtype=wp.vec2), total: wp.array(dtype=int), i: int, v: wp.vec3): ...

@wp.func_native('#if defined(__CUDA_ARCH__)\\n__syncthreads();\\n#endif')
def sync(): ...

@wp.func_native('p = p + 1; WP_TILE_SYNC();')
def increment(p: wp.ref[int]): ...

@wp.kernel
def k(values: wp.array[float], a: wp.array(dtype=wp.vec2), total: wp.array(dtype=int)):
    i = wp.tid()
    sync()
    atomic_max_nonnegative(values, -1 - i, float(i))
    change(a, total, i, wp.vec3(1.0, 2.0, 3.0))
    n = int(6)
    increment(n)
    total[1] = n
";

#[test]
fn elements_of_arrays_are_read_and_written() {
    let mut arguments = [
        Argument::array(&[0.5_f32, 0.5, f32::NAN]),
        common::elements(&[1.0_f32, 0.0, 2.0, 0.0, -1.0, 0.0], 2),
        Argument::array(&[10, 0]),
    ];
    run(ARRAYS, &[3], &mut arguments);
    let values = read::<f32>(&arguments[0]);
    assert_eq!(values[..2], [2.0, 1.0]);
    assert!(values[2].is_nan());
    assert_eq!(read::<f32>(&arguments[1]), [6.0, 11.0, 7.0, 14.0, -1.0, 0.0]);
    assert_eq!(read::<i32>(&arguments[2]), [16, 7]);
}

#[test]
fn an_index_outside_an_array_is_a_fault() {
    let source = source("return x;", "float32", "float32")
        .replace(
            "@wp.func_native",
            "@wp.func_native('return a.data[-1];')\ndef g(a: wp.array[float]) -> float: ...\n@wp.func_native",
        )
        .replace("f(x[i])", "g(x)");
    let mut arguments = [Argument::array(&[1.0_f32]), Argument::array(&[0.0_f32])];
    assert_eq!(fault(&source, &options(Dialect::Warp), &[1], &mut arguments), FaultKind::OutOfBounds);
}

#[test]
fn what_is_unsupported_is_named() {
    for (snippet, expected) in [
        ("return __shfl_xor_sync(0xffffffffu, x, 1, 32);", "unsupported function `__shfl_xor_sync`"),
        ("return threadIdx.x;", "unsupported `threadIdx`"),
        ("__shared__ float values[32]; return x;", "unsupported `__shared__`"),
        ("float values[2]; return x;", "unsupported array `values`"),
        ("auto f = [](float y) { return y; }; return f(x);", "unsupported `[`"),
        ("asm(\"\");", "unsupported character `\\\"`"),
        ("#if __CUDA_ARCH__ >= 700\n#endif", "unsupported directive `#if __CUDA_ARCH__ >= 700`"),
        ("#ifdef __CUDA_ARCH__\nreturn sqrtf(x);\n#endif", "it computes in CUDA only"),
        ("return x", "expected `;`, got `the end`"),
        ("return;", "expected float32 to be returned, as it is annotated"),
        ("double y = x; return reinterpret_cast<float&>(y);", "expected types of equal size, got float64 and float32"),
        ("return reinterpret_cast<uint64_t&>(x);", "expected a type of equal size to reinterpret float32 as uint64"),
        ("return x & 1;", "unsupported operation of float32 and int32"),
        ("return *x;", "expected an address after `*`, got a value"),
        ("1 = x; return x;", "expected a variable or an element before `=`, got a value"),
        ("return wp::unknown(x);", "unsupported function `wp::unknown`"),
        ("switch (1) {}", "unsupported function `switch`"),
        ("break; return x;", "unsupported `break`"),
        ("std::vector<int> v;", "unsupported `std::vector`"),
        ("return 017;", "unsupported `017`"),
        ("union { float f; double d; } u; return u.f;", "expected members of one size in union `u`"),
    ] {
        assert_eq!(message(snippet), expected, "{snippet}");
    }
    let deep = format!("return {}x;", "-".repeat(400));
    assert_eq!(refused(&source(&deep, "float32", "float32"), &options(Dialect::Warp)).kind, ErrorKind::TooDeep);
    let nested = |count: usize| format!("return {}x{};", "(1.0f + ".repeat(count), ")".repeat(count));
    assert_eq!(results::<f32, f32>(&nested(50), ["float32"; 2], &[1.0]), [51.0]);
    assert_eq!(refused(&source(&nested(400), "float32", "float32"), &options(Dialect::Warp)).kind, ErrorKind::TooDeep);
    let long = format!("return x{};", " + x".repeat(2_000));
    assert_eq!(results::<f32, f32>(&long, ["float32"; 2], &[1.0]), [2001.0]);
    let computed = ARRAYS.replace("@wp.func_native(snippet)", "@wp.func_native(snippet + '')");
    let error = refused(&computed, &options(Dialect::Warp));
    assert!(error.message.ends_with("expected a string constant as the snippet"), "{error}");
}
