//! Shingles, which are 5-grams of tokens, and two sides of a data set whose kernels have few of them in common.

use accelerd_parser::{Terminal, lexer::lex};
use accelerd_verify::Random;

/// Tokens of a shingle.
const WIDTH: usize = 5;
/// The words of the dialects. Other names are given by the module, except for attributes.
const WORDS: [&str; 13] =
    ["abs", "dtype", "float", "int", "len", "list", "math", "max", "min", "range", "tuple", "warp", "wp"];
/// Which shingles are marked. Another number moves all kernels.
const SALT: u64 = 0;

/// A side of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// At most 4/9 of the shingles are marked.
    Train,
    /// More than 5/9 of the shingles are marked.
    HeldOut,
}

impl Side {
    /// How far a kernel is from the side, 0 if it is on it: the shares of its shingles that have the wrong mark, as they are written, and with
    /// one name in place of all that the module gives and one number in place of all.
    pub(crate) fn distance(self, text: &str) -> f64 {
        let (written, normal): (Vec<_>, Vec<_>) = shingles(text).unzip();
        let written = written.into_iter().zip(normal.iter().copied()).collect();
        let normal = normal.into_iter().map(|shingle| (shingle, shingle)).collect();
        self.excess(written) + self.excess(normal)
    }

    /// The excess of a set of shingles, each with the normal form that decides its mark.
    fn excess(self, mut shingles: Vec<(u64, u64)>) -> f64 {
        shingles.sort_unstable();
        shingles.dedup();
        let count = shingles.len() as f64;
        let marked = shingles.iter().filter(|(_, normal)| normal & 1 == 1).count() as f64;
        let excess = match self {
            Self::Train => 9.0 * marked - 4.0 * count,
            Self::HeldOut => 5.0 * count + 1.0 - 9.0 * marked,
        };
        excess.max(0.0) / count
    }
}

/// Hashes of the shingles of a text, as they are written and in normal form.
fn shingles(text: &str) -> impl Iterator<Item = (u64, u64)> {
    let tokens = tokens(text);
    let starts = 0..tokens.len().saturating_sub(WIDTH - 1);
    starts.map(move |start| {
        let shingle = &tokens[start..start + WIDTH];
        shingle.iter().fold((SALT, SALT), |(one, other), token| {
            (Random::key(one, token.0), Random::key(other, token.1))
        })
    })
}

/// Hashes of the tokens, as they are written and in normal form. Ends of lines and changes of indentation are tokens as well.
fn tokens(text: &str) -> Vec<(u64, u64)> {
    let lexed = lex(text);
    let mut hashed = vec![];
    let mut indentation = vec![0];
    let same = |text: &str| (hash(text), hash(text));
    for line in &lexed.lines {
        while indentation.last().is_some_and(|last| *last > line.column) {
            indentation.pop();
            hashed.push(same("dedent"));
        }
        if indentation.last().is_some_and(|last| *last < line.column) {
            indentation.push(line.column);
            hashed.push(same("indent"));
        }
        let mut last = "";
        for nth in line.first as usize..line.end as usize {
            let [start, end] = [&lexed.tokens.starts, &lexed.tokens.ends].map(|column| column[nth] as usize);
            let token = &text[start..end];
            let is_given = lexed.tokens.kinds[nth] == Terminal::Name && last != "." && !WORDS.contains(&token);
            let normal = match lexed.tokens.kinds[nth] {
                Terminal::Number => "0",
                _ if is_given => "name",
                _ => token,
            };
            hashed.push((hash(token), hash(normal)));
            last = token;
        }
        hashed.push(same("newline"));
    }
    hashed.extend(indentation.iter().skip(1).map(|_| same("dedent")));
    hashed
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
