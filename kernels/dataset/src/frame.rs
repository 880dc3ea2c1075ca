//! A kernel under construction: parameters, lines of the body, and the scope.

use std::fmt::{Display, Write as _};

use accelerd_lower::Dialect;

use crate::{
    choices::Choices,
    code::Code,
    names::{Name, Names, Role},
    scope::{Outer, Pool, Scope, Type},
};

/// A list of numbers that a thread reads: a row of an array in Warp, a parameter in Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) name: Name,
    thread: Name,
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
    pub(crate) choices: Choices,
    pub(crate) scope: Scope,
    /// The variables that were in scope before the block.
    outer: Outer,
    names: Names,
    /// Names of the indices of the thread.
    threads: Vec<Name>,
    params: Vec<String>,
    helpers: Vec<String>,
    /// The lines of the body.
    body: String,
    indent: usize,
    /// The types of the values that a function of the dialect Python returns.
    results: Vec<Type>,
}

impl Frame {
    /// A kernel over a grid of one dimension.
    pub(crate) fn new(dialect: Dialect, mut choices: Choices) -> Self {
        let thread = choices.pick(&["i", "tid", "idx"]).into();
        Self {
            dialect,
            choices,
            scope: Scope::default(),
            outer: Outer::default(),
            names: Names::default(),
            threads: vec![thread],
            params: vec![],
            helpers: vec![],
            body: String::new(),
            indent: 0,
            results: vec![],
        }
    }

    /// A grid of two dimensions, before anything else is written. Functions of the dialect Python have one.
    pub(crate) fn with_two_dimensions(&mut self) {
        if self.dialect == Dialect::Warp {
            let names = self.choices.pick(&[["i", "j"], ["row", "col"], ["y_index", "x_index"]]);
            self.threads = names.map(Name::Borrowed).to_vec();
        }
    }

    /// The name of an index of the thread.
    pub(crate) fn thread(&self, axis: usize) -> &Name {
        &self.threads[axis]
    }

    /// The names of the indices of the thread.
    pub(crate) fn threads(&self) -> &[Name] {
        &self.threads
    }

    pub(crate) fn is_python(&self) -> bool {
        self.dialect == Dialect::Python
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.choices.chance(percent)
    }

    /// An entry to read of a pool that has some.
    pub(crate) fn pick<T: Clone + PartialEq>(&mut self, pool: &mut Pool<T>) -> T {
        pool.pick(&mut self.choices).expect("the pool has entries")
    }

    /// An entry that nothing has read yet of a pool that has entries, or any if all are read.
    pub(crate) fn next<T: Clone + PartialEq>(&mut self, pool: &mut Pool<T>) -> T {
        pool.unread(0).unwrap_or_else(|| self.pick(pool))
    }

    /// From `minimum` to `maximum`.
    pub(crate) fn between(&mut self, minimum: u64, maximum: u64) -> u64 {
        minimum + self.choices.below(maximum - minimum + 1)
    }

    pub(crate) fn name(&mut self, role: Role) -> Name {
        self.names.take(role, &mut self.choices)
    }

    /// A parameter with its annotation.
    pub(crate) fn param(&mut self, name: &str, annotation: &str) {
        self.params.push(format!("{name}: {annotation}"));
    }

    /// A number of each thread, in scope.
    pub(crate) fn input(&mut self, ty: Type) -> Name {
        let name = self.name(if ty == Type::Float { Role::Float } else { Role::Int });
        if self.is_python() {
            self.param(&name, type_name(ty));
        } else {
            let array = self.array(ty, Role::Array);
            let threads = self.threads.join(", ");
            self.line(format_args!("{name} = {array}[{threads}]"));
        }
        self.scope.add(ty, name.clone());
        name
    }

    /// A number that all threads share in Warp, in scope.
    pub(crate) fn scalar(&mut self, ty: Type) -> Name {
        let name = self.name(if ty == Type::Float { Role::Scalar } else { Role::Int });
        self.param(&name, type_name(ty));
        self.scope.add(ty, name.clone());
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
    pub(crate) fn array(&mut self, ty: Type, role: Role) -> Name {
        self.array_of(type_name(ty), role)
    }

    /// As [`Self::array`], of elements of a type of Warp.
    pub(crate) fn array_of(&mut self, element: &str, role: Role) -> Name {
        let name = self.name(role);
        let dims = if self.threads.len() == 2 { "2d" } else { "" };
        self.param(&name, &format!("wp.array{dims}(dtype={element})"));
        name
    }

    /// An element of a new array of a type of Warp, which is no scalar.
    pub(crate) fn load(&mut self, element: &str) -> Name {
        let name = self.name(Role::Float);
        let array = self.array_of(element, Role::Array);
        let line = format!("{name} = {array}[{}]", self.threads[0]);
        self.line(line);
        name
    }

    /// A line of the body.
    pub(crate) fn line(&mut self, line: impl Display) {
        self.body.extend(std::iter::repeat_n("    ", self.indent + 1));
        writeln!(self.body, "{line}").expect("text grows");
    }

    /// A statement with a block. Declarations of the block are not in scope after it.
    pub(crate) fn block(&mut self, header: impl Display, body: impl FnOnce(&mut Self)) {
        self.line(header);
        let inside = self.scope.outer();
        let outside = std::mem::replace(&mut self.outer, inside);
        self.indent += 1;
        body(self);
        self.indent -= 1;
        self.assert_all_read();
        self.scope.leave(inside);
        self.outer = outside;
    }

    /// A loop over a range, with its counter in scope.
    pub(crate) fn count(&mut self, counter: &'static str, range: &str, body: impl FnOnce(&mut Self)) {
        self.block(format_args!("for {counter} in range({range}):"), |frame| {
            frame.scope.add(Type::Int, counter);
            body(frame);
        });
    }

    /// A variable, which this reads.
    pub(crate) fn read(&mut self, name: &str) -> Code {
        Code::atom(self.scope.read(name).unwrap_or_else(|| name.to_owned().into()))
    }

    /// An expression with a value, and all variables of the block that nothing has read yet. Those of another type are converted.
    pub(crate) fn with_unread(&mut self, ty: Type, mut value: Code) -> Code {
        while let Some(name) = self.unread(Type::Int) {
            let number = Code::atom(name);
            let operand = if ty == Type::Float { self.float_of(number) } else { number };
            value = self.with_operand(ty, &value, operand);
        }
        while ty == Type::Float
            && let Some(name) = self.unread(ty)
        {
            value = self.with_operand(ty, &value, Code::atom(name));
        }
        value
    }

    /// A condition that reads all floating-point numbers of the block that nothing has read yet.
    pub(crate) fn with_unread_floats(&mut self, mut condition: Code) -> Code {
        while let Some(name) = self.unread(Type::Float) {
            let comparison = self.choices.pick(&["<", ">"]);
            let comparison = Code::binary(&Code::atom(name), comparison, &self.number(Type::Float));
            let operator = self.choices.pick(&["and", "or"]);
            condition = Code::binary(&condition, operator, &comparison);
        }
        condition
    }

    /// A variable of the block that nothing has read yet, to read it.
    pub(crate) fn unread(&mut self, ty: Type) -> Option<Name> {
        self.scope.unread(ty, self.outer)
    }

    /// Returns true if nothing has read a variable of the block.
    pub(crate) fn has_unread(&self, ty: Type) -> bool {
        self.scope.has_unread(ty, self.outer)
    }

    fn with_operand(&mut self, ty: Type, value: &Code, mut operand: Code) -> Code {
        if self.chance(35) {
            operand = Code::binary(&self.number(ty), "*", &operand);
        }
        let operator = self.choices.pick(&["+", "-", "*"]);
        Code::binary(value, operator, &operand)
    }

    /// Converts an integer to a floating-point number. Warp has no implicit conversions.
    pub(crate) fn float_of(&self, number: Code) -> Code {
        if self.is_python() { number } else { Code::call("float", &[number]) }
    }

    fn assert_all_read(&self) {
        let is_read = [Type::Float, Type::Int].iter().all(|ty| !self.has_unread(*ty));
        debug_assert!(is_read, "something is not read in\n{}", self.body);
    }

    /// A variable that loops may change.
    pub(crate) fn variable(&mut self, ty: Type, value: &Code) -> Name {
        let name = self.name(Role::Temporary);
        // Warp takes a plain number for a constant, which loops may not change.
        match self.dialect {
            Dialect::Warp => self.line(format_args!("{name} = {}({value})", type_name(ty))),
            Dialect::Python => self.line(format_args!("{name} = {value}")),
        }
        self.scope.add(ty, name.clone());
        name
    }

    /// A variable with the value of an expression.
    pub(crate) fn assign(&mut self, ty: Type, value: &Code) -> Name {
        self.assign_as(Role::Temporary, ty, value)
    }

    /// As [`Self::assign`], with a name of a role.
    pub(crate) fn assign_as(&mut self, role: Role, ty: Type, value: &Code) -> Name {
        let name = self.name(role);
        self.line(format_args!("{name} = {value}"));
        self.scope.add(ty, name.clone());
        name
    }

    /// A function of one or two numbers, which is not a kernel; `body` is an expression of its parameters.
    pub(crate) fn helper(&mut self, params: &[&str], body: &Code) -> Name {
        let name = self.names.take(Role::Temporary, &mut self.choices) + "_of";
        let (decorator, annotation) = if self.is_python() { ("", "") } else { ("@wp.func\n", ": float") };
        let params: Vec<_> = params.iter().map(|param| format!("{param}{annotation}")).collect();
        self.helpers.push(format!("{decorator}def {name}({}):\n    return {body}\n", params.join(", ")));
        name
    }

    /// The results, which end the kernel. In Warp each has an array of its own. The last one reads what is left.
    pub(crate) fn finish(&mut self, mut results: Vec<(Type, Code)>) {
        if let Some((ty, last)) = results.pop() {
            let last = self.with_unread(ty, last);
            results.push((ty, last));
        }
        self.results = results.iter().map(|(ty, _)| *ty).collect();
        if self.is_python() {
            let values: Vec<_> = results.iter().map(|(_, value)| value.to_string()).collect();
            return self.line(format_args!("return {}", values.join(", ")));
        }
        for (ty, value) in results {
            let out = self.array(ty, Role::Result);
            let threads = self.threads.join(", ");
            self.line(format_args!("{out}[{threads}] = {value}"));
        }
    }

    /// The module.
    pub(crate) fn module(&self, name: &str) -> String {
        self.assert_all_read();
        let mut text = String::new();
        let uses = |module: &str| self.helpers.iter().chain([&self.body]).any(|text| text.contains(module));
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
        text.push_str(&self.body);
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
