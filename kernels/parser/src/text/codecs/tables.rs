//! CPython's codec tables, inflated on first use.

use std::sync::OnceLock;

use miniz_oxide::inflate::decompress_to_vec_zlib;

/// The output of `generate.py`: for each table its name, compressed length, length and compressed bytes.
static BLOB: &[u8] = include_bytes!("../../../codecs/tables.bin");

/// An unmapped entry.
pub(super) const NONE: u16 = 0xfffe;
/// The first entry that is an index into `listed`, and the maximum number of those.
const LISTED: u16 = 0xd800;
const MAX_LISTED: u16 = 2048;

/// A table of characters.
pub(super) struct Table {
    pub(super) numbers: Vec<u16>,
    listed: Vec<[u32; 2]>,
}

impl Table {
    /// The character of an entry, and a second one or 0.
    pub(super) fn character(&self, entry: usize) -> Option<[u32; 2]> {
        let number = *self.numbers.get(entry)?;
        if number == NONE {
            return None;
        }
        match number.checked_sub(LISTED).filter(|&number| number < MAX_LISTED) {
            Some(number) => self.listed.get(usize::from(number)).copied(),
            None => Some([u32::from(number), 0]),
        }
    }

    fn read(name: &str) -> Self {
        let bytes = inflated(name);
        let (count, rest) = bytes.split_at(4);
        let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]) as usize;
        let (low, rest) = rest.split_at(count);
        let (high, rest) = rest.split_at(count);
        let sum = |sum: &mut u16, (&low, &high): (&u8, &u8)| {
            *sum = sum.wrapping_add(u16::from_le_bytes([low, high]));
            Some(*sum)
        };
        let numbers = low.iter().zip(high).scan(0, sum).collect();
        let words: Vec<u32> = words(rest).collect();
        Self { numbers, listed: words.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect() }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// The contents of a table.
fn inflated(name: &str) -> Vec<u8> {
    let mut rest = BLOB;
    while let Some((&length, after)) = rest.split_first() {
        let (found, after) = after.split_at(usize::from(length));
        let (lengths, after) = after.split_at(8);
        let packed = u32::from_le_bytes([lengths[0], lengths[1], lengths[2], lengths[3]]) as usize;
        let (data, after) = after.split_at(packed);
        if found == name.as_bytes() {
            return decompress_to_vec_zlib(data).expect("the tables are part of the program, and tested");
        }
        rest = after;
    }
    unreachable!("every table that is asked for is written: {name}")
}

/// The 256 entries of each charmap, in the order of their names.
pub(super) fn charmaps() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::read("charmap"))
}

/// The tables by name.
macro_rules! tables {
    ($($name:literal)*) => {
        /// A table by its name.
        pub(super) fn table(name: &str) -> &'static Table {
            match name {
                $($name => {
                    static TABLE: OnceLock<Table> = OnceLock::new();
                    TABLE.get_or_init(|| Table::read($name))
                })*
                _ => unreachable!("no table is called {name}"),
            }
        }

        #[cfg(test)]
        pub(super) const ALL: &[&str] = &[$($name),*];
    };
}

tables! {
    "big5" "big5hkscs" "cp932" "cp949" "cp950" "euc_jis_2004" "euc_jisx0213" "euc_jp" "euc_kr" "gb18030" "gb2312" "gbk"
    "johab" "shift_jis" "shift_jis_2004" "shift_jisx0213" "euc_jp_triples" "euc_jis_2004_triples"
    "euc_jisx0213_triples" "jisx0208" "jisx0212" "gb2312_set" "ksx1001" "jisx0213_2000_1" "jisx0213_2004_1" "jisx0213_2"
}

/// Runs of gb18030's four-byte codes: first code, its character, length.
pub(super) fn gb18030_ranges() -> &'static [[u32; 3]] {
    static RANGES: OnceLock<Vec<[u32; 3]>> = OnceLock::new();
    RANGES.get_or_init(|| {
        let words: Vec<u32> = words(&inflated("gb18030_ranges")).collect();
        words.chunks_exact(3).map(|run| [run[0], run[1], run[2]]).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_can_be_read() {
        for name in ALL {
            let table = table(name);
            assert!([94 * 94, 256 + 128 * 256].contains(&table.numbers.len()), "{name}");
            assert!(
                (0..table.numbers.len()).filter(|&entry| table.character(entry).is_some()).count() > 1000,
                "{name}"
            );
        }
        assert_eq!(charmaps().numbers.len() % 256, 0);
        assert!(gb18030_ranges().len() > 100);
    }
}
