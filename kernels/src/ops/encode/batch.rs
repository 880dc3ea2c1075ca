//! Many requests to one batch, and its answer back to theirs.

use bytes::Bytes;

use super::{
    EncodeRequest, Encoded,
    config::invalid,
    encoder::{Model, forward},
    primitives::{Batch, Output, Pooled, Primitives, Row},
};
use crate::OpError;

/// Requests packed for one pass.
#[derive(Debug)]
pub struct Packed {
    /// Their tokens.
    pub batch: Batch,
    /// The rows of all answers, request after request.
    pub rows: Vec<Row>,
    /// How many rows each request has.
    counts: Vec<usize>,
}

impl Packed {
    /// Packs checked requests.
    pub fn new(requests: &[&EncodeRequest]) -> Result<Self, OpError> {
        let tokens: usize = requests.iter().map(|request| request.ids.len()).sum();
        if i32::try_from(tokens).is_err() {
            return invalid(format!("a batch of {tokens} tokens"));
        }
        let mut batch = Batch { ids: Vec::with_capacity(tokens), starts: vec![0], ..Batch::default() };
        let (mut rows, mut counts) = (vec![], vec![]);
        let typed = requests.iter().any(|request| !request.types.is_empty());
        let mut first = 0;
        for request in requests {
            let before = rows.len();
            rows.extend(request.rows(first));
            counts.push(rows.len() - before);
            batch.starts.extend(request.offsets.iter().skip(1).map(|offset| first + offset));
            batch.ids.extend(&request.ids);
            if typed {
                batch.types.extend(&request.types);
                batch.types.resize(batch.ids.len(), 0);
            }
            first += request.offsets.last().copied().unwrap_or(0);
        }
        let lengths = batch.starts.windows(2).map(|pair| pair[1] - pair[0]);
        batch.longest = lengths.max().unwrap_or(0) as usize;
        Ok(Self { batch, rows, counts })
    }

    /// The answer where there are no tokens.
    pub fn zeros(&self) -> Pooled {
        let bytes = self.rows.iter().map(Row::bytes).sum();
        let scales = self.rows.iter().filter(|row| row.output == Output::Int8).count();
        Pooled { bytes: vec![0; bytes], scales: vec![0.0; scales] }
    }

    /// Each request's share of the answer, none of it copied.
    pub fn split(&self, pooled: Pooled) -> Result<Vec<Encoded>, OpError> {
        let bytes = Bytes::from(pooled.bytes);
        let (mut at, mut scale, mut rows) = (0, 0, self.rows.as_slice());
        let mut answers = Vec::with_capacity(self.counts.len());
        for &count in &self.counts {
            let (mine, rest) = rows.split_at(count);
            rows = rest;
            let length: usize = mine.iter().map(Row::bytes).sum();
            let scales = mine.iter().filter(|row| row.output == Output::Int8).count();
            let (Some(_), Some(own)) = (bytes.get(at..at + length), pooled.scales.get(scale..scale + scales)) else {
                return invalid("a backend answered with too few rows".to_owned());
            };
            answers.push(Encoded { bytes: bytes.slice(at..at + length), scales: own.to_vec(), rows: count });
            at += length;
            scale += scales;
        }
        Ok(answers)
    }
}

/// Runs a packed batch: states, then the rows of the answer. A batch without tokens needs no backend.
pub fn encode<P: Primitives>(on: &mut P, model: &Model<'_, P::Weight>, packed: &Packed) -> Result<Pooled, OpError> {
    if packed.batch.ids.is_empty() {
        return Ok(packed.zeros());
    }
    let states = forward(on, model, &packed.batch)?;
    on.pool(&states, &packed.rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Op,
        ops::encode::{Encode, primitives::Reduce, samples},
    };

    fn row(from: u32, to: u32, dimensions: u32, output: Output) -> Row {
        Row { from, to, reduce: Reduce::Mean, dimensions, normalize: false, output }
    }

    #[test]
    fn answers_are_cut_where_their_rows_end() {
        let rows = vec![row(0, 2, 2, Output::Int8), row(2, 3, 1, Output::F32), row(3, 3, 9, Output::Binary)];
        let packed = Packed { batch: Batch::default(), rows, counts: vec![1, 0, 2] };
        let pooled = Pooled { bytes: (0..8).collect(), scales: vec![0.5] };
        let answers = packed.split(pooled).expect("enough rows");
        let parts: Vec<_> = answers.iter().map(|a| (a.bytes.to_vec(), a.scales.clone(), a.rows)).collect();
        assert_eq!(parts[0], (vec![0, 1], vec![0.5], 1));
        assert_eq!(parts[1], (vec![], vec![], 0));
        assert_eq!(parts[2], ((2..8).collect(), vec![], 2));
        assert!(packed.split(Pooled::default()).is_err(), "too few");
        assert_eq!(packed.zeros(), Pooled { bytes: vec![0; 8], scales: vec![0.0] });
    }
    #[test]
    fn a_request_holds_what_comes_and_goes_and_needs_states_only_when_it_runs() {
        let encoder = std::sync::Arc::new(samples::encoder(samples::bert()).expect("a fit description"));
        let request = samples::request(&encoder, &[3, 5]);
        let answer = 2 * 4 * samples::bert().hidden as u64;
        assert_eq!(Encode::held_bytes(&request), 4 * (8 + request.types.len() as u64 + 3) + answer);
        assert!(Encode::size(&request).bytes >= answer + 8 * 4 * samples::bert().hidden as u64);
    }
}
