//! The intermediate representation of generated code: element types, typed scalar functions, kernels.
//!
//! A [`Function`](scalar::Function) computes one element: a CPU backend evaluates it over blocks of elements, and a CUDA backend
//! emits it as C++ inside a template that loads and stores. [`scalar::interpret`] defines what each operation computes.

mod dtype;
pub mod kernel;
pub mod scalar;

pub use dtype::{Dtype, Kind, PromotionError};
