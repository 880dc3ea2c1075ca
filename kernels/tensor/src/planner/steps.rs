//! The steps of a plan under construction, and the views of the values that they have written.

use std::collections::HashMap;

use crate::{Dtype, Graph, Layout, Location, MapStep, Step, TensorType, View, graph::ValueId, scalar::Function};

/// Steps, and the buffers that they write, by number.
pub(super) struct Steps<'a> {
    graph: &'a Graph,
    /// Where the values are that steps have written.
    views: HashMap<ValueId, View>,
    list: Vec<Step>,
    buffer_bytes: Vec<usize>,
}

/// Steps over numbered buffers.
pub(super) struct Lowered {
    pub(super) steps: Vec<Step>,
    /// Bytes of each buffer.
    pub(super) buffer_bytes: Vec<usize>,
    /// Which buffers are outputs: the buffer's number and the output's.
    pub(super) outputs: HashMap<usize, usize>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        Self { graph, views: HashMap::new(), list: vec![], buffer_bytes: vec![] }
    }

    /// Returns true if a value is an input, or a step has written it.
    pub(super) fn is_written(&self, value: ValueId) -> bool {
        matches!(value, ValueId::Input(_)) || self.views.contains_key(&value)
    }

    /// Records where the result of a node is.
    pub(super) fn set(&mut self, node: usize, view: View) {
        self.views.insert(ValueId::Node(node), view);
    }

    /// The view of a value that a step has written, or of an input.
    pub(super) fn view_of(&self, value: ValueId) -> View {
        match value {
            ValueId::Input(nth) => {
                let of = &self.graph.inputs[nth];
                View { location: Location::Input(nth), dtype: of.dtype, layout: Layout::contiguous(&of.shape) }
            }
            ValueId::Node(_) => self.views[&value].clone(),
        }
    }

    pub(super) fn type_of(&self, value: ValueId) -> &TensorType {
        self.graph.type_of(value)
    }

    pub(super) fn push(&mut self, step: Step) {
        self.list.push(step);
    }

    /// A new buffer for a tensor. Its location is its number until buffers are placed.
    pub(super) fn allocate(&mut self, dtype: Dtype, shape: &[usize]) -> View {
        let bytes = shape.iter().product::<usize>() * dtype.size();
        self.buffer_bytes.push(bytes);
        View { location: Location::Arena(self.buffer_bytes.len() - 1), dtype, layout: Layout::contiguous(shape) }
    }

    /// Copies a view, converted to the type of `to`.
    pub(super) fn copy_to(&mut self, from: View, to: View) {
        let function = Function::conversion(from.dtype, to.dtype);
        let shape = to.layout.shape.clone();
        self.push(Step::Map(MapStep { shape, inputs: vec![from], function, outputs: vec![to] }));
    }

    /// A contiguous copy of a view, or itself if it is contiguous.
    pub(super) fn contiguous(&mut self, view: View) -> View {
        if view.layout.is_contiguous() { view } else { self.copy(view) }
    }

    /// A contiguous copy of a view, in a buffer of its own.
    pub(super) fn copy(&mut self, view: View) -> View {
        let copy = self.allocate(view.dtype, &view.layout.shape);
        self.copy_to(view, copy.clone());
        copy
    }

    /// The view in another shape; copied if its strides cannot express it.
    pub(super) fn reshaped(&mut self, view: View, shape: &[usize]) -> View {
        if let Some(layout) = view.layout.reshaped(shape) {
            return View { layout, ..view };
        }
        let copy = self.contiguous(view);
        let layout = copy.layout.reshaped(shape).expect("a contiguous tensor takes any shape of as many elements");
        View { layout, ..copy }
    }

    /// Assigns buffers to the outputs, and copies what is no buffer of its own.
    pub(super) fn finish(mut self) -> Lowered {
        let mut outputs = HashMap::new();
        for (nth, value) in self.graph.outputs.iter().enumerate() {
            let view = self.view_of(*value);
            let owns = match view.location {
                Location::Arena(number) => {
                    let is_whole = view.layout == Layout::contiguous(&view.layout.shape)
                        && self.buffer_bytes[number] == view.layout.elements() * view.dtype.size();
                    Some(number).filter(|number| is_whole && !outputs.contains_key(number))
                }
                Location::Input(_) | Location::Output(_) => None,
            };
            let number = owns.unwrap_or_else(|| {
                let copy = self.allocate(view.dtype, &view.layout.shape.clone());
                self.copy_to(view, copy);
                self.buffer_bytes.len() - 1
            });
            outputs.insert(number, nth);
        }
        Lowered { steps: self.list, buffer_bytes: self.buffer_bytes, outputs }
    }
}
