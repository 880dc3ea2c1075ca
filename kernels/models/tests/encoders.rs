//! Compares hidden states of every architecture with PyTorch's.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use accelerd_kernels::{
    Backend, Op, cpu,
    ops::encode::{Encode, EncodeRequest, Encoder, OutputType, Pooling, Precision},
};
use accelerd_models::hf::{self, LoadError};
use serde_json::Value;

/// The names of the test models.
fn models() -> Vec<String> {
    let folders = fs::read_dir(folder("")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let written = folders.filter(|folder| folder.join("states.f32").is_file());
    written.map(|folder| folder.file_name().expect("a name").to_string_lossy().into_owned()).collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/encoders").join(name)
}

fn request(encoder: &Arc<Encoder>, texts: &[Vec<u32>], pooling: Pooling) -> EncodeRequest {
    let ends = texts.iter().scan(0, |end, text| {
        *end += u32::try_from(text.len()).expect("a short text");
        Some(*end)
    });
    EncodeRequest {
        encoder: Arc::clone(encoder),
        ids: texts.concat(),
        token_type_ids: vec![],
        offsets: [0].into_iter().chain(ends).collect(),
        spans: None,
        pooling,
        dimensions: encoder.config().hidden,
        normalize: false,
        output: OutputType::F32,
        precision: Precision::F32,
        exact_gelu: true,
    }
}

fn vectors(requests: &[EncodeRequest]) -> Vec<Vec<f32>> {
    let mut backend = Backend::Cpu(cpu::Worker::new(cpu::Pool::start(2).expect("two threads")));
    let encoded = Encode::run(&requests.iter().collect::<Vec<_>>(), &mut backend).expect("a fit batch");
    encoded.iter().map(|encoded| floats(&encoded.bytes)).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The texts of a folder and the hidden states of their tokens.
fn expected(folder: &Path) -> (Vec<Vec<u32>>, Vec<f32>) {
    let json: Value =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).expect("it is there")).expect("JSON");
    let texts = json["texts"].as_array().expect("texts").iter().map(|ids| {
        let id = |id: &Value| u32::try_from(id.as_u64().expect("an id")).expect("a small one");
        ids.as_array().expect("ids").iter().map(id).collect()
    });
    (texts.collect(), floats(&fs::read(folder.join("states.f32")).expect("it is there")))
}

#[test]
fn hidden_states_of_every_architecture_are_those_of_pytorch() {
    let models = models();
    assert!(models.len() >= 12, "every architecture has one: {models:?}");
    for name in &models {
        let loaded = hf::load(&folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let encoder = Arc::new(loaded.encoder);
        let (texts, states) = expected(&folder(name));
        let hidden = encoder.config().hidden;
        assert_eq!(texts.iter().map(Vec::len).max(), Some(encoder.config().max_tokens), "{name} is tried to its limit");
        let got = &vectors(&[request(&encoder, &texts, Pooling::None)])[0];
        assert_eq!(got.len(), states.len(), "{name}");
        let cosines = got.chunks(hidden).zip(states.chunks(hidden)).map(|(a, b)| cosine(a, b));
        let worst = cosines.fold(1.0, f64::min);
        assert!(worst >= 0.999_999, "{name}: {worst}");
        let apart = got.iter().zip(&states).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "{name}: {apart}");
    }
}

#[test]
fn the_files_of_sentence_transformers_are_read() {
    let loaded = hf::load(&folder("bert")).expect("a model");
    let config = loaded.encoder.config();
    assert_eq!((config.pooling, config.normalize), (Pooling::Cls, false), "of its modules");
    assert_eq!((loaded.limit, config.max_tokens), (16, 40), "the limit of sentences is below the model's");
    assert_eq!(loaded.prompts.get("query").map(String::as_str), Some("the "));
    assert_eq!((loaded.default_prompt, loaded.kind.as_str()), (None, "bert"));
    let text = loaded.text.expect("a tokeniser");
    assert_eq!((text.before(), text.after()), ([2].as_slice(), [3].as_slice()));
    let pieces = text.pieces("The defs", true).expect("pieces");
    assert_eq!(pieces.ids, [34, 31, 32], "no padding to 128");
    assert_eq!(pieces.bytes, [0..3, 4..7, 7..8]);
    let long = text.pieces(&"a ".repeat(500), false).expect("pieces");
    assert_eq!((long.ids.len(), long.bytes.len()), (500, 0), "no truncation at 128");
}

#[test]
fn every_published_prefix_of_tensor_names_is_recognised() {
    let whole = fs::read(folder("bert").join("model.safetensors")).expect("it is there");
    let tensors = safetensors::SafeTensors::deserialize(&whole).expect("tensors");
    let renamed = tensors.iter().map(|(name, view)| {
        (
            format!(
                "bert.{}",
                name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            ),
            view,
        )
    });
    let copy = copy_of("bert");
    safetensors::serialize_to_file(renamed, None, &copy.path().join("model.safetensors")).expect("written");
    let text = vec![vec![7, 8, 9]];
    let of =
        |path: &Path| vectors(&[request(&Arc::new(hf::load(path).expect("a model").encoder), &text, Pooling::Mean)]);
    assert_eq!(of(copy.path()), of(&folder("bert")));
}

fn copy_of(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(folder(name)).expect("a folder") {
        let entry = entry.expect("an entry");
        if entry.path().is_file() {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
        }
    }
    fs::remove_file(copy.path().join("modules.json")).ok();
    copy
}

/// The error of loading a folder with one changed file.
fn error_with(name: &str, file: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> LoadError {
    let copy = copy_of(name);
    let path = copy.path().join(file);
    let before = fs::read(&path).unwrap_or_default();
    fs::write(&path, change(before)).expect("written");
    hf::load(copy.path()).err().unwrap_or_else(|| panic!("{name} with another {file} loads"))
}

fn replaced(from: &str, to: &str) -> impl FnOnce(Vec<u8>) -> Vec<u8> {
    let from = from.to_owned();
    let to = to.to_owned();
    move |bytes| {
        let text = String::from_utf8(bytes).expect("a text");
        assert!(text.contains(&from), "{from} is there to be replaced");
        text.replace(&from, &to).into_bytes()
    }
}

#[test]
fn truncated_and_foreign_weights_are_named() {
    let truncated = error_with("bert", "model.safetensors", |bytes| bytes[..bytes.len() - 100].to_vec());
    assert!(truncated.to_string().contains("model.safetensors: is truncated or no safetensors file"), "{truncated}");
    let header = error_with("bert", "model.safetensors", |_| vec![255; 64]);
    assert!(matches!(header, LoadError::Format { .. }), "{header}");
    let copy = copy_of("bert");
    fs::remove_file(copy.path().join("model.safetensors")).expect("removed");
    fs::write(copy.path().join("pytorch_model.bin"), "pickle").expect("written");
    let none = hf::load(copy.path()).expect_err("no weights");
    assert!(matches!(none, LoadError::NoWeights { .. }) && none.to_string().contains("convert it"), "{none}");
}

#[test]
fn missing_tensors_and_wrong_shapes_are_named() {
    let missing = error_with("bert", "config.json", replaced("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"));
    assert!(
        matches!(&missing, LoadError::MissingTensor(name) if name == "encoder.layer.2.attention.output.LayerNorm.weight"),
        "{missing}"
    );
    let shape = error_with("bert", "config.json", replaced("\"vocab_size\": 48", "\"vocab_size\": 50"));
    let expected = "tensor embeddings.word_embeddings.weight is expected to be [50, 32], got [48, 32]";
    assert_eq!(shape.to_string(), expected);
    let heads = error_with("bert", "config.json", replaced("\"num_attention_heads\": 2", "\"num_attention_heads\": 3"));
    assert!(heads.to_string().contains("not a multiple of 3 heads"), "{heads}");
}

#[test]
fn unknown_architectures_and_variants_are_rejected_by_name() {
    let unknown = error_with("bert", "config.json", replaced("\"model_type\": \"bert\"", "\"model_type\": \"t5\""));
    assert!(unknown.to_string().starts_with("unknown architecture \"t5\"; known are bert, camembert, "), "{unknown}");
    let variant = error_with("bert", "config.json", replaced("\"hidden_act\": \"gelu\"", "\"hidden_act\": \"mish\""));
    assert_eq!(variant.to_string(), "activation \"mish\" is not supported");
    let positions = r#"{"position_embedding_type": "relative_key", "#;
    let relative = error_with("bert", "config.json", replaced("{\n", positions));
    assert_eq!(relative.to_string(), "position_embedding_type \"relative_key\" is not supported");
    let kind = error_with("bert", "config.json", replaced("\"hidden_size\": 32", "\"hidden_size\": \"32\""));
    assert_eq!(kind.to_string(), "config.json: hidden_size is expected to be a count, got \"32\"");
    let huge = error_with("bert", "config.json", replaced("\"vocab_size\": 48", "\"vocab_size\": 99999999999"));
    assert!(huge.to_string().contains("vocabulary must be 1 to"), "{huge}");
    let broken = error_with("bert", "config.json", |bytes| bytes[..20].to_vec());
    assert!(matches!(broken, LoadError::Format { .. }), "{broken}");
    let dense = r#"[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]"#;
    let dense = error_with("bert", "modules.json", |_| dense.into());
    assert_eq!(dense.to_string(), "module \"Dense\" of modules.json is not supported");
}

#[test]
fn a_tokeniser_of_another_model_is_rejected() {
    let more = error_with("bert", "tokenizer.json", replaced("\"the\": 34", "\"the\": 48"));
    assert!(matches!(more, LoadError::TokenizerMismatch { tokens: 49, words: 48 }), "{more}");
    let halved = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
    for broken in [
        error_with("bert", "tokenizer.json", |_| b"{}".to_vec()),
        error_with("bert", "tokenizer.json", halved),
        error_with("bert", "tokenizer.json", replaced("\"version\": \"1.0\"", "\"decoder\": {\"type\": 1}")),
    ] {
        assert!(matches!(broken, LoadError::Format { .. }), "{broken}");
        assert!(broken.to_string().contains("tokenizer.json"), "{broken}");
    }
}

#[test]
fn all_shards_must_be_files_of_the_folder() {
    let index = "model.safetensors.index.json";
    let outside = error_with("distilbert", index, replaced("model-00001-of-00002", "../model-00001-of-00002"));
    assert!(outside.to_string().contains("not a file of this folder"), "{outside}");
    let missing = error_with("distilbert", index, replaced("model-00001-of-00002", "model-00003-of-00002"));
    assert!(matches!(missing, LoadError::Read { .. }), "{missing}");
    let empty = error_with("distilbert", index, |_| b"{}".to_vec());
    assert!(empty.to_string().contains("has no weight_map"), "{empty}");
}

#[test]
fn a_plain_table_pools_its_rows() {
    let copy = tempfile::tempdir().expect("a folder");
    let numbers: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n";
    let length = u8::try_from(header.len()).expect("a short header");
    let npy = [b"\x93NUMPY\x01\x00".as_slice(), &[length, 0], header.as_bytes(), &numbers].concat();
    fs::write(copy.path().join("words.npy"), npy).expect("written");
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![3, 2], &numbers).expect("a tensor");
    let path = copy.path().join("words.safetensors");
    safetensors::serialize_to_file([("embedding.weight", view)], None, &path).expect("written");
    for name in ["words.npy", "words.safetensors"] {
        let loaded = hf::load(&copy.path().join(name)).expect("a table");
        assert!(loaded.text.is_none() && loaded.kind == "table");
        let encoder = Arc::new(loaded.encoder);
        let texts = [vec![0, 2], vec![], vec![1]];
        assert_eq!(vectors(&[request(&encoder, &texts, Pooling::Mean)])[0], [3.0, 4.0, 0.0, 0.0, 3.0, 4.0]);
        let weighted = &vectors(&[request(&encoder, &texts[..1], Pooling::WeightedMean)])[0];
        assert_eq!(*weighted, [11.0 / 3.0, 14.0 / 3.0]);
    }
    assert_eq!(hf::weight_bytes(&path).expect("a file"), fs::metadata(&path).expect("a file").len());
    let missing = hf::load(&copy.path().join("none.npy")).expect_err("no file");
    assert!(matches!(missing, LoadError::Read { .. }), "{missing}");
}
