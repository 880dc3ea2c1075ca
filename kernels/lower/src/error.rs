//! Why a source cannot be lowered, and where.

/// The reason of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The source is no valid Python.
    Syntax,
    /// The source defines no kernel, or none of the requested name.
    NoKernel,
    /// A statement of a kind that kernels cannot have.
    UnsupportedStatement,
    /// An expression of a kind that kernels cannot have.
    UnsupportedExpression,
    /// A function of the dialect that is not implemented.
    UnsupportedBuiltin,
    /// A type that is not implemented.
    UnsupportedType,
    /// A parameter without a type, or with one that is determined only by a call.
    GenericKernel,
    /// A name that is neither a variable nor a constant nor a function.
    UnknownName,
    /// A name whose value depends on the order in which the module runs.
    AmbiguousName,
    /// An attribute that the value or module does not have.
    UnknownAttribute,
    /// A variable that is read where no assignment has reached.
    UnassignedVariable,
    /// Operands, or a variable and its value, whose types do not go together.
    TypeMismatch,
    /// Arguments that the called function does not take.
    ArgumentMismatch,
    /// An expression that must be constant and is not.
    NotConstant,
    /// A constant outside the range of its type.
    ConstantOutOfRange,
    /// A constant index outside its vector, matrix or tuple.
    IndexOutOfRange,
    /// A function that calls itself.
    Recursion,
    /// Nesting of expressions, statements and calls beyond the limit.
    TooDeep,
    /// A kernel or a part of one beyond a size limit, before or after inlining.
    TooLarge,
    /// A kernel that the intermediate representation does not admit, such as one with too many parameters.
    InvalidKernel,
    /// The checkpoint ended the lowering.
    Cancelled,
}

impl ErrorKind {
    /// Its stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::NoKernel => "no_kernel",
            Self::UnsupportedStatement => "unsupported_statement",
            Self::UnsupportedExpression => "unsupported_expression",
            Self::UnsupportedBuiltin => "unsupported_builtin",
            Self::UnsupportedType => "unsupported_type",
            Self::GenericKernel => "generic_kernel",
            Self::UnknownName => "unknown_name",
            Self::AmbiguousName => "ambiguous_name",
            Self::UnknownAttribute => "unknown_attribute",
            Self::UnassignedVariable => "unassigned_variable",
            Self::TypeMismatch => "type_mismatch",
            Self::ArgumentMismatch => "argument_mismatch",
            Self::NotConstant => "not_constant",
            Self::ConstantOutOfRange => "constant_out_of_range",
            Self::IndexOutOfRange => "index_out_of_range",
            Self::Recursion => "recursion",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
            Self::InvalidKernel => "invalid_kernel",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A source cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct LowerError {
    /// The reason.
    pub kind: ErrorKind,
    /// The expectation and the finding, in lower case.
    pub message: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 0.
    pub column: u32,
}

/// The result of lowering a part of a kernel.
pub(crate) type Lowered<T> = Result<T, LowerError>;
