//! The rules that the compiler does not check: which crate and which module may import which, where `unsafe` and `cudarc`
//! may stand, where methods may be named, how long a file may be.

mod methods;
mod modules;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// A longer source file is probably more than one concept; tests may be as long as they need.
const MAX_LINES: usize = 1000;

/// Dependencies that are forbidden to each crate.
const FORBIDDEN: [(&str, &[&str]); 20] = [
    (
        "accelerd-kernels",
        &["tokio", "tonic", "prost", "serde", "tracing", "config", "accelerd-engine", "accelerd-proto", "accelerd"],
    ),
    ("accelerd-allocator", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-dataset", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-ledger", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-ir", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-lower", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-tensor", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-translate", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-verify", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-parser", &["tokio", "tonic", "prost", "serde", "tracing", "rayon", "cudarc", "accelerd-kernels"]),
    ("accelerd-models", &["tokio", "tonic", "prost", "tracing", "cudarc", "accelerd-engine", "accelerd-proto"]),
    ("accelerd-engine", &["tonic", "prost", "config", "cudarc", "accelerd-proto", "accelerd-store", "accelerd"]),
    (
        "accelerd-http",
        &["config", "cudarc", "opentelemetry", "accelerd-engine", "accelerd-kernels", "accelerd-store", "accelerd"],
    ),
    ("accelerd-store", &["tonic", "prost", "cudarc", "accelerd-kernels", "accelerd-engine", "accelerd-proto"]),
    ("accelerd-sandbox", &["tokio", "tonic", "prost", "cudarc", "accelerd-engine", "accelerd-kernels", "accelerd"]),
    ("accelerd-collections", &["tonic", "hyper", "tower", "config", "cudarc", "opentelemetry", "accelerd"]),
    ("accelerd", &["cudarc", "accelerd-client"]),
    ("accelerd-client", &["cudarc", "accelerd-engine", "accelerd-kernels", "accelerd-parser", "accelerd"]),
    (
        "portalis_cuda",
        &["tonic", "prost", "cudarc", "accelerd-engine", "accelerd-kernels", "accelerd-parser", "accelerd"],
    ),
    ("accelctl", &["cudarc", "accelerd-engine", "accelerd-kernels", "accelerd-parser", "accelerd"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate stands in the workspace").to_owned()
}

fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps();
    command.exec().expect("cargo metadata reads this workspace")
}

/// Declared dependencies of each workspace crate, development ones left out.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    metadata()
        .packages
        .into_iter()
        .map(|package| {
            let names = package.dependencies.into_iter().filter(|d| d.kind != DependencyKind::Development);
            (package.name.to_string(), names.map(|d| d.name).collect())
        })
        .collect()
}

/// The files of the workspace with one of these extensions, by path from the root.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    fn walk(folder: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder of the workspace can be read") {
            let path = entry.expect("an entry of the workspace can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != "dist" && !name.starts_with('.') && name != "node_modules" {
                walk(&path, extensions, files);
            } else if path.extension().is_some_and(|own| extensions.iter().any(|extension| own == *extension)) {
                files.push(path);
            }
        }
    }
    let mut files = vec![];
    walk(&root(), extensions, &mut files);
    let relative = |path: PathBuf| path.strip_prefix(root()).expect("the walk starts at the root").to_owned();
    files.into_iter().map(relative).collect()
}

/// Every Rust file of the workspace, by path from the root.
fn rust_files() -> Vec<(PathBuf, String)> {
    let read = |path: &PathBuf| fs::read_to_string(root().join(path)).expect("a source file is UTF-8");
    files(&["rs"]).into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// The code of a file: comments and string literals hold words too.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
        .filter(|(_, line)| !line.contains('"'))
}

#[test]
fn no_crate_imports_what_its_boundary_forbids() {
    let dependencies = dependencies();
    let mut wrong = vec![];
    for (name, forbidden) in FORBIDDEN {
        let declared = dependencies.get(name).unwrap_or_else(|| panic!("{name} is a member of the workspace"));
        wrong.extend(forbidden.iter().filter(|f| declared.contains(**f)).map(|f| format!("{name} -> {f}")));
    }
    assert!(wrong.is_empty(), "forbidden arrows: {wrong:?}");
}

#[test]
fn the_design_card_packages_are_all_in_use() {
    let all: BTreeSet<_> = dependencies().into_values().flatten().collect();
    for package in
        ["tonic", "prost", "tokio", "cudarc", "tower", "tracing", "opentelemetry", "serde", "config", "tokio-stream"]
    {
        assert!(all.contains(package), "{package} is not a dependency of any crate");
    }
}

#[test]
fn cudarc_is_named_only_in_the_device_layer() {
    let allowed = Path::new("kernels/src/cuda");
    let mut wrong = vec![];
    for (path, text) in rust_files().iter().filter(|(path, _)| !path.starts_with(allowed)) {
        wrong.extend(
            code_lines(text)
                .filter(|(_, line)| line.contains("cudarc::"))
                .map(|(index, _)| format!("{}:{index}", path.display())),
        );
    }
    assert!(wrong.is_empty(), "cudarc outside {}: {wrong:?}", allowed.display());
}

#[test]
fn unsafe_stands_only_in_kernels() {
    // Sources of WebAssembly modules that the tests verify take lists as addresses, as their ABI wants.
    let is_allowed = |path: &Path| path.starts_with("kernels") || path.starts_with("tests/translations");
    let mut wrong = vec![];
    for (path, text) in rust_files().iter().filter(|(path, _)| !is_allowed(path)) {
        let uses = code_lines(text).filter(|(_, line)| line.contains("unsafe {") || line.contains("unsafe fn"));
        wrong.extend(uses.map(|(index, _)| format!("{}:{index}", path.display())));
    }
    assert!(wrong.is_empty(), "unsafe outside kernels: {wrong:?}");
}

#[test]
fn no_source_file_holds_several_concepts() {
    let is_test = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let long: Vec<_> = rust_files()
        .iter()
        .filter(|(path, _)| !is_test(path))
        .map(|(path, text)| (path.display().to_string(), text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .collect();
    assert!(long.is_empty(), "files past {MAX_LINES} lines: {long:?}");
}

/// The words in capitals of a text that are between two `quote`s.
fn words_in_capitals(text: &str, quote: char) -> BTreeSet<&str> {
    let is_reason = |word: &&str| word.len() > 3 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    text.split(quote).filter(is_reason).collect()
}

#[test]
fn every_reason_of_an_error_is_documented() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let sources = ["server/src/status.rs", "server/src/auth/refusal.rs"].map(read);
    let code = |source: &String| source.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let sources = sources.iter().map(code).collect::<String>();
    let documented = read("docs/errors.md");
    assert_eq!(words_in_capitals(&documented, '`'), words_in_capitals(&sources, '"'));
}

#[test]
fn every_source_file_opens_with_what_it_is_for() {
    let silent: Vec<_> = rust_files()
        .iter()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert!(silent.is_empty(), "files without an opening sentence: {silent:?}");
}
