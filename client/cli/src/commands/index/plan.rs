//! Decides what to send: which files changed, and how pieces are packed into batches.

use std::collections::HashMap;

use accelerd_client::{Matrix, Points, Prompt, Upsert};

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

/// Packs pieces into batches, of texts or of vectors. The first piece of a file is in a batch after its others, or in the last of
/// these.
#[derive(Debug, Default)]
pub struct Batches {
    /// Pieces whose vectors the collection has.
    reused: PartialBatch,
    /// Pieces to embed.
    texts: PartialBatch,
    /// First pieces whose vectors the collection has, of files with pieces to embed.
    reused_firsts: PartialBatch,
}

impl Batches {
    /// Adds a file's pieces, the first one last. Returns the full batches.
    pub fn add(&mut self, file: &Prepared, pieces: Vec<Piece>) -> Vec<Batch> {
        let count = pieces.len() as u64;
        let has_texts = pieces.iter().any(|piece| piece.vector.is_none());
        let mut left = file.size;
        let mut full = vec![];
        for (behind, piece) in (0..count).zip(pieces.into_iter().rev()) {
            let is_first = behind + 1 == count;
            let share = if is_first { left } else { file.size / count };
            left -= share;
            let to = match (&piece.vector, is_first && has_texts) {
                (None, _) => &mut self.texts,
                (Some(_), false) => &mut self.reused,
                (Some(_), true) => &mut self.reused_firsts,
            };
            to.bytes += share;
            to.whole.extend(is_first.then(|| (file.path.clone(), file.hash.clone())));
            to.push(piece);
            if self.texts.is_full() || self.reused_firsts.is_full() {
                full.extend(self.take());
            } else if self.reused.is_full() {
                full.extend(self.reused.take());
            }
        }
        full
    }

    /// Returns the last, partial batches, in the order in which to send them.
    pub fn take(&mut self) -> impl Iterator<Item = Batch> + use<> {
        [self.reused.take(), self.texts.take(), self.reused_firsts.take()].into_iter().flatten()
    }
}

/// A batch that is not full: of texts, or of vectors.
#[derive(Debug, Default)]
struct PartialBatch {
    ids: Vec<String>,
    texts: Vec<String>,
    vectors: Vec<f32>,
    payloads: Vec<accelerd_client::Payload>,
    text_bytes: usize,
    bytes: u64,
    whole: Vec<(String, String)>,
}

impl PartialBatch {
    fn push(&mut self, piece: Piece) {
        self.text_bytes += piece.text.len();
        self.ids.push(piece.id);
        self.texts.push(piece.text);
        self.vectors.extend(piece.vector.into_iter().flatten());
        self.payloads.push(piece.payload);
    }

    fn is_full(&self) -> bool {
        self.ids.len() >= BATCH_PIECES || self.text_bytes >= BATCH_BYTES
    }

    fn take(&mut self) -> Option<Batch> {
        let taken = std::mem::take(self);
        if taken.ids.is_empty() {
            return None;
        }
        let dimensions = taken.vectors.len() / taken.ids.len();
        let points = match Matrix::new(taken.vectors, dimensions) {
            Ok(vectors) if vectors.rows() == taken.ids.len() => Points::Vectors(vectors.into()),
            Ok(_) | Err(_) => Points::Texts(taken.texts),
        };
        let upsert = Upsert { ids: taken.ids.into(), points, payloads: taken.payloads, prompt: Prompt::Default };
        Some(Batch { upsert, bytes: taken.bytes, whole: taken.whole })
    }
}

#[cfg(test)]
mod tests {
    use accelerd_client::Ids;

    use super::*;

    fn pieces(name: &str, count: usize, text: &str) -> Vec<Piece> {
        let piece = |n: usize| Piece { id: format!("{name}{n}"), text: text.to_owned(), ..Piece::default() };
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

    /// Pieces of which some have a vector.
    fn partly_reused(name: &str, reused: &[bool]) -> Vec<Piece> {
        let vector = |is_reused: bool| is_reused.then(|| vec![1.0, 2.0]);
        let pieces = pieces(name, reused.len(), "x").into_iter().zip(reused);
        pieces.map(|(piece, is_reused)| Piece { vector: vector(*is_reused), ..piece }).collect()
    }

    #[test]
    fn pieces_with_vectors_are_sent_as_vectors_and_the_first_piece_of_a_file_is_still_last() {
        let mut batches = Batches::default();
        assert_eq!(batches.add(&file(0), partly_reused("a", &[true, false, true])), []);
        assert_eq!(batches.add(&file(0), partly_reused("b", &[false, true])), []);
        assert_eq!(batches.add(&file(0), partly_reused("c", &[true, true])), []);
        let sent: Vec<_> = batches.take().collect();
        let ids: Vec<_> = sent.iter().map(|batch| uuids(&batch.upsert).join(" ")).collect();
        assert_eq!(ids, ["a2 b1 c1 c0", "a1 b0", "a0"]);
        let is_texts = |batch: &Batch| matches!(batch.upsert.points, Points::Texts(_));
        assert_eq!(sent.iter().map(is_texts).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(sent.iter().map(|batch| batch.whole.len()).collect::<Vec<_>>(), [1, 1, 1]);
    }

    #[test]
    fn batches_are_bounded_by_pieces_and_by_bytes() {
        let mut batches = Batches::default();
        let full: Vec<_> = batches.add(&file(0), pieces("a", 300, "x")).iter().map(Batch::len).collect();
        assert_eq!(full, [128, 128]);
        assert_eq!(batches.take().map(|batch| batch.len()).collect::<Vec<_>>(), [44]);
        assert_eq!(batches.take().count(), 0);
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
