//! Translations of integers.py and floats.py to Rust. They panic where CPython raises an exception.

#![allow(clippy::missing_safety_doc)]

mod floats;
mod integers;
mod python;
