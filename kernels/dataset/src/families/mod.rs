//! The kernels of each category.

mod atomic;
mod bits;
mod branches;
mod combined;
mod elementwise;
mod loops;
mod matrix;
mod stencil;
mod vector;

use accelerd_lower::Dialect;

use crate::{category::Category, choices::Choices, frame::Frame};

/// Writes a kernel of a category.
pub(crate) fn write(category: Category, dialect: Dialect, choices: Choices) -> Frame {
    let family = match category {
        Category::Arithmetic => elementwise::arithmetic,
        Category::Math => elementwise::math,
        Category::Bitwise => bits::write,
        Category::ScalarParam => elementwise::scalar_param,
        Category::Vector => vector::write,
        Category::Matrix => matrix::write,
        Category::ControlFlow => loops::control_flow,
        Category::NestedLoop => loops::nested,
        Category::MultiConditional => branches::write,
        Category::Combined => combined::write,
        Category::Atomic => atomic::write,
        Category::Stencil => stencil::write,
    };
    let mut frame = Frame::new(dialect, choices);
    family(&mut frame);
    frame
}
