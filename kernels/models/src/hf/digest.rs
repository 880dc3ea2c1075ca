//! The digest of a model: of all files that its vectors depend on.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::{
    error::LoadError,
    files::read_optional,
    modules::{self, SETTINGS},
};

/// The files of a folder, besides the weights and those of its modules, that loading reads.
const FILES: [&str; 6] =
    ["config.json", "tokenizer.json", "tokenizer_config.json", "modules.json", "sentence_bert_config.json", SETTINGS];

/// The digest of a folder whose weights have this SHA-256.
pub(super) fn of_folder(folder: &Path, weights: &str) -> Result<String, LoadError> {
    let pooling = modules::pooling_file(folder)?;
    of_files(folder, weights, FILES.into_iter().chain(pooling.as_deref()))
}

/// The digest of a table of word embeddings whose weights have this SHA-256.
pub(super) fn of_table(folder: &Path, weights: &str) -> Result<String, LoadError> {
    of_files(folder, weights, ["tokenizer.json"].into_iter())
}

/// Each file counts by its name, whether it exists, its length and its bytes, so that no two sets of files are alike.
fn of_files<'a>(folder: &Path, weights: &str, names: impl Iterator<Item = &'a str>) -> Result<String, LoadError> {
    let mut digest = Sha256::new_with_prefix(weights);
    for name in names {
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        match read_optional(&folder.join(name))? {
            None => digest.update([0]),
            Some(bytes) => {
                digest.update([1]);
                digest.update((bytes.len() as u64).to_le_bytes());
                digest.update(&bytes);
            }
        }
    }
    Ok(hex::encode(digest.finalize()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_digest_covers_weights_configuration_tokenizer_and_pooling() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        let digest = |weights: &str| of_folder(folder.path(), weights).expect("the files can be read");
        let mut seen = vec![digest("a"), digest("b")];
        write("config.json", "{}");
        seen.push(digest("a"));
        write("tokenizer.json", "{}");
        seen.push(digest("a"));
        write("modules.json", r#"[{"type": "x.Pooling", "path": "pool"}]"#);
        seen.push(digest("a"));
        fs::create_dir(folder.path().join("pool")).expect("created");
        write("pool/config.json", "{}");
        seen.push(digest("a"));
        assert_eq!(digest("a"), seen[5], "it is deterministic");
        write("README.md", "other files do not count");
        assert_eq!(digest("a"), seen[5]);
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
    }
}
