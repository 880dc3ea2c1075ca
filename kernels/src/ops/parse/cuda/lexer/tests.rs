//! The numbers that the kernels share with the parser.

use accelerd_parser::{Operator, Terminal};

const HEADER: &str = include_str!("../../../../../cu/parse_lex.cuh");

/// `T_FIELD_OPEN` of `FieldOpen`.
fn name_in_kernels(terminal: Terminal) -> String {
    let mut name = String::from("T");
    for letter in format!("{terminal:?}").chars() {
        if letter.is_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[test]
fn kernels_number_terminals_as_the_grammar_does() {
    for terminal in Terminal::ALL.into_iter().filter(|terminal| *terminal <= Terminal::Tilde) {
        let line = format!("{} = {},", name_in_kernels(terminal), terminal as u8);
        assert!(HEADER.contains(&line), "{line}");
    }
}

#[test]
fn kernels_number_operators_as_the_columns_do() {
    use Operator::{Add, BitAnd, BitXor, Eq, FloorDiv, GtE, LShift, Lt, Mod, NotEq, Pow, RShift};
    let numbers = [Add, Mod, Pow, LShift, RShift, BitXor, BitAnd, FloorDiv, Eq, NotEq, Lt, GtE].map(|o| o as u8);
    assert_eq!(numbers, [3, 8, 9, 10, 11, 13, 14, 15, 20, 21, 22, 25]);
}
