//! Random expressions over the variables in scope.

use crate::{code::Code, frame::Frame, scope::Type};

/// Elementary functions of one number, with the same name in Warp and in Python's `math`, and what keeps their argument in their domain. A
/// seed determines the kernels only while the list stays.
const FUNCTIONS: [(&str, Domain); 17] = [
    ("sin", Domain::Any),
    ("cos", Domain::Any),
    ("tanh", Domain::Any),
    ("atan", Domain::Any),
    ("exp", Domain::Negative),
    ("sqrt", Domain::Positive),
    ("log", Domain::AboveOne),
    ("log2", Domain::AboveOne),
    ("log10", Domain::AboveOne),
    ("tan", Domain::Bounded),
    ("sinh", Domain::Bounded),
    ("cosh", Domain::Bounded),
    ("asin", Domain::Bounded),
    ("acos", Domain::Bounded),
    ("degrees", Domain::Any),
    ("radians", Domain::Any),
    ("erf", Domain::Any),
];

/// Where a function is defined.
#[derive(Clone, Copy, Debug)]
enum Domain {
    Any,
    Positive,
    Negative,
    AboveOne,
    /// From -1 to 1.
    Bounded,
}

impl Frame {
    /// A number as people write it.
    pub(crate) fn number(&mut self, ty: Type) -> Code {
        let text = match ty {
            Type::Float if self.chance(40) => {
                self.choices.pick(&["0.5", "1.0", "2.0", "0.1", "0.25", "3.0", "1.5"]).to_owned()
            }
            Type::Float => format!("{}.{}", self.between(0, 9), self.between(1, 99)),
            Type::Int => self.between(1, 15).to_string(),
        };
        Code::atom(text)
    }

    /// A variable, or a number.
    pub(crate) fn leaf(&mut self, ty: Type) -> Code {
        if self.chance(25) { self.number(ty) } else { self.variable_of(ty) }
    }

    /// A variable, or a number if there is none.
    pub(crate) fn variable_of(&mut self, ty: Type) -> Code {
        let variable = self.scope.pick(ty, &mut self.choices);
        variable.map_or_else(|| self.number(ty), Code::atom)
    }

    /// Arithmetic of a depth.
    pub(crate) fn arithmetic(&mut self, ty: Type, depth: u32) -> Code {
        match ty {
            _ if depth == 0 || self.chance(10) => self.leaf(ty),
            Type::Float => self.float(depth, Self::arithmetic),
            Type::Int => self.integer(depth),
        }
    }

    /// Arithmetic and elementary functions.
    pub(crate) fn elementary(&mut self, ty: Type, depth: u32) -> Code {
        if ty == Type::Int || depth == 0 {
            return self.leaf(ty);
        }
        match self.choices.below(10) {
            0..4 => {
                let argument = self.elementary(ty, depth - 1);
                self.function(argument)
            }
            4 => {
                let [y, x] = [(); 2].map(|()| self.elementary(ty, depth - 1));
                Code::call(self.spell("wp.atan2", "math.atan2"), &[y, x])
            }
            5 => {
                let base = self.elementary(ty, depth - 1);
                let base = Code::binary(&self.magnitude(&base), "+", &Code::atom("0.5"));
                let exponent = Code::atom(self.choices.pick(&["0.5", "1.5", "2.0", "3.0", "-1.0"]));
                Code::call(self.spell("wp.pow", "math.pow"), &[base, exponent])
            }
            _ => self.float(depth, Self::elementary),
        }
    }

    /// An elementary function of a number.
    pub(crate) fn function(&mut self, argument: Code) -> Code {
        let (name, domain) = self.choices.pick(&FUNCTIONS);
        let argument = match domain {
            Domain::Any => argument,
            Domain::Positive => self.magnitude(&argument),
            Domain::Negative => Code::negative(&self.magnitude(&argument)),
            Domain::AboveOne => Code::binary(&self.magnitude(&argument), "+", &Code::atom("1.0")),
            Domain::Bounded => self.clamp(argument, &Code::atom("-1.0"), &Code::atom("1.0")),
        };
        let module = if self.is_python() { "math" } else { "wp" };
        Code::call(&format!("{module}.{name}"), &[argument])
    }

    /// A truth value: comparisons, and compounds of them.
    pub(crate) fn condition(&mut self, depth: u32) -> Code {
        if depth > 0 && self.chance(45) {
            let operator = self.choices.pick(&["and", "or"]);
            let [left, right] = [(); 2].map(|()| self.condition(depth - 1));
            return Code::binary(&left, operator, &right);
        }
        let has_ints = self.scope.has(Type::Int);
        let has_floats = self.scope.has(Type::Float);
        if has_ints && (!has_floats || self.chance(35)) {
            return self.integer_condition();
        }
        let left = self.variable_of(Type::Float);
        let right = self.arithmetic(Type::Float, 1);
        let right = self.unlike(&left, right, Type::Float);
        let operator = self.choices.pick(&["<", ">", "<=", ">="]);
        Code::binary(&left, operator, &right)
    }

    /// An expression, or a number if it is the other one: a difference or a comparison of equals says nothing.
    pub(crate) fn unlike(&mut self, other: &Code, expression: Code, ty: Type) -> Code {
        if expression.to_string() == other.to_string() { self.number(ty) } else { expression }
    }

    fn integer_condition(&mut self) -> Code {
        let left = self.variable_of(Type::Int);
        if self.chance(50) {
            let modulus = self.between(2, 7);
            let remainder = Code::binary(&left, "%", &Code::atom(modulus.to_string()));
            let operator = self.choices.pick(&["==", "!="]);
            let equal_to = self.choices.below(modulus).to_string();
            return Code::binary(&remainder, operator, &Code::atom(equal_to));
        }
        let right = self.leaf(Type::Int);
        let right = self.unlike(&left, right, Type::Int);
        let operator = self.choices.pick(&["<", ">", "<=", ">=", "==", "!="]);
        Code::binary(&left, operator, &right)
    }

    fn float(&mut self, depth: u32, part: fn(&mut Self, Type, u32) -> Code) -> Code {
        // The left operand has a variable, so that operations of two numbers are rare.
        let left = if depth == 1 { self.variable_of(Type::Float) } else { part(self, Type::Float, depth - 1) };
        match self.choices.below(14) {
            0..3 => self.two(&left, "+", depth, part),
            3..6 => self.two(&left, "-", depth, part),
            6..9 => self.two(&left, "*", depth, part),
            9 => {
                let below = part(self, Type::Float, depth - 1);
                let least = self.number(Type::Float);
                Code::binary(&left, "/", &Code::binary(&self.magnitude(&below), "+", &least))
            }
            10 => {
                let divisor = Code::atom(self.choices.pick(&["2.0", "3.0", "4.0", "10.0"]));
                Code::binary(&left, "/", &divisor)
            }
            11 => {
                let right = part(self, Type::Float, depth - 1);
                let right = self.unlike(&left, right, Type::Float);
                let function = self.choices.pick(&["min", "max"]);
                self.extreme(function, left, right)
            }
            12 => self.magnitude(&left),
            _ => Code::negative(&left),
        }
    }

    fn two(&mut self, left: &Code, operator: &str, depth: u32, part: fn(&mut Self, Type, u32) -> Code) -> Code {
        let right = part(self, Type::Float, depth - 1);
        let right = if operator == "*" { right } else { self.unlike(left, right, Type::Float) };
        Code::binary(left, operator, &right)
    }

    fn integer(&mut self, depth: u32) -> Code {
        let left = if depth == 1 { self.variable_of(Type::Int) } else { self.arithmetic(Type::Int, depth - 1) };
        match self.choices.below(9) {
            0..3 => Code::binary(&left, "+", &self.arithmetic(Type::Int, depth - 1)),
            3..5 => {
                let right = self.arithmetic(Type::Int, depth - 1);
                let right = self.unlike(&left, right, Type::Int);
                Code::binary(&left, "-", &right)
            }
            5 => Code::binary(&left, "*", &self.leaf(Type::Int)),
            6 => Code::binary(&left, "//", &self.number(Type::Int)),
            7 => Code::binary(&left, "%", &self.number(Type::Int)),
            _ => {
                let right = self.arithmetic(Type::Int, depth - 1);
                let right = self.unlike(&left, right, Type::Int);
                let function = self.choices.pick(&["min", "max"]);
                self.extreme(function, left, right)
            }
        }
    }

    /// The larger or the smaller of two.
    pub(crate) fn extreme(&self, function: &str, left: Code, right: Code) -> Code {
        let prefix = if self.is_python() { "" } else { "wp." };
        Code::call(&format!("{prefix}{function}"), &[left, right])
    }

    /// The absolute value; a number as it is written is its own.
    pub(crate) fn magnitude(&self, value: &Code) -> Code {
        if value.is_number() {
            return value.clone();
        }
        Code::call(self.spell("wp.abs", "abs"), std::slice::from_ref(value))
    }

    pub(crate) fn clamp(&self, value: Code, minimum: &Code, maximum: &Code) -> Code {
        if self.is_python() {
            let capped = self.extreme("min", value, maximum.clone());
            return self.extreme("max", capped, minimum.clone());
        }
        Code::call("wp.clamp", &[value, minimum.clone(), maximum.clone()])
    }

    /// The name of a function in the dialect.
    pub(crate) fn spell(&self, warp: &'static str, python: &'static str) -> &'static str {
        if self.is_python() { python } else { warp }
    }
}
