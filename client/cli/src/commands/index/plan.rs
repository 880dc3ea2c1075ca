//! Decides what to send: which files changed, and how pieces are packed into batches.

use std::collections::HashMap;

use accelerd_client::{Points, Prompt, Upsert};

use super::read::{Piece, Prepared};

/// Maximum pieces per batch: few enough to show the progress of a slow model.
const BATCH_PIECES: usize = 128;
/// Maximum bytes per batch.
const BATCH_BYTES: usize = 1 << 20;

/// Returns true if the collection has this version of a file: its first piece is stored with its hash.
pub fn is_unchanged(file: &Prepared, stored_hashes: &HashMap<String, String>) -> bool {
    stored_hashes.get(&file.first_id).is_some_and(|hash| *hash == file.hash)
}

/// One upsert of the stream, and the files that it completes.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub upsert: Upsert,
    /// Bytes of its pieces' files, for progress.
    pub bytes: u64,
    /// Path and hash of each file whose last piece is in the batch.
    pub whole: Vec<(String, String)>,
}

impl Batch {
    /// Number of points.
    pub fn len(&self) -> usize {
        self.upsert.ids.len()
    }
}

/// Packs pieces into batches.
#[derive(Debug, Default)]
pub struct Batches {
    ids: Vec<String>,
    texts: Vec<String>,
    payloads: Vec<accelerd_client::Payload>,
    text_bytes: usize,
    bytes: u64,
    whole: Vec<(String, String)>,
}

impl Batches {
    /// Adds a file's pieces, the first one last. Returns the full batches.
    pub fn add(&mut self, file: &Prepared, pieces: Vec<Piece>) -> Vec<Batch> {
        let count = pieces.len() as u64;
        let mut left = file.size;
        let mut full = vec![];
        for (behind, piece) in (0..count).zip(pieces.into_iter().rev()) {
            let is_last = behind + 1 == count;
            let share = if is_last { left } else { file.size / count };
            left -= share;
            self.bytes += share;
            if is_last {
                self.whole.push((file.path.clone(), file.hash.clone()));
            }
            full.extend(self.push(piece));
        }
        full
    }

    /// Returns the last, partial batch.
    pub fn take(&mut self) -> Option<Batch> {
        let taken = std::mem::take(self);
        if taken.ids.is_empty() {
            return None;
        }
        let points = Points::Texts(taken.texts);
        let upsert = Upsert { ids: taken.ids.into(), points, payloads: taken.payloads, prompt: Prompt::Default };
        Some(Batch { upsert, bytes: taken.bytes, whole: taken.whole })
    }

    fn push(&mut self, piece: Piece) -> Option<Batch> {
        self.text_bytes += piece.text.len();
        self.ids.push(piece.id);
        self.texts.push(piece.text);
        self.payloads.push(piece.payload);
        if self.ids.len() >= BATCH_PIECES || self.text_bytes >= BATCH_BYTES { self.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use accelerd_client::{Ids, Payload};

    use super::*;

    fn pieces(name: &str, count: usize, text: &str) -> Vec<Piece> {
        let piece = |n: usize| Piece { id: format!("{name}{n}"), text: text.to_owned(), payload: Payload::new() };
        (0..count).map(piece).collect()
    }

    fn uuids(batch: &Upsert) -> &[String] {
        match &batch.ids {
            Ids::Uuids(uuids) => uuids,
            Ids::Numbers(_) => panic!("pieces have UUIDs"),
        }
    }

    #[test]
    fn only_a_file_whose_first_piece_is_there_with_its_hash_is_unchanged() {
        let stored = |id: &str, hash: &str| HashMap::from([(id.to_owned(), hash.to_owned())]);
        let file = Prepared { first_id: "a0".into(), hash: "hash of a".into(), ..Default::default() };
        assert!(is_unchanged(&file, &stored("a0", "hash of a")));
        assert!(!is_unchanged(&file, &stored("a0", "another hash")));
        assert!(!is_unchanged(&file, &stored("a1", "hash of a")));
        assert!(!is_unchanged(&file, &HashMap::new()));
    }

    fn file(size: u64) -> Prepared {
        Prepared { path: "t/a".into(), hash: "hash of a".into(), size, ..Default::default() }
    }

    #[test]
    fn the_first_piece_of_a_file_is_sent_last() {
        let mut batches = Batches::default();
        let mut sent = vec![];
        for full in batches.add(&file(0), pieces("a", 600, "x")).into_iter().chain(batches.take()) {
            sent.extend(uuids(&full.upsert).to_vec());
        }
        assert_eq!((sent.len(), sent[0].as_str(), sent[599].as_str()), (600, "a599", "a0"));
    }

    #[test]
    fn batches_are_bounded_by_pieces_and_by_bytes() {
        let mut batches = Batches::default();
        let full: Vec<_> = batches.add(&file(0), pieces("a", 300, "x")).iter().map(Batch::len).collect();
        assert_eq!(full, [128, 128]);
        assert_eq!(batches.take().map(|batch| batch.len()), Some(44));
        assert_eq!(batches.take(), None);
        let text = "x".repeat(BATCH_BYTES / 4);
        let full: Vec<_> = batches.add(&file(0), pieces("b", 9, &text)).iter().map(Batch::len).collect();
        assert_eq!(full, [4, 4]);
    }

    #[test]
    fn a_file_is_whole_with_its_last_piece_and_its_bytes_are_shared_by_all() {
        let mut batches = Batches::default();
        let mut sent = batches.add(&file(1_000), pieces("a", 300, "x"));
        sent.extend(batches.take());
        assert_eq!(sent.iter().map(|batch| batch.bytes).collect::<Vec<_>>(), [384, 384, 232]);
        assert_eq!(sent.iter().map(|batch| batch.whole.len()).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(sent[2].whole[0], ("t/a".to_owned(), "hash of a".to_owned()));
    }
}
