//! Puts the layers together and finds every mistake: each setting is tried alone on top of the defaults, so that one
//! wrong value does not hide the next.

use std::{collections::BTreeMap, fmt, path::Path, str::FromStr};

use config::{Environment, File, FileFormat, Value, ValueKind, builder::DefaultState};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned},
};

use super::{Config, bounds, memory};

type Builder = config::ConfigBuilder<DefaultState>;

/// The embedded defaults, every setting with its comment.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Read when no file is named, if it is there.
pub const DEFAULT_FILE: &str = "/etc/accelerd/config.toml";

/// What is wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The setting, as in `server.listen`.
    pub key: String,
    /// File, environment or flag it came from.
    pub origin: String,
    /// What was expected and what was got.
    pub reason: String,
}

/// Everything that is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} wrong in the settings:", self.0.len())?;
        for Mistake { key, origin, reason } in &self.0 {
            write!(f, "\n  {key} ({origin}): {reason}")?;
        }
        Ok(())
    }
}

/// The process's environment variables, as far as they are text.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Layers defaults, file, environment and flags, and checks them all.
///
/// Of the environment the variables `ACCELERD__SECTION__KEY` count. Flags are keys and values, as in `server.listen`
/// and `0.0.0.0:7433`.
pub fn load(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[(String, String)],
) -> Result<Config, Mistakes> {
    let defaults = || Builder::default().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
    let variables = environment.into_iter().collect();
    let environment = Environment::with_prefix("ACCELERD").separator("__").source(Some(variables));
    let mut said = Builder::default();
    if let Some(path) = file {
        said = said.add_source(File::from(path).format(FileFormat::Toml));
    } else {
        said = said.add_source(File::from(Path::new(DEFAULT_FILE)).format(FileFormat::Toml).required(false));
    }
    let said = said.add_source(environment).build().map_err(|e| unreadable(file, &e))?;
    let mut leaves = BTreeMap::new();
    flatten("", said.cache, &mut leaves);
    for (key, value) in flags {
        leaves.insert(key.clone(), Value::new(Some(&"flag".to_owned()), value.clone()));
    }
    let mut mistakes: Vec<_> = leaves.iter().filter_map(|(key, value)| alone(defaults(), key, value)).collect();
    leaves.retain(|key, _| mistakes.iter().all(|mistake| mistake.key != *key));
    let origins: BTreeMap<_, _> = leaves.iter().map(|(key, value)| (key.clone(), origin(value))).collect();
    let all = leaves.into_iter().try_fold(defaults(), |builder, (key, value)| builder.set_override(key, value));
    let config = all.and_then(Builder::build).and_then(config::Config::try_deserialize::<Config>);
    match config {
        Ok(mut config) => {
            config.derived = memory::resolve(&mut config);
            mistakes.extend(check(&config, &origins));
            if mistakes.is_empty() { Ok(config) } else { Err(Mistakes(mistakes)) }
        }
        Err(error) => {
            let reason = error.to_string();
            mistakes.push(Mistake { key: "settings".to_owned(), origin: "all layers".to_owned(), reason });
            Err(Mistakes(mistakes))
        }
    }
}

/// What is wrong with one setting on top of the defaults, if anything.
fn alone(defaults: Builder, key: &str, value: &Value) -> Option<Mistake> {
    let with = defaults.set_override(key, value.clone());
    let error = with.and_then(Builder::build).and_then(config::Config::try_deserialize::<Config>).err()?;
    Some(Mistake { key: key.to_owned(), origin: origin(value), reason: reason(&error, value) })
}

/// The error without the key and origin that config appends, since the report names both; but with the value.
fn reason(error: &config::ConfigError, value: &Value) -> String {
    let text = error.to_string();
    let reason = text.split(" for key `").next().unwrap_or(&text);
    let got = without_credentials(&value.to_string());
    if reason.contains(&got) || reason.starts_with("unknown field") || got.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}, got {got:?}")
    }
}

fn origin(value: &Value) -> String {
    value.origin().unwrap_or("flag").to_owned()
}

fn unreadable(file: Option<&Path>, error: &config::ConfigError) -> Mistakes {
    let key = file.unwrap_or(Path::new(DEFAULT_FILE)).display().to_string();
    Mistakes(vec![Mistake { key, origin: "file".to_owned(), reason: error.to_string() }])
}

/// The settings of a tree, one a leaf. An empty table is a leaf, so that a misspelt section does not pass.
fn flatten(prefix: &str, value: Value, leaves: &mut BTreeMap<String, Value>) {
    if let ValueKind::Table(table) = &value.kind
        && (prefix.is_empty() || !table.is_empty())
    {
        for (key, value) in table {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            flatten(&path, value.clone(), leaves);
        }
    } else {
        leaves.insert(prefix.to_owned(), value);
    }
}

/// Bounds that types do not express.
fn check(config: &Config, origins: &BTreeMap<String, String>) -> Vec<Mistake> {
    let mut mistakes = vec![];
    for (key, bound, got) in bounds::violations(config) {
        let origin = origins.get(&key).map_or("default", String::as_str).to_owned();
        mistakes.push(Mistake { key, origin, reason: format!("expected {bound}, got {got}") });
    }
    let mut expect = |holds: bool, key: &str, reason: &str| {
        if !holds {
            let origin = origins.get(key).map_or("default", String::as_str).to_owned();
            mistakes.push(Mistake { key: key.to_owned(), origin, reason: reason.to_owned() });
        }
    };
    expect(
        config.admission.max_message_memory >= config.server.max_message_bytes,
        "admission.max_message_memory",
        "expected at least server.max_message_bytes",
    );
    expect(
        is_http(&config.models.hub.endpoint),
        "models.hub.endpoint",
        "expected a URL such as https://huggingface.co",
    );
    let folders = config.store.snapshot_folders.iter().map(|url| ("store.snapshot_folders", url));
    let default = Some(("store.snapshot_url", &config.store.snapshot_url)).filter(|(_, url)| !url.is_empty());
    for (key, url) in folders.chain(default) {
        if let Err(error) = accelerd_store::check_url(&without_credentials(url)) {
            let reason = format!("expected a URL such as file:///snapshots or s3://bucket/snapshots: {error}");
            expect(false, key, &reason);
        }
    }
    expect(
        config.telemetry.otlp_endpoint.is_empty() || is_http(&config.telemetry.otlp_endpoint),
        "telemetry.otlp_endpoint",
        "expected a URL such as http://host:4317",
    );
    expect(
        crate::telemetry::filter(&config.telemetry.log_level).is_ok(),
        "telemetry.log_level",
        "expected error, warn, info, debug, trace or a filter of these",
    );
    mistakes
}

fn is_http(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// A URL without user and password.
pub(super) fn without_credentials(text: &str) -> String {
    match url::Url::parse(text) {
        Ok(mut url) if !url.username().is_empty() || url.password().is_some() => {
            let blotted = url.set_username("redacted").and_then(|()| url.set_password(None));
            if blotted.is_ok() { url.to_string() } else { "redacted".to_owned() }
        }
        _ => text.to_owned(),
    }
}

/// A list. In the environment and in flags, which are text: a list in TOML's notation, `["a", "b"]`, or its values between
/// commas.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + FromStr<Err: fmt::Display>,
{
    let parse = |part: &str| part.parse().map_err(|e| format!("{part:?}: {e}"));
    parts(from, |text| text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(parse).collect())
}

/// A list of tables. In the environment and in flags: a list in TOML's notation, `[{ name = "a" }]`.
pub(super) fn tables<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    parts(from, |text| match text.trim() {
        "" => Ok(vec![]),
        other => Err(format!("expected a list such as [{{ name = \"a\", path = \"b\" }}], got {other:?}")),
    })
}

fn parts<'de, D, T>(from: D, plain: impl FnOnce(&str) -> Result<Vec<T>, String>) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either<T> {
        Many(Vec<T>),
        Text(String),
    }
    match Either::deserialize(from)? {
        Either::Many(values) => Ok(values),
        Either::Text(text) if text.trim_start().starts_with('[') => notation(&text).map_err(de::Error::custom),
        Either::Text(text) => plain(&text).map_err(de::Error::custom),
    }
}

/// Reads a list in TOML's notation. What starts like one and is none is refused: it is no value of a list.
fn notation<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Of<T> {
        list: Vec<T>,
    }
    // On one line, so that the text cannot add settings of its own.
    let line = text.replace(['\n', '\r'], " ");
    let read = toml::from_str::<Of<T>>(&format!("list = {line}")).map(|read| read.list);
    read.map_err(|error| format!("expected a list such as [\"a\", \"b\"]: {}", error.message()))
}

#[cfg(test)]
mod tests {
    use std::{io::Write, time::Duration};

    use super::{super::ByteSize, *};

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("written");
        file
    }

    #[test]
    fn the_embedded_defaults_are_valid() {
        let config = Config::default();
        assert_eq!(config.server.listen.port(), 7433);
        assert_eq!(config.server.max_message(), 64 << 20);
        assert_eq!(config.lanes.lane(&config.lanes.cluster).concurrency, 1);
        let [encode, parse] = [&config.lanes.encode, &config.lanes.parse].map(|said| config.lanes.lane(said));
        assert_eq!(
            (encode.gpu_max_batch_bytes, parse.gpu_max_batch_bytes),
            (1 << 30, 256 << 20),
            "a lane's own, or all's"
        );
        assert_eq!(config.lanes.lane(&config.lanes.find_similar).concurrency, config.lanes.default.concurrency);
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let file = file("[server]\nmax_streams = 1\nmax_connections = 1\nreactor_threads = 1\n");
        let environment =
            environment(&[("ACCELERD__SERVER__MAX_CONNECTIONS", "2"), ("ACCELERD__SERVER__REACTOR_THREADS", "2")]);
        let flags = [("server.reactor_threads".to_owned(), "3".to_owned())];
        let server = load(Some(file.path()), environment, &flags).expect("valid").server;
        assert_eq!((server.max_streams, server.max_connections, server.reactor_threads), (1, 2, 3));
    }

    #[test]
    fn every_mistake_is_reported_with_its_key_and_origin() {
        let file = file(
            "[server]\nlisten = \"nowhere\"\nmax_steams = 4\nmax_streams = 0\n[drain]\ntimeout = 30\n[sever]\n\
             [lanes.nonsense]\nmax_wait = \"1ms\"\n[lanes.search]\nmax_batch_bytes = \"lots\"\n",
        );
        let environment = environment(&[("ACCELERD__BACKEND__KIND", "tpu"), ("ACCELERD__BACKEND__ORDINALS", "0,x")]);
        let flags = [("telemetry.log_level".to_owned(), "a=b=c".to_owned())];
        let mistakes = load(Some(file.path()), environment, &flags).expect_err("nine mistakes").0;
        let keys: Vec<_> = mistakes.iter().map(|mistake| mistake.key.as_str()).collect();
        let expected = [
            "backend.kind",
            "backend.ordinals",
            "drain.timeout",
            "lanes.nonsense.max_wait",
            "lanes.search.max_batch_bytes",
            "server.listen",
            "server.max_steams",
            "sever",
            "server.max_streams",
            "telemetry.log_level",
        ];
        assert_eq!(keys, expected, "{}", Mistakes(mistakes.clone()));
        assert!(mistakes[0].reason.contains("tpu"), "{:?}", mistakes[0]);
        assert!(mistakes[5].reason.contains("got \"nowhere\""), "{:?}", mistakes[5]);
        assert_eq!(mistakes[0].origin, "the environment");
        assert_eq!(mistakes[9].origin, "flag");
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let mistakes = load(Some(Path::new("/nonexistent/accelerd.toml")), environment(&[]), &[]).expect_err("no file");
        assert_eq!(mistakes.0[0].key, "/nonexistent/accelerd.toml");
    }

    #[test]
    fn the_environment_sets_sizes_times_and_lists() {
        let environment = environment(&[
            ("ACCELERD__SERVER__MAX_MESSAGE_BYTES", "8MiB"),
            ("ACCELERD__DRAIN__TIMEOUT", "2m"),
            ("ACCELERD__BACKEND__ORDINALS", "0, 3"),
            ("ACCELERD__LANES__EMBED__MAX_WAIT", "2ms"),
        ]);
        let config = load(None, environment, &[]).expect("valid");
        assert_eq!(config.server.max_message_bytes, ByteSize::mib(8));
        assert_eq!(config.drain.timeout, Duration::from_secs(120));
        assert_eq!(config.backend.ordinals, [0, 3]);
        assert_eq!(config.lanes.lane(&config.lanes.embed).max_wait, Duration::from_millis(2));
    }

    #[test]
    fn lists_are_read_from_flags_and_the_environment_in_toml_s_notation_too() {
        let set = |key: &str, value: &str| load(None, [], &[(key.to_owned(), value.to_owned())]);
        let folders = |value: &str| set("models.folders", value).expect(value).models.folders;
        assert_eq!(folders("[\"/a\", '/b,c']"), [Path::new("/a"), Path::new("/b,c")]);
        assert_eq!(folders("/a, /b"), [Path::new("/a"), Path::new("/b")]);
        assert_eq!(folders(" [ ] "), Vec::<std::path::PathBuf>::new());
        assert_eq!(set("backend.ordinals", "[0, 3]").expect("valid").backend.ordinals, [0, 3]);
        let urls = set("store.snapshot_folders", "['file:///a','file:///b']").expect("valid").store.snapshot_folders;
        assert_eq!(urls, ["file:///a", "file:///b"]);
        assert_eq!(set("models.hub.owners", "[\"BAAI\"]").expect("valid").models.hub.owners, ["BAAI"]);
        let preload = set("models.preload", r#"[{ name = "a", path = "/b", precision = "f32" }]"#).expect("valid");
        assert_eq!((preload.models.preload[0].name.as_str(), preload.models.preload.len()), ("a", 1));
        let variables = environment(&[("ACCELERD__MODELS__FOLDERS", "['/a']")]);
        assert_eq!(load(None, variables, &[]).expect("valid").models.folders, [Path::new("/a")]);
    }

    #[test]
    fn what_starts_like_a_list_and_is_none_is_refused() {
        for (key, value) in [
            ("models.folders", "[\"/a\""),
            ("models.folders", "[/a]"),
            ("models.folders", "[1]"),
            ("models.folders", "[\"/a\"]\nx = 1"),
            ("backend.ordinals", "[\"a\"]"),
            ("store.snapshot_folders", "[file:///a]"),
            ("models.preload", "minilm"),
            ("models.preload", "[{ name = \"a\", nonsense = 1 }]"),
        ] {
            let mistakes = load(None, [], &[(key.to_owned(), value.to_owned())]).expect_err(value).0;
            assert_eq!(mistakes[0].key, key, "{value}: {mistakes:?}");
            assert!(mistakes[0].reason.contains("expected a list"), "{value}: {mistakes:?}");
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for level in ["loud", "INFO,loud", "accelerd=loud", "info,accelerd", "", "info,,debug", "=info", "accelerd="] {
            let flags = [("telemetry.log_level".to_owned(), level.to_owned())];
            let mistakes = load(None, [], &flags).expect_err(level).0;
            assert_eq!(mistakes[0].key, "telemetry.log_level", "{level:?}");
        }
        for level in ["info", "WARN", "off", "info,accelerd::request=debug", "warn,accelerd[span{field=1}]=trace"] {
            load(None, [], &[("telemetry.log_level".to_owned(), level.to_owned())]).expect(level);
        }
    }

    #[test]
    fn settings_of_auto_become_shares_of_the_memory_and_others_stay() {
        let flags = [("store.memory_limit", "0B"), ("admission.max_bytes", "100MiB"), ("models.memory_limit", "auto")];
        let config = load(None, [], &flags.map(|(key, value)| (key.to_owned(), value.to_owned()))).expect("valid");
        let shares = memory::Shares::of(config.memory.bytes, config.server.max_message_bytes.as_u64());
        assert_eq!(config.derived, ["models.memory_limit", "admission.max_message_memory"]);
        assert_eq!(config.models.memory_limit.as_u64(), shares.models);
        assert_eq!(config.admission.max_message_memory.as_u64(), shares.messages);
        assert_eq!((config.store.memory_limit.as_u64(), config.admission.max_bytes), (0, ByteSize::mib(100)));
        let refused = load(None, [], &[("store.memory_limit".to_owned(), "lots".to_owned())]).expect_err("no size").0;
        assert!(refused[0].reason.contains("or \"auto\""), "{refused:?}");
        let refused = load(None, [], &[("store.wal_limit".to_owned(), "auto".to_owned())]).expect_err("no share").0;
        assert_eq!(refused[0].key, "store.wal_limit");
    }

    #[test]
    fn folders_for_snapshots_have_a_scheme_that_is_known_and_the_bucket_it_needs() {
        let set = |key: &str, url: &str| load(None, [], &[(key.to_owned(), url.to_owned())]);
        for key in ["store.snapshot_url", "store.snapshot_folders"] {
            for url in ["file:///snapshots", "s3://bucket", "s3://bucket/a/b", "gs://bucket/a", "az://container/a"] {
                set(key, url).unwrap_or_else(|error| panic!("{url}: {error}"));
            }
            for url in ["s4://bucket", "http://bucket/a", "memory:///", "s3:///a", "file://host/a", "snapshots", "s3"] {
                let mistakes = set(key, url).expect_err(url).0;
                assert_eq!(mistakes[0].key, key, "{url}: {mistakes:?}");
            }
        }
        let unknown = set("store.snapshot_url", "s4://bucket").expect_err("unknown").0;
        assert!(unknown[0].reason.contains("file://, s3://, gs://, az://"), "{unknown:?}");
    }

    #[test]
    fn credentials_in_urls_are_not_shown() {
        let mut config = Config::default();
        config.store.snapshot_url = "s3://key:secret@bucket/folder".to_owned();
        assert!(!config.redacted().store.snapshot_url.contains("secret"));
    }
}
