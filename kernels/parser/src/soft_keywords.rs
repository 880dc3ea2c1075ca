//! Soft keywords and the parenthesis of `with`: tokens whose terminal depends on their line, or on its parents.
//!
//! - `match` is a keyword at the start of a line that ends with `:` and has more than these two tokens.
//! - `case` is a keyword at the start of a line whose parent, by indentation, is a `match` line.
//! - `type` is a keyword at the start of a statement and before a name.
//! - `(` after `with` encloses the items of the statement if `:` follows its closing parenthesis.

use crate::lexer::Lexed;
use crate::tokens::{Line, Terminal, Tokens};

/// Sets the terminals of these tokens.
pub fn apply(lexed: &mut Lexed) {
    let soft = lexed.soft;
    let tokens = &mut lexed.tokens;
    let lines = &lexed.lines;
    for line in lines {
        mark_with_paren(tokens, line);
    }
    if let Some(name) = soft.r#type {
        mark_types(tokens, lines, name);
    }
    if let Some(name) = soft.r#match {
        mark_matches(tokens, lines, name, soft.case);
    }
}

fn mark_with_paren(tokens: &mut Tokens, line: &Line) {
    let mut first = line.first as usize;
    if tokens.kinds[first] == Terminal::Async {
        first += 1;
    }
    let kinds = &mut tokens.kinds[first.min(line.end as usize)..line.end as usize];
    if let [Terminal::With, rest @ ..] = kinds
        && rest.first() == Some(&Terminal::LeftParen)
        && let Some(close) = matching_bracket(rest)
        && rest.get(close + 1) == Some(&Terminal::Colon)
    {
        rest[0] = Terminal::WithParen;
    }
}

/// The closing bracket of the bracket that `kinds` starts with.
fn matching_bracket(kinds: &[Terminal]) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, kind) in kinds.iter().enumerate() {
        if opens(*kind) {
            depth += 1;
        } else if closes(*kind) {
            depth -= 1;
            if depth == 0 {
                return Some(index);
            }
        }
    }
    None
}

fn opens(kind: Terminal) -> bool {
    matches!(kind, Terminal::LeftParen | Terminal::LeftBracket | Terminal::LeftBrace | Terminal::FieldOpen)
}

fn closes(kind: Terminal) -> bool {
    matches!(kind, Terminal::RightParen | Terminal::RightBracket | Terminal::RightBrace | Terminal::FieldClose)
}

fn mark_types(tokens: &mut Tokens, lines: &[Line], name: u32) {
    for line in lines {
        let mut before = Terminal::Semicolon;
        for index in line.first as usize..line.end as usize - 1 {
            let kind = tokens.kinds[index];
            let starts = matches!(before, Terminal::Semicolon | Terminal::Colon);
            before = kind;
            if starts && is_name(tokens, index, name) && tokens.kinds[index + 1] == Terminal::Name {
                tokens.kinds[index] = Terminal::Type;
            }
        }
    }
}

fn mark_matches(tokens: &mut Tokens, lines: &[Line], name: u32, case: Option<u32>) {
    // The line and its parents: column, and whether it starts a match statement.
    let mut parents: Vec<(u32, bool)> = Vec::new();
    for line in lines {
        while parents.last().is_some_and(|&(column, _)| column >= line.column) {
            parents.pop();
        }
        let first = line.first as usize;
        let in_match = parents.last().is_some_and(|&(_, opens)| opens);
        let opens = is_name(tokens, first, name)
            && line.end - line.first > 2
            && tokens.kinds[line.end as usize - 1] == Terminal::Colon;
        if opens {
            tokens.kinds[first] = Terminal::Match;
        } else if in_match && case.is_some_and(|case| is_name(tokens, first, case)) {
            tokens.kinds[first] = Terminal::Case;
        }
        parents.push((line.column, opens));
    }
}

fn is_name(tokens: &Tokens, index: usize, name: u32) -> bool {
    tokens.kinds[index] == Terminal::Name && tokens.payloads[index] == name
}

#[cfg(test)]
mod tests {
    use super::apply;
    use crate::lexer::lex;
    use crate::tokens::Terminal::{self, Case, LeftParen, Match, Name, Type, WithParen};

    fn firsts(text: &str) -> Vec<Terminal> {
        let mut lexed = lex(text);
        apply(&mut lexed);
        lexed.lines.iter().map(|line| lexed.tokens.kinds[line.first as usize]).collect()
    }

    #[test]
    fn match_and_case_are_keywords_only_in_match_statements() {
        assert_eq!(
            firsts("match x:\n  case 1:\n    case = 2\n  case _:\n    match = 3\n"),
            [Match, Case, Name, Case, Name]
        );
        assert_eq!(firsts("match = 1\nmatch: int\ncase(x)\nmatch[x]\n"), [Name; 4]);
    }

    #[test]
    fn type_is_a_keyword_before_a_name_at_the_start_of_a_statement() {
        assert_eq!(firsts("type X = int\ntype(x)\ntype = 1\ntype type = int"), [Type, Name, Name, Type]);
        let mut lexed = lex("a; type X = 1");
        apply(&mut lexed);
        assert_eq!(lexed.tokens.kinds[2], Type);
    }

    #[test]
    fn a_paren_encloses_the_items_of_with_if_a_colon_follows_its_match() {
        let second = |text: &str, index: usize| {
            let mut lexed = lex(text);
            apply(&mut lexed);
            lexed.tokens.kinds[index]
        };
        assert_eq!(second("with (a, f'{(b)}'): pass", 1), WithParen);
        assert_eq!(second("async with (a as b):\n  pass", 2), WithParen);
        assert_eq!(second("with (a) as b: pass", 1), LeftParen);
        assert_eq!(second("with (a), (b): pass", 1), LeftParen);
    }
}
