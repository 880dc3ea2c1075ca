//! The dialect of Warp: its operators and functions.

pub(crate) mod builtins;
mod calls;
pub(crate) mod library;
mod native;
pub(crate) mod operators;
mod random;
mod rotations;
mod tiles;
mod vectors;
