//! References to models on a hub: `hf://owner/name` or `hf://owner/name@revision`.

use std::fmt;

use crate::error::ApiError;

const SCHEME: &str = "hf://";

const DEFAULT_REVISION: &str = "main";

/// Maximum length of a component of a reference.
const MAX_COMPONENT_BYTES: usize = 128;

/// A model repository at a revision: a branch, a tag or a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) revision: String,
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, name, revision } = self;
        write!(f, "{SCHEME}{owner}/{name}")?;
        if revision == DEFAULT_REVISION { Ok(()) } else { write!(f, "@{revision}") }
    }
}

impl Repo {
    /// Parses a reference; `None` for a path of the file system.
    pub fn parse(path: &str) -> Option<Result<Self, ApiError>> {
        let rest = path.strip_prefix(SCHEME)?;
        let (whole, revision) = rest.split_once('@').unwrap_or((rest, DEFAULT_REVISION));
        let parts = whole.split_once('/').filter(|(owner, name)| is_component(owner) && is_component(name));
        let Some((owner, name)) = parts.filter(|_| revision.split('/').all(is_component)) else {
            let reason = format!("expected {SCHEME}owner/name or {SCHEME}owner/name@revision, got {path:?}");
            return Some(Err(ApiError::invalid("path", reason)));
        };
        Some(Ok(Self { owner: owner.to_owned(), name: name.to_owned(), revision: revision.to_owned() }))
    }

    /// The revision as one component of a URL or path, with slashes escaped.
    pub(super) fn escaped_revision(&self) -> String {
        self.revision.replace('/', "%2F")
    }
}

/// Returns true if a name is a single path component that needs no escaping in a URL.
pub(super) fn is_component(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_COMPONENT_BYTES).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(fits)
}

/// Returns true if a revision is a commit and therefore immutable.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_round_trip() {
        for path in ["hf://BAAI/bge-small-en-v1.5", "hf://a/b@v1", "hf://a/b@refs/pr/1"] {
            let repo = Repo::parse(path).expect("of a hub").expect("a name");
            assert_eq!(repo.to_string(), path);
        }
        let repo = Repo::parse("hf://a/b@refs/pr/1").expect("of a hub").expect("a name");
        assert_eq!(
            (repo.owner.as_str(), repo.name.as_str(), repo.escaped_revision().as_str()),
            ("a", "b", "refs%2Fpr%2F1")
        );
        assert_eq!(Repo::parse("hf://a/b@main").expect("of a hub").expect("a name").to_string(), "hf://a/b");
        assert_eq!(Repo::parse("/models/bert").map(drop_value), None);
    }

    fn drop_value(_: Result<Repo, ApiError>) {}

    #[test]
    fn path_traversal_and_url_syntax_are_rejected() {
        let long = format!("hf://a/{}", "b".repeat(129));
        for path in [
            "hf://",
            "hf://a",
            "hf://a/",
            "hf:///b",
            "hf://a/b/c",
            "hf://../b",
            "hf://a/..",
            "hf://a/b@",
            "hf://a/b@../c",
            "hf://a/b@x//y",
            "hf://a/b?c",
            "hf://a/b#c",
            "hf://a/b@main?x=1",
            "hf://a b/c",
            "hf://a%2F/b",
            "hf://ä/b",
            &long,
        ] {
            let error = Repo::parse(path).expect("of a hub").expect_err(path);
            assert!(error.to_string().starts_with("path: expected hf://owner/name"), "{error}");
        }
    }

    #[test]
    fn a_commit_is_forty_hexadecimal_digits() {
        assert!(is_commit(&"0a".repeat(20)));
        assert!(!is_commit("main") && !is_commit(&"0A".repeat(20)) && !is_commit(&"0".repeat(39)));
    }
}
