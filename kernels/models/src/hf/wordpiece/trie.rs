//! A double-array trie over bytes (Aoe, 1989): finds the longest piece of a word with one lookup per byte.

/// A cell without a parent, or without a token.
const NONE: u32 = u32::MAX;

/// Cells that are added at once: the maximum of children.
const BLOCK: usize = 256;

/// Free cells to try for a node with several children before a block is added.
const TRIES: usize = 256;

/// Finds the longest piece that is a prefix of a word.
pub(super) struct Trie {
    cells: Vec<Cell>,
}

/// A node or a free cell. The child of node `n` for byte `b` is cell `base ^ b`, if its parent is `n`.
#[derive(Clone, Copy)]
struct Cell {
    base: u32,
    parent: u32,
    /// The piece that ends here.
    token: u32,
}

const FREE: Cell = Cell { base: 0, parent: NONE, token: NONE };

impl Trie {
    /// Builds a trie of pieces and their tokens, none of which is `u32::MAX`. Empty pieces are never found.
    pub(super) fn new<'a>(pieces: impl IntoIterator<Item = (&'a [u8], u32)>) -> Self {
        let mut pieces: Vec<_> = pieces.into_iter().collect();
        pieces.sort_unstable();
        Room::default().filled(&pieces)
    }

    /// The token and length of the longest piece that is a prefix of `word`.
    pub(super) fn longest(&self, word: &[u8]) -> Option<(u32, usize)> {
        let mut node = 0;
        let mut base = self.cells.first()?.base;
        let mut best = None;
        for (length, &byte) in (1..).zip(word) {
            let next = base ^ u32::from(byte);
            let cell = self.cells.get(next as usize).filter(|cell| cell.parent == node);
            let Some(cell) = cell else { break };
            (node, base) = (next, cell.base);
            if cell.token != NONE {
                best = Some((cell.token, length));
            }
        }
        best
    }
}

/// A trie under construction.
#[derive(Default)]
struct Room {
    cells: Vec<Cell>,
    /// The free cells, and some that are used by now.
    free: Vec<u32>,
}

impl Room {
    /// Places the children of each node, breadth first; nodes with many children first, those with one fill the gaps.
    fn filled(mut self, pieces: &[(&[u8], u32)]) -> Trie {
        self.grow();
        // The root is its own parent, so no byte leads to it.
        self.cells[0].parent = 0;
        let mut nodes = std::collections::VecDeque::from([(0, pieces, 0)]);
        while let Some((node, pieces, depth)) = nodes.pop_front() {
            let longer = pieces.partition_point(|(piece, _)| piece.len() == depth);
            if let Some((_, token)) = pieces[..longer].first().filter(|_| depth > 0) {
                self.cells[node as usize].token = *token;
            }
            let groups: Vec<_> = pieces[longer..].chunk_by(|(a, _), (b, _)| a[depth] == b[depth]).collect();
            let bytes: Vec<_> = groups.iter().map(|group| group[0].0[depth]).collect();
            if bytes.is_empty() {
                continue;
            }
            let base = self.place(&bytes);
            self.cells[node as usize].base = base;
            for (byte, group) in bytes.into_iter().zip(groups) {
                let child = base ^ u32::from(byte);
                self.cells[child as usize].parent = node;
                nodes.push_back((child, group, depth + 1));
            }
        }
        Trie { cells: self.cells }
    }

    /// A base from which all these bytes lead to free cells.
    fn place(&mut self, bytes: &[u8]) -> u32 {
        while self.free.pop_if(|cell| self.cells[*cell as usize].parent != NONE).is_some() {}
        let bases = self.free.iter().rev().take(TRIES).map(|cell| cell ^ u32::from(bytes[0]));
        let fits = |base: &u32| bytes.iter().all(|byte| self.is_free(base ^ u32::from(*byte)));
        if let Some(base) = bases.into_iter().find(fits) {
            return base;
        }
        let base = self.cells.len();
        self.grow();
        id(base)
    }

    fn is_free(&self, cell: u32) -> bool {
        self.cells.get(cell as usize).is_some_and(|cell| cell.parent == NONE)
    }

    fn grow(&mut self) {
        let cells = &self.cells;
        self.free.retain(|cell| cells[*cell as usize].parent == NONE);
        let old = self.cells.len();
        self.cells.resize(old + BLOCK, FREE);
        self.free.extend((old..old + BLOCK).map(id));
    }
}

/// There are fewer nodes than bytes of the vocabulary, so a block per node is below 2^32 cells.
fn id(cell: usize) -> u32 {
    u32::try_from(cell).expect("a vocabulary is a few megabytes")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn the_longest_piece_is_found_in_any_vocabulary(
            pieces in vec(vec(0_u8..6, 0..7), 0..200),
            high in vec(vec(any::<u8>(), 1..4), 0..400),
            words in vec(vec(0_u8..6, 0..12), 50),
        ) {
            let pieces: BTreeMap<Vec<u8>, u32> = pieces.into_iter().chain(high).zip(0..).collect();
            let trie = Trie::new(pieces.iter().map(|(piece, token)| (&piece[..], *token)));
            for word in words.iter().chain(pieces.keys()) {
                let starts = (1..=word.len()).rev().find_map(|n| pieces.get(&word[..n]).map(|token| (*token, n)));
                prop_assert_eq!(trie.longest(word), starts);
            }
        }
    }
}
