//! Builds the tables of the parser from the grammar.

#[allow(dead_code, unreachable_pub)]
#[path = "src/kinds.rs"]
mod kinds;
#[allow(dead_code, unreachable_pub)]
#[path = "src/terminals.rs"]
mod terminals;

use std::path::PathBuf;
use std::{env, fs};

use accelerd_grammar::Vocabulary;

fn main() {
    println!("cargo::rerun-if-changed=src/kinds.rs");
    println!("cargo::rerun-if-changed=src/terminals.rs");
    let vocabulary = Vocabulary {
        terminals: terminals::Terminal::ALL.iter().map(|terminal| format!("{terminal:?}")).collect(),
        kinds: kinds::Kind::ALL.iter().map(|it| it.name().to_owned()).collect(),
        fields: kinds::Field::ALL.iter().map(|it| it.name().to_owned()).collect(),
        operators: kinds::Operator::ALL.iter().map(|it| it.name().to_owned()).collect(),
    };
    let tables =
        accelerd_grammar::generate(accelerd_grammar::PYTHON, &vocabulary).unwrap_or_else(|error| panic!("{error}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("tables.rs"), tables).expect("the build folder takes files");
}
