//! Loads models from a directory or a hub, and unloads them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use accelerd_engine::{Context, SubmitError};
use accelerd_kernels::OpError;
use accelerd_models::{TokenizeOptions, hf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    call_work::CallWork,
    embed::{Embedder, Input},
    options::Options,
    registry::{self, LoadedModel, ModelSource, Registry, Reservation},
};
use crate::{
    error::ApiError,
    hub::{Hub, Repo, Requester},
};

/// Time that unloading a model waits for busy devices to release its memory.
const TRIM_TIMEOUT: Duration = Duration::from_secs(1);

/// The location of a model's files.
enum Location {
    Path(PathBuf),
    Hub(Repo),
}

impl Embedder {
    /// Loads a model for a client, as far as the settings permit.
    pub async fn load(&self, source: ModelSource) -> Result<Arc<LoadedModel>, ApiError> {
        self.load_for(Requester::Client, source).await
    }

    /// Loads a model named in the settings.
    pub async fn preload(&self, source: ModelSource) -> Result<Arc<LoadedModel>, ApiError> {
        self.load_for(Requester::Settings, source).await
    }

    /// Unloads a model and returns its name. Devices have then released its memory, unless it is still in use or they are
    /// busy for longer than the timeout.
    pub async fn unload(&self, name: &str) -> Result<String, ApiError> {
        let name = self.registry.remove(name)?;
        if timeout(TRIM_TIMEOUT, self.encoders.trim()).await.is_err() {
            tracing::debug!(model = name, "devices are busy: they release the model's memory after their batches");
        }
        Ok(name)
    }

    async fn load_for(&self, requester: Requester, source: ModelSource) -> Result<Arc<LoadedModel>, ApiError> {
        let location = self.locate(requester, &source.path)?;
        let registry = Arc::clone(&self.registry);
        let hub = Arc::clone(&self.hub);
        let path = source.path.clone();
        // Dropping the future cancels a download. It does not stop reading files: the task owns the reservation, so that its
        // memory stays accounted for.
        let cancel = CancellationToken::new();
        let _cancel_on_drop = cancel.clone().drop_guard();
        let read = move || read(&registry, &hub, &source, &location, &cancel);
        let failed = |_| ApiError::Unavailable("loading failed".to_owned());
        let (model, mut reservation) = tokio::task::spawn_blocking(read).await.map_err(failed)??;
        let model = reservation.charge(model).trim_on_drop(&self.encoders);
        let model = Arc::new(if requester == Requester::Client { model.evictable(&path) } else { model });
        self.warm_up(&model).await?;
        reservation.commit(Arc::clone(&model));
        Ok(model)
    }

    /// Resolves a path, if the requester may load from it.
    fn locate(&self, requester: Requester, path: &str) -> Result<Location, ApiError> {
        if path.is_empty() {
            return Err(ApiError::invalid("path", "expected a folder, a file or hf://OWNER/NAME, got none"));
        }
        match (Repo::parse(path), requester) {
            (Some(repo), _) => {
                let repo = repo?;
                self.hub.check_allowed(&repo, requester)?;
                Ok(Location::Hub(repo))
            }
            (None, Requester::Client) => self.registry.resolve_allowed(path).map(Location::Path),
            (None, Requester::Settings) => Ok(Location::Path(path.into())),
        }
    }

    /// Computes one token, so that allocations and kernel compilation do not delay the first call, and a model that cannot run
    /// is refused.
    async fn warm_up(&self, model: &Arc<LoadedModel>) -> Result<(), ApiError> {
        let tokens = Input::Tokens { ids: vec![0], offsets: vec![0, 1] };
        // A model that a GPU is to run and has no memory for is refused, not served by the CPU from the start.
        let context = Context { no_cpu_fallback: true, ..Context::default() };
        let result = if model.reranker().is_some() {
            let batches = self.tokenized(model, tokens, &TokenizeOptions::default())?;
            self.score(model, batches, &CallWork::default(), context).await.map(drop)
        } else {
            self.embed(model, tokens, &Options::default(), context).await.map(drop)
        };
        result.map_err(|error| device_error(model, error))
    }
}

/// Maps out of device memory to an error like that of the memory limit, without a retry delay: a retry would fail, too.
fn device_error(model: &LoadedModel, error: ApiError) -> ApiError {
    let context = format!("model {:?} with {} bytes of weights does not fit: ", model.name(), model.bytes());
    if let ApiError::Submit(SubmitError::Op(OpError::MemoryLimit(refusal))) = error {
        return ApiError::MemoryLimit { context, refusal };
    }
    let ApiError::Submit(SubmitError::Op(out_of_memory @ OpError::OutOfMemory { device, requested, free })) = &error
    else {
        return error;
    };
    let message = format!("{context}{out_of_memory}");
    ApiError::ModelTooLarge { message, device: *device, requested: *requested, free: *free }
}

/// Reserves names and memory for a model, downloads it if necessary, and loads it.
fn read(
    registry: &Arc<Registry>,
    hub: &Hub,
    source: &ModelSource,
    location: &Location,
    cancel: &CancellationToken,
) -> Result<(LoadedModel, Reservation), ApiError> {
    let mut reservation = registry.reserve(source)?;
    let model = match location {
        Location::Path(path) => {
            reservation.reserve_bytes(weight_bytes(path, source)?)?;
            load(path, source)?
        }
        Location::Hub(repo) => {
            let resolved = hub.resolve(repo, cancel)?;
            // Before the download, as far as the hub reports sizes.
            reservation.reserve_bytes(resolved.weight_bytes())?;
            let snapshot = hub.fetch(resolved, cancel)?;
            reservation.reserve_bytes(weight_bytes(&snapshot.path, source)?)?;
            load(&snapshot.path, source)?
        }
    };
    Ok((model, reservation))
}

fn weight_bytes(path: &Path, source: &ModelSource) -> Result<u64, ApiError> {
    hf::weight_bytes(path).map_err(|error| load_error(path, source, &error))
}

fn load(path: &Path, source: &ModelSource) -> Result<LoadedModel, ApiError> {
    registry::load(path, source).map_err(|error| load_error(path, source, &error))
}

/// An error of a model's files, with the path that the client gave instead of that in the cache.
fn load_error(path: &Path, source: &ModelSource, error: &hf::LoadError) -> ApiError {
    let folder = path.display().to_string();
    let reason = error.to_string();
    let named = if folder.is_empty() { reason } else { reason.replace(&folder, &source.path) };
    ApiError::invalid("path", named)
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::DeviceId;
    use accelerd_models::Model;

    use super::*;

    #[test]
    fn a_model_that_does_not_fit_a_device_is_refused_with_its_size() {
        let model = LoadedModel::new(Model::builtin());
        let full = OpError::OutOfMemory { device: DeviceId::Cuda(1), requested: 500, free: 300 };
        let refused = device_error(&model, SubmitError::Op(full).into());
        assert!(matches!(refused, ApiError::ModelTooLarge { .. }), "{refused}");
        let message = refused.to_string();
        assert!(message.contains("model \"builtin\""), "{message}");
        assert!(message.ends_with("out of memory on cuda:1: 500 bytes requested, 300 free"), "{message}");
        let other = device_error(&model, SubmitError::Draining.into());
        assert!(matches!(other, ApiError::Submit(SubmitError::Draining)), "{other}");
    }

    #[test]
    fn errors_of_files_name_the_path_that_was_given() {
        let source = ModelSource { path: "hf://small/bert".to_owned(), ..ModelSource::default() };
        let path = Path::new("/tmp/passing/0123");
        let error = hf::LoadError::Read { path: path.join("config.json"), error: std::io::ErrorKind::NotFound.into() };
        let message = load_error(path, &source, &error).to_string();
        assert_eq!(message, "path: hf://small/bert/config.json: entity not found");
    }
}
