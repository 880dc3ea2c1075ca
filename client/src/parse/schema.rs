//! The classes of CPython's `ast`: their names, their fields in order, and where the columns store each field.

use crate::proto::{NodeField as F, NodeKind};

/// Where the columns store a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The optional child in a field.
    One(F),
    /// The children in a field.
    Many(F),
    /// The optional name in `aux`.
    Name,
    /// The name in the high bits of `aux`, above a context.
    NameBesideContext,
    /// The context in `aux`.
    Context,
    /// The context in the low bits of `aux`.
    LowContext,
    /// The operator in `aux`.
    Operator,
    /// The value in `aux`.
    Literal,
    /// `'u'` if the value has the tag of a u-string.
    Prefix,
    /// `aux` as a number.
    Number,
    /// `aux` as a signed number: -1 means none.
    Signed,
    /// The optional identifier in a field.
    Identifier(F),
    /// The identifiers in a field.
    Identifiers(F),
    /// The identifiers in a field joined by dots, if there are any.
    Dotted(F),
    /// The identifiers in a field joined by dots, or `*`.
    DottedOrStar(F),
    /// The `arguments`, whose fields are stored as fields of the function.
    Arguments,
    /// Keys of a dict, None for an unpacked value.
    Keys,
    /// Values of a dict, unpacked ones included.
    Values,
    /// The default, or None, of each keyword-only parameter.
    KeywordDefaults,
    /// The operators of a comparison.
    Operators,
    /// The value of the constant in a field.
    Text(F),
}

/// Meaning of `aux`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aux {
    NameAndContext,
    Name,
    Context,
    Operator,
    Literal,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) name: &'static str,
    /// In the order of `_fields`, without those that the grammar never sets.
    pub(super) fields: &'static [(&'static str, Slot)],
    /// True if its nodes have lines and columns.
    pub(super) positioned: bool,
}

const fn positioned(name: &'static str, fields: &'static [(&'static str, Slot)]) -> Class {
    Class { name, fields, positioned: true }
}

const fn unpositioned(name: &'static str, fields: &'static [(&'static str, Slot)]) -> Class {
    Class { name, fields, positioned: false }
}

use Slot::{
    Arguments, Context, Dotted, DottedOrStar, Identifier, Identifiers, Keys, KeywordDefaults, Literal, LowContext,
    Many, Name, NameBesideContext, Number, One, Operator, Operators, Prefix, Signed, Text, Values,
};

const FUNCTION: &[(&str, Slot)] = &[
    ("name", Name),
    ("args", Arguments),
    ("body", Many(F::Body)),
    ("decorator_list", Many(F::DecoratorList)),
    ("returns", One(F::Returns)),
    ("type_params", Many(F::TypeParams)),
];
const LOOP: &[(&str, Slot)] =
    &[("target", One(F::Target)), ("iter", One(F::Iter)), ("body", Many(F::Body)), ("orelse", Many(F::Orelse))];
const WITH: &[(&str, Slot)] = &[("items", Many(F::Items)), ("body", Many(F::Body))];
const CONDITION: &[(&str, Slot)] = &[("test", One(F::Test)), ("body", Many(F::Body)), ("orelse", Many(F::Orelse))];
const TRY: &[(&str, Slot)] = &[
    ("body", Many(F::Body)),
    ("handlers", Many(F::Handlers)),
    ("orelse", Many(F::Orelse)),
    ("finalbody", Many(F::Finalbody)),
];
const COMPREHENSION: &[(&str, Slot)] = &[("elt", One(F::Elt)), ("generators", Many(F::Generators))];
const VALUE: &[(&str, Slot)] = &[("value", One(F::Value))];
const VALUES: &[(&str, Slot)] = &[("values", Many(F::Values))];
const NAMES: &[(&str, Slot)] = &[("names", Identifiers(F::Names))];
const ELEMENTS: &[(&str, Slot)] = &[("elts", Many(F::Elts)), ("ctx", Context)];
const PATTERNS: &[(&str, Slot)] = &[("patterns", Many(F::Patterns))];
const TYPE_PARAMETER: &[(&str, Slot)] = &[("name", Name), ("default_value", One(F::DefaultValue))];

/// `Module`, which has no row.
pub(super) const MODULE: Class = unpositioned("Module", &[("body", Many(F::Body))]);

/// `arguments`, which has no row.
pub(super) const ARGUMENTS: Class = unpositioned(
    "arguments",
    &[
        ("posonlyargs", Many(F::Posonlyargs)),
        ("args", Many(F::Args)),
        ("vararg", One(F::Vararg)),
        ("kwonlyargs", Many(F::Kwonlyargs)),
        ("kw_defaults", KeywordDefaults),
        ("kwarg", One(F::Kwarg)),
        ("defaults", Many(F::Defaults)),
    ],
);

/// The class of a kind.
#[rustfmt::skip]
pub(super) const fn of(kind: NodeKind) -> Class {
    use NodeKind as K;
    match kind {
        K::FunctionDef => positioned("FunctionDef", FUNCTION),
        K::AsyncFunctionDef => positioned("AsyncFunctionDef", FUNCTION),
        K::ClassDef => positioned("ClassDef", &[
            ("name", Name), ("bases", Many(F::Bases)), ("keywords", Many(F::Keywords)), ("body", Many(F::Body)),
            ("decorator_list", Many(F::DecoratorList)), ("type_params", Many(F::TypeParams)),
        ]),
        K::Return => positioned("Return", VALUE),
        K::Delete => positioned("Delete", &[("targets", Many(F::Targets))]),
        K::Assign => positioned("Assign", &[("targets", Many(F::Targets)), ("value", One(F::Value))]),
        K::TypeAlias => positioned("TypeAlias", &[
            ("name", One(F::Name)), ("type_params", Many(F::TypeParams)), ("value", One(F::Value)),
        ]),
        K::AugAssign => positioned("AugAssign", &[("target", One(F::Target)), ("op", Operator), ("value", One(F::Value))]),
        K::AnnAssign => positioned("AnnAssign", &[
            ("target", One(F::Target)), ("annotation", One(F::Annotation)), ("value", One(F::Value)),
            ("simple", Number),
        ]),
        K::For => positioned("For", LOOP),
        K::AsyncFor => positioned("AsyncFor", LOOP),
        K::While => positioned("While", CONDITION),
        K::If => positioned("If", CONDITION),
        K::With => positioned("With", WITH),
        K::AsyncWith => positioned("AsyncWith", WITH),
        K::MatchStatement => positioned("Match", &[("subject", One(F::Subject)), ("cases", Many(F::Cases))]),
        K::Raise => positioned("Raise", &[("exc", One(F::Exc)), ("cause", One(F::Cause))]),
        K::Try => positioned("Try", TRY),
        K::TryStar => positioned("TryStar", TRY),
        K::Assert => positioned("Assert", &[("test", One(F::Test)), ("msg", One(F::Msg))]),
        K::Import => positioned("Import", &[("names", Many(F::Names))]),
        K::ImportFrom => positioned("ImportFrom", &[
            ("module", Dotted(F::Module)), ("names", Many(F::Names)), ("level", Number),
        ]),
        K::Global => positioned("Global", NAMES),
        K::Nonlocal => positioned("Nonlocal", NAMES),
        K::Expr => positioned("Expr", VALUE),
        K::Pass => positioned("Pass", &[]),
        K::Break => positioned("Break", &[]),
        K::Continue => positioned("Continue", &[]),
        K::BoolOp => positioned("BoolOp", &[("op", Operator), ("values", Many(F::Values))]),
        K::NamedExpr => positioned("NamedExpr", &[("target", One(F::Target)), ("value", One(F::Value))]),
        K::BinOp => positioned("BinOp", &[("left", One(F::Left)), ("op", Operator), ("right", One(F::Right))]),
        K::UnaryOp => positioned("UnaryOp", &[("op", Operator), ("operand", One(F::Operand))]),
        K::Lambda => positioned("Lambda", &[("args", Arguments), ("body", One(F::Body))]),
        K::IfExp => positioned("IfExp", &[("test", One(F::Test)), ("body", One(F::Body)), ("orelse", One(F::Orelse))]),
        K::Dict => positioned("Dict", &[("keys", Keys), ("values", Values)]),
        K::Set => positioned("Set", &[("elts", Many(F::Elts))]),
        K::ListComp => positioned("ListComp", COMPREHENSION),
        K::SetComp => positioned("SetComp", COMPREHENSION),
        K::DictComp => positioned("DictComp", &[
            ("key", One(F::Key)), ("value", One(F::Value)), ("generators", Many(F::Generators)),
        ]),
        K::GeneratorExp => positioned("GeneratorExp", COMPREHENSION),
        K::Await => positioned("Await", VALUE),
        K::Yield => positioned("Yield", VALUE),
        K::YieldFrom => positioned("YieldFrom", VALUE),
        K::Compare => positioned("Compare", &[
            ("left", One(F::Left)), ("ops", Operators), ("comparators", Many(F::Comparators)),
        ]),
        K::Call => positioned("Call", &[
            ("func", One(F::Func)), ("args", Many(F::Args)), ("keywords", Many(F::Keywords)),
        ]),
        K::FormattedValue => positioned("FormattedValue", &[
            ("value", One(F::Value)), ("conversion", Signed), ("format_spec", One(F::FormatSpec)),
        ]),
        K::Interpolation => positioned("Interpolation", &[
            ("value", One(F::Value)), ("str", Text(F::Str)), ("conversion", Signed),
            ("format_spec", One(F::FormatSpec)),
        ]),
        K::JoinedStr => positioned("JoinedStr", VALUES),
        K::TemplateStr => positioned("TemplateStr", VALUES),
        K::Constant => positioned("Constant", &[("value", Literal), ("kind", Prefix)]),
        K::Attribute => positioned("Attribute", &[
            ("value", One(F::Value)), ("attr", NameBesideContext), ("ctx", LowContext),
        ]),
        K::Subscript => positioned("Subscript", &[("value", One(F::Value)), ("slice", One(F::Slice)), ("ctx", Context)]),
        K::Starred => positioned("Starred", &[("value", One(F::Value)), ("ctx", Context)]),
        K::Name => positioned("Name", &[("id", NameBesideContext), ("ctx", LowContext)]),
        K::List => positioned("List", ELEMENTS),
        K::Tuple => positioned("Tuple", ELEMENTS),
        K::Slice => positioned("Slice", &[("lower", One(F::Lower)), ("upper", One(F::Upper)), ("step", One(F::Step))]),
        K::Comprehension => unpositioned("comprehension", &[
            ("target", One(F::Target)), ("iter", One(F::Iter)), ("ifs", Many(F::Ifs)), ("is_async", Number),
        ]),
        K::ExceptHandler => positioned("ExceptHandler", &[
            ("type", One(F::Type)), ("name", Name), ("body", Many(F::Body)),
        ]),
        K::Arg => positioned("arg", &[("arg", Name), ("annotation", One(F::Annotation))]),
        K::Keyword => positioned("keyword", &[("arg", Name), ("value", One(F::Value))]),
        K::Alias => positioned("alias", &[("name", DottedOrStar(F::Name)), ("asname", Identifier(F::Asname))]),
        K::Withitem => unpositioned("withitem", &[
            ("context_expr", One(F::ContextExpr)), ("optional_vars", One(F::OptionalVars)),
        ]),
        K::MatchCase => unpositioned("match_case", &[
            ("pattern", One(F::Pattern)), ("guard", One(F::Guard)), ("body", Many(F::Body)),
        ]),
        K::MatchValue => positioned("MatchValue", VALUE),
        K::MatchSingleton => positioned("MatchSingleton", &[("value", Literal)]),
        K::MatchSequence => positioned("MatchSequence", PATTERNS),
        K::MatchMapping => positioned("MatchMapping", &[
            ("keys", Many(F::Keys)), ("patterns", Many(F::Patterns)), ("rest", Name),
        ]),
        K::MatchClass => positioned("MatchClass", &[
            ("cls", One(F::Cls)), ("patterns", Many(F::Patterns)), ("kwd_attrs", Identifiers(F::KwdAttrs)),
            ("kwd_patterns", Many(F::KwdPatterns)),
        ]),
        K::MatchStar => positioned("MatchStar", &[("name", Name)]),
        K::MatchAs => positioned("MatchAs", &[("pattern", One(F::Pattern)), ("name", Name)]),
        K::MatchOr => positioned("MatchOr", PATTERNS),
        K::TypeVar => positioned("TypeVar", &[
            ("name", Name), ("bound", One(F::Bound)), ("default_value", One(F::DefaultValue)),
        ]),
        K::ParamSpec => positioned("ParamSpec", TYPE_PARAMETER),
        K::TypeVarTuple => positioned("TypeVarTuple", TYPE_PARAMETER),
        K::Identifier => unpositioned("Identifier", &[("name", Name)]),
        K::CompareOp => unpositioned("CompareOp", &[("op", Operator)]),
        K::Unspecified => unpositioned("Unknown", &[]),
    }
}

/// Name of a kind's class.
pub(super) const fn class(kind: NodeKind) -> &'static str {
    of(kind).name
}

/// Meaning of `aux` for a kind.
pub(super) fn aux(kind: NodeKind) -> Aux {
    let slots = [
        (NameBesideContext, Aux::NameAndContext),
        (Name, Aux::Name),
        (Context, Aux::Context),
        (Operator, Aux::Operator),
        (Literal, Aux::Literal),
    ];
    let held = |(_, slot): &(&str, Slot)| slots.iter().find(|(own, _)| own == slot).map(|(_, aux)| *aux);
    of(kind).fields.iter().find_map(held).unwrap_or(Aux::Other)
}
