//! Encoders: token ids to vectors, by the transformer models that embed text and code.
//!
//! The forward pass is written once, in [`forward`], over the [`Primitives`] that each backend implements. Sequences are
//! packed without padding. Results are batch-invariant: the bits of a vector depend on its own sequence alone.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use accelerd_ledger::Account;
use bytes::Bytes;

use config::invalid;
use cpu::pooled;
use cpu_copies::{CpuCopies, CpuCopy};

use crate::{Backend, Op, OpError, Size};

mod batch;
mod config;
mod cpu;
mod cpu_copies;
pub(crate) mod cuda;
mod encoder;
pub mod oracle;
mod primitives;
pub mod samples;
pub mod tables;
mod weights;

pub use batch::{PackedBatch, encode};
pub use config::{Activation, EncoderConfig, NormKind, NormPlacement, Pooling, Positions, QkNorm, SlidingWindow};
pub use cpu::{ClassificationHead, HeadActivation, HeadWeights};
pub use encoder::{Model, forward};
pub use primitives::{Attention, Batch, Epilogue, OutputRow, OutputType, PooledOutput, Primitives, Reduction};
pub use weights::{DType, Embeddings, Layer, Linear, Norm, Role, Tensor, Weights};

/// A loaded encoder, shared by every device.
#[derive(Debug)]
pub struct Encoder {
    id: u64,
    config: EncoderConfig,
    weights: Weights<Tensor>,
    cpu_copies: CpuCopies,
}

impl Encoder {
    /// Validates the configuration, and the weights against it.
    pub fn new(config: EncoderConfig, weights: Weights<Tensor>) -> Result<Self, OpError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        config.check()?;
        weights.check(&config)?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { id, config, weights, cpu_copies: CpuCopies::default() })
    }

    /// Unique in the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The configuration.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// The weights on the host.
    pub fn weights(&self) -> &Weights<Tensor> {
        &self.weights
    }

    /// Charges the CPU's copies of the weights to this account; called before the first use.
    pub fn charge_cpu_copies_to(&self, account: Account) {
        self.cpu_copies.charge_to(account);
    }

    /// Drops the CPU's copies of the weights that no batch is using; the next batch packs them again. Returns their bytes.
    pub fn evict_cpu_copies(&self) -> u64 {
        self.cpu_copies.evict()
    }

    /// The weights in the CPU's layout, packed at first use.
    fn on_cpu(&self, arithmetic: cpu::Arithmetic) -> Result<Arc<CpuCopy>, OpError> {
        self.cpu_copies.get_or_pack(self, arithmetic)
    }
}

/// The precision of GEMMs, and on a GPU of hidden states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// bfloat16; on a CPU without AMX, f32.
    Bf16,
    /// binary16; on a CPU, f32.
    F16,
    /// binary32.
    F32,
    /// bfloat16 on a GPU, f32 on a CPU.
    #[default]
    Auto,
}

impl Precision {
    /// The precision on a GPU.
    #[must_use]
    pub fn on_gpu(self) -> Self {
        match self {
            Self::Auto => Self::Bf16,
            Self::Bf16 | Self::F16 | Self::F32 => self,
        }
    }

    /// The precision on this machine's CPU.
    #[must_use]
    pub fn on_cpu(self) -> Self {
        match cpu::Arithmetic::of(self, crate::cpu::gemm_bf16::AmxToken::detect()) {
            cpu::Arithmetic::F32(_) => Self::F32,
            cpu::Arithmetic::Bf16(_) => Self::Bf16,
        }
    }
}

/// Sequences of token ids, and the vectors requested of them.
#[derive(Clone, Debug)]
pub struct EncodeRequest {
    /// The encoder.
    pub encoder: Arc<Encoder>,
    /// Token ids of all sequences, special tokens included.
    pub ids: Vec<u32>,
    /// Token types of all tokens; empty means all 0.
    pub token_type_ids: Vec<u32>,
    /// The start of each sequence, then the length of `ids`.
    pub offsets: Vec<u32>,
    /// Ranges of `ids` to pool, each to one vector or, with [`Pooling::None`], to one per token. A range may span
    /// sequences. `None` pools each sequence.
    pub spans: Option<Vec<[u32; 2]>>,
    /// The pooling.
    pub pooling: Pooling,
    /// Leading dimensions to keep, 1 to `hidden`.
    pub dimensions: usize,
    /// True to scale to unit length.
    pub normalize: bool,
    /// The number format of vectors.
    pub output: OutputType,
    /// The precision.
    pub precision: Precision,
    /// True if a GPU must compute [`Activation::Gelu`] by erf rather than by a faster approximation.
    pub exact_gelu: bool,
}

/// The first number not below `end`. The vectorised maximum finds the common case that there is none.
fn first_from(numbers: &[u32], end: usize) -> Option<u32> {
    numbers.iter().copied().max().filter(|limit| *limit as usize >= end)?;
    numbers.iter().copied().find(|number| *number as usize >= end)
}

/// Vectors of a request, in the order of its spans.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// The rows without gaps, as in [`PooledOutput`].
    pub bytes: Bytes,
    /// A scale per row for [`OutputType::Int8`], else none.
    pub scales: Vec<f32>,
    /// The number of rows.
    pub rows: usize,
}

impl EncodeRequest {
    /// The number of sequences.
    pub fn sequence_count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Validates all bounds that the backends rely on to index memory. [`Encode`] always calls it.
    pub fn check(&self) -> Result<(), OpError> {
        let config = &self.encoder.config;
        self.check_offsets()?;
        let longest = self.offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        if longest as usize > config.max_tokens {
            return invalid(format!("a sequence has at most {} tokens, got {longest}", config.max_tokens));
        }
        if let Some(id) = first_from(&self.ids, config.vocabulary) {
            return invalid(format!("token id {id} is not below the vocabulary size {}", config.vocabulary));
        }
        if !self.token_type_ids.is_empty() && self.token_type_ids.len() != self.ids.len() {
            return invalid(format!("expected {} token types, got {}", self.ids.len(), self.token_type_ids.len()));
        }
        if let Some(token_type) = first_from(&self.token_type_ids, config.token_types.max(1)) {
            return invalid(format!("token type {token_type} is not below {}", config.token_types.max(1)));
        }
        let outside = |span: &&[u32; 2]| span[0] > span[1] || span[1] as usize > self.ids.len();
        if let Some(span) = self.spans.iter().flatten().find(outside) {
            return invalid(format!("span {span:?} exceeds {} tokens", self.ids.len()));
        }
        if !(1..=config.hidden).contains(&self.dimensions) {
            return invalid(format!("dimensions must be 1 to {}, got {}", config.hidden, self.dimensions));
        }
        Ok(())
    }

    fn check_offsets(&self) -> Result<(), OpError> {
        let ends = self.offsets.first().copied().zip(self.offsets.last().copied());
        if ends.is_none_or(|(first, last)| first != 0 || last as usize != self.ids.len()) {
            return invalid(format!("offsets must go from 0 to {}, got {ends:?}", self.ids.len()));
        }
        match self.offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(index) => invalid(format!("offset {} is below offset {index}", index + 1)),
            None => Ok(()),
        }
    }

    /// The number of output rows.
    pub fn row_count(&self) -> usize {
        let tokens = |spans: &[[u32; 2]]| spans.iter().map(|span| span[1].saturating_sub(span[0]) as usize).sum();
        match (&self.spans, self.pooling) {
            (Some(spans), Pooling::None) => tokens(spans),
            (Some(spans), _) => spans.len(),
            (None, Pooling::None) => self.ids.len(),
            (None, _) => self.sequence_count(),
        }
    }

    /// The size of the output in bytes.
    pub fn output_bytes(&self) -> usize {
        self.output.row_bytes(self.dimensions).saturating_mul(self.row_count())
    }

    /// The output rows of a request whose first token is row `first` of a batch.
    pub fn rows(&self, first: u32) -> Vec<OutputRow> {
        let mut rows = vec![];
        let mut span = |from: u32, to: u32| {
            let mut row = |from: u32, to: u32, reduce| {
                let Self { normalize, output, .. } = *self;
                let dimensions = u32::try_from(self.dimensions).unwrap_or(u32::MAX);
                rows.push(OutputRow { from: first + from, to: first + to, reduce, dimensions, normalize, output });
            };
            match self.pooling {
                Pooling::Mean => row(from, to, Reduction::Mean),
                Pooling::WeightedMean => row(from, to, Reduction::WeightedMean),
                Pooling::Max => row(from, to, Reduction::Max),
                Pooling::Cls => row(from, to.min(from + 1), Reduction::Mean),
                Pooling::Last => row(from.max(to.saturating_sub(1)), to, Reduction::Mean),
                Pooling::None => (from..to).for_each(|token| row(token, token + 1, Reduction::Mean)),
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
    /// The encoder, the precision, and exact GELU.
    type Key = (u64, Precision, bool);

    fn key(request: &EncodeRequest) -> Self::Key {
        (request.encoder.id, request.precision, request.exact_gelu)
    }

    /// Sequences, and the hidden states of a running layer.
    fn size(request: &EncodeRequest) -> Size {
        let hidden_states = request.encoder.config.token_bytes().saturating_mul(request.ids.len());
        Size {
            items: request.sequence_count().max(1) as u64,
            bytes: hidden_states.saturating_add(request.output_bytes()) as u64,
        }
    }

    /// Ids and output: hidden states exist only while a batch runs.
    fn held_bytes(request: &EncodeRequest) -> u64 {
        let numbers = request.ids.len() + request.token_type_ids.len() + request.offsets.len();
        (size_of::<u32>() * numbers).saturating_add(request.output_bytes()) as u64
    }

    /// Multiply-adds of the forward pass.
    fn cost(request: &EncodeRequest) -> u64 {
        let lengths = request.offsets.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as usize);
        let config = &request.encoder.config;
        lengths.fold(0_u64, |sum, tokens| sum.saturating_add(config.multiply_adds(tokens))).max(1)
    }

    fn run(batch: &[&EncodeRequest], on: &mut Backend) -> Result<Vec<Encoded>, OpError> {
        batch.iter().try_for_each(|request| request.check())?;
        match on {
            Backend::Cpu(worker) => cpu::run(batch, worker),
            Backend::Cuda(worker) => cuda::run(batch, worker),
        }
    }
}
