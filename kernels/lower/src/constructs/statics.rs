//! `wp.static(...)`, and loops over constant ranges that are unrolled because such a call in them depends on their variable.

use accelerd_ir::kernel::Stmt;
use accelerd_parser::{Field, Kind, Operator};

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::arguments::Arguments;
use crate::lowerer::{LoopLabels, Lowerer};
use crate::source::environment::{MAX_ITEMS, Number, binary, shorten, unary};
use crate::source::syntax::Node;
use crate::values::Value;

/// The deepest constant expression.
const MAX_STATIC_DEPTH: u32 = 128;
/// The most iterations of an unrolled loop.
const MAX_UNROLLED: i128 = 1024;

impl Lowerer<'_> {
    /// `wp.static(...)`: a constant that Python evaluates.
    pub(crate) fn static_value(&mut self, node: Node, arguments: &Arguments) -> Lowered<Value> {
        self.expect_count(node, "static", arguments, 1..=1)?;
        let argument = arguments.positional[0];
        if let Some(number) = self.static_number(argument)? {
            return Ok(self.number(number).into());
        }
        let item = self.static_item(argument).unwrap_or(argument);
        if let Some(function) = self.outer_callable(item) {
            return Ok(Value::Function(function));
        }
        let message = format!("expected a constant, got `{}`", shorten(&self.syntax().text(argument)));
        Err(self.error(node, ErrorKind::NotConstant, message))
    }

    /// The number that an expression is for Python, in which variables that hold a known number have it.
    pub(crate) fn static_number(&self, node: Node) -> Lowered<Option<Number>> {
        if self.syntax().is_deeper(node, MAX_STATIC_DEPTH) {
            let message = format!("expected a constant expression nested at most {MAX_STATIC_DEPTH} deep");
            return Err(self.error(node, ErrorKind::TooDeep, message));
        }
        Ok(self.static_number_below(node))
    }

    fn static_number_below(&self, node: Node) -> Option<Number> {
        if let Some(number) = self.outer_number(node) {
            return Some(number);
        }
        let syntax = self.syntax();
        match syntax.kind(node) {
            Kind::Name => {
                let name = syntax.name(node)?;
                self.frame().variables.get(&name)?.constant
            }
            Kind::Attribute => self.static_attribute(node),
            Kind::Subscript => self.static_number_below(self.static_item(node)?),
            Kind::UnaryOp => {
                unary(syntax.operator(node), self.static_number_below(syntax.required(node, Field::Operand))?)
            }
            Kind::BinOp => {
                let [left, right] = [Field::Left, Field::Right].map(|field| syntax.required(node, field));
                binary(syntax.operator(node), self.static_number_below(left)?, self.static_number_below(right)?)
            }
            Kind::Compare => self.static_comparison(node),
            Kind::BoolOp => self.static_choice(node),
            Kind::Call => self.static_call(node),
            _ => None,
        }
    }

    /// The first operand of `and` or `or` that decides it, or the last one.
    fn static_choice(&self, node: Node) -> Option<Number> {
        let syntax = self.syntax();
        let decides = syntax.operator(node) == Operator::Or;
        let mut result = None;
        for operand in syntax.children(node, Field::Values) {
            let number = self.static_number_below(operand)?;
            result = Some(number);
            if number.is_truthy() == decides {
                break;
            }
        }
        result
    }

    fn static_comparison(&self, node: Node) -> Option<Number> {
        let syntax = self.syntax();
        let left = self.static_number_below(syntax.required(node, Field::Left))?;
        let [op] = <[Node; 1]>::try_from(syntax.children(node, Field::Ops).collect::<Vec<_>>()).ok()?;
        let right = self.static_number_below(syntax.child(node, Field::Comparators)?)?;
        let order = match (left, right) {
            (Number::Int(left), Number::Int(right)) => left.cmp(&right),
            (left, right) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
        };
        Some(Number::Bool(match syntax.operator(op) {
            Operator::Eq => order.is_eq(),
            Operator::NotEq => order.is_ne(),
            Operator::Lt => order.is_lt(),
            Operator::LtE => order.is_le(),
            Operator::Gt => order.is_gt(),
            Operator::GtE => order.is_ge(),
            _ => return None,
        }))
    }

    /// `float(number)`, `int(integer)`, `len(vector)`, `wp.static(number)`.
    fn static_call(&self, node: Node) -> Option<Number> {
        let syntax = self.syntax();
        let callee = syntax.required(node, Field::Func);
        let mut arguments = syntax.children(node, Field::Args);
        let argument = arguments.next()?;
        if arguments.next().is_some() || syntax.child(node, Field::Keywords).is_some() {
            return None;
        }
        if self.path(callee).as_deref() == Some("warp.static") {
            return self.static_number_below(argument);
        }
        let name = syntax.name_of(callee).filter(|name| self.is_undefined(name))?;
        match (name.as_str(), syntax.name_of(argument)) {
            ("len", Some(variable)) => self.static_length(&variable),
            ("float", _) => self.static_number_below(argument)?.as_f64().map(Number::Float),
            ("int", _) => match self.static_number_below(argument)? {
                Number::Float(_) => None,
                Number::Bool(value) => Some(Number::Int(value.into())),
                integer @ Number::Int(_) => Some(integer),
            },
            _ => None,
        }
    }

    /// The item of a tuple or list as it is written.
    fn static_item(&self, node: Node) -> Option<Node> {
        let syntax = self.syntax();
        if syntax.kind(node) != Kind::Subscript {
            return None;
        }
        let base = syntax.required(node, Field::Value);
        let base = if syntax.kind(base) == Kind::Subscript { self.static_item(base)? } else { base };
        let Number::Int(index) = self.static_number_below(syntax.required(node, Field::Slice))? else { return None };
        if !matches!(syntax.kind(base), Kind::Tuple | Kind::List) {
            return None;
        }
        let items: Vec<_> = syntax.children(base, Field::Elts).take(MAX_ITEMS + 1).collect();
        self.add_work(items.len());
        let count = i128::try_from(items.len()).ok().filter(|_| items.len() <= MAX_ITEMS)?;
        let index = if index < 0 { index + count } else { index };
        items.get(usize::try_from(index).ok()?).copied()
    }

    /// The `length` of a variable, or of its type.
    fn static_attribute(&self, node: Node) -> Option<Number> {
        let syntax = self.syntax();
        let mut base = syntax.required(node, Field::Value);
        if self.calls_python(base, "type") {
            base = syntax.child(base, Field::Args)?;
        }
        match Self::value_of(&self.frame().variables.get(&syntax.name_of(base)?)?.kind) {
            Value::Data(data) if syntax.name(node).as_deref() == Some("length") => data.ty.size(),
            _ => None,
        }
    }

    /// The length of a variable that is a vector, matrix, quaternion or transform.
    fn static_length(&self, variable: &str) -> Option<Number> {
        match Self::value_of(&self.frame().variables.get(variable)?.kind) {
            Value::Data(data) => Some(Number::Int(data.ty.length()?.into())),
            _ => None,
        }
    }

    /// Returns true if the body of a loop has a `wp.static` that depends on the loop's variable.
    fn has_static(&self, node: Node, name: &str) -> bool {
        let syntax = self.syntax();
        let mut open: Vec<_> = syntax.children(node, Field::Body).map(|statement| (statement, false)).collect();
        while let Some((index, is_in_static)) = open.pop() {
            let is_static = || {
                syntax.kind(index) == Kind::Call && {
                    let callee = syntax.required(index, Field::Func);
                    self.path(callee).as_deref() == Some("warp.static")
                }
            };
            if is_in_static && syntax.name_of(index).as_deref() == Some(name) {
                return true;
            }
            let is_in_static = is_in_static || is_static();
            open.extend(syntax.all_children(index).map(|child| (child, is_in_static)));
        }
        false
    }

    /// Lowers a loop whose iterations differ in what `wp.static` is: one after the other. Returns whether it is such a loop.
    pub(crate) fn unrolled_loop(&mut self, node: Node, name: &str) -> Lowered<bool> {
        if self.is_python() || !self.has_static(node, name) {
            return Ok(false);
        }
        let syntax = self.syntax();
        let values = self.static_range(syntax.required(node, Field::Iter))?;
        let target = syntax.required(node, Field::Target);
        self.forget_assigned(&self.assigned_names(node));
        let before = self.knowledge();
        let end = self.emitter.label();
        self.emitter.open();
        for value in values {
            self.restore(&before);
            let next = self.emitter.label();
            self.emitter.open();
            let data = self.number(Number::Int(value));
            self.assign_variable(target, name, data.into())?;
            let flow = self.loop_body(node, LoopLabels { end, next: Some(next) });
            let body = self.emitter.close();
            self.emitter.emit(Stmt::Block(next, body));
            flow?;
        }
        let body = self.emitter.close();
        self.emitter.emit(Stmt::Block(end, body));
        self.restore(&before);
        Ok(true)
    }

    /// The values of `range(...)` of constants.
    fn static_range(&self, node: Node) -> Lowered<Vec<i128>> {
        let message = "expected a constant range, since `wp.static` in the loop depends on its variable";
        let fail = || self.error(node, ErrorKind::NotConstant, message);
        let syntax = self.syntax();
        if !self.calls_python(node, "range") || syntax.child(node, Field::Keywords).is_some() {
            return Err(fail());
        }
        let mut bounds = vec![];
        for argument in syntax.children(node, Field::Args).take(4) {
            match self.static_number(argument)? {
                Some(Number::Int(bound)) if i32::try_from(bound).is_ok() => bounds.push(bound),
                _ => return Err(fail()),
            }
        }
        let (start, end, step) = match bounds[..] {
            [end] => (0, end, 1),
            [start, end] => (start, end, 1),
            [start, end, step] if step != 0 => (start, end, step),
            _ => return Err(fail()),
        };
        let count = ((end - start + step - step.signum()) / step).max(0);
        if count > MAX_UNROLLED {
            let message = format!("expected at most {MAX_UNROLLED} iterations that `wp.static` tells apart");
            return Err(self.error(node, ErrorKind::TooLarge, message));
        }
        Ok((0..count).map(|nth| start + nth * step).collect())
    }
}
