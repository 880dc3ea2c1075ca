//! Values of names outside functions: Python constants.
//!
//! Constants are evaluated as Python evaluates them when the module runs, before any kernel is built: `7 / 2` is 3.5.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::rc::Rc;

use accelerd_parser::{Field, Kind, Operator};

use crate::options::{Captured, Options};
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
                Some(path) => named_constant(&path),
                None => self.class_number(node, scope, depth),
            },
            Kind::UnaryOp => unary(syntax.operator(node), at(syntax.required(node, Field::Operand))?),
            Kind::BinOp => {
                let [left, right] = [Field::Left, Field::Right].map(|field| syntax.required(node, field));
                binary(syntax.operator(node), at(left)?, at(right)?)
            }
            Kind::Call => {
                let path = self.declarations.path(syntax, syntax.required(node, Field::Func))?;
                let mut arguments = syntax.children(node, Field::Args);
                let argument = arguments.next()?;
                let is_plain = arguments.next().is_none() && syntax.child(node, Field::Keywords).is_none();
                (path == "warp.constant" && is_plain).then(|| at(argument))?
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

/// A constant of `math` or Warp, by its path.
fn named_constant(path: &str) -> Option<Number> {
    use std::f64::consts;
    let (module, name) = path.rsplit_once('.')?;
    let value = match (module, name) {
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
