//! The effect of BERT's normaliser and pre-tokeniser on each character, computed by `tokenizers` one page of 256 at a
//! time.

use std::sync::OnceLock;

use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    normalizers::BertNormalizer, pre_tokenizers::bert::BertPreTokenizer,
};

const PAGE: usize = 256;
const PAGES: usize = (char::MAX as usize + 1) / PAGE;

/// A mark of the second highest combining class, which sorts after lower ones, and one of the lowest.
const HIGH_MARK: char = '\u{345}';
const LOW_MARK: char = '\u{334}';

/// The context-free effect on a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Removed.
    Nothing,
    /// Ends a word.
    Space,
    /// Part of a word.
    Joins(&'a str),
    /// A word on its own.
    Alone(&'a str),
    /// Depends on its neighbours.
    ContextDependent,
}

/// The effect on an ASCII character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    /// Removed.
    Nothing,
    /// Ends a word.
    Space,
    /// Part of a word, as this byte.
    Joins(u8),
    /// A word on its own, as this byte.
    Alone(u8),
}

/// The characters of one normaliser.
pub(super) struct Characters {
    normalizer: BertNormalizer,
    ascii: [Plain; 128],
    /// Built on first use.
    pages: Box<[OnceLock<Box<Page>>]>,
}

struct Page {
    entries: [Entry; PAGE],
    /// The replacements of its characters, concatenated.
    text: String,
}

#[derive(Clone, Copy)]
struct Entry {
    kind: Kind,
    start: u16,
    end: u16,
}

#[derive(Clone, Copy)]
enum Kind {
    Nothing,
    Space,
    Joins,
    Alone,
    ContextDependent,
}

impl Characters {
    /// `None` if the normaliser does not map ASCII byte for byte.
    pub(super) fn new(normalizer: BertNormalizer) -> Option<Self> {
        let mut ascii = [Plain::Nothing; 128];
        let page = Page::new(normalizer, 0);
        for (index, plain) in ascii.iter_mut().enumerate() {
            *plain = match page.part(index) {
                Part::Nothing => Plain::Nothing,
                Part::Space => Plain::Space,
                Part::Joins(text) if text.len() == 1 => Plain::Joins(text.as_bytes()[0]),
                Part::Alone(text) if text.len() == 1 => Plain::Alone(text.as_bytes()[0]),
                Part::Joins(_) | Part::Alone(_) | Part::ContextDependent => return None,
            };
        }
        Some(Self { normalizer, ascii, pages: (0..PAGES).map(|_| OnceLock::new()).collect() })
    }

    /// The effect on an ASCII byte; `None` for other bytes.
    pub(super) fn ascii(&self, byte: u8) -> Option<Plain> {
        self.ascii.get(usize::from(byte)).copied()
    }

    /// The effect on a character.
    pub(super) fn part(&self, character: char) -> Part<'_> {
        let number = character as usize / PAGE;
        let page = self.pages[number].get_or_init(|| Box::new(Page::new(self.normalizer, number)));
        page.part(character as usize % PAGE)
    }
}

impl Page {
    fn new(normalizer: BertNormalizer, number: usize) -> Self {
        let mut page =
            Self { entries: [Entry { kind: Kind::ContextDependent, start: 0, end: 0 }; PAGE], text: String::new() };
        for index in 0..PAGE {
            let character = u32::try_from(number * PAGE + index).ok().and_then(char::from_u32);
            let outcome = character.and_then(|character| outcome(normalizer, character));
            let (kind, text) = outcome.unwrap_or((Kind::ContextDependent, String::new()));
            let start = page.text.len();
            page.text.push_str(&text);
            let place = |index: usize| u16::try_from(index).ok();
            if let (Some(start), Some(end)) = (place(start), place(page.text.len())) {
                page.entries[index] = Entry { kind, start, end };
            }
        }
        page
    }

    fn part(&self, index: usize) -> Part<'_> {
        let Entry { kind, start, end } = self.entries[index];
        let text = &self.text[usize::from(start)..usize::from(end)];
        match kind {
            Kind::Nothing => Part::Nothing,
            Kind::Space => Part::Space,
            Kind::Joins => Part::Joins(text),
            Kind::Alone => Part::Alone(text),
            Kind::ContextDependent => Part::ContextDependent,
        }
    }
}

/// The effect on a character between two letters. Every step is per character, except that decomposition sorts
/// combining marks across characters.
fn outcome(normalizer: BertNormalizer, character: char) -> Option<(Kind, String)> {
    let strips = normalizer.strip_accents.unwrap_or(normalizer.lowercase);
    if strips && decomposed(&character.to_string()).chars().any(|c| !is_starter(c) && !is_stripped(c)) {
        return None;
    }
    let mut words = PreTokenizedString::from(normalized(normalizer, &format!("a{character}a"))?);
    BertPreTokenizer.pre_tokenize(&mut words).ok()?;
    let words: Vec<_> =
        words.get_splits(OffsetReferential::Normalized, OffsetType::None).into_iter().map(|(word, ..)| word).collect();
    match words.as_slice() {
        ["a", "a"] => Some((Kind::Space, String::new())),
        ["a", alone, "a"] => Some((Kind::Alone, (*alone).to_owned())),
        [word] => {
            let inner = word.strip_prefix('a')?.strip_suffix('a')?;
            let kind = if inner.is_empty() { Kind::Nothing } else { Kind::Joins };
            Some((kind, inner.to_owned()))
        }
        _ => None,
    }
}

fn normalized(normalizer: BertNormalizer, text: &str) -> Option<NormalizedString> {
    let mut string = NormalizedString::from(text);
    normalizer.normalize(&mut string).ok().map(|()| string)
}

fn decomposed(text: &str) -> String {
    NormalizedString::from(text).nfd().get().to_owned()
}

/// Returns true if no combining mark is sorted past a decomposed character.
fn is_starter(character: char) -> bool {
    let stays = |text: String| decomposed(&text) == text;
    stays(format!("{HIGH_MARK}{character}")) && stays(format!("{character}{LOW_MARK}"))
}

/// Returns true if accent stripping removes a decomposed character.
fn is_stripped(character: char) -> bool {
    let strip = BertNormalizer::new(false, false, Some(true), false);
    normalized(strip, &character.to_string()).is_some_and(|string| string.get().is_empty())
}
