//! One file: read, judged, cut into pieces that are ready to send.

use std::{
    fs,
    io::{self, Read},
};

use accelerd_client::{Payload, Value};
use sha2::{Digest, Sha256};

use super::walk::File;
use crate::{
    chunk::{self, Windows},
    language,
};

/// Bytes looked at for a zero, which no text has.
const SNIFFED_BYTES: usize = 8 << 10;

/// A chunk as a point of the collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// A UUID that only its path and first line decide.
    pub id: String,
    /// What the model sees.
    pub text: String,
    pub payload: Payload,
}

/// A file as points of the collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    pub path: String,
    /// The path below its tree, for people.
    pub below: String,
    /// Of its path, the windows and its content.
    pub hash: String,
    pub size: u64,
    /// In the order of the file; at least one.
    pub pieces: Vec<Piece>,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Ready(Prepared),
    Empty,
    Binary,
    /// Why.
    Unreadable(String),
}

/// Reads and cuts a file.
pub fn read(file: &File, windows: Windows) -> Outcome {
    match read_text(file) {
        Ok(Some(bytes)) => prepare(file, windows, &bytes),
        Ok(None) => Outcome::Binary,
        Err(error) => Outcome::Unreadable(format!("{}: {error}", file.disk.display())),
    }
}

/// The content; `None` where its start shows that it is no text.
fn read_text(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut source = fs::File::open(&file.disk)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.size).unwrap_or(0).max(SNIFFED_BYTES) + 1);
    source.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Ok(None);
    }
    source.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn prepare(file: &File, windows: Windows, bytes: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(bytes) else { return Outcome::Binary };
    let chunks = windows.cut(text);
    if chunks.is_empty() {
        return Outcome::Empty;
    }
    let hash = file_hash(&file.path, windows, bytes);
    let words = chunk::path_words(&file.below);
    let language = language::of_file(file.below.rsplit('/').next().unwrap_or_default());
    let piece = |chunk: &chunk::Chunk<'_>| {
        let line = |n: usize| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let facts = [
            ("path", Value::from(file.path.as_str())),
            ("tree", file.tree.as_str().into()),
            ("start_line", line(chunk.start_line)),
            ("end_line", line(chunk.end_line)),
            ("language", language.as_str().into()),
            ("file_hash", hash.as_str().into()),
        ];
        Piece {
            id: piece_id(&file.path, chunk.start_line),
            text: chunk::model_text(&words, chunk),
            payload: facts.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    };
    let pieces = chunks.iter().map(piece).collect();
    Outcome::Ready(Prepared {
        path: file.path.clone(),
        below: file.below.clone(),
        size: bytes.len() as u64,
        hash,
        pieces,
    })
}

fn file_hash(path: &str, windows: Windows, bytes: &[u8]) -> String {
    let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(bytes).finalize();
    format!("{}:{}", hex::encode(&digest[..16]), windows.tag())
}

/// A UUID of version 8 (RFC 9562: made by the application's own rule) from SHA-256.
fn piece_id(path: &str, start_line: usize) -> String {
    let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(start_line.to_string()).finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    let digits = hex::encode(id);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(path: &str) -> File {
        let below = path.trim_start_matches("t/").to_owned();
        File { tree: "t".into(), path: path.into(), below, disk: PathBuf::from("/nowhere"), size: 0 }
    }

    fn ready(path: &str, text: &str) -> Prepared {
        let outcome = prepare(&file(path), Windows::new(40, 10).unwrap(), text.as_bytes());
        let Outcome::Ready(prepared) = outcome else { panic!("{outcome:?}") };
        prepared
    }

    #[test]
    fn the_model_sees_the_words_of_the_path() {
        let prepared = ready("t/net/tcp_server.py", "def listen(): ...\n");
        assert_eq!(prepared.pieces[0].text, "net tcp server\ndef listen(): ...");
        assert_eq!(prepared.pieces[0].payload["language"], "python".into());
        assert_eq!(prepared.pieces[0].payload["path"], "t/net/tcp_server.py".into());
    }

    #[test]
    fn ids_are_uuids_that_stay_and_differ_by_path_and_line() {
        let long = "x\n".repeat(200);
        let (one, other) = (ready("t/a.py", &long), ready("t/b.py", &long));
        let ids: std::collections::BTreeSet<_> =
            one.pieces.iter().chain(&other.pieces).map(|piece| piece.id.clone()).collect();
        assert_eq!(ids.len(), one.pieces.len() + other.pieces.len());
        assert_eq!(piece_id("t/a.py", 1), one.pieces[0].id);
        let id = &one.pieces[0].id;
        assert_eq!((id.len(), &id[14..15]), (36, "8"));
        assert!(["8", "9", "a", "b"].contains(&&id[19..20]));
    }

    #[test]
    fn hashes_tell_contents_paths_and_windows_apart() {
        let hash = |path, text: &str| ready(path, text).hash;
        assert_eq!(hash("t/a", "x"), hash("t/a", "x"));
        assert_ne!(hash("t/a", "x"), hash("t/a", "y"));
        assert_ne!(hash("t/a", "x"), hash("t/b", "x"));
        let other_windows = Windows::new(20, 5).unwrap();
        assert_ne!(file_hash("t/a", other_windows, b"x"), hash("t/a", "x"));
    }

    #[test]
    fn what_is_no_text_is_passed_over() {
        let windows = Windows::new(40, 10).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let zeros = File { disk: folder.path().join("a"), ..file("t/a") };
        fs::write(&zeros.disk, b"a\0b").unwrap();
        assert_eq!(super::read(&zeros, windows), Outcome::Binary);
        assert_eq!(prepare(&file("t/a"), windows, b"na\xefve"), Outcome::Binary);
        assert_eq!(prepare(&file("t/a"), windows, b" \n\n"), Outcome::Empty);
        assert!(matches!(read(&file("t/a"), windows), Outcome::Unreadable(_)));
    }
}
