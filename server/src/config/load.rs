//! Puts the layers together and finds every mistake: each setting is tried alone on top of the defaults, so that one
//! wrong value does not hide the next.

use std::{collections::BTreeMap, fmt, path::Path, str::FromStr};

use config::{Environment, File, FileFormat, Value, ValueKind, builder::DefaultState};
use serde::{Deserialize, Deserializer, de};

use super::{ByteSize, Config, Lane};

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
        Ok(config) => {
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
    let server = &config.server;
    let mib = |size: ByteSize| size.as_u64();
    let mut mistakes = vec![];
    let mut expect = |holds: bool, key: &str, reason: &str| {
        if !holds {
            let origin = origins.get(key).map_or("default", String::as_str).to_owned();
            mistakes.push(Mistake { key: key.to_owned(), origin, reason: reason.to_owned() });
        }
    };
    expect(server.max_connections > 0, "server.max_connections", "expected at least 1");
    expect(server.max_streams > 0, "server.max_streams", "expected at least 1");
    expect(in_range(server.max_message_bytes, 1, 0xffff_ffff), "server.max_message_bytes", "expected 1B to 4GiB - 1");
    expect(in_range(server.frame_bytes, 16_384, 0x00ff_ffff), "server.frame_bytes", "expected 16KiB to 16MiB - 1");
    let window = "expected 65535B to 2GiB - 1";
    expect(in_range(server.stream_window_bytes, 65_535, 0x7fff_ffff), "server.stream_window_bytes", window);
    expect(in_range(server.connection_window_bytes, 65_535, 0x7fff_ffff), "server.connection_window_bytes", window);
    expect(in_range(server.max_header_bytes, 1_024, 0x00ff_ffff), "server.max_header_bytes", "expected 1KiB to 16MiB");
    expect(!server.handshake_timeout.is_zero(), "server.handshake_timeout", "expected more than 0s");
    expect(!server.keepalive_timeout.is_zero(), "server.keepalive_timeout", "expected more than 0s");
    expect(!server.stall_timeout.is_zero(), "server.stall_timeout", "expected more than 0s");
    expect(!server.stall_timeout_when_scarce.is_zero(), "server.stall_timeout_when_scarce", "expected more than 0s");
    expect(config.backend.cpu_workers > 0, "backend.cpu_workers", "expected at least 1");
    expect(config.cuda.streams > 0, "cuda.streams", "expected at least 1");
    expect(config.admission.max_items > 0, "admission.max_items", "expected at least 1");
    expect(mib(config.admission.max_bytes) > 0, "admission.max_bytes", "expected more than 0B");
    expect(
        config.admission.max_message_memory >= server.max_message_bytes,
        "admission.max_message_memory",
        "expected at least server.max_message_bytes",
    );
    lane(&config.lanes.default, &mut expect);
    for (name, said) in [
        ("embed", &config.lanes.embed),
        ("encode", &config.lanes.encode),
        ("search", &config.lanes.search),
        ("find_similar", &config.lanes.find_similar),
        ("cluster", &config.lanes.cluster),
        ("parse", &config.lanes.parse),
    ] {
        let key = |field: &str| format!("lanes.{name}.{field}");
        expect(said.max_batch_items != Some(0), &key("max_batch_items"), "expected at least 1");
        for (field, bytes) in
            [("max_batch_bytes", said.max_batch_bytes), ("gpu_max_batch_bytes", said.gpu_max_batch_bytes)]
        {
            expect(bytes.is_none_or(|x| mib(x) > 0), &key(field), "expected more than 0B");
        }
        expect(said.concurrency != Some(0), &key("concurrency"), "expected at least 1");
    }
    expect(config.limits.max_texts > 0, "limits.max_texts", "expected at least 1");
    // Token ids of one request are counted in 32 bits, and there are at most a few more of them than bytes of text.
    expect(in_range(config.limits.max_texts_bytes, 1, 1 << 31), "limits.max_texts_bytes", "expected 1B to 2GiB");
    expect(config.limits.max_sources > 0, "limits.max_sources", "expected at least 1");
    // Places in a source and in what is made of it are counted in 32 bits.
    expect(in_range(config.limits.max_source_bytes, 1, 1 << 30), "limits.max_source_bytes", "expected 1B to 1GiB");
    expect(config.limits.max_dimensions > 0, "limits.max_dimensions", "expected at least 1");
    expect(
        is_http(&config.models.hub.endpoint),
        "models.hub.endpoint",
        "expected a URL such as https://huggingface.co",
    );
    expect(!config.models.hub.timeout.is_zero(), "models.hub.timeout", "expected more than 0s");
    expect(is_url(&config.store.snapshot_url), "store.snapshot_url", "expected a URL such as file:///snapshots");
    for folder in &config.store.snapshot_folders {
        expect(
            !folder.is_empty() && is_url(folder),
            "store.snapshot_folders",
            "expected URLs such as file:///snapshots",
        );
    }
    expect(
        is_url(&config.telemetry.otlp_endpoint),
        "telemetry.otlp_endpoint",
        "expected a URL such as http://host:4317",
    );
    expect((0.0..=1.0).contains(&config.telemetry.sample_ratio), "telemetry.sample_ratio", "expected 0 to 1");
    expect(!config.telemetry.metrics_interval.is_zero(), "telemetry.metrics_interval", "expected more than 0s");
    expect(
        crate::telemetry::filter(&config.telemetry.log_level).is_ok(),
        "telemetry.log_level",
        "expected error, warn, info, debug, trace or a filter of these",
    );
    mistakes
}

fn lane(default: &Lane, expect: &mut impl FnMut(bool, &str, &str)) {
    expect(default.max_batch_items > 0, "lanes.default.max_batch_items", "expected at least 1");
    expect(default.max_batch_bytes.as_u64() > 0, "lanes.default.max_batch_bytes", "expected more than 0B");
    expect(default.gpu_max_batch_bytes.as_u64() > 0, "lanes.default.gpu_max_batch_bytes", "expected more than 0B");
    expect(default.concurrency > 0, "lanes.default.concurrency", "expected at least 1");
}

fn in_range(size: ByteSize, least: u64, most: u64) -> bool {
    (least..=most).contains(&size.as_u64())
}

fn is_url(text: &str) -> bool {
    text.is_empty() || url::Url::parse(text).is_ok()
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

/// A list, or in the environment and in flags its values between commas.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + FromStr<Err: fmt::Display>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either<T> {
        Many(Vec<T>),
        Text(String),
    }
    match Either::deserialize(from)? {
        Either::Many(values) => Ok(values),
        Either::Text(text) => text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| part.parse().map_err(|e| de::Error::custom(format!("{part:?}: {e}"))))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, time::Duration};

    use super::*;

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
    fn credentials_in_urls_are_not_shown() {
        let mut config = Config::default();
        config.store.snapshot_url = "s3://key:secret@bucket/folder".to_owned();
        assert!(!config.redacted().store.snapshot_url.contains("secret"));
    }
}
