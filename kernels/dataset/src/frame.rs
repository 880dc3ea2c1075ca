//! A kernel under construction: parameters, lines of the body, and the scope.

use std::fmt::Write as _;

use accelerd_lower::Dialect;
use accelerd_verify::Random;

use crate::{
    code::Code,
    names::{Names, Role},
    scope::{Scope, Type},
};

/// A list of numbers that a thread reads: a row of an array in Warp, a parameter in Python.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) name: String,
    thread: String,
    dialect: Dialect,
}

impl List {
    pub(crate) fn at(&self, index: &str) -> Code {
        match self.dialect {
            Dialect::Warp => Code::atom(format!("{}[{}, {index}]", self.name, self.thread)),
            Dialect::Python => Code::atom(format!("{}[{index}]", self.name)),
        }
    }

    pub(crate) fn len(&self) -> String {
        match self.dialect {
            Dialect::Warp => format!("{}.shape[1]", self.name),
            Dialect::Python => format!("len({})", self.name),
        }
    }
}

/// A kernel while it is written.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) dialect: Dialect,
    pub(crate) random: Random,
    pub(crate) scope: Scope,
    names: Names,
    /// Names of the indices of the thread.
    threads: Vec<String>,
    params: Vec<String>,
    helpers: Vec<String>,
    body: Vec<String>,
    indent: usize,
    /// The types of the values that a function of the dialect Python returns.
    results: Vec<Type>,
}

impl Frame {
    /// A kernel over a grid of one dimension.
    pub(crate) fn new(dialect: Dialect, mut random: Random) -> Self {
        let thread = random.pick(&["i", "tid", "idx"]).to_owned();
        Self {
            dialect,
            random,
            scope: Scope::default(),
            names: Names::default(),
            threads: vec![thread],
            params: vec![],
            helpers: vec![],
            body: vec![],
            indent: 0,
            results: vec![],
        }
    }

    /// A grid of two dimensions, before anything else is written. Functions of the dialect Python have one.
    pub(crate) fn with_two_dimensions(&mut self) {
        if self.dialect == Dialect::Warp {
            let names = self.random.pick(&[["i", "j"], ["row", "col"], ["y_index", "x_index"]]);
            self.threads = names.map(str::to_owned).to_vec();
        }
    }

    /// The name of an index of the thread.
    pub(crate) fn thread(&self, axis: usize) -> &str {
        &self.threads[axis]
    }

    pub(crate) fn is_python(&self) -> bool {
        self.dialect == Dialect::Python
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// One of several.
    pub(crate) fn choose<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.random.index(from.len())].clone()
    }

    /// From `minimum` to `maximum`.
    pub(crate) fn between(&mut self, minimum: u64, maximum: u64) -> u64 {
        minimum + self.random.below(maximum - minimum + 1)
    }

    pub(crate) fn name(&mut self, role: Role) -> String {
        self.names.take(role, &mut self.random)
    }

    /// A parameter with its annotation.
    pub(crate) fn param(&mut self, name: &str, annotation: &str) {
        self.params.push(format!("{name}: {annotation}"));
    }

    /// A number of each thread, in scope.
    pub(crate) fn input(&mut self, ty: Type) -> String {
        let name = self.name(if ty == Type::Float { Role::Float } else { Role::Int });
        if self.is_python() {
            self.param(&name, type_name(ty));
        } else {
            let array = self.array(ty, Role::Array);
            let threads = self.threads.join(", ");
            self.line(format!("{name} = {array}[{threads}]"));
        }
        self.scope.add(ty, &name);
        name
    }

    /// A number that all threads share in Warp, in scope.
    pub(crate) fn scalar(&mut self, ty: Type) -> String {
        let name = self.name(if ty == Type::Float { Role::Scalar } else { Role::Int });
        self.param(&name, type_name(ty));
        self.scope.add(ty, &name);
        name
    }

    /// A list of numbers of each thread.
    pub(crate) fn list(&mut self, ty: Type) -> List {
        let name = self.name(Role::Array);
        match self.dialect {
            Dialect::Warp => self.param(&name, &format!("wp.array2d(dtype={})", type_name(ty))),
            Dialect::Python => self.param(&name, &format!("list[{}]", type_name(ty))),
        }
        List { name, thread: self.threads[0].clone(), dialect: self.dialect }
    }

    /// An array of Warp with an element for each thread.
    pub(crate) fn array(&mut self, ty: Type, role: Role) -> String {
        self.array_of(type_name(ty), role)
    }

    /// As [`Self::array`], of elements of a type of Warp.
    pub(crate) fn array_of(&mut self, element: &str, role: Role) -> String {
        let name = self.name(role);
        let dims = if self.threads.len() == 2 { "2d" } else { "" };
        self.param(&name, &format!("wp.array{dims}(dtype={element})"));
        name
    }

    /// A line of the body.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.body.push(format!("{}{}", "    ".repeat(self.indent + 1), line.as_ref()));
    }

    /// A statement with a block. Declarations of the block are not in scope after it.
    pub(crate) fn block(&mut self, header: impl AsRef<str>, body: impl FnOnce(&mut Self)) {
        self.line(header);
        let outside = self.scope.clone();
        self.indent += 1;
        body(self);
        self.indent -= 1;
        self.scope = outside;
    }

    /// A variable that loops may change.
    pub(crate) fn variable(&mut self, ty: Type, value: &Code) -> String {
        let name = self.name(Role::Temporary);
        // Warp takes a plain number for a constant, which loops may not change.
        match self.dialect {
            Dialect::Warp => self.line(format!("{name} = {}({value})", type_name(ty))),
            Dialect::Python => self.line(format!("{name} = {value}")),
        }
        self.scope.add(ty, &name);
        name
    }

    /// A variable with the value of an expression.
    pub(crate) fn assign(&mut self, ty: Type, value: &Code) -> String {
        let name = self.name(Role::Temporary);
        self.line(format!("{name} = {value}"));
        self.scope.add(ty, &name);
        name
    }

    /// A function of one or two numbers, which is not a kernel; `body` is an expression of its parameters.
    pub(crate) fn helper(&mut self, params: &[&str], body: &Code) -> String {
        let name = self.names.take(Role::Temporary, &mut self.random) + "_of";
        let (decorator, annotation) = if self.is_python() { ("", "") } else { ("@wp.func\n", ": float") };
        let params: Vec<_> = params.iter().map(|param| format!("{param}{annotation}")).collect();
        self.helpers.push(format!("{decorator}def {name}({}):\n    return {body}\n", params.join(", ")));
        name
    }

    /// The results, which end the kernel. In Warp each has an array of its own.
    pub(crate) fn finish(&mut self, results: &[(Type, Code)]) {
        self.results = results.iter().map(|(ty, _)| *ty).collect();
        if self.is_python() {
            let values: Vec<_> = results.iter().map(|(_, value)| value.to_string()).collect();
            return self.line(format!("return {}", values.join(", ")));
        }
        for (ty, value) in results {
            let out = self.array(*ty, Role::Result);
            let threads = self.threads.join(", ");
            self.line(format!("{out}[{threads}] = {value}"));
        }
    }

    /// The module.
    pub(crate) fn module(&self, name: &str) -> String {
        let mut text = String::new();
        let uses = |module: &str| self.body.iter().chain(&self.helpers).any(|line| line.contains(module));
        match self.dialect {
            Dialect::Warp => text.push_str("import warp as wp\n\n\n"),
            Dialect::Python if uses("math.") => text.push_str("import math\n\n\n"),
            Dialect::Python => {}
        }
        for helper in &self.helpers {
            write!(text, "{helper}\n\n").expect("text grows");
        }
        if self.dialect == Dialect::Warp {
            text.push_str("@wp.kernel\n");
        }
        writeln!(text, "def {name}({}){}:", self.params.join(", "), self.result_type()).expect("text grows");
        if self.dialect == Dialect::Warp {
            writeln!(text, "    {} = wp.tid()", self.threads.join(", ")).expect("text grows");
        }
        text.push_str(&self.body.join("\n"));
        text.push('\n');
        text
    }

    fn result_type(&self) -> String {
        let names: Vec<_> = self.results.iter().map(|ty| type_name(*ty)).collect();
        match names.as_slice() {
            _ if !self.is_python() => String::new(),
            [one] => format!(" -> {one}"),
            several => format!(" -> tuple[{}]", several.join(", ")),
        }
    }
}

pub(crate) fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Float => "float",
        Type::Int => "int",
    }
}
