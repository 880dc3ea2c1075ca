//! Shingles, which are 5-grams of tokens, and two sides of a data set whose kernels have few of them in common.

/// Tokens of a shingle.
const WIDTH: usize = 5;
/// An odd multiplier with bits everywhere.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// The words of the dialects and of Python. Other names are given by the module, except for attributes.
const WORDS: [&str; 30] = [
    "abs", "and", "as", "break", "continue", "def", "dtype", "elif", "else", "float", "for", "if", "import", "in",
    "int", "is", "len", "list", "math", "max", "min", "not", "or", "pass", "range", "return", "tuple", "warp", "while",
    "wp",
];
/// The operators of two characters.
const OPERATORS: [&[u8]; 18] = [
    b"!=", b"%=", b"&=", b"**", b"*=", b"+=", b"-=", b"->", b"//", b"/=", b"<<", b"<=", b"==", b">=", b">>", b"^=",
    b"|=", b":=",
];
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

/// Measures how far kernels are from a side. It keeps its memory, since many are measured until one is on its side.
#[derive(Debug)]
pub(crate) struct Meter {
    side: Side,
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
        Self { side, tokens: vec![], written: Set::default(), normal: Set::default() }
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

    /// Hashes the tokens of a text. Ends of lines and changes of indentation are tokens as well. No statement of a kernel continues on
    /// another line.
    fn read(&mut self, text: &str) {
        self.tokens.clear();
        let mut indentation = vec![0];
        for line in text.split('\n').filter(|line| !line.is_empty()) {
            let column = line.bytes().take_while(|byte| *byte == b' ').count();
            while indentation.last().is_some_and(|last| *last > column) {
                indentation.pop();
                self.tokens.push(DEDENT);
            }
            if indentation.last().is_some_and(|last| *last < column) {
                indentation.push(column);
                self.tokens.push(INDENT);
            }
            self.read_line(&line.as_bytes()[column..]);
            self.tokens.push(NEWLINE);
        }
        self.tokens.extend(indentation.iter().skip(1).map(|_| DEDENT));
    }

    /// Hashes the tokens of a line as the parser's lexer would cut them: names, numbers and operators.
    fn read_line(&mut self, mut line: &[u8]) {
        let mut is_attribute = false;
        while let Some(&first) = line.first() {
            let is_name = first.is_ascii_alphabetic() || first == b'_';
            let length = match first {
                _ if is_name => line.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count(),
                b'0'..=b'9' => line.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'.').count(),
                _ if line.get(..2).is_some_and(|two| OPERATORS.contains(&two)) => 2,
                _ => 1,
            };
            let (token, rest) = line.split_at(length);
            line = rest;
            if first == b' ' {
                continue;
            }
            let written = hash(token);
            let normal = match first {
                b'0'..=b'9' => const { hash(b"0") },
                _ if is_name && !is_attribute && !WORD_HASHES.contains(&written) => const { hash(b"name") },
                _ => written,
            };
            self.tokens.push(Hashes { written, normal });
            is_attribute = first == b'.';
        }
    }
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

const WORD_HASHES: [u64; WORDS.len()] = {
    let mut hashes = [0; WORDS.len()];
    let mut nth = 0;
    while nth < WORDS.len() {
        hashes[nth] = hash(WORDS[nth].as_bytes());
        nth += 1;
    }
    hashes
};

/// The hashes of a token with one form.
const fn same(token: &str) -> Hashes {
    let hash = hash(token.as_bytes());
    Hashes { written: hash, normal: hash }
}

const fn hash(token: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut nth = 0;
    while nth < token.len() {
        hash = add(hash, token[nth] as u64);
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
    use accelerd_lower::Dialect;
    use accelerd_parser::{Terminal, lexer::lex};
    use accelerd_verify::Random;

    use super::*;
    use crate::{category::Category, choices::Choices, families};

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

    /// The hashes of the tokens that the parser finds.
    fn lexed(text: &str) -> Vec<Hashes> {
        let lexed = lex(text);
        let mut hashes = vec![];
        let mut columns = vec![0];
        for line in &lexed.lines {
            while columns.last().is_some_and(|last| *last > line.column) {
                columns.pop();
                hashes.push(DEDENT);
            }
            if columns.last().is_some_and(|last| *last < line.column) {
                columns.push(line.column);
                hashes.push(INDENT);
            }
            let mut last = "";
            for nth in line.first as usize..line.end as usize {
                let token = &text[lexed.tokens.starts[nth] as usize..lexed.tokens.ends[nth] as usize];
                let kind = lexed.tokens.kinds[nth];
                let is_given = kind == Terminal::Name && last != "." && !WORDS.contains(&token);
                let normal = if is_given { "name" } else { token };
                let normal = if kind == Terminal::Number { "0" } else { normal };
                hashes.push(Hashes { written: hash(token.as_bytes()), normal: hash(normal.as_bytes()) });
                last = token;
            }
            hashes.push(NEWLINE);
        }
        hashes.extend(columns.iter().skip(1).map(|_| DEDENT));
        hashes
    }

    #[test]
    fn tokens_of_kernels_are_those_of_the_parser() {
        let mut meter = Meter::new(Side::Train);
        let mut random = Random::new(1, 0);
        let dialects = [Dialect::Warp, Dialect::Python];
        for (category, dialect) in Category::ALL.into_iter().flat_map(|of| dialects.map(|dialect| (of, dialect))) {
            for _ in 0..if category.has(dialect) { 200 } else { 0 } {
                let text = families::write(category, dialect, Choices::new(&mut random)).module("kernel_1");
                meter.read(&text);
                assert_eq!(meter.tokens, lexed(&text), "{text}");
            }
        }
    }
}
