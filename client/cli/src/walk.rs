//! Walks folders and lists their files.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use ignore::{
    DirEntry, WalkBuilder,
    overrides::{Override, OverrideBuilder},
};

use crate::error::{CliError, Result};

/// A root of the walk: a folder or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Prefix of its files' paths: its absolute path, or a name.
    pub name: String,
    /// Where it is.
    pub root: PathBuf,
}

/// A file of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Name of its tree.
    pub tree: String,
    /// Path in the collection and in the output: the tree's name and the relative path.
    pub path: String,
    /// Path relative to the tree, or the file's name if the tree is the file.
    pub below: String,
    /// Where it is.
    pub disk: PathBuf,
    /// Size at the time of the walk.
    pub size: u64,
    /// When it was last written, at the time of the walk.
    pub modified: Option<SystemTime>,
}

/// The trees to walk, and the files that are left out.
#[derive(Clone, Debug)]
pub struct Walk {
    pub trees: Vec<Tree>,
    /// The patterns of each tree.
    overrides: Vec<Override>,
    max_size: u64,
}

/// The part of the trees that a walk lists: files and folders, each with what is below it.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    is_all: bool,
    paths: HashSet<PathBuf>,
    /// The folders above the paths, through which a walk reaches them.
    above: HashSet<PathBuf>,
}

/// Result of a walk.
#[derive(Debug, Default)]
pub struct Walked {
    /// Folders whose entries were listed.
    pub folders: Vec<PathBuf>,
    /// Distinct files, sorted by path in each tree.
    pub files: Vec<File>,
    /// Paths and sizes of files above the size limit.
    pub large: Vec<(String, u64)>,
    /// Paths, about, of files whose names are not UTF-8. No collection has them.
    pub misnamed: Vec<String>,
    /// Entries that could not be read.
    pub unreadable: u64,
    /// Messages about unreadable entries.
    pub problems: Vec<String>,
    /// True if all entries could be read.
    pub complete: bool,
}

/// Returns the trees of paths.
pub fn trees(paths: &[PathBuf], name: Option<&str>) -> Result<Vec<Tree>> {
    if name.is_some() && paths.len() != 1 {
        return Err(CliError::Usage("--name is for one path".into()));
    }
    paths
        .iter()
        .map(|path| {
            let root = fs::canonicalize(path).map_err(CliError::file(path))?;
            let not_utf8 = || CliError::Usage(format!("{} is not UTF-8: name it with --name", root.display()));
            let name = name.or_else(|| root.to_str()).ok_or_else(not_utf8)?.trim_end_matches('/').to_owned();
            Ok(Tree { name, root })
        })
        .collect()
}

/// Returns the trees of paths, named by the paths as given.
pub fn trees_as_given(paths: &[PathBuf]) -> Result<Vec<Tree>> {
    let mut walked = trees(paths, None)?;
    for (tree, path) in walked.iter_mut().zip(paths) {
        if let Some(given) = path.to_str().map(|given| given.trim_end_matches('/')).filter(|given| !given.is_empty()) {
            given.clone_into(&mut tree.name);
        }
    }
    Ok(walked)
}

impl Scope {
    /// All of the trees.
    pub fn all() -> Self {
        Self { is_all: true, ..Self::default() }
    }

    /// Adds a file, or a folder with what is below it.
    pub fn add(&mut self, path: PathBuf) {
        if !self.paths.contains(&path) {
            self.above.extend(path.ancestors().skip(1).map(Path::to_owned));
            self.paths.insert(path);
        }
    }

    /// Adds all of another scope.
    pub fn extend(&mut self, other: Self) {
        self.is_all |= other.is_all;
        self.paths.extend(other.paths);
        self.above.extend(other.above);
    }

    pub fn is_empty(&self) -> bool {
        !self.is_all && self.paths.is_empty()
    }

    /// Number of files and folders that were added.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// The files of the scope.
    pub fn part_of<T: Clone>(&self, files: &BTreeMap<PathBuf, T>) -> BTreeMap<PathBuf, T> {
        if self.is_all {
            return files.clone();
        }
        let below = |path| files.range::<PathBuf, _>(path..).take_while(move |(file, _)| file.starts_with(path));
        self.paths.iter().flat_map(below).map(|(path, of)| (path.clone(), of.clone())).collect()
    }

    /// Returns true if the scope has the path, or a folder above it.
    pub fn contains(&self, path: &Path) -> bool {
        self.is_all || path.ancestors().any(|path| self.paths.contains(path))
    }
}

impl Walk {
    /// Excludes files that match a pattern or are larger than a size.
    pub fn new(trees: Vec<Tree>, exclude: &[String], max_size: u64) -> Result<Self> {
        let overrides = trees.iter().map(|tree| overrides(tree, exclude)).collect::<Result<_>>()?;
        Ok(Self { trees, overrides, max_size })
    }

    /// Lists all files.
    pub fn all_files(&self) -> Walked {
        self.files(&Arc::new(Scope::all()))
    }

    /// Lists the files of a scope except hidden, ignored and excluded ones, symlinks, and the standard output. A part of the trees is walked from their
    /// roots, so that the same rules apply as to all.
    pub fn files(&self, scope: &Arc<Scope>) -> Walked {
        let mut walked = Walked { complete: true, ..Default::default() };
        let mut seen = HashSet::new();
        for (tree, overrides) in self.trees.iter().zip(&self.overrides) {
            let mut builder = WalkBuilder::new(&tree.root);
            // A command whose output is a file of the tree would report its own report as a change.
            builder.require_git(false).skip_stdout(true).overrides(overrides.clone()).sort_by_file_path(Path::cmp);
            if !scope.is_all {
                let scope = Arc::clone(scope);
                builder.filter_entry(move |entry| scope.above.contains(entry.path()) || scope.contains(entry.path()));
            }
            for entry in builder.build() {
                match entry.map_err(|error| (is_gone(&error), error.to_string())).and_then(|entry| file(tree, &entry)) {
                    Ok(Entry::Misnamed(path)) => walked.misnamed.push(path),
                    Ok(Entry::File(file)) if file.size > self.max_size => walked.large.push((file.path, file.size)),
                    Ok(Entry::File(file)) if seen.insert(file.path.clone()) => walked.files.push(file),
                    Ok(Entry::Folder(path)) => walked.folders.push(path),
                    // A file that was removed after its folder was listed does not exist.
                    Ok(Entry::File(_) | Entry::Other) | Err((true, _)) => {}
                    Err((false, problem)) => {
                        walked.unreadable += 1;
                        walked.complete = false;
                        walked.problems.push(problem);
                    }
                }
            }
        }
        walked
    }
}

fn overrides(tree: &Tree, exclude: &[String]) -> Result<Override> {
    let mut overrides = OverrideBuilder::new(&tree.root);
    for glob in exclude {
        overrides.add(&format!("!{glob}")).map_err(|error| CliError::Usage(format!("--exclude {glob}: {error}")))?;
    }
    overrides.build().map_err(|error| CliError::Usage(error.to_string()))
}

fn is_gone(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The kind of an entry of a folder.
enum Entry {
    File(File),
    /// A file whose path below its tree is not UTF-8, about.
    Misnamed(String),
    Folder(PathBuf),
    /// A symlink or a device.
    Other,
}

/// The error is a message, with whether the entry was removed.
fn file(tree: &Tree, entry: &DirEntry) -> Result<Entry, (bool, String)> {
    if entry.file_type().is_some_and(|kind| kind.is_dir()) {
        return Ok(Entry::Folder(entry.path().to_owned()));
    }
    if !entry.file_type().is_some_and(|kind| kind.is_file()) {
        return Ok(Entry::Other);
    }
    let disk = entry.path().to_owned();
    let below = disk.strip_prefix(&tree.root).unwrap_or(&disk);
    let Some(below) = below.to_str().map(str::to_owned) else {
        return Ok(Entry::Misnamed(format!("{}/{}", tree.name, below.display())));
    };
    let metadata = entry.metadata().map_err(|error| (is_gone(&error), error.to_string()))?;
    let name = || disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (path, below) =
        if below.is_empty() { (tree.name.clone(), name()) } else { (format!("{}/{below}", tree.name), below) };
    let modified = metadata.modified().ok();
    Ok(Entry::File(File { tree: tree.name.clone(), path, below, disk, size: metadata.len(), modified }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn walk(trees: Vec<Tree>, exclude: &[String], max_size: u64) -> Result<Walked> {
        Ok(Walk::new(trees, exclude, max_size)?.all_files())
    }

    fn names(folder: &Path, exclude: &[&str]) -> Vec<String> {
        let trees = trees(&[folder.to_owned()], Some("t")).unwrap();
        let exclude: Vec<_> = exclude.iter().map(|e| (*e).to_owned()).collect();
        let walked = walk(trees, &exclude, 100).unwrap();
        walked.files.into_iter().map(|file| file.path).collect()
    }

    #[test]
    fn ignored_hidden_excluded_and_large_files_are_left_out() {
        let large = "x".repeat(101);
        let folder = folder(&[
            (".gitignore", "build/\n"),
            ("build/out.c", "x"),
            (".secret/key", "x"),
            ("src/a.py", "x"),
            ("src/b_test.py", "x"),
            ("src/large.py", &large),
        ]);
        assert_eq!(names(folder.path(), &[]), ["t/src/a.py", "t/src/b_test.py"]);
        assert_eq!(names(folder.path(), &["*_test.py"]), ["t/src/a.py"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_whose_name_is_not_utf_8_is_skipped_alone() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
        let folder = folder(&[("a.py", "x"), ("b.py", "x")]);
        fs::write(folder.path().join(OsStr::from_bytes(b"caf\xe9.py")), "x").unwrap();
        let walked = walk(trees(&[folder.path().to_owned()], Some("t")).unwrap(), &[], 100).unwrap();
        assert_eq!((walked.files.len(), walked.unreadable, walked.complete), (2, 0, true));
        assert_eq!(walked.misnamed, ["t/caf\u{fffd}.py"]);
        let odd = folder.path().join(OsStr::from_bytes(b"caf\xe9"));
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("a.py"), "x").unwrap();
        assert!(trees(std::slice::from_ref(&odd), None).is_err_and(|error| error.to_string().contains("--name")));
        let walked = walk(trees(&[odd], Some("t")).unwrap(), &[], 100).unwrap();
        assert_eq!(walked.files[0].path, "t/a.py");
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_are_not_followed() {
        let folder = folder(&[("a.py", "x")]);
        std::os::unix::fs::symlink(folder.path().join("a.py"), folder.path().join("b.py")).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
        assert_eq!(names(folder.path(), &[]), ["t/a.py"]);
    }

    #[test]
    fn a_file_may_be_its_own_tree_and_is_listed_once() {
        let folder = folder(&[("src/a.py", "x")]);
        let paths = [folder.path().to_owned(), folder.path().join("src/a.py")];
        let walked = walk(trees(&paths, None).unwrap(), &[], 100).unwrap();
        assert_eq!(walked.files.len(), 1);
        let alone = walk(trees(&paths[1..], None).unwrap(), &[], 100).unwrap();
        assert_eq!((&alone.files[0].path, alone.files[0].below.as_str()), (&walked.files[0].path, "a.py"));
    }

    #[test]
    fn a_part_of_a_tree_is_walked_by_the_rules_of_the_whole() {
        let folder = folder(&[
            (".gitignore", "build/\n"),
            ("build/out.py", "x"),
            ("a/b/c.py", "x"),
            ("a/b/d.py", "x"),
            ("a/skipped/e.py", "x"),
            ("a/.hidden/f.py", "x"),
            ("other/g.py", "x"),
        ]);
        let root = fs::canonicalize(folder.path()).unwrap();
        let trees = trees(&[folder.path().to_owned()], Some("t")).unwrap();
        let walk = Walk::new(trees, &["skipped".to_owned()], 100).unwrap();
        let below = |paths: &[&str]| -> Vec<String> {
            let mut scope = Scope::default();
            for path in paths {
                scope.add(root.join(path));
            }
            walk.files(&Arc::new(scope)).files.into_iter().map(|file| file.path).collect()
        };
        assert_eq!(below(&["a/b/c.py"]), ["t/a/b/c.py"]);
        assert_eq!(below(&["a"]), ["t/a/b/c.py", "t/a/b/d.py"]);
        assert_eq!(below(&["build/out.py", "a/skipped/e.py", "a/.hidden", "nowhere/h.py"]), [""; 0]);
        assert_eq!(below(&["."]).len(), 3);
        fs::remove_dir_all(&root).unwrap();
        let gone = walk.all_files();
        assert_eq!((gone.files.len(), gone.complete), (0, true), "{gone:?}");
    }

    #[test]
    fn bad_arguments_are_refused() {
        let folder = folder(&[]);
        assert!(trees(&[folder.path().join("nowhere")], None).is_err());
        assert!(trees(&[folder.path().to_owned(), folder.path().to_owned()], Some("t")).is_err());
        assert!(walk(trees(&[folder.path().to_owned()], None).unwrap(), &["a[".to_owned()], 1).is_err());
    }
}
