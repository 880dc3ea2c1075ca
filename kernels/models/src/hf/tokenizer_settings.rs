//! tokenizer_config.json: what transformers changes in the tokeniser of a tokenizer.json.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value};
use tokenizers::{
    AddedToken, NormalizerWrapper, PreTokenizerWrapper, Tokenizer,
    normalizers::{Lowercase, Sequence},
};

use super::{error::LoadError, fields::Fields, files::optional_object};
use crate::sequences::TruncationSide;

/// The settings of the tokeniser.
pub(super) const FILE: &str = "tokenizer_config.json";
/// Where older versions of transformers keep tokens that are not in the vocabulary, with their ids.
pub(super) const ADDED_TOKENS: &str = "added_tokens.json";
/// Where older versions of transformers keep the special tokens.
pub(super) const SPECIAL_TOKENS: &str = "special_tokens_map.json";

/// Classes that normalise as BERT does, by their own settings instead of those in tokenizer.json.
const BERT_CLASSES: [&str; 6] = [
    "BertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "MPNetTokenizer",
    "MobileBertTokenizer",
    "SqueezeBertTokenizer",
];

/// The special tokens of a class, unless the settings name others.
fn special_tokens_of(class: &str) -> &'static [&'static str] {
    match class {
        "MPNetTokenizer" => &["<s>", "</s>", "[UNK]", "<pad>", "<mask>"],
        class if BERT_CLASSES.contains(&class) => &["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
        _ => &[],
    }
}

/// Keys of one special token each.
const SPECIAL_TOKEN_KEYS: &[&str] =
    &["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The class of tokeniser that transformers chooses for a `model_type`, if tokenizer_config.json names none.
fn class_of(architecture: &str) -> &'static str {
    match architecture {
        "bert" | "distilbert" | "nomic_bert" => "BertTokenizer",
        "mpnet" => "MPNetTokenizer",
        _ => "",
    }
}

/// The settings of a folder, with the values of sentence-transformers that replace them.
pub(super) struct TokenizerSettings {
    /// None without the file.
    object: Option<Map<String, Value>>,
    added_tokens: Map<String, Value>,
    special_tokens: Map<String, Value>,
}

impl TokenizerSettings {
    /// Reads the files.
    pub(super) fn read(folder: &Path, replaced: &Map<String, Value>) -> Result<Self, LoadError> {
        let mut object = optional_object(&folder.join(FILE))?;
        if !replaced.is_empty() {
            object.get_or_insert_default().extend(replaced.clone());
        }
        let legacy = |file: &str| {
            let is_legacy = object.as_ref().is_none_or(|object| !object.contains_key("added_tokens_decoder"));
            let read = is_legacy.then(|| optional_object(&folder.join(file))).transpose()?;
            Ok::<_, LoadError>(read.flatten().unwrap_or_default())
        };
        Ok(Self { added_tokens: legacy(ADDED_TOKENS)?, special_tokens: legacy(SPECIAL_TOKENS)?, object })
    }

    /// Maximum of tokens of a text, if there is one. Some files have 1e30 for none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts saturate, and tokens are counted in whole numbers"
    )]
    pub(super) fn max_tokens(&self) -> Result<Option<usize>, LoadError> {
        let Some(object) = &self.object else { return Ok(None) };
        let number = Fields::new(FILE, object).number_or_none(&["model_max_length", "max_len"])?;
        Ok(number.map(|number| number as usize).filter(|limit| *limit > 0))
    }

    /// Changes a tokeniser as transformers does. `architecture` is the `model_type` of config.json.
    pub(super) fn apply(&self, tokenizer: &mut Tokenizer, architecture: &str) -> Result<(), LoadError> {
        let empty = Map::new();
        let fields = Fields::new(FILE, self.object.as_ref().unwrap_or(&empty));
        let class = fields.text(&["tokenizer_class"], class_of(architecture))?;
        let class = class.strip_suffix("Fast").unwrap_or(class);
        if self.object.is_some() && BERT_CLASSES.contains(&class) {
            normalize_as_bert(fields, tokenizer)?;
        }
        prefix_space(fields, tokenizer)?;
        let mut tokens = self.added(fields, tokenizer)?;
        let specials = if self.object.is_some() { special_tokens_of(class) } else { &[] };
        tokens.extend(self.special(fields, specials, tokenizer, &tokens)?);
        // Even without tokens: it normalises those of tokenizer.json anew.
        tokenizer.add_tokens(&tokens);
        tokenizer.set_encode_special_tokens(fields.flag(&["split_special_tokens"], false)?);
        Ok(())
    }

    /// The side from which texts are truncated, if the file says so.
    pub(super) fn truncation_side(&self) -> Result<Option<TruncationSide>, LoadError> {
        let Some(object) = &self.object else { return Ok(None) };
        let fields = Fields::new(FILE, object);
        match fields.text_or_none(&["truncation_side"])? {
            None => Ok(None),
            Some("left") => Ok(Some(TruncationSide::Left)),
            Some("right") => Ok(Some(TruncationSide::Right)),
            Some(other) => {
                Err(fields.wrong(format!("truncation_side is expected to be \"left\" or \"right\", got \"{other}\"")))
            }
        }
    }

    /// The tokens with ids, in the order of ids.
    fn added(&self, fields: Fields<'_>, tokenizer: &Tokenizer) -> Result<Vec<AddedToken>, LoadError> {
        let mut tokens = BTreeMap::new();
        if let Some(decoder) = fields.object(&["added_tokens_decoder"])? {
            for (id, value) in decoder.entries() {
                let wrong = || fields.wrong(format!("added_tokens_decoder has {id:?}: {value}, which is not a token"));
                let id = id.parse::<u32>().map_err(|_| wrong())?;
                tokens.insert(id, as_token(value, false).ok_or_else(wrong)?);
            }
        }
        for (content, id) in Fields::new(ADDED_TOKENS, &self.added_tokens).entries() {
            let wrong = || LoadError::format(ADDED_TOKENS, format!("has {content:?}: {id}, which is not an id"));
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong)?;
            // tokenizer.json knows it better.
            if tokenizer.token_to_id(content).is_none() {
                tokens.insert(id, AddedToken::from(content, false));
            }
        }
        check_ids(&tokens, tokenizer)?;
        Ok(tokens.into_values().collect())
    }

    /// Special tokens of the vocabulary that are not added tokens yet.
    fn special(
        &self,
        fields: Fields<'_>,
        defaults: &[&str],
        tokenizer: &Tokenizer,
        tokens: &[AddedToken],
    ) -> Result<Vec<AddedToken>, LoadError> {
        let legacy = Fields::new(SPECIAL_TOKENS, &self.special_tokens);
        let mut special = vec![];
        for fields in [fields, legacy] {
            for key in SPECIAL_TOKEN_KEYS {
                special.extend(token_of(fields, key)?);
            }
            for key in ["additional_special_tokens", "extra_special_tokens"] {
                special.extend(fields.list(key)?.iter().filter_map(|value| as_token(value, true)));
            }
        }
        special.extend(defaults.iter().map(|content| AddedToken::from(*content, true)));
        let known = tokenizer.get_added_vocabulary().get_vocab();
        special.retain(|token| {
            let is_new =
                !known.contains_key(&token.content) && tokens.iter().all(|other| other.content != token.content);
            is_new && tokenizer.token_to_id(&token.content).is_some()
        });
        Ok(special)
    }
}

/// A token that is not in the vocabulary gets the next id, so that has to be its own.
fn check_ids(tokens: &BTreeMap<u32, AddedToken>, tokenizer: &Tokenizer) -> Result<(), LoadError> {
    let size = u32::try_from(tokenizer.get_vocab_size(false)).unwrap_or(u32::MAX);
    let last = tokenizer.get_added_tokens_decoder().into_keys().max();
    let mut next = last.map_or(size, |last| size.max(last.saturating_add(1)));
    for (id, token) in tokens {
        if tokenizer.token_to_id(&token.content).is_some() {
            continue;
        }
        if *id != next {
            let content = &token.content;
            let reason =
                format!("added token {content:?} of id {id} in {FILE}, where the next id of tokenizer.json is {next}");
            return Err(LoadError::Unsupported(reason));
        }
        next = next.saturating_add(1);
    }
    Ok(())
}

/// The token of a key: a text, or an object with a text.
fn token_of(fields: Fields<'_>, key: &str) -> Result<Option<AddedToken>, LoadError> {
    let Some(value) = fields.value(key) else { return Ok(None) };
    let wrong = || fields.wrong(format!("{key} is expected to be a token, got {value}"));
    as_token(value, true).map(Some).ok_or_else(wrong)
}

/// A token, with the defaults of transformers.
fn as_token(value: &Value, special: bool) -> Option<AddedToken> {
    let Value::Object(object) = value else { return Some(AddedToken::from(value.as_str()?, special)) };
    let flag = |name: &str| object.get(name).and_then(Value::as_bool);
    let special = special || flag("special").unwrap_or(false);
    let token = AddedToken::from(object.get("content")?.as_str()?, special)
        .single_word(flag("single_word").unwrap_or(false))
        .lstrip(flag("lstrip").unwrap_or(false))
        .rstrip(flag("rstrip").unwrap_or(false))
        .normalized(flag("normalized").unwrap_or(!special));
    Some(token)
}

/// Sets case, accents and Chinese characters of BERT's normaliser. Another normaliser has to agree about the case.
fn normalize_as_bert(fields: Fields<'_>, tokenizer: &mut Tokenizer) -> Result<(), LoadError> {
    let lowercase = fields.flag(&["do_lower_case"], true)?;
    let strip_accents = fields.flag_or_none(&["strip_accents"])?;
    let handle_chinese_chars = fields.flag(&["tokenize_chinese_chars"], true)?;
    if let Some(NormalizerWrapper::BertNormalizer(normalizer)) = tokenizer.get_normalizer() {
        let mut normalizer = *normalizer;
        normalizer.lowercase = lowercase;
        normalizer.strip_accents = strip_accents;
        normalizer.handle_chinese_chars = handle_chinese_chars;
        tokenizer.with_normalizer(Some(normalizer));
    } else if fields.has("do_lower_case") && lowercases(tokenizer) != lowercase {
        let reason = format!("do_lower_case = {lowercase} of {FILE} with the normalizer of tokenizer.json");
        return Err(LoadError::Unsupported(reason));
    }
    Ok(())
}

/// Returns true if the normaliser turns A into a.
fn lowercases(tokenizer: &Tokenizer) -> bool {
    use tokenizers::{NormalizedString, Normalizer};
    let mut letter = NormalizedString::from("A");
    let normalized = tokenizer.get_normalizer().map(|normalizer| normalizer.normalize(&mut letter));
    matches!(normalized, Some(Ok(()))) && letter.get().contains('a')
}

/// Lower-cases texts before all else, as sentence-transformers does.
pub(super) fn lowercase_first(tokenizer: &mut Tokenizer) {
    match tokenizer.get_normalizer().cloned() {
        // Equal, and known to the native implementation.
        Some(NormalizerWrapper::BertNormalizer(mut normalizer)) => {
            normalizer.strip_accents = Some(normalizer.strip_accents.unwrap_or(normalizer.lowercase));
            normalizer.lowercase = true;
            tokenizer.with_normalizer(Some(normalizer));
        }
        Some(other) => {
            tokenizer.with_normalizer(Some(Sequence::new(vec![Lowercase.into(), other])));
        }
        None => {
            tokenizer.with_normalizer(Some(Lowercase));
        }
    }
    tokenizer.add_tokens(&[]);
}

/// Sets whether a pre-tokeniser of bytes puts a space before a text.
fn prefix_space(fields: Fields<'_>, tokenizer: &mut Tokenizer) -> Result<(), LoadError> {
    let Some(space) = fields.flag_or_none(&["add_prefix_space"])? else { return Ok(()) };
    if let Some(PreTokenizerWrapper::ByteLevel(bytes)) = tokenizer.get_pre_tokenizer() {
        let mut bytes = *bytes;
        bytes.add_prefix_space = space;
        tokenizer.with_pre_tokenizer(Some(bytes));
    }
    Ok(())
}
