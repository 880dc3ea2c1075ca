//! Lowers subscripts of arrays: elements, and views by indices and slices.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, FaultKind, Place, Stmt};
use accelerd_parser::{Field, Kind};

use crate::constructs::parts::Part;
use crate::error::{ErrorKind, Lowered};
use crate::lowerer::Lowerer;
use crate::source::syntax::Node;
use crate::types;
use crate::values::scalars;
use crate::values::{Axis, Slice, Storage, Value, View};

impl Lowerer<'_> {
    /// The element or view of an array at indices.
    pub(crate) fn element(&mut self, node: Node, view: View, indices: &[Node]) -> Lowered<Part> {
        if indices.len() > view.rank() {
            let message = format!("expected at most {} indices, got {}", view.rank(), indices.len());
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        let mut part = view.clone();
        for (&index, dim) in indices.iter().zip(view.open()) {
            part.axes[dim] = if self.syntax().kind(index) == Kind::Slice {
                Axis::Slice(self.array_slice(index, &view, dim)?)
            } else {
                let position = self.array_index(index, &view, dim)?;
                Axis::Index(self.selected(index, &view, dim, position))
            };
        }
        let Some(indices) = part.indices() else { return Ok(Part::Value(Value::Array(part))) };
        let storage = Storage::Element { array: view.array, indices, site: self.syntax().site(node) };
        Ok(Part::Location(Self::whole(view.element, storage)))
    }

    /// An index of an array along a dimension of it, in a variable.
    fn array_index(&mut self, node: Node, view: &View, dim: usize) -> Lowered<Expr> {
        let value = self.expression(node)?;
        let (dtype, index) = self.scalar_in(node, &value)?;
        if !(dtype.is_integer() || self.is_python() && dtype == Dtype::Bool) {
            let message = format!("expected an integer as an index, got {}", types::name(dtype));
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        let is_unsigned = !dtype.is_signed();
        let (index, dtype) = Self::index_of(dtype, index);
        let has_effects = self.environment.declarations.has_effects();
        let index =
            if has_effects { self.emitter.temp_unless_literal(dtype, index) } else { self.emitter.bind(dtype, index) };
        if let Axis::Slice(slice) = &view.axes[dim] {
            return Ok(self.index_in(node, slice, dtype, index));
        }
        Ok(if is_unsigned { index } else { self.wrapped_index(view, dim, dtype, index) })
    }

    /// An index of an array, of i32 or i64, where negative ones count from the end. The index is cheap, and so is the result.
    pub(crate) fn wrapped_index(&mut self, view: &View, dim: usize, dtype: Dtype, index: Expr) -> Expr {
        if self.emitter.is_non_negative(&index) {
            return index;
        }
        let extent = scalars::cast(Dtype::I32, dtype, view.array_extent(dim));
        let from_end = scalars::add(dtype, index.clone(), extent);
        let is_negative = match &index {
            Expr::Literal(_) => scalars::truth(true),
            index => scalars::lt(dtype, index.clone(), scalars::integer(dtype, 0)),
        };
        let wrapped = scalars::select(is_negative, from_end, index);
        self.emitter.bind(dtype, wrapped)
    }

    /// The index of the array at an index of a slice of it.
    pub(crate) fn index_in(&mut self, node: Node, slice: &Slice, dtype: Dtype, index: Expr) -> Expr {
        let [start, step, extent] =
            [&slice.start, &slice.step, &slice.extent].map(|part| scalars::cast(Dtype::I32, dtype, part.clone()));
        let index = self.index_within(node, dtype, index, &extent);
        self.emitter.bind(dtype, scalars::add(dtype, start, scalars::mul(dtype, index, step)))
    }

    /// An index below a length, in a variable. Negative ones count from the end; others outside are faults.
    pub(crate) fn index_within(&mut self, node: Node, dtype: Dtype, index: Expr, length: &Expr) -> Expr {
        let is_negative = scalars::lt(dtype, index.clone(), scalars::integer(dtype, 0));
        let wrapped = scalars::select(is_negative, scalars::add(dtype, index.clone(), length.clone()), index);
        let index = self.emitter.bind(dtype, wrapped);
        let is_outside = scalars::or(
            scalars::lt(dtype, index.clone(), scalars::integer(dtype, 0)),
            scalars::le(dtype, length.clone(), index.clone()),
        );
        self.emitter.fault_if(is_outside, FaultKind::OutOfBounds, self.syntax().site(node));
        index
    }

    /// The index of the array itself at an index of an indexed array.
    pub(crate) fn selected(&mut self, node: Node, view: &View, dim: usize, index: Expr) -> Expr {
        let Some(&array) = view.selections.get(dim) else { return index };
        let local = self.emitter.local("index", Dtype::I32);
        let indices = vec![index];
        let site = self.emitter.access_site(self.syntax().site(node), array, &indices);
        self.emitter.emit(Stmt::Load(local, Place { array, indices, component: 0, site }));
        Expr::Local(local)
    }

    /// The slice of a dimension of an array. Bounds are clamped as Warp clamps them.
    fn array_slice(&mut self, node: Node, view: &View, dim: usize) -> Lowered<Slice> {
        if !view.selections.is_empty() {
            let message = "slices of indexed arrays are unsupported";
            return Err(self.error(node, ErrorKind::UnsupportedExpression, message));
        }
        if self.is_python() {
            return Err(self.error(node, ErrorKind::UnsupportedExpression, "slices of lists are unsupported"));
        }
        let dtype = Dtype::I32;
        let bound = |this: &mut Self, field| -> Lowered<Option<Expr>> {
            let Some(bound) = this.syntax().child(node, field) else { return Ok(None) };
            let (of, part) = this.scalar(bound)?;
            if of != dtype {
                let message = format!("expected int32 as a bound of the slice, got {}", types::name(of));
                return Err(this.error(bound, ErrorKind::TypeMismatch, message));
            }
            Ok(Some(this.emitter.bind(dtype, part)))
        };
        let lower = bound(self, Field::Lower)?;
        let upper = bound(self, Field::Upper)?;
        let step = bound(self, Field::Step)?.unwrap_or_else(|| scalars::integer(dtype, 1));
        let is_zero = scalars::eq(dtype, step.clone(), scalars::integer(dtype, 0));
        self.emitter.fault_if(is_zero, FaultKind::InvalidValue, self.syntax().site(node));
        let all = Slice {
            start: scalars::integer(dtype, 0),
            step: scalars::integer(dtype, 1),
            extent: view.array_extent(dim),
        };
        let of = match &view.axes[dim] {
            Axis::Slice(slice) => slice.clone(),
            Axis::All | Axis::Index(_) => all,
        };
        let slice = Slice::within(&of.extent, lower, upper, &step);
        let mut own = |part| self.emitter.bind(dtype, part);
        let start = own(slice.start);
        let step = own(slice.step);
        let extent = own(slice.extent);
        // A slice of a slice starts at an index of it.
        let start = scalars::add(dtype, of.start, scalars::mul(dtype, start, of.step.clone()));
        let step = scalars::mul(dtype, step, of.step);
        Ok(Slice { start: self.emitter.bind(dtype, start), step: self.emitter.bind(dtype, step), extent })
    }

    /// An index as i32 or i64.
    pub(crate) fn index_of(dtype: Dtype, index: Expr) -> (Expr, Dtype) {
        let to = if dtype.size() == 8 || dtype == Dtype::U32 { Dtype::I64 } else { Dtype::I32 };
        let index = scalars::cast(dtype, to, index);
        if dtype != Dtype::U64 {
            return (index, to);
        }
        // Indices beyond i64 are outside every array, and must not count from the end.
        let is_huge = scalars::lt(to, index.clone(), scalars::integer(to, 0));
        (scalars::select(is_huge, scalars::integer(to, i64::MAX), index), to)
    }
}
