//! Options of lowering.

use std::collections::BTreeMap;

use accelerd_ir::Dtype;

/// The language of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Kernels in the style of NVIDIA Warp.
    #[default]
    Warp,
    /// Plain functions with annotations, each applied to rows.
    Python,
}

/// The value of a name that the source does not define.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Captured {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A scalar type.
    Type(Dtype),
}

/// Options of lowering.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options<'a> {
    /// The language.
    pub dialect: Dialect,
    /// Captured names. They take precedence over assignments of the source outside the kernel.
    pub constants: BTreeMap<String, Captured>,
    /// The only kernel to lower; every kernel if absent.
    pub entry: Option<&'a str>,
}
