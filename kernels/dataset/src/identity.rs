//! Which kernels are equal, and which have one structure: SHA-256 of their syntax trees.

use std::collections::{BTreeMap, BTreeSet};

use accelerd_parser::{Columns, Context, Kind, NONE, Options, Tree, columns::VALUE_ELLIPSIS, parse};
use sha2::{Digest, Sha256};

/// The identity of a module, independent of the names in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Hash of the tree without the names that the module gives, comments and layout.
    pub id: [u8; 32],
    /// Hash of the same without the values of constants.
    pub structure: [u8; 32],
}

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Split {
    /// For training.
    Train,
    /// For choices during training.
    Validation,
    /// For the last test.
    Test,
}

impl Split {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

/// The sizes of the parts, in percent. The remainder is for training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratios {
    /// The percentage of [`Split::Validation`].
    pub validation: u8,
    /// The percentage of [`Split::Test`].
    pub test: u8,
}

impl Ratios {
    /// The percentage of what is not for training.
    pub(crate) fn held_out(self) -> u64 {
        u64::from(self.validation) + u64::from(self.test)
    }

    /// The part of all modules of a structure that are not for training.
    pub(crate) fn held_out_split(self, structure: &[u8; 32]) -> Split {
        let head = structure[..8].try_into().expect("eight bytes");
        let place = u64::from_le_bytes(head) % self.held_out();
        if place < u64::from(self.test) { Split::Test } else { Split::Validation }
    }
}

/// The identity of a module, or `None` if it is no valid Python.
pub(crate) fn identify(source: &str) -> Option<Identity> {
    let parsed = parse(source.as_bytes(), &Options::default());
    let columns = parsed.outcome.as_ref().ok()?;
    let tree = Hashed::new(&parsed.text, columns);
    Some(Identity { id: tree.hash(true), structure: tree.hash(false) })
}

/// A tree that is hashed.
struct Hashed<'a> {
    columns: &'a Columns,
    tree: Tree<'a>,
    /// The numbers of names that the module gives, by the order of their first places.
    given: BTreeMap<u32, u32>,
}

impl<'a> Hashed<'a> {
    fn new(source: &'a str, columns: &'a Columns) -> Self {
        let named = (0..columns.kinds.len()).filter_map(|row| name(columns, row).map(|name| (row, name)));
        let bound: BTreeSet<_> = named.clone().filter(|(row, _)| binds(columns, *row)).map(|(_, name)| name).collect();
        let mut given = BTreeMap::new();
        // Names are numbered by their first places, which the order of the tree's names is.
        for name in bound {
            let number = u32::try_from(given.len()).expect("names are counted in 32 bits");
            given.insert(name, number);
        }
        Self { columns, tree: Tree::new(source.as_bytes(), columns), given }
    }

    fn hash(&self, with_values: bool) -> [u8; 32] {
        let mut hash = Sha256::new();
        let columns = self.columns;
        for row in 0..columns.kinds.len() {
            hash.update([columns.kinds[row] as u8, columns.fields[row] as u8]);
            hash.update(columns.parents[row].to_le_bytes());
            match name(columns, row) {
                Some(name) => self.add_name(&mut hash, row, name),
                None if columns.kinds[row] == Kind::Constant => self.add_value(&mut hash, row, with_values),
                None => hash.update(columns.aux[row].to_le_bytes()),
            }
        }
        hash.finalize().into()
    }

    fn add_name(&self, hash: &mut Sha256, row: usize, name: u32) {
        // An attribute keeps its name: it belongs to another object than the module's own.
        let number = self.given.get(&name).filter(|_| self.columns.kinds[row] != Kind::Attribute);
        match number {
            Some(number) => hash.update(number.to_le_bytes()),
            None => add_text(hash, self.tree.name(name).as_bytes()),
        }
    }

    fn add_value(&self, hash: &mut Sha256, row: usize, with_values: bool) {
        let value = self.columns.aux[row];
        if value >= VALUE_ELLIPSIS {
            return hash.update(value.to_le_bytes());
        }
        let value = value as usize;
        hash.update([self.columns.value_tags[value] as u8]);
        if with_values {
            let [start, end] =
                [&self.columns.value_starts, &self.columns.value_ends].map(|column| column[value] as usize);
            add_text(hash, self.tree.slice(start, end));
        }
    }
}

/// Text with its length, so that text and successor cannot be confused.
fn add_text(hash: &mut Sha256, text: &[u8]) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

/// The number of a node's name.
fn name(columns: &Columns, row: usize) -> Option<u32> {
    let kind = columns.kinds[row];
    let aux = columns.aux[row];
    if matches!(kind, Kind::Name | Kind::Attribute) {
        return Some(aux / 4);
    }
    let is_named = matches!(kind, Kind::FunctionDef | Kind::Arg | Kind::Identifier | Kind::Keyword);
    (is_named && aux != NONE).then_some(aux)
}

/// Returns true if a node gives its name a meaning: it is assigned to, a parameter or a function.
fn binds(columns: &Columns, row: usize) -> bool {
    let kind = columns.kinds[row];
    let is_assigned = kind == Kind::Name && columns.aux[row] & 3 == Context::Store as u32;
    is_assigned || matches!(kind, Kind::FunctionDef | Kind::Arg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(source: &str) -> Identity {
        identify(source).expect("valid Python")
    }

    #[test]
    fn names_comments_and_layout_do_not_count() {
        let one = identity("import math\n\ndef f(x: float) -> float:\n    y = math.sin(x)\n    return y * 2.0\n");
        let two =
            identity("import math\ndef g(a: float) -> float:  # two\n    b = math.sin(a)\n\n    return (b * 2.0)\n");
        assert_eq!(one, two);
    }

    #[test]
    fn functions_that_are_called_operators_and_the_use_of_names_count() {
        let source = "import math\ndef f(x: float, y: float) -> float:\n    return math.sin(x) * y\n";
        let others = [("sin", "cos"), ("* y", "+ y"), ("* y", "* x"), ("y: float", "y: int")];
        for (from, to) in others {
            assert_ne!(identity(source).structure, identity(&source.replace(from, to)).structure, "{from} to {to}");
        }
    }

    #[test]
    fn constants_are_no_part_of_the_structure() {
        let source = "def f(x: float) -> float:\n    return x * 2.0\n";
        let [one, two] = [source, &source.replace("2.0", "3.5")].map(identity);
        assert_ne!(one.id, two.id);
        assert_eq!(one.structure, two.structure);
        assert_ne!(one.structure, identity(&source.replace("2.0", "2")).structure, "their types are");
    }

    #[test]
    fn what_is_no_python_has_no_identity() {
        assert_eq!(identify("def f(:\n"), None);
    }

    #[test]
    fn held_out_parts_have_their_ratios() {
        let ratios = Ratios { validation: 10, test: 20 };
        let mut counts = BTreeMap::new();
        for nth in 0_u32..10_000 {
            let structure = Sha256::digest(nth.to_le_bytes()).into();
            *counts.entry(ratios.held_out_split(&structure)).or_insert(0) += 1;
        }
        let test = f64::from(counts[&Split::Test]) / 10_000.0;
        // Four standard deviations of a share of 10,000.
        assert!((test - 2.0 / 3.0).abs() < 0.019, "{counts:?}");
        assert_eq!(Ratios { validation: 1, test: 0 }.held_out_split(&[0; 32]), Split::Validation);
        assert_eq!(Ratios { validation: 0, test: 100 }.held_out_split(&[0; 32]), Split::Test);
    }
}
