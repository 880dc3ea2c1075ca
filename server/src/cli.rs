//! The command line.

use std::{
    fmt,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use accelerd::{
    Config,
    config::{self, Mistakes},
    lifecycle,
};
use clap::{Args, Parser, Subcommand};

mod health;
mod kernels;
mod models;

/// Exit code of wrong settings or arguments.
const WRONG_SETTINGS: u8 = 2;

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
    /// Serve (the default).
    Serve {
        #[command(flatten)]
        models: models::Models,
        #[command(flatten)]
        settings: Settings,
    },
    /// Ask a daemon whether it serves; exit code 0 if so. For container health checks.
    Health {
        #[command(flatten)]
        question: health::Question,
        #[command(flatten)]
        settings: Settings,
    },
    /// Check or show the settings.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Compile kernels ahead of time.
    Kernels {
        #[command(subcommand)]
        command: KernelsCommand,
    },
    /// Show the version.
    Version,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Report every mistake in file, environment and flags; exit code 2 if there is one.
    Check {
        #[command(flatten)]
        settings: Settings,
    },
    /// Print the settings in effect, as TOML.
    Show {
        /// Print the defaults instead, each with its comment.
        #[arg(long)]
        defaults: bool,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Debug, Subcommand)]
enum KernelsCommand {
    /// Compile every kernel into the cache. Needs NVRTC, but neither a GPU nor a driver.
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
    /// Settings file. Without it the one that ACCELERD_CONFIG names is read, or /etc/accelerd/config.toml if it is there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where gRPC is served.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// auto, cpu or cuda.
    #[arg(long, value_name = "KIND")]
    backend: Option<String>,
    /// Folder of durable collections. Without it no collection can be durable.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<String>,
    /// error, warn, info, debug, trace, or a filter.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Any other setting, as in --set server.max_streams=64 or, for a list, --set models.folders=/a,/b. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

impl Settings {
    fn load(&self) -> Result<Config, Mistakes> {
        let named = [
            ("server.listen", &self.listen),
            ("backend.kind", &self.backend),
            ("store.data_dir", &self.data_dir),
            ("telemetry.log_level", &self.log_level),
        ];
        let named = named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        let flags: Vec<_> = named.chain(self.set.iter().cloned()).collect();
        let file = self.config.clone().or_else(|| std::env::var_os("ACCELERD_CONFIG").map(PathBuf::from));
        config::load(file.as_deref(), config::environment(), &flags)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Runs the command that the arguments name.
pub(crate) fn run() -> ExitCode {
    let Cli { command, models, settings } = Cli::parse();
    match command.unwrap_or(Command::Serve { models, settings }) {
        Command::Serve { models, settings } => with(&settings, |config| serve(config, &models, &settings)),
        Command::Health { question, settings } => with(&settings, |config| question.ask(&config)),
        Command::Config { command: ConfigCommand::Check { settings } } => {
            with(&settings, |_| say("the settings are valid"))
        }
        Command::Config { command: ConfigCommand::Show { defaults: true, .. } } => say(config::DEFAULTS.trim_end()),
        Command::Config { command: ConfigCommand::Show { defaults: false, settings } } => {
            with(&settings, |config| show(&config))
        }
        Command::Kernels { command: KernelsCommand::Build { build, settings } } => {
            with(&settings, |config| build.run(&config))
        }
        Command::Version => say(format_args!("accelerd {}", env!("CARGO_PKG_VERSION"))),
    }
}

fn with(settings: &Settings, command: impl FnOnce(Config) -> ExitCode) -> ExitCode {
    match settings.load() {
        Ok(config) => command(config),
        Err(mistakes) => complain(&mistakes, WRONG_SETTINGS),
    }
}

fn serve(mut config: Config, models: &models::Models, settings: &Settings) -> ExitCode {
    if let Err(mistakes) = models.add_to(&mut config) {
        return complain(&mistakes, WRONG_SETTINGS);
    }
    match lifecycle::run(config, || settings.load()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error, 1),
    }
}

fn show(config: &Config) -> ExitCode {
    match toml::to_string(&config.redacted()) {
        Ok(text) => say(format_args!("{}{}", memory_comment(config), text.trim_end())),
        Err(error) => complain(&error, 1),
    }
}

/// Where the figures of `"auto"` come from.
fn memory_comment(config: &Config) -> String {
    if config.derived.is_empty() {
        return String::new();
    }
    format!("# Memory: {}.\n# Shares of it, where \"auto\" was set: {}.\n", config.memory, config.derived.join(", "))
}

fn say(text: impl fmt::Display) -> ExitCode {
    // A reader that went away, as in `| head`, is no failure.
    let _closed = writeln!(io::stdout(), "{text}");
    ExitCode::SUCCESS
}

fn complain(error: &impl fmt::Display, code: u8) -> ExitCode {
    let _closed = writeln!(io::stderr(), "accelerd: {error}");
    ExitCode::from(code)
}
