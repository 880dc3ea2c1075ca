//! Overloads of generic kernels: the types of their parameters that a source states with `wp.overload`.

use std::collections::HashMap;

use accelerd_parser::{Field, Kind};

use crate::error::{ErrorKind, LowerError, Lowered};
use crate::lowerer::arguments::Parameter;
use crate::source::declarations::{FunctionDecl, Role, Scope, enclosing_function};
use crate::source::environment::Environment;
use crate::source::syntax::{Constant, Node};
use crate::types::open::Open;
use crate::types::parameters::Annotation;

/// The most overloads that a kernel may have.
const MAX_OVERLOADS: usize = 256;

/// Types of the parameters of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Overload {
    annotations: Vec<Annotation>,
}

impl Overload {
    /// Gives parameters their types.
    pub(crate) fn apply(&self, parameters: &mut [Parameter]) {
        for (parameter, annotation) in parameters.iter_mut().zip(&self.annotations) {
            parameter.annotation = annotation.clone();
        }
    }
}

impl Environment<'_> {
    /// The overloads of a kernel with parameters of open types, without repetitions; none of another kernel.
    pub(crate) fn overloads(&self, function: &FunctionDecl, parameters: &[Parameter]) -> Vec<Lowered<Overload>> {
        let is_open =
            |parameter: &Parameter| matches!(parameter.annotation, Annotation::Open(_) | Annotation::OpenArray(..));
        if !parameters.iter().any(is_open) {
            return vec![];
        }
        let statements = self
            .overloads
            .get_or_init(|| self.overloads_by_kernel())
            .get(&function.node)
            .map_or(&[][..], Vec::as_slice);
        if statements.len() > MAX_OVERLOADS {
            let message = format!("expected at most {MAX_OVERLOADS} overloads of a kernel, got {}", statements.len());
            return vec![Err(self.syntax.error(function.node, ErrorKind::TooLarge, message))];
        }
        let mut overloads: Vec<Lowered<Overload>> = vec![];
        for &node in statements {
            let overload = self.overload(node, parameters);
            let is_known = |known: &Lowered<Overload>| match (known, &overload) {
                (Ok(known), Ok(overload)) => known.annotations == overload.annotations,
                _ => false,
            };
            if !overloads.iter().any(is_known) {
                overloads.push(overload);
            }
        }
        overloads
    }

    /// The statements that overload each kernel, in their order.
    fn overloads_by_kernel(&self) -> HashMap<Node, Vec<Node>> {
        let mut by_kernel: HashMap<_, Vec<_>> = HashMap::new();
        for &node in &self.declarations.overloads {
            if let Some(kernel) = self.overloaded(node) {
                by_kernel.entry(kernel).or_default().push(node);
            }
        }
        by_kernel
    }

    /// The kernel that a statement overloads: the last one of the name before it.
    fn overloaded(&self, node: Node) -> Option<Node> {
        let syntax = self.syntax;
        let name = match syntax.kind(node) {
            Kind::FunctionDef => syntax.name(node)?,
            _ => syntax.name_of(syntax.child(node, Field::Args)?)?,
        };
        let scope = enclosing_function(syntax, node);
        let functions = self.declarations.functions_named(syntax, scope, &name);
        let kernel = functions.into_iter().find(|function| function.node < node)?;
        (kernel.role == Role::Kernel).then_some(kernel.node)
    }

    fn overload(&self, node: Node, parameters: &[Parameter]) -> Lowered<Overload> {
        let scope = enclosing_function(self.syntax, node);
        let stated = match self.syntax.kind(node) {
            Kind::FunctionDef => self.of_definition(node, scope)?,
            _ => self.of_call(node, scope, parameters)?,
        };
        if stated.len() != parameters.len() {
            let message = format!("expected {} types of parameters, got {}", parameters.len(), stated.len());
            return Err(self.mismatch(node, message));
        }
        for (parameter, annotation) in parameters.iter().zip(&stated) {
            if !admits(&parameter.annotation, annotation) {
                let name = &parameter.name;
                let expected = &parameter.annotation;
                return Err(self.mismatch(node, format!("expected {expected} for `{name}`, got {annotation}")));
            }
        }
        Ok(Overload { annotations: stated })
    }

    /// The types of `wp.overload(kernel, [T, U])` or `wp.overload(kernel, {"parameter": T})`.
    fn of_call(&self, node: Node, scope: Scope, parameters: &[Parameter]) -> Lowered<Vec<Annotation>> {
        let syntax = self.syntax;
        let types: Vec<_> = syntax.children(node, Field::Args).skip(1).collect();
        let keyword = syntax.child(node, Field::Keywords);
        let types = match (&types[..], keyword) {
            (&[types], None) => types,
            ([], Some(keyword)) if syntax.name(keyword).as_deref() == Some("arg_types") => {
                syntax.required(keyword, Field::Value)
            }
            _ => return Err(self.mismatch(node, "expected the types of the parameters".to_owned())),
        };
        match syntax.kind(types) {
            Kind::List => syntax.children(types, Field::Elts).map(|node| self.annotation(node, scope)).collect(),
            Kind::Dict => self.of_dictionary(types, scope, parameters),
            _ => Err(self.mismatch(types, "expected a list or dictionary of types".to_owned())),
        }
    }

    fn of_dictionary(&self, node: Node, scope: Scope, parameters: &[Parameter]) -> Lowered<Vec<Annotation>> {
        let syntax = self.syntax;
        let mut stated: Vec<_> = parameters.iter().map(|parameter| parameter.annotation.clone()).collect();
        let keys: Vec<_> = syntax.children(node, Field::Keys).collect();
        let values: Vec<_> = syntax.children(node, Field::Values).collect();
        if keys.len() != values.len() {
            return Err(self.mismatch(node, "expected names of parameters with their types".to_owned()));
        }
        for (key, value) in keys.into_iter().zip(values) {
            let index = match syntax.constant_of(key) {
                Some(Constant::Str(name)) => parameters.iter().position(|parameter| parameter.name == name),
                _ => None,
            };
            let index = index.ok_or_else(|| self.mismatch(key, "expected the name of a parameter".to_owned()))?;
            stated[index] = self.annotation(value, scope)?;
        }
        Ok(stated)
    }

    /// The annotations of a function with the decorator `@wp.overload`.
    fn of_definition(&self, node: Node, scope: Scope) -> Lowered<Vec<Annotation>> {
        let syntax = self.syntax;
        let parameters = [Field::Posonlyargs, Field::Args].into_iter().flat_map(|field| syntax.children(node, field));
        parameters
            .map(|parameter| match syntax.child(parameter, Field::Annotation) {
                Some(annotation) => self.annotation(annotation, scope),
                None => Err(self.mismatch(parameter, "expected the type of the parameter".to_owned())),
            })
            .collect()
    }

    fn mismatch(&self, node: Node, message: String) -> LowerError {
        self.syntax.error(node, ErrorKind::ArgumentMismatch, message)
    }
}

/// Returns true if a type is one that a parameter's annotation stands for.
fn admits(annotation: &Annotation, stated: &Annotation) -> bool {
    match (annotation, stated) {
        (Annotation::Open(Open::Any), Annotation::Data(_) | Annotation::Array(..) | Annotation::Record(_)) => true,
        (Annotation::Open(open), Annotation::Data(ty)) => open.admits(ty),
        (Annotation::OpenArray(open, form), Annotation::Array(ty, stated)) => form == stated && open.admits(ty),
        _ => annotation == stated,
    }
}
