//! Functions of Warp that need more than the values of their arguments: thread indices, types, arrays, atomics, checks.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{AtomicOp, Expr, FaultKind};
use accelerd_ir::scalar::UnaryOp;
use accelerd_parser::{Field, Kind, Operator};

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::arguments::{Arguments, scalar_of};
use crate::lowerer::{Lowerer, Returns};
use crate::source::environment::Number;
use crate::source::syntax::Node;
use crate::types::{MAX_COMPONENTS, Type};
use crate::values::constants;
use crate::values::scalars;
use crate::values::{Axis, Data, Storage, Value};
use crate::warp::builtins;
use crate::warp::library;
use crate::warp::operators::{is_atomic, unified, warp_comparison};

impl Lowerer<'_> {
    /// Calls a function of Warp by its name.
    pub(crate) fn call_warp(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Value> {
        // Approximations are computed as the exact functions.
        let exact = name.strip_suffix("_approx").filter(|exact| builtins::is_known(exact));
        let name = exact.unwrap_or(name);
        match name {
            "tid" => self.tid(node, arguments),
            "static" => self.static_value(node, arguments),
            "vector" | "types.vector" => self.vector(node, arguments).map(Value::Data),
            "matrix" | "types.matrix" => self.matrix(node, arguments).map(Value::Data),
            "identity" => self.identity(node, arguments).map(Value::Data),
            "quat_identity" | "transform_identity" => self.neutral(node, name, arguments).map(Value::Data),
            "cast" => self.bitcast(node, arguments).map(Value::Data),
            "len" => self.length_of(node, arguments),
            // A block has one thread, as on the CPU.
            "block_dim" => {
                self.expect_count(node, name, arguments, 0..=0)?;
                Ok(Data::scalar(Dtype::I32, scalars::integer(Dtype::I32, 1)).into())
            }
            "where" | "select" => self.choice(node, name, arguments).map(Value::Data),
            "print" | "printf" => self.print(node, name, arguments),
            "tuple" => Ok(Value::Tuple(self.values(node, arguments)?)),
            "expect_eq" | "expect_neq" | "expect_near" => self.expectation(node, name, arguments),
            "rand_init" | "randi" | "randf" | "randu" => self.random(node, name, arguments).map(Value::Data),
            "geometry_ints" => Ok(self.table("geometry_ints", &Type::I32)),
            "geometry_vectors" => Ok(self.table("geometry_vectors", &Type::Vector(Dtype::F32, 3))),
            "tile" | "untile" => self.tile_call(node, name, arguments),
            _ if name.starts_with("tile_") => self.tile_call(node, name, arguments),
            _ if name.starts_with("atomic_") => self.atomic_call(node, name, arguments),
            "transformation" | "types.transformation" => {
                self.rotation(node, arguments, &["p", "q"], Type::Transform).map(Value::Data)
            }
            "quaternion" | "types.quaternion" => {
                self.rotation(node, arguments, &["x", "y", "z", "w"], Type::Quat).map(Value::Data)
            }
            _ if let Some(definition) = library::definition(name) => {
                let functions = self.environment.declarations.functions_named(self.syntax(), None, &definition);
                if library::advances_state(name) {
                    if let Some(copy) = self.state_copy(node, arguments)? {
                        return self.call_with(node, &functions, Value::Reference(copy), arguments);
                    }
                    self.state_variable(node, arguments)?;
                }
                self.call_function(node, &functions, arguments)
            }
            _ if !builtins::is_known(name) => {
                let message = format!("unsupported function `{name}`");
                Err(self.error(node, ErrorKind::UnsupportedBuiltin, message))
            }
            _ => {
                let values = self.values(node, arguments)?;
                self.builtin_of(node, name, values)
            }
        }
    }

    /// An array of one dimension that the client adds to the parameters.
    fn table(&mut self, name: &'static str, element: &Type) -> Value {
        if let Some((_, view)) = self.tables.iter().find(|(known, _)| *known == name) {
            return Value::Array(view.clone());
        }
        let view = self.array_parameter(name, element, 1);
        self.tables.push((name, view.clone()));
        Value::Array(view)
    }

    /// Calls a function whose result depends on the values of its arguments only.
    fn builtin_of(&mut self, node: Node, name: &str, values: Vec<Value>) -> Lowered<Value> {
        let got: Vec<_> = values.iter().map(ToString::to_string).collect();
        let data: Option<Vec<_>> = values
            .into_iter()
            .map(|value| match value {
                Value::Data(data) => Some(data),
                _ => None,
            })
            .collect();
        let mismatch = |this: &Self| {
            let message = format!("`{name}` does not take ({})", got.join(", "));
            this.error(node, ErrorKind::ArgumentMismatch, message)
        };
        let data = data.ok_or_else(|| mismatch(self))?;
        self.warp_builtin(name, data).ok_or_else(|| mismatch(self))
    }

    /// The position of the thread: one index, or as many as the assignment takes.
    fn tid(&mut self, node: Node, arguments: &Arguments) -> Lowered<Value> {
        self.expect_count(node, "tid", arguments, 0..=0)?;
        if !matches!(self.frame().returns, Returns::Kernel) {
            let message = "`tid` is a function of kernels only; pass the index as an argument";
            return Err(self.error(node, ErrorKind::UnsupportedBuiltin, message));
        }
        let syntax = self.syntax();
        let target = syntax
            .parent(node)
            .filter(|&parent| syntax.kind(parent) == Kind::Assign)
            .and_then(|parent| syntax.child(parent, Field::Targets));
        let count = match target {
            Some(target) if syntax.kind(target) == Kind::Tuple => syntax.children(target, Field::Elts).count(),
            _ => 1,
        };
        let Some(dims) = u8::try_from(count).ok().filter(|dims| (1..=4).contains(dims)) else {
            let message = format!("expected 1 to 4 thread indices, got {count}");
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        };
        if self.emitter.grid_dims != 0 && self.emitter.grid_dims != dims {
            let message = format!("expected {} thread indices, as before, got {dims}", self.emitter.grid_dims);
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        }
        self.emitter.grid_dims = dims;
        let mut indices = (0..dims).map(|dim| Value::Data(Data::scalar(Dtype::I32, Expr::ThreadId(dim))));
        if target.is_some_and(|target| syntax.kind(target) == Kind::Tuple) {
            return Ok(Value::Tuple(indices.collect()));
        }
        Ok(indices.next().expect("at least one"))
    }

    pub(crate) fn expect_count(
        &self,
        node: Node,
        name: &str,
        arguments: &Arguments,
        counts: std::ops::RangeInclusive<usize>,
    ) -> Lowered<()> {
        let got = arguments.positional.len();
        if counts.contains(&got) && arguments.keywords.is_empty() {
            return Ok(());
        }
        let keywords = if arguments.keywords.is_empty() { "" } else { " and keywords" };
        let message = format!("`{name}` does not take {got} arguments{keywords}");
        Err(self.error(node, ErrorKind::ArgumentMismatch, message))
    }

    pub(super) fn keyword(arguments: &Arguments, name: &str) -> Option<Node> {
        arguments.keywords.iter().find(|(keyword, _)| keyword == name).map(|(_, node)| *node)
    }

    pub(super) fn refuse_other_keywords(&self, node: Node, arguments: &Arguments, known: &[&str]) -> Lowered<()> {
        match arguments.keywords.iter().find(|(keyword, _)| !known.contains(&keyword.as_str())) {
            Some((keyword, _)) => {
                let message = format!("unsupported keyword argument `{keyword}`");
                Err(self.error(node, ErrorKind::ArgumentMismatch, message))
            }
            None => Ok(()),
        }
    }

    /// A scalar type as an argument.
    fn dtype_argument(&mut self, node: Node, argument: Option<Node>) -> Lowered<Option<Dtype>> {
        let Some(argument) = argument else { return Ok(None) };
        let named = self.environment.data_type(argument, self.outer_scope()).filter(|_| !self.names_local(argument));
        let ty = if named.is_some() { named } else { self.type_expression(argument)? };
        match ty {
            Some(Type::Scalar(dtype)) => Ok(Some(dtype)),
            _ => Err(self.error(node, ErrorKind::ArgumentMismatch, "expected a scalar type as `dtype`")),
        }
    }

    pub(super) fn size_argument(&mut self, argument: Node) -> Lowered<u32> {
        let mut number = self.static_number(argument)?;
        if number.is_none()
            && let Value::Data(data) = self.expression(argument)?
        {
            number = data.constant;
        }
        match number {
            Some(Number::Int(size)) if (1..=MAX_COMPONENTS as i128).contains(&size) => {
                Ok(u32::try_from(size).expect("limited"))
            }
            _ => {
                let message = format!("expected a constant size from 1 to {MAX_COMPONENTS}");
                Err(self.error(argument, ErrorKind::NotConstant, message))
            }
        }
    }

    /// `wp.vector(1.0, 2.0, 3.0)`, with `length` and `dtype` where they cannot be inferred.
    fn vector(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        self.refuse_other_keywords(node, arguments, &["length", "dtype"])?;
        let dtype = self.dtype_argument(node, Self::keyword(arguments, "dtype"))?;
        let length = Self::keyword(arguments, "length").map(|size| self.size_argument(size)).transpose()?;
        let values = self.components(arguments)?;
        let inferred = match values.first() {
            Some(Value::Data(data)) => data.ty.scalar(),
            _ => None,
        };
        let length = match (length, &values[..]) {
            (Some(length), _) => Some(length),
            (None, [Value::Data(Data { ty: Type::Vector(_, length), .. })]) => Some(*length),
            (None, values) if values.len() > 1 => u32::try_from(values.len()).ok(),
            _ => None,
        };
        let (Some(length), dtype) = (length, dtype.or(inferred).unwrap_or(Dtype::F32)) else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, "expected the `length` of the vector"));
        };
        self.construct_from(node, &Type::Vector(dtype, length), values)
    }

    /// `wp.matrix(..., shape=(2, 2), dtype=float)`.
    fn matrix(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        self.refuse_other_keywords(node, arguments, &["shape", "dtype"])?;
        let dtype = self.dtype_argument(node, Self::keyword(arguments, "dtype"))?;
        let syntax = self.syntax();
        let shape = Self::keyword(arguments, "shape").filter(|&shape| syntax.kind(shape) == Kind::Tuple);
        let shape: Vec<_> = shape.into_iter().flat_map(|shape| syntax.children(shape, Field::Elts)).collect();
        let [rows, columns] = shape[..] else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, "expected the `shape` of the matrix"));
        };
        let rows = self.size_argument(rows)?;
        let columns = self.size_argument(columns)?;
        if rows as usize * columns as usize > MAX_COMPONENTS {
            let message = format!("expected a matrix of at most {MAX_COMPONENTS} components");
            return Err(self.error(node, ErrorKind::UnsupportedType, message));
        }
        let values = self.components(arguments)?;
        let inferred = match values.first() {
            Some(Value::Data(data)) => data.ty.scalar(),
            _ => None,
        };
        let dtype = dtype.or(inferred).unwrap_or(Dtype::F32);
        self.construct_from(node, &Type::Matrix(dtype, rows, columns), values)
    }

    /// `wp.transformation(p, q, dtype=float)` or `wp.quaternion(x, y, z, w, dtype=float)`.
    fn rotation(
        &mut self,
        node: Node,
        arguments: &Arguments,
        names: &[&str],
        ty: impl Fn(Dtype) -> Type,
    ) -> Lowered<Data> {
        self.refuse_other_keywords(node, arguments, &[&["dtype"], names].concat())?;
        let dtype = self.dtype_argument(node, Self::keyword(arguments, "dtype"))?;
        let mut values = self.components(arguments)?;
        for name in names {
            if let Some(argument) = Self::keyword(arguments, name) {
                values.push(self.expression_or_call(argument)?);
            }
        }
        let inferred = match values.first() {
            Some(Value::Data(data)) => data.ty.scalar(),
            _ => None,
        };
        self.construct_from(node, &ty(dtype.or(inferred).unwrap_or(Dtype::F32)), values)
    }

    /// `wp.identity(n=3, dtype=float)`.
    fn identity(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        self.refuse_other_keywords(node, arguments, &["n", "dtype"])?;
        let argument = |index: usize, name| Self::keyword(arguments, name).or(arguments.positional.get(index).copied());
        let size = argument(0, "n")
            .ok_or_else(|| self.error(node, ErrorKind::ArgumentMismatch, "expected the size `n` of the identity"))?;
        let n = self.size_argument(size)?;
        let dtype = self
            .dtype_argument(node, argument(1, "dtype"))?
            .ok_or_else(|| self.error(node, ErrorKind::ArgumentMismatch, "expected a `dtype`"))?;
        if n > 16 {
            return Err(self.error(node, ErrorKind::UnsupportedType, "expected a size of at most 16"));
        }
        let parts = (0..n * n).map(|index| scalars::literal(dtype, if index / n == index % n { 1.0 } else { 0.0 }));
        Ok(Data::new(Type::Matrix(dtype, n, n), parts.collect()))
    }

    /// The rotation or transform that changes nothing.
    fn neutral(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Data> {
        self.refuse_other_keywords(node, arguments, &["dtype"])?;
        let argument = Self::keyword(arguments, "dtype").or(arguments.positional.first().copied());
        let dtype = self.dtype_argument(node, argument)?.unwrap_or(Dtype::F32);
        let ty = if name == "quat_identity" { Type::Quat(dtype) } else { Type::Transform(dtype) };
        let last = ty.count() - 1;
        let parts = (0..=last).map(|index| scalars::literal(dtype, if index == last { 1.0 } else { 0.0 })).collect();
        Ok(Data::new(ty, parts))
    }

    /// The bits of a scalar as another type of equal size.
    fn bitcast(&mut self, node: Node, arguments: &Arguments) -> Lowered<Data> {
        self.expect_count(node, "cast", arguments, 2..=2)?;
        let (from, part) = self.scalar(arguments.positional[0])?;
        let to = self.dtype_argument(node, arguments.positional.get(1).copied())?.expect("counted");
        if from.size() != to.size() || from == Dtype::Bool || to == Dtype::Bool {
            let message = format!("expected types of equal size, got {} and {}", Type::Scalar(from), Type::Scalar(to));
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        if from == to {
            return Ok(Data::scalar(to, part));
        }
        Ok(Data::scalar(to, Expr::Bitcast(to, Box::new(part))))
    }

    /// Printing only evaluates its arguments: a launch returns no text.
    fn print(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Value> {
        let values = self.values(node, arguments)?;
        if name == "printf" && !matches!(values.first(), Some(Value::Str)) {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, "expected a string as the format of `printf`"));
        }
        Ok(Value::None)
    }

    fn length_of(&mut self, node: Node, arguments: &Arguments) -> Lowered<Value> {
        let values = self.values(node, arguments)?;
        let constant = |length: usize| {
            let length = i64::try_from(length).expect("components are limited");
            Ok(Data::scalar(Dtype::I32, scalars::integer(Dtype::I32, length)).into())
        };
        match &values[..] {
            [Value::Array(view)] => {
                let view = self.present(node, view.clone());
                Ok(Data::scalar(Dtype::I32, view.extent(0)).into())
            }
            [Value::Tuple(items)] => constant(items.len()),
            [Value::Data(data)] if let Some(length) = data.ty.length() => constant(length as usize),
            _ => Err(self.error(node, ErrorKind::ArgumentMismatch, "expected one value with a length")),
        }
    }

    /// `wp.where(condition, a, b)` and the older `wp.select(condition, b, a)`.
    fn choice(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Data> {
        self.expect_count(node, name, arguments, 3..=3)?;
        let condition = self.condition(arguments.positional[0])?;
        let [first, second] = self.operands([arguments.positional[1], arguments.positional[2]])?;
        let (Value::Data(first), Value::Data(second)) = (first, second) else {
            return Err(self.error(node, ErrorKind::TypeMismatch, "expected values to choose from"));
        };
        let message = format!("expected values of one type, got {} and {}", first.ty, second.ty);
        let both = if first.ty == second.ty { Some((first, second)) } else { unified(first, second) };
        let Some((first, second)) = both.filter(|(first, second)| first.ty == second.ty) else {
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        };
        let (then, otherwise) = if name == "where" { (first, second) } else { (second, first) };
        let condition = self.emitter.bind(Dtype::Bool, condition);
        let parts = then
            .parts
            .into_iter()
            .zip(otherwise.parts)
            .map(|(a, b)| scalars::select(condition.clone(), a, b))
            .collect();
        Ok(Data::new(then.ty, parts))
    }

    /// A check of a test: what Warp prints is a fault.
    fn expectation(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Value> {
        let is_near = name == "expect_near";
        self.refuse_other_keywords(node, arguments, if is_near { &["tolerance"] } else { &[] })?;
        let count = arguments.positional.len() + arguments.keywords.len();
        if arguments.positional.len() < 2 || count > if is_near { 3 } else { 2 } {
            let message = format!("`{name}` does not take {count} arguments");
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        }
        let [left, right] = self.operands([arguments.positional[0], arguments.positional[1]])?;
        let message = format!("`{name}` does not take {left} and {right}");
        let (Value::Data(left), Value::Data(right)) = (left, right) else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        };
        let both = unified(left, right).filter(|(left, right)| left.ty == right.ty);
        let Some((left, right)) = both else {
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        };
        let fails = match name {
            "expect_eq" => warp_comparison(Operator::Eq, left, right).map(scalars::not),
            "expect_neq" => warp_comparison(Operator::Eq, left, right),
            _ => {
                let tolerance = arguments.positional.get(2).copied();
                let tolerance = match tolerance.or_else(|| Self::keyword(arguments, "tolerance")) {
                    Some(tolerance) => self.expression(tolerance)?,
                    None => self.number(Number::Float(1.0e-6)).into(),
                };
                self.exceeds(left, right, &tolerance)
            }
        };
        let fails = fails.ok_or_else(|| self.error(node, ErrorKind::ArgumentMismatch, message))?;
        self.emitter.fault_if(fails, FaultKind::Assertion, self.syntax().site(node));
        Ok(Value::None)
    }

    /// True for components that differ by more than a tolerance.
    fn exceeds(&mut self, left: Data, right: Data, tolerance: &Value) -> Option<Expr> {
        let dtype = left.ty.scalar().filter(|dtype| dtype.is_float())?;
        let Value::Data(tolerance) = tolerance else { return None };
        let tolerance = constants::adapted(tolerance, dtype)?;
        let limit = self.emitter.bind(dtype, tolerance.parts[0].clone());
        let pairs = left.parts.into_iter().zip(right.parts);
        Some(scalars::any(pairs.map(|(a, b)| {
            let distance = scalars::unary(UnaryOp::Abs, dtype, scalars::sub(dtype, a, b));
            scalars::lt(dtype, limit.clone(), distance)
        })))
    }

    /// `wp.atomic_add(array, i, value)` and the like; the result is the previous value.
    fn atomic_call(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Value> {
        let (op, operands) = match name {
            "atomic_add" | "atomic_sub" => (AtomicOp::Add, 1),
            "atomic_min" => (AtomicOp::Min, 1),
            "atomic_max" => (AtomicOp::Max, 1),
            "atomic_and" => (AtomicOp::And, 1),
            "atomic_or" => (AtomicOp::Or, 1),
            "atomic_xor" => (AtomicOp::Xor, 1),
            "atomic_exch" => (AtomicOp::Exchange, 1),
            "atomic_cas" => (AtomicOp::CompareExchange, 2),
            _ => {
                let message = format!("unsupported function `{name}`");
                return Err(self.error(node, ErrorKind::UnsupportedBuiltin, message));
            }
        };
        let values = self.values(node, arguments)?;
        let mismatch = || {
            let got: Vec<_> = values.iter().map(ToString::to_string).collect();
            format!("`{name}` does not take ({})", got.join(", "))
        };
        let fail = |this: &Self| Err(this.error(node, ErrorKind::ArgumentMismatch, mismatch()));
        let Some(Value::Array(view)) = values.first() else { return fail(self) };
        let view = &self.present(node, view.clone());
        let rank = view.rank();
        if values.len() != 1 + rank + operands {
            return fail(self);
        }
        let element = view.element.clone();
        let is_bitwise = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
        let is_known = |dtype: &Dtype| is_bitwise && dtype.is_float() || is_atomic(op, *dtype);
        let Some(dtype) = element.scalar().filter(is_known) else {
            let message = format!("`{name}` of {element} is unsupported");
            return Err(self.error(node, ErrorKind::UnsupportedType, message));
        };
        let mut element_view = view.clone();
        for (index, dim) in values[1..=rank].iter().zip(view.open()) {
            let Some((index_dtype, part)) = scalar_of(index).filter(|(index_dtype, _)| index_dtype.is_integer()) else {
                return fail(self);
            };
            let (part, to) = Self::index_of(index_dtype, part);
            let part = self.emitter.bind(to, part);
            let part = match &view.axes[dim] {
                Axis::Slice(slice) => self.index_in(node, slice, to, part),
                Axis::All | Axis::Index(_) => {
                    let part = if index_dtype.is_signed() { self.wrapped_index(view, dim, to, part) } else { part };
                    self.selected(node, view, dim, part)
                }
            };
            element_view.axes[dim] = Axis::Index(part);
        }
        let indices = element_view.indices().expect("each dimension has an index");
        let mut parts = vec![];
        for operand in &values[1 + rank..] {
            let Value::Data(data) = operand else { return fail(self) };
            // A scalar operand applies to each component.
            let data = match &data.ty {
                ty if *ty == element => data.clone(),
                Type::Scalar(_) => match constants::adapted(data, dtype) {
                    Some(data) if matches!(element, Type::Scalar(_)) => data,
                    _ => return fail(self),
                },
                _ => return fail(self),
            };
            parts.push(data.parts);
        }
        if is_bitwise && !dtype.is_integer() {
            return fail(self);
        }
        let array = view.array;
        let location =
            Self::whole(element.clone(), Storage::Element { array, indices, site: self.syntax().site(node) });
        let mut parts = parts.into_iter();
        let mut first = parts.next().expect("an operand");
        if name == "atomic_sub" {
            first = first.into_iter().map(|part| scalars::neg(dtype, part)).collect();
        }
        let (operand, expected) = match parts.next() {
            Some(value) => (value, Some(first)),
            None => (first, None),
        };
        let previous = self.atomic(op, &location, operand, expected.as_deref(), true);
        Ok(Data::new(element, previous).into())
    }
}
