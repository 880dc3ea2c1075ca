//! The command line.

use std::{io, path::PathBuf, process::ExitCode};

use accelerd::{
    Config,
    auth::token::Token,
    config::{self, ConfigErrors},
    lifecycle,
};
use accelerd_kernels::exit_at_once;
use clap::{
    Args, Parser, Subcommand,
    builder::{OsStringValueParser, TypedValueParser},
};
use tracing::Level;

mod health;
mod kernels;
mod models;
mod output;

use output::{INVALID_SETTINGS, fail, print};

/// GPU acceleration for code over gRPC.
#[derive(Debug, Parser)]
#[command(name = "accelerd", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    models: models::Models,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the daemon (the default).
    Serve {
        /// Drain and exit when the process with this id, which started the daemon, has ended.
        #[arg(long, value_name = "PID")]
        parent: Option<u32>,
        #[command(flatten)]
        models: models::Models,
        #[command(flatten)]
        settings: Settings,
    },
    /// Check the health of a running daemon; exit code 0 if it is serving. For container health checks.
    Health {
        #[command(flatten)]
        check: health::HealthCheck,
        #[command(flatten)]
        settings: Settings,
    },
    /// Validate or print the settings.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Create tokens for callers.
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Compile kernels ahead of time.
    Kernels {
        #[command(subcommand)]
        command: KernelsCommand,
    },
    /// Run code of clients for a daemon, which sends it through standard input.
    #[command(hide = true)]
    Sandbox,
    /// Print the version.
    Version,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Report all invalid settings in file, environment and flags, and invalid certificates and principals; exit code 2 if there
    /// are any. Warns of certificates that are not valid now.
    Check {
        #[command(flatten)]
        settings: Settings,
    },
    /// Print the effective settings as TOML.
    Show {
        /// Print the defaults with their documentation instead.
        #[arg(long)]
        defaults: bool,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Print a new random token on one line, and on the next its hash for the file of auth.principals.
    Create,
}

#[derive(Debug, Subcommand)]
enum KernelsCommand {
    /// Compile all kernels into the cache. Needs NVRTC, but neither a GPU nor a driver.
    Build {
        #[command(flatten)]
        build: kernels::Build,
        #[command(flatten)]
        settings: Settings,
    },
}

/// Flags that override settings.
#[derive(Debug, Args)]
struct Settings {
    /// Settings file in TOML. Defaults to ACCELERD_CONFIG, then to /etc/accelerd/config.toml if it exists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the gRPC port, such as 0.0.0.0:7433.
    #[arg(long, value_name = "ADDRESS", value_parser = utf8())]
    listen: Option<String>,
    /// Compute backend: auto, cpu or cuda.
    #[arg(long, value_name = "KIND", value_parser = utf8())]
    backend: Option<String>,
    /// Directory of durable collections. Without it all collections are in memory.
    #[arg(long, value_name = "DIR", value_parser = utf8())]
    data_dir: Option<String>,
    /// Log level (off, error, warn, info, debug, trace) or filter.
    #[arg(long, value_name = "LEVEL", value_parser = utf8())]
    log_level: Option<String>,
    /// Override any setting: --set server.max_streams=64, or for a list --set models.folders=/a,/b. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = utf8().try_map(|text| key_value(&text)))]
    set: Vec<(String, String)>,
}

impl Settings {
    fn load(&self) -> Result<Config, ConfigErrors> {
        let named = [
            ("server.listen", &self.listen),
            ("backend.kind", &self.backend),
            ("store.data_dir", &self.data_dir),
            ("telemetry.log_level", &self.log_level),
        ];
        let named = named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        let flags: Vec<_> = named.chain(self.set.iter().cloned()).collect();
        let file = self.config.clone().or_else(|| std::env::var_os("ACCELERD_CONFIG").map(PathBuf::from));
        config::load_of_process(file.as_deref(), &flags)
    }
}

/// Parses text. Unlike clap's own parser, it names the flag whose value is not UTF-8.
fn utf8() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| text.into_string().map_err(|_| "expected UTF-8"))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    if key.is_empty() {
        return Err("expected KEY=VALUE with the name of a setting, such as server.max_streams=64".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses the arguments and runs the command.
pub(crate) fn run() -> ExitCode {
    let Cli { command, models, settings } = Cli::parse();
    match command.unwrap_or(Command::Serve { parent: None, models, settings }) {
        Command::Serve { parent, models, settings } => {
            with_config(&settings, |config| serve(config, parent, &models, &settings))
        }
        Command::Health { check, settings } => with_config(&settings, |config| check.run(&config)),
        Command::Config { command: ConfigCommand::Check { settings } } => {
            with_config(&settings, |config| check(&config))
        }
        Command::Config { command: ConfigCommand::Show { defaults: true, .. } } => print(config::DEFAULTS.trim_end()),
        Command::Config { command: ConfigCommand::Show { defaults: false, settings } } => {
            with_config(&settings, |config| show(&config))
        }
        Command::Kernels { command: KernelsCommand::Build { build, settings } } => {
            with_config(&settings, |config| build.run(&config))
        }
        Command::Token { command: TokenCommand::Create } => match Token::random() {
            Ok(token) => print(format_args!("{}\n{}", token.reveal(), token.hash())),
            Err(error) => fail(&error, 1),
        },
        Command::Sandbox => accelerd::sandbox::child_main(),
        Command::Version => print(format_args!("accelerd {}", env!("CARGO_PKG_VERSION"))),
    }
}

fn with_config(settings: &Settings, command: impl FnOnce(Config) -> ExitCode) -> ExitCode {
    match settings.load() {
        Ok(config) => command(config),
        Err(errors) => fail(&errors, INVALID_SETTINGS),
    }
}

fn serve(mut config: Config, parent: Option<u32>, models: &models::Models, settings: &Settings) -> ExitCode {
    if let Err(errors) = models.add_to(&mut config) {
        return fail(&errors, INVALID_SETTINGS);
    }
    match lifecycle::run(config, parent, || settings.load()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = fail(&error, 1);
            if error.leaves_threads() {
                exit_at_once(1);
            }
            code
        }
    }
}

fn check(config: &Config) -> ExitCode {
    // What a start logs, such as a certificate that has expired.
    let warnings = tracing_subscriber::fmt().with_max_level(Level::WARN).with_writer(io::stderr);
    let warnings = warnings.without_time().with_target(false).with_ansi(false).finish();
    match tracing::subscriber::with_default(warnings, || lifecycle::check_credentials(config)) {
        Ok(()) => print("the settings are valid"),
        Err(error) => fail(&error, INVALID_SETTINGS),
    }
}

fn show(config: &Config) -> ExitCode {
    match toml::to_string(&config.redacted()) {
        Ok(text) => print(format_args!("{}{}", memory_comment(config), text.trim_end())),
        Err(error) => fail(&error, 1),
    }
}

/// A comment on how settings of `"auto"` were derived.
fn memory_comment(config: &Config) -> String {
    if config.derived.is_empty() {
        return String::new();
    }
    format!("# Memory: {}.\n# Derived from \"auto\": {}.\n", config.process_memory, config.derived.join(", "))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};

    use super::*;

    fn refused(arguments: &[&[u8]]) -> String {
        let arguments = arguments.iter().map(|argument| OsString::from_vec(argument.to_vec()));
        let parsed = Cli::try_parse_from([OsString::from("accelerd")].into_iter().chain(arguments));
        parsed.expect_err("not UTF-8").to_string()
    }

    #[test]
    fn a_flag_that_is_not_utf_8_is_refused_by_name() {
        for flag in ["--listen", "--backend", "--data-dir", "--log-level", "--set", "--model"] {
            let error = refused(&[b"serve", flag.as_bytes(), b"/data=\xff"]);
            assert!(error.contains(&format!("'{flag} <")) && error.contains("expected UTF-8"), "{flag}: {error}");
        }
    }

    #[test]
    fn a_pair_without_a_value_or_a_name_is_refused() {
        for pair in ["server.listen", "=1", "="] {
            let error = refused(&[b"serve", b"--set", pair.as_bytes()]);
            assert!(error.contains("'--set <") && error.contains("expected KEY=VALUE"), "{pair}: {error}");
        }
    }

    #[test]
    fn a_settings_file_may_have_any_name() {
        let name = OsString::from_vec(b"/data/\xff.toml".to_vec());
        let arguments = [OsString::from("accelerd"), "serve".into(), "--config".into(), name.clone()];
        let Some(Command::Serve { settings, .. }) = Cli::parse_from(arguments).command else { panic!("serve") };
        assert_eq!(settings.config, Some(PathBuf::from(name)));
    }
}
