//! The principals file: who may call, by which credentials, and within which limits.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt,
    sync::Arc,
};

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{
    principal::{CertificateName, Limits, NamePatterns, Principal},
    role::Role,
    token::TokenHash,
};
use crate::{config::ByteSize, peer::CertificateNames};

/// The key of the file's tables.
const PRINCIPAL: &str = "principal";

/// The name in logs of callers without credentials, which no principal may have.
pub(super) const ANONYMOUS: &str = "anonymous";

/// The principals by their credentials.
#[derive(Debug, Default)]
pub struct Principals {
    names: HashMap<String, Arc<Principal>>,
    tokens: HashMap<TokenHash, Arc<Principal>>,
    certificates: HashMap<CertificateName, Arc<Principal>>,
}

/// All mistakes in a principals file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PrincipalsError(pub Vec<String>);

impl fmt::Display for PrincipalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "{count} {}:", if count == 1 { "mistake" } else { "mistakes" })?;
        self.0.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
    }
}

/// A certificate's names belong to several principals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ambiguous;

impl Principals {
    /// Parses a file. A principal that `previous` has too keeps what it uses of its quotas.
    pub fn parse(text: &str, previous: Option<&Self>) -> Result<Self, PrincipalsError> {
        let mut table: Table =
            toml::from_str(text).map_err(|error| PrincipalsError(vec![syntax_error(text, &error)]))?;
        let mut mistakes = vec![];
        let entries = match table.remove(PRINCIPAL) {
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                mistakes.push(format!("expected tables [[{PRINCIPAL}]]"));
                vec![]
            }
            None => vec![],
        };
        mistakes.extend(table.keys().map(|key| format!("unknown key {key:?}: expected tables [[{PRINCIPAL}]]")));
        let mut principals = Self::default();
        for (nth, entry) in entries.into_iter().enumerate() {
            if let Value::Table(table) = entry {
                principals.add(Entry::new(nth, table), previous, &mut mistakes);
            } else {
                mistakes.push(format!("expected tables [[{PRINCIPAL}]]"));
            }
        }
        if mistakes.is_empty() { Ok(principals) } else { Err(PrincipalsError(mistakes)) }
    }

    fn add(&mut self, mut entry: Entry, previous: Option<&Self>, mistakes: &mut Vec<String>) {
        let name = entry.name();
        let tokens = entry.tokens();
        let certificate_names = entry.certificate_names();
        if entry.mistakes.is_empty() && tokens.is_empty() && certificate_names.is_empty() {
            entry.mistake("expected tokens or certificate_names: it has no credentials");
        }
        let kept = previous.and_then(|previous| previous.names.get(&name));
        let principal = Arc::new(Principal {
            role: entry.role(),
            collections: entry.patterns("collections"),
            models: entry.patterns("models"),
            limits: Limits {
                requests_per_second: entry.rate("requests_per_second"),
                bytes_in_flight: entry.size("bytes_in_flight"),
                resident_bytes: entry.size("resident_bytes"),
            },
            usage: kept.map_or_else(Arc::default, |kept| Arc::clone(&kept.usage)),
            name,
        });
        entry.reject_unknown_keys();
        for token in tokens {
            if self.tokens.insert(token, Arc::clone(&principal)).is_some() {
                entry.mistake("tokens: expected tokens of its own, got one that is listed before");
            }
        }
        for name in certificate_names {
            if let Some(other) = self.certificates.insert(name, Arc::clone(&principal)) {
                let owner = &other.name;
                entry.mistake(&format!("certificate_names: expected names of its own, got one of principal {owner:?}"));
            }
        }
        if let Some(other) = self.names.insert(principal.name.clone(), principal) {
            entry.mistake(&format!("name: expected a unique name, got {:?} twice", other.name));
        }
        mistakes.extend(entry.mistakes);
    }

    /// Returns true if a principal has a token.
    pub fn have_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// The quota of a principal's collections; 0 means no limit.
    pub(super) fn resident_limit(&self, name: &str) -> Option<u64> {
        self.names.get(name).map(|principal| principal.limits.resident_bytes)
    }

    /// The principal of a token.
    pub(super) fn of_token(&self, token: TokenHash) -> Option<&Arc<Principal>> {
        self.tokens.get(&token)
    }

    /// The principal of a certificate: the one that lists one of its names. An exact name takes precedence over a
    /// wildcard that matches the same name.
    pub(super) fn of_certificate(&self, names: &CertificateNames) -> Result<Option<&Arc<Principal>>, Ambiguous> {
        let dns = names.dns.iter().filter_map(|name| self.of_dns_name(name));
        let uris = names.uris.iter().filter_map(|uri| self.certificates.get(&CertificateName::Uri(uri.clone())));
        let mut found = dns.chain(uris);
        let first = found.next();
        match first {
            Some(first) if found.any(|other| !Arc::ptr_eq(first, other)) => Err(Ambiguous),
            first => Ok(first),
        }
    }

    fn of_dns_name(&self, name: &str) -> Option<&Arc<Principal>> {
        let name = name.to_ascii_lowercase();
        let exact = self.certificates.get(&CertificateName::Dns(name.clone()));
        // A certificate for `*.svc` is not one for every name that a principal's `*.svc` stands for.
        let suffix = || name.split_once('.').filter(|(label, _)| *label != "*").map(|(_, suffix)| suffix.to_owned());
        exact.or_else(|| self.certificates.get(&CertificateName::AnyLabel(suffix()?)))
    }
}

/// Where the syntax of a file is wrong. The text there is not repeated: it may hold a token.
fn syntax_error(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.split('\n').count();
    format!("line {line} is not valid TOML, or a key is set twice")
}

/// One table of the file, and the mistakes in it.
struct Entry {
    /// As mistakes name it.
    label: String,
    table: Table,
    mistakes: Vec<String>,
}

impl Entry {
    fn new(nth: usize, table: Table) -> Self {
        let label = match table.get("name").and_then(Value::as_str) {
            Some(name) => format!("principal {name:?}"),
            None => format!("principal {}", nth + 1),
        };
        Self { label, table, mistakes: vec![] }
    }

    fn mistake(&mut self, mistake: &str) {
        self.mistakes.push(format!("{}: {mistake}", self.label));
    }

    /// Takes a key; a value of another type is a mistake. The value is not repeated: it may be a token.
    fn take<T: DeserializeOwned>(&mut self, key: &str, expected: &str) -> Option<T> {
        let value = self.table.remove(key)?;
        let value = value.try_into().ok();
        if value.is_none() {
            self.mistake(&format!("{key}: expected {expected}"));
        }
        value
    }

    fn name(&mut self) -> String {
        let is_given = self.table.contains_key("name");
        let name: String = self.take("name", "text").unwrap_or_default();
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@/:".contains(&byte));
        if !is_given || name.is_empty() || name.len() > 128 || !is_plain(&name) {
            self.mistake("name: expected 1 to 128 letters, digits and characters of ._-@/:");
        } else if name == ANONYMOUS {
            self.mistake("name: \"anonymous\" is reserved for callers without credentials");
        }
        name
    }

    fn tokens(&mut self) -> Vec<TokenHash> {
        let texts: Vec<String> = self.take("tokens", "a list of hashes").unwrap_or_default();
        let mut tokens = vec![];
        for (nth, text) in texts.iter().enumerate() {
            match text.parse() {
                Ok(hash) => tokens.push(hash),
                Err(error) => self.mistake(&format!("tokens[{nth}]: {error}")),
            }
        }
        tokens
    }

    fn certificate_names(&mut self) -> HashSet<CertificateName> {
        let texts: Vec<String> = self.take("certificate_names", "a list of names").unwrap_or_default();
        let mut names = HashSet::new();
        for (nth, text) in texts.iter().enumerate() {
            match CertificateName::parse(text) {
                Ok(name) => _ = names.insert(name),
                Err(error) => self.mistake(&format!("certificate_names[{nth}]: {error}")),
            }
        }
        names
    }

    fn role(&mut self) -> Role {
        const EXPECTED: &str = "\"read\", \"write\" or \"admin\"";
        if !self.table.contains_key("role") {
            self.mistake(&format!("role: expected {EXPECTED}, got none"));
        }
        let Some(name) = self.take::<String>("role", EXPECTED) else { return Role::Read };
        let role = Role::ALL.into_iter().find(|role| role.name() == name);
        if role.is_none() {
            self.mistake(&format!("role: expected {EXPECTED}"));
        }
        role.unwrap_or(Role::Read)
    }

    fn patterns(&mut self, key: &str) -> NamePatterns {
        let patterns: Vec<String> = self.take(key, "a list of patterns").unwrap_or_else(|| vec!["*".to_owned()]);
        let compiled = NamePatterns::new(&patterns);
        compiled.unwrap_or_else(|error| {
            self.mistake(&format!("{key}: {error}"));
            NamePatterns::new(&[]).expect("no pattern is invalid")
        })
    }

    fn rate(&mut self, key: &str) -> f64 {
        let value: f64 = self.take(key, "a number").unwrap_or_default();
        if !(0.0..=1e9).contains(&value) {
            self.mistake(&format!("{key}: expected 0 to 1000000000, got {value}"));
        }
        value
    }

    fn size(&mut self, key: &str) -> u64 {
        let Some(text) = self.take::<String>(key, "a size such as \"64MiB\"") else { return 0 };
        text.parse::<ByteSize>().map_or_else(
            |error| {
                self.mistake(&format!("{key}: {error}"));
                0
            },
            ByteSize::as_u64,
        )
    }

    fn reject_unknown_keys(&mut self) {
        let unknown: BTreeSet<_> = self.table.keys().cloned().collect();
        for key in unknown {
            self.mistake(&format!("unknown key {key:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::token::Token;

    fn parse(text: &str) -> Principals {
        Principals::parse(text, None).unwrap_or_else(|error| panic!("{error}"))
    }

    fn mistakes(text: &str) -> Vec<String> {
        Principals::parse(text, None).expect_err("mistakes").0
    }

    fn certificate(dns: &[&str], uris: &[&str]) -> CertificateNames {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        CertificateNames { dns: owned(dns), uris: owned(uris) }
    }

    #[test]
    fn a_principal_is_found_by_each_of_its_tokens() {
        let [one, two] = [(); 2].map(|()| Token::random().expect("random bytes").hash());
        let found = parse(&format!(
            "[[principal]]\nname = \"a\"\nrole = \"write\"\ntokens = [\"{one}\", \"{two}\"]\nrequests_per_second = 5\n\
             bytes_in_flight = \"1MiB\"\nresident_bytes = \"2MiB\"\ncollections = [\"a-*\"]\n"
        ));
        for token in [one, two] {
            let principal = found.of_token(token).expect("known");
            assert_eq!((principal.name.as_str(), principal.role), ("a", Role::Write));
            let limits = Limits { requests_per_second: 5.0, bytes_in_flight: 1 << 20, resident_bytes: 2 << 20 };
            assert_eq!(principal.limits, limits);
            assert!(principal.collections.matches("a-1") && !principal.collections.matches("b"));
            assert!(principal.models.matches("any"));
        }
        assert!(found.have_tokens());
        assert!(found.of_token(TokenHash::of(b"guess")).is_none());
    }

    #[test]
    fn a_certificate_is_matched_by_its_exact_name_then_by_one_leading_label() {
        let found = parse(
            "[[principal]]\nname = \"exact\"\nrole = \"read\"\ncertificate_names = [\"x.svc\", \"spiffe://c/x\"]\n\
             [[principal]]\nname = \"wild\"\nrole = \"read\"\ncertificate_names = [\"*.svc\"]\n",
        );
        let name = |names: CertificateNames| found.of_certificate(&names).map(|one| one.map(|one| one.name.clone()));
        assert_eq!(name(certificate(&["X.svc"], &[])), Ok(Some("exact".into())));
        assert_eq!(name(certificate(&["y.svc"], &[])), Ok(Some("wild".into())));
        assert_eq!(name(certificate(&[], &["spiffe://c/x"])), Ok(Some("exact".into())));
        for none in [certificate(&["a.b.svc", "svc", "*.svc", "x.svc.evil"], &["spiffe://c/y"]), certificate(&[], &[])]
        {
            assert_eq!(name(none), Ok(None));
        }
        assert_eq!(name(certificate(&["x.svc", "y.svc"], &[])), Err(Ambiguous));
    }

    #[test]
    fn all_mistakes_are_reported_at_once_and_name_their_principal() {
        let hash = TokenHash::of(b"x");
        let found = mistakes(&format!(
            "other = 1\n[[principal]]\nname = \"a\"\nrole = \"owner\"\ntokens = [\"{hash}\"]\ncolour = \"red\"\n\
             requests_per_second = -1\nbytes_in_flight = \"lots\"\nmodels = [\"[\"]\n\
             [[principal]]\nname = \"a\"\nrole = \"read\"\ntokens = [\"{hash}\"]\n\
             [[principal]]\nrole = \"read\"\ncertificate_names = [\"a.*.b\"]\n\
             [[principal]]\nname = \"anonymous\"\n"
        ));
        let expected = [
            "unknown key \"other\"",
            "principal \"a\": role: expected",
            "principal \"a\": models:",
            "principal \"a\": requests_per_second: expected 0 to",
            "principal \"a\": bytes_in_flight: expected a size",
            "principal \"a\": unknown key \"colour\"",
            "principal \"a\": tokens: expected tokens of its own",
            "principal \"a\": name: expected a unique name",
            "principal 3: name: expected",
            "principal 3: certificate_names[0]: expected",
            "principal \"anonymous\": name: \"anonymous\" is reserved",
            "principal \"anonymous\": role: expected",
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (mistake, start) in found.iter().zip(expected) {
            assert!(mistake.starts_with(start), "{mistake} does not start with {start}");
        }
        assert!(mistakes("[[principal]]\nname = \"a\"\nrole = \"read\"\n")[0].contains("no credentials"));
    }

    #[test]
    fn a_token_in_place_of_its_hash_is_not_repeated() {
        let token = Token::random().expect("random bytes");
        let token = token.reveal();
        for text in [
            format!("[[principal]]\nname = \"a\"\nrole = \"read\"\ntokens = [\"{token}\"]\n"),
            format!("[[principal]]\nname = \"a\"\nrole = \"read\"\ntokens = \"{token}\"\n"),
            format!("[[principal]]\nname = \"a\"\nrole = \"{token}\"\ntokens = []\n"),
            format!("[[principal]]\nname = \"a\"\nrole = \"read\"\ntokens = [\"{token}\n"),
            format!("[[principal]]\nname = \"a\"\nbytes_in_flight = 3\nrequests_per_second = \"{token}\"\n"),
        ] {
            let error = Principals::parse(&text, None).expect_err("a mistake");
            assert!(!format!("{error} {error:?}").contains(token), "{error}");
        }
    }

    #[test]
    fn usage_of_quotas_survives_a_reload() {
        let text = "[[principal]]\nname = \"a\"\nrole = \"read\"\ncertificate_names = [\"a\"]\n";
        let old = parse(text);
        let new = Principals::parse(text, Some(&old)).expect("valid");
        assert!(Arc::ptr_eq(&old.names["a"].usage, &new.names["a"].usage));
    }
}
