//! The name table: interns each name and keyword of a source, hashing eight bytes at a time.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;

use super::tables::{KEYWORDS, word};
use crate::tokens::Terminal;

/// Marks the key of a long name: 0xff is not in UTF-8, so no key of a short name has it.
const LONG: u64 = 0xff << 56;

/// Random per process, against sources with chosen collisions.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0x9e37_79b9_u32) | 1);

#[derive(Clone, Copy)]
struct Slot {
    /// The bytes of a name of at most eight; the hash of a longer one with [`LONG`]; 0 in an empty slot.
    key: u64,
    payload: u32,
    kind: Terminal,
}

const EMPTY: Slot = Slot { key: 0, payload: 0, kind: Terminal::Name };

/// An open-addressing hash table of names and keywords.
pub(super) struct NameTable {
    slots: Vec<Slot>,
    shift: u32,
    free: usize,
    seed: u64,
    /// Where each name starts, in the text or, from its length on, in `extra`.
    pub(super) starts: Vec<u32>,
    pub(super) ends: Vec<u32>,
    pub(super) extra: Vec<u8>,
    /// Names whose normal form is a keyword: `ｉｆ` is a name.
    normalized_keywords: Vec<(Terminal, u32)>,
}

impl NameTable {
    /// A table sized for a text of this length.
    pub(super) fn new(text_len: usize) -> Self {
        let bits = (text_len / 32).clamp(128, 1 << 14).next_power_of_two().trailing_zeros();
        let mut names = Self {
            slots: vec![EMPTY; 1 << bits],
            shift: 64 - bits,
            free: 1 << (bits - 1),
            seed: *SEED,
            starts: Vec::with_capacity(text_len / 64),
            ends: Vec::with_capacity(text_len / 64),
            extra: Vec::new(),
            normalized_keywords: Vec::new(),
        };
        for (text, kind) in KEYWORDS {
            names.insert(Slot { key: word(text.as_bytes()), payload: 0, kind });
        }
        names
    }

    /// The terminal of the word at `start..end`, and its number if it is a name.
    pub(super) fn intern(&mut self, text: &[u8], start: usize, end: usize) -> (Terminal, u32) {
        if end - start <= 8 {
            self.intern_short(word(&text[start..end]), start, end)
        } else {
            (Terminal::Name, self.intern_long(text, start, end))
        }
    }

    /// As [`Self::intern`], for a word of at most eight bytes, which are its key.
    #[inline]
    pub(super) fn intern_short(&mut self, key: u64, start: usize, end: usize) -> (Terminal, u32) {
        let mut bucket = self.bucket(key);
        loop {
            let slot = self.slots[bucket];
            if slot.key == key {
                return (slot.kind, slot.payload);
            }
            if slot.key == 0 {
                return (Terminal::Name, self.add(bucket, key, offset(start), offset(end)));
            }
            bucket = (bucket + 1) & (self.slots.len() - 1);
        }
    }

    fn intern_long(&mut self, text: &[u8], start: usize, end: usize) -> u32 {
        let key = self.key(&text[start..end]);
        let mut bucket = self.bucket(key);
        loop {
            let slot = self.slots[bucket];
            if slot.key == key && self.name(text, slot.payload) == &text[start..end] {
                return slot.payload;
            }
            if slot.key == 0 {
                return self.add(bucket, key, offset(start), offset(end));
            }
            bucket = (bucket + 1) & (self.slots.len() - 1);
        }
    }

    /// The number of a name with non-ASCII characters: that of its NFKC form.
    pub(super) fn intern_unicode(&mut self, text: &str, start: usize, end: usize) -> u32 {
        let written = &text[start..end];
        let normal: String = written.nfkc().collect();
        if normal == written {
            return self.intern(text.as_bytes(), start, end).1;
        }
        if let Some(&(_, kind)) = KEYWORDS.iter().find(|(keyword, _)| *keyword == normal) {
            if let Some(&(_, number)) = self.normalized_keywords.iter().find(|(other, _)| *other == kind) {
                return number;
            }
            let number = self.append(text.len(), &normal);
            self.normalized_keywords.push((kind, number));
            return number;
        }
        let key = if normal.len() <= 8 { word(normal.as_bytes()) } else { self.key(normal.as_bytes()) };
        let mut bucket = self.bucket(key);
        loop {
            let slot = self.slots[bucket];
            if slot.key == key && self.name(text.as_bytes(), slot.payload) == normal.as_bytes() {
                return slot.payload;
            }
            if slot.key == 0 {
                let start = text.len() + self.extra.len();
                self.extra.extend_from_slice(normal.as_bytes());
                return self.add(bucket, key, offset(start), offset(start + normal.len()));
            }
            bucket = (bucket + 1) & (self.slots.len() - 1);
        }
    }

    fn append(&mut self, text_len: usize, name: &str) -> u32 {
        let start = text_len + self.extra.len();
        self.extra.extend_from_slice(name.as_bytes());
        self.starts.push(offset(start));
        self.ends.push(offset(start + name.len()));
        offset(self.starts.len() - 1)
    }

    fn name<'a>(&'a self, text: &'a [u8], number: u32) -> &'a [u8] {
        let start = self.starts[number as usize] as usize;
        let end = self.ends[number as usize] as usize;
        if start < text.len() { &text[start..end] } else { &self.extra[start - text.len()..end - text.len()] }
    }

    #[inline]
    fn add(&mut self, position: usize, key: u64, start: u32, end: u32) -> u32 {
        let number = offset(self.starts.len());
        self.starts.push(start);
        self.ends.push(end);
        self.slots[position] = Slot { key, payload: number, kind: Terminal::Name };
        self.free -= 1;
        if self.free == 0 {
            self.grow();
        }
        number
    }

    /// The number of a name of at most eight bytes, if it occurs.
    pub(super) fn find(&self, short: &[u8]) -> Option<u32> {
        let key = word(short);
        let mut bucket = self.bucket(key);
        while self.slots[bucket].key != 0 {
            if self.slots[bucket].key == key {
                return Some(self.slots[bucket].payload);
            }
            bucket = (bucket + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// Keeps the load factor at most one half.
    #[cold]
    fn grow(&mut self) {
        let len = self.slots.len() * 4;
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; len]);
        self.shift -= 2;
        self.free = len / 2;
        for slot in old.into_iter().filter(|slot| slot.key != 0) {
            self.insert(slot);
        }
    }

    fn insert(&mut self, slot: Slot) {
        let mut bucket = self.bucket(slot.key);
        while self.slots[bucket].key != 0 {
            bucket = (bucket + 1) & (self.slots.len() - 1);
        }
        self.slots[bucket] = slot;
        self.free -= 1;
    }

    #[inline]
    fn bucket(&self, key: u64) -> usize {
        usize::try_from(mix(key ^ self.seed) >> self.shift).unwrap_or(0)
    }

    /// The key of a name of more than eight bytes.
    #[inline]
    fn key(&self, name: &[u8]) -> u64 {
        let mut key = self.seed;
        let mut rest = name;
        while rest.len() > 8 {
            key = mix(key ^ eight(rest));
            rest = &rest[8..];
        }
        // The last eight bytes may overlap those already hashed.
        key = mix(key ^ eight(&name[name.len() - 8..])) ^ (name.len() as u64);
        (key >> 8) | LONG
    }
}

/// The first eight bytes.
#[inline]
fn eight(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Folded multiplication: xors the halves of a 128-bit product.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes the halves of a product")]
fn mix(number: u64) -> u64 {
    let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15_u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// An offset into a text, whose length [`lex`](super::lex) has checked.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "texts are shorter than 4 GiB")]
pub(super) fn offset(offset: usize) -> u32 {
    offset as u32
}
