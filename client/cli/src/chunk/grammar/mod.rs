//! Splits a file by the tree-sitter grammar of its language.
//!
//! The tree is walked with an explicit stack, only into nodes that the language's table names, so nesting in the source cannot
//! overflow the call stack. Parse errors lose no lines: those without an item are split into windows.

mod names;
mod tables;

use std::{ops::ControlFlow, rc::Rc};

use tree_sitter::{Node, ParseOptions, Parser, Range, Tree};

pub use self::tables::Grammar;
use self::tables::Rule;
use super::{
    Chunk, Windows,
    items::{File, Item},
    line_starts,
};

/// Parser steps per byte of a file, in hundreds, after which the file is split into windows instead. Real code takes less than
/// a hundredth of it.
const MAX_STEPS_PER_BYTE: usize = 2;
/// Minimum limit of parser steps.
const MIN_STEPS: usize = 10_000;
/// Maximum nesting of macros whose arguments are parsed as code.
const MAX_MACRO_DEPTH: usize = 8;
/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 200;
/// Maximum length of a qualified scope; deeper items are part of the enclosing one.
const MAX_SCOPE_BYTES: usize = 1_000;

/// Splits a text by its functions and classes; `None` if it cannot be parsed.
pub fn split(text: &str, grammar: Grammar, windows: Windows) -> Option<Vec<Chunk<'_>>> {
    let items = items(text, grammar)?;
    Some(File { text, starts: line_starts(text).collect(), items, windows }.split())
}

fn items(text: &str, grammar: Grammar) -> Option<Vec<Item>> {
    let mut parser = Parser::new();
    let mut grammar = grammar;
    let mut tree = parse(&mut parser, text, grammar, None)?;
    // A header's name does not say whether it is C or C++.
    if grammar == Grammar::CHeader && tree.root_node().has_error() {
        grammar = Grammar::Cpp;
        tree = parse(&mut parser, text, grammar, None)?;
    }
    let mut walk = Walk { text, grammar, items: vec![], macros: vec![] };
    let root = Scope { name: "".into(), parent: None, is_test: false, macro_depth: 0 };
    walk.tree(&tree, root);
    while let Some((range, scope)) = walk.macros.pop() {
        if let Some(tree) = parse(&mut parser, text, grammar, Some(range)) {
            walk.tree(&tree, scope);
        }
    }
    Some(walk.items)
}

fn parse(parser: &mut Parser, text: &str, grammar: Grammar, range: Option<Range>) -> Option<Tree> {
    parser.set_language(&grammar.language()).ok()?;
    let bytes = range.map_or(text.len(), |range| range.end_byte - range.start_byte);
    parser.set_included_ranges(range.as_slice()).ok()?;
    let mut left = MIN_STEPS + bytes.saturating_mul(MAX_STEPS_PER_BYTE);
    let mut count = |_: &_| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut count);
    let tree =
        parser.parse_with_options(&mut |index, _| &text.as_bytes()[index.min(text.len())..], None, Some(options));
    parser.reset();
    tree
}

/// Scope of a node.
#[derive(Clone)]
struct Scope {
    /// Prefix of qualified names, with the separator.
    name: Rc<str>,
    /// Index of the class.
    parent: Option<usize>,
    is_test: bool,
    macro_depth: usize,
}

/// Lines of a node, with its leading comments and attributes.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    last: usize,
    is_test: bool,
}

struct Walk<'a> {
    text: &'a str,
    grammar: Grammar,
    items: Vec<Item>,
    /// Macro arguments that may be code.
    macros: Vec<(Range, Scope)>,
}

impl<'a> Walk<'a> {
    fn tree(&mut self, tree: &Tree, root: Scope) {
        let mut pending = vec![(tree.root_node(), root)];
        while let Some((node, scope)) = pending.pop() {
            let from = pending.len();
            if scope.name.len() <= MAX_SCOPE_BYTES {
                self.children(node, &scope, &mut pending);
            }
            pending[from..].reverse();
        }
    }

    /// Creates items for the children of a node, and queues those with nested items.
    fn children<'t>(&mut self, node: Node<'t>, scope: &Scope, pending: &mut Vec<(Node<'t>, Scope)>) {
        let mut lead: Option<Place> = None;
        let is_file = matches!(node.kind(), "source_file" | "program" | "translation_unit");
        let mut before = if is_file { 0 } else { lines(node).0 };
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            let (first, last) = lines(child);
            if self.grammar.is_attached(child.kind()) {
                // A trailing comment belongs to the code on its line.
                if first > before {
                    let is_test = self.grammar.is_test_attribute(self.text_of(child));
                    lead = match lead {
                        Some(lead) if first <= lead.last + 1 => {
                            Some(Place { last, is_test: is_test || lead.is_test, ..lead })
                        }
                        _ => Some(Place { first, last, is_test }),
                    };
                }
                continue;
            }
            let place = match lead.take().filter(|lead| first <= lead.last + 1) {
                Some(lead) => Place { first: lead.first, last, is_test: lead.is_test || scope.is_test },
                None => Place { first, last, is_test: scope.is_test },
            };
            before = last;
            self.node(child, place, scope, pending);
        }
    }

    fn node<'t>(&mut self, node: Node<'t>, place: Place, scope: &Scope, pending: &mut Vec<(Node<'t>, Scope)>) {
        // Real code nests few wrappers; hostile input may nest any number.
        let mut node = node;
        let mut wrapper = None;
        while let Rule::Wrapper(fields) = self.grammar.rule(node.kind()) {
            let field = fields.iter().find_map(|field| node.child_by_field_name(field));
            let Some(inner) = field.or_else(|| only_definition(node, self.grammar)) else { return };
            (node, wrapper) = (inner, Some(node));
        }
        match self.grammar.rule(node.kind()) {
            Rule::Group => pending.push((node, scope.clone())),
            Rule::Scope => self.scope(node, place, scope, pending),
            Rule::Function => {
                if let Some(name) = self.name(node, wrapper) {
                    self.add(&name, node, place, scope, false);
                }
            }
            Rule::Class => {
                // Without a body it is a forward declaration or a type name.
                let (Some(body), Some(name)) = (node.child_by_field_name("body"), self.name(node, wrapper)) else {
                    return;
                };
                let scope = self.add(&name, node, place, scope, true);
                pending.push((body, scope));
            }
            Rule::Bindings => {
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    if self.grammar.rule(child.kind()) == Rule::Scope {
                        self.scope(child, place, scope, pending);
                    } else {
                        self.binding(child, place, scope, pending);
                    }
                }
            }
            Rule::Binding => self.binding(node, place, scope, pending),
            Rule::Macro => self.queue_macro(node, place, scope),
            Rule::Wrapper(_) | Rule::Other => {}
        }
    }

    fn scope<'t>(&self, node: Node<'t>, place: Place, scope: &Scope, pending: &mut Vec<(Node<'t>, Scope)>) {
        let Some(name) = self.name(node, None) else { return pending.push((node, scope.clone())) };
        if let Some(body) = node.child_by_field_name("body") {
            let name = format!("{}{name}{}", scope.name, self.grammar.separator()).into();
            pending.push((body, Scope { name, is_test: place.is_test, ..scope.clone() }));
        }
    }

    fn name(&self, node: Node<'_>, wrapper: Option<Node<'_>>) -> Option<String> {
        let name = names::of(node, wrapper, self.text, self.grammar)?;
        (!name.is_empty() && name.len() <= MAX_NAME_BYTES).then_some(name)
    }

    fn text_of(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// Adds an item. Returns the scope of its members.
    fn add(&mut self, name: &str, node: Node<'_>, place: Place, scope: &Scope, is_class: bool) -> Scope {
        let Place { first, last, is_test } = place;
        let header_end = node.child_by_field_name("body").map_or(last, |body| lines(body).0);
        let name = format!("{}{name}", scope.name);
        let inside = format!("{name}{}", self.grammar.separator()).into();
        self.items.push(Item { name, first, header_end, last, parent: scope.parent, is_class, is_test });
        Scope { name: inside, parent: Some(self.items.len() - 1), is_test, ..scope.clone() }
    }

    /// `const f = () => {}`, `exports.f = function () {}`, a table of a few lines, or a class without a name of its own.
    fn binding<'t>(&mut self, node: Node<'t>, place: Place, scope: &Scope, pending: &mut Vec<(Node<'t>, Scope)>) {
        let value = ["value", "right"].iter().find_map(|field| node.child_by_field_name(field));
        let (Some(value), Some(name)) = (value, self.name(node, None)) else { return };
        let (first, last) = lines(value);
        let is_class = value.kind() == "class";
        if is_class || tables::is_function_value(value.kind()) || last > first + 1 {
            let inside = self.add(&name, value, place, scope, is_class);
            if let Some(body) = value.child_by_field_name("body").filter(|_| is_class) {
                pending.push((body, inside));
            }
        }
    }

    /// Queues macro arguments: `cfg_rt! { fn f() {} }` has items that the grammar does not parse.
    fn queue_macro(&mut self, node: Node<'_>, place: Place, scope: &Scope) {
        let mut cursor = node.walk();
        let tokens = node.named_children(&mut cursor).filter(|child| child.kind() == "token_tree").last();
        let Some(tokens) = tokens.filter(|_| scope.macro_depth < MAX_MACRO_DEPTH) else { return };
        let mut range = tokens.range();
        if !self.text_of(tokens).starts_with('{') || range.end_byte < range.start_byte + 2 {
            return;
        }
        (range.start_byte, range.end_byte) = (range.start_byte + 1, range.end_byte - 1);
        range.start_point.column += 1;
        range.end_point.column = range.end_point.column.saturating_sub(1);
        let scope = Scope { is_test: place.is_test, macro_depth: scope.macro_depth + 1, ..scope.clone() };
        self.macros.push((range, scope));
    }
}

/// First and last line, from 1. A node that ends with a newline ends on the line before.
fn lines(node: Node<'_>) -> (usize, usize) {
    let start = node.start_position();
    let end = node.end_position();
    let last = if end.column == 0 && end.row > start.row { end.row } else { end.row + 1 };
    (start.row + 1, last)
}

/// The definition inside a wrapper without a field for it.
fn only_definition(node: Node<'_>, grammar: Grammar) -> Option<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).find(|child| !matches!(grammar.rule(child.kind()), Rule::Other | Rule::Group))
}

#[cfg(test)]
mod tests;
