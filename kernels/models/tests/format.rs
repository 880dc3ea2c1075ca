//! Invalid files of table models are rejected with a reason.

use accelerd_models::{Model, ModelError};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

const PIECES: &str = "abcdefghijklmnopqrstuvwxyz0123456789";

/// The parts of a small table's file.
#[derive(Clone)]
struct File {
    magic: &'static [u8],
    version: u32,
    rows: u32,
    dim: u32,
    offered: Vec<u32>,
    vocabulary: Vec<u8>,
    characters: Vec<u8>,
    scales: Vec<f32>,
    values: Vec<i8>,
}

impl File {
    fn small() -> Self {
        let starts = PIECES.chars().map(|c| format!("{c}\n"));
        let inner = PIECES.chars().map(|c| format!("##{c}\n"));
        Self {
            magic: b"ACCTABLE",
            version: 1,
            rows: 72,
            dim: 2,
            offered: vec![2, 1],
            vocabulary: starts.chain(inner).collect::<String>().into_bytes(),
            characters: "ÉE\nßss\n".into(),
            scales: vec![0.5; 72],
            values: vec![-3; 144],
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        let count = |n: usize| u32::try_from(n).expect("small");
        let header = [self.version, self.rows, self.dim, count(self.offered.len())];
        header.iter().chain(&self.offered).for_each(|word| bytes.extend(word.to_le_bytes()));
        for text in [&self.vocabulary, &self.characters] {
            bytes.extend(count(text.len()).to_le_bytes());
            bytes.extend(text);
        }
        self.scales.iter().for_each(|scale| bytes.extend(scale.to_le_bytes()));
        bytes.extend(self.values.iter().map(|value| value.cast_unsigned()));
        let digest = Sha256::digest(&bytes);
        bytes.extend(digest);
        bytes
    }

    fn error(&self) -> Option<ModelError> {
        Model::parse("small", &self.bytes()).err()
    }
}

#[test]
fn a_small_file_is_read_as_written() {
    let model = Model::parse("small", &File::small().bytes()).expect("a fit file");
    assert_eq!((model.name(), model.vocabulary_size(), model.offered_dimensions()), ("small", 72, &[2, 1][..]));
    assert_eq!((model.table().expect("a table").scales[71], model.table().expect("a table").values[143]), (0.5, -3));
    let mut ids = vec![];
    model.token_ids("aÉ ß", &mut ids).expect("it takes texts");
    assert_eq!(ids, [0, 4, 18, 36 + 18]);
    assert_eq!(model.sha256(), hex::encode(Sha256::digest(File::small().bytes())));
}

#[test]
fn tables_of_two_models_have_different_ids() {
    let parse = || Model::parse("small", &File::small().bytes()).expect("a fit file");
    assert_ne!(parse().table().expect("a table").id, parse().table().expect("a table").id);
}

#[test]
fn a_file_without_the_magic_is_rejected() {
    assert_eq!(File { magic: b"SAFETENS", ..File::small() }.error(), Some(ModelError::Magic));
}

#[test]
fn an_unsupported_version_is_rejected() {
    let error = File { version: 2, ..File::small() }.error();
    assert_eq!(error, Some(ModelError::Version { expected: 1, got: 2 }));
}

#[test]
fn a_changed_byte_fails_the_checksum() {
    let mut bytes = File::small().bytes();
    let offset = bytes.len() - 40;
    bytes[offset] ^= 1;
    assert_eq!(Model::parse("small", &bytes).err(), Some(ModelError::Checksum));
}

#[test]
fn an_empty_table_is_rejected() {
    let error = File { dim: 0, ..File::small() }.error();
    assert_eq!(error, Some(ModelError::Empty { rows: 72, dim: 0 }));
}

#[test]
fn offered_dimensions_must_decrease_from_the_columns() {
    for offered in [vec![], vec![1], vec![2, 2], vec![2, 3], vec![2, 0]] {
        let error = File { offered: offered.clone(), ..File::small() }.error();
        assert_eq!(error, Some(ModelError::Dimensions { dim: 2, got: offered }));
    }
}

#[test]
fn a_vocabulary_of_another_size_is_rejected() {
    let error = File { vocabulary: b"a\nb\n".to_vec(), ..File::small() }.error();
    assert_eq!(error, Some(ModelError::VocabularySize { expected: 72, got: 2 }));
}

#[test]
fn text_that_is_not_utf8_is_rejected() {
    let error = File { vocabulary: vec![0xFF], ..File::small() }.error();
    assert_eq!(error, Some(ModelError::NotUtf8("vocabulary")));
    let error = File { characters: vec![0xFF], ..File::small() }.error();
    assert_eq!(error, Some(ModelError::NotUtf8("character map")));
}

#[test]
fn a_scale_that_is_no_number_is_rejected() {
    let mut file = File::small();
    file.scales[5] = f32::NAN;
    assert_eq!(file.error(), Some(ModelError::Scale(5)));
}

#[test]
fn bytes_after_the_values_are_rejected() {
    let mut file = File::small();
    file.values.push(0);
    assert_eq!(file.error(), Some(ModelError::Trailing(1)));
}

#[test]
fn a_row_count_far_beyond_the_file_is_rejected_without_allocating_it() {
    let error = File { rows: u32::MAX, dim: u32::MAX, offered: vec![u32::MAX], ..File::small() }.error();
    assert_eq!(error, Some(ModelError::VocabularySize { expected: u32::MAX as usize, got: 72 }));
}

#[test]
fn every_truncated_file_is_rejected() {
    let bytes = File::small().bytes();
    for end in 0..bytes.len() {
        assert!(Model::parse("small", &bytes[..end]).is_err(), "cut at {end}");
    }
}

proptest! {
    #[test]
    fn bytes_behind_a_valid_checksum_never_panic(changes in prop::collection::vec((12..400_usize, any::<u8>()), 1..8)) {
        let mut bytes = File::small().bytes();
        let content = bytes.len() - 32;
        for (index, byte) in changes {
            bytes[index % content] = byte;
        }
        let digest = Sha256::digest(&bytes[..content]);
        bytes[content..].copy_from_slice(&digest);
        let _ = Model::parse("small", &bytes);
    }
}
