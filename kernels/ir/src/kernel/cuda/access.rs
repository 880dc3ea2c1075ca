//! Accesses to memory.

use super::assigned::for_each_leaf;
use super::cpp_expr::{CppExpr, prec};
use super::emitter::{Emitter, Form};
use crate::Dtype;
use crate::kernel::{AtomicOp, Expr, LocalId, Place, Stmt};
use crate::scalar::cuda::ctype;

/// The variables in the indices of a place.
pub(super) fn place_reads(place: &Place) -> Vec<LocalId> {
    let mut reads = vec![];
    for index in &place.indices {
        for_each_leaf(index, &mut |leaf| {
            if let Expr::Local(local) = leaf {
                reads.push(*local);
            }
        });
    }
    reads
}

/// The call of an atomic operation. The device has those of some types; the others are made of a compare-and-exchange.
pub(super) fn atomic(op: AtomicOp, dtype: Dtype, pointer: &str, operand: &str, expected: Option<&str>) -> String {
    let is_word = matches!(dtype, Dtype::I32 | Dtype::U32 | Dtype::U64);
    let is_integer = dtype.is_integer();
    let (built_in, has, name) = match op {
        AtomicOp::Add => ("atomicAdd", dtype != Dtype::I64, "atomic_add"),
        AtomicOp::Min => ("atomicMin", is_integer, "atomic_min"),
        AtomicOp::Max => ("atomicMax", is_integer, "atomic_max"),
        AtomicOp::And => ("atomicAnd", is_word, "atomic_and"),
        AtomicOp::Or => ("atomicOr", is_word, "atomic_or"),
        AtomicOp::Xor => ("atomicXor", is_word, "atomic_xor"),
        AtomicOp::Exchange => ("atomicExch", is_word || dtype == Dtype::F32, "atomic_exchange"),
        AtomicOp::CompareExchange => ("atomicCAS", is_word, "atomic_compare_exchange"),
    };
    let function = if dtype == Dtype::F16 {
        format!("ir::{name}_f16")
    } else if dtype == Dtype::Bf16 {
        format!("ir::{name}_bf16")
    } else if has {
        built_in.to_owned()
    } else {
        format!("ir::{name}")
    };
    let operands: Vec<_> = [pointer].into_iter().chain(expected).chain([operand]).collect();
    format!("{function}({})", operands.join(", "))
}

impl Emitter<'_> {
    fn component_of(&self, place: &Place) -> &crate::kernel::Component {
        &self.kernel.params[place.array.0 as usize].ty.element().components[place.component as usize]
    }

    /// A component as an lvalue of C++.
    fn lvalue(&self, place: &Place) -> String {
        let array = &self.leaves.arrays[place.array.0 as usize];
        if self.form == Form::Plain {
            let field = &self.leaves.fields[place.array.0 as usize][place.component as usize];
            return format!("{array}[{}]{field}", self.position(place));
        }
        let indices: Vec<_> = place.indices.iter().map(|index| self.expr(index).text).collect();
        format!("ir::at<{}>({array}, {})", self.type_and_offset(place), indices.join(", "))
    }

    /// The row-major position of an element.
    fn position(&self, place: &Place) -> String {
        let (first, others) = place.indices.split_first().expect("an array has a dimension");
        if others.is_empty() {
            return self.expr(first).text;
        }
        let mut text = format!("(size_t){}", self.expr(first).at(prec::UNARY));
        for (axis, index) in others.iter().enumerate() {
            let extent = &self.leaves.extents[place.array.0 as usize][axis + 1];
            let index = self.expr(index);
            let sum = format!("{text} * {extent} + {}", index.at(prec::PRODUCT));
            text = if axis + 1 < others.len() { format!("({sum})") } else { sum };
        }
        text
    }

    fn type_and_offset(&self, place: &Place) -> String {
        let component = self.component_of(place);
        let offset = if component.offset == 0 { String::new() } else { format!(", {}", component.offset) };
        format!("{}{offset}", ctype(component.dtype))
    }

    /// Ends the thread with a fault if a place is outside its array.
    fn guard(&mut self, place: &Place) {
        if self.form == Form::Checked {
            let array = &self.leaves.arrays[place.array.0 as usize];
            let indices: Vec<_> = place.indices.iter().map(|index| self.expr(index).text).collect();
            let site = place.site.0;
            let number = place.array.0;
            self.line(&format!(
                "if (ir::is_outside(thread, {site}, {number}, {array}, {})) return;",
                indices.join(", ")
            ));
        }
    }

    /// The value of a component.
    pub(super) fn load(&self, place: &Place) -> CppExpr {
        loaded(&self.lvalue(place), self.component_of(place).dtype)
    }

    pub(super) fn load_stmt(&mut self, stmt: &Stmt, local: LocalId, place: &Place) {
        self.guard(place);
        if self.usage.reads(local) > 0 {
            self.assign(stmt, local, &self.load(place));
        }
    }

    pub(super) fn store(&mut self, place: &Place, expr: &Expr) {
        self.guard(place);
        let value = self.stored_expr(expr, place.array).text;
        let target = self.lvalue(place);
        let line = match self.compound(&target, expr, &value) {
            Some(compound) => compound,
            None => format!("{target} = {value};"),
        };
        self.line(&line);
    }

    pub(super) fn atomic(
        &mut self,
        stmt: &Stmt,
        place: &Place,
        previous: Option<LocalId>,
        call: impl Fn(&str, Dtype) -> String,
    ) {
        self.guard(place);
        let dtype = self.component_of(place).dtype;
        let call = call(&format!("&{}", self.lvalue(place)), dtype);
        match previous {
            Some(local) => self.assign(stmt, local, &CppExpr::primary(call, dtype)),
            None => self.line(&format!("{call};")),
        }
    }
}

/// A bool is a byte in memory.
fn loaded(lvalue: &str, dtype: Dtype) -> CppExpr {
    if dtype == Dtype::Bool {
        return CppExpr::new(format!("{lvalue} != 0"), prec::EQUAL, dtype);
    }
    CppExpr::primary(lvalue.to_owned(), dtype)
}
