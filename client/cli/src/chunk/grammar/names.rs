//! Names of items in the notation of their language.

use tree_sitter::Node;

use super::tables::Grammar;

/// Maximum nesting of declarators, as in `int (*(*f)(int))[2]`.
const MAX_DECLARATORS: usize = 32;

/// The unqualified name of an item or a scope, if it has one. A C type may have the name of its `typedef`.
pub(super) fn of(node: Node<'_>, wrapper: Option<Node<'_>>, text: &str, grammar: Grammar) -> Option<String> {
    let field = |name: &str| node.child_by_field_name(name).map(|child| one_line(text, child));
    match (grammar, node.kind()) {
        (Grammar::Rust, "impl_item") => {
            let on = without_generics(&field("type")?);
            Some(match field("trait") {
                Some(interface) => format!("<{on} as {}>", without_generics(&interface)),
                None => on,
            })
        }
        (Grammar::Rust, "macro_definition") => Some(format!("{}!", field("name")?)),
        (Grammar::Go, "method_declaration") => Some(format!("{}.{}", receiver(node, text)?, field("name")?)),
        (Grammar::Go, "type_declaration") => {
            let mut cursor = node.walk();
            let mut types = node.named_children(&mut cursor).filter(|child| child.kind() != "comment");
            let first = types.next()?;
            // A group of types has no name.
            if types.next().is_some() {
                None
            } else {
                first.child_by_field_name("name").map(|name| one_line(text, name))
            }
        }
        (Grammar::C | Grammar::CHeader | Grammar::Cpp, "function_definition") => declared(node, text),
        (Grammar::C | Grammar::CHeader | Grammar::Cpp, "struct_specifier" | "union_specifier" | "enum_specifier") => {
            node.child_by_field_name("body")?;
            field("name").or_else(|| declared(wrapper?, text))
        }
        (Grammar::JavaScript | Grammar::TypeScript | Grammar::Tsx, "assignment_expression") => {
            let name = field("left")?.replace(".prototype.", ".");
            let name =
                ["module.exports.", "exports."].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
            Some(name.to_owned())
        }
        (Grammar::JavaScript | Grammar::TypeScript | Grammar::Tsx, "module") => {
            Some(field("name")?.trim_matches(['"', '\'']).to_owned())
        }
        (Grammar::JavaScript | Grammar::TypeScript | Grammar::Tsx, "variable_declarator") => {
            field("name").filter(|name| !name.starts_with(['{', '[']))
        }
        _ => field("name").or_else(|| field("property")),
    }
}

/// The type of a Go method's receiver: `(*Server)` or `Server`.
fn receiver(node: Node<'_>, text: &str) -> Option<String> {
    let list = node.child_by_field_name("receiver")?;
    let mut cursor = list.walk();
    let parameter = list.named_children(&mut cursor).find(|child| child.kind() == "parameter_declaration")?;
    let on = without_generics(&one_line(text, parameter.child_by_field_name("type")?));
    Some(if on.starts_with('*') { format!("({on})") } else { on })
}

/// The name that a C declaration declares, inside pointers, functions and arrays.
fn declared(node: Node<'_>, text: &str) -> Option<String> {
    let mut inner = node.child_by_field_name("declarator")?;
    for _ in 0..MAX_DECLARATORS {
        inner = match inner.kind() {
            "reference_declarator" | "parenthesized_declarator" => inner.named_child(0)?,
            "operator_cast" => {
                return Some(format!("operator {}", one_line(text, inner.child_by_field_name("type")?)));
            }
            _ => match inner.child_by_field_name("declarator") {
                Some(next) => next,
                None => return Some(without_generics(&one_line(text, inner))),
            },
        };
    }
    None
}

fn one_line(text: &str, node: Node<'_>) -> String {
    let text = text.get(node.byte_range()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A type without its arguments: `Vec` for `Vec<T>`, `Set` for `Set[K]`. Names of operators are unchanged.
fn without_generics(name: &str) -> String {
    if name.contains("operator") {
        return name.to_owned();
    }
    let mut depth = 0_usize;
    let outside: String = name
        .chars()
        .filter(|c| {
            let opens = matches!(c, '<' | '[');
            depth += usize::from(opens);
            let is_outside = depth == 0;
            depth = depth.saturating_sub(usize::from(matches!(c, '>' | ']')));
            is_outside
        })
        .collect();
    if outside.trim().is_empty() { name.to_owned() } else { outside.trim().to_owned() }
}
