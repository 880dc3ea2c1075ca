//! `--model`: models to load at the start, without a settings file.

use std::path::{Path, PathBuf};

use accelerd::{
    Config,
    config::{Allow, ConfigError, ConfigErrors, Preload},
};
use clap::Args;

/// URL scheme of hub models.
const HUB_SCHEME: &str = "hf://";
/// The setting to which the flag adds.
const SETTING: &str = "models.preload";

/// Models to load at the start.
#[derive(Debug, Default, Args)]
pub(super) struct Models {
    /// Load a model at the start from a directory or file, or from hf://owner/name. Its name defaults to that of the
    /// directory, file or repository. Clients may then load from the directory, too. Repeatable.
    #[arg(long = "model", value_name = "[NAME=]PATH|hf://OWNER/NAME", value_parser = super::utf8())]
    models: Vec<String>,
}

impl Models {
    /// Adds the models to the settings.
    pub(super) fn add_to(&self, config: &mut Config) -> Result<(), ConfigErrors> {
        let mut errors = vec![];
        for argument in &self.models {
            match parse(argument) {
                Ok(model) if config.models.preload.iter().any(|other| other.name == model.preload.name) => {
                    let name = model.preload.name;
                    errors.push(config_error(format!("two models are named {name:?}: use --model NAME={argument}")));
                }
                Ok(model) => model.add_to(config),
                Err(reason) => errors.push(config_error(reason)),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
    }
}

fn config_error(reason: String) -> ConfigError {
    ConfigError { key: SETTING.to_owned(), origin: "--model".to_owned(), reason }
}

/// A parsed `--model` argument.
#[derive(Debug)]
struct ModelArg {
    preload: Preload,
    /// `None` for a model of a hub.
    folder: Option<PathBuf>,
}

impl ModelArg {
    fn add_to(self, config: &mut Config) {
        match self.folder {
            Some(folder) => config.models.folders.push(folder),
            // The argument implies permission to use the hub.
            None if config.models.hub.allow == Allow::Off => config.models.hub.allow = Allow::Preload,
            None => {}
        }
        config.models.preload.push(self.preload);
    }
}

fn parse(argument: &str) -> Result<ModelArg, String> {
    // A path may contain `=`; a name contains neither `=` nor `:`.
    let (name, path) = match argument.split_once('=') {
        Some((name, path)) if is_name(name) && !Path::new(argument).exists() => (Some(name.to_owned()), path),
        _ => (None, argument),
    };
    let derive =
        || default_name(path).ok_or_else(|| format!("cannot derive a name from {path:?}: use --model NAME={path}"));
    let name = name.map_or_else(derive, Ok)?;
    let preload = |path: &str| Preload {
        name: name.clone(),
        path: path.to_owned(),
        aliases: vec![],
        precision: accelerd::config::Precision::default(),
    };
    if path.starts_with(HUB_SCHEME) {
        return Ok(ModelArg { preload: preload(path), folder: None });
    }
    let absolute = Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))?;
    let text = absolute.to_str().ok_or_else(|| format!("{path} is not UTF-8"))?;
    Ok(ModelArg { preload: preload(text), folder: Some(absolute.clone()) })
}

/// The last component of a path without a file's extension or a repository's revision; other characters than letters,
/// digits and `-_.` become `-`.
fn default_name(path: &str) -> Option<String> {
    let last = if let Some(repository) = path.strip_prefix(HUB_SCHEME) {
        repository.split('@').next()?.rsplit('/').next()?.to_owned()
    } else {
        let whole = Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path));
        let name = if whole.is_file() { whole.file_stem() } else { whole.file_name() };
        name?.to_string_lossy().into_owned()
    };
    let sanitize = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = last.chars().map(sanitize).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    (!name.is_empty()).then(|| name.to_owned())
}

fn is_name(text: &str) -> bool {
    let all = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    all && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        accelerd::config::load(None, [], &[]).expect("the defaults are valid")
    }

    fn models(arguments: &[&str]) -> Models {
        Models { models: arguments.iter().map(|text| (*text).to_owned()).collect() }
    }

    #[test]
    fn a_directory_is_loaded_under_its_name_and_clients_may_load_from_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("all MiniLM=v2");
        std::fs::create_dir(&place).expect("it is made");
        let mut config = config();
        models(&[place.to_str().expect("UTF-8")]).add_to(&mut config).expect("it is there");
        let place = place.canonicalize().expect("it is there");
        assert_eq!(config.models.preload[0].name, "all-MiniLM-v2");
        assert_eq!(config.models.preload[0].path, place.to_str().expect("UTF-8"));
        assert_eq!(config.models.folders, [place]);
    }

    #[test]
    fn a_hub_model_is_named_after_its_repository_and_enables_the_hub() {
        let mut config = config();
        config.models.hub.allow = Allow::Off;
        models(&["hf://BAAI/bge-small-en@main", "mine=hf://a/b"]).add_to(&mut config).expect("it is good");
        let named: Vec<_> = config.models.preload.iter().map(|one| (one.name.as_str(), one.path.as_str())).collect();
        assert_eq!(named, [("bge-small-en", "hf://BAAI/bge-small-en@main"), ("mine", "hf://a/b")]);
        assert_eq!((config.models.hub.allow, config.models.folders.len()), (Allow::Preload, 0));
    }

    #[test]
    fn all_invalid_models_are_reported_at_once() {
        let refused =
            models(&["/no/such/folder", "hf://a/b", "hf://c/b"]).add_to(&mut config()).expect_err("it is bad");
        let text = refused.to_string();
        assert!(text.contains("/no/such/folder") && text.contains("--model NAME=hf://c/b"), "{text}");
    }
}
