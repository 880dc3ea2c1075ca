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
    fn dtype_of(&self, place: &Place) -> Dtype {
        self.component_of(place).dtype
    }

    fn component_of(&self, place: &Place) -> &crate::kernel::Component {
        &self.kernel.params[place.array.0 as usize].ty.element().components[place.component as usize]
    }

    /// A component as an lvalue of C++, without checks.
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

    /// The pointer to a component, null after a fault.
    fn checked_pointer(&self, place: &Place) -> String {
        let array = &self.leaves.arrays[place.array.0 as usize];
        let indices: Vec<_> = place.indices.iter().map(|index| self.expr(index).text).collect();
        let (ty, site) = (self.type_and_offset(place), place.site.0);
        format!("ir::at<{ty}>(thread, {site}, {}, {array}, {})", place.array.0, indices.join(", "))
    }

    /// Runs a statement on the `element` that a checked pointer points to.
    fn checked(&mut self, place: &Place, statement: &str) {
        let (ty, pointer) = (ctype(self.dtype_of(place)), self.checked_pointer(place));
        self.line(&format!("if ({ty}* {} = {pointer}) {statement}; else return;", self.element));
    }

    /// The value of a component, without checks.
    pub(super) fn load(&self, place: &Place) -> CppExpr {
        loaded(&self.lvalue(place), self.dtype_of(place))
    }

    pub(super) fn load_stmt(&mut self, stmt: &Stmt, local: LocalId, place: &Place) {
        let is_read = self.usage.reads(local) > 0;
        if self.form != Form::Checked {
            if is_read {
                self.assign(stmt, local, &self.load(place));
            }
            return;
        }
        if !is_read {
            let pointer = self.checked_pointer(place);
            return self.line(&format!("if (!{pointer}) return;"));
        }
        self.declare_receiver(stmt, local);
        let value = loaded(&format!("*{}", self.element), self.dtype_of(place)).text;
        let statement = format!("{} = {value}", self.names.locals[local.0 as usize]);
        self.checked(place, &statement);
    }

    pub(super) fn store(&mut self, place: &Place, expr: &Expr) {
        let value = self.stored_expr(expr, place.array).text;
        if self.form == Form::Checked {
            let statement = format!("*{} = {value}", self.element);
            return self.checked(place, &statement);
        }
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
        let dtype = self.dtype_of(place);
        if self.form == Form::Checked {
            let call = call(&self.element, dtype);
            let Some(local) = previous else { return self.checked(place, &call) };
            self.declare_receiver(stmt, local);
            let statement = format!("{} = {call}", self.names.locals[local.0 as usize]);
            return self.checked(place, &statement);
        }
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
    let prec = if lvalue.starts_with('*') { prec::UNARY } else { prec::PRIMARY };
    CppExpr::new(lvalue.to_owned(), prec, dtype)
}
