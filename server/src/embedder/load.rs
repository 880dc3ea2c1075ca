//! Loading models, from a folder or a hub, and forgetting them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use accelerd_engine::{Context, SubmitError};
use accelerd_kernels::OpError;
use accelerd_models::{Cut, hf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    Embedder, Input, Options,
    registry::{self, Registry, Reserved, Served, Source},
};
use crate::{
    error::ApiError,
    hub::{Asker, Hub, Repo},
};

/// How long unloading a model waits for devices that are at work.
const TIDY_WAIT: Duration = Duration::from_secs(1);

/// Where a model's files are.
enum Place {
    /// In the file system.
    Here(PathBuf),
    /// On a hub.
    Hub(Repo),
}

impl Embedder {
    /// Loads a model for a caller, who may name only what the settings offer.
    pub async fn load(&self, source: Source) -> Result<Arc<Served>, ApiError> {
        self.load_for(Asker::Caller, source).await
    }

    /// Loads a model that the settings name.
    pub async fn preload(&self, source: Source) -> Result<Arc<Served>, ApiError> {
        self.load_for(Asker::Settings, source).await
    }

    /// Forgets a model; its name. Devices have given back what they held of it, unless somebody uses it still, or they are
    /// so busy that nobody should wait for them.
    pub async fn unload(&self, name: &str) -> Result<String, ApiError> {
        let name = self.registry.remove(name)?;
        if timeout(TIDY_WAIT, self.encoders.tidy()).await.is_err() {
            tracing::debug!(model = name, "devices are busy; they give its memory back when their batches end");
        }
        Ok(name)
    }

    async fn load_for(&self, asker: Asker, source: Source) -> Result<Arc<Served>, ApiError> {
        let place = self.place(asker, &source.path)?;
        let (registry, hub) = (Arc::clone(&self.registry), Arc::clone(&self.hub));
        // A caller who has gone ends what is fetched from a hub. It does not end the reading: the reservation goes along, so
        // that the memory stays counted.
        let gone = CancellationToken::new();
        let _here = gone.clone().drop_guard();
        let read = move || read(&registry, &hub, &source, &place, &gone);
        let stopped = |_| ApiError::Unavailable("loading was stopped".to_owned());
        let (served, reserved) = tokio::task::spawn_blocking(read).await.map_err(stopped)??;
        let served = Arc::new(served.on(&self.encoders));
        self.warm_up(&served).await?;
        reserved.fill(Arc::clone(&served));
        Ok(served)
    }

    /// Where a path leads, if the one who asks may go there.
    fn place(&self, asker: Asker, path: &str) -> Result<Place, ApiError> {
        match (Repo::parse(path), asker) {
            (Some(repo), _) => {
                let repo = repo?;
                self.hub.check(&repo, asker)?;
                Ok(Place::Hub(repo))
            }
            (None, Asker::Caller) => self.registry.allowed(path).map(Place::Here),
            (None, Asker::Settings) => Ok(Place::Here(path.into())),
        }
    }

    /// Computes one token, so that the first caller does not wait for memory and kernels, and a model that cannot run is
    /// not served.
    async fn warm_up(&self, served: &Arc<Served>) -> Result<(), ApiError> {
        let tokens = Input::Tokens { ids: vec![0], offsets: vec![0, 1] };
        let answered = if served.reranker().is_some() {
            let parts = self.parts(served, tokens, &Cut::default())?;
            self.score(served, parts, Context::default()).await.map(drop)
        } else {
            self.embed(served, tokens, &Options::default(), Context::default()).await.map(drop)
        };
        answered.map_err(|error| unfit_for_device(served, error))
    }
}

/// A model that a device has no room for is refused like one that the settings have none for: to try again at once is of no
/// use.
fn unfit_for_device(served: &Served, error: ApiError) -> ApiError {
    let ApiError::Submit(SubmitError::Op(full @ OpError::OutOfMemory { .. })) = &error else { return error };
    let (name, bytes) = (served.name(), served.bytes());
    ApiError::Exhausted(format!("model {name:?} with {bytes} bytes of weights does not fit: {full}"))
}

/// Takes names and memory for a model, fetches it where it is not here, and reads it.
fn read(
    registry: &Arc<Registry>,
    hub: &Hub,
    source: &Source,
    place: &Place,
    gone: &CancellationToken,
) -> Result<(Served, Reserved), ApiError> {
    let mut reserved = registry.reserve(source)?;
    let served = match place {
        Place::Here(path) => {
            reserved.take(weight_bytes(path, source)?)?;
            load(path, source)?
        }
        Place::Hub(repo) => {
            let found = hub.find(repo, gone)?;
            // Before it is fetched, if the hub says how large it is.
            reserved.take(found.weight_bytes())?;
            let fetched = hub.fetch(found, gone)?;
            reserved.take(weight_bytes(&fetched.path, source)?)?;
            load(&fetched.path, source)?
        }
    };
    Ok((served, reserved))
}

fn weight_bytes(path: &Path, source: &Source) -> Result<u64, ApiError> {
    hf::weight_bytes(path).map_err(|error| unfit(path, source, &error))
}

fn load(path: &Path, source: &Source) -> Result<Served, ApiError> {
    registry::load(path, source).map_err(|error| unfit(path, source, &error))
}

/// A fault of the files, in the words of who named them: where fetched files lie is nothing to him.
fn unfit(path: &Path, source: &Source, error: &hf::LoadError) -> ApiError {
    let (folder, reason) = (path.display().to_string(), error.to_string());
    let named = if folder.is_empty() { reason } else { reason.replace(&folder, &source.path) };
    ApiError::invalid("path", named)
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::DeviceId;
    use accelerd_models::Model;

    use super::*;

    #[test]
    fn a_model_without_room_on_a_device_is_refused_with_its_need_and_what_is_free() {
        let served = Served::plain(Model::builtin());
        let full = OpError::OutOfMemory { device: DeviceId::Cuda(1), requested: 500, free: 300 };
        let refused = unfit_for_device(&served, SubmitError::Op(full).into());
        assert!(matches!(refused, ApiError::Exhausted(_)), "{refused}");
        let words = refused.to_string();
        assert!(words.contains("model \"builtin\""), "{words}");
        assert!(words.ends_with("out of memory on cuda:1: 500 bytes asked for, 300 free"), "{words}");
        let other = unfit_for_device(&served, SubmitError::Draining.into());
        assert!(matches!(other, ApiError::Submit(SubmitError::Draining)), "{other}");
    }

    #[test]
    fn faults_of_files_are_told_by_the_path_that_was_given() {
        let source = Source { path: "hf://small/bert".to_owned(), ..Source::default() };
        let path = Path::new("/tmp/passing/0123");
        let error = hf::LoadError::Read { path: path.join("config.json"), error: std::io::ErrorKind::NotFound.into() };
        let told = unfit(path, &source, &error).to_string();
        assert_eq!(told, "path: hf://small/bert/config.json: entity not found");
    }
}
