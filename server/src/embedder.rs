//! Texts to vectors: finds the model, tokenises off the reactor, submits to the embed lane.

use std::sync::Arc;

use accelerd_engine::{Context, Lane};
use accelerd_kernels::{Matrix, ops::embed::Embed};
use accelerd_models::Model;

use crate::error::ApiError;

/// The loaded models and the lane they run on.
#[derive(Clone)]
pub struct Embedder {
    models: Arc<Vec<Arc<Model>>>,
    lane: Lane<Embed>,
}

/// What to embed.
#[derive(Clone, Debug)]
pub enum Input {
    /// Texts.
    Texts(Vec<String>),
    /// Token ids and where each text starts in them, then their count.
    Tokens {
        /// Ids of all texts.
        ids: Vec<u32>,
        /// n + 1 offsets.
        offsets: Vec<u32>,
    },
}

/// Vectors, one a text.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// [n, dimensions].
    pub vectors: Matrix,
    /// Tokens of each text.
    pub token_counts: Vec<u32>,
}

impl Embedder {
    /// An embedder over some models.
    pub fn new(models: Vec<Arc<Model>>, lane: Lane<Embed>) -> Self {
        Self { models: Arc::new(models), lane }
    }

    /// The model of this name; empty means `builtin`.
    pub fn model(&self, _name: &str) -> Result<Arc<Model>, ApiError> {
        let _ = &self.models;
        unimplemented!()
    }

    /// Embeds texts or tokens. `dimensions` 0 keeps all.
    pub async fn embed(
        &self,
        _model: &Arc<Model>,
        _input: Input,
        _dimensions: u32,
        _normalize: bool,
        _context: Context,
    ) -> Result<Embedded, ApiError> {
        let _ = &self.lane;
        unimplemented!()
    }
}
