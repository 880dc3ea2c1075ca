//! What to send, decided without a daemon: which files changed, and how pieces make batches.

use std::collections::HashMap;

use accelerd_client::{Points, Upsert};

use super::read::{Piece, Prepared};

/// Most pieces of a batch.
const BATCH_PIECES: usize = 256;
/// A batch with this much text is full.
const BATCH_BYTES: usize = 1 << 20;

/// Whether the collection has this very file: the piece that starts it is there with its hash.
pub fn is_unchanged(file: &Prepared, stored_hashes: &HashMap<String, String>) -> bool {
    stored_hashes.get(&file.first_id).is_some_and(|hash| *hash == file.hash)
}

/// Pieces on their way into batches.
#[derive(Debug, Default)]
pub struct Batch {
    ids: Vec<String>,
    texts: Vec<String>,
    payloads: Vec<accelerd_client::Payload>,
    bytes: usize,
}

impl Batch {
    /// Adds a file's pieces, the first one last, and gives the batches that are full now.
    pub fn add(&mut self, pieces: Vec<Piece>) -> Vec<Upsert> {
        pieces.into_iter().rev().filter_map(|piece| self.push(piece)).collect()
    }

    /// What is left; `None` when nothing is.
    pub fn take(&mut self) -> Option<Upsert> {
        let batch = std::mem::take(self);
        (!batch.ids.is_empty()).then(|| Upsert {
            ids: batch.ids.into(),
            points: Points::Texts(batch.texts),
            payloads: batch.payloads,
        })
    }

    fn push(&mut self, piece: Piece) -> Option<Upsert> {
        self.bytes += piece.text.len();
        self.ids.push(piece.id);
        self.texts.push(piece.text);
        self.payloads.push(piece.payload);
        if self.ids.len() >= BATCH_PIECES || self.bytes >= BATCH_BYTES { self.take() } else { None }
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

    #[test]
    fn the_first_piece_of_a_file_is_sent_last() {
        let mut batch = Batch::default();
        let mut sent = vec![];
        for full in batch.add(pieces("a", 600, "x")).into_iter().chain(batch.take()) {
            sent.extend(uuids(&full).to_vec());
        }
        assert_eq!((sent.len(), sent[0].as_str(), sent[599].as_str()), (600, "a599", "a0"));
    }

    #[test]
    fn batches_are_bounded_by_pieces_and_by_bytes() {
        let mut batch = Batch::default();
        let full: Vec<_> = batch.add(pieces("a", 600, "x")).iter().map(|b| b.ids.len()).collect();
        assert_eq!(full, [256, 256]);
        assert_eq!(batch.take().map(|b| b.ids.len()), Some(88));
        assert_eq!(batch.take(), None);
        let text = "x".repeat(BATCH_BYTES / 4);
        let full: Vec<_> = batch.add(pieces("b", 9, &text)).iter().map(|b| b.ids.len()).collect();
        assert_eq!(full, [4, 4]);
    }
}
