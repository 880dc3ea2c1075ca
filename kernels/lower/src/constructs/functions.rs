//! Functions as values, and references to variables and elements that functions change.
//!
//! Calls are inlined, so neither exists when a kernel runs: a function is the name of an inlined body, a reference is a location.

use accelerd_parser::{Field, Kind};

use crate::constructs::calls::is_function_of_warp;
use crate::error::{ErrorKind, Lowered};
use crate::lowerer::arguments::Arguments;
use crate::lowerer::{Lowerer, VariableKind};
use crate::source::declarations::{Assigned, FunctionDecl, Role, Scope, made_of};
use crate::source::environment::{Environment, MAX_ITEMS};
use crate::source::syntax::{Constant, Node};
use crate::types::parameters::Annotation;
use crate::values::{Callable, Value};

/// The longest chain of names of functions that refer to each other.
const MAX_ALIASES: u32 = 16;

impl Environment<'_> {
    /// The function that an expression outside of functions is.
    pub(crate) fn callable(&self, node: Node, scope: Scope) -> Option<Callable> {
        self.callable_at(node, scope, 0)
    }

    fn callable_at(&self, node: Node, scope: Scope, depth: u32) -> Option<Callable> {
        if depth > MAX_ALIASES {
            return None;
        }
        let syntax = self.syntax;
        let declarations = self.declarations;
        let of_warp = || {
            let path = declarations.path(syntax, node)?;
            let name = path.strip_prefix("warp.").filter(|name| is_function_of_warp(name))?;
            Some(Callable::Builtin(name.into()))
        };
        match syntax.kind(node) {
            Kind::Name => {
                let name = syntax.name(node)?;
                let defined = declarations.indices_named(syntax, scope, &name);
                if !defined.is_empty() {
                    let is_callable = defined.iter().all(|&index| declarations.functions[index].role != Role::Kernel);
                    return is_callable.then(|| Callable::Defined(defined.into()));
                }
                match declarations.assigned(syntax, scope, &name) {
                    Some((scope, Assigned::Once(value))) => {
                        Some(self.before(self.callable_at(value, scope, depth + 1)?, value))
                    }
                    Some((_, Assigned::Ambiguous)) => None,
                    None => of_warp(),
                }
            }
            Kind::Attribute => of_warp(),
            Kind::Call
                if declarations.path(syntax, syntax.required(node, Field::Func)).as_deref() == Some("warp.func") =>
            {
                self.callable_at(made_of(syntax, node)?, scope, depth + 1)
            }
            Kind::Subscript => {
                let (value, scope) = self.dictionary_item(node, scope)?;
                Some(self.before(self.callable_at(value, scope, depth + 1)?, value))
            }
            _ => None,
        }
    }

    /// A name that is assigned a function keeps the definitions that precede the assignment.
    fn before(&self, function: Callable, node: Node) -> Callable {
        match function {
            Callable::Defined(all) => {
                let defined = all.iter().copied().filter(|&index| self.declarations.functions[index].node < node);
                Callable::Defined(defined.collect())
            }
            builtin @ Callable::Builtin(_) => builtin,
        }
    }

    /// The value of `NAME["key"]`, where the name is assigned a dictionary as it is written.
    fn dictionary_item(&self, node: Node, scope: Scope) -> Option<(Node, Scope)> {
        let syntax = self.syntax;
        let name = syntax.name(syntax.required(node, Field::Value))?;
        let Constant::Str(wanted) = syntax.constant_of(syntax.required(node, Field::Slice))? else { return None };
        let Some((scope, Assigned::Once(dictionary))) = self.declarations.assigned(syntax, scope, &name) else {
            return None;
        };
        let is_long = || syntax.children(dictionary, Field::Keys).nth(MAX_ITEMS).is_some();
        if syntax.kind(dictionary) != Kind::Dict || is_long() {
            return None;
        }
        let keys = syntax.children(dictionary, Field::Keys);
        let mut items = keys.zip(syntax.children(dictionary, Field::Values));
        let is_wanted = |key| matches!(syntax.constant_of(key), Some(Constant::Str(key)) if key == wanted);
        let (_, value) = items.find(|(key, _)| is_wanted(*key))?;
        Some((value, scope))
    }
}

impl Lowerer<'_> {
    /// The function that an expression is, if it names no variable.
    pub(crate) fn outer_callable(&self, node: Node) -> Option<Callable> {
        if self.names_local(node) { None } else { self.environment.callable(node, self.outer_scope()) }
    }

    /// The function that a variable holds.
    pub(crate) fn variable_callable(&mut self, node: Node, name: &str) -> Lowered<Callable> {
        if let Some(VariableKind::Function(function)) = self.variable(node, name) {
            return Ok(function);
        }
        let message = format!("variable `{name}` cannot be called");
        Err(self.error(node, ErrorKind::UnsupportedExpression, message))
    }

    pub(crate) fn call_callable(&mut self, node: Node, function: &Callable, arguments: &Arguments) -> Lowered<Value> {
        match function {
            Callable::Builtin(name) => self.call_warp(node, name, arguments),
            Callable::Defined(indices) => {
                let all = &self.environment.declarations.functions;
                let functions: Vec<_> = indices.iter().map(|&index| &all[index]).collect();
                if functions.is_empty() {
                    let message = "expected a function that is defined before the name that stands for it";
                    return Err(self.error(node, ErrorKind::UnknownName, message));
                }
                self.call_function(node, &functions, arguments)
            }
        }
    }

    /// Which arguments of a call its candidates take by reference: positions, and names of keywords.
    pub(crate) fn references(&self, candidates: &[&&FunctionDecl]) -> Lowered<(Vec<bool>, Vec<String>)> {
        let mut positions = vec![];
        let mut names = vec![];
        if !self.environment.declarations.has_references {
            return Ok((positions, names));
        }
        for function in candidates {
            for (index, parameter) in self.parameters(function)?.into_iter().enumerate() {
                let is_reference = matches!(parameter.annotation, Annotation::Reference(_));
                if index == positions.len() {
                    positions.push(false);
                }
                positions[index] |= is_reference;
                if is_reference {
                    names.push(parameter.name);
                }
            }
        }
        Ok((positions, names))
    }

    /// An argument that is passed by reference.
    pub(crate) fn reference(&mut self, node: Node) -> Lowered<Value> {
        match self.syntax().kind(node) {
            Kind::Name | Kind::Attribute | Kind::Subscript => self.target(node).map(Value::Reference),
            _ => {
                let message = "expected a variable, or a part of one or of an array, to refer to";
                Err(self.error(node, ErrorKind::ArgumentMismatch, message))
            }
        }
    }

    /// Returns true if a target is a parameter that is a reference, or a part of one.
    pub(crate) fn is_reference(&self, target: Node) -> bool {
        let name = self.syntax().root_name(target);
        let variable = name.and_then(|name| self.frame().variables.get(&name));
        variable.is_some_and(|variable| matches!(variable.kind, VariableKind::Reference(_)))
    }

    /// The names of variables of which a call below a node may change a part, since it may take them by reference.
    pub(crate) fn referred_names(&self, node: Node) -> Vec<String> {
        let syntax = self.syntax();
        let mut names = vec![];
        let mut open = vec![node];
        while let Some(node) = open.pop().filter(|_| self.environment.declarations.has_references) {
            if syntax.kind(node) == Kind::Call {
                let keywords =
                    syntax.children(node, Field::Keywords).filter_map(|keyword| syntax.child(keyword, Field::Value));
                names.extend(
                    syntax.children(node, Field::Args).chain(keywords).filter_map(|index| syntax.root_name(index)),
                );
            }
            open.extend(syntax.all_children(node));
        }
        names
    }
}
