//! Cross-encoders with every kind of classification head against PyTorch's logits, in every precision; batch invariance of
//! scores.

use std::{fs, sync::Arc};

use accelerd_kernels::{
    Backend,
    ops::encode::{ClassificationHead, EncodeRequest, OutputType, Precision},
};
use accelerd_models::{Model, hf::Reranker};
use accelerd_parity::{encoders, pytorch_rerankers};
use serde_json::Value;

use super::{
    Case,
    encode::{MIN_COSINE_16_BIT, MIN_COSINE_F32, bar_of_bf16, run, used, vectors},
};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("encode::scores_are_batch_invariant", batch_invariance)];
    for name in pytorch_rerankers() {
        for precision in [Precision::Bf16, Precision::F16, Precision::F32] {
            let case = format!("encode::{}_{precision:?}", name.replacen('-', "_", 1)).to_lowercase();
            let name = name.clone();
            cases.push(Case::new(case, move |backend: &mut Backend| pytorch(&name, precision, backend)));
        }
    }
    cases
}

/// A model, its pairs as one request, and their logits.
struct Pairs {
    head: Arc<ClassificationHead>,
    request: EncodeRequest,
    logits: Vec<f64>,
}

fn pairs(name: &str, precision: Precision) -> Result<Pairs, String> {
    let folder = encoders().join(name);
    let model = Model::load(name, &folder).map_err(|e| e.to_string())?;
    let (encoder, Reranker { head, .. }) = model.reranker().ok_or("it has no head")?;
    let json = fs::read(folder.join("expected.json")).map_err(|e| e.to_string())?;
    let json: Value = serde_json::from_slice(&json).map_err(|e| e.to_string())?;
    let lists = |name: &str| -> Result<Vec<Vec<u32>>, String> {
        serde_json::from_value(json[name].clone()).map_err(|e| format!("{name}: {e}"))
    };
    let ids = lists("ids")?;
    let types = lists("types")?;
    let ends = ids.iter().scan(0, |end, ids| {
        *end += u32::try_from(ids.len()).expect("a short pair");
        Some(*end)
    });
    let request = EncodeRequest {
        encoder: Arc::clone(&encoder.encoder),
        offsets: [0].into_iter().chain(ends).collect(),
        token_type_ids: types.concat(),
        ids: ids.concat(),
        spans: None,
        pooling: head.pooling(),
        dimensions: head.hidden(),
        normalize: false,
        output: OutputType::F32,
        precision,
        exact_gelu: true,
    };
    let logits = serde_json::from_value(json["logits"].clone()).map_err(|e| e.to_string())?;
    Ok(Pairs { head: Arc::clone(head), request, logits })
}

/// The pooled hidden states of each request's pairs.
fn states(requests: &[EncodeRequest], backend: &mut Backend) -> Result<Vec<Vec<f32>>, String> {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
    };
    Ok(run(requests, backend)?.iter().map(|answer| floats(&answer.bytes)).collect())
}

/// Compares scores with logits. A score's tolerance is the encoder's, propagated through the head.
fn pytorch(name: &str, precision: Precision, backend: &mut Backend) -> Result<(), String> {
    let Pairs { head, request, logits } = pairs(name, precision)?;
    let states = states(std::slice::from_ref(&request), backend)?.remove(0);
    let bar = match used(precision, backend) {
        Precision::F32 => MIN_COSINE_F32,
        Precision::F16 => MIN_COSINE_16_BIT,
        Precision::Bf16 | Precision::Auto => MIN_COSINE_16_BIT.min(bar_of_bf16(&request, &exact(&request)?)?),
    };
    let share = (2.0 - 2.0 * bar).sqrt();
    let scores = head.scores(&states).map_err(|e| e.to_string())?;
    if scores.len() != logits.len() {
        return Err(format!("expected {} scores, got {}", logits.len(), scores.len()));
    }
    for (index, (state, (score, logit))) in states.chunks(head.hidden()).zip(scores.iter().zip(logits)).enumerate() {
        let limit = share * sensitivity(&head, state)? + 1e-5;
        let apart = (f64::from(*score) - logit).abs();
        if apart.is_nan() || apart > limit {
            return Err(format!("pair {index} is {score}, expected {logit}, tolerance {limit}"));
        }
    }
    Ok(())
}

fn exact(request: &EncodeRequest) -> Result<Vec<Vec<f64>>, String> {
    let expected = accelerd_kernels::ops::encode::oracle::encode(request).map_err(|e| e.to_string())?;
    Ok(vectors(&expected.bytes, request.dimensions))
}

/// The first-order sensitivity of a score to its hidden state: the length of the state times the length of the score's
/// gradient.
fn sensitivity(head: &ClassificationHead, state: &[f32]) -> Result<f64, String> {
    const STEP: f32 = 1e-2;
    let moved = |step: f32| -> Vec<f32> {
        let one = |at: usize| state.iter().enumerate().map(move |(i, x)| if i == at { x + step } else { *x });
        (0..state.len()).flat_map(one).collect()
    };
    let up = head.scores(&moved(STEP));
    let down = head.scores(&moved(-STEP));
    let up = up.map_err(|e| e.to_string())?;
    let down = down.map_err(|e| e.to_string())?;
    let slopes = up.iter().zip(&down).map(|(up, down)| f64::from(up - down) / f64::from(2.0 * STEP));
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>();
    let length = squares(&mut state.iter().map(|x| f64::from(*x)));
    Ok((length * squares(&mut { slopes })).sqrt())
}

/// A pair alone, and in a batch of many copies of all pairs.
fn batch_invariance(backend: &mut Backend) -> Result<(), String> {
    let kinds = [
        ("reranker-bert", Precision::Bf16),
        ("reranker-modernbert-mean", Precision::F16),
        ("reranker-roberta", Precision::F32),
    ];
    for (name, precision) in kinds {
        let Pairs { head, request, .. } = pairs(name, precision)?;
        let crowd = states(&vec![request.clone(); 30], backend)?.concat();
        let crowd = head.scores(&crowd).map_err(|e| e.to_string())?;
        for (index, ends) in request.offsets.windows(2).enumerate() {
            let tokens = ends[0] as usize..ends[1] as usize;
            let alone = EncodeRequest {
                ids: request.ids[tokens.clone()].to_vec(),
                token_type_ids: request.token_type_ids[tokens].to_vec(),
                offsets: vec![0, ends[1] - ends[0]],
                ..request.clone()
            };
            let alone = head.scores(&states(&[alone], backend)?[0]).map_err(|e| e.to_string())?[0];
            let same = crowd.chunks(request.sequence_count()).all(|scores| scores[index].to_bits() == alone.to_bits());
            if !same {
                return Err(format!("{name} {precision:?}: pair {index} differs in a batch"));
            }
        }
    }
    Ok(())
}
