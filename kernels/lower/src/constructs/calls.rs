//! Lowers calls: functions of the source are inlined, types construct values, the others are functions of the dialect.

use std::collections::HashMap;
use std::rc::Rc;

use accelerd_ir::kernel::{FaultKind, MAX_PARAMS, Stmt};
use accelerd_parser::{Field, Kind};

use crate::constructs::statements::Flow;
use crate::error::{ErrorKind, Lowered};
use crate::lowerer::arguments::{Arguments, Parameter};
use crate::lowerer::slots::Slots;
use crate::lowerer::{Lowerer, Returns};
use crate::source::declarations::{FunctionDecl, Role, Scope, enclosing_function};
use crate::source::environment::shorten;
use crate::source::syntax::Node;
use crate::types::Type;
use crate::types::open::Open;
use crate::types::parameters::{Annotation, RecordType};
use crate::values::constants::adapted;
use crate::values::scalars;
use crate::values::{Data, Value};
use crate::warp::builtins;
use crate::warp::library;

/// The most definitions of one name that a call chooses from.
const MAX_OVERLOADS: usize = 256;

impl Lowerer<'_> {
    /// The result of a call.
    pub(crate) fn call(&mut self, node: Node) -> Lowered<Value> {
        let syntax = self.syntax();
        let callee = syntax.required(node, Field::Func);
        let scope = self.outer_scope();
        let arguments = self.arguments(node)?;
        if let Some(name) = syntax.name_of(callee) {
            if self.frame().variables.contains_key(&name) || self.frame().locals.contains(&name) {
                let function = self.variable_callable(node, &name)?;
                return self.call_callable(node, &function, &arguments);
            }
            let functions = self.environment.declarations.functions_named(syntax, scope, &name);
            if !functions.is_empty() {
                return self.call_function(node, &functions, &arguments);
            }
            let is_assigned = self.environment.declarations.assigned(syntax, scope, &name).is_some();
            if let Some(function) = self.outer_callable(callee).filter(|_| is_assigned) {
                return self.call_callable(node, &function, &arguments);
            }
        }
        if self.is_python() {
            return self.call_python(node, callee, &arguments);
        }
        if self.is_static(callee)
            && let Value::Function(function) = self.expression(callee)?
        {
            return self.call_callable(node, &function, &arguments);
        }
        let of_value = self.type_expression(callee)?;
        if let Some(ty) = of_value.map_or_else(|| self.constructed_type(callee, scope), |ty| Ok(Some(ty)))? {
            return self.construct(node, &ty, &arguments).map(Value::Data);
        }
        if let Some(record) = self.constructed_record(callee, scope)? {
            return self.construct_record(node, &record, &arguments);
        }
        let path = self.path(callee);
        let name = match path.as_deref() {
            Some(path) => path.strip_prefix("warp.").unwrap_or(path).to_owned(),
            None => syntax.name_of(callee).unwrap_or_default(),
        };
        let is_plain = path.is_none() && is_plain_builtin(&name) && self.is_undefined(&name);
        let is_builtin = path.is_some_and(|path| path.starts_with("warp.")) || is_plain;
        if !is_builtin || name.is_empty() {
            let message = format!("unknown function `{}`", shorten(&syntax.text(callee)));
            return Err(self.error(node, ErrorKind::UnknownName, message));
        }
        self.call_warp(node, &name, &arguments)
    }

    /// The type of `type(value)`, `value.dtype` or `type(value).dtype`.
    pub(crate) fn type_expression(&mut self, node: Node) -> Lowered<Option<Type>> {
        let syntax = self.syntax();
        let value = match syntax.kind(node) {
            Kind::Call => return self.nested(node, |this| this.type_of_value(node)),
            Kind::Attribute if syntax.name(node).as_deref() == Some("dtype") => syntax.required(node, Field::Value),
            _ => return Ok(None),
        };
        let value = match self.argument_of_type(value)? {
            Some(value) => value,
            // The components of a type that is one already.
            None if let Some(ty) = self.nested(node, |this| this.type_expression(value))? => {
                return Ok(ty.scalar().map(Type::Scalar));
            }
            None if syntax.root_name(value).is_some_and(|name| self.frame().variables.contains_key(&name)) => {
                self.nested(node, |this| this.expression(value))?
            }
            None => return Ok(None),
        };
        match value {
            Value::Array(view) => Ok(Some(view.element)),
            Value::Data(data) => Ok(data.ty.scalar().map(Type::Scalar)),
            _ => Ok(None),
        }
    }

    /// The type of `type(value)`.
    fn type_of_value(&mut self, node: Node) -> Lowered<Option<Type>> {
        match self.argument_of_type(node)? {
            Some(Value::Data(data)) => Ok(Some(data.ty)),
            None => Ok(None),
            Some(_) => Err(self.error(node, ErrorKind::ArgumentMismatch, "expected a value to take the type of")),
        }
    }

    /// The value in `type(value)`.
    fn argument_of_type(&mut self, node: Node) -> Lowered<Option<Value>> {
        if !self.calls_python(node, "type") {
            return Ok(None);
        }
        let arguments = self.arguments(node)?;
        match <[Value; 1]>::try_from(self.values(node, &arguments)?) {
            Ok([value]) => Ok(Some(value)),
            Err(_) => Err(self.error(node, ErrorKind::ArgumentMismatch, "expected one value to take the type of")),
        }
    }

    /// Returns true if an expression is `wp.static(...)`.
    fn is_static(&self, node: Node) -> bool {
        let syntax = self.syntax();
        let callee = if syntax.kind(node) == Kind::Call { syntax.child(node, Field::Func) } else { None };
        callee.is_some_and(|callee| self.path(callee).as_deref() == Some("warp.static"))
    }

    /// Returns true if an expression calls a function of Python by a name that nothing else has.
    pub(crate) fn calls_python(&self, node: Node, name: &str) -> bool {
        let syntax = self.syntax();
        let callee = if syntax.kind(node) == Kind::Call { syntax.child(node, Field::Func) } else { None };
        let is_name = |callee: &Node| syntax.name_of(*callee).as_deref() == Some(name);
        callee
            .filter(is_name)
            .is_some_and(|callee| !self.names_local(callee) && self.environment.is_of_python(self.outer_scope(), name))
    }

    /// Returns true if the source does not define a name around the function.
    pub(crate) fn is_undefined(&self, name: &str) -> bool {
        let scope = self.outer_scope();
        let declarations = self.environment.declarations;
        let is_assigned = declarations.assigned(self.syntax(), scope, name).is_some();
        !is_assigned && declarations.class_named(self.syntax(), scope, name).is_none()
    }

    /// The type that a callee names.
    fn constructed_type(&self, callee: Node, scope: Scope) -> Lowered<Option<Type>> {
        let syntax = self.syntax();
        match syntax.kind(callee) {
            Kind::Name | Kind::Attribute => {}
            // `wp.types.vector(length=3, dtype=float)(...)`
            Kind::Call => return Ok(self.environment.data_type(callee, scope)),
            _ => return Ok(None),
        }
        let name = syntax.name_of(callee);
        let is_class =
            name.is_some_and(|name| self.environment.declarations.class_named(syntax, scope, &name).is_some());
        match self.environment.annotation(callee, scope) {
            Ok(Annotation::Data(ty)) => Ok(Some(ty)),
            Err(error) if is_class => Err(error),
            _ => Ok(None),
        }
    }

    /// The struct with arrays that a callee names.
    fn constructed_record(&self, callee: Node, scope: Scope) -> Lowered<Option<Rc<RecordType>>> {
        let syntax = self.syntax();
        let is_class = |name: String| self.environment.declarations.class_named(syntax, scope, &name).is_some();
        if !syntax.name_of(callee).is_some_and(is_class) {
            return Ok(None);
        }
        match self.environment.annotation(callee, scope)? {
            Annotation::Record(record) => Ok(Some(record)),
            _ => Ok(None),
        }
    }

    /// Calls the function of a name that takes the arguments.
    pub(crate) fn call_function(
        &mut self,
        node: Node,
        functions: &[&FunctionDecl],
        arguments: &Arguments,
    ) -> Lowered<Value> {
        let wanted: &[Role] = if self.is_python() { &[Role::Plain] } else { &[Role::Function, Role::Native] };
        let name = functions[0].name.clone();
        let candidates: Vec<_> = functions.iter().filter(|function| wanted.contains(&function.role)).collect();
        if candidates.is_empty() {
            let message = format!("function `{name}` is not decorated as a function that kernels call");
            let message = if self.is_python() { format!("function `{name}` is decorated") } else { message };
            return Err(self.error(node, ErrorKind::UnsupportedExpression, message));
        }
        // In Python the last definition is the function.
        let candidates = if self.is_python() { &candidates[..1] } else { &candidates[..] };
        self.refuse_overloads(node, &name, candidates.len())?;
        let (positions, names) = self.references(candidates)?;
        let is_reference = |index: usize| positions.get(index).is_some_and(|is_reference| *is_reference);
        let values = self.positional(arguments, is_reference)?;
        let mut keywords = HashMap::new();
        for (keyword, argument) in &arguments.keywords {
            let is_reference = names.contains(keyword);
            let value = if is_reference { self.reference(*argument)? } else { self.expression(*argument)? };
            keywords.insert(keyword.clone(), value);
        }
        self.call_candidates(node, &name, candidates, &values, &keywords)
    }

    /// Calls a function with a value in place of its first argument; the others are positional.
    pub(crate) fn call_with(
        &mut self,
        node: Node,
        functions: &[&FunctionDecl],
        first: Value,
        arguments: &Arguments,
    ) -> Lowered<Value> {
        let rest = Arguments { positional: arguments.positional[1..].to_vec(), keywords: arguments.keywords.clone() };
        let mut values = vec![first];
        values.extend(self.values(node, &rest)?);
        let candidates: Vec<_> = functions.iter().collect();
        self.call_candidates(node, &functions[0].name, &candidates, &values, &HashMap::new())
    }

    /// Calls a function of the source with values.
    pub(crate) fn call_values(
        &mut self,
        node: Node,
        name: &str,
        functions: &[&FunctionDecl],
        values: &[Value],
    ) -> Lowered<Value> {
        let is_called = |function: &&&FunctionDecl| matches!(function.role, Role::Function | Role::Native);
        let candidates: Vec<_> = functions.iter().filter(is_called).collect();
        if candidates.is_empty() {
            let message = format!("function `{name}` is not decorated as a function that kernels call");
            return Err(self.error(node, ErrorKind::UnsupportedExpression, message));
        }
        self.refuse_overloads(node, name, candidates.len())?;
        self.call_candidates(node, name, &candidates, values, &HashMap::new())
    }

    /// Calls the overload that takes the arguments: one of their types, else one of any type, else the only one whose types constants
    /// can take.
    fn call_candidates(
        &mut self,
        node: Node,
        name: &str,
        candidates: &[&&FunctionDecl],
        values: &[Value],
        keywords: &HashMap<String, Value>,
    ) -> Lowered<Value> {
        let mut matches = vec![];
        let mut mismatch = None;
        for (function, parameters) in self.overloads(candidates)? {
            match self.match_arguments(node, name, &parameters, values, keywords) {
                Ok(bound) => matches.push((function, parameters, bound)),
                Err(error) => mismatch = mismatch.or(Some(error)),
            }
        }
        let given =
            |parameter: &Parameter, index: usize| values.get(index).or_else(|| keywords.get(&parameter.name)).cloned();
        let is_exact = |parameters: &[Parameter], admits_any: bool| {
            parameters.iter().enumerate().all(|(index, parameter)| {
                given(parameter, index).is_none_or(|value| is_of_type(&parameter.annotation, &value, admits_any))
            })
        };
        let found = matches
            .iter()
            .position(|(_, parameters, _)| is_exact(parameters, false))
            .or_else(|| matches.iter().position(|(_, parameters, _)| is_exact(parameters, true)));
        let chosen = match (found, matches.len()) {
            (Some(index), _) => index,
            (None, 0) => return Err(mismatch.expect("there is a candidate")),
            (None, 1) => 0,
            (None, _) => {
                let message = format!("the constants go with more than one definition of `{name}`");
                return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
            }
        };
        let (function, parameters, bound) = matches.swap_remove(chosen);
        self.inline(node, function, &parameters, bound)
    }

    /// Candidates in the order in which Warp tries them: that of their definitions, where a later one with equal types replaces the
    /// earlier one.
    fn overloads<'b>(&self, candidates: &[&'b &'b FunctionDecl]) -> Lowered<Vec<(&'b FunctionDecl, Vec<Parameter>)>> {
        let mut all: Vec<(&FunctionDecl, Vec<Parameter>)> = vec![];
        let types = |parameters: &[Parameter]| -> Vec<_> {
            parameters.iter().map(|parameter| parameter.annotation.clone()).collect()
        };
        for function in candidates.iter().rev() {
            let parameters = self.parameters(function)?;
            match all.iter_mut().find(|(_, known)| types(known) == types(&parameters)) {
                Some(known) => *known = (function, parameters),
                None => all.push((function, parameters)),
            }
        }
        Ok(all)
    }

    /// The result of an operator that the source defines for the types of its operands, as a function of Warp's name of it.
    pub(crate) fn defined_operator(&mut self, node: Node, name: &str, operands: [&Data; 2]) -> Lowered<Option<Value>> {
        let functions = self.environment.declarations.functions_named(self.syntax(), self.outer_scope(), name);
        self.refuse_overloads(node, name, functions.len())?;
        let values = operands.map(|data| Value::Data(data.clone()));
        let mut candidates = vec![];
        for function in functions.iter().filter(|function| function.role == Role::Function) {
            let parameters = self.parameters(function)?;
            let takes = |(parameter, value): (&Parameter, &Value)| is_of_type(&parameter.annotation, value, true);
            if parameters.len() == 2 && parameters.iter().zip(&values).all(takes) {
                candidates.push(function);
            }
        }
        if candidates.is_empty() {
            return Ok(None);
        }
        self.call_candidates(node, name, &candidates, &values, &HashMap::new()).map(Some)
    }

    fn refuse_overloads(&self, node: Node, name: &str, count: usize) -> Lowered<()> {
        if count > MAX_OVERLOADS {
            let message = format!("expected at most {MAX_OVERLOADS} definitions of `{name}`, got {count}");
            return Err(self.error(node, ErrorKind::TooLarge, message));
        }
        Ok(())
    }

    /// The parameters of a function.
    pub(crate) fn parameters(&self, function: &FunctionDecl) -> Lowered<Vec<Parameter>> {
        let syntax = self.syntax();
        let scope = enclosing_function(syntax, function.node);
        for field in [Field::Vararg, Field::Kwarg, Field::Kwonlyargs] {
            if let Some(node) = syntax.header(function.node, field).next() {
                let message = "parameters after `*` are unsupported";
                return Err(self.error(node, ErrorKind::UnsupportedType, message));
            }
        }
        let nodes = [Field::Posonlyargs, Field::Args].into_iter();
        let nodes: Vec<_> = nodes.flat_map(|field| syntax.header(function.node, field)).take(MAX_PARAMS + 1).collect();
        if nodes.len() > MAX_PARAMS {
            let message = format!("expected at most {MAX_PARAMS} parameters of `{}`", function.name);
            return Err(self.error(function.node, ErrorKind::TooLarge, message));
        }
        self.add_work(nodes.len());
        let mut parameters = vec![];
        for node in nodes {
            let annotation = match syntax.child(node, Field::Annotation) {
                Some(annotation) => self.environment.annotation(annotation, scope)?,
                None => Annotation::Open(Open::Any),
            };
            let name = syntax.name(node).unwrap_or_default();
            parameters.push(Parameter { node, name, annotation, default: None });
        }
        let defaults: Vec<_> = syntax.header(function.node, Field::Defaults).collect();
        let first = parameters.len().saturating_sub(defaults.len());
        for (parameter, default) in parameters[first..].iter_mut().zip(defaults) {
            parameter.default = Some(default);
        }
        Ok(parameters)
    }

    /// The value of each parameter.
    fn match_arguments(
        &self,
        node: Node,
        name: &str,
        parameters: &[Parameter],
        values: &[Value],
        keywords: &HashMap<String, Value>,
    ) -> Lowered<Vec<Value>> {
        let fail = |message: String| Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        if values.len() > parameters.len() {
            return fail(format!("`{name}` takes {} arguments, got {}", parameters.len(), values.len()));
        }
        let unknown = keywords.keys().find(|keyword| !parameters.iter().any(|parameter| parameter.name == **keyword));
        if let Some(keyword) = unknown {
            return fail(format!("`{name}` has no parameter `{keyword}`"));
        }
        let mut bound = vec![];
        for (index, parameter) in parameters.iter().enumerate() {
            let value = match (values.get(index), keywords.get(&parameter.name)) {
                (Some(_), Some(_)) => return fail(format!("parameter `{}` has two arguments", parameter.name)),
                (Some(value), None) | (None, Some(value)) => value.clone(),
                (None, None) => match self.default(parameter) {
                    Some(default) => default,
                    None => return fail(format!("parameter `{}` of `{name}` has no argument", parameter.name)),
                },
            };
            bound.push(self.checked_argument(node, &parameter.annotation, value)?);
        }
        Ok(bound)
    }

    fn default(&self, parameter: &Parameter) -> Option<Value> {
        let scope = enclosing_function(self.syntax(), parameter.node)
            .and_then(|function| enclosing_function(self.syntax(), function));
        let default = parameter.default?;
        match self.environment.number(default, scope) {
            Some(number) => Some(self.number(number).into()),
            None => self.environment.callable(default, scope).map(Value::Function),
        }
    }

    /// A value that an annotation admits. A constant takes the annotated type.
    pub(crate) fn checked_argument(&self, node: Node, annotation: &Annotation, value: Value) -> Lowered<Value> {
        let is_admitted = match (annotation, &value) {
            (Annotation::Reference(ty), Value::Reference(location)) => *ty == location.ty,
            (_, Value::Reference(_)) => false,
            (Annotation::Open(Open::Any), _)
            | (Annotation::None, Value::None)
            | (Annotation::Function, Value::Function(_)) => true,
            (Annotation::Open(open), Value::Data(data)) => open.admits(&data.ty),
            (Annotation::Data(ty), Value::Data(data)) => {
                if let (true, Type::Scalar(dtype)) = (*ty != data.ty, ty)
                    && let Some(data) = adapted(data, *dtype)
                {
                    return Ok(data.into());
                }
                *ty == data.ty
            }
            (Annotation::Array(element, form), Value::Array(view)) => view.is_of(*form) && *element == view.element,
            (Annotation::Array(element, form), Value::Unbound(of, own, _)) => form == own && element == of,
            (Annotation::OpenArray(open, form), Value::Array(view)) => view.is_of(*form) && open.admits(&view.element),
            (Annotation::Record(record), Value::Record(got, _)) => record == got,
            (Annotation::Tuple(items), Value::Tuple(values)) if items.len() == values.len() => {
                let items =
                    items.iter().zip(values).map(|(item, value)| self.checked_argument(node, item, value.clone()));
                return Ok(Value::Tuple(items.collect::<Lowered<_>>()?));
            }
            _ => false,
        };
        if is_admitted {
            return Ok(value);
        }
        Err(self.error(node, ErrorKind::TypeMismatch, format!("expected {annotation}, got {value}")))
    }

    /// Lowers the body of a function in place of its call.
    fn inline(
        &mut self,
        node: Node,
        function: &FunctionDecl,
        parameters: &[Parameter],
        arguments: Vec<Value>,
    ) -> Lowered<Value> {
        if self.frames.iter().any(|frame| frame.function == function.node) {
            let message = format!("function `{}` calls itself", function.name);
            return Err(self.error(node, ErrorKind::Recursion, message));
        }
        if arguments.iter().any(|argument| matches!(argument, Value::Data(Data { ty: Type::Tile(_), .. }))) {
            // Warp passes a tile by reference.
            let message = "tiles as arguments of functions are unsupported";
            return Err(self.error(node, ErrorKind::UnsupportedExpression, message));
        }
        if function.role == Role::Native {
            let result = self.native(function, parameters, arguments)?;
            return self.returned(node, function, result);
        }
        let label = self.emitter.label();
        self.emitter.open();
        let is_library_call = library::is_part(&function.name) && self.emitter.library_call.is_none();
        if is_library_call {
            self.emitter.library_call = Some(self.syntax().site(node));
        }
        self.enter(function, Returns::Function { label, is_left: false, slots: None, last: None });
        for (parameter, argument) in parameters.iter().zip(arguments) {
            let argument = match argument {
                Value::Data(data) => Value::Data(data.without_constant()),
                other => other,
            };
            self.bind_parameter(&parameter.name, argument);
        }
        let flow = self.nested(node, |this| this.body(function.node, Field::Body));
        let frame = self.frames.pop().expect("entered");
        let mut body = self.emitter.close();
        let flow = flow?;
        let Returns::Function { is_left, slots, last, .. } = frame.returns else {
            unreachable!("a function's frame is that of a function")
        };
        // The end of a function without a result is where its early returns lead.
        let has_result = slots.as_ref().is_some_and(|slots| !matches!(slots, Slots::None));
        if has_result && flow == Flow::Next {
            let site = self.emitter.site(self.syntax().site(function.node));
            body.push(Stmt::Fault(FaultKind::InvalidValue, site));
        }
        if is_library_call {
            self.emitter.library_call = None;
        }
        // The body may run again in a loop around the call.
        for flag in frame.variables.values().map(|variable| variable.flag).chain(frame.rebound) {
            self.emitter.emit(Stmt::Assign(flag, scalars::truth(false)));
        }
        if is_left {
            self.emitter.emit(Stmt::Block(label, body));
        } else {
            self.emitter.splice(body);
        }
        let result = match (slots, last) {
            (Some(slots), _) => Self::load_slots(&slots),
            (None, Some(value)) => value,
            (None, None) if flow == Flow::Leaves => self.unreached_result(function),
            (None, None) => Value::None,
        };
        self.returned(node, function, result)
    }

    /// The result of a function that always faults: a zero of its annotated type, which nothing uses.
    pub(crate) fn unreached_result(&self, function: &FunctionDecl) -> Value {
        let scope = enclosing_function(self.syntax(), function.node);
        let returns = self.syntax().header(function.node, Field::Returns).next();
        match returns.and_then(|returns| self.environment.data_type(returns, scope)) {
            Some(ty) => Data::zero(&ty).into(),
            None => Value::None,
        }
    }

    /// The result of a function, of its annotated type.
    fn returned(&mut self, node: Node, function: &FunctionDecl, result: Value) -> Lowered<Value> {
        let syntax = self.syntax();
        let Some(returns) = syntax.header(function.node, Field::Returns).next() else { return Ok(result) };
        let scope = enclosing_function(syntax, function.node);
        let annotation = self.environment.annotation(returns, scope)?;
        let result = self.checked_argument(node, &annotation, result)?;
        Ok(match result {
            Value::Data(data) => Value::Data(data.without_constant()),
            other => other,
        })
    }
}

/// Returns true if a value has the annotated type as it is, without conversion of constants.
fn is_of_type(annotation: &Annotation, value: &Value, admits_any: bool) -> bool {
    match (annotation, value) {
        (Annotation::Open(Open::Any), _) | (Annotation::OpenArray(..), Value::Array(_)) => admits_any,
        (Annotation::Open(open), Value::Data(data)) => admits_any && open.admits(&data.ty),
        (Annotation::Function, Value::Function(_)) | (Annotation::Array(..), Value::Array(_)) => true,
        (Annotation::Reference(ty), Value::Reference(location)) => *ty == location.ty,
        (Annotation::Data(ty), Value::Data(data)) => *ty == data.ty,
        (Annotation::Tuple(items), Value::Tuple(values)) => {
            items.len() == values.len()
                && items.iter().zip(values).all(|(item, value)| is_of_type(item, value, admits_any))
        }
        (Annotation::Record(record), Value::Record(got, _)) => record == got,
        _ => false,
    }
}

/// Returns true if Warp has a function of a name that kernels can call.
pub(crate) fn is_function_of_warp(name: &str) -> bool {
    is_plain_builtin(name)
        || library::definition(name).is_some()
        || matches!(name, "vector" | "matrix" | "identity" | "quat_identity" | "transform_identity" | "cast")
        || name.starts_with("rand")
}

/// Functions that Warp's kernels call by their plain name: Python's, and those of Warp, which it finds where the name is not defined.
fn is_plain_builtin(name: &str) -> bool {
    let is_of_warp = builtins::is_known(name) || matches!(name, "tid" | "where" | "select");
    is_of_warp
        || name.starts_with("atomic_")
        || name.starts_with("expect_")
        || matches!(
            name,
            "abs"
                | "min"
                | "max"
                | "len"
                | "round"
                | "pow"
                | "print"
                | "printf"
                | "range"
                | "isinstance"
                | "static"
                | "tuple"
        )
}
