//! Navigation of a syntax tree: the children of each node, names, operators, constants and positions.

use accelerd_ir::kernel::Site;
use accelerd_parser::columns::{VALUE_ELLIPSIS, VALUE_FALSE, VALUE_NONE, VALUE_TRUE};
use accelerd_parser::{Columns, Context, Field, Kind, NONE, Operator, Tag, Tree};

use crate::error::{ErrorKind, LowerError};

/// A node of the tree, by its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node(u32);

/// The value of a constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    /// An integer.
    Int(i128),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
    /// `None`.
    None,
    /// `...`, a complex number, bytes, or an integer of more than 128 bits.
    Other,
}

/// A tree with an index of children.
pub(crate) struct Syntax<'a> {
    tree: Tree<'a>,
    columns: &'a Columns,
    /// Where the children of each row start in `children`; the last entry is its length.
    starts: Vec<u32>,
    children: Vec<u32>,
    /// Offsets of the first bytes of lines.
    lines: Vec<u32>,
    /// Characters before each block of [`BLOCK`] bytes of the text.
    characters: Vec<u32>,
    /// The function around each row, and that or the class around it.
    scopes: Vec<[u32; 2]>,
}

/// Bytes of text between two counts of characters.
const BLOCK: usize = 256;
/// Bytes of a name. No kernel can have a longer one, and some names are copied each time that they are used.
const MAX_NAME: usize = 1024;

impl<'a> Syntax<'a> {
    /// Indexes a tree.
    pub(crate) fn new(text: &'a str, columns: &'a Columns) -> Self {
        let rows = columns.kinds.len();
        let mut starts = vec![0_u32; rows + 2];
        let mut count = 0;
        for &parent in columns.parents.iter().filter(|&&parent| parent != NONE) {
            starts[parent as usize + 2] += 1;
            count += 1;
        }
        for index in 2..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut children = vec![0; count];
        for (row, &parent) in columns.parents.iter().enumerate() {
            if parent != NONE {
                let place = &mut starts[parent as usize + 1];
                children[*place as usize] = to_u32(row);
                *place += 1;
            }
        }
        let tree = Tree::new(text.as_bytes(), columns);
        let lines = line_starts(text);
        let characters = character_counts(text.as_bytes());
        let mut syntax = Self { tree, columns, starts, children, lines, characters, scopes: vec![] };
        syntax.scopes = syntax.all_scopes();
        syntax
    }

    /// Refuses names that no kernel can have.
    pub(crate) fn check_names(&self) -> Result<(), LowerError> {
        let lengths = self.columns.name_starts.iter().zip(&self.columns.name_ends);
        let Some((&start, &end)) = lengths.into_iter().find(|(start, end)| (*end - *start) as usize > MAX_NAME) else {
            return Ok(());
        };
        // Names that are not in the text as they are have no place there.
        let start_in_text = if (start as usize) < self.tree.text.len() { start } else { 0 };
        let Site { line, column } = self.site_at(start_in_text);
        let message = format!("expected names of at most {MAX_NAME} bytes, got one of {}", end - start);
        Err(LowerError { kind: ErrorKind::TooLarge, message, line, column })
    }

    /// The function, lambda or comprehension around a node, not counting itself, and the class if the node is a name.
    pub(crate) fn scope(&self, node: Node) -> Option<Node> {
        let scope = self.scopes[node.0 as usize][usize::from(self.kind(node) == Kind::Name)];
        (scope != NONE).then_some(Node(scope))
    }

    /// The scopes of all rows, each from that of its parent: trees may be as deep as their source is long.
    fn all_scopes(&self) -> Vec<[u32; 2]> {
        let mut scopes = vec![[NONE; 2]; self.columns.kinds.len()];
        let mut open: Vec<_> = self.nodes().filter(|&node| self.parent(node).is_none()).collect();
        while let Some(node) = open.pop() {
            for child in self.all_children(node) {
                let is_header = matches!(self.field(child), Field::DecoratorList | Field::Returns | Field::Defaults);
                let [of_others, of_names] = scopes[node.0 as usize];
                scopes[child.0 as usize] = match self.kind(node) {
                    Kind::FunctionDef | Kind::AsyncFunctionDef if !is_header => [node.0; 2],
                    Kind::Lambda | Kind::ListComp | Kind::SetComp | Kind::DictComp | Kind::GeneratorExp => [node.0; 2],
                    Kind::ClassDef => [of_others, node.0],
                    _ => [of_others, of_names],
                };
                open.push(child);
            }
        }
        scopes
    }

    /// The children of a function in a field that precedes its body.
    pub(crate) fn header(&self, function: Node, field: Field) -> impl Iterator<Item = Node> {
        let header = self.all_children(function).take_while(|&child| self.field(child) != Field::Body);
        header.filter(move |&child| self.field(child) == field)
    }

    /// Returns true if expressions are nested in a node more than `limit` deep.
    pub(crate) fn is_deeper(&self, node: Node, limit: u32) -> bool {
        let mut open = vec![(node, 0)];
        while let Some((node, depth)) = open.pop() {
            if depth > limit {
                return true;
            }
            open.extend(self.all_children(node).map(|child| (child, depth + 1)));
        }
        false
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..to_u32(self.tree.len())).map(Node)
    }

    /// The kind of a node.
    pub(crate) fn kind(&self, node: Node) -> Kind {
        self.columns.kinds[node.0 as usize]
    }

    /// The field of its parent.
    pub(crate) fn field(&self, node: Node) -> Field {
        self.columns.fields[node.0 as usize]
    }

    /// Its parent.
    pub(crate) fn parent(&self, node: Node) -> Option<Node> {
        let parent = self.columns.parents[node.0 as usize];
        (parent != NONE).then_some(Node(parent))
    }

    /// All its children.
    pub(crate) fn all_children(&self, node: Node) -> impl Iterator<Item = Node> {
        let [start, end] = [node.0 as usize, node.0 as usize + 1].map(|index| self.starts[index] as usize);
        self.children[start..end].iter().map(|&row| Node(row))
    }

    /// Its children in a field.
    pub(crate) fn children(&self, node: Node, field: Field) -> impl Iterator<Item = Node> {
        self.all_children(node).filter(move |&child| self.field(child) == field)
    }

    /// Its first child in a field.
    pub(crate) fn child(&self, node: Node, field: Field) -> Option<Node> {
        self.children(node, field).next()
    }

    /// A child that the grammar requires.
    pub(crate) fn required(&self, node: Node, field: Field) -> Node {
        self.child(node, field).expect("the grammar requires the field")
    }

    /// The name of a `Name`, `Attribute`, function, class, parameter, keyword or identifier.
    pub(crate) fn name(&self, node: Node) -> Option<String> {
        let aux = self.columns.aux[node.0 as usize];
        let number = match self.kind(node) {
            Kind::Name | Kind::Attribute => aux / 4,
            _ => aux,
        };
        (number != NONE).then(|| self.tree.name(number).into_owned())
    }

    /// Returns true if a name, attribute or subscript is a target of an assignment.
    pub(crate) fn is_store(&self, node: Node) -> bool {
        self.columns.aux[node.0 as usize] & 3 == Context::Store as u32
    }

    /// The operator of an operation.
    pub(crate) fn operator(&self, node: Node) -> Operator {
        Operator::ALL[self.columns.aux[node.0 as usize] as usize - 1]
    }

    /// The value of a `Constant`.
    pub(crate) fn constant(&self, node: Node) -> Constant {
        let aux = self.columns.aux[node.0 as usize];
        match aux {
            VALUE_NONE => return Constant::None,
            VALUE_FALSE => return Constant::Bool(false),
            VALUE_TRUE => return Constant::Bool(true),
            VALUE_ELLIPSIS => return Constant::Other,
            _ => {}
        }
        let [start, end] =
            [&self.columns.value_starts, &self.columns.value_ends].map(|column| column[aux as usize] as usize);
        let text = String::from_utf8_lossy(self.tree.slice(start, end)).into_owned();
        match self.columns.value_tags[aux as usize] {
            Tag::Int => parse_int(&text).map_or(Constant::Other, Constant::Int),
            Tag::Float => text.replace('_', "").parse().map_or(Constant::Other, Constant::Float),
            Tag::Str | Tag::UnicodeStr => Constant::Str(text),
            Tag::Imaginary | Tag::Bytes => Constant::Other,
        }
    }

    /// Where a node stands.
    pub(crate) fn site(&self, node: Node) -> Site {
        self.site_at(self.columns.starts[node.0 as usize])
    }

    /// The source of a node.
    pub(crate) fn text(&self, node: Node) -> String {
        let row = node.0 as usize;
        let start = self.columns.starts[row] as usize;
        let end = self.columns.ends[row] as usize;
        String::from_utf8_lossy(&self.tree.text[start..end]).into_owned()
    }

    /// An error at a node.
    pub(crate) fn error(&self, node: Node, kind: ErrorKind, message: impl Into<String>) -> LowerError {
        let Site { line, column } = self.site(node);
        LowerError { kind, message: message.into(), line, column }
    }

    fn site_at(&self, offset: u32) -> Site {
        let line = self.lines.partition_point(|&start| start <= offset);
        let start = self.lines[line - 1];
        Site { line: to_u32(line), column: self.characters_before(offset) - self.characters_before(start) }
    }

    fn characters_before(&self, offset: u32) -> u32 {
        let block = offset as usize / BLOCK;
        self.characters[block] + count_characters(self.tree.text, block * BLOCK..offset as usize)
    }
}

/// The characters before each block of a text.
fn character_counts(text: &[u8]) -> Vec<u32> {
    let mut counts = vec![0];
    for start in (0..text.len()).step_by(BLOCK) {
        let end = (start + BLOCK).min(text.len());
        counts.push(counts[counts.len() - 1] + count_characters(text, start..end));
    }
    counts
}

/// The characters that start in a range of bytes, byte order marks excluded.
fn count_characters(text: &[u8], range: std::ops::Range<usize>) -> u32 {
    let starts =
        range.filter(|&offset| text[offset] & 0xc0 != 0x80 && !text[offset..].starts_with("\u{feff}".as_bytes()));
    to_u32(starts.count())
}

/// Python ends lines at LF, CRLF and CR.
fn line_starts(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    for (index, &byte) in bytes.iter().enumerate() {
        if byte == b'\n' || byte == b'\r' && bytes.get(index + 1) != Some(&b'\n') {
            starts.push(to_u32(index + 1));
        }
    }
    starts
}

fn parse_int(text: &str) -> Option<i128> {
    let digits = text.replace('_', "").to_ascii_lowercase();
    let based = |prefix, radix| digits.strip_prefix(prefix).map(|rest| i128::from_str_radix(rest, radix).ok());
    based("0x", 16).or_else(|| based("0o", 8)).or_else(|| based("0b", 2)).unwrap_or_else(|| digits.parse().ok())
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("rows and offsets are counted in 32 bits")
}

impl Syntax<'_> {
    /// The value of a node that is a `Constant`.
    pub(crate) fn constant_of(&self, node: Node) -> Option<Constant> {
        (self.kind(node) == Kind::Constant).then(|| self.constant(node))
    }
}

impl Syntax<'_> {
    /// The name of a node that is a `Name`.
    pub(crate) fn name_of(&self, node: Node) -> Option<String> {
        if self.kind(node) == Kind::Name { self.name(node) } else { None }
    }

    /// The name that an expression of attributes and subscripts starts with.
    pub(crate) fn root_name(&self, node: Node) -> Option<String> {
        let mut root = node;
        while matches!(self.kind(root), Kind::Attribute | Kind::Subscript) {
            root = self.child(root, Field::Value)?;
        }
        if self.kind(root) == Kind::Name { self.name(root) } else { None }
    }

    /// The variable and field at the start of attributes and subscripts, as `a.b` of `a.b.c[0]`.
    pub(crate) fn root_field(&self, node: Node) -> Option<String> {
        let mut field = node;
        loop {
            let base = self.child(field, Field::Value)?;
            match self.kind(base) {
                Kind::Name if self.kind(field) == Kind::Attribute => {
                    return Some(format!("{}.{}", self.name(base)?, self.name(field)?));
                }
                Kind::Attribute | Kind::Subscript => field = base,
                _ => return None,
            }
        }
    }
}
