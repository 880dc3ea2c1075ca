//! Builds kernels for tests.
#![allow(dead_code, reason = "each test binary uses a part")]

use accelerd_ir::{
    Dtype,
    kernel::{
        ArrayType, Component, Element, Expr, FaultSite, Kernel, LabelId, Local, LocalId, Param, ParamId, ParamType,
        Place, Site, SiteId, Stmt,
    },
    scalar::{BinaryOp, Literal, UnaryOp},
};

/// A site in a line.
pub(crate) fn fault_site(line: u32) -> FaultSite {
    FaultSite { site: Site { line, column: 4 }, unassigned: None, from_end: 0 }
}

/// A kernel under construction.
pub(crate) struct Builder {
    kernel: Kernel,
    labels: u32,
}

impl Builder {
    pub(crate) fn new(grid_dims: u8) -> Self {
        let sites = (1..=8).map(fault_site).collect();
        let name = "subject".to_owned();
        let params = vec![];
        let locals = vec![];
        Self { kernel: Kernel { name, grid_dims, params, locals, body: vec![], sites }, labels: 0 }
    }

    fn param(&mut self, ty: ParamType) -> ParamId {
        let index = self.kernel.params.len();
        self.kernel.params.push(Param { name: format!("p{index}"), ty });
        ParamId(u32::try_from(index).expect("few parameters"))
    }

    pub(crate) fn array(&mut self, dtype: Dtype, dims: u8) -> ParamId {
        self.array_of(Element::scalar(dtype), dims)
    }

    pub(crate) fn array_of(&mut self, element: Element, dims: u8) -> ParamId {
        self.param(ParamType::Array(ArrayType { element, dims }))
    }

    pub(crate) fn value(&mut self, dtype: Dtype) -> ParamId {
        self.value_of(Element::scalar(dtype))
    }

    pub(crate) fn value_of(&mut self, element: Element) -> ParamId {
        self.param(ParamType::Value(element))
    }

    pub(crate) fn local(&mut self, dtype: Dtype) -> LocalId {
        let index = self.kernel.locals.len();
        self.kernel.locals.push(Local { name: format!("v{index}"), dtype });
        LocalId(u32::try_from(index).expect("few locals"))
    }

    pub(crate) fn label(&mut self) -> LabelId {
        self.labels += 1;
        LabelId(self.labels)
    }

    pub(crate) fn finish(mut self, body: Vec<Stmt>) -> Kernel {
        self.kernel.body = body;
        self.kernel.check().expect("the kernel is well formed");
        self.kernel
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}

/// An element of components at these offsets.
pub(crate) fn element(components: &[(&str, Dtype, u32)], size: u32) -> Element {
    let component = |(name, dtype, offset): &(&str, Dtype, u32)| Component {
        name: (*name).to_owned(),
        dtype: *dtype,
        offset: *offset,
    };
    Element { components: components.iter().map(component).collect(), size }
}

pub(crate) fn number(dtype: Dtype, value: f64) -> Expr {
    Expr::Literal(Literal::from_f64(dtype, value))
}

pub(crate) fn int(value: i32) -> Expr {
    integer(Dtype::I32, value.into())
}

pub(crate) fn integer(dtype: Dtype, value: i64) -> Expr {
    Expr::Literal(Literal::from_i64(dtype, value))
}

pub(crate) fn local(id: LocalId) -> Expr {
    Expr::Local(id)
}

pub(crate) fn tid() -> Expr {
    Expr::ThreadId(0)
}

pub(crate) fn unary(op: UnaryOp, a: Expr) -> Expr {
    Expr::Unary(op, Box::new(a))
}

pub(crate) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

pub(crate) fn add(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Add, a, b)
}

pub(crate) fn mul(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Mul, a, b)
}

pub(crate) fn equal(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Eq, a, b)
}

pub(crate) fn less(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Lt, a, b)
}

pub(crate) fn cast(to: Dtype, a: Expr) -> Expr {
    Expr::Cast(to, Box::new(a))
}

pub(crate) fn select(condition: Expr, a: Expr, b: Expr) -> Expr {
    Expr::Select(Box::new(condition), Box::new(a), Box::new(b))
}

pub(crate) fn at(array: ParamId, indices: &[Expr]) -> Place {
    component(array, indices, 0)
}

pub(crate) fn component(array: ParamId, indices: &[Expr], component: u32) -> Place {
    Place { array, indices: indices.to_vec(), component, site: SiteId(0) }
}

pub(crate) fn assign(local: LocalId, value: Expr) -> Stmt {
    Stmt::Assign(local, value)
}

pub(crate) fn store(array: ParamId, index: Expr, value: Expr) -> Stmt {
    Stmt::Store(at(array, &[index]), value)
}

pub(crate) fn load(local: LocalId, array: ParamId, index: Expr) -> Stmt {
    Stmt::Load(local, at(array, &[index]))
}

pub(crate) fn when(condition: Expr, then: Vec<Stmt>) -> Stmt {
    Stmt::If(condition, then, vec![])
}

pub(crate) fn range(label: LabelId, counter: LocalId, bounds: [Expr; 3], body: Vec<Stmt>) -> Stmt {
    let [start, end, step] = bounds;
    Stmt::For { label, counter, start, end, step, body }
}
