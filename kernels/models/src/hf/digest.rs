//! The digest of a model: of all files that its vectors depend on.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::{
    error::LoadError,
    files::{CONFIG, read_optional},
    modules::{self, MODULES, SETTINGS},
    sentence_settings,
    text::FILE as TOKENIZER,
    tokenizer_settings,
};

/// The files of a folder, besides the weights and those of its modules, that loading reads.
const FILES: [&str; 6] = [CONFIG, TOKENIZER, tokenizer_settings::FILE, MODULES, sentence_settings::FILES[0], SETTINGS];

/// Files that few folders have: they count only where they are.
const RARE_FILES: [&str; 2] = [tokenizer_settings::ADDED_TOKENS, tokenizer_settings::SPECIAL_TOKENS];

/// The digest of a folder whose weights have this SHA-256. `own` is the folder of its first module.
pub(super) fn of_folder(folder: &Path, own: &Path, weights: &str) -> Result<String, LoadError> {
    let pooling = modules::pooling_file(folder)?;
    let inner = own.strip_prefix(folder).unwrap_or(Path::new("")).display().to_string();
    let inner_files: &[&str] = if inner.is_empty() { &[] } else { &FILES };
    let rare = inner_files.iter().chain(&RARE_FILES).chain(&sentence_settings::FILES[1..]);
    let rare: Vec<_> = rare.map(|name| Path::new(&inner).join(name).display().to_string()).collect();
    let rare = rare.iter().map(String::as_str).filter(|name| folder.join(name).exists());
    of_files(folder, weights, FILES.into_iter().chain(pooling.as_deref()).chain(rare))
}

/// The digest of a table of word embeddings whose weights have this SHA-256. Texts have had no special tokens around them since
/// the digest starts as it does.
pub(super) fn of_table(folder: &Path, weights: &str) -> Result<String, LoadError> {
    let config = Some(CONFIG).filter(|name| folder.join(name).exists());
    of_files(folder, &format!("{weights} without special tokens"), [TOKENIZER].into_iter().chain(config))
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
        let digest = |weights: &str| of_folder(folder.path(), folder.path(), weights).expect("the files can be read");
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
