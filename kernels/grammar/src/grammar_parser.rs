//! Parses the grammar notation of `python.grammar`.

use std::collections::HashMap;

use crate::{Error, Vocabulary};

/// The number of a terminal or a rule: terminals first, then the end of the line, then rules.
pub type Symbol = usize;

/// The source of an emitted node's `aux`, with its number in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Aux {
    /// A number.
    Constant = 0,
    /// The payload of a token.
    Payload = 1,
    /// The payload of the second token of a symbol.
    Second = 2,
    /// Four times the payload.
    Reference = 3,
    /// Four times the payload, plus one.
    Store = 4,
    /// The number of a token.
    Token = 5,
    /// The number of characters of a symbol's tokens.
    Level = 6,
    /// 1 for a single name without parentheses, else 0.
    Simple = 7,
    /// The character of a token.
    Letter = 8,
    /// The number of a token; no node if the previous symbol ends with a `Constant`.
    Text = 9,
    /// The number of the token before the previous symbol.
    Source = 10,
}

/// One alternative of a rule.
#[derive(Clone, Debug)]
pub struct Production {
    /// Its left-hand side.
    pub rule: Symbol,
    /// Its right-hand side.
    pub symbols: Vec<Symbol>,
    /// For each symbol the label of its roots, or 0.
    pub labels: Vec<u8>,
    /// The kind of the node it emits, or 0.
    pub kind: u8,
    /// The source of `aux`.
    pub aux: Aux,
    /// The symbol that `aux` is taken from.
    pub aux_symbol: u8,
    /// The value of a constant `aux`.
    pub aux_value: u32,
    /// Leading symbols that are not part of the node.
    pub skipped: u8,
}

impl Production {
    /// Returns true if it is a unit production: it renames a rule and emits nothing.
    pub fn is_unit(&self, terminals: usize) -> bool {
        self.kind == 0 && self.symbols.len() == 1 && self.symbols[0] >= terminals && self.labels[0] == 0
    }
}

/// A label that sets the field of roots by their kind.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// The kind to match.
    pub kind: u8,
    /// The field of roots of that kind.
    pub matching: u8,
    /// The field of all other roots.
    pub other: u8,
}

/// A grammar.
#[derive(Debug)]
pub struct Grammar {
    /// Number of terminals, the end of the line included, which is the last one.
    pub terminals: usize,
    /// The name of each symbol.
    pub names: Vec<String>,
    /// Its productions; the first one is that of the augmented start rule.
    pub productions: Vec<Production>,
    /// Labels; the first ones are the fields themselves, and 0 is no label.
    pub labels: Vec<Label>,
}

impl Grammar {
    /// The terminal of the end of the line.
    pub fn end(&self) -> Symbol {
        self.terminals - 1
    }

    /// A production as a line of text.
    pub fn show(&self, production: usize) -> String {
        let production = &self.productions[production];
        let symbols: Vec<_> = production.symbols.iter().map(|&symbol| self.names[symbol].as_str()).collect();
        format!("{}: {}", self.names[production.rule], symbols.join(" "))
    }
}

/// Parses a grammar whose first rule is the start rule.
pub fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Grammar, Error> {
    let mut parser = GrammarParser::new(vocabulary);
    for (number, line) in text.lines().enumerate() {
        let words = words(line);
        parser.line(&words, line.starts_with(' ')).map_err(|message| Error::Notation { line: number + 1, message })?;
    }
    parser.finish()
}

/// The words of a line without its comment. A `#` inside a word starts none.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().take_while(|word| !word.starts_with('#')).collect()
}

struct GrammarParser<'a> {
    vocabulary: &'a Vocabulary,
    grammar: Grammar,
    /// Numbers of rules and of quoted and named terminals.
    symbols: HashMap<String, Symbol>,
    labels: HashMap<String, u8>,
    defined: Vec<Symbol>,
}

impl<'a> GrammarParser<'a> {
    fn new(vocabulary: &'a Vocabulary) -> Self {
        let mut names = vocabulary.terminals.clone();
        names.push("the end of the line".into());
        let terminals = names.len();
        names.push("the start".into());
        let symbols = vocabulary.terminals.iter().cloned().enumerate().map(|(number, name)| (name, number)).collect();
        let plain = |field: usize| Label { kind: 0, matching: 0, other: u8::try_from(field).expect("few fields") };
        let labels = (0..=vocabulary.fields.len()).map(plain).collect();
        let grammar = Grammar { terminals, names, productions: Vec::new(), labels };
        Self { vocabulary, grammar, symbols, labels: HashMap::new(), defined: Vec::new() }
    }

    fn line(&mut self, words: &[&str], indented: bool) -> Result<(), String> {
        match words {
            [] => Ok(()),
            ["token", quoted, name] => self.token(quoted, name),
            ["label", name, "=", rest @ ..] => self.label(name, rest),
            ["|", alternative @ ..] if indented => self.alternatives(alternative),
            [name] if !indented => self.rule(name),
            _ => Err("neither a rule nor an alternative".into()),
        }
    }

    fn token(&mut self, quoted: &str, name: &str) -> Result<(), String> {
        let number = *self.symbols.get(name).ok_or_else(|| format!("no terminal is called {name}"))?;
        self.symbols.insert(quoted.into(), number);
        self.grammar.names[number] = quoted.into();
        Ok(())
    }

    fn label(&mut self, name: &str, rest: &[&str]) -> Result<(), String> {
        let [kind, "in", matching, "else", other] = rest else { return Err("a label has two fields".into()) };
        let label = Label {
            kind: number(&self.vocabulary.kinds, kind)?,
            matching: number(&self.vocabulary.fields, matching.trim_end_matches(','))?,
            other: number(&self.vocabulary.fields, other)?,
        };
        self.labels.insert(name.into(), u8::try_from(self.grammar.labels.len()).map_err(|_| "too many labels")?);
        self.grammar.labels.push(label);
        Ok(())
    }

    fn rule(&mut self, name: &str) -> Result<(), String> {
        let symbol = self.symbol(name)?;
        if self.defined.contains(&symbol) {
            return Err(format!("{name} is defined twice"));
        }
        if self.defined.is_empty() {
            let start = self.grammar.terminals;
            self.grammar.productions.push(plain(start, vec![symbol]));
        }
        self.defined.push(symbol);
        Ok(())
    }

    /// The symbol of a word; a rule may be used before its definition.
    fn symbol(&mut self, word: &str) -> Result<Symbol, String> {
        if let Some(&symbol) = self.symbols.get(word) {
            return Ok(symbol);
        }
        if let Some(keyword) = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\'')) {
            let name: String = keyword[..1].to_uppercase() + &keyword[1..];
            self.token(word, &name)?;
            return Ok(self.symbols[word]);
        }
        if !word.chars().all(|character| character.is_ascii_lowercase() || character == '_') {
            return Err(format!("{word} is neither a terminal nor the name of a rule"));
        }
        let symbol = self.grammar.names.len();
        self.grammar.names.push(word.into());
        self.symbols.insert(word.into(), symbol);
        Ok(symbol)
    }

    /// Adds the alternatives of a line: one per subset of its optional symbols.
    fn alternatives(&mut self, words: &[&str]) -> Result<(), String> {
        let (symbols, emitted) = match words.iter().position(|&word| word == "=>") {
            Some(arrow) => (&words[..arrow], &words[arrow + 1..]),
            None => (words, &[][..]),
        };
        let optional: Vec<usize> = (0..symbols.len()).filter(|&place| is_optional(symbols[place])).collect();
        for choice in 0..1_usize << optional.len() {
            let left_out =
                |place: usize| optional.iter().position(|&o| o == place).is_some_and(|o| choice >> o & 1 == 0);
            let taken: Vec<&str> = (0..symbols.len()).filter(|&p| !left_out(p)).map(|p| symbols[p]).collect();
            self.alternative(&taken, emitted)?;
        }
        Ok(())
    }

    fn alternative(&mut self, words: &[&str], emitted: &[&str]) -> Result<(), String> {
        let rule = *self.defined.last().ok_or("an alternative outside a rule")?;
        let mut production = plain(rule, Vec::new());
        let mut source = None;
        for word in words.iter().filter(|&&word| word != "nothing") {
            let word = if is_optional(word) { &word[..word.len() - 1] } else { word };
            let (label, word) = split_label(word);
            if word.starts_with('$') || label.is_some_and(|label| label.starts_with('$')) {
                source = Some(production.symbols.len());
            }
            let symbol = self.symbol(word.trim_start_matches('$'))?;
            production.symbols.push(symbol);
            let label = label.map(|label| label.trim_start_matches('$'));
            if label == Some("outside") {
                production.skipped += 1;
            }
            let label = label.filter(|&label| label != "outside").map_or(Ok(0), |label| self.label_number(label))?;
            production.labels.push(label);
        }
        self.emission(&mut production, source, emitted)?;
        self.grammar.productions.push(production);
        Ok(())
    }

    fn label_number(&self, name: &str) -> Result<u8, String> {
        self.labels.get(name).map_or_else(|| number(&self.vocabulary.fields, name), |&label| Ok(label))
    }

    fn emission(&self, production: &mut Production, source: Option<usize>, words: &[&str]) -> Result<(), String> {
        let (kind, aux) = match words {
            [] => return Ok(()),
            ["text", aux] => ("Constant", if *aux == "token" { "text" } else { "" }),
            ["source"] => ("Constant", "source"),
            [kind] => (*kind, "0"),
            [kind, aux] => (*kind, *aux),
            _ => return Err("a node has a kind and an aux".into()),
        };
        production.kind = number(&self.vocabulary.kinds, kind)?;
        production.aux = match aux {
            "payload" => Aux::Payload,
            "second" => Aux::Second,
            "reference" => Aux::Reference,
            "store" => Aux::Store,
            "token" => Aux::Token,
            "level" => Aux::Level,
            "simple" => Aux::Simple,
            "letter" => Aux::Letter,
            "text" => Aux::Text,
            "source" => Aux::Source,
            _ => Aux::Constant,
        };
        if production.aux == Aux::Constant {
            production.aux_value = self.constant(aux)?;
        } else if production.aux != Aux::Source {
            let source = source.ok_or_else(|| format!("{aux} needs a symbol marked with $"))?;
            production.aux_symbol = u8::try_from(source).map_err(|_| "a long alternative")?;
        }
        Ok(())
    }

    /// The numbers of `accelerd_parser::columns`.
    fn constant(&self, word: &str) -> Result<u32, String> {
        match word {
            "absent" | "None" => Ok(u32::MAX),
            "False" => Ok(u32::MAX - 1),
            "True" => Ok(u32::MAX - 2),
            "Ellipsis" => Ok(u32::MAX - 3),
            _ => word.parse().or_else(|_| number(&self.vocabulary.operators, word).map(u32::from)),
        }
    }

    fn finish(self) -> Result<Grammar, Error> {
        let first_rule = self.grammar.terminals + 1;
        let missing = (first_rule..self.grammar.names.len()).find(|symbol| !self.defined.contains(symbol));
        match missing {
            Some(symbol) => {
                Err(Error::Notation { line: 0, message: format!("{} is not defined", self.grammar.names[symbol]) })
            }
            None => Ok(self.grammar),
        }
    }
}

/// A production that emits nothing.
fn plain(rule: Symbol, symbols: Vec<Symbol>) -> Production {
    let labels = vec![0; symbols.len()];
    Production { rule, symbols, labels, kind: 0, aux: Aux::Constant, aux_symbol: 0, aux_value: 0, skipped: 0 }
}

fn is_optional(word: &str) -> bool {
    word.len() > 1 && word.ends_with('?')
}

/// Splits off the label before a colon; the colon of `':'` separates none.
fn split_label(word: &str) -> (Option<&str>, &str) {
    match word.split_once(':') {
        Some((label, symbol)) if !label.contains('\'') => {
            // `target:$name` marks the symbol; the caller checks both sides.
            (Some(label), symbol)
        }
        _ => (None, word),
    }
}

/// The number of a name in a list that starts at 1.
fn number(names: &[String], name: &str) -> Result<u8, String> {
    let place = names.iter().position(|known| known == name).ok_or_else(|| format!("nothing is called {name}"))?;
    u8::try_from(place + 1).map_err(|_| format!("the number of {name} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Vocabulary {
            terminals: list(&["Name", "Comma", "If"]),
            kinds: list(&["Name", "Tuple"]),
            fields: list(&["elts", "test"]),
            operators: list(&["And"]),
        }
    }

    #[test]
    fn optional_symbols_make_two_alternatives() {
        let grammar = parse("token ',' Comma\nstart\n  | Name ','?\n", &vocabulary()).unwrap();
        let lengths: Vec<_> = grammar.productions.iter().map(|production| production.symbols.len()).collect();
        assert_eq!(lengths, [1, 1, 2]);
    }

    #[test]
    fn labels_and_nodes_get_their_numbers() {
        let grammar = parse("start\n  | 'if' test:$Name => Tuple And\n", &vocabulary()).unwrap();
        let production = &grammar.productions[1];
        assert_eq!((production.kind, production.aux_value, &production.labels[..]), (2, 1, &[0, 2][..]));
    }

    #[test]
    fn undefined_rules_are_rejected() {
        let problem = parse("start\n  | other\n", &vocabulary()).unwrap_err();
        assert!(problem.to_string().contains("other is not defined"), "{problem}");
    }
}
