//! Checks of the invariants that the interpreter and the emitters rely on.

use std::collections::HashSet;

use super::{
    AtomicOp, Element, Expr, FaultKind, Kernel, LabelId, LocalId, Param, ParamId, ParamType, Place, SiteId, Stmt,
};
use crate::Dtype;
use crate::scalar::TypeError;

/// Nesting of expressions that a kernel may have.
pub const MAX_EXPR_DEPTH: usize = 256;
/// Nesting of statements that a kernel may have.
pub const MAX_STMT_DEPTH: usize = 128;
/// Statements and expressions, operands included, that a kernel may have.
pub const MAX_NODES: usize = 100_000;
/// Local variables that a kernel may have.
pub const MAX_LOCALS: usize = 20_000;
/// Parameters that a kernel may have.
pub const MAX_PARAMS: usize = 256;
/// Bytes of an element.
pub const MAX_ELEMENT_SIZE: u32 = 1 << 12;
/// Characters of a name.
pub const MAX_NAME: usize = 255;

/// A kernel is not well formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A limit of this module is exceeded.
    #[error("the kernel has more than {limit} {what}")]
    TooLarge {
        /// The items that are counted.
        what: &'static str,
        /// The largest number that is allowed.
        limit: usize,
    },
    /// The grid or an array has no dimension, or more than four.
    #[error("{what} has {got} dimensions, expected 1 to 4")]
    Dims {
        /// The grid, or the name of an array.
        what: String,
        /// Number of its dimensions.
        got: u8,
    },
    /// A name is not an identifier of C, or too long.
    #[error("{what} has the name {name:?}, expected an identifier of at most {MAX_NAME} characters")]
    Name {
        /// The kind of item that has the name.
        what: &'static str,
        /// The name, cut to the longest that is allowed.
        name: String,
    },
    /// Two parameters, or two components of an element, have one name.
    #[error("{what} have the name {name:?}")]
    DuplicateName {
        /// The kind of item that has the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The layout of a parameter's element is not one that memory can have.
    #[error("the element of {param:?} {reason}")]
    Layout {
        /// The parameter's name.
        param: String,
        /// The reason for the error.
        reason: &'static str,
    },
    /// A position that the kernel does not have.
    #[error("{what} {index} does not exist: there are {count}")]
    Unknown {
        /// The kind of item that is referred to.
        what: &'static str,
        /// Its position.
        index: u32,
        /// The number of items.
        count: usize,
    },
    /// A parameter that is passed by value is used as an array, or the reverse.
    #[error("parameter {param:?} is used as {expected}")]
    ParamKind {
        /// The parameter's name.
        param: String,
        /// The kind of parameter that its use requires.
        expected: &'static str,
    },
    /// An access has not as many indices as its array has dimensions.
    #[error("array {array:?} has {expected} dimensions, got {got} indices")]
    IndexCount {
        /// The array's name.
        array: String,
        /// Number of its dimensions.
        expected: u8,
        /// Number of the indices.
        got: usize,
    },
    /// An operation does not take operands of these types.
    #[error(transparent)]
    Operation(#[from] TypeError),
    /// A value has not the type of its place.
    #[error("{what} has type {got}, expected {expected}")]
    Type {
        /// The value.
        what: &'static str,
        /// The types that it may have.
        expected: String,
        /// Its type.
        got: Dtype,
    },
    /// Bits are reinterpreted as a type of another size, or a bool is involved.
    #[error("the bits of {from} are no value of {to}")]
    Bitcast {
        /// The type of the operand.
        from: Dtype,
        /// The type of the result.
        to: Dtype,
    },
    /// An atomic operation that the type does not have.
    #[error("{op:?} is no atomic operation of {dtype}")]
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// The type of the component.
        dtype: Dtype,
    },
    /// A compare-and-exchange without expected value, or another operation with one.
    #[error("{op:?} {}", if *.op == AtomicOp::CompareExchange { "needs an expected value" } else { "takes no expected value" })]
    Expected {
        /// The operation.
        op: AtomicOp,
    },
    /// Two loops or blocks have one label.
    #[error("label {} names two statements", .0.0)]
    DuplicateLabel(LabelId),
    /// A statement leaves or continues a loop or block that does not enclose it, or continues a block.
    #[error("label {} names no enclosing {what}", .label.0)]
    Label {
        /// The label.
        label: LabelId,
        /// The kind of item that it should name.
        what: &'static str,
    },
    /// A statement raises a fault that only the execution itself raises.
    #[error("a statement cannot raise {0:?}")]
    Fault(FaultKind),
}

impl Kernel {
    /// Checks types, positions, labels, names, layouts and sizes. A kernel that passes can be interpreted and emitted.
    pub fn check(&self) -> Result<(), KernelError> {
        check_name("the kernel", &self.name)?;
        check_dims("the grid", self.grid_dims)?;
        limit("parameters", MAX_PARAMS, self.params.len())?;
        limit("local variables", MAX_LOCALS, self.locals.len())?;
        limit("sites", MAX_NODES, self.sites.len())?;
        let mut names = HashSet::new();
        for param in &self.params {
            check_param(param)?;
            if !names.insert(&param.name) {
                return Err(KernelError::DuplicateName { what: "two parameters", name: param.name.clone() });
            }
        }
        self.locals.iter().try_for_each(|local| check_name("a local variable", &local.name))?;
        let mut checker = Checker { kernel: self, labels: HashSet::new(), enclosing: vec![], nodes: 0 };
        checker.body(&self.body, 0)
    }
}

impl Expr {
    /// The type of its value.
    ///
    /// # Panics
    /// If it is not well formed in this kernel, which [`Kernel::check`] tells.
    pub fn dtype(&self, kernel: &Kernel) -> Dtype {
        match self {
            Self::Literal(literal) => literal.dtype(),
            Self::Local(local) => kernel.locals[local.0 as usize].dtype,
            Self::Param(param, component) => {
                kernel.params[param.0 as usize].ty.element().components[*component as usize].dtype
            }
            Self::Extent(..) | Self::ThreadId(_) => Dtype::I32,
            Self::Unary(op, a) => op.result(a.dtype(kernel)).expect("a checked operation takes its operand"),
            Self::Binary(op, a, _) => op.result(a.dtype(kernel)).expect("a checked operation takes its operands"),
            Self::Select(_, a, _) => a.dtype(kernel),
            Self::Cast(dtype, _) | Self::Bitcast(dtype, _) => *dtype,
        }
    }
}

impl ParamType {
    /// The value, or the elements of an array.
    pub fn element(&self) -> &Element {
        match self {
            Self::Value(element) => element,
            Self::Array(array) => &array.element,
        }
    }
}

impl Element {
    /// The element that is one scalar.
    pub fn scalar(dtype: Dtype) -> Self {
        let component = super::Component { name: String::new(), dtype, offset: 0 };
        Self { components: vec![component], size: size(dtype) }
    }

    /// The largest alignment of its components: the size of their type.
    pub fn alignment(&self) -> u32 {
        self.components.iter().map(|component| size(component.dtype)).max().unwrap_or(1)
    }
}

impl AtomicOp {
    /// All operations.
    pub const ALL: [Self; 8] =
        [Self::Add, Self::Min, Self::Max, Self::And, Self::Or, Self::Xor, Self::Exchange, Self::CompareExchange];

    /// Returns true if components of this type have the operation.
    pub fn takes(self, dtype: Dtype) -> bool {
        let is_word = dtype.size() >= 4;
        match self {
            Self::Add | Self::Min | Self::Max => is_word || matches!(dtype, Dtype::F16 | Dtype::Bf16),
            Self::Exchange | Self::CompareExchange => is_word,
            Self::And | Self::Or | Self::Xor => is_word && dtype.is_integer(),
        }
    }
}

fn size(dtype: Dtype) -> u32 {
    u32::try_from(dtype.size()).expect("a scalar has at most 8 bytes")
}

fn limit(what: &'static str, limit: usize, got: usize) -> Result<(), KernelError> {
    if got > limit { Err(KernelError::TooLarge { what, limit }) } else { Ok(()) }
}

fn check_dims(what: &str, got: u8) -> Result<(), KernelError> {
    if (1..=4).contains(&got) { Ok(()) } else { Err(KernelError::Dims { what: what.to_owned(), got }) }
}

fn check_name(what: &'static str, name: &str) -> Result<(), KernelError> {
    let is_identifier = !name.starts_with(|c: char| c.is_ascii_digit()) && is_word(name);
    if is_identifier { Ok(()) } else { Err(name_error(what, name)) }
}

fn name_error(what: &'static str, name: &str) -> KernelError {
    KernelError::Name { what, name: name.chars().take(MAX_NAME).collect() }
}

fn is_word(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn check_param(param: &Param) -> Result<(), KernelError> {
    check_name("a parameter", &param.name)?;
    if let ParamType::Array(array) = &param.ty {
        check_dims(&param.name, array.dims)?;
    }
    let element = param.ty.element();
    let error = |reason| Err(KernelError::Layout { param: param.name.clone(), reason });
    if element.components.is_empty() {
        return error("has no component");
    }
    if element.size > MAX_ELEMENT_SIZE {
        return error("is larger than 4096 bytes");
    }
    let mut end = 0;
    for component in &element.components {
        if !component.offset.is_multiple_of(size(component.dtype)) {
            return error("has a component that is not aligned to the size of its type");
        }
        if component.offset < end {
            return error("has components that overlap, or are not in the order of their offsets");
        }
        end = component.offset.saturating_add(size(component.dtype));
        if end > element.size {
            return error("has a component beyond its size");
        }
    }
    if !element.size.is_multiple_of(element.alignment()) {
        return error("has a size that is no multiple of its alignment");
    }
    check_component_names(element)
}

/// A path consists of words and dots, so that emitted text can contain it.
fn check_component_names(element: &Element) -> Result<(), KernelError> {
    let mut names = HashSet::new();
    for component in &element.components {
        let name = &component.name;
        let is_path = name.len() <= MAX_NAME && name.split('.').all(is_word);
        if !(is_path || (name.is_empty() && element.components.len() == 1)) {
            return Err(name_error("a component", name));
        }
        if !names.insert(name) {
            return Err(KernelError::DuplicateName { what: "two components", name: name.clone() });
        }
    }
    Ok(())
}

/// Walks the body of a kernel.
struct Checker<'a> {
    kernel: &'a Kernel,
    labels: HashSet<LabelId>,
    /// The labels of the statements around the current one, and whether each is a loop.
    enclosing: Vec<(LabelId, bool)>,
    nodes: usize,
}

impl Checker<'_> {
    fn node(&mut self) -> Result<(), KernelError> {
        self.nodes += 1;
        limit("statements and expressions", MAX_NODES, self.nodes)
    }

    fn body(&mut self, body: &[Stmt], depth: usize) -> Result<(), KernelError> {
        limit("levels of nested statements", MAX_STMT_DEPTH, depth)?;
        body.iter().try_for_each(|stmt| self.stmt(stmt, depth + 1))
    }

    fn stmt(&mut self, stmt: &Stmt, depth: usize) -> Result<(), KernelError> {
        self.node()?;
        match stmt {
            Stmt::Assign(local, value) => {
                let dtype = self.local(*local)?;
                self.expect("the value of an assignment", dtype, value)
            }
            Stmt::Load(local, place) => {
                let expected = self.local(*local)?;
                let got = self.place(place)?;
                same_type("a component that is loaded", expected, got)
            }
            Stmt::Store(place, value) => {
                let dtype = self.place(place)?;
                self.expect("a value that is stored", dtype, value)
            }
            Stmt::Atomic { op, place, operand, expected, previous } => {
                self.atomic(*op, place, operand, expected.as_ref(), *previous)
            }
            Stmt::If(condition, then, otherwise) => {
                self.expect("a condition", Dtype::Bool, condition)?;
                self.body(then, depth)?;
                self.body(otherwise, depth)
            }
            Stmt::Loop(label, body) => self.labeled(*label, true, body, depth),
            Stmt::Block(label, body) => self.labeled(*label, false, body, depth),
            Stmt::For { label, counter, start, end, step, body } => {
                let dtype = self.local(*counter)?;
                if !dtype.is_integer() {
                    return Err(type_error("the counter of a loop", "an integer", dtype));
                }
                self.expect("the start of a range", dtype, start)?;
                self.expect("the end of a range", dtype, end)?;
                self.expect("the step of a range", dtype, step)?;
                self.labeled(*label, true, body, depth)
            }
            Stmt::Break(label) => self.enclosing(*label, false),
            Stmt::Continue(label) => self.enclosing(*label, true),
            Stmt::Return => Ok(()),
            Stmt::Fault(kind, site) => self.fault(*kind, *site),
        }
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        place: &Place,
        operand: &Expr,
        expected: Option<&Expr>,
        previous: Option<LocalId>,
    ) -> Result<(), KernelError> {
        let dtype = self.place(place)?;
        if !op.takes(dtype) {
            return Err(KernelError::Atomic { op, dtype });
        }
        self.expect("the operand of an atomic operation", dtype, operand)?;
        if expected.is_some() != (op == AtomicOp::CompareExchange) {
            return Err(KernelError::Expected { op });
        }
        if let Some(expected) = expected {
            self.expect("the expected value of an atomic operation", dtype, expected)?;
        }
        match previous {
            Some(local) => same_type("the previous value of an atomic operation", self.local(local)?, dtype),
            None => Ok(()),
        }
    }

    fn labeled(&mut self, label: LabelId, is_loop: bool, body: &[Stmt], depth: usize) -> Result<(), KernelError> {
        if !self.labels.insert(label) {
            return Err(KernelError::DuplicateLabel(label));
        }
        self.enclosing.push((label, is_loop));
        self.body(body, depth)?;
        self.enclosing.pop();
        Ok(())
    }

    fn enclosing(&self, label: LabelId, must_loop: bool) -> Result<(), KernelError> {
        let found = self.enclosing.iter().rev().find(|(enclosing, _)| *enclosing == label);
        let what = if must_loop { "loop" } else { "loop or block" };
        match found {
            Some((_, is_loop)) if *is_loop || !must_loop => Ok(()),
            Some(_) | None => Err(KernelError::Label { label, what }),
        }
    }

    fn fault(&self, kind: FaultKind, site: SiteId) -> Result<(), KernelError> {
        if kind == FaultKind::BudgetExhausted {
            return Err(KernelError::Fault(kind));
        }
        self.site(site)
    }

    fn site(&self, site: SiteId) -> Result<(), KernelError> {
        get("site", &self.kernel.sites, site.0).map(|_| ())
    }

    fn local(&self, local: LocalId) -> Result<Dtype, KernelError> {
        get("local variable", &self.kernel.locals, local.0).map(|local| local.dtype)
    }

    /// The name and number of dimensions of an array, and its element.
    fn array(&self, param: ParamId) -> Result<(&str, u8, &Element), KernelError> {
        let Param { name, ty } = get("parameter", &self.kernel.params, param.0)?;
        match ty {
            ParamType::Array(array) => Ok((name, array.dims, &array.element)),
            ParamType::Value(_) => Err(KernelError::ParamKind { param: name.clone(), expected: "an array" }),
        }
    }

    /// The type of a component that is accessed.
    fn place(&mut self, place: &Place) -> Result<Dtype, KernelError> {
        let (name, dims, element) = self.array(place.array)?;
        let dtype = get("component", &element.components, place.component)?.dtype;
        if place.indices.len() != usize::from(dims) {
            let array = name.to_owned();
            let got = place.indices.len();
            return Err(KernelError::IndexCount { array, expected: dims, got });
        }
        self.site(place.site)?;
        for index in &place.indices {
            let got = self.expr(index, 1)?;
            if !matches!(got, Dtype::I32 | Dtype::I64) {
                return Err(type_error("an index", "i32 or i64", got));
            }
        }
        Ok(dtype)
    }

    fn expect(&mut self, what: &'static str, expected: Dtype, value: &Expr) -> Result<(), KernelError> {
        let got = self.expr(value, 1)?;
        same_type(what, expected, got)
    }

    /// The type of an expression.
    fn expr(&mut self, expr: &Expr, depth: usize) -> Result<Dtype, KernelError> {
        self.node()?;
        limit("levels of nested expressions", MAX_EXPR_DEPTH, depth)?;
        match expr {
            Expr::Literal(literal) => Ok(literal.dtype()),
            Expr::Local(local) => self.local(*local),
            Expr::Param(param, component) => self.value(*param, *component),
            Expr::Extent(param, axis) => {
                let (_, dims, _) = self.array(*param)?;
                in_dims("dimension of an array", *axis, dims)
            }
            Expr::ThreadId(axis) => in_dims("dimension of the grid", *axis, self.kernel.grid_dims),
            Expr::Unary(op, a) => {
                let dtype = self.expr(a, depth + 1)?;
                op.result(dtype).ok_or_else(|| operation_error(op, &[dtype]))
            }
            Expr::Binary(op, a, b) => {
                let a = self.expr(a, depth + 1)?;
                let b = self.expr(b, depth + 1)?;
                op.result(a).filter(|_| a == b).ok_or_else(|| operation_error(op, &[a, b]))
            }
            Expr::Select(condition, a, b) => {
                let condition = self.expr(condition, depth + 1)?;
                same_type("the condition of a selection", Dtype::Bool, condition)?;
                let a = self.expr(a, depth + 1)?;
                let b = self.expr(b, depth + 1)?;
                same_type("the second alternative of a selection", a, b).map(|()| a)
            }
            Expr::Cast(to, a) => self.expr(a, depth + 1).map(|_| *to),
            Expr::Bitcast(to, a) => {
                let from = self.expr(a, depth + 1)?;
                let fits = from.size() == to.size() && from != Dtype::Bool && *to != Dtype::Bool;
                if fits { Ok(*to) } else { Err(KernelError::Bitcast { from, to: *to }) }
            }
        }
    }

    /// The type of a component of a parameter that is passed by value.
    fn value(&self, param: ParamId, component: u32) -> Result<Dtype, KernelError> {
        let Param { name, ty } = get("parameter", &self.kernel.params, param.0)?;
        match ty {
            ParamType::Value(element) => {
                get("component", &element.components, component).map(|component| component.dtype)
            }
            ParamType::Array(_) => Err(KernelError::ParamKind { param: name.clone(), expected: "a value" }),
        }
    }
}

fn get<'a, T>(what: &'static str, all: &'a [T], index: u32) -> Result<&'a T, KernelError> {
    all.get(index as usize).ok_or(KernelError::Unknown { what, index, count: all.len() })
}

/// The type of a position or extent.
fn in_dims(what: &'static str, axis: u8, dims: u8) -> Result<Dtype, KernelError> {
    if axis < dims {
        Ok(Dtype::I32)
    } else {
        Err(KernelError::Unknown { what, index: axis.into(), count: dims.into() })
    }
}

fn same_type(what: &'static str, expected: Dtype, got: Dtype) -> Result<(), KernelError> {
    if expected == got { Ok(()) } else { Err(type_error(what, expected.name(), got)) }
}

fn type_error(what: &'static str, expected: &str, got: Dtype) -> KernelError {
    KernelError::Type { what, expected: expected.to_owned(), got }
}

fn operation_error(op: &dyn std::fmt::Debug, operands: &[Dtype]) -> KernelError {
    let operands: Vec<_> = operands.iter().map(|dtype| dtype.name()).collect();
    TypeError { op: format!("{op:?}"), operands: operands.join(", ") }.into()
}
