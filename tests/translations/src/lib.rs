//! Translations of integers.py, dates.py and floats.py to Rust. They panic where CPython raises an exception.

#![allow(clippy::missing_safety_doc)]

mod dates;
mod floats;
mod integers;
mod python;
