//! Folds non-ASCII characters to ASCII letters and digits.

use std::collections::HashMap;

use crate::ModelError;

/// Characters of the basic multilingual plane, by page of 256.
#[derive(Debug)]
pub(crate) struct Characters {
    /// The page of each high byte; page 0 is empty.
    pages: [u8; 256],
    entries: Vec<[Entry; 256]>,
}

/// The replacement of a character.
#[derive(Clone, Copy, Debug)]
struct Entry {
    length: u8,
    plain: [u8; 3],
}

const SEPARATES: Entry = Entry { length: u8::MAX, plain: [0; 3] };

impl Characters {
    /// Reads entries of a character and its replacement.
    pub(crate) fn new<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Self, ModelError> {
        let mut all = HashMap::<u8, Box<[Entry; 256]>>::new();
        for line in lines {
            let (high, low, entry) = read(line).ok_or_else(|| ModelError::BadCharacter(line.to_owned()))?;
            all.entry(high).or_insert_with(|| Box::new([SEPARATES; 256]))[usize::from(low)] = entry;
        }
        let mut characters = Self { pages: [0; 256], entries: vec![[SEPARATES; 256]] };
        for (high, page) in all {
            let number = u8::try_from(characters.entries.len()).map_err(|_| ModelError::TooManyCharacters)?;
            characters.pages[usize::from(high)] = number;
            characters.entries.push(*page);
        }
        Ok(characters)
    }

    /// The replacement of a character, which may be empty; `None` where it separates words.
    pub(crate) fn plain(&self, character: char) -> Option<&[u8]> {
        let [low, high, ..] = u16::try_from(u32::from(character)).ok()?.to_le_bytes();
        let entry = &self.entries[usize::from(self.pages[usize::from(high)])][usize::from(low)];
        entry.plain.get(..usize::from(entry.length))
    }
}

fn read(line: &str) -> Option<(u8, u8, Entry)> {
    let mut rest = line.chars();
    let character = rest.next().filter(|c| !c.is_ascii())?;
    let [low, high] = u16::try_from(u32::from(character)).ok()?.to_le_bytes();
    let given = rest.as_str().as_bytes();
    let mut plain = [0; 3];
    plain.get_mut(..given.len())?.copy_from_slice(given);
    let length = u8::try_from(given.len()).ok()?;
    given.iter().all(u8::is_ascii_alphanumeric).then_some((high, low, Entry { length, plain }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_folded_removed_or_a_separator() {
        let characters = Characters::new(["Éé", "ßss", "\u{301}"].into_iter()).err();
        assert_eq!(characters, Some(ModelError::BadCharacter("Éé".to_owned())));
        let characters = Characters::new(["ÉE", "ßss", "\u{301}"].into_iter()).expect("a fit map");
        assert_eq!(characters.plain('É'), Some(&b"E"[..]));
        assert_eq!(characters.plain('ß'), Some(&b"ss"[..]));
        assert_eq!(characters.plain('\u{301}'), Some(&b""[..]));
        for separator in ['è', '中', '\u{1F600}', '\u{10FFFF}'] {
            assert_eq!(characters.plain(separator), None);
        }
    }

    #[test]
    fn an_entry_that_is_no_character_and_letters_is_rejected() {
        for bad in ["", "aa", "É!", "Éeeee", "\u{1F600}x"] {
            assert_eq!(Characters::new([bad].into_iter()).err(), Some(ModelError::BadCharacter(bad.to_owned())));
        }
    }
}
