//! Functions of Python and of its module `math`, with CPython's results and exceptions.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;
use accelerd_ir::scalar::{BinaryOp, MathResult, UnaryOp};

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::Lowerer;
use crate::lowerer::arguments::Arguments;
use crate::python::operators::is_python_number;
use crate::source::environment::shorten;
use crate::source::syntax::Node;
use crate::types::Type;
use crate::values::scalars::{self, literal};
use crate::values::{Data, Value};

const INT: Dtype = Dtype::I64;
const FLOAT: Dtype = Dtype::F64;

impl Lowerer<'_> {
    /// Calls a function of Python or of `math`.
    pub(crate) fn call_python(&mut self, node: Node, callee: Node, arguments: &Arguments) -> Lowered<Value> {
        let syntax = self.syntax();
        let name = match self.path(callee) {
            Some(path) => path,
            None => syntax.name_of(callee).unwrap_or_default(),
        };
        let values = self.values(node, arguments)?;
        if let ("len", [Value::Array(view)]) = (name.as_str(), &values[..]) {
            return Ok(Data::scalar(INT, scalars::cast(Dtype::I32, INT, view.extent(0))).into());
        }
        if !is_known(&name) {
            let message = format!("unsupported function `{}`", shorten(&syntax.text(callee)));
            return Err(self.error(node, ErrorKind::UnsupportedBuiltin, message));
        }
        let got: Vec<_> = values.iter().map(ToString::to_string).collect();
        let numbers: Option<Vec<_>> = values
            .into_iter()
            .map(|value| match value {
                Value::Data(data) if is_python_number(&data.ty) => Some(self.bind(data)),
                _ => None,
            })
            .collect();
        let result = numbers.and_then(|numbers| self.python_function(node, &name, &numbers));
        result.map(Value::Data).ok_or_else(|| {
            let message = format!("`{name}` does not take ({})", got.join(", "));
            self.error(node, ErrorKind::ArgumentMismatch, message)
        })
    }

    /// The result of a function of numbers, whose parts are cheap; `None` if it does not take them.
    fn python_function(&mut self, node: Node, name: &str, numbers: &[Data]) -> Option<Data> {
        if let Some(function) = name.strip_prefix("math.") {
            return self.math_function(node, function, numbers);
        }
        let first = numbers.first()?;
        let (dtype, x) = first.as_scalar()?;
        let x = x.clone();
        match (name, numbers.len()) {
            ("float", 1) => Some(Data::scalar(FLOAT, scalars::cast(dtype, FLOAT, x))),
            ("bool", 1) => Some(Data::scalar(Dtype::Bool, scalars::truthy(dtype, x))),
            ("int" | "round", 1) if dtype != FLOAT => Some(Data::scalar(INT, scalars::cast(dtype, INT, x))),
            ("int", 1) => Some(self.rounded(node, UnaryOp::Trunc, x)),
            ("round", 1) => Some(self.rounded(node, UnaryOp::Round, x)),
            ("abs", 1) if dtype == FLOAT => Some(Data::scalar(FLOAT, scalars::unary(UnaryOp::Abs, FLOAT, x))),
            ("abs", 1) => Some(Data::scalar(INT, self.integer_abs(node, scalars::cast(dtype, INT, x)))),
            ("min" | "max", 2..) if numbers.iter().all(|number| number.ty == first.ty) => {
                // As Python compares: an operand replaces the best before only if it is strictly better.
                let best = numbers[1..].iter().fold(x, |best, number| {
                    let next = number.parts[0].clone();
                    let is_better = match name {
                        "min" => scalars::lt(dtype, next.clone(), best.clone()),
                        _ => scalars::lt(dtype, best.clone(), next.clone()),
                    };
                    let best = scalars::select(is_better, next, best);
                    self.emitter.bind(dtype, best)
                });
                Some(Data::scalar(dtype, best))
            }
            _ => None,
        }
    }

    fn rounded(&mut self, node: Node, op: UnaryOp, x: Expr) -> Data {
        Data::scalar(INT, self.whole_number(node, scalars::unary(op, FLOAT, x)))
    }

    fn math_function(&mut self, node: Node, name: &str, numbers: &[Data]) -> Option<Data> {
        let floats: Vec<_> = numbers
            .iter()
            .filter_map(|number| number.as_scalar().map(|(dtype, x)| scalars::cast(dtype, FLOAT, x.clone())))
            .collect();
        match &floats[..] {
            [x] => self.math_of_one(node, name, &numbers[0], x),
            [x, y] => self.math_of_two(node, name, x, y),
            _ => None,
        }
    }

    fn math_of_one(&mut self, node: Node, name: &str, number: &Data, x: &Expr) -> Option<Data> {
        match name {
            "isfinite" => {
                let test = |op| scalars::test(op, FLOAT, x.clone());
                let is_finite = scalars::not(scalars::or(test(UnaryOp::IsNan), test(UnaryOp::IsInf)));
                return Some(Data::scalar(Dtype::Bool, is_finite));
            }
            "degrees" => return Some(scaled(x, 180.0 / std::f64::consts::PI)),
            "radians" => return Some(scaled(x, std::f64::consts::PI / 180.0)),
            _ => {}
        }
        let (op, returned) = UnaryOp::of_python(name)?;
        match returned {
            MathResult::Value => Some(Data::scalar(op.result(FLOAT)?, scalars::test(op, FLOAT, x.clone()))),
            MathResult::Integer if number.ty == Type::F64 => Some(self.rounded(node, op, x.clone())),
            MathResult::Integer => {
                let (dtype, part) = number.as_scalar()?;
                Some(Data::scalar(INT, scalars::cast(dtype, INT, part.clone())))
            }
            MathResult::Checked => {
                let x = self.emitter.bind(FLOAT, x.clone());
                let result = self.emitter.temp(FLOAT, scalars::unary(op, FLOAT, x.clone()));
                self.refuse_exceptional(node, &result, &[x]);
                Some(Data::scalar(FLOAT, result))
            }
        }
    }

    fn math_of_two(&mut self, node: Node, name: &str, x: &Expr, y: &Expr) -> Option<Data> {
        let x = self.emitter.bind(FLOAT, x.clone());
        let y = self.emitter.bind(FLOAT, y.clone());
        if name == "pow" {
            return Some(Data::scalar(FLOAT, self.float_power(node, x, y, false)));
        }
        let (op, returned) = BinaryOp::of_python(name)?;
        let result = self.emitter.temp(FLOAT, scalars::binary(op, FLOAT, x.clone(), y.clone()));
        if returned == MathResult::Checked {
            self.refuse_exceptional(node, &result, &[x, y]);
        }
        Some(Data::scalar(FLOAT, result))
    }
}

fn scaled(x: &Expr, factor: f64) -> Data {
    Data::scalar(FLOAT, scalars::mul(FLOAT, x.clone(), literal(FLOAT, factor)))
}

fn is_known(name: &str) -> bool {
    match name.strip_prefix("math.") {
        Some(name) => {
            let is_operation = UnaryOp::of_python(name).is_some() || BinaryOp::of_python(name).is_some();
            is_operation || COMPOSITES.contains(&name)
        }
        None => matches!(name, "abs" | "bool" | "float" | "int" | "len" | "max" | "min" | "round"),
    }
}

/// Functions of `math` that are no operation of the table in `accelerd-ir`.
const COMPOSITES: [&str; 4] = ["degrees", "isfinite", "pow", "radians"];
