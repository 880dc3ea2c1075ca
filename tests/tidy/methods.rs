//! The paths of methods stand in the .proto files and in what is generated from them. Other code takes them from the table of methods, where
//! a misspelt name does not compile.

use std::{fs, path::Path};

use accelerd_proto::methods::SERVICES;

use super::{files, root};

const GENERATED: &str = "stubs that client/generate.py writes";

/// Where paths of methods stand, and why.
const ALLOWED: [(&str, &str); 5] = [
    ("client/go/accelerd", GENERATED),
    ("client/typescript/src/generated", GENERATED),
    ("client/python/src/accelerd/_methods.py", "the table of the Python client, which generate.py writes"),
    ("client/python/src/accelerd/_proto", "stubs that protoc generates"),
    ("server/http/console/src", "names of the type Method, which generate.py writes"),
];

/// Extensions of sources and settings; documentation and the .proto files may name methods.
const EXTENSIONS: [&str; 11] = ["rs", "py", "pyi", "toml", "yaml", "yml", "json", "ts", "go", "cc", "h"];

/// The lines of code that name a service or the path of a method.
fn naming_lines(text: &str) -> Vec<usize> {
    let is_comment = |line: &str| ["//", "#"].iter().any(|mark| line.trim_start().starts_with(mark));
    let names_method = |line: &str| {
        SERVICES.iter().any(|service| {
            let short = service.rsplit('.').next().unwrap_or(service);
            line.contains(service) || line.contains(&format!("{short}/"))
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !is_comment(line) && names_method(line));
    lines.map(|(index, _)| index + 1).collect()
}

#[test]
fn paths_of_methods_stand_only_in_generated_code() {
    let mut wrong = vec![];
    for path in files(&EXTENSIONS) {
        if ALLOWED.iter().any(|(allowed, _)| path.starts_with(allowed)) {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).unwrap_or_default();
        wrong.extend(naming_lines(&text).iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(wrong.is_empty(), "use accelerd_proto::methods, or accelerd._methods in Python, instead of: {wrong:#?}");
}

#[test]
fn every_exception_is_in_use() {
    let naming: Vec<_> = files(&EXTENSIONS)
        .into_iter()
        .filter(|path| {
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            !naming_lines(&text).is_empty()
        })
        .collect();
    for (allowed, reason) in ALLOWED {
        assert!(naming.iter().any(|path| path.starts_with(Path::new(allowed))), "{allowed}: {reason}");
    }
}

#[test]
fn a_path_is_found_in_code_and_not_in_a_comment() {
    let service = SERVICES[0];
    let short = service.rsplit('.').next().unwrap_or(service);
    let text =
        format!("// {service}/X\nlet a = \"http://host/{service}/X\";\n  # {short}/X\nb = \"{short}/X\"\n{short}\n");
    assert_eq!(naming_lines(&text), [2, 4]);
}
