//! Filters and abbreviates paths.

use std::{fs, path::Path};

use globset::{GlobBuilder, GlobMatcher};

use crate::error::{CliError, Result};

/// Filter of paths.
#[derive(Debug)]
pub enum PathFilter {
    /// Paths that match a glob.
    Glob(GlobMatcher),
    /// Paths below a folder of this machine, or with these consecutive components.
    Below {
        /// Absolute path of the folder, if it exists.
        place: Option<String>,
        /// The components between slashes, as in `/src/net/`.
        components: String,
    },
}

impl PathFilter {
    /// Parses the value of an option, such as `**/test_*.py`, `src/net` or `/usr/lib`.
    pub fn new(option: &str, pattern: &str) -> Result<Self> {
        if !pattern.contains(['*', '?', '[', '{']) {
            let place = fs::canonicalize(pattern).ok().and_then(|place| place.to_str().map(str::to_owned));
            let components = format!("/{}/", pattern.trim_start_matches("./").trim_matches('/'));
            return Ok(Self::Below { place, components });
        }
        let anywhere = if pattern.starts_with('/') { pattern.to_owned() } else { format!("**/{pattern}") };
        let glob = GlobBuilder::new(&anywhere)
            .literal_separator(true)
            .build()
            .map_err(|error| CliError::Usage(format!("{option} {pattern}: {error}")))?;
        Ok(Self::Glob(glob.compile_matcher()))
    }

    /// Returns true if the filter matches a path of the collection.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.is_match(path),
            Self::Below { place, components } => {
                let below = place.as_deref().is_some_and(|place| Path::new(path).starts_with(place));
                below || format!("/{}/", path.trim_start_matches('/')).contains(components.as_str())
            }
        }
    }
}

/// Abbreviates a path, in two parts: the folder of its tree and the rest. It is relative to the current folder if it is
/// below it, and truncated on the left if it is too long.
pub fn shortest(path: &str, tree: Option<&str>, limit: usize) -> (String, String) {
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| Path::new(path).strip_prefix(here).ok()).and_then(Path::to_str);
    if let Some(below) = below.filter(|below| !below.is_empty() && below.chars().count() <= limit) {
        return (String::new(), below.to_owned());
    }
    let rest = tree.and_then(|tree| path.strip_prefix(tree)?.strip_prefix('/')).unwrap_or(path);
    let folder = &path[..path.len() - rest.len()];
    let rest = tail(rest, limit);
    let room = limit.saturating_sub(rest.chars().count());
    (if room > 1 { tail(folder, room) } else { String::new() }, rest)
}

/// Truncates a text on the left, with an ellipsis.
fn tail(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let end: String = text.chars().skip(length - limit.saturating_sub(1)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_means_what_is_below_it_wherever_it_stands() {
        let filter = PathFilter::new("--path", "email/mime").unwrap();
        assert!(filter.matches("/usr/lib/python3/email/mime/text.py"));
        assert!(filter.matches("email/mime"));
        assert!(!filter.matches("/usr/lib/python3/email/mimetypes.py"));
        assert!(PathFilter::new("--path", "./text.py").unwrap().matches("/a/text.py"));
    }

    #[test]
    fn a_folder_of_this_machine_means_itself() {
        let folder = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(folder.path()).unwrap();
        let filter = PathFilter::new("--path", folder.path().to_str().unwrap()).unwrap();
        assert!(filter.matches(place.join("a/b.py").to_str().unwrap()));
        assert!(!filter.matches("/elsewhere/b.py"));
    }

    #[test]
    fn a_glob_matches_within_components() {
        let filter = PathFilter::new("--path", "test_*.py").unwrap();
        assert!(filter.matches("/a/b/test_c.py") && filter.matches("test_c.py"));
        assert!(!filter.matches("/a/test_b/c.py"));
        assert!(PathFilter::new("--path", "/a/**/*.rs").unwrap().matches("/a/b/c.rs"));
        assert!(PathFilter::new("--path", "a[").is_err());
    }

    #[test]
    fn long_paths_keep_their_end() {
        let shown = |path, tree, limit| {
            let (folder, rest) = shortest(path, tree, limit);
            format!("{folder}|{rest}")
        };
        assert_eq!(shown("/a/very/long/path.py", None, 10), "|…g/path.py");
        assert_eq!(shown("/a/b.py", None, 10), "|/a/b.py");
        assert_eq!(shown("/a/b/c.py", Some("/a"), 10), "/a/|b/c.py");
        assert_eq!(shown("/usr/lib/b/c.py", Some("/usr/lib"), 10), "…ib/|b/c.py");
    }
}
