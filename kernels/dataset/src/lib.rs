//! Random kernels in Python for data sets of translations.
//!
//! [`Plan::source`] writes one kernel, which depends on the plan and its index alone. Its [`Identity`] tells which kernels are equal but
//! for their names, and its [`Split`] keeps kernels for training apart from others that resemble them. Nothing is translated or run here.

mod category;
mod choices;
mod code;
mod expression;
mod families;
mod frame;
mod identity;
mod names;
mod plan;
mod scope;
mod shingles;

pub use category::Category;
pub use identity::{Identity, Ratios, Split};
pub use plan::{Plan, PlanError, Source};

pub use accelerd_lower::Dialect;
