//! The kinds of nodes, their fields and operators, with the numbers they have in columns and on the wire.

use bytemuck::NoUninit;

/// What a node is: the classes of CPython's `ast` module, and two of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, NoUninit)]
#[repr(u8)]
pub enum Kind {
    /// `ast.FunctionDef`.
    FunctionDef = 1,
    /// `ast.AsyncFunctionDef`.
    AsyncFunctionDef = 2,
    /// `ast.ClassDef`.
    ClassDef = 3,
    /// `ast.Return`.
    Return = 4,
    /// `ast.Delete`.
    Delete = 5,
    /// `ast.Assign`.
    Assign = 6,
    /// `ast.TypeAlias`.
    TypeAlias = 7,
    /// `ast.AugAssign`.
    AugAssign = 8,
    /// `ast.AnnAssign`.
    AnnAssign = 9,
    /// `ast.For`.
    For = 10,
    /// `ast.AsyncFor`.
    AsyncFor = 11,
    /// `ast.While`.
    While = 12,
    /// `ast.If`.
    If = 13,
    /// `ast.With`.
    With = 14,
    /// `ast.AsyncWith`.
    AsyncWith = 15,
    /// `ast.Match`.
    Match = 16,
    /// `ast.Raise`.
    Raise = 17,
    /// `ast.Try`.
    Try = 18,
    /// `ast.TryStar`.
    TryStar = 19,
    /// `ast.Assert`.
    Assert = 20,
    /// `ast.Import`.
    Import = 21,
    /// `ast.ImportFrom`.
    ImportFrom = 22,
    /// `ast.Global`.
    Global = 23,
    /// `ast.Nonlocal`.
    Nonlocal = 24,
    /// `ast.Expr`.
    Expr = 25,
    /// `ast.Pass`.
    Pass = 26,
    /// `ast.Break`.
    Break = 27,
    /// `ast.Continue`.
    Continue = 28,
    /// `ast.BoolOp`.
    BoolOp = 29,
    /// `ast.NamedExpr`.
    NamedExpr = 30,
    /// `ast.BinOp`.
    BinOp = 31,
    /// `ast.UnaryOp`.
    UnaryOp = 32,
    /// `ast.Lambda`.
    Lambda = 33,
    /// `ast.IfExp`.
    IfExp = 34,
    /// `ast.Dict`.
    Dict = 35,
    /// `ast.Set`.
    Set = 36,
    /// `ast.ListComp`.
    ListComp = 37,
    /// `ast.SetComp`.
    SetComp = 38,
    /// `ast.DictComp`.
    DictComp = 39,
    /// `ast.GeneratorExp`.
    GeneratorExp = 40,
    /// `ast.Await`.
    Await = 41,
    /// `ast.Yield`.
    Yield = 42,
    /// `ast.YieldFrom`.
    YieldFrom = 43,
    /// `ast.Compare`.
    Compare = 44,
    /// `ast.Call`.
    Call = 45,
    /// `ast.FormattedValue`.
    FormattedValue = 46,
    /// `ast.Interpolation`.
    Interpolation = 47,
    /// `ast.JoinedStr`.
    JoinedStr = 48,
    /// `ast.TemplateStr`.
    TemplateStr = 49,
    /// `ast.Constant`.
    Constant = 50,
    /// `ast.Attribute`.
    Attribute = 51,
    /// `ast.Subscript`.
    Subscript = 52,
    /// `ast.Starred`.
    Starred = 53,
    /// `ast.Name`.
    Name = 54,
    /// `ast.List`.
    List = 55,
    /// `ast.Tuple`.
    Tuple = 56,
    /// `ast.Slice`.
    Slice = 57,
    /// `ast.comprehension`.
    Comprehension = 58,
    /// `ast.ExceptHandler`.
    ExceptHandler = 59,
    /// `ast.arg`.
    Arg = 60,
    /// `ast.keyword`.
    Keyword = 61,
    /// `ast.alias`.
    Alias = 62,
    /// `ast.withitem`.
    Withitem = 63,
    /// `ast.match_case`.
    MatchCase = 64,
    /// `ast.MatchValue`.
    MatchValue = 65,
    /// `ast.MatchSingleton`.
    MatchSingleton = 66,
    /// `ast.MatchSequence`.
    MatchSequence = 67,
    /// `ast.MatchMapping`.
    MatchMapping = 68,
    /// `ast.MatchClass`.
    MatchClass = 69,
    /// `ast.MatchStar`.
    MatchStar = 70,
    /// `ast.MatchAs`.
    MatchAs = 71,
    /// `ast.MatchOr`.
    MatchOr = 72,
    /// `ast.TypeVar`.
    TypeVar = 73,
    /// `ast.ParamSpec`.
    ParamSpec = 74,
    /// `ast.TypeVarTuple`.
    TypeVarTuple = 75,
    /// An identifier that is no expression, with its place: a part of a dotted name, an `as` name, a global name.
    Identifier = 76,
    /// One operator of a `Compare`; `aux` says which.
    CompareOp = 77,
}

impl Kind {
    /// All of them, in the order of their numbers, which start at 1.
    pub const ALL: [Self; 77] = [
        Self::FunctionDef,
        Self::AsyncFunctionDef,
        Self::ClassDef,
        Self::Return,
        Self::Delete,
        Self::Assign,
        Self::TypeAlias,
        Self::AugAssign,
        Self::AnnAssign,
        Self::For,
        Self::AsyncFor,
        Self::While,
        Self::If,
        Self::With,
        Self::AsyncWith,
        Self::Match,
        Self::Raise,
        Self::Try,
        Self::TryStar,
        Self::Assert,
        Self::Import,
        Self::ImportFrom,
        Self::Global,
        Self::Nonlocal,
        Self::Expr,
        Self::Pass,
        Self::Break,
        Self::Continue,
        Self::BoolOp,
        Self::NamedExpr,
        Self::BinOp,
        Self::UnaryOp,
        Self::Lambda,
        Self::IfExp,
        Self::Dict,
        Self::Set,
        Self::ListComp,
        Self::SetComp,
        Self::DictComp,
        Self::GeneratorExp,
        Self::Await,
        Self::Yield,
        Self::YieldFrom,
        Self::Compare,
        Self::Call,
        Self::FormattedValue,
        Self::Interpolation,
        Self::JoinedStr,
        Self::TemplateStr,
        Self::Constant,
        Self::Attribute,
        Self::Subscript,
        Self::Starred,
        Self::Name,
        Self::List,
        Self::Tuple,
        Self::Slice,
        Self::Comprehension,
        Self::ExceptHandler,
        Self::Arg,
        Self::Keyword,
        Self::Alias,
        Self::Withitem,
        Self::MatchCase,
        Self::MatchValue,
        Self::MatchSingleton,
        Self::MatchSequence,
        Self::MatchMapping,
        Self::MatchClass,
        Self::MatchStar,
        Self::MatchAs,
        Self::MatchOr,
        Self::TypeVar,
        Self::ParamSpec,
        Self::TypeVarTuple,
        Self::Identifier,
        Self::CompareOp,
    ];

    /// The name CPython gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FunctionDef => "FunctionDef",
            Self::AsyncFunctionDef => "AsyncFunctionDef",
            Self::ClassDef => "ClassDef",
            Self::Return => "Return",
            Self::Delete => "Delete",
            Self::Assign => "Assign",
            Self::TypeAlias => "TypeAlias",
            Self::AugAssign => "AugAssign",
            Self::AnnAssign => "AnnAssign",
            Self::For => "For",
            Self::AsyncFor => "AsyncFor",
            Self::While => "While",
            Self::If => "If",
            Self::With => "With",
            Self::AsyncWith => "AsyncWith",
            Self::Match => "Match",
            Self::Raise => "Raise",
            Self::Try => "Try",
            Self::TryStar => "TryStar",
            Self::Assert => "Assert",
            Self::Import => "Import",
            Self::ImportFrom => "ImportFrom",
            Self::Global => "Global",
            Self::Nonlocal => "Nonlocal",
            Self::Expr => "Expr",
            Self::Pass => "Pass",
            Self::Break => "Break",
            Self::Continue => "Continue",
            Self::BoolOp => "BoolOp",
            Self::NamedExpr => "NamedExpr",
            Self::BinOp => "BinOp",
            Self::UnaryOp => "UnaryOp",
            Self::Lambda => "Lambda",
            Self::IfExp => "IfExp",
            Self::Dict => "Dict",
            Self::Set => "Set",
            Self::ListComp => "ListComp",
            Self::SetComp => "SetComp",
            Self::DictComp => "DictComp",
            Self::GeneratorExp => "GeneratorExp",
            Self::Await => "Await",
            Self::Yield => "Yield",
            Self::YieldFrom => "YieldFrom",
            Self::Compare => "Compare",
            Self::Call => "Call",
            Self::FormattedValue => "FormattedValue",
            Self::Interpolation => "Interpolation",
            Self::JoinedStr => "JoinedStr",
            Self::TemplateStr => "TemplateStr",
            Self::Constant => "Constant",
            Self::Attribute => "Attribute",
            Self::Subscript => "Subscript",
            Self::Starred => "Starred",
            Self::Name => "Name",
            Self::List => "List",
            Self::Tuple => "Tuple",
            Self::Slice => "Slice",
            Self::Comprehension => "comprehension",
            Self::ExceptHandler => "ExceptHandler",
            Self::Arg => "arg",
            Self::Keyword => "keyword",
            Self::Alias => "alias",
            Self::Withitem => "withitem",
            Self::MatchCase => "match_case",
            Self::MatchValue => "MatchValue",
            Self::MatchSingleton => "MatchSingleton",
            Self::MatchSequence => "MatchSequence",
            Self::MatchMapping => "MatchMapping",
            Self::MatchClass => "MatchClass",
            Self::MatchStar => "MatchStar",
            Self::MatchAs => "MatchAs",
            Self::MatchOr => "MatchOr",
            Self::TypeVar => "TypeVar",
            Self::ParamSpec => "ParamSpec",
            Self::TypeVarTuple => "TypeVarTuple",
            Self::Identifier => "Identifier",
            Self::CompareOp => "CompareOp",
        }
    }
}

/// Which field of its parent a node is in, or of the parent's `arguments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, NoUninit)]
#[repr(u8)]
pub enum Field {
    /// `body`.
    Body = 1,
    /// `decorator_list`.
    DecoratorList = 2,
    /// `returns`.
    Returns = 3,
    /// `type_params`.
    TypeParams = 4,
    /// `bases`.
    Bases = 5,
    /// `keywords`.
    Keywords = 6,
    /// `value`.
    Value = 7,
    /// `targets`.
    Targets = 8,
    /// `target`.
    Target = 9,
    /// `annotation`.
    Annotation = 10,
    /// `iter`.
    Iter = 11,
    /// `orelse`.
    Orelse = 12,
    /// `test`.
    Test = 13,
    /// `items`.
    Items = 14,
    /// `subject`.
    Subject = 15,
    /// `cases`.
    Cases = 16,
    /// `exc`.
    Exc = 17,
    /// `cause`.
    Cause = 18,
    /// `handlers`.
    Handlers = 19,
    /// `finalbody`.
    Finalbody = 20,
    /// `msg`.
    Msg = 21,
    /// `names`.
    Names = 22,
    /// `values`.
    Values = 23,
    /// `left`.
    Left = 24,
    /// `right`.
    Right = 25,
    /// `operand`.
    Operand = 26,
    /// `elt`.
    Elt = 27,
    /// `generators`.
    Generators = 28,
    /// `key`.
    Key = 29,
    /// `keys`.
    Keys = 30,
    /// `ops`.
    Ops = 31,
    /// `comparators`.
    Comparators = 32,
    /// `func`.
    Func = 33,
    /// `args`.
    Args = 34,
    /// `format_spec`.
    FormatSpec = 35,
    /// `slice`.
    Slice = 36,
    /// `elts`.
    Elts = 37,
    /// `lower`.
    Lower = 38,
    /// `upper`.
    Upper = 39,
    /// `step`.
    Step = 40,
    /// `ifs`.
    Ifs = 41,
    /// `context_expr`.
    ContextExpr = 42,
    /// `optional_vars`.
    OptionalVars = 43,
    /// `pattern`.
    Pattern = 44,
    /// `guard`.
    Guard = 45,
    /// `patterns`.
    Patterns = 46,
    /// `cls`.
    Cls = 47,
    /// `kwd_attrs`.
    KwdAttrs = 48,
    /// `kwd_patterns`.
    KwdPatterns = 49,
    /// `bound`.
    Bound = 50,
    /// `default_value`.
    DefaultValue = 51,
    /// `type`.
    Type = 52,
    /// `name`.
    Name = 53,
    /// `posonlyargs`.
    Posonlyargs = 54,
    /// `vararg`.
    Vararg = 55,
    /// `kwonlyargs`.
    Kwonlyargs = 56,
    /// The default of the `kwonlyargs` right before it; one without has none.
    KwDefaults = 57,
    /// `kwarg`.
    Kwarg = 58,
    /// `defaults`.
    Defaults = 59,
    /// `module`.
    Module = 60,
    /// `asname`.
    Asname = 61,
    /// The text of an `Interpolation`'s expression.
    Str = 62,
    /// A value of a `Dict` behind `**`: its key is `None`.
    Unpacked = 63,
}

impl Field {
    /// All of them, in the order of their numbers, which start at 1.
    pub const ALL: [Self; 63] = [
        Self::Body,
        Self::DecoratorList,
        Self::Returns,
        Self::TypeParams,
        Self::Bases,
        Self::Keywords,
        Self::Value,
        Self::Targets,
        Self::Target,
        Self::Annotation,
        Self::Iter,
        Self::Orelse,
        Self::Test,
        Self::Items,
        Self::Subject,
        Self::Cases,
        Self::Exc,
        Self::Cause,
        Self::Handlers,
        Self::Finalbody,
        Self::Msg,
        Self::Names,
        Self::Values,
        Self::Left,
        Self::Right,
        Self::Operand,
        Self::Elt,
        Self::Generators,
        Self::Key,
        Self::Keys,
        Self::Ops,
        Self::Comparators,
        Self::Func,
        Self::Args,
        Self::FormatSpec,
        Self::Slice,
        Self::Elts,
        Self::Lower,
        Self::Upper,
        Self::Step,
        Self::Ifs,
        Self::ContextExpr,
        Self::OptionalVars,
        Self::Pattern,
        Self::Guard,
        Self::Patterns,
        Self::Cls,
        Self::KwdAttrs,
        Self::KwdPatterns,
        Self::Bound,
        Self::DefaultValue,
        Self::Type,
        Self::Name,
        Self::Posonlyargs,
        Self::Vararg,
        Self::Kwonlyargs,
        Self::KwDefaults,
        Self::Kwarg,
        Self::Defaults,
        Self::Module,
        Self::Asname,
        Self::Str,
        Self::Unpacked,
    ];

    /// The name CPython gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::DecoratorList => "decorator_list",
            Self::Returns => "returns",
            Self::TypeParams => "type_params",
            Self::Bases => "bases",
            Self::Keywords => "keywords",
            Self::Value => "value",
            Self::Targets => "targets",
            Self::Target => "target",
            Self::Annotation => "annotation",
            Self::Iter => "iter",
            Self::Orelse => "orelse",
            Self::Test => "test",
            Self::Items => "items",
            Self::Subject => "subject",
            Self::Cases => "cases",
            Self::Exc => "exc",
            Self::Cause => "cause",
            Self::Handlers => "handlers",
            Self::Finalbody => "finalbody",
            Self::Msg => "msg",
            Self::Names => "names",
            Self::Values => "values",
            Self::Left => "left",
            Self::Right => "right",
            Self::Operand => "operand",
            Self::Elt => "elt",
            Self::Generators => "generators",
            Self::Key => "key",
            Self::Keys => "keys",
            Self::Ops => "ops",
            Self::Comparators => "comparators",
            Self::Func => "func",
            Self::Args => "args",
            Self::FormatSpec => "format_spec",
            Self::Slice => "slice",
            Self::Elts => "elts",
            Self::Lower => "lower",
            Self::Upper => "upper",
            Self::Step => "step",
            Self::Ifs => "ifs",
            Self::ContextExpr => "context_expr",
            Self::OptionalVars => "optional_vars",
            Self::Pattern => "pattern",
            Self::Guard => "guard",
            Self::Patterns => "patterns",
            Self::Cls => "cls",
            Self::KwdAttrs => "kwd_attrs",
            Self::KwdPatterns => "kwd_patterns",
            Self::Bound => "bound",
            Self::DefaultValue => "default_value",
            Self::Type => "type",
            Self::Name => "name",
            Self::Posonlyargs => "posonlyargs",
            Self::Vararg => "vararg",
            Self::Kwonlyargs => "kwonlyargs",
            Self::KwDefaults => "kw_defaults",
            Self::Kwarg => "kwarg",
            Self::Defaults => "defaults",
            Self::Module => "module",
            Self::Asname => "asname",
            Self::Str => "str",
            Self::Unpacked => "unpacked",
        }
    }
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, NoUninit)]
#[repr(u8)]
pub enum Operator {
    /// `and`.
    And = 1,
    /// `or`.
    Or = 2,
    /// `+`.
    Add = 3,
    /// `-`.
    Sub = 4,
    /// `*`.
    Mult = 5,
    /// `@`.
    MatMult = 6,
    /// `/`.
    Div = 7,
    /// `%`.
    Mod = 8,
    /// `**`.
    Pow = 9,
    /// `<<`.
    LShift = 10,
    /// `>>`.
    RShift = 11,
    /// `|`.
    BitOr = 12,
    /// `^`.
    BitXor = 13,
    /// `&`.
    BitAnd = 14,
    /// `//`.
    FloorDiv = 15,
    /// `~`.
    Invert = 16,
    /// `not`.
    Not = 17,
    /// unary `+`.
    UAdd = 18,
    /// unary `-`.
    USub = 19,
    /// `==`.
    Eq = 20,
    /// `!=`.
    NotEq = 21,
    /// `<`.
    Lt = 22,
    /// `<=`.
    LtE = 23,
    /// `>`.
    Gt = 24,
    /// `>=`.
    GtE = 25,
    /// `is`.
    Is = 26,
    /// `is not`.
    IsNot = 27,
    /// `in`.
    In = 28,
    /// `not in`.
    NotIn = 29,
}

impl Operator {
    /// All of them, in the order of their numbers, which start at 1.
    pub const ALL: [Self; 29] = [
        Self::And,
        Self::Or,
        Self::Add,
        Self::Sub,
        Self::Mult,
        Self::MatMult,
        Self::Div,
        Self::Mod,
        Self::Pow,
        Self::LShift,
        Self::RShift,
        Self::BitOr,
        Self::BitXor,
        Self::BitAnd,
        Self::FloorDiv,
        Self::Invert,
        Self::Not,
        Self::UAdd,
        Self::USub,
        Self::Eq,
        Self::NotEq,
        Self::Lt,
        Self::LtE,
        Self::Gt,
        Self::GtE,
        Self::Is,
        Self::IsNot,
        Self::In,
        Self::NotIn,
    ];

    /// The name CPython gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::And => "And",
            Self::Or => "Or",
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mult => "Mult",
            Self::MatMult => "MatMult",
            Self::Div => "Div",
            Self::Mod => "Mod",
            Self::Pow => "Pow",
            Self::LShift => "LShift",
            Self::RShift => "RShift",
            Self::BitOr => "BitOr",
            Self::BitXor => "BitXor",
            Self::BitAnd => "BitAnd",
            Self::FloorDiv => "FloorDiv",
            Self::Invert => "Invert",
            Self::Not => "Not",
            Self::UAdd => "UAdd",
            Self::USub => "USub",
            Self::Eq => "Eq",
            Self::NotEq => "NotEq",
            Self::Lt => "Lt",
            Self::LtE => "LtE",
            Self::Gt => "Gt",
            Self::GtE => "GtE",
            Self::Is => "Is",
            Self::IsNot => "IsNot",
            Self::In => "In",
            Self::NotIn => "NotIn",
        }
    }
}
