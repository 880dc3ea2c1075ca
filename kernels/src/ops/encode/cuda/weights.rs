//! The weights of an encoder on a device: tiled, in the format computed in, and in the order that the kernels want.

use super::kernels::{self, Format, PACK, Pack, padded_head};
use crate::{
    OpError,
    cuda::{Args, Buffer, Grid, Worker},
    ops::encode::{Element, Embeddings, Encoder, EncoderConfig, Layer, Linear, Norm, Precision, Tensor, Weights},
};

const THREADS: u32 = 256;
/// Columns of the widest tile of a product: it may read so many rows of a weight.
const WIDEST: usize = 256;

/// A weight on a device.
#[derive(Debug)]
pub(crate) struct Weight {
    buffer: Buffer<u8>,
    /// Rows, with zeros up to whole tiles of a product's columns; numbers, where it is no matrix.
    pub(super) rows: u32,
    /// Tiles in a row.
    pub(super) steps: u32,
    /// Numbers in a row, as it came.
    pub(super) width: usize,
    /// What its numbers are.
    pub(super) format: Format,
    /// What products with it are written in.
    pub(super) out: Format,
}

impl Weight {
    /// Where it lies.
    pub(super) fn address(&self) -> u64 {
        self.buffer.ptr().address()
    }
}

/// An encoder on a device.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) weights: Weights<Weight>,
    pub(super) format: Format,
}

impl Resident {
    /// Uploads all weights, and waits for them.
    pub(super) fn new(encoder: &Encoder, precision: Precision, worker: &Worker) -> Result<Self, OpError> {
        let format = match precision {
            Precision::F32 => Format::F32,
            Precision::F16 => Format::F16,
            Precision::Bf16 | Precision::Auto => Format::Bf16,
        };
        let loader = Loader { worker, format, config: encoder.config() };
        worker.tidy()?;
        let free = worker.free_bytes();
        let weights = loader.weights(encoder.weights()).map_err(|error| whole(error, free))?;
        worker.synchronize()?;
        Ok(Self { weights, format })
    }
}

/// The same error with the need of all weights up to the one that did not fit, where `before` bytes were free.
fn whole(error: OpError, before: u64) -> OpError {
    match error {
        OpError::OutOfMemory { device, requested, free } => {
            let requested = requested.saturating_add(before.saturating_sub(free));
            OpError::OutOfMemory { device, requested, free: before }
        }
        OpError::Invalid(_) | OpError::Failed { .. } | OpError::DeviceLost { .. } => error,
    }
}

/// How rows or columns of a tensor are put in order.
#[derive(Clone, Copy)]
enum Order {
    /// As they are.
    Plain,
    /// Heads, each padded.
    Heads { head: usize, padded: usize },
    /// Turns of 8 of the first and of the second half.
    Halves { half: usize },
}

impl Order {
    /// How many there are afterwards, where there are `count`, and tiles have `columns`.
    fn count(self, count: usize, columns: usize) -> usize {
        match self {
            Self::Plain => count.next_multiple_of(columns),
            Self::Heads { head, padded } => (count / head * padded).next_multiple_of(columns),
            Self::Halves { half } => 2 * half.next_multiple_of(columns),
        }
    }

    /// Head and padded head, as kernels take them.
    fn heads(self) -> (usize, usize) {
        match self {
            Self::Heads { head, padded } => (head, padded),
            Self::Plain | Self::Halves { .. } => (1, 1),
        }
    }

    /// Which of `count` comes to place `at`.
    fn source(self, at: usize, count: usize) -> Option<usize> {
        let source = match self {
            Self::Halves { half } => {
                let turn = at / 16 * 8 + at % 8;
                (turn < half).then_some(if at % 16 < 8 { turn } else { turn + half })
            }
            Self::Plain | Self::Heads { .. } => {
                let (head, padded) = self.heads();
                (at % padded < head).then_some(at / padded * head + at % padded)
            }
        };
        source.filter(|source| *source < count)
    }
}

struct Loader<'a> {
    worker: &'a Worker,
    format: Format,
    config: &'a EncoderConfig,
}

impl Loader<'_> {
    fn weights(&self, from: &Weights<Tensor>) -> Result<Weights<Weight>, OpError> {
        let exact = |numbers: &Option<Tensor>| numbers.as_ref().map(|numbers| self.exact(numbers)).transpose();
        let Embeddings { words, positions, types, norm } = &from.embeddings;
        Ok(Weights {
            embeddings: Embeddings {
                words: self.table(words)?,
                positions: positions.as_ref().map(|table| self.table(table)).transpose()?,
                types: types.as_ref().map(|table| self.table(table)).transpose()?,
                norm: self.norm_option(norm.as_ref())?,
            },
            rotary: exact(&from.rotary)?,
            local_rotary: exact(&from.local_rotary)?,
            relative_bias: exact(&from.relative_bias)?,
            slopes: exact(&from.slopes)?,
            layers: from.layers.iter().map(|layer| self.layer(layer)).collect::<Result<_, _>>()?,
            final_norm: self.norm_option(from.final_norm.as_ref())?,
        })
    }

    fn layer(&self, from: &Layer<Tensor>) -> Result<Layer<Weight>, OpError> {
        let head = self.config.head_dim;
        let heads = Order::Heads { head, padded: padded_head(self.format, head) };
        let up = if self.config.gated { Order::Halves { half: self.config.intermediate } } else { Order::Plain };
        Ok(Layer {
            attention_norm: self.norm_option(from.attention_norm.as_ref())?,
            qkv: self.qkv(&from.qkv, heads)?,
            query_norm: self.norm_option(from.query_norm.as_ref())?,
            key_norm: self.norm_option(from.key_norm.as_ref())?,
            output: self.linear(&from.output, Order::Plain, heads)?,
            mlp_norm: self.norm(&from.mlp_norm)?,
            up: self.linear(&from.up, up, Order::Plain)?,
            down: self.linear(&from.down, Order::Plain, Order::Plain)?,
        })
    }

    /// Written in what attention takes.
    fn qkv(&self, from: &Linear<Tensor>, heads: Order) -> Result<Linear<Weight>, OpError> {
        let mut linear = self.linear(from, heads, Order::Plain)?;
        if kernels::attend(self.format, self.config.head_dim, self.worker.compute_capability()).is_some() {
            linear.weight.out = Format::F16;
        }
        Ok(linear)
    }

    fn linear(&self, from: &Linear<Tensor>, rows: Order, columns: Order) -> Result<Linear<Weight>, OpError> {
        Ok(Linear {
            weight: self.pack(&from.weight, rows, columns, None)?,
            bias: from.bias.as_ref().map(|bias| self.numbers(bias, rows)).transpose()?,
            inputs: from.inputs,
            outputs: from.outputs,
        })
    }

    fn norm_option(&self, from: Option<&Norm<Tensor>>) -> Result<Option<Norm<Weight>>, OpError> {
        from.map(|norm| self.norm(norm)).transpose()
    }

    fn norm(&self, from: &Norm<Tensor>) -> Result<Norm<Weight>, OpError> {
        Ok(Norm {
            kind: from.kind,
            epsilon: from.epsilon,
            weight: self.exact(&from.weight)?,
            bias: from.bias.as_ref().map(|bias| self.exact(bias)).transpose()?,
        })
    }

    /// A table with rows of whole tiles' width: as it came, if the kernels read that, else f32. So nothing of it is
    /// rounded before it is added.
    fn table(&self, from: &Tensor) -> Result<Weight, OpError> {
        let kept = if format_of(from.element()) == self.format { self.format } else { Format::F32 };
        self.pack(from, Order::Plain, Order::Plain, Some(kept))
    }

    /// f32, with zeros up to whole tiles of a row.
    fn exact(&self, from: &Tensor) -> Result<Weight, OpError> {
        self.numbers(from, Order::Plain)
    }

    /// f32 in an order, with zeros up to whole tiles of a product's columns.
    fn numbers(&self, from: &Tensor, order: Order) -> Result<Weight, OpError> {
        let numbers = from.to_f32();
        let count = order.count(numbers.len(), self.format.columns()).next_multiple_of(WIDEST);
        let at = |at| order.source(at, numbers.len()).map_or(0.0, |source| numbers[source]);
        let ordered: Vec<f32> = (0..count).map(at).collect();
        let buffer = self.worker.upload_new::<u8>(bytemuck::cast_slice(&ordered))?;
        Ok(Weight { buffer, rows: fit(count)?, steps: 0, width: numbers.len(), format: Format::F32, out: self.format })
    }

    /// A matrix `[rows, columns]` in tiles, or, where `flat` says in what, row after row.
    fn pack(&self, from: &Tensor, rows: Order, columns: Order, flat: Option<Format>) -> Result<Weight, OpError> {
        let &[from_rows, from_columns] = from.shape() else {
            return Err(OpError::Invalid(format!("a matrix of shape {:?}", from.shape())));
        };
        let tile = self.format.columns();
        let to_rows = if flat.is_some() { from_rows } else { rows.count(from_rows, tile) };
        let stored_rows = if flat.is_some() { to_rows } else { to_rows.next_multiple_of(WIDEST) };
        let format = flat.unwrap_or(self.format);
        let steps = columns.count(from_columns, tile) / format.columns();
        let source = self.worker.upload_new::<u8>(from.bytes())?;
        let buffer = self.worker.alloc::<u8>(stored_rows * steps * 128)?;
        let half = if let Order::Halves { half } = rows { half } else { 0 };
        let pack = Pack {
            from: source.ptr().address(),
            to: buffer.ptr().address(),
            from_rows: fit(from_rows)?,
            from_columns: fit(from_columns)?,
            from_type: format_of(from.element()) as u32,
            to_type: format as u32,
            to_rows: fit(stored_rows)?,
            steps: fit(steps)?,
            head: fit(rows.heads().0)?,
            padded: fit(rows.heads().1)?,
            half: fit(half)?,
            column_head: fit(columns.heads().0)?,
            column_padded: fit(columns.heads().1)?,
            flat: flat.is_some().into(),
        };
        let blocks = fit((stored_rows * steps * 8).div_ceil(THREADS as usize))?;
        self.worker.launch(&PACK, Grid::x(blocks), THREADS, 0, &mut Args::new().value(pack))?;
        Ok(Weight { buffer, rows: fit(to_rows)?, steps: fit(steps)?, width: from_columns, format, out: self.format })
    }
}

fn format_of(element: Element) -> Format {
    match element {
        Element::F32 => Format::F32,
        Element::F16 => Format::F16,
        Element::Bf16 => Format::Bf16,
    }
}

/// A size that kernels count in 32 bits.
pub(super) fn fit(size: usize) -> Result<u32, OpError> {
    u32::try_from(size).map_err(|_| OpError::Invalid(format!("{size} of something that is counted in 32 bits")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_fit_is_named_with_all_that_was_loaded_before_it() {
        let device = crate::DeviceId::Cuda(0);
        let last = OpError::OutOfMemory { device, requested: 300, free: 200 };
        assert_eq!(whole(last, 1_000), OpError::OutOfMemory { device, requested: 1_100, free: 1_000 });
        assert_eq!(whole(OpError::Invalid("no".to_owned()), 1_000), OpError::Invalid("no".to_owned()));
    }

    #[test]
    fn rows_come_in_heads_and_in_turns_of_halves() {
        let heads = Order::Heads { head: 3, padded: 4 };
        assert_eq!(heads.count(6, 8), 8);
        let sources: Vec<_> = (0..8).map(|at| heads.source(at, 6)).collect();
        assert_eq!(sources, [Some(0), Some(1), Some(2), None, Some(3), Some(4), Some(5), None]);
        let halves = Order::Halves { half: 12 };
        assert_eq!(halves.count(24, 64), 128);
        assert_eq!(
            [0, 7, 8, 15, 16, 19, 20, 24].map(|at| halves.source(at, 24)),
            [Some(0), Some(7), Some(12), Some(19), Some(8), Some(11), None, Some(20)]
        );
        assert_eq!(
            (Order::Plain.count(65, 64), Order::Plain.source(64, 65), Order::Plain.source(65, 65)),
            (128, Some(64), None)
        );
    }
}
