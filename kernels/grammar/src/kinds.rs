//! Node kinds, fields and operators, with their numbers in columns and on the wire.

use bytemuck::NoUninit;

/// An enumeration numbered from 1, with CPython's names.
macro_rules! numbered {
    ($(#[$about:meta])* $enum:ident { $(#[$first_doc:meta])* $first:ident = $first_name:literal,
        $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, NoUninit)]
        #[repr(u8)]
        pub enum $enum {
            $(#[$first_doc])*
            $first = 1,
            $($(#[$doc])* $variant,)*
        }

        impl $enum {
            /// All of them, in the order of their numbers, which start at 1.
            pub const ALL: &[Self] = &[Self::$first, $(Self::$variant),*];

            /// CPython's name.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::$first => $first_name,
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

numbered! {
    /// The kind of a node: the classes of CPython's `ast` module, and two more.
    Kind {
        /// `ast.FunctionDef`.
        FunctionDef = "FunctionDef",
        /// `ast.AsyncFunctionDef`.
        AsyncFunctionDef = "AsyncFunctionDef",
        /// `ast.ClassDef`.
        ClassDef = "ClassDef",
        /// `ast.Return`.
        Return = "Return",
        /// `ast.Delete`.
        Delete = "Delete",
        /// `ast.Assign`.
        Assign = "Assign",
        /// `ast.TypeAlias`.
        TypeAlias = "TypeAlias",
        /// `ast.AugAssign`.
        AugAssign = "AugAssign",
        /// `ast.AnnAssign`.
        AnnAssign = "AnnAssign",
        /// `ast.For`.
        For = "For",
        /// `ast.AsyncFor`.
        AsyncFor = "AsyncFor",
        /// `ast.While`.
        While = "While",
        /// `ast.If`.
        If = "If",
        /// `ast.With`.
        With = "With",
        /// `ast.AsyncWith`.
        AsyncWith = "AsyncWith",
        /// `ast.Match`.
        Match = "Match",
        /// `ast.Raise`.
        Raise = "Raise",
        /// `ast.Try`.
        Try = "Try",
        /// `ast.TryStar`.
        TryStar = "TryStar",
        /// `ast.Assert`.
        Assert = "Assert",
        /// `ast.Import`.
        Import = "Import",
        /// `ast.ImportFrom`.
        ImportFrom = "ImportFrom",
        /// `ast.Global`.
        Global = "Global",
        /// `ast.Nonlocal`.
        Nonlocal = "Nonlocal",
        /// `ast.Expr`.
        Expr = "Expr",
        /// `ast.Pass`.
        Pass = "Pass",
        /// `ast.Break`.
        Break = "Break",
        /// `ast.Continue`.
        Continue = "Continue",
        /// `ast.BoolOp`.
        BoolOp = "BoolOp",
        /// `ast.NamedExpr`.
        NamedExpr = "NamedExpr",
        /// `ast.BinOp`.
        BinOp = "BinOp",
        /// `ast.UnaryOp`.
        UnaryOp = "UnaryOp",
        /// `ast.Lambda`.
        Lambda = "Lambda",
        /// `ast.IfExp`.
        IfExp = "IfExp",
        /// `ast.Dict`.
        Dict = "Dict",
        /// `ast.Set`.
        Set = "Set",
        /// `ast.ListComp`.
        ListComp = "ListComp",
        /// `ast.SetComp`.
        SetComp = "SetComp",
        /// `ast.DictComp`.
        DictComp = "DictComp",
        /// `ast.GeneratorExp`.
        GeneratorExp = "GeneratorExp",
        /// `ast.Await`.
        Await = "Await",
        /// `ast.Yield`.
        Yield = "Yield",
        /// `ast.YieldFrom`.
        YieldFrom = "YieldFrom",
        /// `ast.Compare`.
        Compare = "Compare",
        /// `ast.Call`.
        Call = "Call",
        /// `ast.FormattedValue`.
        FormattedValue = "FormattedValue",
        /// `ast.Interpolation`.
        Interpolation = "Interpolation",
        /// `ast.JoinedStr`.
        JoinedStr = "JoinedStr",
        /// `ast.TemplateStr`.
        TemplateStr = "TemplateStr",
        /// `ast.Constant`.
        Constant = "Constant",
        /// `ast.Attribute`.
        Attribute = "Attribute",
        /// `ast.Subscript`.
        Subscript = "Subscript",
        /// `ast.Starred`.
        Starred = "Starred",
        /// `ast.Name`.
        Name = "Name",
        /// `ast.List`.
        List = "List",
        /// `ast.Tuple`.
        Tuple = "Tuple",
        /// `ast.Slice`.
        Slice = "Slice",
        /// `ast.comprehension`.
        Comprehension = "comprehension",
        /// `ast.ExceptHandler`.
        ExceptHandler = "ExceptHandler",
        /// `ast.arg`.
        Arg = "arg",
        /// `ast.keyword`.
        Keyword = "keyword",
        /// `ast.alias`.
        Alias = "alias",
        /// `ast.withitem`.
        Withitem = "withitem",
        /// `ast.match_case`.
        MatchCase = "match_case",
        /// `ast.MatchValue`.
        MatchValue = "MatchValue",
        /// `ast.MatchSingleton`.
        MatchSingleton = "MatchSingleton",
        /// `ast.MatchSequence`.
        MatchSequence = "MatchSequence",
        /// `ast.MatchMapping`.
        MatchMapping = "MatchMapping",
        /// `ast.MatchClass`.
        MatchClass = "MatchClass",
        /// `ast.MatchStar`.
        MatchStar = "MatchStar",
        /// `ast.MatchAs`.
        MatchAs = "MatchAs",
        /// `ast.MatchOr`.
        MatchOr = "MatchOr",
        /// `ast.TypeVar`.
        TypeVar = "TypeVar",
        /// `ast.ParamSpec`.
        ParamSpec = "ParamSpec",
        /// `ast.TypeVarTuple`.
        TypeVarTuple = "TypeVarTuple",
        /// An identifier that is no expression: a part of a dotted name, an `as` name, a global name.
        Identifier = "Identifier",
        /// One operator of a `Compare`, in `aux`.
        CompareOp = "CompareOp",
    }
}

numbered! {
    /// The field of a node's parent, or of the parent's `arguments`.
    Field {
        /// `body`.
        Body = "body",
        /// `decorator_list`.
        DecoratorList = "decorator_list",
        /// `returns`.
        Returns = "returns",
        /// `type_params`.
        TypeParams = "type_params",
        /// `bases`.
        Bases = "bases",
        /// `keywords`.
        Keywords = "keywords",
        /// `value`.
        Value = "value",
        /// `targets`.
        Targets = "targets",
        /// `target`.
        Target = "target",
        /// `annotation`.
        Annotation = "annotation",
        /// `iter`.
        Iter = "iter",
        /// `orelse`.
        Orelse = "orelse",
        /// `test`.
        Test = "test",
        /// `items`.
        Items = "items",
        /// `subject`.
        Subject = "subject",
        /// `cases`.
        Cases = "cases",
        /// `exc`.
        Exc = "exc",
        /// `cause`.
        Cause = "cause",
        /// `handlers`.
        Handlers = "handlers",
        /// `finalbody`.
        Finalbody = "finalbody",
        /// `msg`.
        Msg = "msg",
        /// `names`.
        Names = "names",
        /// `values`.
        Values = "values",
        /// `left`.
        Left = "left",
        /// `right`.
        Right = "right",
        /// `operand`.
        Operand = "operand",
        /// `elt`.
        Elt = "elt",
        /// `generators`.
        Generators = "generators",
        /// `key`.
        Key = "key",
        /// `keys`.
        Keys = "keys",
        /// `ops`.
        Ops = "ops",
        /// `comparators`.
        Comparators = "comparators",
        /// `func`.
        Func = "func",
        /// `args`.
        Args = "args",
        /// `format_spec`.
        FormatSpec = "format_spec",
        /// `slice`.
        Slice = "slice",
        /// `elts`.
        Elts = "elts",
        /// `lower`.
        Lower = "lower",
        /// `upper`.
        Upper = "upper",
        /// `step`.
        Step = "step",
        /// `ifs`.
        Ifs = "ifs",
        /// `context_expr`.
        ContextExpr = "context_expr",
        /// `optional_vars`.
        OptionalVars = "optional_vars",
        /// `pattern`.
        Pattern = "pattern",
        /// `guard`.
        Guard = "guard",
        /// `patterns`.
        Patterns = "patterns",
        /// `cls`.
        Cls = "cls",
        /// `kwd_attrs`.
        KwdAttrs = "kwd_attrs",
        /// `kwd_patterns`.
        KwdPatterns = "kwd_patterns",
        /// `bound`.
        Bound = "bound",
        /// `default_value`.
        DefaultValue = "default_value",
        /// `type`.
        Type = "type",
        /// `name`.
        Name = "name",
        /// `posonlyargs`.
        Posonlyargs = "posonlyargs",
        /// `vararg`.
        Vararg = "vararg",
        /// `kwonlyargs`.
        Kwonlyargs = "kwonlyargs",
        /// The default of the keyword-only parameter directly before it.
        KwDefaults = "kw_defaults",
        /// `kwarg`.
        Kwarg = "kwarg",
        /// `defaults`.
        Defaults = "defaults",
        /// `module`.
        Module = "module",
        /// `asname`.
        Asname = "asname",
        /// The source of an `Interpolation`'s expression.
        Str = "str",
        /// A value of a `Dict` after `**`: its key is `None`.
        Unpacked = "unpacked",
    }
}

numbered! {
    /// An operator.
    Operator {
        /// `and`.
        And = "And",
        /// `or`.
        Or = "Or",
        /// `+`.
        Add = "Add",
        /// `-`.
        Sub = "Sub",
        /// `*`.
        Mult = "Mult",
        /// `@`.
        MatMult = "MatMult",
        /// `/`.
        Div = "Div",
        /// `%`.
        Mod = "Mod",
        /// `**`.
        Pow = "Pow",
        /// `<<`.
        LShift = "LShift",
        /// `>>`.
        RShift = "RShift",
        /// `|`.
        BitOr = "BitOr",
        /// `^`.
        BitXor = "BitXor",
        /// `&`.
        BitAnd = "BitAnd",
        /// `//`.
        FloorDiv = "FloorDiv",
        /// `~`.
        Invert = "Invert",
        /// `not`.
        Not = "Not",
        /// unary `+`.
        UAdd = "UAdd",
        /// unary `-`.
        USub = "USub",
        /// `==`.
        Eq = "Eq",
        /// `!=`.
        NotEq = "NotEq",
        /// `<`.
        Lt = "Lt",
        /// `<=`.
        LtE = "LtE",
        /// `>`.
        Gt = "Gt",
        /// `>=`.
        GtE = "GtE",
        /// `is`.
        Is = "Is",
        /// `is not`.
        IsNot = "IsNot",
        /// `in`.
        In = "In",
        /// `not in`.
        NotIn = "NotIn",
    }
}
