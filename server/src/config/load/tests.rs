//! Settings from all layers, and the errors of invalid ones.

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
    assert_eq!((encode.gpu_max_batch_bytes, parse.gpu_max_batch_bytes), (1 << 30, 256 << 20), "a lane's own, or all's");
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
fn enumerated_settings_list_their_values() {
    let values = [
        ("backend.kind", "auto, cpu, cuda"),
        ("tls.client_certificates", "required, optional"),
        ("auth.anonymous", "none, read, write, admin"),
        ("cuda.restart", "auto, always, never"),
        ("models.hub.allow", "off, preload, callers"),
        ("store.fsync", "always, never"),
        ("telemetry.log_format", "auto, json, human"),
    ];
    for (key, expected) in values {
        let errors = load(None, [], &[(key.to_owned(), "gpu".to_owned())]).expect_err(key).0;
        assert_eq!(errors[0].reason, format!("expected one of {expected}, got \"gpu\""), "{key}");
        for value in expected.split(", ") {
            let loaded = load(None, [], &[(key.to_owned(), value.to_owned())]);
            let own = |errors: ConfigErrors| errors.0.into_iter().find(|error| error.key == key);
            assert_eq!(loaded.err().and_then(own), None, "{key} = {value}");
        }
    }
}

#[test]
fn values_are_shown_as_they_were_written() {
    let file = file(
        "[auth]\ninsecure = \"yes\"\n[drain]\nendpoint_delay = \"90days\"\ntimeout = 30\n[lanes.search]\n\
         concurrency = 1.6\n[models.hub]\noffline = 1\n[server]\nmax_message_bytes = \"5120MiB\"\nmax_streams = -1\n\
         [store]\ndata_dir = 5\nfsync = 1\n[backend]\nordinals = [0, 1.5]\n",
    );
    let errors = load(Some(file.path()), [], &[]).expect_err("ten errors").0;
    let shown: Vec<_> = errors.iter().map(|error| (error.key.as_str(), error.reason.as_str())).collect();
    let whole = |got: &str| format!("expected a whole number of at least 0, got {got}");
    let [fraction, negative, list] = ["1.6", "-1", "[0, 1.5]"].map(whole);
    let expected = [
        ("auth.insecure", "expected true or false, got \"yes\""),
        ("backend.ordinals", list.as_str()),
        ("drain.timeout", "expected text such as \"30s\", got 30"),
        ("lanes.search.concurrency", fraction.as_str()),
        ("models.hub.offline", "expected true or false, got 1"),
        ("server.max_streams", negative.as_str()),
        ("store.data_dir", "expected text, got 5"),
        ("store.fsync", "expected one of always, never, got 1"),
        ("drain.endpoint_delay", "expected 0s to 1day, got \"90days\""),
        ("server.max_message_bytes", "expected 1B to 4294967295B, got \"5120MiB\""),
    ];
    assert_eq!(shown, expected);
    assert!(errors.iter().all(|error| Path::new(&error.origin) == file.path()), "{errors:?}");
    let flags = [("backend.cpu_workers", "0"), ("auth.insecure", "1"), ("server.listen", "localhost:1")];
    let errors = load(None, [], &flags.map(|(key, value)| (key.to_owned(), value.to_owned()))).expect_err("three").0;
    let reasons: Vec<_> = errors.iter().map(|error| error.reason.as_str()).collect();
    let address = "expected an address such as 127.0.0.1:7433, got \"localhost:1\"";
    assert_eq!(reasons, ["expected true or false, got 1", address, "expected 1 to 256, got 0"]);
}

#[test]
fn a_value_in_place_of_a_table_and_a_name_that_is_none_are_refused_by_name() {
    let file = file(
        "server = 5\n\"\" = 1\n[lanes]\nsearch = []\nfind_similar = \"2ms\"\nnonsense = 1\n[tls]\n[drain.timeout]\nx = 1\n",
    );
    let flags = ["models.hub=hf", "store=1", "server.listen.port=1", "a..b=1", "backend.ordinals[0]=1"];
    let flags = flags.map(|flag| flag.split_once('=').expect("a pair")).map(|(key, value)| (key.into(), value.into()));
    let errors = load(Some(file.path()), [], &flags).expect_err("eleven errors").0;
    let shown: Vec<_> = errors.iter().map(|error| (error.key.as_str(), error.reason.as_str())).collect();
    let name = "expected the name of a setting, such as server.listen";
    let expected = [
        ("", name),
        ("a..b", name),
        ("backend.ordinals[0]", name),
        ("drain.timeout.x", "unknown setting: drain.timeout is not a table"),
        ("lanes.find_similar", "expected a table with settings such as lanes.find_similar.concurrency, got \"2ms\""),
        ("lanes.nonsense", shown[5].1),
        ("lanes.search", "expected a table with settings such as lanes.search.concurrency, got []"),
        ("models.hub", "expected a table with settings such as models.hub.allow, got \"hf\""),
        ("server", "expected a table with settings such as server.admin_listen, got 5"),
        ("server.listen.port", "unknown setting: server.listen is not a table"),
        ("store", "expected a table with settings such as store.data_dir, got 1"),
    ];
    assert_eq!(shown, expected);
    assert!(shown[5].1.starts_with("unknown field `nonsense`"), "{:?}", shown[5]);
    assert!(ConfigErrors(errors).to_string().contains("\n  \"\" ("));
}

#[test]
fn two_listeners_do_not_share_an_address() {
    let refused = |flags: &[(&str, &str)]| {
        let flags: Vec<_> = flags.iter().map(|(key, value)| (format!("server.{key}"), (*value).to_owned())).collect();
        load(None, [], &flags).map_or_else(|errors| errors.0, |_| vec![])
    };
    let errors = refused(&[("admin_listen", "127.0.0.1:7433"), ("health_listen", "0.0.0.0:7433")]);
    let shown: Vec<_> = errors.iter().map(|error| (error.key.as_str(), error.reason.as_str())).collect();
    let reason = |got| format!("expected another address than that of server.listen, 127.0.0.1:7433, got {got}");
    let reasons = [reason("127.0.0.1:7433"), reason("0.0.0.0:7433")];
    assert_eq!(shown, [("server.admin_listen", &*reasons[0]), ("server.health_listen", &*reasons[1])]);
    assert_eq!(refused(&[("health_listen", "127.0.0.1:7434")])[0].key, "server.health_listen");
    assert_eq!(refused(&[("listen", "[::ffff:127.0.0.1]:7434")])[0].key, "server.admin_listen");
    for fine in [
        [("listen", "127.0.0.1:0"), ("admin_listen", "127.0.0.1:0")],
        [("listen", "127.0.0.2:1"), ("admin_listen", "127.0.0.1:1")],
        [("listen", "[::1]:1"), ("admin_listen", "0.0.0.0:1")],
    ] {
        assert!(refused(&fine).is_empty(), "{fine:?}");
    }
}

#[test]
fn a_list_of_tables_is_shown_with_the_value_that_is_wrong() {
    let file = file("[[models.preload]]\nname = \"a\"\npath = \"b\"\nprecision = \"f64\"\n");
    let errors = load(Some(file.path()), [], &[]).expect_err("no such precision").0;
    let expected = "expected one of auto, bf16, f16, f32, got [{ name = \"a\", path = \"b\", precision = \"f64\" }]";
    assert_eq!(errors[0].reason, expected);
}

#[test]
fn a_whole_number_may_be_written_as_a_float() {
    let file = file("[limits]\nmax_texts = 2e+06\n[sandbox]\ncaller_share = 1\n");
    let config = load(Some(file.path()), [], &[]).expect("valid");
    assert_eq!(config.limits.max_texts, 2_000_000);
}

#[test]
fn a_variable_with_a_missing_underscore_is_refused_by_name() {
    let variables = environment(&[("ACCELERD_SERVER__LISTEN", "0.0.0.0:1"), ("ACCELERD__SERVER_LISTEN", "0.0.0.0:1")]);
    let errors = load(None, variables, &[]).expect_err("two names").0;
    let keys: Vec<_> = errors.iter().map(|error| error.key.as_str()).collect();
    assert_eq!(keys, ["ACCELERD_SERVER__LISTEN", "ACCELERD__SERVER_LISTEN"]);
    for error in errors {
        assert!(error.reason.starts_with("expected ACCELERD__SERVER__LISTEN, with two underscores"), "{error:?}");
        assert_eq!(error.origin, ENVIRONMENT);
    }
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_with_the_line() {
    let mut file = file("[store]\n");
    file.write_all(b"data_dir = \"/data/\xff\"\n").expect("written");
    let errors = load(Some(file.path()), [], &[]).expect_err("not UTF-8").0;
    assert_eq!(errors[0].reason, "expected UTF-8, got other bytes in line 2");
    assert_eq!(Path::new(&errors[0].key), file.path());
}

#[test]
fn the_settings_of_the_images_are_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/image.toml");
    let flags = [("auth.insecure".to_owned(), "true".to_owned())];
    let config = load(Some(Path::new(path)), [], &flags).expect("valid");
    assert!(config.server.listen.ip().is_unspecified() && config.server.health_listen.ip().is_unspecified());
    assert_eq!(config.store.data_dir, Path::new("/var/lib/accelerd"));
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
