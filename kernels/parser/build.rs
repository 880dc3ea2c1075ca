//! Generates the LR tables of the parser from the grammar.

use std::path::PathBuf;
use std::{env, fs};

use accelerd_grammar::Vocabulary;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let tables = accelerd_grammar::generate(accelerd_grammar::PYTHON, &Vocabulary::python())
        .unwrap_or_else(|error| panic!("{error}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("tables.rs"), tables).expect("the build folder takes files");
}
