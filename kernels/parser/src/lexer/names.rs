//! The table of names: each name and keyword of a source is looked up once, by eight bytes at a time.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;

use super::tables::{KEYWORDS, word};
use crate::tokens::Terminal;

/// No byte of UTF-8 is this, so no key of a short name begins with it.
const LONG: u64 = 0xff << 56;

/// Unknown to whoever writes the sources, lest they be written to collide.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0x9e37_79b9_u32) | 1);

#[derive(Clone, Copy)]
struct Slot {
    /// Of a name of at most eight bytes, these bytes; of a longer one, its hash and [`LONG`]; 0 where the slot is free.
    key: u64,
    payload: u32,
    kind: Terminal,
}

const FREE: Slot = Slot { key: 0, payload: 0, kind: Terminal::Name };

/// Names and keywords by what is written.
pub(super) struct Names {
    slots: Vec<Slot>,
    shift: u32,
    free: usize,
    seed: u64,
    /// Where each name starts: in the text, or behind it in `extra`.
    pub(super) starts: Vec<u32>,
    pub(super) ends: Vec<u32>,
    pub(super) extra: Vec<u8>,
    /// Names that read as keywords once they are in normal form: `ｉｆ` is a name.
    disguised: Vec<(Terminal, u32)>,
}

impl Names {
    /// A table with room for what a text of this length has as a rule.
    pub(super) fn new(text_len: usize) -> Self {
        let bits = (text_len / 32).clamp(128, 1 << 14).next_power_of_two().trailing_zeros();
        let mut names = Self {
            slots: vec![FREE; 1 << bits],
            shift: 64 - bits,
            free: 1 << (bits - 1),
            seed: *SEED,
            starts: Vec::with_capacity(text_len / 64),
            ends: Vec::with_capacity(text_len / 64),
            extra: Vec::new(),
            disguised: Vec::new(),
        };
        for (text, kind) in KEYWORDS {
            names.fill(Slot { key: word(text.as_bytes()), payload: 0, kind });
        }
        names
    }

    /// What the word at a place of the text is, and its number if it is a name.
    pub(super) fn look_up(&mut self, text: &[u8], start: usize, end: usize) -> (Terminal, u32) {
        if end - start <= 8 {
            self.short(word(&text[start..end]), start, end)
        } else {
            (Terminal::Name, self.long(text, start, end))
        }
    }

    /// The same of a word of at most eight bytes, which are its key.
    #[inline]
    pub(super) fn short(&mut self, key: u64, start: usize, end: usize) -> (Terminal, u32) {
        let mut at = self.home(key);
        loop {
            let slot = self.slots[at];
            if slot.key == key {
                return (slot.kind, slot.payload);
            }
            if slot.key == 0 {
                return (Terminal::Name, self.add(at, key, place(start), place(end)));
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn long(&mut self, text: &[u8], start: usize, end: usize) -> u32 {
        let key = self.key(&text[start..end]);
        let mut at = self.home(key);
        loop {
            let slot = self.slots[at];
            if slot.key == key && self.name(text, slot.payload) == &text[start..end] {
                return slot.payload;
            }
            if slot.key == 0 {
                return self.add(at, key, place(start), place(end));
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The number of a name with characters beyond ASCII: that of its normal form.
    pub(super) fn look_up_wide(&mut self, text: &str, start: usize, end: usize) -> u32 {
        let written = &text[start..end];
        let normal: String = written.nfkc().collect();
        if normal == written {
            return self.look_up(text.as_bytes(), start, end).1;
        }
        if let Some(&(_, kind)) = KEYWORDS.iter().find(|(keyword, _)| *keyword == normal) {
            if let Some(&(_, number)) = self.disguised.iter().find(|(other, _)| *other == kind) {
                return number;
            }
            let number = self.append(text.len(), &normal);
            self.disguised.push((kind, number));
            return number;
        }
        let key = if normal.len() <= 8 { word(normal.as_bytes()) } else { self.key(normal.as_bytes()) };
        let mut at = self.home(key);
        loop {
            let slot = self.slots[at];
            if slot.key == key && self.name(text.as_bytes(), slot.payload) == normal.as_bytes() {
                return slot.payload;
            }
            if slot.key == 0 {
                let start = text.len() + self.extra.len();
                self.extra.extend_from_slice(normal.as_bytes());
                return self.add(at, key, place(start), place(start + normal.len()));
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn append(&mut self, text_len: usize, name: &str) -> u32 {
        let start = text_len + self.extra.len();
        self.extra.extend_from_slice(name.as_bytes());
        self.starts.push(place(start));
        self.ends.push(place(start + name.len()));
        place(self.starts.len() - 1)
    }

    fn name<'a>(&'a self, text: &'a [u8], number: u32) -> &'a [u8] {
        let (start, end) = (self.starts[number as usize] as usize, self.ends[number as usize] as usize);
        if start < text.len() { &text[start..end] } else { &self.extra[start - text.len()..end - text.len()] }
    }

    #[inline]
    fn add(&mut self, at: usize, key: u64, start: u32, end: u32) -> u32 {
        let number = place(self.starts.len());
        self.starts.push(start);
        self.ends.push(end);
        self.slots[at] = Slot { key, payload: number, kind: Terminal::Name };
        self.free -= 1;
        if self.free == 0 {
            self.grow();
        }
        number
    }

    /// The number of a name of at most eight bytes, if the text has it.
    pub(super) fn find(&self, short: &[u8]) -> Option<u32> {
        let key = word(short);
        let mut at = self.home(key);
        while self.slots[at].key != 0 {
            if self.slots[at].key == key {
                return Some(self.slots[at].payload);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// Keeps at least half of the slots free, so that a search ends soon.
    #[cold]
    fn grow(&mut self) {
        let len = self.slots.len() * 4;
        let old = std::mem::replace(&mut self.slots, vec![FREE; len]);
        self.shift -= 2;
        self.free = len / 2;
        for slot in old.into_iter().filter(|slot| slot.key != 0) {
            self.fill(slot);
        }
    }

    fn fill(&mut self, slot: Slot) {
        let mut at = self.home(slot.key);
        while self.slots[at].key != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
        self.free -= 1;
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        usize::try_from(fold(key ^ self.seed) >> self.shift).unwrap_or(0)
    }

    /// The key of a name of more than eight bytes.
    #[inline]
    fn key(&self, name: &[u8]) -> u64 {
        let mut key = self.seed;
        let mut rest = name;
        while rest.len() > 8 {
            key = fold(key ^ eight(rest));
            rest = &rest[8..];
        }
        // The last eight bytes, of which some may be taken in already.
        key = fold(key ^ eight(&name[name.len() - 8..])) ^ (name.len() as u64);
        (key >> 8) | LONG
    }
}

/// The first eight bytes.
#[inline]
fn eight(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Mixes the bits of a number: both halves of a product depend on all of them.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the halves of a product are meant")]
fn fold(number: u64) -> u64 {
    let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15_u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// A place of a text, whose length [`lex`](super::lex) has checked.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "texts are shorter than 4 GiB")]
pub(super) fn place(at: usize) -> u32 {
    at as u32
}
