//! Files that a daemon reads: damaged ones are refused, without a panic.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accelerd_models::Model;
use accelerd_store::{Access, CollectionMeta, Ids, SnapshotReader, SnapshotWriter, Upsert};

use super::{choices::Choices, messages::mutate_bytes};

const MAX_CHANGES: usize = 4;
/// Headers of files are changed more often than what follows.
const HEADER: usize = 1200;

/// Loads a changed copy of a model's folder.
pub fn model_folder(seeds: &Path, data: &[u8]) {
    let choices = &mut Choices::new(data);
    let mut models = entries(seeds);
    models.retain(|model| model.join("config.json").is_file());
    let model = &models[choices.below(models.len())];
    let folder = tempfile::tempdir().expect("a folder");
    let files: Vec<PathBuf> = entries(model).into_iter().filter(|path| path.is_file()).collect();
    let changed = choices.below(files.len());
    for (nth, file) in files.iter().enumerate() {
        let bytes = fs::read(file).expect("a file");
        let to = folder.path().join(file.file_name().expect("a file has a name"));
        fs::write(to, if nth == changed { mutated(bytes, choices) } else { bytes }).expect("written");
    }
    drop(Model::load("fuzzed", folder.path()));
}

/// Loads a changed table of NumPy.
pub fn npy(data: &[u8]) {
    let numbers: Vec<u8> = (0..24_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 4), }";
    let header = format!("{header:<117}\n");
    let file = [b"\x93NUMPY\x01\x00".as_slice(), &118_u16.to_le_bytes(), header.as_bytes(), &numbers].concat();
    load_table("table.npy", file, data);
}

/// Loads a changed table of safetensors.
pub fn safetensors(data: &[u8]) {
    let numbers: Vec<u8> = (0..24_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    let header = r#"{"embeddings":{"dtype":"F32","shape":[6,4],"data_offsets":[0,96]}}"#;
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &numbers].concat();
    load_table("table.safetensors", file, data);
}

fn load_table(name: &str, file: Vec<u8>, data: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, mutated(file, &mut Choices::new(data))).expect("written");
    drop(Model::load("fuzzed", &path));
}

/// A snapshot of a few points in a folder.
pub async fn write_snapshot(folder: &Path) {
    let meta = serde_json::json!({
        "format": CollectionMeta::FORMAT, "name": "points", "dim": 2, "metric": "dot", "storage": "f32", "model": "", "durable": true,
        "create_time_ms": 1,
    });
    let meta: CollectionMeta = serde_json::from_value(meta).expect("a description");
    let mut writer = SnapshotWriter::create(&url(folder), &Access::default(), meta, 1, "seed").await.expect("a writer");
    let vectors = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat().into();
    let points = Upsert { ids: Ids::Numbers(vec![7, 9]), dim: 2, vectors, payloads: vec![] };
    writer.push(points).await.expect("a chunk");
    writer.finish().await.expect("a snapshot");
}

/// Reads a changed copy of a snapshot.
pub async fn snapshot(seed: &Path, data: &[u8]) {
    let choices = &mut Choices::new(data);
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = vec![];
    collect(seed, &mut files);
    let changed = choices.below(files.len());
    for (nth, file) in files.iter().enumerate() {
        let to = folder.path().join(file.strip_prefix(seed).expect("a file of the folder"));
        fs::create_dir_all(to.parent().expect("a file is in a folder")).expect("a folder");
        let bytes = fs::read(file).expect("a file");
        fs::write(to, if nth == changed { mutated(bytes, choices) } else { bytes }).expect("written");
    }
    let Ok(mut reader) = SnapshotReader::open(&url(folder.path()), &Access::default()).await else { return };
    while let Ok(Some(_)) = reader.next().await {}
}

fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// The entries of a folder in order of their names.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort_unstable();
    paths
}

fn mutated(mut bytes: Vec<u8>, choices: &mut Choices<'_>) -> Vec<u8> {
    for _ in 0..1 + choices.below(MAX_CHANGES) {
        if choices.is_one_in(3) || bytes.len() <= HEADER {
            mutate_bytes(&mut bytes, choices);
        } else {
            let rest = bytes.split_off(HEADER);
            mutate_bytes(&mut bytes, choices);
            bytes.extend(rest);
        }
    }
    bytes
}
