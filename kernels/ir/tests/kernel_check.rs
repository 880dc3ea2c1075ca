//! A kernel that is not well formed is refused with an error that names the reason.

use accelerd_ir::{
    Dtype,
    kernel::{
        ArrayType, AtomicOp, Component, Element, Expr, FaultKind, FaultSite, Kernel, KernelError, LabelId, Local,
        LocalId, MAX_EXPR_DEPTH, MAX_NODES, MAX_STMT_DEPTH, Param, ParamId, ParamType, Place, Site, SiteId, Stmt,
    },
    scalar::{BinaryOp, Literal, UnaryOp},
};

const I32_LOCAL: LocalId = LocalId(0);
const F32_LOCAL: LocalId = LocalId(1);
const F16_LOCAL: LocalId = LocalId(2);
const BOOL_LOCAL: LocalId = LocalId(3);
const ARRAY: ParamId = ParamId(0);
const VALUE: ParamId = ParamId(1);

/// An array of f32 `a` with two dimensions, an f64 `x`, and a local of several types.
fn kernel(body: Vec<Stmt>) -> Kernel {
    let local = |name: &str, dtype| Local { name: name.to_owned(), dtype };
    let array = ArrayType { element: Element::scalar(Dtype::F32), dims: 2 };
    Kernel {
        name: "subject".to_owned(),
        grid_dims: 1,
        params: vec![
            Param { name: "a".to_owned(), ty: ParamType::Array(array) },
            Param { name: "x".to_owned(), ty: ParamType::Value(Element::scalar(Dtype::F64)) },
        ],
        locals: vec![local("i", Dtype::I32), local("f", Dtype::F32), local("h", Dtype::F16), local("b", Dtype::Bool)],
        body,
        sites: vec![FaultSite { site: Site { line: 1, column: 0 }, unassigned: None, from_end: 0 }],
    }
}

fn check(body: Vec<Stmt>) -> Result<(), KernelError> {
    kernel(body).check()
}

fn message(body: Vec<Stmt>) -> String {
    check(body).expect_err("the kernel is not well formed").to_string()
}

fn int(value: i64) -> Expr {
    Expr::Literal(Literal::from_i64(Dtype::I32, value))
}

fn float(value: f64) -> Expr {
    Expr::Literal(Literal::from_f64(Dtype::F32, value))
}

fn place(indices: Vec<Expr>) -> Place {
    Place { array: ARRAY, indices, component: 0, site: SiteId(0) }
}

fn here() -> Place {
    place(vec![Expr::ThreadId(0), int(0)])
}

fn label(index: u32) -> LabelId {
    LabelId(index)
}

fn range(label: LabelId, counter: LocalId, bound: Expr, body: Vec<Stmt>) -> Stmt {
    Stmt::For { label, counter, start: bound.clone(), end: bound.clone(), step: bound, body }
}

#[test]
fn a_kernel_with_every_statement_is_well_formed() {
    let atomic =
        |op, expected| Stmt::Atomic { op, place: here(), operand: float(1.0), expected, previous: Some(F32_LOCAL) };
    let body = vec![
        Stmt::Assign(F16_LOCAL, Expr::Cast(Dtype::F16, Box::new(Expr::Param(VALUE, 0)))),
        Stmt::Load(F32_LOCAL, here()),
        Stmt::Store(here(), float(1.0)),
        atomic(AtomicOp::Max, None),
        atomic(AtomicOp::CompareExchange, Some(float(0.0))),
        range(label(0), I32_LOCAL, int(1), vec![Stmt::Continue(label(0))]),
        Stmt::Loop(label(1), vec![Stmt::Block(label(2), vec![Stmt::Break(label(1))])]),
        Stmt::If(Expr::Local(BOOL_LOCAL), vec![Stmt::Return], vec![Stmt::Fault(FaultKind::Assertion, SiteId(0))]),
        Stmt::Assign(I32_LOCAL, Expr::Bitcast(Dtype::I32, Box::new(Expr::Local(F32_LOCAL)))),
        Stmt::Assign(I32_LOCAL, Expr::Extent(ARRAY, 1)),
    ];
    assert_eq!(check(body), Ok(()));
}

#[test]
fn a_value_must_have_the_type_of_its_place() {
    let atomic = |operand, previous| Stmt::Atomic {
        op: AtomicOp::Add,
        place: here(),
        operand,
        expected: None,
        previous: Some(previous),
    };
    let cases = [
        (Stmt::Assign(I32_LOCAL, float(1.0)), "the value of an assignment has type f32, expected i32"),
        (Stmt::Load(I32_LOCAL, here()), "a component that is loaded has type f32, expected i32"),
        (Stmt::Store(here(), int(1)), "a value that is stored has type i32, expected f32"),
        (atomic(int(1), F32_LOCAL), "the operand of an atomic operation has type i32, expected f32"),
        (atomic(float(1.0), I32_LOCAL), "the previous value of an atomic operation has type f32, expected i32"),
        (Stmt::If(int(1), vec![], vec![]), "a condition has type i32, expected bool"),
        (range(label(0), F32_LOCAL, float(1.0), vec![]), "the counter of a loop has type f32, expected an integer"),
        (range(label(0), I32_LOCAL, float(1.0), vec![]), "the start of a range has type f32, expected i32"),
        (Stmt::Store(place(vec![int(0), float(0.0)]), float(1.0)), "an index has type f32, expected i32 or i64"),
    ];
    for (stmt, expected) in cases {
        assert_eq!(message(vec![stmt]), expected);
    }
}

#[test]
fn an_operation_must_take_its_operands() {
    let unary = |op, a| Expr::Unary(op, Box::new(a));
    let binary = |op, a, b| Expr::Binary(op, Box::new(a), Box::new(b));
    let select = |condition, a, b| Expr::Select(Box::new(condition), Box::new(a), Box::new(b));
    let bitcast = |to, a| Expr::Bitcast(to, Box::new(a));
    let cases = [
        (unary(UnaryOp::Sin, int(1)), "Sin does not take i32"),
        (unary(UnaryOp::Neg, Expr::Local(F16_LOCAL)), "Neg does not take f16"),
        (binary(BinaryOp::Add, int(1), float(1.0)), "Add does not take i32, f32"),
        (binary(BinaryOp::Lt, Expr::Local(F16_LOCAL), Expr::Local(F16_LOCAL)), "Lt does not take f16, f16"),
        (select(int(1), int(1), int(1)), "the condition of a selection has type i32, expected bool"),
        (
            select(Expr::Local(BOOL_LOCAL), int(1), float(1.0)),
            "the second alternative of a selection has type f32, expected i32",
        ),
        (bitcast(Dtype::I64, int(1)), "the bits of i32 are no value of i64"),
        (bitcast(Dtype::U8, Expr::Local(BOOL_LOCAL)), "the bits of bool are no value of u8"),
    ];
    for (expr, expected) in cases {
        assert_eq!(message(vec![Stmt::Assign(I32_LOCAL, expr)]), expected);
    }
}

#[test]
fn a_position_must_exist() {
    let assign = |expr| Stmt::Assign(I32_LOCAL, expr);
    let at = |component, site| Place { component, site: SiteId(site), ..here() };
    let cases = [
        (assign(Expr::Local(LocalId(4))), "local variable 4 does not exist: there are 4"),
        (assign(Expr::Param(ParamId(2), 0)), "parameter 2 does not exist: there are 2"),
        (assign(Expr::Param(VALUE, 1)), "component 1 does not exist: there are 1"),
        (assign(Expr::Param(ARRAY, 0)), "parameter \"a\" is used as a value"),
        (assign(Expr::Extent(VALUE, 0)), "parameter \"x\" is used as an array"),
        (assign(Expr::Extent(ARRAY, 2)), "dimension of an array 2 does not exist: there are 2"),
        (assign(Expr::ThreadId(1)), "dimension of the grid 1 does not exist: there are 1"),
        (Stmt::Load(F32_LOCAL, at(1, 0)), "component 1 does not exist: there are 1"),
        (Stmt::Load(F32_LOCAL, at(0, 1)), "site 1 does not exist: there are 1"),
        (Stmt::Load(F32_LOCAL, place(vec![int(0)])), "array \"a\" has 2 dimensions, got 1 indices"),
        (Stmt::Fault(FaultKind::Assertion, SiteId(9)), "site 9 does not exist: there are 1"),
        (Stmt::Fault(FaultKind::BudgetExhausted, SiteId(0)), "a statement cannot raise BudgetExhausted"),
    ];
    for (stmt, expected) in cases {
        assert_eq!(message(vec![stmt]), expected);
    }
}

#[test]
fn a_label_must_be_unique_and_enclose_its_uses() {
    let cases = [
        (vec![Stmt::Break(label(0))], "label 0 names no enclosing loop or block"),
        (vec![Stmt::Loop(label(0), vec![]), Stmt::Break(label(0))], "label 0 names no enclosing loop or block"),
        (vec![Stmt::Block(label(0), vec![Stmt::Continue(label(0))])], "label 0 names no enclosing loop"),
        (vec![Stmt::Loop(label(0), vec![]), Stmt::Block(label(0), vec![])], "label 0 names two statements"),
    ];
    for (body, expected) in cases {
        assert_eq!(message(body), expected);
    }
}

#[test]
fn atomic_operations_are_those_of_words_and_of_16_bit_numbers() {
    for dtype in Dtype::ALL {
        for op in AtomicOp::ALL {
            let mut kernel = kernel(vec![]);
            let array = ArrayType { element: Element::scalar(dtype), dims: 1 };
            kernel.params[0].ty = ParamType::Array(array);
            let operand = Expr::Literal(Literal::from_i64(dtype, 1));
            let expected = (op == AtomicOp::CompareExchange).then(|| operand.clone());
            kernel.body = vec![Stmt::Atomic { op, place: place(vec![int(0)]), operand, expected, previous: None }];
            let is_bitwise = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
            let is_half = matches!(dtype, Dtype::F16 | Dtype::Bf16);
            let has_half = is_half && matches!(op, AtomicOp::Add | AtomicOp::Min | AtomicOp::Max);
            let has = has_half || dtype.size() >= 4 && (dtype.is_integer() || !is_bitwise);
            let result = if has { Ok(()) } else { Err(KernelError::Atomic { op, dtype }) };
            assert_eq!(kernel.check(), result);
        }
    }
    let exchange = |op, expected| Stmt::Atomic { op, place: here(), operand: float(1.0), expected, previous: None };
    assert_eq!(message(vec![exchange(AtomicOp::CompareExchange, None)]), "CompareExchange needs an expected value");
    assert_eq!(message(vec![exchange(AtomicOp::Add, Some(float(0.0)))]), "Add takes no expected value");
}

#[test]
fn names_are_identifiers() {
    let mut hostile = kernel(vec![]);
    hostile.name = "f(){} //".to_owned();
    assert!(matches!(hostile.check(), Err(KernelError::Name { what: "the kernel", .. })));
    let mut digit = kernel(vec![]);
    digit.locals[0].name = "0x".to_owned();
    assert!(matches!(digit.check(), Err(KernelError::Name { what: "a local variable", .. })));
    let mut long = kernel(vec![]);
    long.params[0].name = "a".repeat(256);
    assert!(matches!(long.check(), Err(KernelError::Name { what: "a parameter", .. })));
    let mut twice = kernel(vec![]);
    twice.params[0].name = "x".to_owned();
    assert_eq!(twice.check(), Err(KernelError::DuplicateName { what: "two parameters", name: "x".to_owned() }));
}

#[test]
fn components_are_laid_out_as_memory_requires() {
    let component = |name: &str, dtype, offset| Component { name: name.to_owned(), dtype, offset };
    let check = |components, size| {
        let mut kernel = kernel(vec![]);
        kernel.params[1].ty = ParamType::Value(Element { components, size });
        kernel.check().map_err(|error| error.to_string())
    };
    let x = component("x", Dtype::F32, 0);
    let y = component("pose.m01", Dtype::F64, 8);
    assert_eq!(check(vec![x.clone(), y.clone()], 16), Ok(()));
    let refused = |components, size, expected: &str| {
        assert_eq!(check(components, size), Err(expected.to_owned()));
    };
    refused(vec![], 0, "the element of \"x\" has no component");
    refused(vec![x.clone()], 1 << 20, "the element of \"x\" is larger than 4096 bytes");
    refused(
        vec![component("x", Dtype::F32, 2)],
        8,
        "the element of \"x\" has a component that is not aligned to the size of its type",
    );
    let overlap = "the element of \"x\" has components that overlap, or are not in the order of their offsets";
    refused(vec![component("a", Dtype::F64, 0), component("b", Dtype::F32, 4)], 16, overlap);
    refused(vec![y.clone(), x.clone()], 16, overlap);
    refused(vec![x.clone(), y.clone()], 12, "the element of \"x\" has a component beyond its size");
    refused(vec![component("x", Dtype::F32, u32::MAX - 3)], 4, "the element of \"x\" has a component beyond its size");
    refused(vec![x.clone(), y], 20, "the element of \"x\" has a size that is no multiple of its alignment");
    refused(vec![x.clone(), component("x", Dtype::F32, 4)], 8, "two components have the name \"x\"");
    let hostile = vec![x, component("*/", Dtype::F32, 4)];
    refused(hostile, 8, "a component has the name \"*/\", expected an identifier of at most 255 characters");
}

#[test]
fn dimensions_are_one_to_four() {
    for dims in [0, 5] {
        let mut kernel = kernel(vec![]);
        kernel.grid_dims = dims;
        assert_eq!(kernel.check(), Err(KernelError::Dims { what: "the grid".to_owned(), got: dims }));
        kernel.grid_dims = 4;
        kernel.params[0].ty = ParamType::Array(ArrayType { element: Element::scalar(Dtype::F32), dims });
        assert_eq!(kernel.check(), Err(KernelError::Dims { what: "a".to_owned(), got: dims }));
    }
}

#[test]
fn nesting_and_size_are_bounded() {
    let nested_expr = |depth| (1..depth).fold(int(1), |a, _| Expr::Unary(UnaryOp::Neg, Box::new(a)));
    assert_eq!(check(vec![Stmt::Assign(I32_LOCAL, nested_expr(MAX_EXPR_DEPTH))]), Ok(()));
    let too_deep = message(vec![Stmt::Assign(I32_LOCAL, nested_expr(MAX_EXPR_DEPTH + 1))]);
    assert_eq!(too_deep, "the kernel has more than 256 levels of nested expressions");
    let nested_stmt = |depth| (0..depth).fold(vec![], |body, index| vec![Stmt::Block(label(index), body)]);
    let levels = u32::try_from(MAX_STMT_DEPTH).expect("a small number");
    assert_eq!(check(nested_stmt(levels)), Ok(()));
    assert_eq!(message(nested_stmt(levels + 1)), "the kernel has more than 128 levels of nested statements");
    let many = vec![Stmt::Return; MAX_NODES + 1];
    assert_eq!(message(many), "the kernel has more than 100000 statements and expressions");
}

#[test]
fn an_expression_knows_its_type() {
    let kernel = kernel(vec![]);
    let less = Expr::Binary(BinaryOp::Lt, Box::new(int(1)), Box::new(Expr::ThreadId(0)));
    assert_eq!(less.dtype(&kernel), Dtype::Bool);
    let select = Expr::Select(Box::new(less), Box::new(Expr::Param(VALUE, 0)), Box::new(Expr::Param(VALUE, 0)));
    assert_eq!(select.dtype(&kernel), Dtype::F64);
    assert_eq!(Expr::Cast(Dtype::U8, Box::new(select)).dtype(&kernel), Dtype::U8);
    assert_eq!(Expr::Unary(UnaryOp::Abs, Box::new(Expr::Local(F32_LOCAL))).dtype(&kernel), Dtype::F32);
    assert_eq!(Expr::Extent(ARRAY, 0).dtype(&kernel), Dtype::I32);
}
