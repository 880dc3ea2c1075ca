//! Types that names and expressions outside functions stand for.

use std::rc::Rc;

use accelerd_ir::Dtype;
use accelerd_parser::{Field, Kind};

use crate::error::{ErrorKind, Lowered};
use crate::options::{Captured, Dialect};
use crate::source::declarations::{Assigned, Scope, enclosing_function};
use crate::source::environment::{Environment, MAX_DEPTH, MAX_ITEMS, Number, shorten};
use crate::source::syntax::{Constant, Node};
use crate::types::open::{Open, Scalars};
use crate::types::parameters::{Annotation, RecordType};
use crate::types::{self, ArrayForm, MAX_COMPONENTS, MAX_STRUCT_COMPONENTS, StructType, Type};

impl Environment<'_> {
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

    /// The number that `length` of a type is.
    pub(crate) fn type_size(&self, node: Node, scope: Scope, depth: u32) -> Option<Number> {
        if self.options.dialect == Dialect::Python || self.syntax.name(node)? != "length" {
            return None;
        }
        match self.annotation_at(self.syntax.required(node, Field::Value), scope, depth + 1) {
            Ok(Annotation::Data(ty)) => ty.size(),
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
            return match self.base_annotation(class.node, depth) {
                Some(base) if !class.is_struct => Ok(base),
                _ => self.struct_annotation(class.node, class.is_struct, node, depth),
            };
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

    /// The type of values that a class is derived from. Warp does not tell the class from it.
    fn base_annotation(&self, class: Node, depth: u32) -> Option<Annotation> {
        let syntax = self.syntax;
        let base = syntax.child(class, Field::Bases)?;
        let base = self.annotation_at(base, enclosing_function(syntax, class), depth + 1).ok()?;
        let is_composite =
            matches!(base, Annotation::Data(Type::Vector(..) | Type::Matrix(..) | Type::Quat(_) | Type::Transform(_)));
        is_composite.then_some(base)
    }

    fn struct_annotation(&self, class: Node, is_struct: bool, node: Node, depth: u32) -> Lowered<Annotation> {
        let syntax = self.syntax;
        let name = syntax.name(class).unwrap_or_default();
        let unsupported = |index, message: String| syntax.error(index, ErrorKind::UnsupportedType, message);
        if !is_struct {
            return Err(unsupported(node, format!("class `{name}` is not a struct")));
        }
        let scope = enclosing_function(syntax, class);
        let mut fields = vec![];
        for statement in syntax.children(class, Field::Body) {
            if syntax.kind(statement) != Kind::AnnAssign {
                continue;
            }
            let target = syntax.required(statement, Field::Target);
            let field = syntax.name(target).unwrap_or_default();
            let annotation = self.annotation_at(syntax.required(statement, Field::Annotation), scope, depth + 1)?;
            if !matches!(annotation, Annotation::Data(_) | Annotation::Array(..) | Annotation::Record(_)) {
                let message = format!(
                    "field `{field}` of struct `{name}` is {annotation}; expected values, an array or a struct with arrays"
                );
                return Err(unsupported(statement, message));
            }
            fields.push((field, annotation));
            let leaves: usize = fields.iter().map(|(_, annotation)| annotation.leaves()).sum();
            if leaves > MAX_STRUCT_COMPONENTS {
                let message = format!("expected a struct of at most {MAX_STRUCT_COMPONENTS} components and arrays");
                return Err(unsupported(node, message));
            }
        }
        if fields.is_empty() || fields.iter().any(|(_, annotation)| !matches!(annotation, Annotation::Data(_))) {
            return Ok(Annotation::Record(Rc::new(RecordType { name, fields })));
        }
        let fields = fields
            .into_iter()
            .filter_map(|(field, annotation)| match annotation {
                Annotation::Data(ty) => Some((field, ty)),
                _ => None,
            })
            .collect();
        Ok(Annotation::Data(Type::Struct(Rc::new(StructType { name, fields }))))
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
        if let Some(form) = path.as_deref().and_then(array_form) {
            let (item, dims) = self.dimensions(item, scope, depth)?.unwrap_or((item, form.dims));
            return self.array(item, ArrayForm { dims, ..form }, scope, depth);
        }
        let name = path.or_else(|| syntax.name(base)).unwrap_or_default();
        match name.as_str() {
            "warp.ref" => match self.annotation_at(item, scope, depth + 1)? {
                Annotation::Data(ty) => Ok(Annotation::Reference(ty)),
                _ => Err(unsupported()),
            },
            "typing.Callable" | "collections.abc.Callable" => Ok(Annotation::Function),
            "list" | "List" | "typing.List" if self.options.dialect == Dialect::Python => {
                self.array(item, ArrayForm { dims: 1, is_indexed: false }, scope, depth)
            }
            "tuple" | "Tuple" | "typing.Tuple" => {
                let items: Vec<_> = match syntax.kind(item) {
                    Kind::Tuple => syntax.children(item, Field::Elts).collect(),
                    _ => vec![item],
                };
                let mut annotations = vec![];
                let mut leaves = 0;
                for item in items {
                    let annotation = self.annotation_at(item, scope, depth + 1)?;
                    leaves += annotation.leaves();
                    if leaves > MAX_ITEMS {
                        let message = format!("expected a tuple of at most {MAX_ITEMS} values");
                        return Err(syntax.error(node, ErrorKind::TooLarge, message));
                    }
                    annotations.push(annotation);
                }
                Ok(Annotation::Tuple(annotations))
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
        let argument = |index: usize, name: &str| {
            let mut keywords = syntax.children(node, Field::Keywords);
            let keyword = keywords.find(|&keyword| syntax.name(keyword).as_deref() == Some(name));
            keyword.and_then(|keyword| syntax.child(keyword, Field::Value)).or_else(|| positional.get(index).copied())
        };
        let scalars = |index| match argument(index, "dtype")
            .map(|node| self.annotation_at(node, scope, depth + 1))
            .transpose()?
        {
            Some(Annotation::Data(Type::Scalar(dtype))) => Ok(Scalars::One(dtype)),
            Some(Annotation::Open(Open::Scalar(scalars))) => Ok(scalars),
            Some(Annotation::Open(Open::Any)) => Ok(Scalars::All),
            _ => Err(fail("expected a scalar `dtype`")),
        };
        // A size that calls determine is open.
        let size = |node: Option<Node>| match node.map(|node| (node, self.number_at(node, scope, depth))) {
            Some((_, Some(Number::Int(size @ 1..=256)))) => Ok(Some(u32::try_from(size).expect("at most 256"))),
            Some((node, None)) if self.annotation_at(node, scope, depth + 1) == Ok(Annotation::Open(Open::Any)) => {
                Ok(None)
            }
            _ => Err(fail("expected a constant size from 1 to 256")),
        };
        if let Some(form) = array_form(&path) {
            let dims = match argument(usize::MAX, "ndim") {
                Some(ndim) => match self.number_at(ndim, scope, depth) {
                    Some(Number::Int(dims @ 1..=4)) => u8::try_from(dims).expect("at most 4"),
                    _ => return Err(fail("expected 1 to 4 dimensions")),
                },
                None => form.dims,
            };
            let element = argument(usize::MAX, "dtype").ok_or_else(|| fail("expected a `dtype`"))?;
            return self.array(element, ArrayForm { dims, ..form }, scope, depth);
        }
        match path.strip_prefix("warp.types.").or_else(|| path.strip_prefix("warp.")).unwrap_or_default() {
            "vector" => {
                let length = size(argument(0, "length"))?;
                let components = scalars(1)?;
                Ok(match (length, components.one()) {
                    (Some(length), Some(dtype)) => Annotation::Data(Type::Vector(dtype, length)),
                    _ => Annotation::Open(Open::Vector(length, components)),
                })
            }
            "matrix" => {
                let shape: Vec<_> = argument(0, "shape")
                    .filter(|&node| syntax.kind(node) == Kind::Tuple)
                    .into_iter()
                    .flat_map(|node| syntax.children(node, Field::Elts))
                    .collect();
                let [rows, columns] = shape[..] else { return Err(fail("expected a constant `shape` of two")) };
                let rows = size(Some(rows))?;
                let columns = size(Some(columns))?;
                let components = scalars(1)?;
                let (Some(in_rows), Some(in_columns), Some(dtype)) = (rows, columns, components.one()) else {
                    return Ok(Annotation::Open(Open::Matrix(rows, columns, components)));
                };
                if in_rows as usize * in_columns as usize > MAX_COMPONENTS {
                    return Err(fail("expected a matrix of at most 256 components"));
                }
                Ok(Annotation::Data(Type::Matrix(dtype, in_rows, in_columns)))
            }
            "quaternion" => {
                let components = scalars(0)?;
                let open = Annotation::Open(Open::Quat(components));
                Ok(components.one().map_or(open, |dtype| Annotation::Data(Type::Quat(dtype))))
            }
            "transformation" => {
                let components = scalars(0)?;
                let open = Annotation::Open(Open::Transform(components));
                Ok(components.one().map_or(open, |dtype| Annotation::Data(Type::Transform(dtype))))
            }
            _ => Err(fail("expected a type")),
        }
    }

    /// An array of elements of the type that an expression names.
    fn array(&self, element: Node, form: ArrayForm, scope: Scope, depth: u32) -> Lowered<Annotation> {
        match self.annotation_at(element, scope, depth + 1)? {
            Annotation::Data(ty) => Ok(Annotation::Array(ty, form)),
            Annotation::Open(open) => Ok(Annotation::OpenArray(open, form)),
            other => {
                let message = format!("expected elements of a type with values, got {other}");
                Err(self.syntax.error(element, ErrorKind::UnsupportedType, message))
            }
        }
    }

    /// The element and dimensions of `wp.array[T, Literal[n]]`.
    fn dimensions(&self, item: Node, scope: Scope, depth: u32) -> Lowered<Option<(Node, u8)>> {
        let syntax = self.syntax;
        if syntax.kind(item) != Kind::Tuple {
            return Ok(None);
        }
        let items: Vec<_> = syntax.children(item, Field::Elts).collect();
        let dims = match items[..] {
            [element, dims] => self.literal(dims, scope, depth).map(|dims| (element, dims)),
            _ => None,
        };
        match dims {
            Some((element, dims @ 1..=4)) => Ok(Some((element, u8::try_from(dims).expect("at most 4")))),
            _ => Err(syntax.error(item, ErrorKind::UnsupportedType, "expected a type and 1 to 4 dimensions")),
        }
    }

    /// The number of `Literal[n]`, or `n` itself.
    fn literal(&self, node: Node, scope: Scope, depth: u32) -> Option<i128> {
        let syntax = self.syntax;
        let base = syntax.child(node, Field::Value).filter(|_| syntax.kind(node) == Kind::Subscript);
        let number = match base {
            Some(base) if self.declarations.path(syntax, base)? == "typing.Literal" => {
                syntax.required(node, Field::Slice)
            }
            _ => node,
        };
        match self.number_at(number, scope, depth + 1) {
            Some(Number::Int(number)) => Some(number),
            _ => None,
        }
    }
}

/// The form of an array type; `None` for other paths.
fn array_form(path: &str) -> Option<ArrayForm> {
    let name = path.strip_prefix("warp.")?;
    let (name, is_indexed) = match name.strip_prefix("indexed") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let dims = match name {
        "array" | "array1d" => 1,
        "types.array" if !is_indexed => 1,
        "array2d" => 2,
        "array3d" => 3,
        "array4d" => 4,
        _ => return None,
    };
    Some(ArrayForm { dims, is_indexed })
}

fn imported_annotation(path: &str) -> Option<Annotation> {
    match path {
        "typing.Any" => return Some(Annotation::Open(Open::Any)),
        "warp.Float" => return Some(Annotation::Open(Open::Scalar(Scalars::Floats))),
        "warp.Int" => return Some(Annotation::Open(Open::Scalar(Scalars::Integers))),
        "warp.Scalar" => return Some(Annotation::Open(Open::Scalar(Scalars::Numbers))),
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
