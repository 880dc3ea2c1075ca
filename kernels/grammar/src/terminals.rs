//! The terminals of the grammar.

use bytemuck::NoUninit;

/// A terminal of the grammar: the kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, NoUninit)]
#[repr(u8)]
pub enum Terminal {
    /// An identifier that is no keyword.
    Name = 0,
    /// A number.
    Number = 1,
    /// A string or bytes literal without fields, prefix and quotes included.
    String = 2,
    /// Prefix and opening quotes of an f-string.
    FStringStart = 3,
    /// Prefix and opening quotes of a t-string.
    TStringStart = 4,
    /// Literal text between fields.
    FStringMiddle = 5,
    /// Closing quotes of an f- or t-string.
    FStringEnd = 6,
    /// `{` of a replacement field without `=`.
    FieldOpen = 7,
    /// `}` of a replacement field.
    FieldClose = 8,
    /// `:` before a format specification.
    FieldColon = 9,
    /// `!` before a conversion.
    FieldBang = 10,
    /// `+=` and its like.
    Augmented = 11,
    /// `<`, `==` and their like.
    Comparison = 12,
    /// `<<`, `>>`.
    Shift = 13,
    /// `//`, `%`.
    Multiplicative = 14,
    /// `**`.
    DoubleStar = 15,
    /// `->`.
    Arrow = 16,
    /// `:=`.
    Walrus = 17,
    /// `...`.
    Ellipsis = 18,
    /// `None`.
    None = 19,
    /// `True`.
    True = 20,
    /// `False`.
    False = 21,
    /// `and`.
    And = 22,
    /// `as`.
    As = 23,
    /// `assert`.
    Assert = 24,
    /// `async`.
    Async = 25,
    /// `await`.
    Await = 26,
    /// `break`.
    Break = 27,
    /// `class`.
    Class = 28,
    /// `continue`.
    Continue = 29,
    /// `def`.
    Def = 30,
    /// `del`.
    Del = 31,
    /// `elif`.
    Elif = 32,
    /// `else`.
    Else = 33,
    /// `except`.
    Except = 34,
    /// `finally`.
    Finally = 35,
    /// `for`.
    For = 36,
    /// `from`.
    From = 37,
    /// `global`.
    Global = 38,
    /// `if`.
    If = 39,
    /// `import`.
    Import = 40,
    /// `in`.
    In = 41,
    /// `is`.
    Is = 42,
    /// `lambda`.
    Lambda = 43,
    /// `nonlocal`.
    Nonlocal = 44,
    /// `not`.
    Not = 45,
    /// `or`.
    Or = 46,
    /// `pass`.
    Pass = 47,
    /// `raise`.
    Raise = 48,
    /// `return`.
    Return = 49,
    /// `try`.
    Try = 50,
    /// `while`.
    While = 51,
    /// `with`.
    With = 52,
    /// `yield`.
    Yield = 53,
    /// `match` that opens a match statement.
    Match = 54,
    /// `case` of a match statement.
    Case = 55,
    /// `type` before a name.
    Type = 56,
    /// `(` directly after `with`, with `:` after its closing parenthesis.
    WithParen = 57,
    /// `(`.
    LeftParen = 58,
    /// `)`.
    RightParen = 59,
    /// `[`.
    LeftBracket = 60,
    /// `]`.
    RightBracket = 61,
    /// `{`.
    LeftBrace = 62,
    /// `}`.
    RightBrace = 63,
    /// `,`.
    Comma = 64,
    /// `:`.
    Colon = 65,
    /// `;`.
    Semicolon = 66,
    /// `.`.
    Dot = 67,
    /// `@`.
    At = 68,
    /// `=`.
    Equal = 69,
    /// `+`.
    Plus = 70,
    /// `-`.
    Minus = 71,
    /// `*`.
    Star = 72,
    /// `/`.
    Slash = 73,
    /// `|`.
    Bar = 74,
    /// `&`.
    Ampersand = 75,
    /// `^`.
    Caret = 76,
    /// `~`.
    Tilde = 77,
    /// Placeholder for the elements of a long list or set, parsed in chunks.
    BigList = 78,
    /// Placeholder for the elements of a long tuple.
    BigTuple = 79,
    /// Placeholder for the arguments of a long call.
    BigArgs = 80,
    /// Placeholder for the items of a long dict.
    BigDict = 81,
    /// Starts a chunk of elements.
    ChunkList = 82,
    /// Starts a chunk of arguments.
    ChunkArgs = 83,
    /// Starts a chunk of items.
    ChunkDict = 84,
    /// `{` of a replacement field whose expression is followed by `=`. The lexer emits `FieldOpen`;
    /// `replacement_fields` distinguishes them.
    DebugOpen = 85,
}

impl Terminal {
    /// All of them, in the order of their numbers, which start at 0.
    pub const ALL: [Self; 86] = [
        Self::Name,
        Self::Number,
        Self::String,
        Self::FStringStart,
        Self::TStringStart,
        Self::FStringMiddle,
        Self::FStringEnd,
        Self::FieldOpen,
        Self::FieldClose,
        Self::FieldColon,
        Self::FieldBang,
        Self::Augmented,
        Self::Comparison,
        Self::Shift,
        Self::Multiplicative,
        Self::DoubleStar,
        Self::Arrow,
        Self::Walrus,
        Self::Ellipsis,
        Self::None,
        Self::True,
        Self::False,
        Self::And,
        Self::As,
        Self::Assert,
        Self::Async,
        Self::Await,
        Self::Break,
        Self::Class,
        Self::Continue,
        Self::Def,
        Self::Del,
        Self::Elif,
        Self::Else,
        Self::Except,
        Self::Finally,
        Self::For,
        Self::From,
        Self::Global,
        Self::If,
        Self::Import,
        Self::In,
        Self::Is,
        Self::Lambda,
        Self::Nonlocal,
        Self::Not,
        Self::Or,
        Self::Pass,
        Self::Raise,
        Self::Return,
        Self::Try,
        Self::While,
        Self::With,
        Self::Yield,
        Self::Match,
        Self::Case,
        Self::Type,
        Self::WithParen,
        Self::LeftParen,
        Self::RightParen,
        Self::LeftBracket,
        Self::RightBracket,
        Self::LeftBrace,
        Self::RightBrace,
        Self::Comma,
        Self::Colon,
        Self::Semicolon,
        Self::Dot,
        Self::At,
        Self::Equal,
        Self::Plus,
        Self::Minus,
        Self::Star,
        Self::Slash,
        Self::Bar,
        Self::Ampersand,
        Self::Caret,
        Self::Tilde,
        Self::BigList,
        Self::BigTuple,
        Self::BigArgs,
        Self::BigDict,
        Self::ChunkList,
        Self::ChunkArgs,
        Self::ChunkDict,
        Self::DebugOpen,
    ];
}
