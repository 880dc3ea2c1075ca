//! Declarations of a source by scope: kernels, functions, structs, imports and assignments.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use accelerd_parser::{Field, Kind};

use crate::source::syntax::{Constant, Node, Syntax};

/// Bytes of the path of a module or of something in it. A longer one stands for nothing that kernels use.
const MAX_PATH: usize = 1024;

/// A function or the module, by its definition.
pub(crate) type Scope = Option<Node>;

/// The role of a function, by its decorators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `@wp.kernel`
    Kernel,
    /// `@wp.func`
    Function,
    /// `@wp.func_native`: its body is a snippet of C++.
    Native,
    /// `@wp.overload`: types of a generic kernel's parameters.
    Overload,
    /// No decorator.
    Plain,
    /// Another decorator, which may change the behaviour of the function.
    Decorated,
}

/// A function.
#[derive(Clone, Debug)]
pub(crate) struct FunctionDecl {
    pub(crate) node: Node,
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Names that its body assigns: its local variables.
    pub(crate) locals: Rc<HashSet<String>>,
    /// True if it is a method of a class.
    pub(crate) is_method: bool,
}

/// A value that a scope assigns to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assigned {
    /// Once, unconditionally.
    Once(Node),
    /// More than once, or under a condition.
    Ambiguous,
}

/// A class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassDecl {
    pub(crate) node: Node,
    pub(crate) is_struct: bool,
    /// True if there are several of one name.
    pub(crate) is_ambiguous: bool,
}

/// The declarations of a source.
#[derive(Default)]
pub(crate) struct Declarations {
    pub(crate) functions: Vec<FunctionDecl>,
    by_name: HashMap<(Scope, String), Vec<usize>>,
    by_node: HashMap<Node, usize>,
    classes: HashMap<(Scope, String), ClassDecl>,
    assigned: HashMap<(Scope, String), Assigned>,
    /// The path of each imported name: `warp`, `math.sin`.
    imports: HashMap<String, String>,
    /// True if `from warp import *` binds Warp's names.
    has_all_of_warp: bool,
    params: HashSet<(Scope, String)>,
    /// Calls of `wp.overload`, and functions that it decorates.
    pub(crate) overloads: Vec<Node>,
    /// True if a function may take references.
    pub(crate) has_references: bool,
    /// True if a function may advance the state of random numbers in a variable, within an expression.
    has_random_numbers: bool,
}

impl Declarations {
    /// Collects the declarations of a tree.
    pub(crate) fn new(syntax: &Syntax<'_>) -> Self {
        let mut all = Self::default();
        for node in syntax.nodes() {
            match syntax.kind(node) {
                Kind::Import | Kind::ImportFrom => all.import(syntax, node),
                _ => {}
            }
        }
        for node in syntax.nodes() {
            match syntax.kind(node) {
                Kind::FunctionDef => all.function(syntax, node),
                Kind::ClassDef => all.class(syntax, node),
                Kind::Name if syntax.is_store(node) => all.assignment(syntax, node),
                Kind::Call => all.call(syntax, node),
                Kind::Subscript => {
                    let path = all.path(syntax, syntax.required(node, Field::Value));
                    all.has_references |= path.as_deref() == Some("warp.ref");
                }
                Kind::Arg => {
                    let Some(function) = syntax.parent(node) else { continue };
                    let name = syntax.name(node).unwrap_or_default();
                    all.params.insert((Some(function), name));
                }
                _ => {}
            }
        }
        for node in syntax.nodes() {
            if syntax.kind(node) == Kind::Call {
                all.made_function(syntax, node);
            }
        }
        for node in syntax.nodes() {
            if matches!(syntax.kind(node), Kind::Global | Kind::Nonlocal) {
                all.rebinding(syntax, node);
            }
        }
        all
    }

    /// A function that declares a name global or nonlocal may assign to it at any time.
    fn rebinding(&mut self, syntax: &Syntax<'_>, node: Node) {
        for name in syntax.children(node, Field::Names).filter_map(|name| syntax.name(name)) {
            let mut scope = enclosing_function(syntax, node);
            while let Some(function) = scope {
                scope = enclosing_function(syntax, function);
                self.assigned.entry((scope, name.clone())).and_modify(|assigned| *assigned = Assigned::Ambiguous);
            }
        }
    }

    fn call(&mut self, syntax: &Syntax<'_>, node: Node) {
        let path = self.path(syntax, syntax.required(node, Field::Func));
        if path.as_deref() == Some("warp.overload") {
            self.overloads.push(node);
        }
        self.has_random_numbers |= matches!(path.as_deref(), Some("warp.randf" | "warp.randi" | "warp.randu"));
    }

    /// `wp.kernel(f)`, `wp.Kernel(func=f)` and `wp.func(f)` make the function what a decorator makes it.
    fn made_function(&mut self, syntax: &Syntax<'_>, node: Node) {
        let role = match self.path(syntax, syntax.required(node, Field::Func)).as_deref() {
            Some("warp.kernel" | "warp.Kernel") => Role::Kernel,
            Some("warp.func") => Role::Function,
            _ => return,
        };
        let Some(name) = made_of(syntax, node).and_then(|function| syntax.name_of(function)) else { return };
        let indices = self.indices_named(syntax, enclosing_function(syntax, node), &name);
        let Some(&index) = indices.iter().find(|&&index| self.functions[index].node < node) else { return };
        if self.functions[index].role == Role::Plain {
            self.functions[index].role = role;
        }
    }

    /// Returns true if a call may change variables of the function that calls.
    pub(crate) fn has_effects(&self) -> bool {
        self.has_references || self.has_random_numbers
    }

    /// The functions of a name that are visible from a scope, the latest first.
    pub(crate) fn functions_named(&self, syntax: &Syntax<'_>, scope: Scope, name: &str) -> Vec<&FunctionDecl> {
        self.indices_named(syntax, scope, name).into_iter().map(|index| &self.functions[index]).collect()
    }

    /// The same as indices.
    pub(crate) fn indices_named(&self, syntax: &Syntax<'_>, scope: Scope, name: &str) -> Vec<usize> {
        Self::visible(syntax, scope, |scope| {
            let declared = self.by_name.get(&(scope, name.to_owned()))?;
            Some(declared.iter().rev().copied().collect())
        })
        .unwrap_or_default()
    }

    /// The assignment to a name in one scope.
    pub(crate) fn assigned_in(&self, scope: Scope, name: &str) -> Option<Assigned> {
        self.assigned.get(&(scope, name.to_owned())).copied()
    }

    /// Returns true if a function has a parameter of a name.
    pub(crate) fn is_parameter(&self, function: Node, name: &str) -> bool {
        self.params.contains(&(Some(function), name.to_owned()))
    }

    /// The class of a name that is visible from a scope.
    pub(crate) fn class_named(&self, syntax: &Syntax<'_>, scope: Scope, name: &str) -> Option<ClassDecl> {
        Self::visible(syntax, scope, |scope| self.classes.get(&(scope, name.to_owned())).copied())
    }

    /// The assignment to a name in the scopes around a function, with the scope.
    pub(crate) fn assigned(&self, syntax: &Syntax<'_>, scope: Scope, name: &str) -> Option<(Scope, Assigned)> {
        Self::visible(syntax, scope, |scope| {
            let key = (scope, name.to_owned());
            if scope.is_some() && self.params.contains(&key) {
                return Some((scope, Assigned::Ambiguous));
            }
            self.assigned.get(&key).map(|&assigned| (scope, assigned))
        })
    }

    /// The dotted path that an imported name stands for.
    pub(crate) fn imported(&self, name: &str) -> Option<String> {
        let of_warp = || self.has_all_of_warp.then(|| format!("warp.{name}"));
        self.imports.get(name).cloned().or_else(of_warp)
    }

    /// The dotted path of a `Name` or `Attribute` that starts at an imported name.
    pub(crate) fn path(&self, syntax: &Syntax<'_>, node: Node) -> Option<String> {
        let mut parts = vec![];
        let mut current = node;
        while syntax.kind(current) == Kind::Attribute {
            parts.push(syntax.name(current)?);
            current = syntax.child(current, Field::Value)?;
        }
        if syntax.kind(current) != Kind::Name {
            return None;
        }
        let root = self.imported(&syntax.name(current)?)?;
        parts.push(root);
        parts.reverse();
        Some(parts.join("."))
    }

    /// The first answer of the scopes from the one around a function outwards.
    fn visible<T>(syntax: &Syntax<'_>, scope: Scope, answer: impl Fn(Scope) -> Option<T>) -> Option<T> {
        let mut scope = scope;
        loop {
            if let Some(found) = answer(scope) {
                return Some(found);
            }
            scope = enclosing_function(syntax, scope?);
        }
    }

    fn import(&mut self, syntax: &Syntax<'_>, node: Node) {
        let dotted = |node, field| -> Vec<String> {
            syntax.children(node, field).filter_map(|part| syntax.name(part)).collect()
        };
        let from = match syntax.kind(node) {
            Kind::ImportFrom => dotted(node, Field::Module),
            _ => vec![],
        };
        for alias in syntax.children(node, Field::Names) {
            let name = dotted(alias, Field::Name);
            let asname = dotted(alias, Field::Asname);
            let Some(first) = name.first() else {
                self.has_all_of_warp |= from == ["warp"];
                continue;
            };
            let (local, path) = match asname.first() {
                Some(asname) => (asname, [from.as_slice(), name.as_slice()].concat()),
                // `import a.b` binds `a`.
                None => (first, [from.as_slice(), &name[..1]].concat()),
            };
            let path = path.join(".");
            // Each use of the name copies the path.
            let path = if path.len() > MAX_PATH { String::new() } else { path };
            let known = self.imports.entry(local.clone()).or_insert_with(|| path.clone());
            if *known != path {
                // Imports have no scope: a name with two imports refers to neither.
                known.clear();
            }
        }
    }

    fn function(&mut self, syntax: &Syntax<'_>, node: Node) {
        let Some(name) = syntax.name(node) else { return };
        let role = self.role(syntax, node);
        let is_method = syntax.parent(node).is_some_and(|parent| syntax.kind(parent) == Kind::ClassDef);
        let scope = enclosing_function(syntax, node);
        let index = self.functions.len();
        self.functions.push(FunctionDecl { node, name: name.clone(), role, locals: Rc::default(), is_method });
        self.by_node.insert(node, index);
        if role == Role::Overload {
            self.overloads.push(node);
        } else if !is_method {
            self.by_name.entry((scope, name)).or_default().push(index);
        }
    }

    fn role(&self, syntax: &Syntax<'_>, node: Node) -> Role {
        let mut role = Role::Plain;
        for decorator in syntax.children(node, Field::DecoratorList) {
            let callee = match syntax.kind(decorator) {
                Kind::Call => syntax.required(decorator, Field::Func),
                _ => decorator,
            };
            role = match self.path(syntax, callee).as_deref() {
                Some("warp.kernel") => Role::Kernel,
                Some("warp.func") => Role::Function,
                Some("warp.func_native") => Role::Native,
                Some("warp.overload") => Role::Overload,
                _ => return Role::Decorated,
            };
        }
        role
    }

    fn class(&mut self, syntax: &Syntax<'_>, node: Node) {
        let Some(name) = syntax.name(node) else { return };
        let mut decorators = syntax.children(node, Field::DecoratorList);
        let is_struct = decorators.any(|decorator| {
            let callee = syntax.child(decorator, Field::Func).unwrap_or(decorator);
            self.path(syntax, callee).as_deref() == Some("warp.struct")
        });
        let class = ClassDecl { node, is_struct, is_ambiguous: false };
        let entry = self.classes.entry((enclosing_function(syntax, node), name));
        entry.and_modify(|class| class.is_ambiguous = true).or_insert(class);
    }

    fn assignment(&mut self, syntax: &Syntax<'_>, node: Node) {
        let Some(name) = syntax.name(node) else { return };
        let scope = enclosing_function(syntax, node);
        if let Some(&index) = scope.as_ref().and_then(|scope| self.by_node.get(scope)) {
            Rc::make_mut(&mut self.functions[index].locals).insert(name.clone());
        }
        let value = unconditional_value(syntax, node, scope);
        let entry = self.assigned.entry((scope, name));
        entry
            .and_modify(|assigned| *assigned = Assigned::Ambiguous)
            .or_insert(value.map_or(Assigned::Ambiguous, Assigned::Once));
    }
}

/// The function of a call such as `wp.kernel(f)`.
pub(crate) fn made_of(syntax: &Syntax<'_>, node: Node) -> Option<Node> {
    let keyword = || {
        let mut keywords = syntax.children(node, Field::Keywords);
        let keyword = keywords.find(|&keyword| matches!(syntax.name(keyword).as_deref(), Some("f" | "func")))?;
        syntax.child(keyword, Field::Value)
    };
    syntax.child(node, Field::Args).or_else(keyword)
}

/// The value of an assignment to one name that stands directly in a scope's body.
fn unconditional_value(syntax: &Syntax<'_>, target: Node, scope: Scope) -> Option<Node> {
    let statement = syntax.parent(target)?;
    if !matches!(syntax.kind(statement), Kind::Assign | Kind::AnnAssign) || syntax.parent(statement) != scope {
        return None;
    }
    if syntax.children(statement, Field::Targets).nth(1).is_some() {
        return None;
    }
    syntax.child(statement, Field::Value)
}

/// The function around a node, not counting itself. A lambda, comprehension or class has a scope of its own, whose names are visible
/// nowhere else.
pub(crate) fn enclosing_function(syntax: &Syntax<'_>, node: Node) -> Scope {
    syntax.scope(node)
}

/// The docstring of a function.
pub(crate) fn docstring(syntax: &Syntax<'_>, function: Node) -> Option<String> {
    let first = syntax.child(function, Field::Body)?;
    if syntax.kind(first) != Kind::Expr {
        return None;
    }
    let value = syntax.child(first, Field::Value)?;
    match (syntax.kind(value), syntax.constant_of(value)) {
        (Kind::Constant, Some(Constant::Str(text))) => Some(text),
        _ => None,
    }
}
