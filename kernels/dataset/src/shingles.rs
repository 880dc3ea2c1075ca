//! Shingles, which are 5-grams of tokens, and two sides of a data set whose kernels have few of them in common.

use accelerd_parser::{Terminal, lexer::lex};

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

impl Side {
    /// Returns the distance of a kernel from the side, which is 0 if the kernel is on it. The share of marks counts twice: among the shingles
    /// as they are written, and among those of the normal form, which has one name in place of all that the module gives and one number in
    /// place of all.
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
fn shingles(text: &str) -> impl Iterator<Item = (u64, u64)> + use<> {
    let tokens = tokens(text);
    let starts = 0..tokens.len().saturating_sub(WIDTH - 1);
    starts.map(move |start| {
        let shingle = &tokens[start..start + WIDTH];
        let hash = |of: fn(&(u64, u64)) -> u64| shingle.iter().map(of).fold(SALT, add);
        (hash(|token| token.0), hash(|token| token.1))
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
            let kind = lexed.tokens.kinds[nth];
            let normal = if kind == Terminal::Number {
                "0"
            } else if kind == Terminal::Name && last != "." && !WORDS.contains(&token) {
                "name"
            } else {
                token
            };
            hashed.push((hash(token), hash(normal)));
            last = token;
        }
        hashed.push(same("newline"));
    }
    hashed.extend(indentation.iter().skip(1).map(|_| same("dedent")));
    hashed
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| add(hash, u64::from(byte)))
}

/// A hash with a number more. Its upper bits depend on all bits of both.
fn add(hash: u64, number: u64) -> u64 {
    (hash ^ number).wrapping_mul(MULTIPLIER).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_module_and_numbers_have_one_normal_form() {
        let normal = |text: &str| shingles(text).map(|(_, normal)| normal).collect::<Vec<_>>();
        let written = |text: &str| shingles(text).map(|(written, _)| written).collect::<Vec<_>>();
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
        let on = |side: Side, marked: u64, count: u64| {
            side.excess((0..count).map(|nth| (nth, u64::from(nth < marked))).collect()) == 0.0
        };
        assert!(on(Side::Train, 40, 90) && !on(Side::Train, 41, 90));
        assert!(!on(Side::HeldOut, 50, 90) && on(Side::HeldOut, 51, 90));
    }
}
