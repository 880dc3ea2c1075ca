//! The columns of a syntax tree: one row per node, in an order that a parallel parser can write.
//!
//! **Order.** Nodes are in the order of their logical lines, and in postorder inside a line. The parent of an
//! expression's node is a later row; the parent of a statement in a block is an earlier one, since the header's line
//! precedes the block. Nodes with the same parent and field form the field's list, in ascending order. A top-level
//! statement has the parent [`NONE`].
//!
//! **No row** have `Module`; `arguments`, whose fields are fields of the `FunctionDef` or `Lambda`; operators other
//! than `Compare`'s; contexts; the lines `else:` and `finally:`.
//!
//! **`aux`**, by kind:
//!
//! | kind | `aux` |
//! |---|---|
//! | `Name`, `Attribute` | 4 x name + [`Context`] |
//! | `Subscript`, `Starred`, `List`, `Tuple` | [`Context`] |
//! | `FunctionDef`, `AsyncFunctionDef`, `ClassDef`, `arg`, `TypeVar`, `ParamSpec`, `TypeVarTuple`, `Identifier` | name |
//! | `keyword`, `ExceptHandler`, `MatchStar`, `MatchAs` | name, or [`NONE`] |
//! | `MatchMapping` | the name after `**`, or [`NONE`] |
//! | `BoolOp`, `BinOp`, `UnaryOp`, `AugAssign`, `CompareOp` | [`Operator`] |
//! | `Constant`, `MatchSingleton` | a value, or one of [`VALUE_NONE`], [`VALUE_FALSE`], [`VALUE_TRUE`], [`VALUE_ELLIPSIS`] |
//! | `ImportFrom` | the level: the number of dots |
//! | `AnnAssign` | `simple`, 0 or 1 |
//! | `comprehension` | `is_async`, 0 or 1 |
//! | `FormattedValue`, `Interpolation` | the conversion's character, or [`NONE`] |
//! | all others | 0 |
//!
//! **Dotted names.** An `alias` has one `Identifier` per part of its dotted name in the field `name` (none for `*`),
//! and one in `asname`; an `ImportFrom` has those of its module in `module` (none for only dots). `Global` and
//! `Nonlocal` have theirs in `names`, and the keywords of a `MatchClass` are in `kwd_attrs`, each before its pattern.
//!
//! **Offsets** are bytes of the text: the source as UTF-8, byte order mark included. A row has offsets even where
//! CPython's class has none (`comprehension`, `withitem`, `match_case`, `Identifier`, `CompareOp`): from its first
//! token to its last.
//!
//! **Names and values** are slices of the text followed by `extra`: an offset from the text's length on is in `extra`.
//! Most are slices of the text; `extra` has those with another spelling there: names not in NFKC, strings with escapes,
//! concatenated strings. Names are unique and in the order of their first tokens, values in the order of their nodes.
//!
//! For example `x += f(1)`:
//!
//! | row | kind | field | parent | start | end | aux |
//! |---|---|---|---|---|---|---|
//! | 0 | `Name` | `target` | 4 | 0 | 1 | 4 x 0 + store |
//! | 1 | `Name` | `func` | 3 | 5 | 6 | 4 x 1 + load |
//! | 2 | `Constant` | `args` | 3 | 7 | 8 | value 0 |
//! | 3 | `Call` | `value` | 4 | 5 | 9 | 0 |
//! | 4 | `AugAssign` | `body` | none | 0 | 9 | `Add` |

use bytemuck::NoUninit;

pub use crate::kinds::{Field, Kind, Operator};

/// No parent, no name, no conversion.
pub const NONE: u32 = u32::MAX;
/// The value `None`.
pub const VALUE_NONE: u32 = u32::MAX;
/// The value `False`.
pub const VALUE_FALSE: u32 = u32::MAX - 1;
/// The value `True`.
pub const VALUE_TRUE: u32 = u32::MAX - 2;
/// The value `...`.
pub const VALUE_ELLIPSIS: u32 = u32::MAX - 3;

/// `expr_context`: the low two bits of `aux` where a kind has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Context {
    /// Its value is read.
    Load = 0,
    /// It is assigned to.
    Store = 1,
    /// It is deleted.
    Del = 2,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(u8)]
pub enum Tag {
    /// An integer, as it is written: any base, underscores included.
    Int = 1,
    /// A float, as it is written.
    Float = 2,
    /// An imaginary number, as it is written, with its `j`.
    Imaginary = 3,
    /// A string: its characters in UTF-8, a lone surrogate as the three bytes that UTF-8 would have for it.
    Str = 4,
    /// A string whose first piece is prefixed with a lower-case `u`: `kind='u'`.
    UnicodeStr = 5,
    /// Bytes.
    Bytes = 6,
}

impl Tag {
    /// All of them, in the order of their numbers, which start at 1.
    pub const ALL: [Self; 6] = [Self::Int, Self::Float, Self::Imaginary, Self::Str, Self::UnicodeStr, Self::Bytes];
}

/// A tree, or the rows that a mask keeps. Columns of one table have equal lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The kind of each node.
    pub kinds: Vec<Kind>,
    /// The field of its parent.
    pub fields: Vec<Field>,
    /// Its parent's row, or [`NONE`].
    pub parents: Vec<u32>,
    /// Where it starts.
    pub starts: Vec<u32>,
    /// Where it ends.
    pub ends: Vec<u32>,
    /// A value that depends on the kind: see the module.
    pub aux: Vec<u32>,
    /// Where each name starts.
    pub name_starts: Vec<u32>,
    /// Where each name ends.
    pub name_ends: Vec<u32>,
    /// The type of each value.
    pub value_tags: Vec<Tag>,
    /// Where each value starts.
    pub value_starts: Vec<u32>,
    /// Where each value ends.
    pub value_ends: Vec<u32>,
    /// Names and values that are spelt differently in the text.
    pub extra: Vec<u8>,
}
