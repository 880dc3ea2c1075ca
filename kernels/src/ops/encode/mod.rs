//! Encoders: token ids of many texts to vectors, by the transformer models that embed text and code.
//!
//! The forward pass is written once, in [`forward`], over the [`Primitives`] that each backend provides. Texts are
//! packed without padding. A vector depends on its own text alone: batches of any size give the same bits.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;

use config::invalid;
use cpu::pooled;

use crate::{Backend, Op, OpError, Size};

mod batch;
mod config;
mod cpu;
pub(crate) mod cuda;
mod encoder;
pub mod oracle;
mod primitives;
pub mod samples;
pub mod tables;
mod weights;

pub use batch::{Packed, encode};
pub use config::{Activation, EncoderConfig, NormKind, Placement, Pooling, Positions, QueryNorm, Window};
pub use cpu::{Head, HeadActivation, HeadParts};
pub use encoder::{Model, forward};
pub use primitives::{Attention, Batch, Output, Pooled, Primitives, Reduce, Row, Then};
pub use weights::{Element, Embeddings, Layer, Linear, Norm, Role, Tensor, Weights};

/// A loaded encoder, shared by every device.
#[derive(Debug)]
pub struct Encoder {
    id: u64,
    config: EncoderConfig,
    weights: Weights<Tensor>,
    /// With products in f32, and in bfloat16.
    on_cpu: [OnceLock<Result<Weights<cpu::Weight>, OpError>>; 2],
}

impl Encoder {
    /// Checks the weights against the description.
    pub fn new(config: EncoderConfig, weights: Weights<Tensor>) -> Result<Self, OpError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        config.check()?;
        weights.check(&config)?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { id, config, weights, on_cpu: Default::default() })
    }

    /// Tells encoders apart; unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its description.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Its weights on the host.
    pub fn weights(&self) -> &Weights<Tensor> {
        &self.weights
    }

    /// Its weights as the CPU keeps them, made when they are first asked for.
    fn on_cpu(&self, arithmetic: cpu::Arithmetic) -> Result<&Weights<cpu::Weight>, OpError> {
        let place = match arithmetic {
            cpu::Arithmetic::Single(_) => 0,
            cpu::Arithmetic::Halves(_) => 1,
        };
        self.on_cpu[place].get_or_init(|| cpu::load(self, arithmetic)).as_ref().map_err(OpError::clone)
    }
}

/// What products are computed in, and on a GPU states too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// bfloat16. On a CPU without instructions for its products (AMX), f32.
    Bf16,
    /// binary16. On a CPU f32.
    F16,
    /// binary32, products too.
    F32,
    /// bfloat16 on a GPU, f32 on a CPU.
    #[default]
    Auto,
}

impl Precision {
    /// What a GPU computes in.
    #[must_use]
    pub fn on_gpu(self) -> Self {
        match self {
            Self::Auto => Self::Bf16,
            Self::Bf16 | Self::F16 | Self::F32 => self,
        }
    }

    /// What this machine's CPU computes in.
    #[must_use]
    pub fn on_cpu(self) -> Self {
        match cpu::Arithmetic::of(self, crate::cpu::halves::Unit::of_machine()) {
            cpu::Arithmetic::Single(_) => Self::F32,
            cpu::Arithmetic::Halves(_) => Self::Bf16,
        }
    }
}

/// Token ids of many texts, and which vectors are wanted of them.
#[derive(Clone, Debug)]
pub struct EncodeRequest {
    /// The encoder.
    pub encoder: Arc<Encoder>,
    /// Ids of all texts, special tokens included.
    pub ids: Vec<u32>,
    /// Kinds of all tokens; empty means all 0.
    pub types: Vec<u32>,
    /// Where each text starts, then the length of `ids`.
    pub offsets: Vec<u32>,
    /// Ranges of `ids` to pool, each to a vector or, with [`Pooling::None`], to a vector a token. A range may span
    /// texts. `None`: each text.
    pub spans: Option<Vec<[u32; 2]>>,
    /// How.
    pub pooling: Pooling,
    /// Leading dimensions to keep, 1 to `hidden`.
    pub dimensions: usize,
    /// Whether to scale to unit length.
    pub normalize: bool,
    /// How vectors are written.
    pub output: Output,
    /// What it is computed in.
    pub precision: Precision,
    /// Whether [`Activation::Gelu`] must be computed through erf also where a GPU has a faster approximation.
    pub exact_gelu: bool,
}

/// The first number that is not below `end`. Their maximum alone says whether there is one, many numbers at a time.
fn first_from(numbers: &[u32], end: usize) -> Option<u32> {
    numbers.iter().copied().max().filter(|most| *most as usize >= end)?;
    numbers.iter().copied().find(|number| *number as usize >= end)
}

/// Vectors of a request, in the order of its spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// One row after the other, as [`Pooled`] says.
    pub bytes: Bytes,
    /// A number a row for [`Output::Int8`], else none.
    pub scales: Vec<f32>,
    /// How many rows.
    pub rows: usize,
}

impl EncodeRequest {
    /// How many texts it has.
    pub fn texts(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Says what is wrong with it. Both backends index memory on the strength of this, so [`Encode`] always asks.
    pub fn check(&self) -> Result<(), OpError> {
        let config = &self.encoder.config;
        self.check_offsets()?;
        let longest = self.offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        if longest as usize > config.max_tokens {
            return invalid(format!("a text has at most {} tokens, got {longest}", config.max_tokens));
        }
        if let Some(id) = first_from(&self.ids, config.vocabulary) {
            return invalid(format!("token id {id} is not below the vocabulary size {}", config.vocabulary));
        }
        if !self.types.is_empty() && self.types.len() != self.ids.len() {
            return invalid(format!("{} ids have {} types", self.ids.len(), self.types.len()));
        }
        if let Some(kind) = first_from(&self.types, config.token_types.max(1)) {
            return invalid(format!("token type {kind} is not below {}", config.token_types.max(1)));
        }
        let outside = |span: &&[u32; 2]| span[0] > span[1] || span[1] as usize > self.ids.len();
        if let Some(span) = self.spans.iter().flatten().find(outside) {
            return invalid(format!("span {span:?} is not within {} tokens", self.ids.len()));
        }
        if !(1..=config.hidden).contains(&self.dimensions) {
            return invalid(format!("dimensions are 1 to {}, got {}", config.hidden, self.dimensions));
        }
        Ok(())
    }

    fn check_offsets(&self) -> Result<(), OpError> {
        let ends = self.offsets.first().copied().zip(self.offsets.last().copied());
        if ends.is_none_or(|(first, last)| first != 0 || last as usize != self.ids.len()) {
            return invalid(format!("offsets go from 0 to {}, got {ends:?}", self.ids.len()));
        }
        match self.offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(at) => invalid(format!("offset {} is below offset {at}", at + 1)),
            None => Ok(()),
        }
    }

    /// How many rows its answer has.
    pub fn row_count(&self) -> usize {
        let tokens = |spans: &[[u32; 2]]| spans.iter().map(|span| span[1].saturating_sub(span[0]) as usize).sum();
        match (&self.spans, self.pooling) {
            (Some(spans), Pooling::None) => tokens(spans),
            (Some(spans), _) => spans.len(),
            (None, Pooling::None) => self.ids.len(),
            (None, _) => self.texts(),
        }
    }

    /// Bytes of its answer.
    pub fn answer_bytes(&self) -> usize {
        self.output.row_bytes(self.dimensions).saturating_mul(self.row_count())
    }

    /// The rows of its answer, where its first token is token `first` of a batch.
    pub fn rows(&self, first: u32) -> Vec<Row> {
        let mut rows = vec![];
        let mut span = |from: u32, to: u32| {
            let mut row = |from: u32, to: u32, reduce| {
                let Self { normalize, output, .. } = *self;
                let dimensions = u32::try_from(self.dimensions).unwrap_or(u32::MAX);
                rows.push(Row { from: first + from, to: first + to, reduce, dimensions, normalize, output });
            };
            match self.pooling {
                Pooling::Mean => row(from, to, Reduce::Mean),
                Pooling::WeightedMean => row(from, to, Reduce::WeightedMean),
                Pooling::Max => row(from, to, Reduce::Max),
                Pooling::Cls => row(from, to.min(from + 1), Reduce::Mean),
                Pooling::Last => row(from.max(to.saturating_sub(1)), to, Reduce::Mean),
                Pooling::None => (from..to).for_each(|token| row(token, token + 1, Reduce::Mean)),
            }
        };
        match &self.spans {
            Some(spans) => spans.iter().for_each(|pair| span(pair[0], pair[1])),
            None => self.offsets.windows(2).for_each(|pair| span(pair[0], pair[1])),
        }
        rows
    }
}

/// Embedding by an encoder.
#[derive(Debug)]
pub struct Encode;

impl Op for Encode {
    const NAME: &'static str = "encode";
    type Request = EncodeRequest;
    type Response = Encoded;
    /// The encoder, and what decides how its numbers come about.
    type Key = (u64, Precision, bool);

    fn key(request: &EncodeRequest) -> Self::Key {
        (request.encoder.id, request.precision, request.exact_gelu)
    }

    /// Texts, and the states of their tokens while a layer is computed.
    fn size(request: &EncodeRequest) -> Size {
        let states = request.encoder.config.token_bytes().saturating_mul(request.ids.len());
        Size { items: request.texts().max(1) as u64, bytes: states.saturating_add(request.answer_bytes()) as u64 }
    }

    /// Ids, and the answer: states are there only while a batch is computed.
    fn held_bytes(request: &EncodeRequest) -> u64 {
        let numbers = request.ids.len() + request.types.len() + request.offsets.len();
        (size_of::<u32>() * numbers).saturating_add(request.answer_bytes()) as u64
    }

    fn run(batch: &[&EncodeRequest], on: &mut Backend) -> Result<Vec<Encoded>, OpError> {
        batch.iter().try_for_each(|request| request.check())?;
        match on {
            Backend::Cpu(worker) => cpu::run(batch, worker),
            Backend::Cuda(worker) => cuda::run(batch, worker),
        }
    }
}
