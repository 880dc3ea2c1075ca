//! Loads settings from all layers and reports all errors: each setting is first applied alone to the defaults, so that one
//! invalid value does not hide the next.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    net::SocketAddr,
    path::Path,
};

use config::{Environment, File, FileFormat, Value, ValueKind, builder::DefaultState};

use super::{
    bounds, budgets,
    log_filter::log_filter,
    names,
    redact::without_credentials,
    settings::Config,
    variables,
    written::{self, ENVIRONMENT, FLAG},
};

type Builder = config::ConfigBuilder<DefaultState>;

/// The embedded defaults with the documentation of every setting.
pub const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Settings file that is read if none is named and it exists.
pub const DEFAULT_FILE: &str = "/etc/accelerd/config.toml";

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The setting, as in `server.listen`.
    pub key: String,
    /// The layer that set it: file, environment or flag.
    pub origin: String,
    /// Expected and actual value.
    pub reason: String,
}

/// All invalid settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "{count} invalid {}:", if count == 1 { "setting" } else { "settings" })?;
        for ConfigError { key, origin, reason } in &self.0 {
            let key = if key.is_empty() { "\"\"" } else { key };
            write!(f, "\n  {key} ({origin}): {reason}")?;
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        load(None, [], &[]).expect("the embedded defaults are valid")
    }
}

/// Loads the settings of this process: as [`load`], with its environment. A variable that is not UTF-8 is an error.
pub fn load_of_process(file: Option<&Path>, flags: &[(String, String)]) -> Result<Config, ConfigErrors> {
    let mut errors: Vec<_> = variables::unreadable(std::env::vars_os()).into_iter().map(of_variable).collect();
    match load(file, variables::environment(), flags) {
        Ok(config) if errors.is_empty() => Ok(config),
        Ok(_) => Err(ConfigErrors(errors)),
        Err(others) => {
            errors.extend(others.0);
            Err(ConfigErrors(errors))
        }
    }
}

/// Loads and validates settings from defaults, file, environment and flags, the later overriding the earlier.
///
/// Environment variables are named `ACCELERD__SECTION__KEY`. Flags are pairs such as `server.listen` and `0.0.0.0:7433`.
pub fn load(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &[(String, String)],
) -> Result<Config, ConfigErrors> {
    let defaults = || Builder::default().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
    let known = leaves(defaults(), "default").expect("the embedded defaults are TOML");
    let variables: HashMap<_, _> = environment.into_iter().collect();
    let names: BTreeSet<_> = known.keys().cloned().collect();
    let ordered: BTreeSet<_> = variables.keys().map(String::as_str).collect();
    let mut errors: Vec<_> = variables::misspelt(ordered, &names).into_iter().map(of_variable).collect();
    let mut leaves = of_file(file)?;
    leaves.extend(of_environment(variables));
    // They are reported by the names of their variables.
    leaves.retain(|key, _| errors.iter().all(|error| !is_variable_of(&error.key, key)));
    for (key, value) in flags {
        leaves.insert(key.clone(), Value::new(Some(&FLAG.to_owned()), value.clone()));
    }
    errors.extend(leaves.iter().filter_map(|(key, value)| check_alone(defaults(), &known, key, value)));
    leaves.retain(|key, _| errors.iter().all(|error| error.key != *key));
    let written = leaves.clone();
    let all = leaves.into_iter().try_fold(defaults(), |builder, (key, value)| builder.set_override(key, value));
    let config = all.and_then(Builder::build).and_then(config::Config::try_deserialize::<Config>);
    match config {
        Ok(mut config) => {
            config.derived = budgets::resolve_auto(&mut config);
            errors.extend(check(&config, &written));
            if errors.is_empty() { Ok(config) } else { Err(ConfigErrors(errors)) }
        }
        Err(error) => {
            let reason = error.to_string();
            errors.push(ConfigError { key: "settings".to_owned(), origin: "all layers".to_owned(), reason });
            Err(ConfigErrors(errors))
        }
    }
}

fn of_variable((key, reason): (String, String)) -> ConfigError {
    ConfigError { key, origin: ENVIRONMENT.to_owned(), reason }
}

type Leaves = BTreeMap<String, Value>;

/// The settings of a source by key.
fn leaves(source: Builder, origin: &str) -> Result<Leaves, config::ConfigError> {
    let mut found = Leaves::new();
    flatten("", source.build()?.cache, &mut found);
    Ok(found.into_iter().map(|(key, value)| (key, Value::new(Some(&origin.to_owned()), value.kind))).collect())
}

/// The settings of a file; none if it is the default one and does not exist.
fn of_file(file: Option<&Path>) -> Result<Leaves, ConfigErrors> {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    let refused = |reason: String| {
        let key = path.display().to_string();
        ConfigErrors(vec![ConfigError { key, origin: "file".to_owned(), reason }])
    };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => return Ok(Leaves::new()),
        Err(error) => return Err(refused(error.to_string())),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let line = valid.matches('\n').count() + 1;
        refused(format!("expected UTF-8, got other bytes in line {line}"))
    })?;
    let source = Builder::default().add_source(File::from_str(&text, FileFormat::Toml));
    leaves(source, &path.display().to_string()).map_err(|error| refused(error.to_string()))
}

fn of_environment(variables: HashMap<String, String>) -> Leaves {
    let source = Environment::with_prefix("ACCELERD").separator("__").source(Some(variables));
    leaves(Builder::default().add_source(source), ENVIRONMENT).expect("the environment is text")
}

/// Returns true if a variable sets a key.
fn is_variable_of(variable: &str, key: &str) -> bool {
    let name = variable.to_ascii_lowercase();
    name.strip_prefix("accelerd__").is_some_and(|path| path.replace("__", ".") == key)
}

/// The error of one setting applied to the defaults, if it is invalid.
fn check_alone(defaults: Builder, known: &Leaves, key: &str, value: &Value) -> Option<ConfigError> {
    let refused = |reason: String| Some(ConfigError { key: key.to_owned(), origin: origin(value), reason });
    if let Some(reason) = names::misnamed(known, key) {
        return refused(reason);
    }
    let with = defaults.set_override(key, value.clone());
    let error = with.and_then(Builder::build).and_then(config::Config::try_deserialize::<Config>).err();
    let error = error.map(|error| error.to_string());
    let is_table = matches!(value.kind, ValueKind::Table(_));
    let mismatch = match names::default_of(known, key) {
        Some(default) => written::mismatch(&default.kind, &value.kind),
        None if is_table => None,
        None => names::expected_table(known, key),
    };
    // The errors that the settings raise themselves say more than that the kind is another one.
    let own = error.as_deref().filter(|text| text.starts_with("expected ") || mismatch.is_none());
    let expected = own.map(written::expected).or(mismatch)?;
    let is_unknown = expected.starts_with("unknown field");
    refused(if is_unknown { expected } else { format!("{expected}, got {}", written::shown(value)) })
}

fn origin(value: &Value) -> String {
    value.origin().unwrap_or(FLAG).to_owned()
}

/// Collects the leaves of a tree by key. An empty table is a leaf, so that an empty unknown section is an error.
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

/// Checks constraints that types do not express.
fn check(config: &Config, written: &Leaves) -> Vec<ConfigError> {
    let mut errors = vec![];
    let origin = |key: &str| written.get(key).map_or_else(|| "default".to_owned(), origin);
    for (key, bound, got) in bounds::violations(config) {
        let got = written.get(&key).map_or(got, written::shown);
        errors.push(ConfigError { origin: origin(&key), key, reason: format!("expected {bound}, got {got}") });
    }
    let mut expect = |holds: bool, key: &str, reason: &str| {
        if !holds {
            let origin = origin(key);
            errors.push(ConfigError { key: key.to_owned(), origin, reason: reason.to_owned() });
        }
    };
    expect(
        config.memory.reserve.as_u64() < config.process_memory.bytes || !config.derived.contains(&"memory.host_limit"),
        "memory.reserve",
        &format!("expected less than the process's memory: {}", config.process_memory),
    );
    expect(
        config.admission.max_message_memory >= config.server.max_message_bytes,
        "admission.max_message_memory",
        "expected at least server.max_message_bytes",
    );
    expect(
        config.tensors.default_ttl <= config.tensors.max_ttl,
        "tensors.default_ttl",
        "expected at most tensors.max_ttl",
    );
    expect(
        config.sandbox.case_memory < config.sandbox.memory,
        "sandbox.case_memory",
        "expected less than sandbox.memory: a process needs memory for more than one instance",
    );
    for (key, reason) in shared_addresses(config) {
        expect(false, key, &reason);
    }
    let is_set = |path: &Path| !path.as_os_str().is_empty();
    let tls = &config.tls;
    expect(
        tls.is_on() || !is_set(&tls.private_key),
        "tls.certificate",
        "expected a file, because tls.private_key is set",
    );
    expect(
        is_set(&tls.private_key) || !tls.is_on(),
        "tls.private_key",
        "expected a file, because tls.certificate is set",
    );
    expect(
        tls.is_on() || !is_set(&tls.client_ca),
        "tls.client_ca",
        "expected no file without tls.certificate: client certificates need TLS",
    );
    expect(
        is_http(&config.models.hub.endpoint),
        "models.hub.endpoint",
        "expected a URL such as https://huggingface.co",
    );
    let folders = config.store.snapshot_folders.iter().map(|url| ("store.snapshot_folders", url));
    let default = Some(("store.snapshot_url", &config.store.snapshot_url)).filter(|(_, url)| !url.is_empty());
    for (key, url) in folders.chain(default) {
        if let Err(error) = accelerd_store::parse_url(&without_credentials(url)) {
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
        log_filter(&config.telemetry.log_level).is_ok(),
        "telemetry.log_level",
        "expected off, error, warn, info, debug, trace or a filter of these",
    );
    errors
}

/// The listeners whose address is that of another one. Port 0 is a free one each time.
fn shared_addresses(Config { server, http, .. }: &Config) -> Vec<(&'static str, String)> {
    let http = http.listen.address().map(|address| ("http.listen", address));
    let listeners = [
        ("server.listen", server.listen),
        ("server.admin_listen", server.admin_listen),
        ("server.health_listen", server.health_listen),
    ];
    let listeners: Vec<_> = listeners.into_iter().chain(http).collect();
    let shared = listeners.iter().enumerate().filter_map(|(nth, (key, address))| {
        let (other, of_other) = listeners[..nth].iter().find(|(_, other)| overlap(*address, *other))?;
        Some((*key, format!("expected another address than that of {other}, {of_other}, got {address}")))
    });
    shared.collect()
}

/// Returns true if two listeners cannot have these addresses. An unspecified IP address includes all of its family.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let [a, b] = [one, other].map(|address| address.ip().to_canonical());
    let includes = a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified());
    one.port() != 0 && one.port() == other.port() && (a == b || includes)
}

fn is_http(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

#[cfg(test)]
mod tests;
