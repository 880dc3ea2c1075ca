//! The parts of a kernel.

use crate::Dtype;
use crate::scalar::{BinaryOp, Literal, UnaryOp};

/// A parameter, by its position in [`Kernel::params`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParamId(pub u32);

/// A local variable, by its position in [`Kernel::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub u32);

/// A loop or block that can be left; unique in its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelId(pub u32);

/// A place in the source, by its position in [`Kernel::sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// A program that every thread of a grid runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Its name: an identifier of C.
    pub name: String,
    /// Dimensions of the grid, from 1 to 4.
    pub grid_dims: u8,
    /// Its parameters, in the order of the source.
    pub params: Vec<Param>,
    /// Its local variables. They start as zero.
    pub locals: Vec<Local>,
    /// Statements that a thread runs.
    pub body: Vec<Stmt>,
    /// Places in the source that faults refer to.
    pub sites: Vec<FaultSite>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// Its name: an identifier of C, unique among the parameters.
    pub name: String,
    /// The type of its argument.
    pub ty: ParamType,
}

/// The type of a parameter's argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ParamType {
    /// One value, passed by value.
    Value(Element),
    /// An array that the kernel may read and write.
    Array(ArrayType),
}

/// A strided array of elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayType {
    /// Its elements.
    pub element: Element,
    /// Number of its dimensions, from 1 to 4. Extents are i32.
    pub dims: u8,
}

/// The memory layout of a value: a scalar, vector, matrix or struct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    /// Its components, in the order of their offsets. A scalar has one.
    pub components: Vec<Component>,
    /// Bytes from one element to the next in a contiguous array: a multiple of the alignment of every component.
    pub size: u32,
}

/// A scalar within an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// Its path in the element, such as `x` or `pose.m01`; empty for a scalar.
    pub name: String,
    /// Its type.
    pub dtype: Dtype,
    /// Bytes from the start of the element: a multiple of the size of its type.
    pub offset: u32,
}

/// A local variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// A name for readers of emitted code: an identifier of C, not necessarily unique.
    pub name: String,
    /// Its type. 16-bit floating-point types can be stored and cast, not computed with.
    pub dtype: Dtype,
}

/// A place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 0.
    pub column: u32,
}

/// A place in the source where a thread may end with a fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FaultSite {
    /// The place.
    pub site: Site,
    /// The variable that is read there, for the fault of one that is not assigned.
    pub unassigned: Option<String>,
    /// Bits of the dimensions in which negative indices of the source count from the end: the kernel has added the extent to them.
    pub from_end: u8,
}

/// A pure expression. Its operands are evaluated left to right; which of them are is visible only in the time it takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// The value of a local variable.
    Local(LocalId),
    /// A component of a parameter that is passed by value.
    Param(ParamId, u32),
    /// The extent of an array along a dimension; i32.
    Extent(ParamId, u8),
    /// The position of the thread along a dimension of the grid; i32.
    ThreadId(u8),
    /// An operation of one operand.
    Unary(UnaryOp, Box<Self>),
    /// An operation of two operands of equal type.
    Binary(BinaryOp, Box<Self>, Box<Self>),
    /// The second operand if the first, a bool, is true, else the third, of equal type.
    Select(Box<Self>, Box<Self>, Box<Self>),
    /// The operand, converted as [`scalar`](crate::scalar) defines.
    Cast(Dtype, Box<Self>),
    /// The bits of the operand as a value of another type of equal size. Neither type is bool.
    Bitcast(Dtype, Box<Self>),
}

/// A component of an element of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The array.
    pub array: ParamId,
    /// An index for each dimension; i32 or i64. An index below 0, or not below the extent, is a fault.
    pub indices: Vec<Expr>,
    /// The component, by its position in [`Element::components`].
    pub component: u32,
    /// Where the access stands.
    pub site: SiteId,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    /// Assigns to a local variable a value of its type.
    Assign(LocalId, Expr),
    /// Reads a component to a local variable of its type.
    Load(LocalId, Place),
    /// Writes a value of the component's type.
    Store(Place, Expr),
    /// Replaces a component by the result of an operation, indivisibly. The previous value goes to the local variable, if there is one.
    Atomic {
        /// The operation on the previous value and `operand`.
        op: AtomicOp,
        /// The component.
        place: Place,
        /// A value of the component's type.
        operand: Expr,
        /// For [`AtomicOp::CompareExchange`] only: the value that the component must have to be replaced.
        expected: Option<Expr>,
        /// Receives the previous value.
        previous: Option<LocalId>,
    },
    /// Runs one of two bodies by a bool.
    If(Expr, Vec<Self>, Vec<Self>),
    /// Runs a body until it is left.
    Loop(LabelId, Vec<Self>),
    /// Runs a body for each number of a range, as Python's `range`. Bounds and step are of the counter's type, an integer, and evaluated once.
    /// The trip count is exact even where start + count x step overflows. A step of 0 runs no iteration.
    For {
        /// Names the loop.
        label: LabelId,
        /// Is assigned the number at the start of each iteration; assignments in the body do not change the iteration.
        counter: LocalId,
        /// The first number.
        start: Expr,
        /// Where the range ends, exclusive.
        end: Expr,
        /// The distance of the numbers; may be negative.
        step: Expr,
        /// Statements of the body.
        body: Vec<Self>,
    },
    /// Runs a body once; [`Stmt::Break`] leaves it.
    Block(LabelId, Vec<Self>),
    /// Leaves the enclosing loop or block of this label.
    Break(LabelId),
    /// Starts the next iteration of the enclosing loop of this label.
    Continue(LabelId),
    /// Ends the thread.
    Return,
    /// Ends the thread with a fault.
    Fault(FaultKind, SiteId),
}

/// The function of the previous value and the operand that an atomic statement writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// The sum; wraps for integers.
    Add,
    /// The lesser, as [`BinaryOp::Min`], but the number if the other is NaN.
    Min,
    /// The greater, as [`BinaryOp::Max`], but the number if the other is NaN.
    Max,
    /// Both bits, of integers.
    And,
    /// Either bit, of integers.
    Or,
    /// Differing bits, of integers.
    Xor,
    /// The operand.
    Exchange,
    /// The operand if the bits of the previous value are those of `expected`, else the previous value.
    CompareExchange,
}

/// Why a thread ends before its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// An index outside its array.
    OutOfBounds,
    /// A division or remainder by zero, in a dialect that raises it.
    DivisionByZero,
    /// A failed assertion.
    Assertion,
    /// A range with a step of 0, a shift by a negative number and the like, in a dialect that raises it.
    InvalidValue,
    /// The loops of a thread ran more iterations than its budget.
    BudgetExhausted,
}
