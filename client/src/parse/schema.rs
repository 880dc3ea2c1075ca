//! The classes of CPython's `ast`: their names, their fields in order, and where the columns have each.

use crate::proto::{NodeField as F, NodeKind};

/// Where a class's field is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The one child in a field, if it is there.
    One(F),
    /// The children in a field.
    Many(F),
    /// The name that `aux` means, if it means one.
    Name,
    /// The same, with a context in its low bits.
    NameBesideContext,
    /// The context that is all of `aux`.
    Context,
    /// The context in the low bits of `aux`.
    LowContext,
    /// The operator that `aux` means.
    Operator,
    /// The value that `aux` means.
    Literal,
    /// `'u'` where the value's tag says so.
    Prefix,
    /// `aux` as a number.
    Number,
    /// `aux` as a signed number: -1 is none.
    Signed,
    /// The name of the one identifier in a field, if it is there.
    Identifier(F),
    /// The names of the identifiers in a field.
    Identifiers(F),
    /// The same joined by dots; nothing where there are none.
    Dotted(F),
    /// The same; `*` where there are none.
    DottedOrStar(F),
    /// The `arguments` whose fields are fields of the function.
    Arguments,
    /// Keys of a dict, with none before an unpacked one.
    Keys,
    /// Values of a dict, unpacked ones among them.
    Values,
    /// A default, or none, for each keyword-only parameter.
    KeywordDefaults,
    /// The operators of a comparison.
    Operators,
    /// The value of the constant in a field.
    Text(F),
}

/// What `aux` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aux {
    NameAndContext,
    Name,
    Context,
    Operator,
    Literal,
    Other,
}

/// A class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) name: &'static str,
    /// In the order of `_fields`; those that the grammar never fills are left out.
    pub(super) fields: &'static [(&'static str, Slot)],
    /// Whether its nodes have lines and columns.
    pub(super) placed: bool,
}

const fn placed(name: &'static str, fields: &'static [(&'static str, Slot)]) -> Class {
    Class { name, fields, placed: true }
}

const fn unplaced(name: &'static str, fields: &'static [(&'static str, Slot)]) -> Class {
    Class { name, fields, placed: false }
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
pub(super) const MODULE: Class = unplaced("Module", &[("body", Many(F::Body))]);

/// `arguments`, which has none either.
pub(super) const ARGUMENTS: Class = unplaced(
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
        K::FunctionDef => placed("FunctionDef", FUNCTION),
        K::AsyncFunctionDef => placed("AsyncFunctionDef", FUNCTION),
        K::ClassDef => placed("ClassDef", &[
            ("name", Name), ("bases", Many(F::Bases)), ("keywords", Many(F::Keywords)), ("body", Many(F::Body)),
            ("decorator_list", Many(F::DecoratorList)), ("type_params", Many(F::TypeParams)),
        ]),
        K::Return => placed("Return", VALUE),
        K::Delete => placed("Delete", &[("targets", Many(F::Targets))]),
        K::Assign => placed("Assign", &[("targets", Many(F::Targets)), ("value", One(F::Value))]),
        K::TypeAlias => placed("TypeAlias", &[
            ("name", One(F::Name)), ("type_params", Many(F::TypeParams)), ("value", One(F::Value)),
        ]),
        K::AugAssign => placed("AugAssign", &[("target", One(F::Target)), ("op", Operator), ("value", One(F::Value))]),
        K::AnnAssign => placed("AnnAssign", &[
            ("target", One(F::Target)), ("annotation", One(F::Annotation)), ("value", One(F::Value)),
            ("simple", Number),
        ]),
        K::For => placed("For", LOOP),
        K::AsyncFor => placed("AsyncFor", LOOP),
        K::While => placed("While", CONDITION),
        K::If => placed("If", CONDITION),
        K::With => placed("With", WITH),
        K::AsyncWith => placed("AsyncWith", WITH),
        K::Match => placed("Match", &[("subject", One(F::Subject)), ("cases", Many(F::Cases))]),
        K::Raise => placed("Raise", &[("exc", One(F::Exc)), ("cause", One(F::Cause))]),
        K::Try => placed("Try", TRY),
        K::TryStar => placed("TryStar", TRY),
        K::Assert => placed("Assert", &[("test", One(F::Test)), ("msg", One(F::Msg))]),
        K::Import => placed("Import", &[("names", Many(F::Names))]),
        K::ImportFrom => placed("ImportFrom", &[
            ("module", Dotted(F::Module)), ("names", Many(F::Names)), ("level", Number),
        ]),
        K::Global => placed("Global", NAMES),
        K::Nonlocal => placed("Nonlocal", NAMES),
        K::Expr => placed("Expr", VALUE),
        K::Pass => placed("Pass", &[]),
        K::Break => placed("Break", &[]),
        K::Continue => placed("Continue", &[]),
        K::BoolOp => placed("BoolOp", &[("op", Operator), ("values", Many(F::Values))]),
        K::NamedExpr => placed("NamedExpr", &[("target", One(F::Target)), ("value", One(F::Value))]),
        K::BinOp => placed("BinOp", &[("left", One(F::Left)), ("op", Operator), ("right", One(F::Right))]),
        K::UnaryOp => placed("UnaryOp", &[("op", Operator), ("operand", One(F::Operand))]),
        K::Lambda => placed("Lambda", &[("args", Arguments), ("body", One(F::Body))]),
        K::IfExp => placed("IfExp", &[("test", One(F::Test)), ("body", One(F::Body)), ("orelse", One(F::Orelse))]),
        K::Dict => placed("Dict", &[("keys", Keys), ("values", Values)]),
        K::Set => placed("Set", &[("elts", Many(F::Elts))]),
        K::ListComp => placed("ListComp", COMPREHENSION),
        K::SetComp => placed("SetComp", COMPREHENSION),
        K::DictComp => placed("DictComp", &[
            ("key", One(F::Key)), ("value", One(F::Value)), ("generators", Many(F::Generators)),
        ]),
        K::GeneratorExp => placed("GeneratorExp", COMPREHENSION),
        K::Await => placed("Await", VALUE),
        K::Yield => placed("Yield", VALUE),
        K::YieldFrom => placed("YieldFrom", VALUE),
        K::Compare => placed("Compare", &[
            ("left", One(F::Left)), ("ops", Operators), ("comparators", Many(F::Comparators)),
        ]),
        K::Call => placed("Call", &[
            ("func", One(F::Func)), ("args", Many(F::Args)), ("keywords", Many(F::Keywords)),
        ]),
        K::FormattedValue => placed("FormattedValue", &[
            ("value", One(F::Value)), ("conversion", Signed), ("format_spec", One(F::FormatSpec)),
        ]),
        K::Interpolation => placed("Interpolation", &[
            ("value", One(F::Value)), ("str", Text(F::Str)), ("conversion", Signed),
            ("format_spec", One(F::FormatSpec)),
        ]),
        K::JoinedStr => placed("JoinedStr", VALUES),
        K::TemplateStr => placed("TemplateStr", VALUES),
        K::Constant => placed("Constant", &[("value", Literal), ("kind", Prefix)]),
        K::Attribute => placed("Attribute", &[
            ("value", One(F::Value)), ("attr", NameBesideContext), ("ctx", LowContext),
        ]),
        K::Subscript => placed("Subscript", &[("value", One(F::Value)), ("slice", One(F::Slice)), ("ctx", Context)]),
        K::Starred => placed("Starred", &[("value", One(F::Value)), ("ctx", Context)]),
        K::Name => placed("Name", &[("id", NameBesideContext), ("ctx", LowContext)]),
        K::List => placed("List", ELEMENTS),
        K::Tuple => placed("Tuple", ELEMENTS),
        K::Slice => placed("Slice", &[("lower", One(F::Lower)), ("upper", One(F::Upper)), ("step", One(F::Step))]),
        K::Comprehension => unplaced("comprehension", &[
            ("target", One(F::Target)), ("iter", One(F::Iter)), ("ifs", Many(F::Ifs)), ("is_async", Number),
        ]),
        K::ExceptHandler => placed("ExceptHandler", &[
            ("type", One(F::Type)), ("name", Name), ("body", Many(F::Body)),
        ]),
        K::Arg => placed("arg", &[("arg", Name), ("annotation", One(F::Annotation))]),
        K::Keyword => placed("keyword", &[("arg", Name), ("value", One(F::Value))]),
        K::Alias => placed("alias", &[("name", DottedOrStar(F::Name)), ("asname", Identifier(F::Asname))]),
        K::Withitem => unplaced("withitem", &[
            ("context_expr", One(F::ContextExpr)), ("optional_vars", One(F::OptionalVars)),
        ]),
        K::MatchCase => unplaced("match_case", &[
            ("pattern", One(F::Pattern)), ("guard", One(F::Guard)), ("body", Many(F::Body)),
        ]),
        K::MatchValue => placed("MatchValue", VALUE),
        K::MatchSingleton => placed("MatchSingleton", &[("value", Literal)]),
        K::MatchSequence => placed("MatchSequence", PATTERNS),
        K::MatchMapping => placed("MatchMapping", &[
            ("keys", Many(F::Keys)), ("patterns", Many(F::Patterns)), ("rest", Name),
        ]),
        K::MatchClass => placed("MatchClass", &[
            ("cls", One(F::Cls)), ("patterns", Many(F::Patterns)), ("kwd_attrs", Identifiers(F::KwdAttrs)),
            ("kwd_patterns", Many(F::KwdPatterns)),
        ]),
        K::MatchStar => placed("MatchStar", &[("name", Name)]),
        K::MatchAs => placed("MatchAs", &[("pattern", One(F::Pattern)), ("name", Name)]),
        K::MatchOr => placed("MatchOr", PATTERNS),
        K::TypeVar => placed("TypeVar", &[
            ("name", Name), ("bound", One(F::Bound)), ("default_value", One(F::DefaultValue)),
        ]),
        K::ParamSpec => placed("ParamSpec", TYPE_PARAMETER),
        K::TypeVarTuple => placed("TypeVarTuple", TYPE_PARAMETER),
        K::Identifier => unplaced("Identifier", &[("name", Name)]),
        K::CompareOp => unplaced("CompareOp", &[("op", Operator)]),
        K::Unspecified => unplaced("Unknown", &[]),
    }
}

/// The name of a kind's class.
pub(super) const fn class(kind: NodeKind) -> &'static str {
    of(kind).name
}

/// What `aux` holds for a kind.
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
