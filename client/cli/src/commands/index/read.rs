//! Reads a file, classifies it and splits it into pieces to send.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, ErrorKind, Read},
};

use accelerd_client::{OutlineItem, Payload, Value};
use sha2::{Digest, Sha256};

use crate::{
    chunk::{self, Chunk, Grammar, Windows},
    decode::{self, NotText, SNIFFED_BYTES},
    kind, language,
    walk::File,
};

/// Maximum bytes of a text in a payload, which daemons limit to 64 KiB by default.
const KEPT_BYTES: usize = 48 << 10;

/// Part of each file's hash, so that a version that splits or describes files differently sends them again.
const FORMAT: u32 = 3;

/// Payload flag of tests, which `search` ranks lower or excludes.
pub const IS_TEST: &str = "is_test";
/// Payload field of the hash of the text that was embedded.
pub const TEXT_HASH: &str = "text_hash";
/// Payload flag of generated files, which `search` ranks lower or excludes.
pub const IS_GENERATED: &str = "is_generated";

/// A chunk as a point of the collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// A UUID that is derived from the path, the name, and the number of the piece among those of its name.
    pub id: String,
    /// The text to embed.
    pub text: String,
    pub text_hash: String,
    /// The embedding of the text, if the collection has it.
    pub vector: Option<Vec<f32>>,
    pub payload: Payload,
}

/// A file that is ready to compare and send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    pub path: String,
    /// Path relative to its tree.
    pub below: String,
    /// Hash of path, content and split options.
    pub hash: String,
    pub size: u64,
    /// Id of its first piece.
    pub first_id: String,
    pub text: String,
    pub by: SplitBy,
    pub tree: String,
    pub language: String,
    pub is_test: bool,
    pub is_generated: bool,
}

/// The method that splits a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SplitBy {
    /// Into windows of lines.
    #[default]
    Lines,
    /// By the daemon's outline, if the file is valid Python.
    Outline,
    /// By the functions and classes that a grammar finds.
    Grammar(Grammar),
}

/// Options that split files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitOptions {
    pub windows: Windows,
    /// True to split Python by the daemon's outline.
    pub outlines: bool,
}

/// Result of reading a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Ready(Prepared),
    Empty,
    Binary,
    /// It was removed after the walk.
    Removed,
    /// The reason why its bytes are no text, although they may be one.
    Undecodable(String),
    /// The reason.
    Unreadable(String),
}

/// Reads and prepares a file.
pub fn read(file: &File, split_options: SplitOptions) -> Outcome {
    match read_text(file) {
        Ok(Some(bytes)) => prepare(file, split_options, &bytes),
        Ok(None) => Outcome::Binary,
        Err(error) if error.kind() == ErrorKind::NotFound => Outcome::Removed,
        Err(error) => Outcome::Unreadable(format!("{}: {error}", file.disk.display())),
    }
}

/// Reads the content; `None` if its start is binary.
fn read_text(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut source = fs::File::open(&file.disk)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.size).unwrap_or(0).max(SNIFFED_BYTES) + 1);
    source.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut bytes)?;
    if decode::is_binary(&bytes) {
        return Ok(None);
    }
    source.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn prepare(file: &File, split_options: SplitOptions, bytes: &[u8]) -> Outcome {
    let text = match decode::decode(bytes) {
        Ok(text) => text,
        Err(NotText::Binary) => return Outcome::Binary,
        Err(NotText::Undecodable(reason)) => return Outcome::Undecodable(reason),
    };
    let text = text.as_ref();
    let language = language::of_file(file.below.rsplit('/').next().unwrap_or_default());
    let name = file.below.rsplit('/').next().unwrap_or_default();
    let by = match Grammar::of(&language, name) {
        Some(grammar) => SplitBy::Grammar(grammar),
        None if split_options.outlines && language == "python" => SplitBy::Outline,
        None => SplitBy::Lines,
    };
    let Some(first_line) = split_options.windows.split(text).first().map(|chunk| chunk.start_line) else {
        return Outcome::Empty;
    };
    let hash = file_hash(&file.path, split_options.windows, by, bytes);
    Outcome::Ready(Prepared {
        path: file.path.clone(),
        below: file.below.clone(),
        hash,
        size: bytes.len() as u64,
        // The first id is compared before the file is parsed, so it cannot depend on the outline.
        first_id: piece_id(&file.path, &if by == SplitBy::Lines { first_line } else { 1 }.to_string()),
        text: text.to_owned(),
        by,
        tree: file.tree.clone(),
        is_test: kind::is_test(&file.below),
        is_generated: kind::is_generated(&file.below, text),
        language,
    })
}

impl Prepared {
    /// Splits the file by functions and classes or into windows of lines. Returns at least one piece, in the order of the file.
    pub fn pieces(&self, outline: Option<&[OutlineItem]>, windows: Windows) -> Vec<Piece> {
        let words = chunk::path_words(&self.below);
        let chunks = match (self.by, outline) {
            (SplitBy::Grammar(grammar), _) => chunk::split_by_grammar(&self.text, grammar, windows),
            (SplitBy::Outline, Some(outline)) => Some(chunk::split_python(&self.text, outline, windows)),
            (SplitBy::Lines | SplitBy::Outline, _) => None,
        };
        let chunks = chunks.unwrap_or_else(|| windows.split(&self.text));
        let mut ids = HashSet::with_capacity(chunks.len());
        let mut names = HashMap::new();
        let pieces = chunks.iter().enumerate().map(|(index, chunk)| {
            let name = chunk.name.as_deref().unwrap_or_default();
            let same_name = names.entry(name).or_insert(0_usize);
            *same_name += 1;
            // A function that only moves keeps its id. The parts of a long one have one name, as overloads do.
            let by_name = || piece_id(&self.path, &format!("{name}:{same_name}"));
            let id = if index == 0 { self.first_id.clone() } else { by_name() };
            self.piece(id, chunk, &words)
        });
        // The ids of an upsert must be distinct.
        pieces.filter(|piece| ids.insert(piece.id.clone())).collect()
    }

    fn piece(&self, id: String, chunk: &Chunk<'_>, words: &str) -> Piece {
        let text = chunk::model_text(words, chunk);
        let text_hash = hex::encode(&Sha256::digest(&text)[..16]);
        let line = |n: usize| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let facts = [
            ("path", Value::from(self.path.as_str())),
            ("tree", self.tree.as_str().into()),
            ("start_line", line(chunk.start_line)),
            ("end_line", line(chunk.end_line)),
            ("language", self.language.as_str().into()),
            ("file_hash", self.hash.as_str().into()),
            (TEXT_HASH, text_hash.as_str().into()),
            (IS_TEST, (self.is_test || chunk.is_test).into()),
            (IS_GENERATED, self.is_generated.into()),
        ];
        let mut payload = Payload::from(facts.map(|(name, value)| (name.to_owned(), value)));
        payload.extend(chunk.name.as_ref().map(|name| ("name".to_owned(), Value::from(name.as_str()))));
        Piece { id, text, text_hash, vector: None, payload }
    }
}

impl Piece {
    /// Stores the text in a field of the payload, truncated to the limit.
    pub fn keep_text(&mut self, field: &str) {
        let kept =
            self.text.char_indices().map(|(index, c)| index + c.len_utf8()).take_while(|end| *end <= KEPT_BYTES).last();
        self.payload.insert(field.to_owned(), Value::from(&self.text[..kept.unwrap_or(0)]));
    }
}

fn file_hash(path: &str, windows: Windows, by: SplitBy, bytes: &[u8]) -> String {
    let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(bytes).finalize();
    let by = match by {
        SplitBy::Lines => "lines",
        SplitBy::Outline => "outline",
        SplitBy::Grammar(_) => "grammar",
    };
    format!("{}:{}:{by}:{FORMAT}", hex::encode(&digest[..16]), windows.tag())
}

/// Derives a UUID of version 8 (RFC 9562: application-defined) from SHA-256.
fn piece_id(path: &str, place: &str) -> String {
    let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(place).finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    let digits = hex::encode(id);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use std::{ops::RangeInclusive, path::PathBuf};

    use accelerd_client::proto::NodeKind;

    use super::*;

    fn file(path: &str) -> File {
        let below = path.trim_start_matches("t/").to_owned();
        File { tree: "t".into(), path: path.into(), below, disk: PathBuf::from("/nowhere"), size: 0, modified: None }
    }

    fn split_options() -> SplitOptions {
        SplitOptions { windows: Windows::new(40, 10).unwrap(), outlines: true }
    }

    fn ready(path: &str, text: &str) -> Prepared {
        let outcome = prepare(&file(path), split_options(), text.as_bytes());
        let Outcome::Ready(prepared) = outcome else { panic!("{outcome:?}") };
        prepared
    }

    fn windowed(path: &str, text: &str) -> Vec<Piece> {
        ready(path, text).pieces(None, split_options().windows)
    }

    fn outlined(
        path: &str,
        text: &str,
        items: &[(NodeKind, &str, RangeInclusive<usize>, Option<usize>)],
    ) -> Vec<Piece> {
        let item = |(kind, name, lines, parent): &(NodeKind, &str, RangeInclusive<usize>, Option<usize>)| OutlineItem {
            kind: *kind,
            name: (*name).to_owned(),
            span: 0..0,
            lines: lines.clone(),
            parent: *parent,
            docstring: None,
        };
        let outline: Vec<_> = items.iter().map(item).collect();
        ready(path, text).pieces(Some(&outline), split_options().windows)
    }

    #[test]
    fn the_model_sees_the_words_of_the_path() {
        let pieces = windowed("t/net/tcp_server.py", "def listen(): ...\n");
        assert_eq!(pieces[0].text, "net tcp server\ndef listen(): ...");
        assert_eq!(pieces[0].payload["language"], "python".into());
        assert_eq!(pieces[0].payload["path"], "t/net/tcp_server.py".into());
        assert_eq!(pieces[0].payload.get("name"), None);
    }

    #[test]
    fn a_piece_of_an_outline_has_its_qualified_name() {
        let text = "\n\nclass Server:\n    def listen(self): ...\n";
        let items = [(NodeKind::ClassDef, "Server", 3..=4, None), (NodeKind::FunctionDef, "listen", 4..=4, Some(0))];
        let pieces = outlined("t/tcp.py", text, &items);
        assert_eq!(pieces[1].text, "tcp Server listen\nServer listen\n    def listen(self): ...");
        assert_eq!(pieces[1].payload["name"], "Server.listen".into());
        assert_eq!(pieces[0].id, ready("t/tcp.py", text).first_id);
        assert_eq!(windowed("t/tcp.py", text)[0].id, pieces[0].id, "it is known before the outline is");
    }

    #[test]
    fn ids_are_uuids_that_stay_and_differ_by_path_and_line() {
        let long = "x\n".repeat(200);
        let one = windowed("t/a.py", &long);
        let other = windowed("t/b.py", &long);
        let ids: std::collections::BTreeSet<_> = one.iter().chain(&other).map(|piece| piece.id.clone()).collect();
        assert_eq!(ids.len(), one.len() + other.len());
        assert_eq!(piece_id("t/a.py", "1"), one[0].id);
        let id = &one[0].id;
        assert_eq!((id.len(), &id[14..15]), (36, "8"));
        assert!(["8", "9", "a", "b"].contains(&&id[19..20]));
    }

    #[test]
    fn a_function_that_moves_keeps_its_id_and_the_hash_of_its_text() {
        let def = |name: &'static str, line: usize| (NodeKind::FunctionDef, name, line..=line + 1, None);
        let text = "def g():\n    0\ndef f():\n    pass\ndef f():\n    1\n";
        let before = outlined("t/a.py", text, &[def("g", 1), def("f", 3), def("f", 5)]);
        let after = outlined("t/a.py", &format!("import b\n{text}"), &[def("g", 2), def("f", 4), def("f", 6)]);
        let key = |piece: &Piece| (piece.id.clone(), piece.text_hash.clone());
        assert_eq!(before.len(), 3);
        assert_eq!((key(&before[1]), key(&before[2])), (key(&after[1]), key(&after[2])));
        assert_ne!(before[1].id, before[2].id);
        assert_ne!(before[1].payload["start_line"], after[1].payload["start_line"]);
        assert_eq!(before[0].id, after[0].id, "the first piece has one id");
        assert_ne!(before[0].text_hash, after[0].text_hash);
    }

    #[test]
    fn hashes_tell_contents_paths_and_windows_apart() {
        let hash = |path, text: &str| ready(path, text).hash;
        assert_eq!(hash("t/a", "x"), hash("t/a", "x"));
        assert_ne!(hash("t/a", "x"), hash("t/a", "y"));
        assert_ne!(hash("t/a", "x"), hash("t/b", "x"));
        let other_windows = Windows::new(20, 5).unwrap();
        assert_ne!(file_hash("t/a", other_windows, SplitBy::Lines, b"x"), hash("t/a", "x"));
        assert_ne!(file_hash("t/a.py", split_options().windows, SplitBy::Lines, b"x"), hash("t/a.py", "x"));
    }

    #[test]
    fn a_text_that_is_kept_ends_at_a_character() {
        let kept = |text: &str| {
            let mut piece = Piece { text: text.to_owned(), ..Piece::default() };
            piece.keep_text("text");
            piece.payload["text"].as_str().map(str::len)
        };
        assert_eq!(kept(""), Some(0));
        assert_eq!(kept("é"), Some(2));
        assert_eq!(kept(&("x".to_owned() + &"é".repeat(KEPT_BYTES))), Some(KEPT_BYTES - 1));
    }

    #[test]
    fn a_text_of_another_encoding_is_split_as_text() {
        let Outcome::Ready(file) = prepare(&file("t/a.txt"), split_options(), b"// na\xefve\n") else { panic!("text") };
        assert_eq!((file.text.as_str(), file.size), ("// na\u{ef}ve\n", 9));
    }

    #[test]
    fn what_is_no_text_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let zeros = File { disk: folder.path().join("a"), ..file("t/a") };
        fs::write(&zeros.disk, b"a\0b").unwrap();
        assert_eq!(super::read(&zeros, split_options()), Outcome::Binary);
        assert_eq!(prepare(&file("t/a"), split_options(), b"\x1f\x8b\xef"), Outcome::Binary);
        let martian = prepare(&file("t/a"), split_options(), b"# coding: martian\n\xef");
        assert!(matches!(martian, Outcome::Undecodable(reason) if reason.contains("martian")));
        assert_eq!(prepare(&file("t/a"), split_options(), b" \n\n"), Outcome::Empty);
        assert_eq!(read(&file("t/a"), split_options()), Outcome::Removed);
        let folder = File { disk: folder.path().to_owned(), ..file("t/a") };
        assert!(matches!(read(&folder, split_options()), Outcome::Unreadable(_)));
    }
}
