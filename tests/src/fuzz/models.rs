//! Model folders and tables of word embeddings: a changed one is refused by name, or it loads, embeds and scores.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accelerd_proto::{
    methods::{Rpc, embed_service},
    v1,
};
use prost::Message;
use tonic::{Code, Status};

use super::{changed_bytes, changed_json, choices::Choices, target::Target};

/// Bytes of a file in a report.
const REPORTED: usize = 2000;
/// Bytes of a table's numbers: six rows of four f32.
const TABLE_BYTES: usize = 96;

/// Loads a changed copy of the folder of a model, one of those in `seeds`.
pub async fn folder(target: &Target, seeds: &Path, data: &[u8]) {
    let choices = &mut Choices::new(data);
    let mut models = entries(seeds);
    models.retain(|model| model.join("config.json").is_file());
    let model = &models[choices.below(models.len())];
    let files: Vec<PathBuf> = entries(model).into_iter().filter(|path| path.is_file()).collect();
    let is_described =
        |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "json" || ending == "safetensors");
    let described: Vec<_> = files.iter().filter(is_described).collect();
    let changed = described[choices.below(described.len())];
    let folder = tempfile::tempdir_in(target.folder()).expect("a folder");
    let to = folder.path();
    for file in &files {
        let bytes = fs::read(file).expect("a file");
        let bytes = if file == changed { changed_file(file, bytes, choices) } else { bytes };
        fs::write(to.join(file.file_name().expect("a file has a name")), bytes).expect("written");
    }
    load(target, to, &format!("{} changed to {}", changed.display(), beginning(to, changed))).await;
}

/// Loads a changed table of NumPy.
pub async fn npy(target: &Target, data: &[u8]) {
    let choices = &mut Choices::new(data);
    let header = npy_header(choices);
    let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
    let version = [1, if choices.is_one_in(8) { choices.byte() } else { 0 }];
    let file = [b"\x93NUMPY", version.as_slice(), &length, header.as_bytes(), &numbers()].concat();
    table(target, "table.npy", &changed_now_and_then(file, choices)).await;
}

/// Loads a changed table of safetensors.
pub async fn safetensors(target: &Target, data: &[u8]) {
    let choices = &mut Choices::new(data);
    let header = br#"{"embeddings":{"dtype":"F32","shape":[6,4],"data_offsets":[0,96]}}"#;
    let header = changed_json(header, choices).expect("it is JSON");
    let file = with_length(&header, &numbers());
    table(target, "table.safetensors", &changed_now_and_then(file, choices)).await;
}

/// A header with fields that are right, or nearly.
fn npy_header(choices: &mut Choices<'_>) -> String {
    let mut pick = |words: &[&'static str]| if choices.is_one_in(3) { choices.one_of(words) } else { words[0] };
    let kind = pick(&["<f4", "<f2", "<f8", ">f4", "|u1", "<i8", "<f16", "", "O"]);
    let order = pick(&["False", "True", "None", "0"]);
    let shape = pick(&[
        "6, 4",
        "4, 6",
        "24,",
        "",
        "0, 4",
        "6, 0",
        "-6, 4",
        "6, 4, 1",
        "4611686018427387904, 4",
        "99999999999999999999, 1",
    ]);
    format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': ({shape}), }}\n")
}

fn numbers() -> Vec<u8> {
    let numbers: Vec<u8> = (0..24_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    assert_eq!(numbers.len(), TABLE_BYTES);
    numbers
}

fn changed_now_and_then(file: Vec<u8>, choices: &mut Choices<'_>) -> Vec<u8> {
    if choices.is_one_in(3) { changed_bytes(file, choices) } else { file }
}

/// Changes a file: JSON by its values, safetensors by those of its header, and now and then either by its bytes.
fn changed_file(path: &Path, bytes: Vec<u8>, choices: &mut Choices<'_>) -> Vec<u8> {
    if choices.is_one_in(6) {
        return changed_bytes(bytes, choices);
    }
    if path.extension().is_some_and(|ending| ending == "json") {
        return changed_json(&bytes, choices).unwrap_or(bytes);
    }
    let length =
        bytes.first_chunk().map(|length| u64::from_le_bytes(*length)).and_then(|length| usize::try_from(length).ok());
    let header = length.and_then(|length| bytes.get(8..8_usize.checked_add(length)?));
    match header.and_then(|header| Some((header.len(), changed_json(header, choices)?))) {
        Some((length, header)) => with_length(&header, &bytes[8 + length..]),
        None => changed_bytes(bytes, choices),
    }
}

fn with_length(header: &[u8], numbers: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, numbers].concat()
}

async fn table(target: &Target, name: &str, file: &[u8]) {
    let folder = tempfile::tempdir_in(target.folder()).expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, file).expect("written");
    load(target, &path, &String::from_utf8_lossy(file)).await;
}

/// The first bytes of a changed file.
fn beginning(folder: &Path, changed: &Path) -> String {
    let bytes = fs::read(folder.join(changed.file_name().expect("a file has a name"))).expect("a file");
    String::from_utf8_lossy(&bytes[..bytes.len().min(REPORTED)]).into_owned()
}

/// Loads, embeds, scores and unloads.
async fn load(target: &Target, path: &Path, what: &str) {
    let name = "fuzzed".to_owned();
    let path = path.to_string_lossy().into_owned();
    let request = v1::LoadModelRequest { name: name.clone(), path, ..Default::default() };
    // The case before failed if there still is one.
    let unload = v1::UnloadModelRequest { name: name.clone() };
    let _left = target.ask(embed_service::UNLOAD_MODEL, &unload).await;
    let status = step(target, embed_service::LOAD_MODEL, &request, what).await;
    if status.code() != Code::Ok {
        return;
    }
    let texts = ["a", "Zwölf \u{1f600} words of the text", "", "\0\u{202e} (["].map(ToOwned::to_owned).to_vec();
    let input = Some(v1::embed_request::Input::Texts(v1::TextInput { values: texts.clone() }));
    step(target, embed_service::EMBED, &v1::EmbedRequest { model: name.clone(), input, ..Default::default() }, what)
        .await;
    let tokens = v1::TokenInput { ids: vec![0, 1, 2, 30], offsets: vec![0, 3, 4] };
    let input = Some(v1::embed_request::Input::Tokens(tokens));
    step(target, embed_service::EMBED, &v1::EmbedRequest { model: name.clone(), input, ..Default::default() }, what)
        .await;
    let documents = Some(v1::TextInput { values: texts });
    let request = v1::RerankRequest { model: name, query: "words".into(), documents, ..Default::default() };
    step(target, embed_service::RERANK, &request, what).await;
    let unloaded = target.ask(embed_service::UNLOAD_MODEL, &unload).await;
    unloaded.unwrap_or_else(|status| panic!("it was loaded: {status:?} after {what}"));
}

async fn step<Q: Message, R>(target: &Target, method: Rpc<Q, R>, request: &Q, what: &str) -> Status {
    let (_, status) = target.call(method.path(), vec![request.encode_to_vec()]).await;
    target.assert_whole(&status, &format!("{} of {what}", method.path())).await;
    status
}

/// The entries of a folder in order of their names.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort_unstable();
    paths
}
