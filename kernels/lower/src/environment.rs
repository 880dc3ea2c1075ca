//! What names outside a function stand for: Python constants and types.
//!
//! Constants are evaluated as Python evaluates them when the module runs, before any kernel is built: `7 / 2` is 3.5.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use accelerd_ir::Dtype;
use accelerd_parser::{Field, Kind, Operator};

use crate::declarations::{Assigned, Declarations, Scope};
use crate::error::{ErrorKind, Lowered};
use crate::options::{Captured, Dialect, Options};
use crate::syntax::{Constant, Node, Syntax};
use crate::types::{self, Annotation, MAX_COMPONENTS, RecordType, StructType, Type};

/// A constant of Python.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
    Bool(bool),
}

/// Nesting of constants and types that refer to others.
const MAX_DEPTH: u32 = 64;

/// The source and what is known about it.
pub(crate) struct Environment<'a> {
    pub(crate) syntax: &'a Syntax<'a>,
    pub(crate) declarations: &'a Declarations,
    pub(crate) options: &'a Options<'a>,
    /// Values of what is assigned, once they are known: names that refer to others twice would otherwise double the work each time.
    pub(crate) numbers: RefCell<HashMap<Node, Number>>,
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

    fn number_at(&self, node: Node, scope: Scope, depth: u32) -> Option<Number> {
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

    /// The type that an expression names.
    pub(crate) fn annotation(&self, node: Node, scope: Scope) -> Lowered<Annotation> {
        self.annotation_at(node, scope, 0)
    }

    /// The type that an expression names, if it names one.
    pub(crate) fn data_type(&self, node: Node, scope: Scope) -> Option<Type> {
        match self.annotation(node, scope) {
            Ok(Annotation::Data(ty)) => Some(ty),
            _ => None,
        }
    }

    fn annotation_at(&self, node: Node, scope: Scope, depth: u32) -> Lowered<Annotation> {
        let syntax = self.syntax;
        let unsupported = || {
            let message = format!("expected a type, got `{}`", shorten(&syntax.text(node)));
            syntax.error(node, ErrorKind::UnsupportedType, message)
        };
        if depth > MAX_DEPTH {
            return Err(unsupported());
        }
        match syntax.kind(node) {
            Kind::Constant if syntax.constant(node) == Constant::None => Ok(Annotation::None),
            Kind::Name => self.named_annotation(node, scope, depth),
            Kind::Attribute => {
                let path = self.declarations.path(syntax, node).ok_or_else(unsupported)?;
                imported_annotation(&path).ok_or_else(unsupported)
            }
            Kind::Subscript => self.subscript_annotation(node, scope, depth),
            Kind::Call => self.call_annotation(node, scope, depth),
            _ => Err(unsupported()),
        }
    }

    fn named_annotation(&self, node: Node, scope: Scope, depth: u32) -> Lowered<Annotation> {
        let syntax = self.syntax;
        let name = syntax.name(node).unwrap_or_default();
        if let Some(Captured::Type(dtype)) = self.captured(&name) {
            return Ok(Annotation::Data(Type::Scalar(dtype)));
        }
        if let Some(class) = self.declarations.class_named(syntax, scope, &name) {
            if class.is_ambiguous {
                let message = format!("class `{name}` is defined more than once");
                return Err(syntax.error(node, ErrorKind::AmbiguousName, message));
            }
            return self.struct_annotation(class.node, class.is_struct, node, depth);
        }
        match self.declarations.assigned(syntax, scope, &name) {
            Some((scope, Assigned::Once(value))) => return self.annotation_at(value, scope, depth + 1),
            Some((_, Assigned::Ambiguous)) => {
                let message = format!("type `{name}` has no single value in the source");
                return Err(syntax.error(node, ErrorKind::AmbiguousName, message));
            }
            None => {}
        }
        if let Some(found) = self.declarations.imported(&name).and_then(|path| imported_annotation(&path)) {
            return Ok(found);
        }
        let is_python = self.options.dialect == Dialect::Python;
        let dtype = match name.as_str() {
            "float" if is_python => Dtype::F64,
            "int" if is_python => Dtype::I64,
            "float" => Dtype::F32,
            "int" => Dtype::I32,
            "bool" => Dtype::Bool,
            _ => {
                let message = format!("unknown type `{name}`");
                return Err(syntax.error(node, ErrorKind::UnsupportedType, message));
            }
        };
        Ok(Annotation::Data(Type::Scalar(dtype)))
    }

    fn struct_annotation(&self, class: Node, is_struct: bool, node: Node, depth: u32) -> Lowered<Annotation> {
        let syntax = self.syntax;
        let name = syntax.name(class).unwrap_or_default();
        let unsupported = |at, message: String| syntax.error(at, ErrorKind::UnsupportedType, message);
        if !is_struct {
            return Err(unsupported(node, format!("class `{name}` is not a struct")));
        }
        let scope = crate::declarations::enclosing_function(syntax, class);
        let mut fields = vec![];
        for statement in syntax.children(class, Field::Body) {
            if syntax.kind(statement) != Kind::AnnAssign {
                continue;
            }
            let target = syntax.required(statement, Field::Target);
            let field = syntax.name(target).unwrap_or_default();
            let annotation = self.annotation_at(syntax.required(statement, Field::Annotation), scope, depth + 1)?;
            if !matches!(annotation, Annotation::Data(_) | Annotation::Array(Some(_), _)) {
                let message =
                    format!("field `{field}` of struct `{name}` is {annotation}; expected values or an array");
                return Err(unsupported(statement, message));
            }
            fields.push((field, annotation));
        }
        if fields.iter().any(|(_, annotation)| matches!(annotation, Annotation::Array(..))) {
            if fields.len() > MAX_COMPONENTS {
                return Err(unsupported(node, format!("expected a struct of at most {MAX_COMPONENTS} fields")));
            }
            return Ok(Annotation::Record(Rc::new(RecordType { name, fields })));
        }
        let fields = fields.into_iter().filter_map(|(field, annotation)| match annotation {
            Annotation::Data(ty) => Some((field, ty)),
            _ => None,
        });
        let fields = fields.collect();
        let ty = Type::Struct(Rc::new(StructType { name, fields }));
        if ty.count() == 0 || ty.count() > MAX_COMPONENTS {
            let message = format!("expected a struct of 1 to {MAX_COMPONENTS} components, got {}", ty.count());
            return Err(unsupported(node, message));
        }
        Ok(Annotation::Data(ty))
    }

    /// `wp.array[T]`, `list[float]`, `tuple[float, int]`.
    fn subscript_annotation(&self, node: Node, scope: Scope, depth: u32) -> Lowered<Annotation> {
        let syntax = self.syntax;
        let base = syntax.required(node, Field::Value);
        let item = syntax.required(node, Field::Slice);
        let unsupported = || {
            let message = format!("unsupported type `{}`", shorten(&syntax.text(node)));
            syntax.error(node, ErrorKind::UnsupportedType, message)
        };
        let path = self.declarations.path(syntax, base);
        if let Some(dims) = path.as_deref().and_then(array_dims) {
            return Ok(Annotation::Array(self.element(item, scope, depth)?, dims));
        }
        let name = path.or_else(|| syntax.name(base)).unwrap_or_default();
        match name.as_str() {
            "warp.ref" => match self.annotation_at(item, scope, depth + 1)? {
                Annotation::Data(ty) => Ok(Annotation::Reference(ty)),
                _ => Err(unsupported()),
            },
            "typing.Callable" | "collections.abc.Callable" => Ok(Annotation::Function),
            "list" | "List" | "typing.List" if self.options.dialect == Dialect::Python => {
                Ok(Annotation::Array(self.element(item, scope, depth)?, 1))
            }
            "tuple" | "Tuple" | "typing.Tuple" => {
                let items: Vec<_> = match syntax.kind(item) {
                    Kind::Tuple => syntax.children(item, Field::Elts).collect(),
                    _ => vec![item],
                };
                let items = items.into_iter().map(|item| self.annotation_at(item, scope, depth + 1));
                Ok(Annotation::Tuple(items.collect::<Lowered<_>>()?))
            }
            _ => Err(unsupported()),
        }
    }

    /// `wp.array(dtype=T, ndim=n)`, `wp.types.vector(length=n, dtype=T)`, `wp.types.matrix(shape=(n, m), dtype=T)`.
    fn call_annotation(&self, node: Node, scope: Scope, depth: u32) -> Lowered<Annotation> {
        let syntax = self.syntax;
        let fail = |message: &str| {
            let message = format!("{message}, got `{}`", shorten(&syntax.text(node)));
            syntax.error(node, ErrorKind::UnsupportedType, message)
        };
        let path = self.declarations.path(syntax, syntax.required(node, Field::Func)).unwrap_or_default();
        let positional: Vec<_> = syntax.children(node, Field::Args).collect();
        let argument = |at: usize, name: &str| {
            let mut keywords = syntax.children(node, Field::Keywords);
            let keyword = keywords.find(|&keyword| syntax.name(keyword).as_deref() == Some(name));
            keyword.and_then(|keyword| syntax.child(keyword, Field::Value)).or_else(|| positional.get(at).copied())
        };
        let dtype =
            |at| match argument(at, "dtype").map(|node| self.annotation_at(node, scope, depth + 1)).transpose()? {
                Some(Annotation::Data(Type::Scalar(dtype))) => Ok(dtype),
                _ => Err(fail("expected a scalar `dtype`")),
            };
        let size = |node: Option<Node>| match node.and_then(|node| self.number_at(node, scope, depth)) {
            Some(Number::Int(size @ 1..=256)) => Ok(u32::try_from(size).expect("at most 256")),
            _ => Err(fail("expected a constant size from 1 to 256")),
        };
        if let Some(dims) = array_dims(&path) {
            let dims = match argument(usize::MAX, "ndim") {
                Some(ndim) => match self.number_at(ndim, scope, depth) {
                    Some(Number::Int(dims @ 1..=4)) => u8::try_from(dims).expect("at most 4"),
                    _ => return Err(fail("expected 1 to 4 dimensions")),
                },
                None => dims,
            };
            let element = argument(usize::MAX, "dtype").ok_or_else(|| fail("expected a `dtype`"))?;
            return Ok(Annotation::Array(self.element(element, scope, depth)?, dims));
        }
        match path.strip_prefix("warp.types.").or_else(|| path.strip_prefix("warp.")).unwrap_or_default() {
            "vector" => Ok(Annotation::Data(Type::Vector(dtype(1)?, size(argument(0, "length"))?))),
            "matrix" => {
                let shape = argument(0, "shape").filter(|&node| syntax.kind(node) == Kind::Tuple);
                let shape: Vec<_> = shape.into_iter().flat_map(|node| syntax.children(node, Field::Elts)).collect();
                let [rows, columns] = shape[..] else { return Err(fail("expected a constant `shape` of two")) };
                let (rows, columns) = (size(Some(rows))?, size(Some(columns))?);
                if rows as usize * columns as usize > MAX_COMPONENTS {
                    return Err(fail("expected a matrix of at most 256 components"));
                }
                Ok(Annotation::Data(Type::Matrix(dtype(1)?, rows, columns)))
            }
            "quaternion" => Ok(Annotation::Data(Type::Quat(dtype(0)?))),
            "transformation" => Ok(Annotation::Data(Type::Transform(dtype(0)?))),
            _ => Err(fail("expected a type")),
        }
    }

    /// The type of an array's elements; absent if open.
    fn element(&self, node: Node, scope: Scope, depth: u32) -> Lowered<Option<Type>> {
        match self.annotation_at(node, scope, depth + 1)? {
            Annotation::Data(ty) => Ok(Some(ty)),
            Annotation::Any => Ok(None),
            other => {
                let message = format!("expected elements of a type with values, got {other}");
                Err(self.syntax.error(node, ErrorKind::UnsupportedType, message))
            }
        }
    }
}

/// The dimensions of an array type; `None` for other paths.
fn array_dims(path: &str) -> Option<u8> {
    match path.strip_prefix("warp.")? {
        "array" | "array1d" | "types.array" => Some(1),
        "array2d" => Some(2),
        "array3d" => Some(3),
        "array4d" => Some(4),
        _ => None,
    }
}

fn imported_annotation(path: &str) -> Option<Annotation> {
    match path {
        "typing.Any" | "warp.Float" | "warp.Int" | "warp.Scalar" => return Some(Annotation::Any),
        "warp.Function" | "typing.Callable" | "collections.abc.Callable" => return Some(Annotation::Function),
        _ => {}
    }
    let name = path.strip_prefix("warp.types.").or_else(|| path.strip_prefix("warp."))?;
    match name {
        "float" => Some(Annotation::Data(Type::Scalar(Dtype::F32))),
        "int" => Some(Annotation::Data(Type::I32)),
        _ => types::parse_warp(name).map(Annotation::Data),
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

fn unary(op: Operator, operand: Number) -> Option<Number> {
    Some(match (op, operand) {
        (Operator::USub, Number::Int(x)) => Number::Int(x.checked_neg()?),
        (Operator::USub, Number::Float(x)) => Number::Float(-x),
        (Operator::UAdd, Number::Int(_) | Number::Float(_)) => operand,
        (Operator::Invert, Number::Int(x)) => Number::Int(!x),
        (Operator::Not, Number::Bool(x)) => Number::Bool(!x),
        _ => return None,
    })
}

fn binary(op: Operator, left: Number, right: Number) -> Option<Number> {
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

    /// Whether Python takes it as true.
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
