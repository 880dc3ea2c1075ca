//! Settings of folders: each is honoured as transformers, sentence-transformers and model2vec do, or refused by its name.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use accelerd_kernels::{
    Backend, Op, cpu,
    ops::encode::{Encode, EncodeRequest, Encoder, EncoderConfig, OutputType, Pooling, Precision},
};
use accelerd_models::{Kind, LongInput, Model, Sequences, TokenizeOptions, TruncationSide, hf};
use safetensors::{Dtype, tensor::TensorView};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// A copy of one of the encoders without its modules.
fn copy_of(name: &str) -> TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(here("encoders").join(name)).expect("a folder") {
        let entry = entry.expect("an entry");
        let is_module = entry.file_name() == "modules.json" || entry.path().is_dir();
        if !is_module {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
        }
    }
    copy
}

fn write(folder: &Path, file: &str, content: &Value) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    fs::write(path, content.to_string()).expect("written");
}

fn read(folder: &Path, file: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(file)).expect("a file")).expect("JSON")
}

/// Sets keys of a JSON file.
fn set(folder: &Path, file: &str, values: &Value) {
    let mut object = read(folder, file);
    object.as_object_mut().expect("an object").extend(values.as_object().expect("an object").clone());
    write(folder, file, &object);
}

fn load(folder: &Path) -> Model {
    Model::load("folder", folder).unwrap_or_else(|error| panic!("{error}"))
}

fn error_of(path: &Path) -> String {
    hf::load(path).expect_err("it is refused").to_string()
}

fn encoder_of(model: &Model) -> &Arc<Encoder> {
    let Kind::Encoder(model) = model.kind() else { panic!("an encoder") };
    &model.encoder
}

fn tokenized(model: &Model, texts: &[&str], options: &TokenizeOptions) -> Sequences {
    let mut sequences = Sequences::default();
    for text in texts {
        model.tokenize(text, options, &mut sequences).expect("tokens");
    }
    sequences
}

fn ids(model: &Model, text: &str) -> Vec<u32> {
    tokenized(model, &[text], &TokenizeOptions::default()).ids
}

/// A vector for each sequence of tokens, by the model's own pooling.
fn vectors(model: &Model, sequences: &Sequences) -> Vec<Vec<f32>> {
    let encoder = encoder_of(model);
    let dimensions = encoder.config().hidden;
    let request = EncodeRequest {
        encoder: Arc::clone(encoder),
        ids: sequences.ids.clone(),
        token_type_ids: vec![],
        offsets: sequences.offsets.clone(),
        spans: None,
        pooling: model.pooling(),
        dimensions,
        normalize: model.normalize(),
        output: OutputType::F32,
        precision: Precision::F32,
        exact_gelu: true,
    };
    let mut backend = Backend::Cpu(cpu::Worker::new(cpu::Pool::start(2).expect("two threads")));
    let bytes = Encode::run(&[&request], &mut backend).expect("a fit batch").remove(0).bytes;
    let numbers: Vec<_> = bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
    numbers.chunks(dimensions).map(<[f32]>::to_vec).collect()
}

fn embedded(model: &Model, texts: &[&str]) -> Vec<Vec<f32>> {
    vectors(model, &tokenized(model, texts, &TokenizeOptions::default()))
}

fn assert_close(got: &[f32], expected: &[f64], of: &str) {
    assert_eq!(got.len(), expected.len(), "{of}");
    for (got, expected) in got.iter().zip(expected) {
        assert!((f64::from(*got) - expected).abs() < 1e-6, "{of}: expected {expected}, got {got}");
    }
}

/// The output of `folders/make.py`.
#[derive(Deserialize)]
struct Golden {
    texts: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    base: String,
    pointers: Map<String, Value>,
    limit: Option<usize>,
    lowercase: bool,
    files: Map<String, Value>,
    ids: Vec<Vec<u32>>,
}

#[test]
fn tokens_are_those_of_transformers_with_every_setting() {
    let golden: Golden =
        serde_json::from_value(read(&here("folders"), "tokenizers.json")).expect("what make.py writes");
    for case in &golden.cases {
        let copy = copy_of(&case.base);
        let mut tokenizer = read(copy.path(), "tokenizer.json");
        for (pointer, value) in &case.pointers {
            *tokenizer.pointer_mut(pointer).expect("it is there") = value.clone();
        }
        write(copy.path(), "tokenizer.json", &tokenizer);
        for (file, content) in &case.files {
            write(copy.path(), file, content);
        }
        write(copy.path(), "sentence_bert_config.json", &json!({"do_lower_case": case.lowercase}));
        let model = load(copy.path());
        for (text, expected) in golden.texts.iter().zip(&case.ids) {
            let options = TokenizeOptions { max_tokens: case.limit, ..TokenizeOptions::default() };
            assert_eq!(tokenized(&model, &[text], &options).ids, *expected, "{}: {text:?}", case.name);
        }
    }
}

#[test]
fn settings_of_tokenizers_that_contradict_tokenizer_json_are_refused_by_name() {
    let cases = [
        (json!({"truncation_side": "both"}), "truncation_side is expected to be \"left\" or \"right\""),
        (
            json!({"added_tokens_decoder": {"40": "<x>"}}),
            "\"<x>\" of id 40 in tokenizer_config.json, where the next id",
        ),
        (
            json!({"added_tokens_decoder": {"x": "<x>"}}),
            "added_tokens_decoder has \"x\": \"<x>\", which is not a token",
        ),
        (json!({"added_tokens_decoder": {"35": {"id": 1}}}), "which is not a token"),
        (json!({"do_lower_case": 1}), "do_lower_case is expected to be true or false, got 1"),
        (json!({"cls_token": 7}), "cls_token is expected to be a token, got 7"),
    ];
    for (settings, reason) in cases {
        let copy = copy_of("bert");
        write(copy.path(), "tokenizer_config.json", &settings);
        let error = error_of(copy.path());
        assert!(error.contains(reason) && error.contains("tokenizer_config.json"), "{settings}: {error}");
    }
    let copy = copy_of("bert");
    set(copy.path(), "tokenizer.json", &json!({"normalizer": {"type": "Lowercase"}}));
    write(copy.path(), "tokenizer_config.json", &json!({"do_lower_case": false}));
    let error = error_of(copy.path());
    assert!(error.contains("do_lower_case = false of tokenizer_config.json with the normalizer"), "{error}");
    write(copy.path(), "tokenizer_config.json", &json!({"do_lower_case": true}));
    assert_eq!(ids(&load(copy.path()), "THE"), [2, 34, 3]);
    let many: Map<_, _> = (35..49).map(|id| (id.to_string(), json!(format!("<{id}>")))).collect();
    write(copy.path(), "tokenizer_config.json", &json!({"added_tokens_decoder": many}));
    assert_eq!(error_of(copy.path()), "the tokeniser has 49 tokens, the model 48 words");
}

#[test]
fn a_call_can_have_another_truncation_side_than_the_model() {
    let copy = copy_of("bert");
    write(copy.path(), "tokenizer_config.json", &json!({"truncation_side": "left"}));
    let model = load(copy.path());
    let cut = |truncation_side| {
        let options = TokenizeOptions { max_tokens: Some(4), truncation_side, ..TokenizeOptions::default() };
        let mut sequences = Sequences::default();
        model.split_ids(&[5, 6, 7, 8, 9], &options, &mut sequences).expect("cut");
        (tokenized(&model, &["a b c d"], &options).ids, sequences.ids)
    };
    assert_eq!(cut(None), (vec![2, 7, 8, 3], vec![6, 7, 8, 9]));
    assert_eq!(cut(Some(TruncationSide::Right)), (vec![2, 5, 6, 3], vec![5, 6, 7, 8]));
}

#[test]
fn the_documents_of_pairs_are_truncated_at_the_models_side() {
    let copy = copy_of("reranker-bert");
    write(copy.path(), "tokenizer_config.json", &json!({"truncation_side": "left"}));
    let model = load(copy.path());
    let (encoder, _) = model.reranker().expect("a cross-encoder");
    let query = encoder.query("a", Some(6)).expect("a query");
    let mut pairs = Sequences::default();
    encoder.pair(&query, "b c d e", &mut pairs).expect("a pair");
    assert_eq!(pairs.ids, [2, 5, 3, 8, 9, 3]);
}

/// Writes a table, and other tensors, in a file.
fn write_tensors(path: &Path, tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.to_vec(), bytes).expect("a tensor")));
    safetensors::serialize_to_file(views, None, path).expect("written");
}

fn bytes<const N: usize, T: Copy>(numbers: &[T], to_bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(|number| to_bytes(*number)).collect()
}

#[test]
fn vectors_of_model2vec_are_its_own() {
    #[derive(Deserialize)]
    struct Expected {
        texts: Vec<String>,
        vectors: Vec<Vec<f64>>,
    }
    let folder = here("folders/model2vec");
    let expected: Expected = serde_json::from_value(read(&folder, "expected.json")).expect("what make.py writes");
    for path in [folder.clone(), folder.join("model.safetensors")] {
        let model = load(&path);
        assert_eq!((model.limits(), model.normalize()), (Some((1 << 20, 9)), true), "of its config.json");
        for (text, expected) in expected.texts.iter().zip(&expected.vectors) {
            assert_close(&embedded(&model, &[text])[0], expected, text);
        }
    }
}

#[test]
fn the_token_that_model2vec_leaves_out_is_left_out_everywhere() {
    let model = load(&here("folders/model2vec"));
    assert_eq!(ids(&model, "a zzz b"), [4, 5]);
    let mut whole = vec![];
    model.token_ids("a zzz b", &mut whole).expect("tokens");
    assert_eq!(whole, [4, 5]);
    let mut spans = Sequences::default();
    model.token_spans("a zzz b", &mut spans).expect("tokens");
    assert_eq!((spans.ids, spans.bytes), (vec![4, 5], vec![0..1, 6..7]));
    let options = TokenizeOptions { with_offsets: true, ..TokenizeOptions::default() };
    assert_eq!(tokenized(&model, &["a zzz b"], &options).bytes, [0..1, 6..7]);
    let chunks = TokenizeOptions { long_input: LongInput::Chunk, ..TokenizeOptions::default() };
    let long = tokenized(&model, &["a b c d e f g h i j a"], &chunks);
    assert_eq!((long.ids.len(), long.offsets), (11, vec![0, 9, 11]), "chunks are not cut by characters");
}

#[test]
fn mapping_weights_and_number_types_of_tables_are_honoured() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.safetensors");
    let rows = [1.0, 2.0, 3.0, -4.0, 5.0, 0.5];
    let halves = [0x3c00_u16, 0x4000, 0x4200, 0xc400, 0x4500, 0x3800];
    #[expect(clippy::cast_possible_truncation, reason = "small numbers")]
    let tables = [
        (Dtype::F32, bytes(&rows, |x| (x as f32).to_le_bytes())),
        (Dtype::F64, bytes(&rows, f64::to_le_bytes)),
        (Dtype::F16, bytes(&halves, u16::to_le_bytes)),
    ];
    // Token 0 has row 2 times 0.5, token 1 row 0 times 2, token 2 row 2 times -1, token 3 row 1 times 4.
    let mapping = [2_i64, 0, 2, 1];
    let weights = [0.5, 2.0, -1.0, 4.0];
    let expected = [[2.5, 0.25], [2.0, 4.0], [-5.0, -0.5], [12.0, -16.0]];
    let tokens = Sequences { ids: vec![0, 1, 2, 3, 1, 3], offsets: vec![0, 1, 2, 3, 4, 6], ..Sequences::default() };
    for (dtype, numbers) in tables {
        let table = ("embeddings", dtype, [3, 2].as_slice(), numbers);
        let mapping = ("mapping", Dtype::I64, [4].as_slice(), bytes(&mapping, i64::to_le_bytes));
        let weights = ("weights", Dtype::F64, [4].as_slice(), bytes(&weights, f64::to_le_bytes));
        write_tensors(&path, &[table, mapping, weights]);
        write(folder.path(), "config.json", &json!({"model_type": "model2vec", "normalize": false}));
        let size = fs::metadata(&path).expect("a file").len();
        assert_eq!(hf::weight_bytes(&path).expect("a file"), size + 4 * 4 * 2, "the folded table counts");
        assert_eq!(hf::weight_bytes(folder.path()).expect("a folder"), size + 4 * 4 * 2);
        let model = load(folder.path());
        assert_eq!((model.vocabulary_size(), model.limits()), (4, Some((1 << 20, 512))));
        let got = vectors(&model, &tokens);
        for (token, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_close(got, expected, &format!("token {token} in {dtype:?}"));
        }
        assert_close(&got[4], &[7.0, -6.0], "the mean");
    }
    let alone = ("embeddings", Dtype::I8, [3, 2].as_slice(), bytes(&[1_i8, 2, 3, -4, 5, -128], i8::to_le_bytes));
    write_tensors(&path, &[alone]);
    write(folder.path(), "config.json", &json!({"model_type": "model2vec", "max_length": null}));
    let model = load(folder.path());
    assert_eq!(model.limits(), Some((1 << 20, 1 << 20)), "null is no limit");
    let tokens = Sequences { ids: vec![2], offsets: vec![0, 1], ..Sequences::default() };
    assert_close(&vectors(&model, &tokens)[0], &[5.0, -128.0], "int8");
}

#[test]
fn mappings_and_weights_that_do_not_fit_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.safetensors");
    let of = |mapping: &[i64], weights: &[f32]| {
        let table = ("embedding.weight", Dtype::F32, [2, 1].as_slice(), bytes(&[1.0, 2.0], f32::to_le_bytes));
        let rows = [mapping.len()];
        let factors = [weights.len()];
        let mapping = ("mapping", Dtype::I64, rows.as_slice(), bytes(mapping, i64::to_le_bytes));
        let weights = ("weights", Dtype::F32, factors.as_slice(), bytes(weights, f32::to_le_bytes));
        write_tensors(&path, &[table, mapping, weights]);
        error_of(&path)
    };
    assert_eq!(of(&[0, 2], &[1.0; 2]), "tensor mapping has row 2 for token 1, where the table has 2 rows");
    assert_eq!(of(&[0, -1], &[1.0; 2]), "tensor mapping has -1, which is not an index");
    assert_eq!(of(&[0, 1, 0], &[1.0; 2]), "tensor weights is expected to be [3], got [2]");
    assert_eq!(of(&[0], &[f32::NAN]), "tensor weights has NaN or infinity at element 0");
    let table = ("embeddings", Dtype::F32, [2, 1].as_slice(), bytes(&[1.0, 2.0], f32::to_le_bytes));
    let halves = ("mapping", Dtype::F32, [2].as_slice(), bytes(&[0.0, 1.0], f32::to_le_bytes));
    write_tensors(&path, &[table, halves]);
    assert_eq!(error_of(&path), "tensor mapping of F32 is not supported");
}

/// The table of the tests below: row `i` is `[i, i * i]`.
fn squares(rows: u8) -> Vec<u8> {
    let numbers: Vec<_> = (0..rows).flat_map(|row| [f32::from(row), f32::from(row) * f32::from(row)]).collect();
    bytes(&numbers, f32::to_le_bytes)
}

#[test]
fn static_tables_have_no_special_tokens() {
    let copy = copy_of("bert");
    let path = copy.path().join("words.safetensors");
    for name in ["embeddings", "embedding.weight", "words"] {
        write_tensors(&path, &[(name, Dtype::F32, &[48, 2], squares(48))]);
        let model = load(&path);
        assert_eq!(ids(&model, "the a"), [34, 5], "{name}: neither [CLS] nor [SEP]");
        let mean = [19.5, f64::from(34 * 34 + 25) / 2.0];
        let length = mean[0].hypot(mean[1]);
        assert_close(&embedded(&model, &["the a"])[0], &mean.map(|x| x / length), name);
    }
}

#[test]
fn static_modules_of_sentence_transformers_are_loaded() {
    let source = copy_of("bert");
    let copy = tempfile::tempdir().expect("a folder");
    let own = copy.path().join("0_StaticEmbedding");
    write_tensors(&own.join("model.safetensors"), &[("embedding.weight", Dtype::F32, &[48, 2], squares(48))]);
    let mut tokenizer = read(source.path(), "tokenizer.json");
    tokenizer["truncation"]["max_length"] = json!(2);
    write(&own, "tokenizer.json", &tokenizer);
    let static_module = json!({"type": "sentence_transformers.models.StaticEmbedding", "path": "0_StaticEmbedding"});
    write(copy.path(), "modules.json", &json!([static_module]));
    write(
        copy.path(),
        "config_sentence_transformers.json",
        &json!({"prompts": {"query": "a "}, "default_prompt_name": "query"}),
    );
    let model = load(copy.path());
    let Kind::Encoder(encoder) = model.kind() else { panic!("an encoder") };
    assert_eq!((encoder.default_prompt.as_deref(), encoder.architecture.as_str()), (Some("query"), "table"));
    assert_eq!((model.limits(), model.normalize()), (Some((1 << 20, 2)), false), "tokenizer.json cuts");
    // An unknown token counts, as there is nothing that leaves it out.
    assert_close(&embedded(&model, &["the ? a"])[0], &[17.5, f64::from(34 * 34 + 1) / 2.0], "the mean");
    let digest = model.digest().to_owned();
    tokenizer["truncation"] = Value::Null;
    write(&own, "tokenizer.json", &tokenizer);
    assert_ne!(load(copy.path()).digest(), digest, "files of modules count");
    let normalize = json!({"type": "sentence_transformers.models.Normalize", "path": "1_Normalize"});
    write(copy.path(), "modules.json", &json!([static_module, normalize]));
    assert!(load(copy.path()).normalize());
    let pooling = json!({"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"});
    write(copy.path(), "modules.json", &json!([static_module, pooling]));
    assert_eq!(error_of(copy.path()), "module \"Pooling\" at position 1 of modules.json is not supported");
}

#[test]
fn a_transformer_in_its_own_folder_is_loaded_from_there() {
    let source = copy_of("bert");
    let expected = embedded(&load(source.path()), &["the defs"]);
    let copy = tempfile::tempdir().expect("a folder");
    let own = copy.path().join("0_Transformer");
    fs::create_dir(&own).expect("created");
    for entry in fs::read_dir(source.path()).expect("a folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), own.join(entry.file_name())).expect("copied");
    }
    let transformer = json!({"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"});
    let pooling = json!({"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"});
    let normalize = json!({"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"});
    write(copy.path(), "modules.json", &json!([transformer, pooling, normalize]));
    write(copy.path(), "1_Pooling/config.json", &json!({"pooling_mode_mean_tokens": true}));
    let model = load(copy.path());
    assert_eq!((model.limits(), embedded(&model, &["the defs"])), (Some((40, 16)), expected));
    let weights = fs::metadata(own.join("model.safetensors")).expect("a file").len();
    assert_eq!(hf::weight_bytes(copy.path()).expect("a folder"), weights);
    let digest = model.digest().to_owned();
    write(&own, "sentence_bert_config.json", &json!({"max_seq_length": 15}));
    assert_ne!(load(copy.path()).digest(), digest, "files of modules count");
    for path in ["..", "/etc", "a/../../b"] {
        let outside = json!({"type": "sentence_transformers.models.Transformer", "path": path});
        write(copy.path(), "modules.json", &json!([outside, pooling]));
        assert!(error_of(copy.path()).ends_with("is outside the model's folder"), "{path}");
        assert!(hf::weight_bytes(copy.path()).is_err(), "{path}");
    }
    write(copy.path(), "modules.json", &json!([transformer, normalize, pooling]));
    assert_eq!(error_of(copy.path()), "module \"Pooling\" at position 2 of modules.json is not supported");
}

#[test]
fn pooling_is_by_name_by_flag_or_the_mean() {
    let pooling = |config: Value| {
        let copy = copy_of("bert");
        let transformer = json!({"type": "sentence_transformers.models.Transformer", "path": ""});
        let pooling = json!({"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"});
        let dropout = json!({"type": "sentence_transformers.models.Dropout", "path": "2_Dropout"});
        write(copy.path(), "modules.json", &json!([transformer, pooling, dropout]));
        write(copy.path(), "1_Pooling/config.json", &config);
        hf::load(copy.path()).map(|loaded| loaded.encoder.config().pooling).map_err(|error| error.to_string())
    };
    assert_eq!(pooling(json!({})), Ok(Pooling::Mean));
    assert_eq!(pooling(json!({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": false})), Ok(Pooling::Mean));
    assert_eq!(pooling(json!({"pooling_mode_max_tokens": true})), Ok(Pooling::Max));
    assert_eq!(pooling(json!({"pooling_mode": "lasttoken", "pooling_mode_mean_tokens": true})), Ok(Pooling::Last));
    assert_eq!(pooling(json!({"pooling_mode": ["cls"]})), Ok(Pooling::Cls));
    let refused = [
        (json!({"pooling_mode": ["cls", "mean"]}), "the concatenation of pooling modes cls and mean"),
        (json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}), "cls and mean"),
        (json!({"pooling_mode_mean_sqrt_len_tokens": true}), "pooling_mode \"mean_sqrt_len_tokens\""),
        (json!({"pooling_mode": "attention"}), "pooling_mode \"attention\""),
        (json!({"pooling_mode": 7}), "pooling_mode is expected to be a text or a list of texts, got 7"),
        (json!({"include_prompt": false}), "include_prompt"),
    ];
    for (config, reason) in refused {
        let error = pooling(config.clone()).expect_err("it is refused");
        assert!(error.contains(reason), "{config}: {error}");
    }
}

#[test]
fn settings_of_sentence_transformers_are_honoured_or_refused_by_name() {
    let file = "sentence_bert_config.json";
    let limit = |settings: &Value| {
        let copy = copy_of("bert");
        write(copy.path(), file, settings);
        write(copy.path(), "tokenizer_config.json", &json!({"model_max_length": 20}));
        hf::load(copy.path()).map(|loaded| loaded.limit).map_err(|error| error.to_string())
    };
    assert_eq!(limit(&json!({})), Ok(20), "the tokeniser's");
    assert_eq!(limit(&json!({"max_seq_length": 10, "model_args": {"torch_dtype": "float16"}})), Ok(10));
    assert_eq!(limit(&json!({"max_seq_length": 10, "tokenizer_args": {"model_max_length": 12}})), Ok(12));
    assert_eq!(limit(&json!({"config_args": {"max_position_embeddings": 40}, "max_seq_length": 99})), Ok(40));
    let text = json!({"method": "forward", "method_output_name": "last_hidden_state"});
    assert_eq!(limit(&json!({"modality_config": {"text": text}, "transformer_task": "feature-extraction"})), Ok(20));
    let refused = [
        (json!({"config_args": {"hidden_act": "mish"}}), "activation \"mish\" is not supported"),
        (json!({"model_kwargs": {"rotary_kwargs": {"x": 1}}}), "option rotary_kwargs of model_args is not supported"),
        (json!({"processing_kwargs": {"text": {"max_length": 5}}}), "processing_kwargs of sentence_bert_config.json"),
        (json!({"query_length": 32}), "query_length of sentence_bert_config.json is not supported"),
        (json!({"transformer_task": "fill-mask"}), "transformer_task \"fill-mask\" is not supported"),
        (
            json!({"modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}}}),
            "pooler_output of forward (modality_config) is not supported",
        ),
        (json!({"do_lower_case": "no"}), "sentence_bert_config.json: do_lower_case is expected to be true or false"),
    ];
    for (settings, reason) in refused {
        let error = limit(&settings).expect_err("it is refused");
        assert!(error.contains(reason), "{settings}: {error}");
    }
    let copy = copy_of("roberta");
    write(copy.path(), "sentence_roberta_config.json", &json!({"max_seq_length": 7}));
    assert_eq!(hf::load(copy.path()).expect("a model").limit, 7, "an older name of the file");
    write(copy.path(), "tokenizer_config.json", &json!({"model_max_length": 1e30}));
    fs::remove_file(copy.path().join("sentence_roberta_config.json")).expect("removed");
    assert_eq!(hf::load(copy.path()).expect("a model").limit, 40, "no limit but the model's");
}

/// The mean of the embeddings after their norm, as RoBERTa's code has them: an encoder without layers.
fn roberta_mean(folder: &Path, ids: &[u32], padding: u32) -> Vec<f64> {
    let file = fs::read(folder.join("model.safetensors")).expect("weights");
    let tensors = safetensors::SafeTensors::deserialize(&file).expect("tensors");
    let table = |name: &str| {
        let tensor = tensors.tensor(name).unwrap_or_else(|_| panic!("{name}"));
        let halves = tensor.data().as_chunks().0.iter().map(|half| f64::from(half_to_f32(u16::from_le_bytes(*half))));
        halves.collect::<Vec<_>>()
    };
    let words = table("embeddings.word_embeddings.weight");
    let positions = table("embeddings.position_embeddings.weight");
    let kinds = tensors.tensor("embeddings.token_type_embeddings.weight").is_ok();
    let kinds = if kinds { table("embeddings.token_type_embeddings.weight") } else { vec![0.0; 32] };
    let weight = table("embeddings.LayerNorm.weight");
    let bias = table("embeddings.LayerNorm.bias");
    let epsilon = read(folder, "config.json")["layer_norm_eps"].as_f64().expect("a number");
    let row = |table: &[f64], row: u32| table[32 * row as usize..][..32].to_vec();
    let mut mean = vec![0.0; 32];
    let mut others = 0;
    for id in ids {
        others += u32::from(*id != padding);
        let position = if *id == padding { padding } else { padding + others };
        let sums = row(&words, *id).into_iter().zip(row(&positions, position)).zip(&kinds).map(|((w, p), k)| w + p + k);
        let sums: Vec<_> = sums.collect();
        let average = sums.iter().sum::<f64>() / 32.0;
        let variance = sums.iter().map(|x| (x - average).powi(2)).sum::<f64>() / 32.0;
        for (at, x) in sums.iter().enumerate() {
            let normal = (x - average) / (variance + epsilon).sqrt() * weight[at] + bias[at];
            mean[at] += normal / f64::from(u32::try_from(ids.len()).expect("few"));
        }
    }
    mean
}

fn half_to_f32(bits: u16) -> f32 {
    let fraction = f32::from(bits & 0x3ff) / 1024.0;
    let exponent = i32::from(bits >> 10 & 0x1f);
    let size =
        if exponent == 0 { fraction * 2.0_f32.powi(-14) } else { (1.0 + fraction) * 2.0_f32.powi(exponent - 15) };
    if bits >> 15 == 1 { -size } else { size }
}

#[test]
fn padding_tokens_in_a_text_do_not_shift_the_positions_of_others() {
    for (name, padding) in [("roberta", 1), ("xlm-roberta", 1), ("roberta", 3), ("mpnet", 1)] {
        let copy = copy_of(name);
        // MPNet's code does not read it.
        let pad_token_id = if name == "mpnet" { 7 } else { padding };
        set(copy.path(), "config.json", &json!({"num_hidden_layers": 0, "pad_token_id": pad_token_id}));
        let model = load(copy.path());
        let config = encoder_of(&model).config();
        assert_eq!(config.padding_id(), Some(padding), "{name}");
        let texts: [&[u32]; 4] =
            [&[0, 9, padding, 8, 2], &[0, 9, 8, 2], &[padding, padding, 9], &[9, 8, 7, padding, padding]];
        for ids in texts {
            let end = u32::try_from(ids.len()).expect("few");
            let sequences = Sequences { ids: ids.to_vec(), offsets: vec![0, end], ..Sequences::default() };
            let expected = roberta_mean(copy.path(), ids, padding);
            let length = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
            let expected: Vec<_> = expected.iter().map(|x| x / length).collect();
            assert_close(&vectors(&model, &sequences)[0], &expected, &format!("{name}: {ids:?}"));
        }
    }
    let copy = copy_of("bert");
    assert_eq!(hf::load(copy.path()).expect("a model").encoder.config().padding_id(), None);
}

fn config_with(base: &str, values: &Value) -> Result<EncoderConfig, String> {
    let copy = copy_of(base);
    set(copy.path(), "config.json", values);
    let loaded = hf::load(copy.path());
    loaded.map(|loaded| loaded.encoder.config().clone()).map_err(|error| error.to_string())
}

/// Which layers have a sliding window, and the largest distance in it.
fn window(base: &str, remove: &[&str], values: &Value) -> Option<(usize, Vec<bool>)> {
    let copy = copy_of(base);
    let mut config = read(copy.path(), "config.json");
    let object = config.as_object_mut().expect("an object");
    object.retain(|name, _| !remove.contains(&name.as_str()));
    object.extend(values.as_object().expect("an object").clone());
    write(copy.path(), "config.json", &config);
    let loaded = hf::load(copy.path()).unwrap_or_else(|error| panic!("{values}: {error}"));
    loaded.encoder.config().window.clone().map(|window| (window.distance, window.layers))
}

#[test]
fn sliding_windows_have_the_defaults_of_transformers() {
    const KEYS: [&str; 4] = ["use_sliding_window", "sliding_window", "max_window_layers", "layer_types"];
    let of = |base: &str, values: Value| window(base, &KEYS, &values);
    for base in ["qwen2", "qwen3"] {
        assert_eq!(of(base, json!({"use_sliding_window": true})), Some((4095, vec![false; 2])), "from layer 28 on");
        let some = json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1});
        assert_eq!(of(base, some), Some((7, vec![false, true])));
        let listed = json!({"use_sliding_window": true, "layer_types": ["sliding_attention", "full_attention"]});
        assert_eq!(of(base, listed), Some((4095, vec![true, false])));
        assert_eq!(of(base, json!({"use_sliding_window": true, "sliding_window": null})), None);
        assert_eq!(of(base, json!({"sliding_window": 8, "max_window_layers": 0})), None, "not used by default");
    }
    assert_eq!(of("llama", json!({"use_sliding_window": true, "sliding_window": 8})), None, "Llama has none");
    assert_eq!(of("llama", json!({"model_type": "mistral"})), Some((4095, vec![true; 2])), "Mistral has");
    assert_eq!(of("llama", json!({"model_type": "mistral", "sliding_window": null})), None);
    let unused = json!({"model_type": "mistral", "sliding_window": 8, "use_sliding_window": false});
    assert_eq!(of("llama", unused), Some((7, vec![true; 2])), "a key of Qwen");
}

#[test]
fn what_a_class_of_transformers_fixes_does_not_follow_other_settings() {
    // Qwen2 has biases and Mistral has none, whatever attention_bias says.
    assert!(config_with("qwen2", &json!({"attention_bias": false})).is_ok());
    let biased = copy_of("qwen2");
    let before = embedded_ids(biased.path());
    set(biased.path(), "config.json", &json!({"attention_bias": false}));
    assert_eq!(embedded_ids(biased.path()), before);
    assert!(config_with("llama", &json!({"model_type": "mistral", "attention_bias": true, "mlp_bias": true})).is_ok());
    let error = config_with("llama", &json!({"attention_bias": true})).expect_err("no such tensors");
    assert!(error.ends_with("layers.0.self_attn.q_proj.bias is missing"), "{error}");
    let copy = copy_of("qwen3");
    let mut config = read(copy.path(), "config.json");
    config.as_object_mut().expect("an object").remove("head_dim");
    write(copy.path(), "config.json", &config);
    let error = error_of(copy.path());
    assert!(error.contains("q_proj.weight is expected to be [512, 32], got [64, 32]"), "heads of 128: {error}");
}

fn embedded_ids(folder: &Path) -> Vec<Vec<f32>> {
    let sequences = Sequences { ids: vec![5, 6, 7], offsets: vec![0, 3], ..Sequences::default() };
    vectors(&load(folder), &sequences)
}

#[test]
fn settings_that_are_not_supported_are_refused_by_name() {
    let yarn = json!({"rope_type": "yarn", "factor": 4.0});
    let refused = [
        ("qwen2", json!({"rope_scaling": yarn}), "rope_scaling of type \"yarn\" is not supported"),
        ("modernbert", json!({"rope_scaling": {"type": "linear", "factor": 2.0}}), "rope_scaling of type \"linear\""),
        ("nomic-bert", json!({"rope_scaling": yarn}), "rope_scaling of type \"yarn\""),
        ("llama", json!({"rope_scaling": {"factor": 2.0}}), "rope_scaling of type \"\""),
        ("llama", json!({"rope_parameters": yarn}), "rope_type \"yarn\" is not supported"),
        ("llama", json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor 0.5 is not supported"),
        ("qwen3", json!({"rope_parameters": {"partial_rotary_factor": 0.25}}), "partial_rotary_factor 0.25"),
        ("bert", json!({"quantization_config": {"quant_method": "gptq"}}), "quantization_config of config.json"),
        ("bert", json!({"pruned_heads": {"0": [1]}}), "pruned_heads of config.json is not supported"),
        ("bert", json!({"is_decoder": true}), "is_decoder is not supported"),
        ("modernbert", json!({"layer_types": ["full_attention"]}), "layer_types is expected to have 4 entries, got 1"),
        (
            "qwen2",
            json!({"use_sliding_window": true, "sliding_window": 4, "layer_types": ["linear_attention", "linear_attention"]}),
            "\"linear_attention\"",
        ),
        ("nomic-bert", json!({"rotary_emb_scale_base": 512}), "rotary_emb_scale_base of config.json"),
    ];
    for (base, values, reason) in refused {
        let error = config_with(base, &values).expect_err("it is refused");
        assert!(error.contains(reason), "{base} with {values}: {error}");
    }
    let unscaled = config_with("llama", &json!({"rope_scaling": {"rope_type": "default"}, "pruned_heads": {}}));
    assert!(unscaled.is_ok(), "{unscaled:?}");
    let copy = copy_of("bert");
    write(copy.path(), "adapter_config.json", &json!({"peft_type": "LORA"}));
    let error = error_of(copy.path());
    assert_eq!(error, "an adapter that is not merged into the weights (adapter_config.json) is not supported");
}

/// The texts in double quotes of a source.
fn literals(source: &str) -> impl Iterator<Item = &str> {
    source.split('"').skip(1).step_by(2)
}

/// The keys that the sources ask for: in slices and lists of names, and as arguments.
fn keys_of_code() -> Vec<String> {
    let is_key = |text: &&str| {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.chars().all(|other| other.is_ascii_lowercase() || other.is_ascii_digit() || other == '_')
    };
    let sources = fs::read_dir(here("../src/hf")).expect("sources").map(|entry| entry.expect("an entry").path());
    let mut keys = vec![];
    for path in sources.filter(|path| path.is_file()) {
        let text = fs::read_to_string(&path).expect("a source");
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for (at, opening) in code.match_indices("[\"") {
            let before = code[..at].trim_end();
            let list = code[at + opening.len() - 1..].split(']').next().unwrap_or_default();
            if before.ends_with('&') || before.ends_with(" in") {
                keys.extend(literals(list).filter(is_key).map(str::to_owned));
            }
        }
        for call in ["has(\"", "one_or_more_texts(\"", "(\"pooling_mode"] {
            let calls = code.match_indices(call).map(|(at, _)| &code[at..]);
            keys.extend(calls.filter_map(|rest| literals(rest).next()).filter(is_key).map(str::to_owned));
        }
    }
    keys
}

#[test]
fn the_document_lists_the_keys_that_are_read_and_no_others() {
    let document = fs::read_to_string(here("../../../docs/models.md")).expect("the document");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let first_cells: Vec<_> = rows.map(|row| row.split(" | ").next().unwrap_or_default()).collect();
    let listed: Vec<_> =
        first_cells.iter().flat_map(|cell| cell.split(", ").map(|key| key.trim_matches('`').to_owned())).collect();
    let code = keys_of_code();
    assert!(code.len() > 100 && listed.len() > 100, "{} and {}", code.len(), listed.len());
    // These are in the text of another key's row.
    let inner = ["activation_fn", "text", "method", "method_output_name"];
    let missing: Vec<_> = code.iter().filter(|key| !listed.contains(key) && !inner.contains(&key.as_str())).collect();
    assert!(missing.is_empty(), "read, but not in docs/models.md: {missing:?}");
    let files_and_tensors = ["weights", "mapping", "embeddings"];
    let stale: Vec<_> = listed
        .iter()
        .filter(|key| !key.contains('.') && !code.contains(key) && !files_and_tensors.contains(&key.as_str()))
        .collect();
    assert!(stale.is_empty(), "in docs/models.md, but not read: {stale:?}");
    for file in hf::OPTIONAL_FILES {
        assert!(document.contains(file), "{file}");
    }
    for architecture in hf::known() {
        assert!(document.contains(architecture), "{architecture}");
    }
}
