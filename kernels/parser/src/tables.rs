//! The tables of the parser, as `accelerd-grammar` wrote them: the driver reads them here, a GPU gets a copy.

#![allow(clippy::unreadable_literal, reason = "nobody reads them")]

include!(concat!(env!("OUT_DIR"), "/tables.rs"));
