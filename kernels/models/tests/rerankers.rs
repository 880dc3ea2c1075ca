//! Compares pairs of cross-encoders with their tokenisers', and scores with PyTorch's, for every architecture.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use accelerd_kernels::{
    Backend, Op, cpu,
    ops::encode::{Encode, EncodeRequest, OutputType, Pooling, Precision},
};
use accelerd_models::{
    Model, Sequences, TokenizeError,
    hf::{self, LoadError},
};
use serde::Deserialize;

/// The names of the test models, one per head and architecture.
fn architectures() -> Vec<String> {
    let folders = fs::read_dir(folder("").with_file_name("")).expect("a folder").map(|entry| entry.expect("an entry"));
    let names: Vec<_> = folders
        .filter_map(|folder| folder.file_name().to_str()?.strip_prefix("reranker-").map(str::to_owned))
        .collect();
    assert!(names.len() >= 9, "as many as there are kinds of heads: {names:?}");
    names
}

/// The output of `rerankers.py`.
#[derive(Deserialize)]
struct Expected {
    query: String,
    documents: Vec<String>,
    ids: Vec<Vec<u32>>,
    types: Vec<Vec<u32>>,
    logits: Vec<f32>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/encoders/reranker-{name}"))
}

fn expected(name: &str) -> Expected {
    let bytes = fs::read(folder(name).join("expected.json")).expect("it is there");
    serde_json::from_slice(&bytes).expect("what the script writes")
}

fn model(name: &str) -> Model {
    Model::load(name, &folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The pairs of a query with documents.
fn pairs(model: &Model, query: &str, documents: &[String], limit: Option<usize>) -> Result<Sequences, TokenizeError> {
    let (encoder, _) = model.reranker().expect("a cross-encoder");
    let query = encoder.query(query, limit)?;
    let mut pairs = Sequences::default();
    documents.iter().try_for_each(|document| encoder.pair(&query, document, &mut pairs))?;
    Ok(pairs)
}

fn scores(model: &Model, pairs: &Sequences) -> Vec<f32> {
    let (encoder, reranker) = model.reranker().expect("a cross-encoder");
    let request = EncodeRequest {
        encoder: Arc::clone(&encoder.encoder),
        ids: pairs.ids.clone(),
        token_type_ids: pairs.types.clone(),
        offsets: pairs.offsets.clone(),
        spans: None,
        pooling: reranker.head.pooling(),
        dimensions: reranker.head.hidden(),
        normalize: false,
        output: OutputType::F32,
        precision: Precision::F32,
        exact_gelu: true,
    };
    let mut backend = Backend::Cpu(cpu::Worker::new(cpu::Pool::start(2).expect("two threads")));
    let states: Vec<_> = Encode::run(&[&request], &mut backend)
        .expect("a fit batch")
        .remove(0)
        .bytes
        .chunks_exact(4)
        .map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]))
        .collect();
    reranker.head.scores(&states).expect("whole states")
}

#[test]
fn pairs_of_every_architecture_are_those_of_its_tokeniser() {
    for name in architectures() {
        let model = model(&name);
        let expected = expected(&name);
        let got = pairs(&model, &expected.query, &expected.documents, None).expect("pairs");
        assert_eq!(got.texts(), expected.documents.len());
        for (text, ids) in expected.ids.iter().enumerate() {
            let tokens = got.tokens(text);
            assert_eq!(got.ids[tokens.clone()], **ids, "{name}: ids of pair {text}");
            let types = got.types.get(tokens).map_or_else(|| vec![0; ids.len()], <[u32]>::to_vec);
            assert_eq!(types, expected.types[text], "{name}: types of pair {text}");
        }
        let longest = expected.ids.iter().map(Vec::len).max();
        assert_eq!(longest, model.limits().map(|(limit, _)| limit), "{name} is tried to its limit");
    }
}

#[test]
fn scores_of_every_architecture_are_those_of_pytorch() {
    for name in architectures() {
        let model = model(&name);
        let expected = expected(&name);
        let pairs = pairs(&model, &expected.query, &expected.documents, None).expect("pairs");
        let got = scores(&model, &pairs);
        assert_eq!(got.len(), expected.logits.len(), "{name}");
        for (index, (got, expected)) in got.iter().zip(&expected.logits).enumerate() {
            assert!((got - expected).abs() < 2e-4, "{name}: pair {index} is {expected}, got {got}");
        }
    }
}

#[test]
fn a_score_does_not_depend_on_the_batch() {
    let model = model("bert");
    let expected = expected("bert");
    let together = scores(&model, &pairs(&model, &expected.query, &expected.documents, None).expect("pairs"));
    for (document, score) in expected.documents.iter().zip(together) {
        let alone = pairs(&model, &expected.query, std::slice::from_ref(document), None).expect("a pair");
        assert_eq!(scores(&model, &alone)[0].to_bits(), score.to_bits(), "{document}");
    }
}

#[test]
fn only_documents_are_truncated_and_a_too_long_query_is_rejected() {
    let model = model("bert");
    let ids = |query: &str, limit| {
        let document = ["d e f g".to_owned()];
        pairs(&model, query, &document, limit).map(|pairs| (pairs.ids, pairs.types))
    };
    let cut = ids("a b", Some(7)).expect("two tokens of the document");
    assert_eq!(cut, (vec![2, 5, 6, 3, 8, 9, 3], vec![0, 0, 0, 0, 1, 1, 1]));
    let without = ids("", Some(5)).expect("an empty query is short");
    assert_eq!(without.0, [2, 3, 8, 9, 3]);
    let least = ids("a b", Some(6)).expect("one token of the document");
    assert_eq!(least.0, [2, 5, 6, 3, 8, 3]);
    assert_eq!(ids("a b", Some(5)), Err(TokenizeError::LongQuery { most: 1, limit: 5, tokens: 2 }));
    let whole = "a ".repeat(40);
    let refused = ids(&whole, None).expect_err("as many tokens as a pair may have");
    let reason = "expected a query of at most 36 tokens, so that a pair of 40 has room for a document, got 40";
    assert_eq!(refused.to_string(), reason);
    assert_eq!(ids("a", Some(3)), Err(TokenizeError::LongQuery { most: 0, limit: 3, tokens: 1 }));
    assert!(ids("a b", Some(1000)).is_ok(), "a limit above the model's own is the model's own");
}

#[test]
fn activations_are_read_in_the_format_of_every_version() {
    let sigmoid = |folder: &Path| hf::load(folder).expect("a model").reranker.expect("a head").sigmoid;
    assert!(!sigmoid(&folder("bert")), "the old spelling in config.json");
    assert!(sigmoid(&folder("xlm-roberta")), "the new spelling in config.json");
    assert!(sigmoid(&folder("roberta")), "said nowhere");
    let copy = copy_of("roberta");
    let beside = copy.path().join("config_sentence_transformers.json");
    fs::write(&beside, r#"{"activation_fn": "torch.nn.modules.linear.Identity"}"#).expect("written");
    assert!(!sigmoid(copy.path()), "beside config.json");
    fs::write(&beside, r#"{"activation_fn": "torch.nn.modules.activation.Softplus"}"#).expect("written");
    let other = hf::load(copy.path()).expect_err("another function").to_string();
    assert_eq!(other, "a score through \"torch.nn.modules.activation.Softplus\" is not supported");
}

#[test]
fn the_default_prompt_precedes_only_the_query() {
    let copy = copy_of("bert");
    let transformer = r#"[{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""}]"#;
    fs::write(copy.path().join("modules.json"), transformer).expect("written");
    let of = |settings: &str| {
        fs::write(copy.path().join("config_sentence_transformers.json"), settings).expect("written");
        Model::load("prompted", copy.path())
    };
    let documents = ["parse a date".to_owned(), String::new()];
    let ids = |model: &Model, query: &str| pairs(model, query, &documents, None).expect("pairs").ids;
    let plain = model("bert");
    let prompts = r#""model_type": "CrossEncoder", "prompts": {"find": "the def ", "none": ""}"#;
    let prompted = of(&format!(r#"{{{prompts}, "default_prompt_name": "find"}}"#)).expect("a model");
    assert_eq!(ids(&prompted, "of a file"), ids(&plain, "the def of a file"));
    assert_eq!(ids(&prompted, ""), ids(&plain, "the def "));
    for other in [
        r#"{PROMPTS, "default_prompt_name": "none"}"#,
        r#"{PROMPTS, "default_prompt_name": null}"#,
        "{PROMPTS}",
        // sentence-transformers loads it as a cross-encoder and ignores its settings.
        r#"{"prompts": {"find": "the def "}, "default_prompt_name": "find"}"#,
    ] {
        let unprompted = of(&other.replace("PROMPTS", prompts)).expect("a model");
        assert_eq!(ids(&unprompted, "of a file"), ids(&plain, "of a file"), "{other}");
    }
    let unknown = of(&format!(r#"{{{prompts}, "default_prompt_name": "search"}}"#)).expect_err("no such prompt");
    assert!(
        unknown.to_string().contains("has default_prompt_name \"search\", and these prompts: find, none"),
        "{unknown}"
    );
    let prompted = of(&format!(r#"{{{prompts}, "default_prompt_name": "find"}}"#));
    fs::remove_file(copy.path().join("modules.json")).expect("removed");
    let bare = Model::load("bare", copy.path()).expect("a model");
    assert_ne!(ids(&prompted.expect("a model"), "of a file"), ids(&bare, "of a file"), "nor without modules");
}

fn copy_of(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(folder(name)).expect("a folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
    }
    copy
}

/// Replaces text in a file of a copy.
fn replace(copy: &tempfile::TempDir, file: &str, from: &str, to: &str) {
    let path = copy.path().join(file);
    let text = fs::read_to_string(&path).expect("a text");
    assert!(text.contains(from), "{from} is there to be replaced");
    fs::write(path, text.replace(from, to)).expect("written");
}

fn error_of(copy: &tempfile::TempDir) -> LoadError {
    hf::load(copy.path()).expect_err("it does not load")
}

/// Reshapes or removes a tensor of a copy.
fn reshape(copy: &tempfile::TempDir, tensor: &str, shape: Option<&[usize]>) {
    use safetensors::tensor::{SafeTensors, TensorView};
    let path = copy.path().join("model.safetensors");
    let whole = fs::read(&path).expect("weights");
    let zeros = vec![0; 2 * shape.unwrap_or_default().iter().product::<usize>()];
    let mut tensors = SafeTensors::deserialize(&whole).expect("tensors").tensors();
    tensors.retain(|(name, _)| name != tensor);
    if let Some(shape) = shape {
        let view = TensorView::new(safetensors::Dtype::F16, shape.to_vec(), &zeros).expect("a tensor");
        tensors.push((tensor.to_owned(), view));
    }
    safetensors::serialize_to_file(tensors, None, &path).expect("written");
}

#[test]
fn unsupported_heads_are_rejected_by_name() {
    let copy = copy_of("bert");
    reshape(&copy, "classifier.weight", Some(&[3, 32]));
    let labels = error_of(&copy).to_string();
    assert!(labels.contains("a classifier of 3 labels"), "{labels}");
    reshape(&copy, "classifier.weight", None);
    assert!(matches!(error_of(&copy), LoadError::MissingTensor(name) if name == "classifier.weight"));
    let copy = copy_of("bert");
    reshape(&copy, "bert.pooler.dense.weight", Some(&[32, 31]));
    assert!(matches!(error_of(&copy), LoadError::Shape { name, .. } if name == "bert.pooler.dense.weight"));
    let copy = copy_of("bert");
    replace(&copy, "config.json", "BertForSequenceClassification", "ElectraForSequenceClassification");
    let unknown = error_of(&copy).to_string();
    assert!(unknown.starts_with("the head of ElectraForSequenceClassification (known are those of Bert"), "{unknown}");
    let copy = copy_of("modernbert");
    replace(&copy, "config.json", "\"classifier_pooling\": \"cls\"", "\"classifier_pooling\": \"max\"");
    assert_eq!(error_of(&copy).to_string(), "classifier_pooling \"max\" is not supported");
}

#[test]
fn unsupported_templates_are_rejected_and_token_types_follow_the_tokenisers_settings() {
    let copy = copy_of("bert");
    replace(&copy, "tokenizer.json", "\"type_id\": 1", "\"type_id\": 2");
    assert!(error_of(&copy).to_string().contains("token type 2, the model 2 types"), "{}", error_of(&copy));
    let copy = copy_of("bert");
    let settings = copy.path().join("tokenizer_config.json");
    fs::write(settings, r#"{"model_input_names": ["input_ids", "attention_mask"]}"#).expect("written");
    let untyped = Model::load("untyped", copy.path()).expect("a model");
    assert!(pairs(&untyped, "a", &["b".to_owned()], None).expect("a pair").types.is_empty());
    let copy = copy_of("bert");
    fs::remove_file(copy.path().join("tokenizer.json")).expect("removed");
    let silent = Model::load("silent", copy.path()).expect("a model");
    assert_eq!(pairs(&silent, "a", &[], None), Err(TokenizeError::NoTokenizer));
}

#[test]
fn a_classifier_with_pooling_modules_embeds_and_one_without_scores() {
    let copy = copy_of("bert");
    let modules = copy.path().join("modules.json");
    let transformer = r#"{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""}"#;
    fs::write(&modules, format!("[{transformer}]")).expect("written");
    let scores = Model::load("scores", copy.path()).expect("a model");
    assert!(scores.reranker().is_some() && scores.offered_dimensions().is_empty());
    let pooling = r#"{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}"#;
    fs::write(&modules, format!("[{transformer}, {pooling}]")).expect("written");
    fs::create_dir(copy.path().join("1_Pooling")).expect("made");
    fs::write(copy.path().join("1_Pooling/config.json"), r#"{"pooling_mode_cls_token": true}"#).expect("written");
    let embeds = Model::load("embeds", copy.path()).expect("a model");
    assert!(embeds.reranker().is_none() && embeds.pooling() == Pooling::Cls);
    assert_eq!(embeds.offered_dimensions(), [32]);
}
