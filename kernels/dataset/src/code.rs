//! Expressions as text, with as few parentheses as Python needs.

use std::{borrow::Cow, fmt};

/// The precedence of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Conditional,
    Or,
    And,
    Comparison,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Sum,
    Product,
    Unary,
    Atom,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    /// The source text, borrowed where it is a constant, as that of most names and numbers.
    text: Cow<'static, str>,
    level: Level,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Code {
    /// A name, a number, a call or anything else that binds tightest.
    pub(crate) fn atom(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), level: Level::Atom }
    }

    /// A call.
    pub(crate) fn call(function: &str, arguments: &[Self]) -> Self {
        let mut text = function.to_owned();
        for (nth, argument) in arguments.iter().enumerate() {
            text.push_str(if nth == 0 { "(" } else { ", " });
            text.push_str(&argument.text);
        }
        text.push(')');
        Self::atom(text)
    }

    /// A binary operation, which associates to the left.
    pub(crate) fn binary(left: &Self, operator: &str, right: &Self) -> Self {
        let level = level(operator);
        // Comparisons do not associate: Python would chain them.
        let to_left = if level == Level::Comparison { next(level) } else { level };
        let mut text = String::with_capacity(left.text.len() + operator.len() + right.text.len() + 6);
        left.write_within(to_left, &mut text);
        for part in [" ", operator, " "] {
            text.push_str(part);
        }
        right.write_within(next(level), &mut text);
        Self { text: text.into(), level }
    }

    pub(crate) fn negative(operand: &Self) -> Self {
        Self { text: format!("-{}", operand.within(Level::Atom)).into(), level: Level::Unary }
    }

    pub(crate) fn conditional(condition: &Self, yes: &Self, no: &Self) -> Self {
        let [yes, condition] = [yes, condition].map(|part| part.within(Level::Or));
        Self {
            text: format!("{yes} if {condition} else {}", no.within(Level::Conditional)).into(),
            level: Level::Conditional,
        }
    }

    /// Returns true if it is a number as it is written, without a sign.
    pub(crate) fn is_number(&self) -> bool {
        self.text.starts_with(|first: char| first.is_ascii_digit()) && self.level == Level::Atom
    }

    /// Writes the text, in parentheses where it binds less tightly.
    fn write_within(&self, least: Level, text: &mut String) {
        let [open, close] = if self.level < least { ["(", ")"] } else { [""; 2] };
        for part in [open, &self.text, close] {
            text.push_str(part);
        }
    }

    fn within(&self, least: Level) -> String {
        let mut text = String::new();
        self.write_within(least, &mut text);
        text
    }
}

fn level(operator: &str) -> Level {
    match operator {
        "or" => Level::Or,
        "and" => Level::And,
        "|" => Level::BitOr,
        "^" => Level::BitXor,
        "&" => Level::BitAnd,
        "<<" | ">>" => Level::Shift,
        "+" | "-" => Level::Sum,
        "*" | "/" | "//" | "%" => Level::Product,
        _ => Level::Comparison,
    }
}

fn next(level: Level) -> Level {
    match level {
        Level::Conditional => Level::Or,
        Level::Or => Level::And,
        Level::And => Level::Comparison,
        Level::Comparison => Level::BitOr,
        Level::BitOr => Level::BitXor,
        Level::BitXor => Level::BitAnd,
        Level::BitAnd => Level::Shift,
        Level::Shift => Level::Sum,
        Level::Sum => Level::Product,
        Level::Product => Level::Unary,
        Level::Unary | Level::Atom => Level::Atom,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_are_where_python_needs_them() {
        let [a, b, c] = ["a", "b", "c"].map(Code::atom);
        let difference = Code::binary(&a, "-", &b);
        assert_eq!(Code::binary(&difference, "-", &c).to_string(), "a - b - c");
        assert_eq!(Code::binary(&c, "-", &difference).to_string(), "c - (a - b)");
        assert_eq!(Code::binary(&difference, "*", &c).to_string(), "(a - b) * c");
        assert_eq!(Code::negative(&difference).to_string(), "-(a - b)");
        let less = Code::binary(&difference, "<", &c);
        assert_eq!(Code::binary(&less, "==", &less).to_string(), "(a - b < c) == (a - b < c)");
        let chosen = Code::conditional(&less, &a, &b);
        assert_eq!(Code::binary(&chosen, "+", &c).to_string(), "(a if a - b < c else b) + c");
        assert_eq!(Code::call("f", &[chosen, a]).to_string(), "f(a if a - b < c else b, a)");
    }
}
