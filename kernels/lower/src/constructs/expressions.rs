//! Lowers expressions.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, Stmt};
use accelerd_parser::{Field, Kind, Operator};

use crate::constructs::parts::Part;
use crate::error::{ErrorKind, Lowered};
use crate::lowerer::Lowerer;
use crate::lowerer::emitter::is_deeper;
use crate::source::declarations::Assigned;
use crate::source::environment::{MAX_ITEMS, Number, shorten};
use crate::source::syntax::{Constant, Node};
use crate::types::{self, Type};
use crate::values::constants::{convert, function_of, symbol};
use crate::values::scalars;
use crate::values::{Data, Value};
use crate::warp::operators::warp_comparison;

/// The deepest expression of a kernel that an operation takes; a deeper value is put in a variable first. Expressions are walked by
/// recursion, so their depth must not grow with the source.
const MAX_OPERAND_DEPTH: u32 = 128;
/// Operands of a chain of comparisons, `and` or `or` after which its value so far is put in a variable.
const MAX_CHAIN: usize = 64;
/// Values of a tuple, those of tuples in it included, and how deep they may be nested.
const MAX_TUPLE_VALUES: usize = MAX_ITEMS;
const MAX_TUPLE_DEPTH: usize = 32;

impl Lowerer<'_> {
    /// The value of an expression. A constant is within the range of its type.
    pub(crate) fn expression(&mut self, node: Node) -> Lowered<Value> {
        let value = self.expression_or_call(node)?;
        self.in_range(node, value)
    }

    /// A constant must be within the range of its type.
    fn in_range(&self, node: Node, value: Value) -> Lowered<Value> {
        if let Value::Data(Data { constant: Some(Number::Int(constant)), ty: Type::Scalar(dtype), .. }) = &value {
            let bits = if *dtype == Dtype::I64 { 63 } else { 31 };
            let range = -(1_i128 << bits)..1 << bits;
            if matches!(dtype, Dtype::I32 | Dtype::I64) && !range.contains(constant) {
                let message = format!("expected a constant in the range of {}, got {constant}", types::name(*dtype));
                return Err(self.error(node, ErrorKind::ConstantOutOfRange, message));
            }
        }
        Ok(value)
    }

    /// The value of an expression; a constant may be outside the range of its type, for conversion to another.
    pub(crate) fn expression_or_call(&mut self, node: Node) -> Lowered<Value> {
        self.nested(node, |this| this.expression_below(node))
    }

    /// The value of an operand, or an element that [`Self::loaded`] reads once all operands of an operation are evaluated, as Warp does.
    pub(crate) fn operand(&mut self, node: Node) -> Lowered<Value> {
        match self.syntax().kind(node) {
            Kind::Attribute | Kind::Subscript => {
                let value = self.nested(node, |this| this.unread_part(node))?;
                self.in_range(node, value)
            }
            Kind::Name if self.is_reference(node) => self.resolve_name(node).map(|part| match part {
                Part::Location(location) => Value::Reference(location),
                Part::Value(value) => value,
            }),
            _ => self.expression(node),
        }
    }

    /// The value of an operand.
    pub(crate) fn loaded(&mut self, operand: Value) -> Value {
        match operand {
            Value::Reference(location) => self.read(location).into(),
            value => value,
        }
    }

    /// The values of operands.
    pub(crate) fn operands<const N: usize>(&mut self, nodes: [Node; N]) -> Lowered<[Value; N]> {
        let mut operands = vec![];
        for node in nodes {
            operands.push(self.operand(node)?);
        }
        let operands = <[Value; N]>::try_from(operands).unwrap_or_else(|_| unreachable!("one for each node"));
        Ok(operands.map(|operand| self.loaded(operand)))
    }

    fn expression_below(&mut self, node: Node) -> Lowered<Value> {
        let syntax = self.syntax();
        match syntax.kind(node) {
            Kind::Constant => self.constant(node),
            Kind::Name => self.name(node),
            Kind::Attribute | Kind::Subscript => self.part(node),
            Kind::Tuple => {
                let items = self
                    .limited(node, "values", syntax.children(node, Field::Elts))?
                    .into_iter()
                    .map(|item| self.operand(item))
                    .collect::<Lowered<Vec<_>>>()?;
                let tuple = Value::Tuple(items.into_iter().map(|item| self.loaded(item)).collect());
                self.limited_tuple(node, tuple)
            }
            _ => {
                let value = self.operation(node)?;
                // A later operand may change variables that it reads.
                Ok(if self.environment.declarations.has_effects() {
                    self.materialize(value)
                } else {
                    self.shallow(value)
                })
            }
        }
    }

    /// The nodes of a list in the source, if they are not too many.
    pub(crate) fn limited(&self, node: Node, what: &str, nodes: impl Iterator<Item = Node>) -> Lowered<Vec<Node>> {
        let nodes: Vec<_> = nodes.take(MAX_ITEMS + 1).collect();
        if nodes.len() > MAX_ITEMS {
            let message = format!("expected at most {MAX_ITEMS} {what}");
            return Err(self.error(node, ErrorKind::TooLarge, message));
        }
        Ok(nodes)
    }

    /// A tuple that is neither too long nor too deep: tuples of tuples may double with each statement.
    fn limited_tuple(&self, node: Node, tuple: Value) -> Lowered<Value> {
        let (values, depth) = tuple_size(&tuple);
        if values > MAX_TUPLE_VALUES {
            let message = format!("expected a tuple of at most {MAX_TUPLE_VALUES} values, got {values}");
            return Err(self.error(node, ErrorKind::TooLarge, message));
        }
        if depth > MAX_TUPLE_DEPTH {
            let message = format!("expected tuples nested at most {MAX_TUPLE_DEPTH} deep");
            return Err(self.error(node, ErrorKind::TooDeep, message));
        }
        self.add_work(values);
        Ok(tuple)
    }

    /// The value, in variables if its expressions are deep.
    pub(crate) fn shallow(&mut self, value: Value) -> Value {
        let is_deep = |part: &Expr| is_deeper(part, MAX_OPERAND_DEPTH);
        match value {
            Value::Data(data) if data.parts.iter().any(is_deep) => Value::Data(self.bind(data)),
            other => other,
        }
    }

    /// The value of the first operands of a chain, in a variable from time to time.
    fn chained(&mut self, operands: usize, value: Expr) -> Expr {
        let is_due = operands.is_multiple_of(MAX_CHAIN);
        if is_due { self.emitter.temp_unless_literal(Dtype::Bool, value) } else { value }
    }

    fn operation(&mut self, node: Node) -> Lowered<Value> {
        let syntax = self.syntax();
        match syntax.kind(node) {
            Kind::BinOp if self.is_python() => self.binary_operation_of_python(node),
            Kind::BinOp => self.binary_operation(node),
            Kind::UnaryOp => self.unary_operation(node),
            Kind::Compare => self.comparison(node),
            Kind::BoolOp => self.boolean_operation(node),
            Kind::IfExp => self.conditional_expression(node),
            Kind::Call => self.call(node),
            kind => {
                let message = format!("unsupported expression `{}`", kind.name());
                Err(self.error(node, ErrorKind::UnsupportedExpression, message))
            }
        }
    }

    fn binary_operation(&mut self, node: Node) -> Lowered<Value> {
        let syntax = self.syntax();
        let nodes = [Field::Left, Field::Right].map(|field| syntax.required(node, field));
        let [left, right] = self.operands(nodes)?;
        self.binary(node, syntax.operator(node), left, right)
    }

    fn binary_operation_of_python(&mut self, node: Node) -> Lowered<Value> {
        match self.selected_bits(node)? {
            Some(value) => Ok(value),
            None => self.binary_operation(node),
        }
    }

    fn constant(&self, node: Node) -> Lowered<Value> {
        match self.syntax().constant(node) {
            Constant::Int(value) => Ok(self.number(Number::Int(value)).into()),
            Constant::Float(value) => Ok(self.number(Number::Float(value)).into()),
            Constant::Bool(value) => Ok(self.number(Number::Bool(value)).into()),
            Constant::Str(_) => Ok(Value::Str),
            Constant::None => Ok(Value::None),
            Constant::Other => {
                let message = format!("unsupported constant `{}`", shorten(&self.syntax().text(node)));
                Err(self.error(node, ErrorKind::UnsupportedExpression, message))
            }
        }
    }

    /// A constant of Python as a value of the dialect.
    pub(crate) fn number(&self, number: Number) -> Data {
        let is_python = self.is_python();
        let literal = match number {
            Number::Int(_) => convert(number, if is_python { Dtype::I64 } else { Dtype::I32 }),
            Number::Float(_) => convert(number, if is_python { Dtype::F64 } else { Dtype::F32 }),
            Number::Bool(_) => convert(number, Dtype::Bool),
        };
        Data { constant: Some(number), ..Data::literal(literal) }
    }

    fn name(&mut self, node: Node) -> Lowered<Value> {
        let name = self.syntax().name(node).unwrap_or_default();
        if let Some(kind) = self.variable(node, &name) {
            let value = Self::value_of(&kind);
            let value = self.loaded(value);
            if let Value::Record(_, fields) = &value {
                self.add_work(fields.len());
            }
            let constant = self.frame().variables.get(&name).and_then(|variable| variable.constant);
            return Ok(match value {
                Value::Data(data) => Value::Data(Data { constant, ..data }),
                other => other,
            });
        }
        if self.frame().locals.contains(&name) {
            let message = format!("variable `{name}` is read before its assignment");
            return Err(self.error(node, ErrorKind::UnassignedVariable, message));
        }
        let scope = self.outer_scope();
        if let Some(number) = self.environment.number(node, scope) {
            return Ok(self.number(number).into());
        }
        let is_captured = self.environment.captured(&name).is_some();
        if let Some(function) = self.environment.callable(node, scope).filter(|_| !is_captured) {
            return Ok(Value::Function(function));
        }
        match self.environment.declarations.assigned(self.syntax(), scope, &name) {
            Some((scope, Assigned::Once(value))) if !is_captured => self.outer_value(node, &name, value, scope),
            Some((_, Assigned::Ambiguous)) if !is_captured => {
                let message =
                    format!("`{name}` has no single constant value in the source; pass it as a captured name");
                Err(self.error(node, ErrorKind::AmbiguousName, message))
            }
            _ => Err(self.error(node, ErrorKind::UnknownName, format!("unknown name `{name}`"))),
        }
    }

    /// A constant vector, matrix or scalar of a type, which its assignment outside the function constructs.
    fn outer_value(
        &mut self,
        node: Node,
        name: &str,
        value: Node,
        scope: crate::source::declarations::Scope,
    ) -> Lowered<Value> {
        let syntax = self.syntax();
        let mut value = value;
        let not_constant = |this: &Self| {
            let message = format!("expected a constant as the value of `{name}`");
            this.error(node, ErrorKind::NotConstant, message)
        };
        loop {
            if syntax.kind(value) != Kind::Call {
                return Err(not_constant(self));
            }
            let callee = syntax.required(value, Field::Func);
            if self.environment.declarations.path(syntax, callee).as_deref() == Some("warp.constant") {
                value = syntax.child(value, Field::Args).ok_or_else(|| not_constant(self))?;
                if let Some(number) = self.environment.number(value, scope) {
                    return Ok(self.number(number).into());
                }
            } else if let Some(ty) = self.environment.data_type(callee, scope) {
                // Python computes it, before it has the type.
                let mut arguments = syntax.children(value, Field::Args);
                let number = arguments.next().and_then(|argument| self.environment.number(argument, scope));
                if let (Type::Scalar(_), Some(number), None) = (&ty, number, arguments.next()) {
                    let number = self.number(number).into();
                    return self.construct_from(node, &ty, vec![number]).map(Value::Data);
                }
                break;
            } else {
                return Err(not_constant(self));
            }
        }
        let frame = self.frame_mut();
        let locals = std::mem::take(&mut frame.locals);
        let variables = std::mem::take(&mut frame.variables);
        let outer = std::mem::replace(&mut frame.scope, scope);
        let result = self.call(value);
        let frame = self.frame_mut();
        (frame.locals, frame.variables, frame.scope) = (locals, variables, outer);
        let result = result?;
        match &result {
            Value::Data(data) if data.parts.iter().all(|part| matches!(part, Expr::Literal(_))) => Ok(result),
            _ => Err(not_constant(self)),
        }
    }

    fn unary_operation(&mut self, node: Node) -> Lowered<Value> {
        let syntax = self.syntax();
        let operand = syntax.required(node, Field::Operand);
        let op = syntax.operator(node);
        if op == Operator::Not {
            return Ok(Data::scalar(Dtype::Bool, scalars::not(self.condition(operand)?)).into());
        }
        let value = match op {
            Operator::USub => self.expression_or_call(operand)?,
            _ => self.expression(operand)?,
        };
        let Value::Data(data) = value else {
            return Err(self.error(node, ErrorKind::TypeMismatch, format!("expected a number, got {value}")));
        };
        if let (Operator::USub, Some(number @ (Number::Int(_) | Number::Float(_)))) = (op, data.constant) {
            let negated = match number {
                Number::Int(value) => Number::Int(-value),
                Number::Float(value) => Number::Float(-value),
                Number::Bool(_) => unreachable!("excluded by the pattern"),
            };
            return Ok(self.number(negated).into());
        }
        if self.is_python() { self.python_unary(node, op, &data) } else { self.warp_unary(node, op, data) }
    }

    /// The result of an operator of two operands.
    pub(crate) fn binary(&mut self, node: Node, op: Operator, left: Value, right: Value) -> Lowered<Value> {
        let (left, right) = match (left, right) {
            (Value::Data(left), Value::Data(right)) => (left, right),
            (left, right) => {
                let message = format!("`{}` does not take {left} and {right}", symbol(op));
                return Err(self.error(node, ErrorKind::TypeMismatch, message));
            }
        };
        if self.is_python() {
            return self.python_binary(node, op, &left, &right);
        }
        if let Some(name) = function_of(op)
            && let Some(result) = self.defined_operator(node, name, [&left, &right])?
        {
            return Ok(result);
        }
        self.warp_binary(node, op, left, right)
    }

    fn comparison(&mut self, node: Node) -> Lowered<Value> {
        let syntax = self.syntax();
        let mut left = self.operand(syntax.required(node, Field::Left))?;
        let ops: Vec<_> = syntax.children(node, Field::Ops).map(|op| syntax.operator(op)).collect();
        let comparators: Vec<_> = syntax.children(node, Field::Comparators).collect();
        let is_chain = ops.len() > 1;
        let mut result: Option<Expr> = None;
        for (nth, (op, comparator)) in ops.into_iter().zip(comparators).enumerate() {
            let Some(known) = result else {
                let right = self.operand(comparator)?;
                left = self.loaded(left);
                let right = self.loaded(right);
                let right = if is_chain { self.bind_value(right) } else { right };
                result = Some(self.compare(node, op, left, right.clone(), false)?);
                left = right;
                continue;
            };
            let known = self.chained(nth, known);
            // Warp evaluates all operands of a chain; Python those up to the first comparison that does not hold.
            self.emitter.open();
            let step = self.expression(comparator).and_then(|right| {
                let right = self.bind_value(right);
                Ok((self.compare(node, op, left, right.clone(), true)?, right))
            });
            let stmts = self.emitter.close();
            let (holds, right) = step?;
            left = right;
            result = Some(if self.is_python() && !stmts.is_empty() {
                self.and_then(known, stmts, holds)
            } else {
                self.emitter.splice(stmts);
                scalars::and(known, holds)
            });
        }
        Ok(Data::scalar(Dtype::Bool, result.expect("the grammar requires an operator")).into())
    }

    /// The conjunction of two conditions; the second needs statements, which run only if the first is true.
    fn and_then(&mut self, first: Expr, stmts: Vec<Stmt>, second: Expr) -> Expr {
        let local = self.emitter.local("t", Dtype::Bool);
        self.emitter.emit(Stmt::Assign(local, first));
        self.emitter.open();
        self.emitter.splice(stmts);
        self.emitter.emit(Stmt::Assign(local, second));
        let stmts = self.emitter.close();
        self.emitter.emit(Stmt::If(Expr::Local(local), stmts, vec![]));
        Expr::Local(local)
    }

    fn bind_value(&mut self, value: Value) -> Value {
        match value {
            Value::Data(data) => Value::Data(self.bind(data)),
            other => other,
        }
    }

    /// A comparison as an expression; in a chain Warp takes equal types only.
    fn compare(&mut self, node: Node, op: Operator, left: Value, right: Value, is_chained: bool) -> Lowered<Expr> {
        let message = format!("`{}` does not compare {left} and {right}", symbol(op));
        let (Value::Data(left), Value::Data(right)) = (left, right) else {
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        };
        if is_chained && !self.is_python() && left.ty != right.ty {
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        let result =
            if self.is_python() { self.python_comparison(op, &left, &right) } else { warp_comparison(op, left, right) };
        result.ok_or_else(|| self.error(node, ErrorKind::TypeMismatch, message))
    }

    fn boolean_operation(&mut self, node: Node) -> Lowered<Value> {
        let syntax = self.syntax();
        let is_and = syntax.operator(node) == Operator::And;
        let operands: Vec<_> = syntax.children(node, Field::Values).collect();
        let mut result: Option<Expr> = None;
        for (nth, operand) in operands.into_iter().enumerate() {
            let Some(known) = result else {
                result = Some(self.operand_truth(operand)?);
                continue;
            };
            if let Expr::Literal(literal) = known
                && literal.is_truthy() != is_and
            {
                result = Some(known);
                break;
            }
            let known = self.chained(nth, known);
            self.emitter.open();
            let value = self.operand_truth(operand);
            let stmts = self.emitter.close();
            let value = value?;
            result = Some(if stmts.is_empty() {
                if is_and { scalars::and(known, value) } else { scalars::or(known, value) }
            } else {
                let local = self.emitter.local("t", Dtype::Bool);
                self.emitter.emit(Stmt::Assign(local, known));
                let condition = if is_and { Expr::Local(local) } else { scalars::not(Expr::Local(local)) };
                self.emitter.open();
                self.emitter.splice(stmts);
                self.emitter.emit(Stmt::Assign(local, value));
                let stmts = self.emitter.close();
                self.emitter.emit(Stmt::If(condition, stmts, vec![]));
                Expr::Local(local)
            });
        }
        let result = result.expect("the grammar requires two operands");
        Ok(Data::scalar(Dtype::Bool, result).into())
    }

    /// The truth of an operand of `and` or `or`, whose result is a bool in Warp. In Python it is the operand itself, so that operands
    /// other than bools are refused.
    fn operand_truth(&mut self, node: Node) -> Lowered<Expr> {
        let value = self.expression(node)?;
        let is_bool = matches!(&value, Value::Data(data) if data.ty == Type::BOOL);
        if self.is_python() && !is_bool {
            let message = format!("expected bool operands of `and` and `or`, got {value}");
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        self.truth(node, &value)
    }

    fn conditional_expression(&mut self, node: Node) -> Lowered<Value> {
        let syntax = self.syntax();
        let condition = self.condition(syntax.required(node, Field::Test))?;
        let [body, orelse] = [Field::Body, Field::Orelse].map(|field| syntax.required(node, field));
        if let Expr::Literal(literal) = condition {
            return self.expression(if literal.is_truthy() { body } else { orelse });
        }
        let mut branch = |node| {
            self.emitter.open();
            let value = self.expression(node);
            let stmts = self.emitter.close();
            value.map(|value| (value, stmts))
        };
        let (then, then_stmts) = branch(body)?;
        let (otherwise, otherwise_stmts) = branch(orelse)?;
        match (then, otherwise) {
            (Value::Data(then), Value::Data(otherwise)) if then.ty == otherwise.ty => {
                Ok(self.join(condition, (then, then_stmts), (otherwise, otherwise_stmts)).into())
            }
            (then @ Value::Tuple(_), otherwise) if self.is_python() => {
                let message = format!("expected values of one type, got {then} and {otherwise}");
                let joined = self.join_tuples(condition, (then, then_stmts), (otherwise, otherwise_stmts));
                joined.ok_or_else(|| self.error(node, ErrorKind::TypeMismatch, message))
            }
            (then, otherwise) => {
                let message = format!("expected values of one type, got {then} and {otherwise}");
                Err(self.error(node, ErrorKind::TypeMismatch, message))
            }
        }
    }

    /// One of two tuples, each with the statements that it needs; `None` if their types differ.
    fn join_tuples(
        &mut self,
        condition: Expr,
        (then, then_stmts): (Value, Vec<Stmt>),
        (otherwise, otherwise_stmts): (Value, Vec<Stmt>),
    ) -> Option<Value> {
        let mut slots = self.result_slots(&then)?;
        let mut branch = |value, stmts| {
            self.emitter.open();
            self.emitter.splice(stmts);
            let is_stored = self.store_slots(&mut slots, value);
            let stmts = self.emitter.close();
            is_stored.then_some(stmts)
        };
        let then = branch(then, then_stmts)?;
        let otherwise = branch(otherwise, otherwise_stmts)?;
        self.emitter.emit(Stmt::If(condition, then, otherwise));
        Some(Self::load_slots(&slots))
    }

    /// One of two values of a type, each with the statements that it needs.
    pub(crate) fn join(&mut self, condition: Expr, then: (Data, Vec<Stmt>), otherwise: (Data, Vec<Stmt>)) -> Data {
        let ty = then.0.ty.clone();
        if then.1.is_empty() && otherwise.1.is_empty() {
            let condition = self.emitter.bind(Dtype::Bool, condition);
            let parts = then.0.parts.into_iter().zip(otherwise.0.parts);
            return Data::new(ty, parts.map(|(a, b)| scalars::select(condition.clone(), a, b)).collect());
        }
        let slots: Vec<_> = ty.components().into_iter().map(|dtype| self.emitter.local("t", dtype)).collect();
        let [then, otherwise] = [then, otherwise].map(|(data, stmts)| {
            self.emitter.open();
            self.emitter.splice(stmts);
            self.store_locals(&slots, data.parts);
            self.emitter.close()
        });
        self.emitter.emit(Stmt::If(condition, then, otherwise));
        Data::new(ty, slots.into_iter().map(Expr::Local).collect())
    }
}

/// The values of a tuple, and how deep they are nested.
fn tuple_size(value: &Value) -> (usize, usize) {
    let Value::Tuple(items) = value else { return (1, 0) };
    let sizes = items.iter().map(tuple_size);
    let (values, depth) = sizes.fold((0, 0), |(sum, deepest), (values, depth)| (sum + values, deepest.max(depth)));
    (values, depth + 1)
}
