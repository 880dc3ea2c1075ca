//! The reference implementation in plain f64 loops, with which every backend is compared.

use super::{
    Attention, Batch, Embeddings, EncodeRequest, Encoded, Epilogue, Linear, Model, Norm, NormKind, OutputRow,
    PackedBatch, PooledOutput, Primitives, Reduction, Tensor, forward, pooled,
};
use crate::{OpError, cpu::pace::complete, ops::encode::Activation};

/// A weight and its shape.
type Weight = (Vec<f64>, Vec<usize>);

struct Rows {
    numbers: Vec<f64>,
    width: usize,
}

struct Oracle;

/// Encodes a checked request, rounded only to the output type.
pub fn encode(request: &EncodeRequest) -> Result<Encoded, OpError> {
    run(request, |model, packed| super::encode(&mut Oracle, model, packed).and_then(|pooled| packed.split(pooled)))
        .map(|mut answers| answers.remove(0))
}

/// The unrounded vectors of a checked request, in the order of its rows.
pub fn vectors(request: &EncodeRequest) -> Result<Vec<Vec<f64>>, OpError> {
    run(request, |model, packed| {
        let rows = complete(forward(&mut Oracle, model, &packed.batch))?;
        Ok(packed.rows.iter().map(|row| reduce(&rows, row)).collect())
    })
}

fn run<T>(
    request: &EncodeRequest,
    with: impl FnOnce(&Model<'_, Weight>, &PackedBatch) -> Result<T, OpError>,
) -> Result<T, OpError> {
    let load = &mut |tensor: &Tensor, _| Ok((floats(&tensor.to_f32()), tensor.shape().to_vec()));
    let weights = request.encoder.weights().map::<Weight, OpError>(load)?;
    with(&Model { config: request.encoder.config(), weights: &weights }, &PackedBatch::new(&[request])?)
}

fn floats(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

impl Rows {
    fn map(&self, width: usize, f: impl Fn(usize, &[f64]) -> Vec<f64>) -> Self {
        let rows = self.numbers.chunks_exact(self.width).enumerate();
        Self { numbers: rows.flat_map(|(index, row)| f(index, row)).collect(), width }
    }

    fn row(&self, index: usize) -> &[f64] {
        &self.numbers[index * self.width..][..self.width]
    }

    fn add(&mut self, delta: &Self) {
        self.numbers.iter_mut().zip(&delta.numbers).for_each(|(x, delta)| *x += delta);
    }
}

impl Primitives for Oracle {
    type Weight = Weight;
    type Tensor = Rows;

    async fn embed(
        &mut self,
        batch: &Batch,
        embeddings: &Embeddings<Weight>,
        position_offset: usize,
    ) -> Result<Rows, OpError> {
        let width = embeddings.word_embeddings.1[1];
        let row = |table: &Weight, row: usize| table.0[row * width..][..width].to_vec();
        let mut numbers = vec![];
        for text in batch.cu_seqlens.windows(2) {
            for (position, token) in (text[0] as usize..text[1] as usize).enumerate() {
                let token_type = batch.token_type_ids.get(token).map_or(0, |token_type| *token_type as usize);
                let own_row = batch.position_rows.get(token).map(|row| *row as usize);
                let mut state = row(&embeddings.word_embeddings, batch.ids[token] as usize);
                let rows = [
                    (&embeddings.position_embeddings, own_row.unwrap_or(position_offset + position)),
                    (&embeddings.token_type_embeddings, token_type),
                ];
                for (table, index) in rows {
                    if let Some(table) = table {
                        state.iter_mut().zip(row(table, index)).for_each(|(x, more)| *x += more);
                    }
                }
                numbers.append(&mut state);
            }
        }
        let rows = Rows { numbers, width };
        match &embeddings.norm {
            Some(norm) => self.norm(&rows, norm).await,
            None => Ok(rows),
        }
    }

    async fn linear(&mut self, x: &Rows, linear: &Linear<Weight>, epilogue: Epilogue) -> Result<Rows, OpError> {
        let product = |row: &[f64]| -> Vec<f64> {
            let outputs = linear.weight.0.chunks_exact(linear.inputs).enumerate();
            outputs
                .map(|(index, weights)| {
                    let bias = linear.bias.as_ref().map_or(0.0, |bias| bias.0[index]);
                    row.iter().zip(weights).map(|(x, weight)| x * weight).sum::<f64>() + bias
                })
                .collect()
        };
        let half = linear.outputs / 2;
        Ok(match epilogue {
            Epilogue::Bias => x.map(linear.outputs, |_, row| product(row)),
            Epilogue::Activation(f) => {
                x.map(linear.outputs, |_, row| product(row).into_iter().map(|x| activate(f, x)).collect())
            }
            Epilogue::GatedActivation(f) => x.map(half, |_, row| {
                let both = product(row);
                (0..half).map(|i| activate(f, both[i]) * both[half + i]).collect()
            }),
        })
    }

    async fn attention(&mut self, batch: &Batch, qkv: Rows, params: &Attention<'_, Weight>) -> Result<Rows, OpError> {
        let mut out = Rows { numbers: vec![], width: params.heads * params.head_dim };
        for text in batch.cu_seqlens.windows(2) {
            let rows: Vec<_> = (text[0] as usize..text[1] as usize)
                .enumerate()
                .map(|(position, token)| normalized_and_rotated(qkv.row(token), position, params))
                .collect();
            for query in 0..rows.len() {
                (0..params.heads).for_each(|head| out.numbers.append(&mut attended(&rows, query, head, params)));
            }
        }
        Ok(out)
    }

    async fn norm(&mut self, x: &Rows, norm: &Norm<Weight>) -> Result<Rows, OpError> {
        Ok(x.map(x.width, |_, row| normalized(row, norm)))
    }

    async fn add_norm(&mut self, mut residual: Rows, delta: Rows, norm: &Norm<Weight>) -> Result<Rows, OpError> {
        residual.add(&delta);
        self.norm(&residual, norm).await
    }

    async fn fused_add_norm(&mut self, residual: &mut Rows, delta: Rows, norm: &Norm<Weight>) -> Result<Rows, OpError> {
        residual.add(&delta);
        self.norm(residual, norm).await
    }

    #[expect(clippy::cast_possible_truncation, reason = "the answer is in f32")]
    fn pool(&mut self, hidden_states: &Rows, rows: &[OutputRow]) -> Result<PooledOutput, OpError> {
        let vectors = rows.iter().map(|row| reduce(hidden_states, row).into_iter().map(|x| x as f32).collect());
        Ok(pooled(vectors.collect::<Vec<Vec<f32>>>().iter().map(Vec::as_slice).zip(rows)))
    }
}

/// The query, key and value row of a token after QK norm and rotation.
fn normalized_and_rotated(row: &[f64], position: usize, params: &Attention<'_, Weight>) -> Vec<f64> {
    let queries = params.heads * params.head_dim;
    let keys = params.kv_heads * params.head_dim;
    let (queries, rest) = row.split_at(queries);
    let (keys, values) = rest.split_at(keys);
    let part = |part: &[f64], norm: Option<&Norm<Weight>>| -> Vec<f64> {
        let normalized = norm.map_or_else(
            || part.to_vec(),
            |norm| part.chunks_exact(norm.weight.0.len()).flat_map(|part| normalized(part, norm)).collect(),
        );
        normalized.chunks_exact(params.head_dim).flat_map(|head| rotated(head, position, params)).collect()
    };
    let norms = params.query_norm.map(|(_, queries, keys)| (queries, keys)).unzip();
    [part(queries, norms.0), part(keys, norms.1), values.to_vec()].concat()
}

fn rotated(head: &[f64], position: usize, params: &Attention<'_, Weight>) -> Vec<f64> {
    let mut head = head.to_vec();
    if let Some((table, dims)) = params.rotary {
        let half = dims / 2;
        for i in 0..half {
            let cos = table.0[position * dims + i];
            let sin = table.0[position * dims + half + i];
            (head[i], head[half + i]) = (head[i] * cos - head[half + i] * sin, head[half + i] * cos + head[i] * sin);
        }
    }
    head
}

/// One head of one query.
fn attended(rows: &[Vec<f64>], query: usize, head: usize, params: &Attention<'_, Weight>) -> Vec<f64> {
    let dim = params.head_dim;
    let kv_head = head * params.kv_heads / params.heads;
    let key = (params.heads + kv_head) * dim;
    let value = (params.heads + params.kv_heads + kv_head) * dim;
    let is_visible = |index: usize| {
        (!params.causal || index <= query) && params.window.is_none_or(|distance| index.abs_diff(query) <= distance)
    };
    let scores: Vec<_> = (0..rows.len())
        .filter(|index| is_visible(*index))
        .map(|index| {
            let product: f64 = (0..dim).map(|i| rows[query][head * dim + i] * rows[index][key + i]).sum();
            let entry = head * (2 * params.max_tokens - 1) + index + params.max_tokens - 1 - query;
            let bias = params.relative_bias.map_or(0.0, |table| table.0[entry]);
            let slope = params.slopes.map_or(0.0, |slopes| slopes.0[head] * index.abs_diff(query) as f64);
            (index, product * f64::from(params.scale) + bias - slope)
        })
        .collect();
    let row_max = scores.iter().fold(f64::NEG_INFINITY, |row_max, (_, score)| row_max.max(*score));
    let row_sum: f64 = scores.iter().map(|(_, score)| (score - row_max).exp()).sum();
    let mut attended = vec![0.0; dim];
    for (index, score) in scores {
        let weight = (score - row_max).exp() / row_sum;
        attended.iter_mut().zip(&rows[index][value..]).for_each(|(sum, value)| *sum += weight * value);
    }
    attended
}

fn normalized(row: &[f64], norm: &Norm<Weight>) -> Vec<f64> {
    let count = row.len() as f64;
    let mean = match norm.kind {
        NormKind::Layer => row.iter().sum::<f64>() / count,
        NormKind::Rms => 0.0,
    };
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let factor = (variance + f64::from(norm.epsilon)).sqrt().recip();
    let bias = |index: usize| norm.bias.as_ref().map_or(0.0, |bias| bias.0[index]);
    row.iter().enumerate().map(|(index, x)| (x - mean) * factor * norm.weight.0[index] + bias(index)).collect()
}

fn activate(f: Activation, x: f64) -> f64 {
    match f {
        Activation::Gelu => x / 2.0 * (1.0 + erf(x / 2_f64.sqrt())),
        Activation::GeluTanh => {
            x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Relu => x.max(0.0),
    }
}

/// The error function by its Taylor series; 200 terms suffice up to 4.5, beyond which it is 1 within 2e-10. The sum ends where terms no
/// longer change it.
pub(crate) fn erf(x: f64) -> f64 {
    if x.abs() > 4.5 {
        return x.signum();
    }
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
        if term.abs() < f64::EPSILON * sum.abs() {
            break;
        }
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn reduce(rows: &Rows, row: &OutputRow) -> Vec<f64> {
    let tokens = row.from as usize..row.to as usize;
    let weight = |token: usize| match row.reduce {
        Reduction::WeightedMean => (token - tokens.start + 1) as f64,
        Reduction::Mean | Reduction::Max => 1.0,
    };
    let row_sum: f64 = tokens.clone().map(weight).sum();
    let component = |d: usize| match row.reduce {
        _ if tokens.is_empty() => 0.0,
        Reduction::Max => tokens.clone().map(|token| rows.row(token)[d]).fold(f64::NEG_INFINITY, f64::max),
        Reduction::Mean | Reduction::WeightedMean => {
            tokens.clone().map(|token| rows.row(token)[d] * weight(token)).sum::<f64>() / row_sum
        }
    };
    let vector: Vec<f64> = (0..row.dimensions as usize).map(component).collect();
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    if !row.normalize || length == 0.0 {
        return vector;
    }
    vector.into_iter().map(|x| x / length).collect()
}
