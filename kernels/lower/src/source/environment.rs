//! Values of names outside functions: Python constants.
//!
//! Constants are evaluated as Python evaluates them when the module runs, before any kernel is built: `7 / 2` is 3.5.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::rc::Rc;

use accelerd_parser::{Field, Kind, Operator};

use crate::options::{Captured, Options};
use crate::source::counters::SignedStores;
use crate::source::declarations::{Assigned, Declarations, Scope};
use crate::source::syntax::{Constant, Node, Syntax};

/// A constant of Python.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
    Bool(bool),
}

/// Nesting of constants and types that refer to others.
pub(crate) const MAX_DEPTH: u32 = 64;

/// Elements of a list in the source: values of a tuple, targets of an assignment, arguments of a call.
pub(crate) const MAX_ITEMS: usize = 1024;

/// The source and facts derived from it.
pub(crate) struct Environment<'a> {
    pub(crate) syntax: &'a Syntax<'a>,
    pub(crate) declarations: &'a Declarations,
    pub(crate) options: &'a Options<'a>,
    /// Cached values of assignments: names that refer to others twice would otherwise double the work each time.
    pub(crate) numbers: RefCell<HashMap<Node, Number>>,
    /// The statements that overload each kernel, once they are asked for.
    pub(crate) overloads: OnceCell<HashMap<Node, Vec<Node>>>,
    /// The variables of which each function may change a part, once they are asked for.
    pub(crate) mutated: RefCell<HashMap<Node, Rc<HashSet<String>>>>,
    /// The variables of each function that statements may make negative, once they are asked for.
    pub(crate) signed: RefCell<HashMap<Node, Rc<SignedStores>>>,
    /// Called while a kernel is lowered; a break ends the lowering.
    pub(crate) checkpoint: &'a dyn Fn() -> ControlFlow<()>,
}

impl Environment<'_> {
    /// A captured name.
    pub(crate) fn captured(&self, name: &str) -> Option<Captured> {
        self.options.constants.get(name).copied()
    }

    /// The value of an expression outside functions, if it is a number.
    pub(crate) fn number(&self, node: Node, scope: Scope) -> Option<Number> {
        self.number_at(node, scope, 0)
    }

    pub(crate) fn number_at(&self, node: Node, scope: Scope, depth: u32) -> Option<Number> {
        if depth > MAX_DEPTH {
            return None;
        }
        let syntax = self.syntax;
        let at = |node| self.number_at(node, scope, depth + 1);
        match syntax.kind(node) {
            Kind::Constant => match syntax.constant(node) {
                Constant::Int(value) => Some(Number::Int(value)),
                Constant::Float(value) => Some(Number::Float(value)),
                Constant::Bool(value) => Some(Number::Bool(value)),
                Constant::Str(_) | Constant::None | Constant::Other => None,
            },
            Kind::Name => self.named_number(&syntax.name(node)?, scope, depth),
            Kind::Attribute => match self.declarations.path(syntax, node) {
                Some(path) => named_constant(&path).or_else(|| self.type_size(node, scope, depth)),
                None => self
                    .class_number(node, scope, depth)
                    .or_else(|| self.machine_number(node))
                    .or_else(|| self.type_size(node, scope, depth)),
            },
            Kind::UnaryOp => unary(syntax.operator(node), at(syntax.required(node, Field::Operand))?),
            Kind::BinOp => {
                let [left, right] = [Field::Left, Field::Right].map(|field| syntax.required(node, field));
                binary(syntax.operator(node), at(left)?, at(right)?)
            }
            Kind::Call => {
                let mut arguments = syntax.children(node, Field::Args);
                let argument = arguments.next()?;
                let is_plain = arguments.next().is_none() && syntax.child(node, Field::Keywords).is_none();
                let callee = syntax.required(node, Field::Func);
                let path = self.declarations.path(syntax, callee);
                let own = syntax.name_of(callee).filter(|name| is_plain && self.is_of_python(scope, name));
                match path.as_deref().or(own.as_deref())? {
                    "warp.constant" if is_plain => at(argument),
                    "float" | "numpy.float64" if is_plain => at(argument)?.as_f64().map(Number::Float),
                    "int" => at(argument)?.truncated(),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn assigned_number(&self, value: Node, scope: Scope, depth: u32) -> Option<Number> {
        let known = self.numbers.borrow().get(&value).copied();
        known.or_else(|| {
            let number = self.number_at(value, scope, depth + 1)?;
            self.numbers.borrow_mut().insert(value, number);
            Some(number)
        })
    }

    /// The number that a class assigns to an attribute, such as a member of an enumeration.
    fn class_number(&self, node: Node, scope: Scope, depth: u32) -> Option<Number> {
        let syntax = self.syntax;
        let name = syntax.name_of(syntax.required(node, Field::Value))?;
        let class = self.declarations.class_named(syntax, scope, &name).filter(|class| !class.is_ambiguous)?;
        let attribute = syntax.name(node)?;
        match self.declarations.assigned_in(Some(class.node), &attribute)? {
            Assigned::Once(value) => self.assigned_number(value, Some(class.node), depth),
            Assigned::Ambiguous => None,
        }
    }

    /// Returns true if a name stands for what it does in Python itself.
    pub(crate) fn is_of_python(&self, scope: Scope, name: &str) -> bool {
        let syntax = self.syntax;
        let declarations = self.declarations;
        let is_assigned = declarations.assigned(syntax, scope, name).is_some() || self.captured(name).is_some();
        let is_defined = declarations.class_named(syntax, scope, name).is_some()
            || !declarations.indices_named(syntax, scope, name).is_empty();
        !is_assigned && !is_defined
    }

    /// The limit of a type, as of `numpy.finfo(numpy.float32).eps` and `numpy.iinfo(numpy.int32).max`.
    fn machine_number(&self, node: Node) -> Option<Number> {
        let syntax = self.syntax;
        let call = syntax.required(node, Field::Value);
        if syntax.kind(call) != Kind::Call || syntax.child(call, Field::Keywords).is_some() {
            return None;
        }
        let function = self.declarations.path(syntax, syntax.required(call, Field::Func))?;
        let ty = syntax.child(call, Field::Args)?;
        let path = match syntax.constant_of(ty) {
            Some(Constant::Str(name)) => name,
            _ => self.declarations.path(syntax, ty).or_else(|| syntax.name_of(ty))?,
        };
        machine_limit(&function, path.strip_prefix("numpy.").unwrap_or(&path), &syntax.name(node)?)
    }

    fn named_number(&self, name: &str, scope: Scope, depth: u32) -> Option<Number> {
        match self.captured(name) {
            Some(Captured::Int(value)) => return Some(Number::Int(value.into())),
            Some(Captured::Float(value)) => return Some(Number::Float(value)),
            Some(Captured::Bool(value)) => return Some(Number::Bool(value)),
            Some(Captured::Type(_)) => return None,
            None => {}
        }
        match self.declarations.assigned(self.syntax, scope, name) {
            Some((scope, Assigned::Once(value))) => self.assigned_number(value, scope, depth),
            Some((_, Assigned::Ambiguous)) => None,
            None => self.declarations.imported(name).and_then(|path| named_constant(&path)),
        }
    }
}

/// A limit of a scalar type of NumPy or Python, by the function that has it.
fn machine_limit(function: &str, ty: &str, name: &str) -> Option<Number> {
    let float = |eps, least, max| {
        Some(Number::Float(match name {
            "eps" => eps,
            "tiny" | "smallest_normal" => least,
            "max" => max,
            "min" => -max,
            _ => return None,
        }))
    };
    match (function, ty) {
        ("numpy.finfo", "float64" | "float" | "double") => float(f64::EPSILON, f64::MIN_POSITIVE, f64::MAX),
        ("numpy.finfo", "float32" | "single") => float(f32::EPSILON.into(), f32::MIN_POSITIVE.into(), f32::MAX.into()),
        ("numpy.finfo", "float16" | "half") => float(9.765_625e-4, 6.103_515_625e-5, 65504.0),
        ("numpy.iinfo", _) => {
            let (is_signed, bits) = match ty.strip_prefix("uint") {
                Some(bits) => (false, bits),
                None => (true, if ty == "int" { "64" } else { ty.strip_prefix("int")? }),
            };
            let bits = bits.parse::<u32>().ok().filter(|bits| matches!(bits, 8 | 16 | 32 | 64))?;
            let end = 1_i128 << (bits - u32::from(is_signed));
            match name {
                "max" => Some(Number::Int(end - 1)),
                "min" => Some(Number::Int(if is_signed { -end } else { 0 })),
                "bits" => Some(Number::Int(bits.into())),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A constant of `math`, `sys`, NumPy or Warp, by its path.
fn named_constant(path: &str) -> Option<Number> {
    use std::f64::consts;
    let (module, name) = path.rsplit_once('.')?;
    match (module, name) {
        ("warp.Volume", "CLOSEST") => return Some(Number::Int(0)),
        ("warp.Volume", "LINEAR") => return Some(Number::Int(1)),
        _ => {}
    }
    let module = if module == "numpy" { "math" } else { module };
    let value = match (module, name) {
        ("sys.float_info", "epsilon") => f64::EPSILON,
        ("sys.float_info", "max") => f64::MAX,
        ("sys.float_info", "min") => f64::MIN_POSITIVE,
        ("math" | "warp", "pi") | ("warp", "PI") => consts::PI,
        ("math" | "warp", "tau") | ("warp", "TAU") => consts::TAU,
        ("math" | "warp", "e") | ("warp", "E") => consts::E,
        ("math" | "warp", "inf") | ("warp", "INF") => f64::INFINITY,
        ("math" | "warp", "nan") | ("warp", "NAN") => f64::NAN,
        ("warp", "HALF_PI" | "half_pi") => consts::FRAC_PI_2,
        ("warp", "LN2" | "ln2") => consts::LN_2,
        ("warp", "LN10" | "ln10") => consts::LN_10,
        ("warp", "LOG2E" | "log2e") => consts::LOG2_E,
        ("warp", "LOG10E" | "log10e") => consts::LOG10_E,
        ("warp", "PHI" | "phi") => 1.618_033_988_749_895,
        _ => return None,
    };
    Some(Number::Float(value))
}

pub(crate) fn unary(op: Operator, operand: Number) -> Option<Number> {
    Some(match (op, operand) {
        (Operator::USub, Number::Int(x)) => Number::Int(x.checked_neg()?),
        (Operator::USub, Number::Float(x)) => Number::Float(-x),
        (Operator::UAdd, Number::Int(_) | Number::Float(_)) => operand,
        (Operator::Invert, Number::Int(x)) => Number::Int(!x),
        (Operator::Not, Number::Bool(x)) => Number::Bool(!x),
        _ => return None,
    })
}

pub(crate) fn binary(op: Operator, left: Number, right: Number) -> Option<Number> {
    match (left, right) {
        (Number::Int(a), Number::Int(b)) => integers(op, a, b),
        (Number::Bool(_), _) | (_, Number::Bool(_)) => None,
        _ => floats(op, left.as_f64()?, right.as_f64()?),
    }
}

fn integers(op: Operator, a: i128, b: i128) -> Option<Number> {
    let shift = || u32::try_from(b).ok().filter(|bits| *bits < 127);
    let value = match op {
        Operator::Add => a.checked_add(b)?,
        Operator::Sub => a.checked_sub(b)?,
        Operator::Mult => a.checked_mul(b)?,
        Operator::Div => return floats(op, Number::Int(a).as_f64()?, Number::Int(b).as_f64()?),
        Operator::FloorDiv if b != 0 => a.checked_div_euclid(b)? - i128::from(b < 0 && a.checked_rem_euclid(b)? != 0),
        Operator::Mod if b != 0 => {
            let rest = a.checked_rem(b)?;
            if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
        }
        Operator::Pow => a.checked_pow(u32::try_from(b).ok()?)?,
        Operator::LShift => a.checked_mul(1_i128.checked_shl(shift()?)?)?,
        Operator::RShift => a >> shift()?,
        Operator::BitAnd => a & b,
        Operator::BitOr => a | b,
        Operator::BitXor => a ^ b,
        _ => return None,
    };
    Some(Number::Int(value))
}

fn floats(op: Operator, a: f64, b: f64) -> Option<Number> {
    let value = match op {
        Operator::Add => a + b,
        Operator::Sub => a - b,
        Operator::Mult => a * b,
        Operator::Div if b != 0.0 => a / b,
        Operator::Pow if a > 0.0 => a.powf(b),
        _ => return None,
    };
    Some(Number::Float(value))
}

impl Number {
    /// Its integer part.
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    fn truncated(self) -> Option<Self> {
        match self {
            Self::Float(value) if value.abs() < 9.0e18 => Some(Self::Int(value as i128)),
            Self::Float(_) => None,
            Self::Bool(value) => Some(Self::Int(value.into())),
            integer @ Self::Int(_) => Some(integer),
        }
    }

    /// Its value, if it is exact or a floating-point number.
    pub(crate) fn as_f64(self) -> Option<f64> {
        match self {
            Self::Int(value) if value.unsigned_abs() <= 1 << 53 => Some(value as f64),
            Self::Int(_) => None,
            Self::Float(value) => Some(value),
            Self::Bool(value) => Some(f64::from(u8::from(value))),
        }
    }

    /// Returns true if Python takes it as true.
    pub(crate) fn is_truthy(self) -> bool {
        match self {
            Self::Int(value) => value != 0,
            Self::Float(value) => value != 0.0,
            Self::Bool(value) => value,
        }
    }
}

/// The start of a text, for a message.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(40).collect();
    if short.len() < text.len() { format!("{short}...") } else { short }
}
