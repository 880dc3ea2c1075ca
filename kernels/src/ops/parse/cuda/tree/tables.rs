//! The tables of the grammar as a GPU takes them: one run of bytes that fits shared memory.

use std::{cmp::Reverse, collections::HashMap};

use accelerd_parser::tables as grammar;
use bytemuck::{Pod, Zeroable};

/// Where each table starts, in bytes; mirrors `Tables` in `cu/parse_tree_lr.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub(super) struct Places {
    productions: u32,
    actions: u32,
    gotos: u32,
    steps: u32,
    action_rows: u32,
    step_rows: u32,
    goto_columns: u32,
    labels: u32,
    pub(super) bytes: u32,
    end: u32,
    goto_width: u32,
    unused: u32,
}

/// The tables.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) places: Places,
    pub(super) bytes: Vec<u8>,
}

impl Tables {
    /// Packs the parser's tables.
    pub(super) fn pack() -> Self {
        let mut bytes = Vec::new();
        let (action_starts, actions) = once(&grammar::ACTIONS, grammar::TERMINALS);
        let (step_starts, steps) = comb();
        let goto_columns: Vec<u8> =
            grammar::GOTO_COLUMNS.iter().map(|&column| column.try_into().expect("few")).collect();
        let labels: Vec<[u8; 4]> =
            grammar::LABELS.iter().map(|&[kind, matching, other]| [kind, matching, other, 0]).collect();
        let mut places = Places {
            productions: append(&mut bytes, &grammar::PRODUCTIONS),
            actions: append(&mut bytes, &actions),
            gotos: append(&mut bytes, &grammar::GOTOS),
            steps: append(&mut bytes, &steps),
            action_rows: append(&mut bytes, &action_starts),
            step_rows: append(&mut bytes, &step_starts),
            goto_columns: append(&mut bytes, &goto_columns),
            labels: append(&mut bytes, &labels),
            bytes: 0,
            end: word(grammar::TERMINALS - 1),
            goto_width: word(grammar::GOTO_WIDTH),
            unused: 0,
        };
        places.bytes = word(bytes.len());
        Self { places, bytes }
    }
}

fn word(number: usize) -> u32 {
    u32::try_from(number).expect("tables are small")
}

fn start(number: usize) -> u16 {
    u16::try_from(number).expect("a table has fewer cells")
}

/// Equal rows once: where each starts, and the cells.
fn once(table: &[u16], width: usize) -> (Vec<u16>, Vec<u16>) {
    let mut known: HashMap<&[u16], u16> = HashMap::new();
    let mut cells = Vec::new();
    let mut place = |row| {
        *known.entry(row).or_insert_with(|| {
            let at = start(cells.len());
            cells.extend_from_slice(row);
            at
        })
    };
    (table.chunks(width).map(&mut place).collect(), cells)
}

/// `STEPS` without the cells that no parse reads: rows overlap where one has cells and the other none. Gives where the row
/// of each state starts, and the cells.
fn comb() -> (Vec<u16>, Vec<u16>) {
    let width = grammar::STEP_WIDTH;
    // Behind a rule that was expected something can follow: a cell that is an error is not read.
    let read = |row: &[u16]| row.iter().copied().enumerate().filter(|&(_, cell)| cell != grammar::ERROR).collect();
    let rows: Vec<Vec<(usize, u16)>> = grammar::STEPS.chunks(width).map(read).collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&row| Reverse(rows[row].len()));
    let mut cells: Vec<Option<u16>> = Vec::new();
    let mut starts = vec![0; rows.len()];
    for row in order {
        let fits = |at: usize| rows[row].iter().all(|&(column, _)| cells.get(at + column).copied().flatten().is_none());
        let at = (0..=cells.len()).find(|&at| fits(at)).expect("there is room behind the last cell");
        cells.resize(cells.len().max(at + width), None);
        for &(column, cell) in &rows[row] {
            cells[at + column] = Some(cell);
        }
        starts[row] = start(at);
    }
    let starts = grammar::STEP_ROWS.iter().map(|&at| starts[usize::from(at) / width]).collect();
    (starts, cells.into_iter().map(Option::unwrap_or_default).collect())
}

/// Puts a table behind the others, at a multiple of 16; gives where.
fn append<T: bytemuck::NoUninit>(bytes: &mut Vec<u8>, table: &[T]) -> u32 {
    let place = word(bytes.len());
    bytes.extend_from_slice(bytemuck::cast_slice(table));
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_fit_the_shared_memory_of_a_hopper() {
        let tables = Tables::pack();
        assert!(tables.bytes.len() < 200 << 10, "{} bytes", tables.bytes.len());
        const { assert!(grammar::STATES <= 0x200, "states have nine bits in the kernel's symbols") };
    }
}
