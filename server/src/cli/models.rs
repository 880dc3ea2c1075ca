//! `--model`: what the daemon loads at the start, without a settings file.

use std::path::{Path, PathBuf};

use accelerd::{
    Config,
    config::{Allow, Mistake, Mistakes, Preload},
};
use clap::Args;

/// The scheme of a hub's models.
const HUB: &str = "hf://";
/// The setting that the flag adds to.
const KEY: &str = "models.preload";

/// Models to load at the start.
#[derive(Debug, Default, Args)]
pub(super) struct Models {
    /// Load a model at the start: a folder or file, or hf://owner/name. It is called like the folder, file or repository, or as
    /// NAME=... says. Callers may load from the folder, too. May be repeated.
    #[arg(long = "model", value_name = "[NAME=]FOLDER|hf://OWNER/NAME")]
    models: Vec<String>,
}

impl Models {
    /// Adds the models to the settings.
    pub(super) fn add_to(&self, config: &mut Config) -> Result<(), Mistakes> {
        let mut mistakes = vec![];
        for said in &self.models {
            match read(said) {
                Ok(model) if config.models.preload.iter().any(|other| other.name == model.preload.name) => {
                    let name = model.preload.name;
                    mistakes.push(mistake(format!("two models are called {name:?}: say --model NAME={said}")));
                }
                Ok(model) => model.add_to(config),
                Err(reason) => mistakes.push(mistake(reason)),
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(Mistakes(mistakes)) }
    }
}

fn mistake(reason: String) -> Mistake {
    Mistake { key: KEY.to_owned(), origin: "--model".to_owned(), reason }
}

/// A model that a flag names.
#[derive(Debug)]
struct Named {
    preload: Preload,
    /// Where it is, unless it is a hub's.
    folder: Option<PathBuf>,
}

impl Named {
    fn add_to(self, config: &mut Config) {
        match self.folder {
            Some(folder) => config.models.folders.push(folder),
            // Whoever starts the daemon with a hub's model lets it go there.
            None if config.models.hub.allow == Allow::Off => config.models.hub.allow = Allow::Preload,
            None => {}
        }
        config.models.preload.push(self.preload);
    }
}

fn read(said: &str) -> Result<Named, String> {
    // A path may have an equals sign, a name may have neither that nor a colon.
    let (name, path) = match said.split_once('=') {
        Some((name, path)) if is_name(name) && !Path::new(said).exists() => (Some(name.to_owned()), path),
        _ => (None, said),
    };
    let derived = || name_of(path).ok_or_else(|| format!("no name can be made of {path:?}: say --model NAME={path}"));
    let name = name.map_or_else(derived, Ok)?;
    let preload = |path: &str| Preload {
        name: name.clone(),
        path: path.to_owned(),
        aliases: vec![],
        precision: accelerd::config::Precision::default(),
    };
    if path.starts_with(HUB) {
        return Ok(Named { preload: preload(path), folder: None });
    }
    let whole = Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))?;
    let text = whole.to_str().ok_or_else(|| format!("{path} is not UTF-8"))?;
    Ok(Named { preload: preload(text), folder: Some(whole.clone()) })
}

/// The last part of a path, without a file's extension or a repository's revision, in the letters that names have.
fn name_of(path: &str) -> Option<String> {
    let last = if let Some(repository) = path.strip_prefix(HUB) {
        repository.split('@').next()?.rsplit('/').next()?.to_owned()
    } else {
        let whole = Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path));
        let name = if whole.is_file() { whole.file_stem() } else { whole.file_name() };
        name?.to_string_lossy().into_owned()
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = last.chars().map(plain).collect();
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

    fn models(said: &[&str]) -> Models {
        Models { models: said.iter().map(|text| (*text).to_owned()).collect() }
    }

    #[test]
    fn a_folder_is_loaded_under_its_name_and_callers_may_load_from_it() {
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
    fn a_hubs_model_is_called_like_its_repository_and_the_hub_is_allowed() {
        let mut config = config();
        config.models.hub.allow = Allow::Off;
        models(&["hf://BAAI/bge-small-en@main", "mine=hf://a/b"]).add_to(&mut config).expect("it is good");
        let named: Vec<_> = config.models.preload.iter().map(|one| (one.name.as_str(), one.path.as_str())).collect();
        assert_eq!(named, [("bge-small-en", "hf://BAAI/bge-small-en@main"), ("mine", "hf://a/b")]);
        assert_eq!((config.models.hub.allow, config.models.folders.len()), (Allow::Preload, 0));
    }

    #[test]
    fn what_cannot_be_loaded_is_refused_all_at_once() {
        let refused =
            models(&["/no/such/folder", "hf://a/b", "hf://c/b"]).add_to(&mut config()).expect_err("it is bad");
        let text = refused.to_string();
        assert!(text.contains("/no/such/folder") && text.contains("--model NAME=hf://c/b"), "{text}");
    }
}
