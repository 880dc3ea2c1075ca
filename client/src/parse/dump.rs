//! Writes a tree as `ast.dump` of Python 3.13 does, without recursion: a tree may be deeper than the stack.

use super::{
    Context, Literal, Node, Tree, repr,
    schema::{self, Class, Slot},
    tree::NONE,
};
use crate::proto::{NodeField, Operator};

/// Options of a dump, as those of `ast.dump`. The default is one line without positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// True to include lines and columns.
    pub attributes: bool,
    /// Spaces per level; `None` writes one line.
    pub indent: Option<usize>,
}

/// The value of a field or an element of a list.
enum Piece<'a> {
    Module,
    Node(Node<'a>),
    /// The `arguments` of a function.
    Arguments(Node<'a>),
    List(Vec<Piece<'a>>),
    Text(String),
    /// A node without fields, such as `Load()`.
    Bare(&'static str),
}

struct Argument<'a> {
    name: &'static str,
    value: Piece<'a>,
}

/// Pending output; the writer pops the last one.
enum Work<'a> {
    Text(&'static str),
    /// Separator before an item: a comma unless it is the first, and a line break if items are on separate lines.
    Gap {
        first: bool,
        level: Option<usize>,
    },
    Piece(Piece<'a>, usize),
}

struct Writer<'a> {
    tree: &'a Tree<'a>,
    options: DumpOptions,
    work: Vec<Work<'a>>,
    out: String,
}

impl Tree<'_> {
    /// Returns the tree as `ast.dump` writes it.
    pub fn dump(&self, options: &DumpOptions) -> String {
        let mut writer =
            Writer { tree: self, options: *options, work: vec![Work::Piece(Piece::Module, 0)], out: String::new() };
        while let Some(work) = writer.work.pop() {
            match work {
                Work::Text(text) => writer.out.push_str(text),
                Work::Gap { first, level } => writer.gap(first, level),
                Work::Piece(piece, level) => writer.piece(piece, level),
            }
        }
        writer.out
    }
}

impl<'a> Writer<'a> {
    fn gap(&mut self, first: bool, level: Option<usize>) {
        match (level, self.options.indent) {
            (Some(level), Some(indent)) => {
                self.out.push_str(if first { "\n" } else { ",\n" });
                self.out.extend(std::iter::repeat_n(' ', indent * level));
            }
            _ if first => {}
            _ => self.out.push_str(", "),
        }
    }

    fn piece(&mut self, piece: Piece<'a>, level: usize) {
        match piece {
            Piece::Text(text) => self.out.push_str(&text),
            Piece::Bare(name) => self.out.extend([name, "()"]),
            Piece::List(items) => self.list(items, level + 1),
            Piece::Module => self.call(schema::MODULE, self.arguments(schema::MODULE, None), level + 1),
            Piece::Arguments(owner) => {
                self.call(schema::ARGUMENTS, self.arguments(schema::ARGUMENTS, Some(owner)), level + 1);
            }
            Piece::Node(node) => {
                let class = schema::of(node.kind());
                self.call(class, self.arguments(class, Some(node)), level + 1);
            }
        }
    }

    fn list(&mut self, items: Vec<Piece<'a>>, level: usize) {
        self.out.push('[');
        self.work.push(Work::Text("]"));
        for (at, item) in items.into_iter().enumerate().rev() {
            self.work.push(Work::Piece(item, level));
            self.work.push(Work::Gap { first: at == 0, level: Some(level) });
        }
    }

    fn call(&mut self, class: Class, arguments: Vec<Argument<'a>>, level: usize) {
        self.out.extend([class.name, "("]);
        self.work.push(Work::Text(")"));
        let one_line = arguments.len() <= 3 && arguments.iter().all(|argument| self.is_simple(&argument.value));
        let level_of_gaps = (!one_line).then_some(level);
        for (at, Argument { name, value }) in arguments.into_iter().enumerate().rev() {
            self.work.push(Work::Piece(value, level));
            self.work.push(Work::Text("="));
            self.work.push(Work::Text(name));
            self.work.push(Work::Gap { first: at == 0, level: level_of_gaps });
        }
    }

    /// Returns true if it has no fields or elements.
    fn is_simple(&self, piece: &Piece<'a>) -> bool {
        match piece {
            Piece::Text(_) | Piece::Bare(_) => true,
            Piece::List(items) => items.is_empty(),
            _ if self.options.indent.is_none() => true,
            Piece::Module => false,
            Piece::Arguments(owner) => self.arguments(schema::ARGUMENTS, Some(*owner)).is_empty(),
            Piece::Node(node) => self.arguments(schema::of(node.kind()), Some(*node)).is_empty(),
        }
    }

    /// Fields to write; empty lists and None are omitted.
    fn arguments(&self, class: Class, node: Option<Node<'a>>) -> Vec<Argument<'a>> {
        let mut arguments: Vec<_> = match node {
            Some(node) => {
                let field = |&(name, slot): &(&'static str, Slot)| {
                    Some(Argument { name, value: slot_of(self.tree, node, slot)? })
                };
                class.fields.iter().filter_map(field).collect()
            }
            None => many(self.tree.body()).map(|value| Argument { name: "body", value }).into_iter().collect(),
        };
        if let (true, true, Some(node)) = (self.options.attributes, class.positioned, node) {
            let (start, end) = (node.start(), node.end());
            let places = [
                ("lineno", start.line),
                ("col_offset", start.column),
                ("end_lineno", end.line),
                ("end_col_offset", end.column),
            ];
            arguments.extend(places.map(|(name, number)| Argument { name, value: Piece::Text(number.to_string()) }));
        }
        arguments
    }
}

/// The value of a field; `None` if it is omitted.
fn slot_of<'a>(tree: &'a Tree<'a>, node: Node<'a>, slot: Slot) -> Option<Piece<'a>> {
    let aux = node.aux();
    let text = |text: String| Some(Piece::Text(text));
    match slot {
        Slot::One(field) => node.child(field).map(Piece::Node),
        Slot::Many(field) => many(node.children_in(field)),
        Slot::Name if aux == NONE => None,
        Slot::Name => text(quoted(tree.name(aux))),
        Slot::NameBesideContext => text(quoted(tree.name(aux >> 2))),
        Slot::Context | Slot::LowContext => Some(Piece::Bare(context(node.context()))),
        Slot::Operator => Some(Piece::Bare(operator(node.operator()))),
        Slot::Literal => text(node.literal().map_or_else(|| "?".into(), |literal| literal.to_string())),
        Slot::Prefix => matches!(node.literal(), Some(Literal::UnicodeStr(_))).then(|| Piece::Text("'u'".into())),
        Slot::Number => text(aux.to_string()),
        Slot::Signed => text(aux.cast_signed().to_string()),
        Slot::Identifier(field) => node.child(field).and_then(|part| text(quoted(part.name()))),
        Slot::Identifiers(field) => {
            list(node.children_in(field).map(|part| Piece::Text(quoted(part.name()))).collect())
        }
        Slot::Dotted(field) => dotted(node, field).map(Piece::Text),
        Slot::DottedOrStar(field) => dotted(node, field).or_else(|| Some("'*'".into())).map(Piece::Text),
        Slot::Arguments => Some(Piece::Arguments(node)),
        Slot::Keys => list(node.children().filter_map(key).collect()),
        Slot::Values => many(node.children().filter(|child| is_value(*child))),
        Slot::KeywordDefaults => keyword_defaults(node),
        Slot::Operators => {
            let operators = node.children_in(NodeField::Ops);
            list(operators.map(|op| Piece::Bare(operator(op.operator()))).collect())
        }
        Slot::Text(field) => {
            let literal = node.child(field).and_then(Node::literal);
            literal.and_then(|literal| text(literal.to_string()))
        }
    }
}

fn many<'a>(nodes: impl Iterator<Item = Node<'a>>) -> Option<Piece<'a>> {
    list(nodes.map(Piece::Node).collect())
}

fn list(items: Vec<Piece<'_>>) -> Option<Piece<'_>> {
    (!items.is_empty()).then_some(Piece::List(items))
}

fn quoted(name: Option<&str>) -> String {
    repr::string(name.unwrap_or("?").as_bytes())
}

fn dotted(node: Node<'_>, field: NodeField) -> Option<String> {
    let mut path = String::new();
    for part in node.children_in(field) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(part.name().unwrap_or("?"));
    }
    (!path.is_empty()).then(|| quoted(Some(&path)))
}

fn key(child: Node<'_>) -> Option<Piece<'_>> {
    let unpacked = child.field() == NodeField::Unpacked;
    let key = if unpacked { Piece::Text("None".into()) } else { Piece::Node(child) };
    (unpacked || child.field() == NodeField::Keys).then_some(key)
}

fn is_value(child: Node<'_>) -> bool {
    matches!(child.field(), NodeField::Values | NodeField::Unpacked)
}

/// The row of a default follows that of its parameter; a parameter without a default has None.
fn keyword_defaults(function: Node<'_>) -> Option<Piece<'_>> {
    let mut defaults: Vec<Piece<'_>> = vec![];
    for child in function.children() {
        let field = child.field();
        if field == NodeField::Kwonlyargs {
            defaults.push(Piece::Text("None".into()));
        } else if let (NodeField::KwDefaults, Some(last)) = (field, defaults.last_mut()) {
            *last = Piece::Node(child);
        }
    }
    list(defaults)
}

fn context(context: Option<Context>) -> &'static str {
    match context {
        Some(Context::Load) | None => "Load",
        Some(Context::Store) => "Store",
        Some(Context::Del) => "Del",
    }
}

fn operator(operator: Option<Operator>) -> &'static str {
    use Operator as O;
    match operator.unwrap_or_default() {
        O::Unspecified => "Unknown",
        O::And => "And",
        O::Or => "Or",
        O::Add => "Add",
        O::Sub => "Sub",
        O::Mult => "Mult",
        O::MatMult => "MatMult",
        O::Div => "Div",
        O::Mod => "Mod",
        O::Pow => "Pow",
        O::Lshift => "LShift",
        O::Rshift => "RShift",
        O::BitOr => "BitOr",
        O::BitXor => "BitXor",
        O::BitAnd => "BitAnd",
        O::FloorDiv => "FloorDiv",
        O::Invert => "Invert",
        O::Not => "Not",
        O::Uadd => "UAdd",
        O::Usub => "USub",
        O::Eq => "Eq",
        O::NotEq => "NotEq",
        O::Lt => "Lt",
        O::LtE => "LtE",
        O::Gt => "Gt",
        O::GtE => "GtE",
        O::Is => "Is",
        O::IsNot => "IsNot",
        O::In => "In",
        O::NotIn => "NotIn",
    }
}
