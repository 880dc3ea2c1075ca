//! The dialect of Python: its operators and functions, with the results and exceptions of CPython.

mod calls;
mod operators;
