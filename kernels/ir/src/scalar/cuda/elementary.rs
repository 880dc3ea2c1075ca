//! Elementary functions as functions of CUDA C++.

use std::{fmt::Write as _, sync::LazyLock};

use super::literal;
use crate::Dtype;
use crate::scalar::Literal;
use crate::scalar::elementary::{
    Arithmetic, Reduction, SMALL_ANGLE, WideArithmetic, binary, large_angle, reduce_large, reduce_small, unary,
};
use crate::scalar::math::MathOp;

/// The definition of each function, by its name.
static DEFINITIONS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let functions = MathOp::all().map(|op| (function(op), definition(op)));
    [(LARGE_ANGLE.to_owned(), large_angle_function())].into_iter().chain(functions).collect()
});

const LARGE_ANGLE: &str = "large_angle";

/// The functions of elementary operations of f32 that a text calls, by the names of [`function`]. They stand after the prelude, and may
/// stand in a translation unit several times.
pub(crate) fn used_by(text: &str) -> String {
    let is_called = |by: &str, name: &str| by.contains(&format!("{name}("));
    let used: Vec<_> = DEFINITIONS.iter().filter(|(name, _)| is_called(text, &format!("ir::{name}"))).collect();
    let calls_large_angle = used.iter().any(|(_, definition)| is_called(definition, LARGE_ANGLE));
    let large_angle = DEFINITIONS.first().filter(|_| calls_large_angle);
    let guarded = |(name, definition): &(String, String)| {
        let guard = format!("IR_{}", name.to_uppercase());
        format!("#ifndef {guard}\n#define {guard}\nnamespace ir {{\n{definition}}}\n#endif\n\n")
    };
    large_angle.into_iter().chain(used).map(guarded).collect()
}

/// The name of the function of an operation, in the namespace.
pub(crate) fn function(op: MathOp) -> String {
    format!("{}_f32", op.name())
}

fn definition(op: MathOp) -> String {
    let mut body = Body::default();
    let (params, result) = match op {
        MathOp::Unary(op) => {
            let x = body.named("double", "x");
            ("float x", unary(&mut body, op, x))
        }
        MathOp::Binary(op) => {
            let (x, y) = (body.named("double", "x"), body.named("double", "y"));
            ("float x, float y", binary(&mut body, op, x, y))
        }
    };
    let result = body.values[result].clone();
    let name = function(op);
    format!("static __device__ float {name}({params}) {{\n{}    return (float){result};\n}}\n", body.text)
}

/// Rarely called, and so not in line.
fn large_angle_function() -> String {
    let mut body = Body { values: vec!["x".to_owned()], ..Body::default() };
    let angle = large_angle(&mut body, 0);
    let (text, angle) = (body.text, &body.values[angle]);
    format!("static __device__ __noinline__ i64 large_angle(double x) {{\n{text}    return {angle};\n}}\n")
}

/// Statements of which each computes a value. A value is its position in the list of their texts.
#[derive(Default)]
struct Body {
    text: String,
    values: Vec<String>,
}

impl Body {
    fn push(&mut self, value: String) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    /// An operand as a variable of a type.
    fn named(&mut self, ty: &str, operand: &str) -> usize {
        self.define(ty, &format!("({ty}){operand}"))
    }

    fn define(&mut self, ty: &str, value: &str) -> usize {
        let name = format!("v{}", self.values.len());
        writeln!(self.text, "    const {ty} {name} = {value};").expect("a string grows");
        self.push(name)
    }

    fn number_of(&mut self, value: &str) -> usize {
        self.define("double", value)
    }

    fn integer_of(&mut self, value: &str) -> usize {
        self.define("i64", value)
    }

    fn infix(&mut self, ty: &str, x: usize, op: &str, y: usize) -> usize {
        let value = format!("{} {op} {}", self.values[x], self.values[y]);
        self.define(ty, &value)
    }

    fn call(&mut self, name: &str, operands: &[usize]) -> usize {
        let operands: Vec<_> = operands.iter().map(|operand| self.values[*operand].as_str()).collect();
        let value = format!("{name}({})", operands.join(", "));
        self.number_of(&value)
    }

    /// Statements that assign `rest` and `turns`.
    fn branch(&self, reduce: impl FnOnce(&mut Self) -> (usize, usize)) -> String {
        let mut branch = Self { text: String::new(), values: self.values.clone() };
        let (rest, turns) = reduce(&mut branch);
        let Self { text, values } = branch;
        format!("{text}    rest = {};\n    turns = {};\n", values[rest], values[turns])
    }

    /// Wraps.
    fn wrapping(&mut self, i: usize, op: &str, j: usize) -> usize {
        let value = format!("(i64)((u64){} {op} (u64){})", self.values[i], self.values[j]);
        self.integer_of(&value)
    }

    fn shift(&mut self, i: usize, op: &str, by: u32) -> usize {
        let value = format!("(i64)((u64){} {op} {by})", self.values[i]);
        self.integer_of(&value)
    }

    fn shift_by(&mut self, i: usize, op: &str, by: usize) -> usize {
        let [i, by] = [i, by].map(|value| self.values[value].clone());
        self.integer_of(&format!("(u64){by} < 64 ? (i64)((u64){i} {op} {by}) : 0"))
    }

    fn either(&mut self, ty: &str, condition: usize, x: usize, y: usize) -> usize {
        let [condition, x, y] = [condition, x, y].map(|value| self.values[value].clone());
        self.define(ty, &format!("{condition} ? {x} : {y}"))
    }
}

impl Arithmetic for Body {
    type F = usize;
    type I = usize;
    type B = usize;

    fn number(&mut self, x: f64) -> usize {
        let text = literal(Literal::from_f64(Dtype::F64, x));
        self.push(text)
    }

    fn integer(&mut self, i: i64) -> usize {
        let text = literal(Literal::from_i64(Dtype::I64, i));
        self.push(text)
    }

    fn add(&mut self, x: usize, y: usize) -> usize {
        self.infix("double", x, "+", y)
    }

    fn sub(&mut self, x: usize, y: usize) -> usize {
        self.infix("double", x, "-", y)
    }

    fn mul(&mut self, x: usize, y: usize) -> usize {
        self.infix("double", x, "*", y)
    }

    fn div(&mut self, x: usize, y: usize) -> usize {
        self.infix("double", x, "/", y)
    }

    fn sqrt(&mut self, x: usize) -> usize {
        self.call("sqrt", &[x])
    }

    fn abs(&mut self, x: usize) -> usize {
        self.call("fabs", &[x])
    }

    fn trunc(&mut self, x: usize) -> usize {
        self.call("trunc", &[x])
    }

    fn copysign(&mut self, x: usize, sign: usize) -> usize {
        self.call("copysign", &[x, sign])
    }

    fn lt(&mut self, x: usize, y: usize) -> usize {
        self.infix("bool", x, "<", y)
    }

    fn eq(&mut self, x: usize, y: usize) -> usize {
        self.infix("bool", x, "==", y)
    }

    fn and(&mut self, a: usize, b: usize) -> usize {
        self.infix("bool", a, "&&", b)
    }

    fn select(&mut self, condition: usize, x: usize, y: usize) -> usize {
        self.either("double", condition, x, y)
    }

    fn bits(&mut self, x: usize) -> usize {
        let value = format!("__double_as_longlong({})", self.values[x]);
        self.integer_of(&value)
    }

    fn reinterpret(&mut self, bits: usize) -> usize {
        self.call("__longlong_as_double", &[bits])
    }

    fn add_integers(&mut self, i: usize, j: usize) -> usize {
        self.wrapping(i, "+", j)
    }

    fn sub_integers(&mut self, i: usize, j: usize) -> usize {
        self.wrapping(i, "-", j)
    }

    fn xor_integers(&mut self, i: usize, j: usize) -> usize {
        self.infix("i64", i, "^", j)
    }

    fn shift_left(&mut self, i: usize, by: u32) -> usize {
        self.shift(i, "<<", by)
    }

    fn shift_right(&mut self, i: usize, by: u32) -> usize {
        self.shift(i, ">>", by)
    }

    fn has_bit(&mut self, i: usize, bit: u32) -> usize {
        let value = format!("({} >> {bit} & 1) != 0", self.values[i]);
        self.define("bool", &value)
    }

    fn reduce(&mut self, x: usize, reduction: Reduction) -> (usize, usize) {
        let small = self.branch(|body| reduce_small(body, x, reduction));
        let large = self.branch(|body| reduce_large(body, x, reduction));
        let x = &self.values[x];
        write!(
            self.text,
            "    double rest;\n    i64 turns;\n    if (fabs({x}) <= {SMALL_ANGLE:?}) {{\n{small}    }} else {{\n{large}    }}\n"
        )
        .expect("a string grows");
        (self.push("rest".to_owned()), self.push("turns".to_owned()))
    }
}

impl WideArithmetic for Body {
    fn mul_integers(&mut self, i: usize, j: usize) -> usize {
        self.wrapping(i, "*", j)
    }

    fn or_integers(&mut self, i: usize, j: usize) -> usize {
        self.infix("i64", i, "|", j)
    }

    fn shift_left_by(&mut self, i: usize, by: usize) -> usize {
        self.shift_by(i, "<<", by)
    }

    fn shift_right_by(&mut self, i: usize, by: usize) -> usize {
        self.shift_by(i, ">>", by)
    }

    fn select_integer(&mut self, condition: usize, i: usize, j: usize) -> usize {
        self.either("i64", condition, i, j)
    }

    fn lt_integers(&mut self, i: usize, j: usize) -> usize {
        self.infix("bool", i, "<", j)
    }

    fn to_number(&mut self, i: usize) -> usize {
        let value = format!("(double){}", self.values[i]);
        self.number_of(&value)
    }

    fn large_angle(&mut self, x: usize) -> usize {
        let value = format!("large_angle({})", self.values[x]);
        self.integer_of(&value)
    }
}
