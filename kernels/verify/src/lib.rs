//! Cases of functions: generated inputs, and failing ones made simple.
//!
//! A [`Generator`] makes the inputs of any case from a seed. A [`Screen`] does so on a GPU, and finds the cases in which two functions differ
//! there. A [`Shrinker`] proposes simpler inputs for a case that fails; the caller runs the functions. The README describes the cases and the
//! order of simplicity.

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
mod screen;
mod shrinker;
mod simplicity;
mod specials;
mod values;

pub use domain::{Bound, Domain, InputError};
pub use generator::Generator;
pub use input::Input;
pub use random::Random;
pub use screen::{Screen, ScreenLaunch, ScreenOutput, ScreenParam, ScreenSide, Screened, ScreenedError};
pub use shrinker::{CaseError, Shrinker};
