//! The columns of many trees, one after the other.

use accelerd_parser::{Columns, Parsed, Terminal};

use super::Outputs;

/// How much of each column is a source's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the count of its column")]
pub struct Counts {
    pub nodes: u32,
    pub names: u32,
    pub values: u32,
    /// Bytes.
    pub extra: u32,
    pub lines: u32,
    pub tokens: u32,
    pub comments: u32,
}

/// Columns as `accelerd_parser::columns` describes them, of many sources. Kinds, fields and tags are their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described there")]
pub struct BatchColumns {
    pub kinds: Vec<u8>,
    pub fields: Vec<u8>,
    pub parents: Vec<u32>,
    pub starts: Vec<u32>,
    pub ends: Vec<u32>,
    pub aux: Vec<u32>,
    pub name_starts: Vec<u32>,
    pub name_ends: Vec<u32>,
    pub value_tags: Vec<u8>,
    pub value_starts: Vec<u32>,
    pub value_ends: Vec<u32>,
    pub extra: Vec<u8>,
    pub line_starts: Vec<u32>,
    /// Numbers of terminals plus 1.
    pub token_kinds: Vec<u8>,
    pub token_starts: Vec<u32>,
    pub token_ends: Vec<u32>,
    pub comment_starts: Vec<u32>,
    pub comment_ends: Vec<u32>,
}

impl BatchColumns {
    /// Adds what is wanted of a parsed source, and says how much that is.
    pub(super) fn push(&mut self, parsed: &Parsed<'_>, line_starts: &[u32], wanted: Outputs) -> Counts {
        let mut counts = Counts::default();
        if let (true, Ok(tree)) = (wanted.tree, &parsed.outcome) {
            self.push_tree(tree);
            counts.nodes = count(tree.kinds.len());
            counts.names = count(tree.name_starts.len());
            counts.values = count(tree.value_tags.len());
            counts.extra = count(tree.extra.len());
        }
        if wanted.tree || wanted.line_starts {
            self.line_starts.extend_from_slice(line_starts);
            counts.lines = count(line_starts.len());
        }
        if wanted.tokens {
            self.token_kinds.extend(parsed.tokens.kinds.iter().map(|&kind| token_kind(kind as u8)));
            self.token_starts.extend_from_slice(&parsed.tokens.starts);
            self.token_ends.extend_from_slice(&parsed.tokens.ends);
            counts.tokens = count(parsed.tokens.kinds.len());
        }
        if wanted.comments {
            self.comment_starts.extend(parsed.comments.iter().map(|&(start, _)| start));
            self.comment_ends.extend(parsed.comments.iter().map(|&(_, end)| end));
            counts.comments = count(parsed.comments.len());
        }
        counts
    }

    fn push_tree(&mut self, tree: &Columns) {
        self.kinds.extend_from_slice(bytemuck::cast_slice(&tree.kinds));
        self.fields.extend_from_slice(bytemuck::cast_slice(&tree.fields));
        self.parents.extend_from_slice(&tree.parents);
        self.starts.extend_from_slice(&tree.starts);
        self.ends.extend_from_slice(&tree.ends);
        self.aux.extend_from_slice(&tree.aux);
        self.name_starts.extend_from_slice(&tree.name_starts);
        self.name_ends.extend_from_slice(&tree.name_ends);
        self.value_tags.extend_from_slice(bytemuck::cast_slice(&tree.value_tags));
        self.value_starts.extend_from_slice(&tree.value_starts);
        self.value_ends.extend_from_slice(&tree.value_ends);
        self.extra.extend_from_slice(&tree.extra);
    }
}

/// The number of a token's kind outside: the parser alone cares whether `=` follows a field's expression.
pub(super) fn token_kind(terminal: u8) -> u8 {
    let kind = if terminal == Terminal::DebugOpen as u8 { Terminal::FieldOpen as u8 } else { terminal };
    // What a GPU left where a source is not its own may be any byte.
    kind.wrapping_add(1)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a source is smaller than 1 GiB, and so is each of its columns")
}
