//! Packs requests into one batch, and splits its output among them.

use bytes::Bytes;

use super::{
    EncodeRequest, Encoded,
    config::{EncoderConfig, invalid},
    encoder::{Model, forward},
    primitives::{Batch, OutputRow, OutputType, PooledOutput, Primitives},
};
use crate::{OpError, cpu::pace::complete};

/// Requests packed for one forward pass.
#[derive(Debug)]
pub struct PackedBatch {
    /// The tokens.
    pub batch: Batch,
    /// The output rows of all requests, in order.
    pub rows: Vec<OutputRow>,
    /// Rows per request.
    counts: Vec<usize>,
}

impl PackedBatch {
    /// Packs checked requests.
    pub fn new(requests: &[&EncodeRequest]) -> Result<Self, OpError> {
        let tokens: usize = requests.iter().map(|request| request.ids.len()).sum();
        if i32::try_from(tokens).is_err() {
            return invalid(format!("a batch of {tokens} tokens"));
        }
        let mut batch = Batch { ids: Vec::with_capacity(tokens), cu_seqlens: vec![0], ..Batch::default() };
        let mut rows = vec![];
        let mut counts = vec![];
        let has_token_types = requests.iter().any(|request| !request.token_type_ids.is_empty());
        let mut first = 0;
        for request in requests {
            let before = rows.len();
            rows.extend(request.rows(first));
            counts.push(rows.len() - before);
            batch.cu_seqlens.extend(request.offsets.iter().skip(1).map(|offset| first + offset));
            batch.ids.extend(&request.ids);
            if has_token_types {
                batch.token_type_ids.extend(&request.token_type_ids);
                batch.token_type_ids.resize(batch.ids.len(), 0);
            }
            first += request.offsets.last().copied().unwrap_or(0);
        }
        let config = requests.first().map(|request| request.encoder.config());
        batch.position_rows = config.map(|config| position_rows(&batch, config)).unwrap_or_default();
        let lengths = batch.cu_seqlens.windows(2).map(|pair| pair[1] - pair[0]);
        batch.max_seqlen = lengths.max().unwrap_or(0) as usize;
        Ok(Self { batch, rows, counts })
    }

    /// The output of a batch without tokens.
    pub fn zeros(&self) -> PooledOutput {
        let bytes = self.rows.iter().map(OutputRow::bytes).sum();
        let scales = self.rows.iter().filter(|row| row.output == OutputType::Int8).count();
        PooledOutput { bytes: vec![0; bytes], scales: vec![0.0; scales] }
    }

    /// Splits the output among the requests, without copying rows.
    pub fn split(&self, pooled: PooledOutput) -> Result<Vec<Encoded>, OpError> {
        let bytes = Bytes::from(pooled.bytes);
        let mut offset = 0;
        let mut scale = 0;
        let mut rows = self.rows.as_slice();
        let mut answers = Vec::with_capacity(self.counts.len());
        for &count in &self.counts {
            let (own_rows, rest) = rows.split_at(count);
            rows = rest;
            let length: usize = own_rows.iter().map(OutputRow::bytes).sum();
            let scales = own_rows.iter().filter(|row| row.output == OutputType::Int8).count();
            let (Some(_), Some(own_scales)) =
                (bytes.get(offset..offset + length), pooled.scales.get(scale..scale + scales))
            else {
                return invalid("a backend returned too few rows".to_owned());
            };
            answers.push(Encoded {
                bytes: bytes.slice(offset..offset + length),
                scales: own_scales.to_vec(),
                rows: count,
            });
            offset += length;
            scale += scales;
        }
        Ok(answers)
    }
}

/// The rows of the position embeddings of a batch with padding tokens; empty for any other batch.
fn position_rows(batch: &Batch, config: &EncoderConfig) -> Vec<u32> {
    let Some(padding) = config.padding_id().filter(|padding| batch.ids.contains(padding)) else { return vec![] };
    let mut rows = Vec::with_capacity(batch.ids.len());
    for ends in batch.cu_seqlens.windows(2) {
        let mut row = padding;
        for id in &batch.ids[ends[0] as usize..ends[1] as usize] {
            row += u32::from(*id != padding);
            rows.push(if *id == padding { padding } else { row });
        }
    }
    rows
}

/// Runs a packed batch: the forward pass, then pooling. A batch without tokens runs nothing.
pub fn encode<P: Primitives>(
    on: &mut P,
    model: &Model<'_, P::Weight>,
    packed: &PackedBatch,
) -> Result<PooledOutput, OpError> {
    if packed.batch.ids.is_empty() {
        return Ok(packed.zeros());
    }
    let hidden_states = complete(forward(on, model, &packed.batch))?;
    on.pool(&hidden_states, &packed.rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Op,
        ops::encode::{Encode, Positions, primitives::Reduction, samples},
    };

    fn row(from: u32, to: u32, dimensions: u32, output: OutputType) -> OutputRow {
        OutputRow { from, to, reduce: Reduction::Mean, dimensions, normalize: false, output }
    }

    #[test]
    fn output_is_split_at_request_boundaries() {
        let rows =
            vec![row(0, 2, 2, OutputType::Int8), row(2, 3, 1, OutputType::F32), row(3, 3, 9, OutputType::Binary)];
        let packed = PackedBatch { batch: Batch::default(), rows, counts: vec![1, 0, 2] };
        let pooled = PooledOutput { bytes: (0..8).collect(), scales: vec![0.5] };
        let answers = packed.split(pooled).expect("enough rows");
        let parts: Vec<_> = answers.iter().map(|a| (a.bytes.to_vec(), a.scales.clone(), a.rows)).collect();
        assert_eq!(parts[0], (vec![0, 1], vec![0.5], 1));
        assert_eq!(parts[1], (vec![], vec![], 0));
        assert_eq!(parts[2], ((2..8).collect(), vec![], 2));
        assert!(packed.split(PooledOutput::default()).is_err(), "too few");
        assert_eq!(packed.zeros(), PooledOutput { bytes: vec![0; 8], scales: vec![0.0] });
    }

    #[test]
    fn padding_tokens_within_texts_do_not_advance_positions() {
        let roberta = EncoderConfig { position_offset: 2, ..samples::bert() };
        let batch = |ids: &[u32], cu_seqlens: &[u32]| Batch {
            ids: ids.to_vec(),
            cu_seqlens: cu_seqlens.to_vec(),
            ..Batch::default()
        };
        let padded = batch(&[0, 7, 1, 1, 8, 1, 5, 9], &[0, 5, 5, 8]);
        assert_eq!(position_rows(&padded, &roberta), [2, 3, 1, 1, 4, 1, 2, 3], "of each text on its own");
        assert_eq!(position_rows(&batch(&[0, 7, 8], &[0, 3]), &roberta), [0; 0], "no padding token");
        assert_eq!(position_rows(&padded, &samples::bert()), [0; 0], "positions that start at 0");
        let rotary = Positions::Rotary { theta: 1e4, local_theta: 1e4, dims: 16 };
        let without_rows = EncoderConfig { positions: rotary, ..roberta };
        assert_eq!(position_rows(&padded, &without_rows), [0; 0], "no position embeddings");
    }

    #[test]
    fn held_bytes_are_input_and_output_without_hidden_states() {
        let encoder = std::sync::Arc::new(samples::encoder(samples::bert()).expect("a fit description"));
        let request = samples::request(&encoder, &[3, 5]);
        let answer = 2 * 4 * samples::bert().hidden as u64;
        assert_eq!(Encode::held_bytes(&request), 4 * (8 + request.token_type_ids.len() as u64 + 3) + answer);
        assert!(Encode::size(&request).bytes >= answer + 8 * 4 * samples::bert().hidden as u64);
    }
}
