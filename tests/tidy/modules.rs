//! Imports between the modules of a crate: they go one way.
//!
//! An arrow joins two modules where a path in the first resolves to the second; a name that a module re-exports resolves to
//! the module that defines it. Arrows are compared among siblings: what two modules below different folders take from each
//! other is an arrow between the folders. A module and its own submodules are one unit and may name each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Circles that stay: the crate, its modules, and why.
const ALLOWED: [(&str, &[&str], &str); 0] = [];

/// A module's path from the root of its crate.
type Module = Vec<String>;

/// The references of a module's file to others.
#[derive(Default)]
struct Source {
    /// Paths that the module names, with the inline module that names them.
    paths: Vec<(Module, Vec<String>)>,
    /// Names that the module imports, with their paths.
    imports: BTreeMap<String, (Module, Vec<String>)>,
}

/// Collects the paths of one file; `inline` is the module that is being visited.
struct Collector {
    source: Source,
    inline: Module,
}

fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        list.path.is_ident("cfg") && ["test", "loom"].iter().any(|word| condition.split(' ').any(|part| part == *word))
    })
}

/// Every path of a `use` item: `a::{b, c::d}` has two.
fn flatten(tree: &syn::UseTree, prefix: &[String], out: &mut Vec<(Option<String>, Vec<String>)>) {
    let with = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => flatten(&path.tree, &with(&path.ident), out),
        syn::UseTree::Name(name) if name.ident == "self" => out.push((prefix.last().cloned(), prefix.to_vec())),
        syn::UseTree::Name(name) => out.push((Some(name.ident.to_string()), with(&name.ident))),
        syn::UseTree::Rename(rename) => out.push((Some(rename.rename.to_string()), with(&rename.ident))),
        syn::UseTree::Glob(_) => out.push((None, prefix.to_vec())),
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, prefix, out)),
    }
}

impl Collector {
    fn add(&mut self, path: Vec<String>) {
        self.source.paths.push((self.inline.clone(), path));
    }

    /// Paths in a macro's tokens that start at `crate`, `self` or `super`.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = vec![];
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Ident(ident) => {
                    self.end_of_scanned(&mut path);
                    colons = 0;
                    if ident == "crate" || ident == "super" || ident == "self" {
                        path.push(ident.to_string());
                    }
                }
                TokenTree::Group(group) => {
                    self.end_of_scanned(&mut path);
                    self.scan(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.end_of_scanned(&mut path),
            }
        }
        self.end_of_scanned(&mut path);
    }

    fn end_of_scanned(&mut self, path: &mut Vec<String>) {
        if path.len() > 1 {
            self.add(std::mem::take(path));
        }
        path.clear();
    }
}

impl<'a> Visit<'a> for Collector {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if is_test_only(&item.attrs) {
            return;
        }
        self.inline.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.inline.pop();
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if is_test_only(&item.attrs) {
            return;
        }
        let mut found = vec![];
        flatten(&item.tree, &[], &mut found);
        for (name, path) in found {
            if let Some(name) = name {
                self.source.imports.insert(name, (self.inline.clone(), path.clone()));
            }
            self.add(path);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.scan(call.tokens.clone());
    }
}

/// The paths that a file names, but for code that only tests compile.
pub(crate) fn paths_of(text: &str) -> Vec<Vec<String>> {
    let file = syn::parse_file(text).expect("a source file is Rust");
    let mut collector = Collector { source: Source::default(), inline: vec![] };
    collector.visit_file(&file);
    collector.source.paths.into_iter().map(|(_, path)| path).collect()
}

/// The modules of one crate that stand in files, without those that only tests compile.
struct Crate {
    name: String,
    sources: BTreeMap<Module, Source>,
}

impl Crate {
    fn read(name: &str, folder: &Path) -> Self {
        let mut crate_ = Self { name: name.to_owned(), sources: BTreeMap::new() };
        for root in ["main.rs", "lib.rs"] {
            crate_.read_module(&folder.join(root), folder, &vec![]);
        }
        crate_
    }

    /// Reads a module's file and the files of the modules that it declares, which are looked for in `folder`.
    fn read_module(&mut self, file: &Path, folder: &Path, module: &Module) {
        let Ok(text) = fs::read_to_string(file) else { return };
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for item in &parsed.items {
            if let syn::Item::Mod(child) = item
                && child.content.is_none()
                && !is_test_only(&child.attrs)
            {
                let name = child.ident.to_string();
                let below = folder.join(&name);
                let child = [&module[..], std::slice::from_ref(&name)].concat();
                self.read_module(&folder.join(format!("{name}.rs")), &below, &child);
                self.read_module(&below.join("mod.rs"), &below, &child);
            }
        }
        let mut collector = Collector { source: Source::default(), inline: module.clone() };
        collector.visit_file(&parsed);
        let source = self.sources.entry(module.clone()).or_default();
        source.paths.extend(collector.source.paths);
        source.imports.extend(collector.source.imports);
    }

    /// The module in a file that a path from `from` leads to; none where it leaves the crate.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (mut index, mut rest) = match path.first()?.as_str() {
            "crate" => (vec![], &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => (from.clone(), path),
            first if self.sources.contains_key(&[&from[..], &[first.to_owned()]].concat()) => (from.clone(), path),
            _ => return None,
        };
        while rest.first().is_some_and(|part| part == "super") {
            index.pop();
            rest = &rest[1..];
        }
        while let Some(part) = rest.first() {
            let child = [&index[..], std::slice::from_ref(part)].concat();
            if !self.sources.contains_key(&child) {
                break;
            }
            index = child;
            rest = &rest[1..];
        }
        // An inline module belongs to the file that holds it.
        while !self.sources.contains_key(&index) {
            index.pop();
        }
        let import = rest.first().and_then(|name| self.sources[&index].imports.get(name));
        match import {
            Some((inline, path)) if depth > 0 => Some(self.resolve(inline, path, depth - 1).unwrap_or(index)),
            _ => Some(index),
        }
    }

    /// Arrows between siblings, by the path of their parent; each with the paths that draw it.
    fn arrows(&self) -> BTreeMap<Module, BTreeMap<(String, String), BTreeSet<String>>> {
        let mut arrows: BTreeMap<Module, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
        for (module, source) in &self.sources {
            for (inline, path) in &source.paths {
                let Some(target) = self.resolve(inline, path, 8) else { continue };
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
                    let named = format!("{} names {}", module.join("::"), path.join("::"));
                    let siblings = arrows.entry(module[..common].to_vec()).or_default();
                    siblings.entry((from.clone(), to.clone())).or_default().insert(named);
                }
            }
        }
        arrows
    }

    /// A line for each group of siblings that import each other in a circle and are not in the list.
    fn circles(&self) -> Vec<String> {
        let mut found = vec![];
        for (parent, arrows) in self.arrows() {
            for circle in circles(arrows.keys()) {
                let known = |(name, modules, _): &(&str, &[&str], &str)| {
                    *name == self.name && circle.iter().all(|module| modules.contains(&module.as_str()))
                };
                if ALLOWED.iter().any(known) {
                    continue;
                }
                let mut line = format!("{} {}: {circle:?}", self.name, parent.join("::"));
                for ((from, to), named) in &arrows {
                    if circle.contains(from) && circle.contains(to) {
                        let some: Vec<_> = named.iter().take(3).cloned().collect();
                        let _ = write!(line, "\n    {from} -> {to}: {}", some.join("; "));
                    }
                }
                found.push(line);
            }
        }
        found
    }
}

/// The groups of nodes that reach each other.
fn circles<'a>(arrows: impl Iterator<Item = &'a (String, String)>) -> BTreeSet<BTreeSet<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in arrows {
        next.entry(from).or_default().insert(to);
    }
    let reached = |start: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            open.extend(next.get(node).into_iter().flatten().filter(|to| seen.insert(**to)).copied());
        }
        seen.into_iter().map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let all: BTreeMap<_, _> = next.keys().map(|node| ((*node).to_owned(), reached(node))).collect();
    let group = |(node, reach): (&String, &BTreeSet<String>)| {
        let back = reach.iter().filter(|other| all.get(*other).is_some_and(|theirs| theirs.contains(node)));
        back.cloned().collect::<BTreeSet<_>>()
    };
    all.iter().map(group).filter(|group| group.len() > 1).collect()
}

/// The source folder of every crate of the workspace, by the crate's name.
fn crates() -> Vec<(String, PathBuf)> {
    let packages = crate::metadata().packages;
    packages
        .into_iter()
        .map(|package| {
            let folder = package.manifest_path.parent().expect("a manifest stands in a folder").join("src");
            (package.name.to_string(), folder.into_std_path_buf())
        })
        .collect()
}

#[test]
fn modules_of_a_crate_import_each_other_in_one_direction() {
    let found: Vec<_> = crates().iter().flat_map(|(name, folder)| Crate::read(name, folder).circles()).collect();
    assert!(found.is_empty(), "circles between modules:\n{}", found.join("\n"));
}

#[test]
fn a_circle_between_modules_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("lib.rs", "mod a; mod b; mod c; pub use b::B;");
    write("a.rs", "use crate::B; pub struct A;");
    write("b.rs", "pub struct B; fn c() -> u32 { super::c::one() }");
    write("c.rs", "pub fn one() -> u32 { 1 }");
    assert_eq!(Crate::read("example", folder.path()).circles(), [""; 0]);
    write("c.rs", "pub fn one() -> u32 { assert!(true, \"{:?}\", crate::a::A); 1 }");
    let found = Crate::read("example", folder.path()).circles();
    assert!(found.len() == 1 && found[0].contains(r#"{"a", "b", "c"}"#), "{found:?}");
}
