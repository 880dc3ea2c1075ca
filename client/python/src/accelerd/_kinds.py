"""Names of node kinds, fields and operators, indexed by their numbers in columns.

`kernels/grammar/src/kinds.rs` defines the numbers.
"""

_KIND_NAMES = """
FunctionDef AsyncFunctionDef ClassDef Return Delete Assign TypeAlias AugAssign AnnAssign For AsyncFor While If With
AsyncWith Match Raise Try TryStar Assert Import ImportFrom Global Nonlocal Expr Pass Break Continue BoolOp NamedExpr
BinOp UnaryOp Lambda IfExp Dict Set ListComp SetComp DictComp GeneratorExp Await Yield YieldFrom Compare Call
FormattedValue Interpolation JoinedStr TemplateStr Constant Attribute Subscript Starred Name List Tuple Slice
comprehension ExceptHandler arg keyword alias withitem match_case MatchValue MatchSingleton MatchSequence MatchMapping
MatchClass MatchStar MatchAs MatchOr TypeVar ParamSpec TypeVarTuple Identifier CompareOp
"""

_FIELD_NAMES = """
body decorator_list returns type_params bases keywords value targets target annotation iter orelse test items subject
cases exc cause handlers finalbody msg names values left right operand elt generators key keys ops comparators func
args format_spec slice elts lower upper step ifs context_expr optional_vars pattern guard patterns cls kwd_attrs
kwd_patterns bound default_value type name posonlyargs vararg kwonlyargs kw_defaults kwarg defaults module asname str
unpacked
"""

_OPERATOR_NAMES = """
And Or Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr BitXor BitAnd FloorDiv Invert Not UAdd USub Eq NotEq Lt
LtE Gt GtE Is IsNot In NotIn
"""

KINDS = ["", *_KIND_NAMES.split()]
FIELDS = ["", *_FIELD_NAMES.split()]
OPERATORS = ["", *_OPERATOR_NAMES.split()]
