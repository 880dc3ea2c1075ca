//! Loads settings from all layers and reports all errors: each setting is first applied alone to the defaults, so that one
//! invalid value does not hide the next.

use std::{collections::BTreeMap, fmt, path::Path};

use config::{Environment, File, FileFormat, Value, ValueKind, builder::DefaultState};

use super::{bounds, budgets, log_filter::log_filter, redact::without_credentials, settings::Config};

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

/// The process's environment variables that are valid UTF-8.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
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
    let variables = environment.into_iter().collect();
    let environment = Environment::with_prefix("ACCELERD").separator("__").source(Some(variables));
    let mut overrides = Builder::default();
    if let Some(path) = file {
        overrides = overrides.add_source(File::from(path).format(FileFormat::Toml));
    } else {
        overrides = overrides.add_source(File::from(Path::new(DEFAULT_FILE)).format(FileFormat::Toml).required(false));
    }
    let overrides = overrides.add_source(environment).build().map_err(|e| unreadable(file, &e))?;
    let mut leaves = BTreeMap::new();
    flatten("", overrides.cache, &mut leaves);
    for (key, value) in flags {
        leaves.insert(key.clone(), Value::new(Some(&"flag".to_owned()), value.clone()));
    }
    let mut errors: Vec<_> = leaves.iter().filter_map(|(key, value)| check_alone(defaults(), key, value)).collect();
    leaves.retain(|key, _| errors.iter().all(|error| error.key != *key));
    let origins: BTreeMap<_, _> = leaves.iter().map(|(key, value)| (key.clone(), origin(value))).collect();
    let all = leaves.into_iter().try_fold(defaults(), |builder, (key, value)| builder.set_override(key, value));
    let config = all.and_then(Builder::build).and_then(config::Config::try_deserialize::<Config>);
    match config {
        Ok(mut config) => {
            config.derived = budgets::resolve_auto(&mut config);
            errors.extend(check(&config, &origins));
            if errors.is_empty() { Ok(config) } else { Err(ConfigErrors(errors)) }
        }
        Err(error) => {
            let reason = error.to_string();
            errors.push(ConfigError { key: "settings".to_owned(), origin: "all layers".to_owned(), reason });
            Err(ConfigErrors(errors))
        }
    }
}

/// The error of one setting applied to the defaults, if it is invalid.
fn check_alone(defaults: Builder, key: &str, value: &Value) -> Option<ConfigError> {
    let with = defaults.set_override(key, value.clone());
    let error = with.and_then(Builder::build).and_then(config::Config::try_deserialize::<Config>).err()?;
    Some(ConfigError { key: key.to_owned(), origin: origin(value), reason: reason(&error, value) })
}

/// The error with the value, but without the key and origin that the `config` crate appends: the report has both.
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

fn unreadable(file: Option<&Path>, error: &config::ConfigError) -> ConfigErrors {
    let key = file.unwrap_or(Path::new(DEFAULT_FILE)).display().to_string();
    ConfigErrors(vec![ConfigError { key, origin: "file".to_owned(), reason: error.to_string() }])
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
fn check(config: &Config, origins: &BTreeMap<String, String>) -> Vec<ConfigError> {
    let mut errors = vec![];
    for (key, bound, got) in bounds::violations(config) {
        let origin = origins.get(&key).map_or("default", String::as_str).to_owned();
        errors.push(ConfigError { key, origin, reason: format!("expected {bound}, got {got}") });
    }
    let mut expect = |holds: bool, key: &str, reason: &str| {
        if !holds {
            let origin = origins.get(key).map_or("default", String::as_str).to_owned();
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
        log_filter(&config.telemetry.log_level).is_ok(),
        "telemetry.log_level",
        "expected off, error, warn, info, debug, trace or a filter of these",
    );
    errors
}

fn is_http(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

#[cfg(test)]
mod tests {
    use std::{io::Write, time::Duration};

    use super::{
        super::{settings::SandboxGpu, size::ByteSize},
        *,
    };

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
    fn flags_override_the_environment_which_overrides_the_file() {
        let file = file("[server]\nmax_streams = 1\nmax_connections = 1\nreactor_threads = 1\n");
        let environment =
            environment(&[("ACCELERD__SERVER__MAX_CONNECTIONS", "2"), ("ACCELERD__SERVER__REACTOR_THREADS", "2")]);
        let flags = [("server.reactor_threads".to_owned(), "3".to_owned())];
        let server = load(Some(file.path()), environment, &flags).expect("valid").server;
        assert_eq!((server.max_streams, server.max_connections, server.reactor_threads), (1, 2, 3));
    }

    #[test]
    fn every_error_is_reported_with_its_key_and_origin() {
        let file = file(
            "[server]\nlisten = \"nowhere\"\nmax_steams = 4\nmax_streams = 0\n[drain]\ntimeout = 30\n[sever]\n\
             [lanes.nonsense]\nmax_wait = \"1ms\"\n[lanes.search]\nmax_batch_bytes = \"lots\"\n",
        );
        let environment = environment(&[("ACCELERD__BACKEND__KIND", "tpu"), ("ACCELERD__BACKEND__ORDINALS", "0,x")]);
        let flags = [("telemetry.log_level".to_owned(), "a=b=c".to_owned())];
        let errors = load(Some(file.path()), environment, &flags).expect_err("nine errors").0;
        let keys: Vec<_> = errors.iter().map(|error| error.key.as_str()).collect();
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
        assert_eq!(keys, expected, "{}", ConfigErrors(errors.clone()));
        assert!(errors[0].reason.contains("tpu"), "{:?}", errors[0]);
        assert!(errors[5].reason.contains("got \"nowhere\""), "{:?}", errors[5]);
        assert_eq!(errors[0].origin, "the environment");
        assert_eq!(errors[9].origin, "flag");
    }

    #[test]
    fn a_named_file_must_exist() {
        let errors = load(Some(Path::new("/nonexistent/accelerd.toml")), environment(&[]), &[]).expect_err("no file");
        assert_eq!(errors.0[0].key, "/nonexistent/accelerd.toml");
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
    fn flags_and_the_environment_accept_toml_lists() {
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
    fn malformed_lists_are_rejected() {
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
            let errors = load(None, [], &[(key.to_owned(), value.to_owned())]).expect_err(value).0;
            assert_eq!(errors[0].key, key, "{value}: {errors:?}");
            assert!(errors[0].reason.contains("expected a list"), "{value}: {errors:?}");
        }
    }

    #[test]
    fn unknown_log_levels_are_rejected() {
        for level in ["loud", "INFO,loud", "accelerd=loud", "info,accelerd", "", "info,,debug", "=info", "accelerd="] {
            let flags = [("telemetry.log_level".to_owned(), level.to_owned())];
            let errors = load(None, [], &flags).expect_err(level).0;
            assert_eq!(errors[0].key, "telemetry.log_level", "{level:?}");
        }
        for level in ["info", "WARN", "off", "info,accelerd::request=debug", "warn,accelerd[span{field=1}]=trace"] {
            load(None, [], &[("telemetry.log_level".to_owned(), level.to_owned())]).expect(level);
        }
    }

    #[test]
    fn a_certificate_needs_its_key_and_client_certificates_need_tls() {
        let keys = |flags: &[(&str, &str)]| -> Vec<String> {
            let flags: Vec<_> = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let loaded = load(None, [], &flags);
            loaded.map_or_else(|errors| errors.0.into_iter().map(|error| error.key).collect(), |_| vec![])
        };
        let certificate = ("tls.certificate", "/c");
        let key = ("tls.private_key", "/k");
        let ca = ("tls.client_ca", "/a");
        assert_eq!(keys(&[certificate]), ["tls.private_key"]);
        assert_eq!(keys(&[key]), ["tls.certificate"]);
        assert_eq!(keys(&[ca]), ["tls.client_ca"]);
        assert!(keys(&[certificate, key, ca]).is_empty());
    }

    #[test]
    fn reflection_is_off_with_principals_unless_it_is_set() {
        let set = |flags: &[(&str, &str)]| {
            let flags: Vec<_> = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            load(None, [], &flags).map(|config| config.serves_reflection()).map_err(|errors| errors.0[0].key.clone())
        };
        let principals = ("auth.principals", "/p");
        assert_eq!(set(&[]), Ok(true));
        assert_eq!(set(&[principals]), Ok(false));
        assert_eq!(set(&[principals, ("server.reflection", "true")]), Ok(true));
        assert_eq!(set(&[("server.reflection", "false")]), Ok(false));
        assert_eq!(set(&[("server.reflection", "maybe")]), Err("server.reflection".to_owned()));
        let file = file("[server]\nreflection = false\n");
        assert!(!load(Some(file.path()), [], &[]).expect("a bool is valid").serves_reflection());
    }

    #[test]
    fn auto_settings_are_derived_from_the_memory() {
        let flags = [("store.memory_limit", "0B"), ("admission.max_bytes", "100MiB"), ("models.memory_limit", "auto")];
        let config = load(None, [], &flags.map(|(key, value)| (key.to_owned(), value.to_owned()))).expect("valid");
        let budgets = budgets::Budgets::of(config.process_memory.bytes, config.server.max_message_bytes.as_u64());
        let derived = [
            "memory.reserve",
            "memory.host_limit",
            "models.memory_limit",
            "tensors.memory_limit",
            "admission.max_message_memory",
            "sandbox.processes",
            "sandbox.memory",
            "sandbox.case_memory",
        ];
        assert_eq!(config.derived, derived);
        assert_eq!(config.memory.host_limit.as_u64(), budgets.host_limit);
        assert_eq!(config.models.memory_limit.as_u64(), budgets.data);
        assert_eq!(config.admission.max_message_memory.as_u64(), budgets.messages);
        assert_eq!((config.store.memory_limit.as_u64(), config.admission.max_bytes), (0, ByteSize::mib(100)));
        let refused = load(None, [], &[("store.memory_limit".to_owned(), "lots".to_owned())]).expect_err("no size").0;
        assert!(refused[0].reason.contains("or \"auto\""), "{refused:?}");
        let set = |key: &str, value: &str| load(None, [], &[(key.to_owned(), value.to_owned())]);
        let smaller = set("memory.host_limit", "1GiB").expect("valid");
        assert_eq!(smaller.models.memory_limit.as_u64(), (1 << 30) - 2 * budgets::guarantee(1 << 30));
        let less = set("memory.reserve", "1MiB").expect("valid").memory.host_limit.as_u64();
        assert_eq!(less, config.process_memory.bytes - (1 << 20));
        assert_eq!(set("memory.reserve", "64TiB").expect_err("more than there is").0[0].key, "memory.reserve");
        let refused = load(None, [], &[("store.wal_limit".to_owned(), "auto".to_owned())]).expect_err("no share").0;
        assert_eq!(refused[0].key, "store.wal_limit");
    }

    #[test]
    fn processes_of_the_sandbox_share_a_quarter_of_the_memory() {
        let set = |pairs: &[(&str, &str)]| {
            let flags: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            load(None, [], &flags).map(|config| config.sandbox)
        };
        let sizes = |host_limit: &str, processes: &str| {
            let sandbox = set(&[("memory.host_limit", host_limit), ("sandbox.processes", processes)]).expect("valid");
            (sandbox.processes, sandbox.memory, sandbox.case_memory)
        };
        let mib = ByteSize::mib;
        assert_eq!(sizes("64GiB", "4"), (4, mib(1024), mib(256)));
        assert_eq!(sizes("4GiB", "4"), (4, mib(256), mib(128)));
        assert_eq!(sizes("100MiB", "4"), (4, mib(64), mib(32)));
        assert_eq!(sizes("64GiB", "0"), (0, mib(1024), mib(256)));
        let auto = set(&[("sandbox.processes", "auto")]).expect("valid").processes;
        assert!((1..=256).contains(&auto), "{auto}");
        let refused = |pairs: &[(&str, &str)]| set(pairs).expect_err("refused").0.remove(0);
        let more = [("sandbox.memory", "64MiB"), ("sandbox.case_memory", "64MiB")];
        assert_eq!(refused(&more).key, "sandbox.case_memory");
        assert!(refused(&[("sandbox.processes", "many")]).reason.contains("expected a number or \"auto\""));
    }

    #[test]
    fn kernels_run_on_the_daemons_gpus_on_another_one_or_on_none() {
        let set = |value: &str| load(None, [], &[("sandbox.gpu".to_owned(), value.to_owned())]);
        let gpu = |value: &str| set(value).expect("valid").sandbox.gpu;
        let expected = [SandboxGpu::Auto, SandboxGpu::Off, SandboxGpu::Ordinal(3)];
        assert_eq!(["auto", "off", "3"].map(gpu), expected);
        let refused = set("some").expect_err("refused").0.remove(0);
        assert!(refused.reason.contains("the number of a GPU"), "{refused:?}");
    }

    #[test]
    fn snapshot_folders_need_a_known_scheme_and_its_bucket() {
        let set = |key: &str, url: &str| load(None, [], &[(key.to_owned(), url.to_owned())]);
        for key in ["store.snapshot_url", "store.snapshot_folders"] {
            for url in ["file:///snapshots", "s3://bucket", "s3://bucket/a/b", "gs://bucket/a", "az://container/a"] {
                set(key, url).unwrap_or_else(|error| panic!("{url}: {error}"));
            }
            for url in ["s4://bucket", "http://bucket/a", "memory:///", "s3:///a", "file://host/a", "snapshots", "s3"] {
                let errors = set(key, url).expect_err(url).0;
                assert_eq!(errors[0].key, key, "{url}: {errors:?}");
            }
        }
        let unknown = set("store.snapshot_url", "s4://bucket").expect_err("unknown").0;
        assert!(unknown[0].reason.contains("file://, s3://, gs://, az://"), "{unknown:?}");
    }
}
