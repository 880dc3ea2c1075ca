//! Cases of functions: generated inputs, and failing ones made simple.
//!
//! A [`Generator`] makes the inputs of any case from a seed. A [`Shrinker`] proposes simpler inputs for a case that fails; the caller
//! runs the functions. The README describes the cases and the order of simplicity.

mod domain;
mod earlier;
mod edits;
mod generator;
mod input;
mod layout;
mod lists;
mod proposals;
mod random;
mod scalars;
mod shrinker;
mod simplicity;
mod specials;
mod values;

pub use domain::{Bound, Domain, InputError};
pub use generator::Generator;
pub use input::Input;
pub use random::Random;
pub use shrinker::{CaseError, Shrinker};
