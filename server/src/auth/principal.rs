//! A principal: its identity and its rights.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{quota::Usage, role::Role};

/// A caller that the principals file names.
#[derive(Debug)]
pub struct Principal {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) collections: NamePatterns,
    pub(super) models: NamePatterns,
    pub(super) limits: Limits,
    /// Its current use of quotas, kept when the file is reloaded.
    pub(super) usage: Arc<Usage>,
}

/// Quotas of a principal; 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Limits {
    pub(super) requests_per_second: f64,
    pub(super) bytes_in_flight: u64,
    /// Host memory of the collections that it created, and memory of its resident tensors.
    pub(super) resident_bytes: u64,
}

impl Principal {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number that stays the same across reloads and restarts.
    pub fn id(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        hasher.finish()
    }
}

/// Glob patterns of names.
#[derive(Clone, Debug)]
pub(super) struct NamePatterns {
    globs: GlobSet,
    /// True if a pattern is `*`, so that nothing has to be matched.
    match_all: bool,
}

impl NamePatterns {
    /// Compiles patterns; an error names the invalid one.
    pub(super) fn new(patterns: &[String]) -> Result<Self, String> {
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            globs.add(Glob::new(pattern).map_err(|error| error.to_string())?);
        }
        let match_all = patterns.iter().any(|pattern| pattern == "*");
        Ok(Self { globs: globs.build().map_err(|error| error.to_string())?, match_all })
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        self.match_all || self.globs.is_match(name)
    }
}

/// A name in `certificate_names`: matches one subject alternative name of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CertificateName {
    /// A DNS name, in lower case.
    Dns(String),
    /// `*.` and this suffix, in lower case: any one label before the suffix.
    AnyLabel(String),
    /// A URI, such as a SPIFFE id.
    Uri(String),
}

impl CertificateName {
    /// Parses a URI (with `://`), a DNS name, or a DNS name after `*.`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("expected a URI, a DNS name or *. and a DNS name, got {text:?}");
        if text.contains("://") {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*');
            return if is_plain { Ok(Self::Uri(text.to_owned())) } else { Err(expected()) };
        }
        let lower = text.to_ascii_lowercase();
        match lower.strip_prefix("*.") {
            Some(suffix) if is_dns_name(suffix) => Ok(Self::AnyLabel(suffix.to_owned())),
            None if is_dns_name(&lower) => Ok(Self::Dns(lower)),
            Some(_) | None => Err(expected()),
        }
    }
}

fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[&str]) -> NamePatterns {
        let patterns: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        NamePatterns::new(&patterns).expect("valid patterns")
    }

    #[test]
    fn patterns_match_whole_names() {
        let some = patterns(&["pipeline-*", "shared"]);
        assert!(some.matches("pipeline-a") && some.matches("shared"));
        assert!(!some.matches("my-pipeline-a") && !some.matches("shared2") && !some.matches(""));
        assert!(patterns(&["*"]).matches("anything") && patterns(&["*"]).matches("owner/model"));
        assert!(!patterns(&[]).matches("anything"));
        assert!(NamePatterns::new(&["[".to_owned()]).is_err());
    }

    #[test]
    fn certificate_names_are_dns_names_wildcards_and_uris() {
        let parse = CertificateName::parse;
        assert_eq!(parse("Pipeline.svc"), Ok(CertificateName::Dns("pipeline.svc".into())));
        assert_eq!(parse("*.pipeline.svc"), Ok(CertificateName::AnyLabel("pipeline.svc".into())));
        assert_eq!(parse("spiffe://cluster/ns/x"), Ok(CertificateName::Uri("spiffe://cluster/ns/x".into())));
        for wrong in ["", "*", "*.", "a.*.b", "**.a", "a..b", "spiffe://cluster/*", "a b", ".a"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_id_of_a_principal_depends_only_on_its_name() {
        let principal = |name: &str, role| Principal {
            name: name.to_owned(),
            role,
            collections: patterns(&[]),
            models: patterns(&[]),
            limits: Limits::default(),
            usage: Arc::default(),
        };
        assert_eq!(principal("a", Role::Read).id(), principal("a", Role::Admin).id());
        assert_ne!(principal("a", Role::Read).id(), principal("b", Role::Read).id());
    }
}
