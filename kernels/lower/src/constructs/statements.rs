//! Lowers statements.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, FaultKind, Stmt};
use accelerd_parser::{Field, Kind};

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::{LoopLabels, Lowerer, Returns, VariableKind};
use crate::source::syntax::{Constant, Node};
use crate::types::Type;
use crate::types::parameters::Annotation;
use crate::values::ranges::ReversedRange;
use crate::values::scalars;
use crate::values::{Data, Location, Storage, Value};

/// Control flow after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Leaves,
}

/// The greatest bound or step of a range in reverse, of 64 bits.
const MAX_REVERSED: i64 = 1 << 61;

impl Lowerer<'_> {
    /// Lowers the statements of a field. Those after one that always leaves are not reached.
    pub(crate) fn body(&mut self, node: Node, field: Field) -> Lowered<Flow> {
        let statements: Vec<_> = self.syntax().children(node, field).collect();
        for (nth, &statement) in statements.iter().enumerate() {
            let bits = self.read_bits(&statements[nth..]);
            if self.nested(statement, |this| this.statement(statement, bits))? == Flow::Leaves {
                return Ok(Flow::Leaves);
            }
        }
        Ok(Flow::Next)
    }

    /// Lowers a statement. Only `bits` low bits of the variable that it assigns are read, if they are given.
    fn statement(&mut self, node: Node, bits: Option<u32>) -> Lowered<Flow> {
        let syntax = self.syntax();
        match syntax.kind(node) {
            Kind::Assign => self.assign(node, bits)?,
            Kind::AnnAssign => self.annotated_assign(node)?,
            Kind::AugAssign => self.augmented_assign(node, bits)?,
            Kind::If => return self.conditional(node),
            Kind::For => self.for_loop(node)?,
            Kind::While => return self.while_loop(node),
            Kind::Expr => self.expression_statement(node)?,
            Kind::Assert => self.assertion(node)?,
            Kind::Return => return self.return_statement(node),
            Kind::Break | Kind::Continue => return self.leave_loop(node),
            Kind::Raise if self.is_python() => return Ok(self.raise(node)),
            Kind::Pass => {}
            kind => {
                let message = format!("unsupported statement `{}`", kind.name());
                return Err(self.error(node, ErrorKind::UnsupportedStatement, message));
            }
        }
        Ok(Flow::Next)
    }

    fn assign(&mut self, node: Node, bits: Option<u32>) -> Lowered<()> {
        let syntax = self.syntax();
        let targets = self.limited(node, "targets", syntax.children(node, Field::Targets))?;
        let value = syntax.required(node, Field::Value);
        let value = match bits {
            Some(bits) => self.low_bits(value, bits)?,
            None => self.expression(value)?,
        };
        let value = if targets.len() > 1 { self.materialize(value) } else { value };
        targets.into_iter().try_for_each(|target| self.store(target, value.clone()))
    }

    fn annotated_assign(&mut self, node: Node) -> Lowered<()> {
        let syntax = self.syntax();
        let target = syntax.required(node, Field::Target);
        let Some(value) = syntax.child(node, Field::Value) else {
            return Err(self.error(node, ErrorKind::UnsupportedStatement, "expected a value after the annotation"));
        };
        let value = self.expression(value)?;
        let annotation = self.environment.annotation(syntax.required(node, Field::Annotation), self.outer_scope())?;
        let value = self.checked_argument(target, &annotation, value)?;
        self.store(target, value)
    }

    /// Assigns a value to a target.
    pub(crate) fn store(&mut self, target: Node, value: Value) -> Lowered<()> {
        let syntax = self.syntax();
        match syntax.kind(target) {
            Kind::Name => {
                let name = syntax.name(target).unwrap_or_default();
                self.assign_variable(target, &name, value)
            }
            Kind::Tuple | Kind::List => {
                let targets = self.limited(target, "targets", syntax.children(target, Field::Elts))?;
                let values = self.unpack(target, value, targets.len())?;
                targets.into_iter().zip(values).try_for_each(|(target, value)| self.store(target, value))
            }
            Kind::Attribute | Kind::Subscript => self.store_part(target, value),
            kind => {
                let message = format!("unsupported target `{}`", kind.name());
                Err(self.error(target, ErrorKind::UnsupportedStatement, message))
            }
        }
    }

    fn store_part(&mut self, target: Node, value: Value) -> Lowered<()> {
        let Value::Data(data) = value else { return self.store_field(target, value) };
        let location = self.target(target)?;
        self.refuse_list(target, &location)?;
        let data = self.converted_element(target, &location.ty, data)?;
        self.write(target, location, data)
    }

    /// Lists are arguments of Python's functions, which may only read them.
    fn refuse_list(&self, node: Node, location: &Location) -> Lowered<()> {
        if self.is_python() && matches!(location.storage, Storage::Element { .. }) {
            let message = "assignment to an item of a list is unsupported";
            return Err(self.error(node, ErrorKind::UnsupportedStatement, message));
        }
        Ok(())
    }

    /// The items of a tuple or vector.
    pub(crate) fn items_of(&self, node: Node, value: Value) -> Lowered<Vec<Value>> {
        match value {
            Value::Tuple(items) => Ok(items),
            Value::Data(Data { ty: Type::Vector(dtype, _) | Type::Quat(dtype), parts, .. }) => {
                Ok(parts.into_iter().map(|part| Data::scalar(dtype, part).into()).collect())
            }
            other => {
                let message = format!("expected several values, got {other}");
                Err(self.error(node, ErrorKind::TypeMismatch, message))
            }
        }
    }

    /// Values of a tuple or vector, which are then independent of later assignments.
    fn unpack(&mut self, node: Node, value: Value, count: usize) -> Lowered<Vec<Value>> {
        let value = self.materialize(value);
        let values = self.items_of(node, value)?;
        if values.len() == count {
            return Ok(values);
        }
        let message = format!("expected {count} values, got {}", values.len());
        Err(self.error(node, ErrorKind::TypeMismatch, message))
    }

    /// The value in variables of its own.
    pub(crate) fn materialize(&mut self, value: Value) -> Value {
        match value {
            Value::Data(data) => {
                let types = data.ty.components();
                let parts = data.parts.into_iter().zip(types).map(|(part, dtype)| match part {
                    Expr::Literal(_) | Expr::ThreadId(_) | Expr::Param(..) | Expr::Extent(..) => part,
                    part => self.emitter.temp(dtype, part),
                });
                Value::Data(Data { parts: parts.collect(), ty: data.ty, constant: data.constant })
            }
            Value::Tuple(items) => Value::Tuple(items.into_iter().map(|item| self.materialize(item)).collect()),
            Value::Record(record, fields) => {
                Value::Record(record, fields.into_iter().map(|field| self.materialize(field)).collect())
            }
            other => other,
        }
    }

    fn augmented_assign(&mut self, node: Node, bits: Option<u32>) -> Lowered<()> {
        let syntax = self.syntax();
        let target = syntax.required(node, Field::Target);
        let op = syntax.operator(node);
        let value_node = syntax.required(node, Field::Value);
        if let Some(bits) = bits {
            let result = self.augmented_low_bits(node, bits)?;
            return self.store(target, result);
        }
        if syntax.kind(target) == Kind::Name {
            let current = self.expression(target)?;
            let value = self.expression(value_node)?;
            let result = self.binary(node, op, current, value)?;
            return self.store(target, result);
        }
        let location = self.target(target)?;
        self.refuse_list(target, &location)?;
        if !self.is_python()
            && matches!(location.storage, Storage::Element { .. })
            && !self.is_reference(target)
            && self.augment_atomically(node, op, &location, value_node)?
        {
            return Ok(());
        }
        let current = self.read(location.clone());
        let value = self.expression(value_node)?;
        let Value::Data(result) = self.binary(node, op, current.into(), value)? else {
            return Err(self.error(node, ErrorKind::TypeMismatch, "expected a value"));
        };
        let result = self.converted_element(node, &location.ty, result)?;
        self.write(node, location, result)
    }

    fn conditional(&mut self, node: Node) -> Lowered<Flow> {
        let syntax = self.syntax();
        let condition = self.condition(syntax.required(node, Field::Test))?;
        if let Expr::Literal(literal) = condition {
            return self.body(node, if literal.is_truthy() { Field::Body } else { Field::Orelse });
        }
        let before = self.knowledge();
        let mut paths = vec![];
        let mut branch = |this: &mut Self, field| {
            this.restore(&before);
            this.emitter.open();
            this.frame_mut().nesting += 1;
            let flow = this.body(node, field);
            this.frame_mut().nesting -= 1;
            let stmts = this.emitter.close();
            if flow.clone()? == Flow::Next {
                paths.push(this.knowledge());
            }
            Ok(stmts)
        };
        let then = branch(self, Field::Body)?;
        let otherwise = branch(self, Field::Orelse)?;
        self.emitter.emit(Stmt::If(condition, then, otherwise));
        if paths.is_empty() {
            return Ok(Flow::Leaves);
        }
        self.merge(&paths);
        Ok(Flow::Next)
    }

    /// Lowers the body of a loop.
    pub(crate) fn loop_body(&mut self, node: Node, labels: LoopLabels) -> Lowered<()> {
        self.frame_mut().loops.push(labels);
        self.frame_mut().nesting += 1;
        let flow = self.body(node, Field::Body);
        self.frame_mut().nesting -= 1;
        self.frame_mut().loops.pop();
        flow.map(|_| ())
    }

    fn while_loop(&mut self, node: Node) -> Lowered<Flow> {
        self.refuse_else(node)?;
        let test = self.syntax().required(node, Field::Test);
        self.forget_assigned(&self.assigned_names(node));
        let end = self.emitter.label();
        let before = self.knowledge();
        self.emitter.open();
        let condition = self.condition(test)?;
        let is_endless = matches!(condition, Expr::Literal(literal) if literal.is_truthy());
        if !is_endless {
            self.emitter.emit(Stmt::If(scalars::not(condition), vec![Stmt::Break(end)], vec![]));
        }
        self.loop_body(node, LoopLabels { end, next: None })?;
        let body = self.emitter.close();
        let is_left = leaves(&body, end);
        self.emitter.emit(Stmt::Loop(end, body));
        self.restore(&before);
        Ok(if is_left { Flow::Next } else { Flow::Leaves })
    }

    fn for_loop(&mut self, node: Node) -> Lowered<()> {
        self.refuse_else(node)?;
        let syntax = self.syntax();
        let target = syntax.required(node, Field::Target);
        if syntax.kind(target) != Kind::Name {
            return Err(self.error(target, ErrorKind::UnsupportedStatement, "expected one variable for a range"));
        }
        let name = syntax.name(target).unwrap_or_default();
        if self.unrolled_loop(node, &name)? {
            return Ok(());
        }
        let dtype = if self.is_python() { Dtype::I64 } else { Dtype::I32 };
        let iterable = syntax.required(node, Field::Iter);
        if self.query_loop(node, &name, iterable)? {
            return Ok(());
        }
        let reversed = self.reversed_range(iterable, dtype)?;
        let bounds = match &reversed {
            Some(reversed) => reversed.counts(),
            None => self.range(iterable, dtype)?,
        };
        let [start, end, step] = bounds;
        let label = self.emitter.label();
        let names = self.assigned_names(node);
        self.forget_assigned(&names);
        self.rebind_loop_variable(node, &name, dtype)?;
        // The variable keeps its value where there is no iteration.
        let counter = self.emitter.local(&name, if reversed.is_some() { Dtype::I64 } else { dtype });
        let is_upward = matches!(&step, Expr::Literal(step) if step.as_i64() >= 0);
        if is_upward && self.emitter.is_non_negative(&start) {
            self.emitter.mark_non_negative(counter);
        }
        let value = match reversed {
            Some(reversed) => reversed.value(dtype, Expr::Local(counter)),
            None => Expr::Local(counter),
        };
        let before = self.knowledge();
        self.emitter.open();
        self.assign_variable(target, &name, Data::scalar(dtype, value).into())?;
        self.loop_body(node, LoopLabels { end: label, next: None })?;
        let body = self.emitter.close();
        self.emitter.emit(Stmt::For { label, counter, start, end, step, body });
        self.restore(&before);
        Ok(())
    }

    /// Forgets a variable of another type that has the name of a loop's. In a loop around it, the next iteration must not read the former.
    pub(crate) fn rebind_loop_variable(&mut self, node: Node, name: &str, dtype: Dtype) -> Lowered<()> {
        let is_same = match self.frame().variables.get(name).map(|known| &known.kind) {
            Some(VariableKind::Data(ty, _)) => *ty == Type::Scalar(dtype),
            Some(_) => false,
            None => true,
        };
        if is_same {
            return Ok(());
        }
        let is_reference = self.is_reference(self.syntax().required(node, Field::Target));
        if self.is_python() || is_reference || self.is_read_before(node, name) {
            let message = format!("variable `{name}` of the loop has another type already");
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        self.forget_variable(name);
        Ok(())
    }

    /// Returns true if the outermost loop around a statement reads a name before the statement.
    fn is_read_before(&self, node: Node, name: &str) -> bool {
        let syntax = self.syntax();
        let around = std::iter::successors(syntax.parent(node), |&node| syntax.parent(node));
        let is_inside = |&node: &Node| node != self.frame().function;
        let Some(outermost) =
            around.take_while(is_inside).filter(|&node| matches!(syntax.kind(node), Kind::For | Kind::While)).last()
        else {
            return false;
        };
        let mut open = vec![outermost];
        while let Some(index) = open.pop() {
            let is_read = syntax.kind(index) == Kind::Name && !syntax.is_store(index) && index < node;
            if is_read && syntax.name(index).as_deref() == Some(name) {
                return true;
            }
            open.extend(syntax.all_children(index));
        }
        false
    }

    /// The range of `reversed(range(...))`.
    fn reversed_range(&mut self, node: Node, dtype: Dtype) -> Lowered<Option<ReversedRange>> {
        let syntax = self.syntax();
        let is_reversed = self.calls_python(node, "reversed");
        let mut arguments = syntax.children(node, Field::Args);
        let (Some(range), None) = (arguments.next().filter(|_| is_reversed), arguments.next()) else {
            return Ok(None);
        };
        let wide = self.range(range, dtype)?.map(|bound| scalars::cast(dtype, Dtype::I64, bound));
        let [start, end, step] = wide.map(|bound| self.emitter.temp_unless_literal(Dtype::I64, bound));
        if dtype == Dtype::I64 {
            for bound in [&start, &end, &step] {
                self.refuse_huge(node, bound);
            }
        }
        let count = self.emitter.temp_unless_literal(Dtype::I64, ReversedRange::count(&start, end, &step));
        Ok(Some(ReversedRange { start, step, count }))
    }

    /// Faults where a bound or step of a range in reverse is so large that the number of its values may not be one of 64 bits.
    fn refuse_huge(&mut self, node: Node, bound: &Expr) {
        let limit = |value| scalars::integer(Dtype::I64, value);
        let is_low = scalars::lt(Dtype::I64, bound.clone(), limit(-MAX_REVERSED));
        let is_high = scalars::lt(Dtype::I64, limit(MAX_REVERSED), bound.clone());
        if !matches!(bound, Expr::Literal(literal) if (-MAX_REVERSED..=MAX_REVERSED).contains(&literal.as_i64())) {
            self.emitter.fault_if(scalars::or(is_low, is_high), FaultKind::InvalidValue, self.syntax().site(node));
        }
    }

    /// The bounds and step of `range(...)`.
    fn range(&mut self, node: Node, dtype: Dtype) -> Lowered<[Expr; 3]> {
        let syntax = self.syntax();
        if !self.calls_python(node, "range") || syntax.child(node, Field::Keywords).is_some() {
            return Err(self.error(node, ErrorKind::UnsupportedStatement, "expected `range(...)` as the iterable"));
        }
        let nodes: Vec<_> = syntax.children(node, Field::Args).collect();
        let mut arguments = vec![];
        for &argument in &nodes {
            let value = self.expression(argument)?;
            let is_constant = matches!(&value, Value::Data(Data { constant: Some(_), .. }));
            let value = self.scalar_in(argument, &value)?;
            let is_bool = (self.is_python() || is_constant) && value.0 == Dtype::Bool;
            if value.0 != dtype && !is_bool {
                let expected = crate::types::name(dtype);
                let message = format!("expected {expected} in a range, got {}", crate::types::name(value.0));
                return Err(self.error(argument, ErrorKind::TypeMismatch, message));
            }
            arguments.push(self.emitter.temp_unless_literal(dtype, scalars::cast(value.0, dtype, value.1)));
        }
        let zero = || scalars::integer(dtype, 0);
        let one = || scalars::integer(dtype, 1);
        let count = arguments.len();
        let mut arguments = arguments.into_iter();
        let mut next = || arguments.next().expect("counted");
        match count {
            1 => Ok([zero(), next(), one()]),
            2 => Ok([next(), next(), one()]),
            3 => {
                let bounds = [next(), next(), next()];
                if self.is_python() {
                    let is_zero = scalars::eq(dtype, bounds[2].clone(), zero());
                    self.emitter.fault_if(is_zero, FaultKind::InvalidValue, syntax.site(node));
                }
                Ok(bounds)
            }
            count => {
                let message = format!("expected 1 to 3 arguments of range, got {count}");
                Err(self.error(node, ErrorKind::ArgumentMismatch, message))
            }
        }
    }

    fn refuse_else(&self, node: Node) -> Lowered<()> {
        match self.syntax().child(node, Field::Orelse) {
            Some(otherwise) => {
                Err(self.error(otherwise, ErrorKind::UnsupportedStatement, "`else` of a loop is unsupported"))
            }
            None => Ok(()),
        }
    }

    fn leave_loop(&mut self, node: Node) -> Lowered<Flow> {
        let Some(labels) = self.frame().loops.last().copied() else {
            return Err(self.error(
                node,
                ErrorKind::UnsupportedStatement,
                "expected a loop around `break` or `continue`",
            ));
        };
        let is_break = self.syntax().kind(node) == Kind::Break;
        self.emitter.emit(match labels.next {
            _ if is_break => Stmt::Break(labels.end),
            Some(next) => Stmt::Break(next),
            None => Stmt::Continue(labels.end),
        });
        Ok(Flow::Leaves)
    }

    fn expression_statement(&mut self, node: Node) -> Lowered<()> {
        let value = self.syntax().required(node, Field::Value);
        match self.syntax().constant_of(value) {
            Some(Constant::Str(_) | Constant::Other) => Ok(()),
            _ => self.expression_or_call(value).map(|_| ()),
        }
    }

    fn assertion(&mut self, node: Node) -> Lowered<()> {
        let condition = self.condition(self.syntax().required(node, Field::Test))?;
        let site = self.syntax().site(node);
        self.emitter.fault_if(scalars::not(condition), FaultKind::Assertion, site);
        Ok(())
    }

    /// An exception is a fault.
    fn raise(&mut self, node: Node) -> Flow {
        let syntax = self.syntax();
        let exception = syntax.child(node, Field::Exc);
        let class = exception.map(|exception| syntax.child(exception, Field::Func).unwrap_or(exception));
        let kind = match class.and_then(|class| syntax.name_of(class)).as_deref() {
            Some("ZeroDivisionError") => FaultKind::DivisionByZero,
            Some("AssertionError") => FaultKind::Assertion,
            _ => FaultKind::InvalidValue,
        };
        let site = self.emitter.site(syntax.site(node));
        self.emitter.emit(Stmt::Fault(kind, site));
        Flow::Leaves
    }

    fn return_statement(&mut self, node: Node) -> Lowered<Flow> {
        let value = match self.syntax().child(node, Field::Value) {
            Some(value) => self.expression(value)?,
            None => Value::None,
        };
        let value = if self.is_python() { self.annotated_result(node, value)? } else { value };
        let (label, slots, is_last) = match &self.frame().returns {
            Returns::Kernel => {
                if !matches!(value, Value::None) {
                    let message = format!("expected no result of a kernel, got {value}");
                    return Err(self.error(node, ErrorKind::TypeMismatch, message));
                }
                self.emitter.emit(Stmt::Return);
                return Ok(Flow::Leaves);
            }
            Returns::Function { label, slots, .. } => (*label, slots.clone(), self.frame().nesting == 0),
        };
        if is_last && slots.is_none() {
            if let Returns::Function { last, .. } = &mut self.frame_mut().returns {
                *last = Some(value);
            }
            return Ok(Flow::Leaves);
        }
        let mut slots = match slots {
            Some(slots) => slots,
            None => self.result_slots(&value).ok_or_else(|| {
                let message = format!("expected a value of an early return, got {value}");
                self.error(node, ErrorKind::UnsupportedExpression, message)
            })?,
        };
        let got = value.to_string();
        if !self.store_slots(&mut slots, value) {
            let expected = Self::load_slots(&slots);
            let message = format!("expected a result of type {expected}, as of the return before, got {got}");
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        if !is_last {
            self.emitter.emit(Stmt::Break(label));
        }
        if let Returns::Function { slots: known, is_left, .. } = &mut self.frame_mut().returns {
            *known = Some(slots);
            *is_left |= !is_last;
        }
        Ok(Flow::Leaves)
    }

    /// A result of the Python dialect in the annotated type: a constant integer as a float, and in the kernel itself any number.
    fn annotated_result(&mut self, node: Node, value: Value) -> Lowered<Value> {
        let function = self.frame().function;
        let Some(returns) = self.syntax().header(function, Field::Returns).next() else { return Ok(value) };
        let annotation = self.environment.annotation(returns, self.outer_scope())?;
        let is_kernel = self.frames.len() == 1;
        let value = if is_kernel { widened(&annotation, value) } else { value };
        self.checked_argument(node, &annotation, value)
    }

    /// A condition: whether a value is true.
    pub(crate) fn condition(&mut self, node: Node) -> Lowered<Expr> {
        let value = self.expression(node)?;
        self.truth(node, &value)
    }

    /// The truth value of a value.
    pub(crate) fn truth(&mut self, node: Node, value: &Value) -> Lowered<Expr> {
        match value {
            Value::Data(data) => {
                if let Some(constant) = data.constant {
                    return Ok(scalars::truth(constant.is_truthy()));
                }
                if let Some((dtype, part)) = data.as_scalar() {
                    return Ok(scalars::truthy(dtype, part.clone()));
                }
            }
            // As Warp's, whose array without elements has no address.
            Value::Array(view) if !self.is_python() => {
                let is_long = |nth| scalars::lt(Dtype::I32, scalars::integer(Dtype::I32, 0), view.extent(nth));
                return Ok(scalars::all(
                    view.assigned.map(Expr::Local).into_iter().chain((0..view.rank()).map(is_long)),
                ));
            }
            Value::Unbound(..) => return Ok(scalars::truth(false)),
            Value::Array(_)
            | Value::Tuple(_)
            | Value::Record(..)
            | Value::Function(_)
            | Value::Reference(_)
            | Value::Str
            | Value::None => {}
        }
        Err(self.error(node, ErrorKind::TypeMismatch, format!("expected a scalar as a condition, got {value}")))
    }

    /// The scalar type and value of an expression.
    pub(crate) fn scalar(&mut self, node: Node) -> Lowered<(Dtype, Expr)> {
        let value = self.expression(node)?;
        self.scalar_in(node, &value)
    }

    /// The scalar that a value is.
    pub(crate) fn scalar_in(&self, node: Node, value: &Value) -> Lowered<(Dtype, Expr)> {
        match value {
            Value::Data(data) if data.as_scalar().is_some() => {
                let (dtype, part) = data.as_scalar().expect("checked");
                Ok((dtype, part.clone()))
            }
            _ => Err(self.error(node, ErrorKind::TypeMismatch, format!("expected a scalar, got {value}"))),
        }
    }
}

/// Integers and bools as the numbers of an annotation.
fn widened(annotation: &Annotation, value: Value) -> Value {
    match (annotation, value) {
        (Annotation::Data(Type::Scalar(to @ (Dtype::F64 | Dtype::I64))), Value::Data(data)) => match data.as_scalar() {
            Some((from @ (Dtype::I64 | Dtype::Bool), part)) => {
                Data::scalar(*to, scalars::cast(from, *to, part.clone())).into()
            }
            _ => data.into(),
        },
        (Annotation::Tuple(items), Value::Tuple(values)) if items.len() == values.len() => {
            Value::Tuple(items.iter().zip(values).map(|(item, value)| widened(item, value)).collect())
        }
        (_, value) => value,
    }
}

/// Returns true if a statement leaves a label's loop or block.
pub(crate) fn leaves(body: &[Stmt], label: accelerd_ir::kernel::LabelId) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Break(target) => *target == label,
        Stmt::If(_, then, otherwise) => leaves(then, label) || leaves(otherwise, label),
        Stmt::Loop(_, body) | Stmt::Block(_, body) | Stmt::For { body, .. } => leaves(body, label),
        Stmt::Assign(..)
        | Stmt::Load(..)
        | Stmt::Store(..)
        | Stmt::Atomic { .. }
        | Stmt::Continue(_)
        | Stmt::Return
        | Stmt::Fault(..) => false,
    })
}
