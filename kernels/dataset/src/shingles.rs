//! Shingles, which are 5-grams of tokens, and two sides of a data set whose kernels have few of them in common.

use std::{collections::HashMap, ops::Range};

use accelerd_parser::{Terminal, Tokens, lexer::lex};

/// Tokens of a shingle.
const WIDTH: usize = 5;
/// An odd multiplier with bits everywhere.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// The words of the dialects. Other names are given by the module, except for attributes.
const WORDS: [&str; 13] =
    ["abs", "dtype", "float", "int", "len", "list", "math", "max", "min", "range", "tuple", "warp", "wp"];
/// Decides which shingles are marked. Of thousands of numbers, this one marks the most even shares of the shingles of random kernels: their
/// means are between 0.47 and 0.53 in each category and dialect, so that a kernel needs few changes to be on its side.
const SALT: u64 = 2249;

/// A side of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// At most 4/9 of the shingles are marked.
    Train,
    /// More than 5/9 of the shingles are marked.
    HeldOut,
}

/// Measures how far kernels are from a side. Kernels that differ in a choice have most of their lines in common, so lines are lexed once.
#[derive(Debug)]
pub(crate) struct Meter {
    side: Side,
    /// The tokens of each line without its indentation.
    lines: HashMap<String, Vec<Hashes>>,
    tokens: Vec<Hashes>,
    written: Set,
    normal: Set,
}

/// Hashes of a token or a shingle, as it is written and in normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hashes {
    written: u64,
    normal: u64,
}

impl Meter {
    pub(crate) fn new(side: Side) -> Self {
        Self { side, lines: HashMap::new(), tokens: vec![], written: Set::default(), normal: Set::default() }
    }

    /// Returns the distance of a kernel from the side, which is 0 if the kernel is on it. The share of marks counts twice: among the shingles
    /// as they are written, and among those of the normal form, which has one name in place of all that the module gives and one number in
    /// place of all.
    pub(crate) fn distance(&mut self, text: &str) -> f64 {
        self.read(text);
        self.written.clear(self.tokens.len());
        self.normal.clear(self.tokens.len());
        let [mut written, mut normal] = [Share::default(); 2];
        for Hashes { written: hash, normal: marked } in shingles(&self.tokens) {
            let is_marked = marked & 1 == 1;
            // One written shingle has two normal forms where a name is an attribute in one place.
            written.count(self.written.insert(add(add(SALT, hash), marked)), is_marked);
            normal.count(self.normal.insert(marked), is_marked);
        }
        self.side.excess(written) + self.side.excess(normal)
    }

    /// Hashes the tokens of a text. Changes of indentation are tokens as well.
    fn read(&mut self, text: &str) {
        self.lex_new_lines(text);
        self.tokens.clear();
        let mut indentation = vec![0];
        for (column, line) in lines(text) {
            while indentation.last().is_some_and(|last| *last > column) {
                indentation.pop();
                self.tokens.push(DEDENT);
            }
            if indentation.last().is_some_and(|last| *last < column) {
                indentation.push(column);
                self.tokens.push(INDENT);
            }
            self.tokens.extend_from_slice(&self.lines[line]);
        }
        self.tokens.extend(indentation.iter().skip(1).map(|_| DEDENT));
    }

    fn lex_new_lines(&mut self, text: &str) {
        let mut new = String::new();
        for (_, line) in lines(text).filter(|(_, line)| !self.lines.contains_key(*line)) {
            new.extend([line, "\n"]);
        }
        let lexed = lex(&new);
        for (line, range) in new.lines().zip(&lexed.lines) {
            let tokens = hashes(&new, &lexed.tokens, range.first as usize..range.end as usize);
            self.lines.insert(line.to_owned(), tokens);
        }
    }
}

/// The indentation and the remainder of each line that has tokens. No statement of a kernel continues on another line.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| (line, line.trim_start()));
    lines.filter(|(_, rest)| !rest.is_empty()).map(|(line, rest)| (line.len() - rest.len(), rest))
}

/// Hashes the tokens of a line. Its end is a token as well.
fn hashes(text: &str, tokens: &Tokens, range: Range<usize>) -> Vec<Hashes> {
    let mut last = "";
    let of = range.map(|nth| {
        let token = &text[tokens.starts[nth] as usize..tokens.ends[nth] as usize];
        let kind = tokens.kinds[nth];
        let normal = if kind == Terminal::Number {
            "0"
        } else if kind == Terminal::Name && last != "." && !WORDS.contains(&token) {
            "name"
        } else {
            token
        };
        last = token;
        Hashes { written: hash(token), normal: hash(normal) }
    });
    of.chain([NEWLINE]).collect()
}

impl Side {
    /// The excess of a share of marks.
    fn excess(self, Share { count, marked }: Share) -> f64 {
        let excess = match self {
            Self::Train => 9.0 * marked - 4.0 * count,
            Self::HeldOut => 5.0 * count + 1.0 - 9.0 * marked,
        };
        excess.max(0.0) / count
    }
}

/// The number of distinct shingles, and of marked ones among them.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    count: f64,
    marked: f64,
}

impl Share {
    fn count(&mut self, is_new: bool, is_marked: bool) {
        self.count += f64::from(u8::from(is_new));
        self.marked += f64::from(u8::from(is_new && is_marked));
    }
}

/// A set of hashes, with open addressing. 0 marks an empty slot, and stands for 1.
#[derive(Debug, Default)]
struct Set(Vec<u64>);

impl Set {
    /// Empties the set, and makes room for a number of hashes.
    fn clear(&mut self, count: usize) {
        self.0.clear();
        self.0.resize((2 * count + 1).next_power_of_two(), 0);
    }

    /// Returns true if the set did not have the hash.
    fn insert(&mut self, hash: u64) -> bool {
        let hash = hash.max(1);
        let mask = self.0.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "the mask keeps the lower bits")]
        let mut slot = hash as usize & mask;
        while self.0[slot] != 0 && self.0[slot] != hash {
            slot = (slot + 1) & mask;
        }
        let is_new = self.0[slot] == 0;
        self.0[slot] = hash;
        is_new
    }
}

/// The shingles of tokens.
fn shingles(tokens: &[Hashes]) -> impl Iterator<Item = Hashes> {
    tokens.windows(WIDTH).map(|shingle| {
        let hash = |of: fn(&Hashes) -> u64| shingle.iter().map(of).fold(SALT, add);
        Hashes { written: hash(|token| token.written), normal: hash(|token| token.normal) }
    })
}

const INDENT: Hashes = same("indent");
const DEDENT: Hashes = same("dedent");
const NEWLINE: Hashes = same("newline");

/// The hashes of a token with one form.
const fn same(token: &str) -> Hashes {
    let hash = hash(token);
    Hashes { written: hash, normal: hash }
}

const fn hash(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut nth = 0;
    while nth < text.len() {
        hash = add(hash, text.as_bytes()[nth] as u64);
        nth += 1;
    }
    hash
}

/// A hash with a number more. Its upper bits depend on all bits of both.
const fn add(hash: u64, number: u64) -> u64 {
    (hash ^ number).wrapping_mul(MULTIPLIER).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Hashes> {
        let mut meter = Meter::new(Side::Train);
        meter.read(text);
        shingles(&meter.tokens).collect()
    }

    #[test]
    fn names_of_the_module_and_numbers_have_one_normal_form() {
        let normal = |text: &str| of(text).iter().map(|shingle| shingle.normal).collect::<Vec<_>>();
        let written = |text: &str| of(text).iter().map(|shingle| shingle.written).collect::<Vec<_>>();
        let one = "def f(x: float):\n    y = x * 2.0\n    return math.sin(y)\n";
        let two = "def g(a: float):\n    b = a * 7.5\n    return math.sin(b)\n";
        assert_eq!(normal(one), normal(two));
        assert_ne!(written(one), written(two));
        for (from, to) in [("*", "+"), ("sin", "cos"), ("float", "int"), ("\n    return", "\nreturn")] {
            assert_ne!(normal(one), normal(&one.replace(from, to)), "{from:?} to {to:?}");
        }
    }

    #[test]
    fn sides_are_a_ninth_apart() {
        let on = |side: Side, marked: u32, count: u32| {
            side.excess(Share { count: count.into(), marked: marked.into() }) == 0.0
        };
        assert!(on(Side::Train, 40, 90) && !on(Side::Train, 41, 90));
        assert!(!on(Side::HeldOut, 50, 90) && on(Side::HeldOut, 51, 90));
    }

    /// The distance by sorting, which [`Meter`] finds by hashing.
    fn expected(side: Side, text: &str) -> f64 {
        let excess = |mut pairs: Vec<(u64, u64)>| {
            pairs.sort_unstable();
            pairs.dedup();
            let marked = pairs.iter().filter(|(_, normal)| normal & 1 == 1).count();
            side.excess(Share { count: pairs.len() as f64, marked: marked as f64 })
        };
        let shingles = of(text);
        let written = shingles.iter().map(|of| (of.written, of.normal)).collect();
        excess(written) + excess(shingles.iter().map(|of| (of.normal, of.normal)).collect())
    }

    #[test]
    fn a_shingle_counts_once_however_often_and_in_whatever_order_texts_are_measured() {
        let line = "    y = x.sin * x.y + 2.0 * x.sin\n";
        let texts = [1, 9, 2].map(|lines| format!("def f(x: float):\n{}", line.repeat(lines)));
        for side in [Side::Train, Side::HeldOut] {
            let mut meter = Meter::new(side);
            for text in &texts {
                assert_eq!(meter.distance(text).to_bits(), expected(side, text).to_bits(), "{side:?} {text}");
            }
        }
    }
}
