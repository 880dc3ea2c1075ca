//! A trie over lower-case letters and digits: 16-byte nodes with contiguous children, indexed by the popcount of a
//! bitmap.

use crate::ModelError;

/// Size of the alphabet: letters and digits.
pub(crate) const SYMBOLS: usize = 36;

/// The symbol of an ASCII letter, in either case, or digit; 63 for other bytes.
const SYMBOL: [u8; 256] = symbols();

/// The token of a node where no piece ends.
const NO_TOKEN: u32 = u32::MAX;

/// Finds the longest piece that is a prefix of a word.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Bit `s`: there is a child for symbol `s`.
    children: u64,
    /// The child of the lowest symbol; the others follow.
    first: u32,
    /// The piece that ends here.
    token: u32,
}

/// The pieces that share their first `depth` symbols.
struct Group<'a> {
    pieces: &'a [(&'a str, u32)],
    depth: usize,
}

impl Trie {
    /// Builds a trie of pieces and their tokens. Every single symbol must be a piece, so that no word is unknown.
    pub(crate) fn new(mut pieces: Vec<(&str, u32)>) -> Result<Self, ModelError> {
        pieces.sort_unstable();
        check(&pieces)?;
        let mut nodes = vec![Node { children: 0, first: 1, token: NO_TOKEN }];
        let mut groups = vec![Group { pieces: &pieces, depth: 0 }];
        let mut next = 0;
        // Breadth first, so that siblings are contiguous. Node `next` is the prefix of group `next`.
        while let Some(&Group { pieces, depth }) = groups.get(next) {
            nodes[next].first = id(nodes.len());
            let longer = pieces.partition_point(|(piece, _)| piece.len() == depth);
            if let Some((_, token)) = pieces[..longer].first() {
                nodes[next].token = *token;
            }
            for pieces in pieces[longer..].chunk_by(|(a, _), (b, _)| a.as_bytes()[depth] == b.as_bytes()[depth]) {
                nodes[next].children |= 1 << SYMBOL[usize::from(pieces[0].0.as_bytes()[depth])];
                nodes.push(Node { children: 0, first: 0, token: NO_TOKEN });
                groups.push(Group { pieces, depth: depth + 1 });
            }
            next += 1;
        }
        Ok(Self { nodes })
    }

    /// The token and length of the longest piece that is a prefix of `word`, a non-empty run of ASCII letters and
    /// digits.
    pub(crate) fn longest(&self, word: &[u8]) -> (u32, usize) {
        let mut node = self.nodes[0];
        let mut best = (NO_TOKEN, 1);
        for (length, &byte) in (1..).zip(word) {
            let bit = 1_u64 << SYMBOL[usize::from(byte)];
            if node.children & bit == 0 {
                break;
            }
            let before = (node.children & (bit - 1)).count_ones();
            node = self.nodes[(node.first + before) as usize];
            if node.token != NO_TOKEN {
                best = (node.token, length);
            }
        }
        best
    }
}

/// Checks that pieces are distinct runs of lower-case letters and digits, and that all single symbols are pieces.
fn check(pieces: &[(&str, u32)]) -> Result<(), ModelError> {
    let plain = |piece: &str| piece.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if let Some((piece, _)) = pieces.iter().find(|(piece, _)| piece.is_empty() || !plain(piece)) {
        return Err(ModelError::BadPiece((*piece).to_owned()));
    }
    if let Some(pair) = pieces.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(ModelError::DuplicatePiece(pair[0].0.to_owned()));
    }
    let single = pieces.iter().filter(|(piece, _)| piece.len() == 1).count();
    if single != SYMBOLS {
        return Err(ModelError::MissingLetters { expected: SYMBOLS, got: single });
    }
    Ok(())
}

/// There are at most as many nodes as bytes of the vocabulary, whose length is a `u32`.
fn id(nodes: usize) -> u32 {
    u32::try_from(nodes).expect("fewer nodes than the file has bytes")
}

/// In byte order, as pieces are sorted: digits, then letters.
const fn symbols() -> [u8; 256] {
    let mut symbols = [63; 256];
    let mut i = 0;
    while i < 26 {
        symbols[(b'a' + i) as usize] = 10 + i;
        symbols[(b'A' + i) as usize] = 10 + i;
        if i < 10 {
            symbols[(b'0' + i) as usize] = i;
        }
        i += 1;
    }
    symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    fn singles() -> Vec<(&'static str, u32)> {
        let all = "abcdefghijklmnopqrstuvwxyz0123456789";
        (0..SYMBOLS).map(|i| (&all[i..=i], u32::try_from(i).expect("small"))).collect()
    }

    #[test]
    fn the_longest_piece_wins_over_its_prefixes() {
        let mut pieces = singles();
        pieces.extend([("par", 100), ("parse", 101), ("parsers", 102)]);
        let trie = Trie::new(pieces).expect("a fit vocabulary");
        assert_eq!(trie.longest(b"parser"), (101, 5));
        assert_eq!(trie.longest(b"PARSERS"), (102, 7));
        assert_eq!(trie.longest(b"part"), (100, 3));
        assert_eq!(trie.longest(b"z9"), (25, 1));
    }

    #[test]
    fn a_vocabulary_without_a_single_letter_is_rejected() {
        let pieces = singles().split_off(1);
        assert_eq!(Trie::new(pieces).err(), Some(ModelError::MissingLetters { expected: 36, got: 35 }));
    }

    #[test]
    fn a_piece_given_twice_is_rejected() {
        let mut pieces = singles();
        pieces.extend([("ab", 50), ("ab", 51)]);
        assert_eq!(Trie::new(pieces).err(), Some(ModelError::DuplicatePiece("ab".to_owned())));
    }

    #[test]
    fn a_piece_with_another_character_is_rejected() {
        for bad in ["", "a b", "A", "é"] {
            let mut pieces = singles();
            pieces.push((bad, 50));
            assert_eq!(Trie::new(pieces).err(), Some(ModelError::BadPiece(bad.to_owned())));
        }
    }
}
