//! Dependencies that the daemon provides to collections: devices, the search lane, an embedder, and a timing callback.

use std::{fmt, sync::Arc, time::Duration};

use accelerd_engine::{Completion, Context, Lane};
use accelerd_kernels::{DeviceId, Matrix, ops::similarity::Search};
use accelerd_store::Prompts;
use futures::future::BoxFuture;

use crate::{error::BoxError, prompt::PromptChoice};

/// Embeds the texts of collections that name a model.
pub trait TextEmbedder: Send + Sync + 'static {
    /// The dimensions of a collection of this model: `asked` if the model supports it, or its native ones for 0.
    fn dimensions(&self, model: &str, asked: u32) -> Result<u32, BoxError>;

    /// The digest of the model that is loaded under this name: models with equal digests compute the same vectors.
    fn digest(&self, model: &str) -> Result<String, BoxError>;

    /// The prompts of a new collection of this model; `None` if there are none and the model has no default prompt.
    fn prompts(&self, model: &str, document: PromptChoice, query: PromptChoice) -> Result<Option<Prompts>, BoxError>;

    /// Returns one finite unit vector per text, and the digest of the model that computed them.
    fn embed<'a>(
        &'a self,
        model: &'a str,
        texts: Vec<String>,
        options: TextOptions,
        context: Context,
    ) -> BoxFuture<'a, Result<(Matrix, String), BoxError>>;
}

/// How texts are embedded.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// Dimensions of the vectors.
    pub dimensions: u32,
    /// The prompt; by default the model's default prompt, if it has one.
    pub prompt: PromptChoice,
    /// True to wait while the queue is full instead of failing.
    pub may_wait: bool,
}

/// Dependencies that the daemon provides to collections.
#[derive(Clone)]
pub struct Services {
    /// Devices of the engine.
    pub devices: Vec<DeviceId>,
    /// The search lane.
    pub search: Lane<Search>,
    /// Embedder of collections with a model.
    pub embedder: Arc<dyn TextEmbedder>,
    /// Called in the caller's task with the queue and execution time of each request.
    pub record_timing: fn(queue: Duration, execute: Duration),
}

impl Services {
    pub(crate) fn record<R>(&self, completion: &Completion<R>) {
        (self.record_timing)(completion.queue, completion.execute);
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("devices", &self.devices).finish_non_exhaustive()
    }
}
