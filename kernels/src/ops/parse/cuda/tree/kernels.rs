//! The kernels from tokens to trees; their sources say what each does.

use crate::cuda::{Kernel, Module, modules::COMMON};

const BATCH: usize = 296;

pub(super) const SOURCES: Kernel = Kernel { name: "tree_sources", params: &[BATCH] };
pub(super) const LINES: Kernel = Kernel { name: "tree_lines", params: &[BATCH] };
pub(super) const CUT: Kernel = Kernel { name: "tree_cut", params: &[BATCH] };
pub(super) const PIECES: Kernel = Kernel { name: "tree_pieces", params: &[BATCH] };
pub(super) const MERGE: Kernel = Kernel { name: "tree_merge", params: &[BATCH, 8, 8, 8] };
pub(super) const COUNT: Kernel = Kernel { name: "tree_count", params: &[BATCH, 8] };
pub(super) const STARTS: Kernel = Kernel { name: "tree_starts", params: &[8, 4] };
pub(super) const ORDER: Kernel = Kernel { name: "tree_order", params: &[BATCH, 8, 8] };
pub(super) const ROWS_SUM: Kernel = Kernel { name: "tree_rows_sum", params: &[BATCH, 8] };
pub(super) const ROWS_SPREAD: Kernel = Kernel { name: "tree_rows_spread", params: &[BATCH, 8] };
pub(super) const LR_SHARED: Kernel = Kernel { name: "tree_lr_shared", params: &[BATCH + 80] };
pub(super) const LR: Kernel = Kernel { name: "tree_lr", params: &[BATCH + 80] };
pub(super) const BLOCKS: Kernel = Kernel { name: "tree_blocks", params: &[BATCH] };
pub(super) const ROWS: Kernel = Kernel { name: "tree_rows", params: &[BATCH, 72] };
pub(super) const ROWS_CUT: Kernel = Kernel { name: "tree_rows_cut", params: &[BATCH, 72] };
pub(super) const VALUES: Kernel = Kernel { name: "tree_values", params: &[BATCH, 136] };
pub(super) const TEXTS: Kernel = Kernel { name: "tree_texts", params: &[BATCH, 136] };
pub(super) const EXTRA_SUM: Kernel = Kernel { name: "tree_extra_sum", params: &[BATCH, 136, 8] };
pub(super) const EXTRA_SPREAD: Kernel = Kernel { name: "tree_extra_spread", params: &[BATCH, 136, 8] };
pub(super) const EXTRA: Kernel = Kernel { name: "tree_extra", params: &[BATCH, 136] };
pub(super) const SUMMARY: Kernel = Kernel { name: "tree_summary", params: &[BATCH, 136, 8] };

const NUMBERS: (&str, &str) = ("parse_tree_numbers.cuh", include_str!("../../../../../cu/parse_tree_numbers.cuh"));
const TREE: (&str, &str) = ("parse_tree.cuh", include_str!("../../../../../cu/parse_tree.cuh"));
const SCAN: (&str, &str) = ("parse_tree_scan.cuh", include_str!("../../../../../cu/parse_tree_scan.cuh"));
const CHECKS: (&str, &str) = ("parse_tree_checks.cuh", include_str!("../../../../../cu/parse_tree_checks.cuh"));
const TEXT: (&str, &str) = ("parse_tree_text.cuh", include_str!("../../../../../cu/parse_tree_text.cuh"));

/// Before the tables and behind them.
pub(crate) static ORDERS: Module = Module {
    name: "parse_tree_order",
    source: include_str!("../../../../../cu/parse_tree_order.cu"),
    headers: &[COMMON, NUMBERS, TREE, SCAN],
    kernels: &[SOURCES, LINES, COUNT, STARTS, ORDER, ROWS_SUM, ROWS_SPREAD],
};

/// Long lines to units.
pub(crate) static CUTTER: Module = Module {
    name: "parse_tree_cut",
    source: include_str!("../../../../../cu/parse_tree_cut.cu"),
    headers: &[COMMON, NUMBERS, TREE],
    kernels: &[CUT],
};

/// Units to long lines.
pub(crate) static MERGER: Module = Module {
    name: "parse_tree_merge",
    source: include_str!("../../../../../cu/parse_tree_merge.cu"),
    headers: &[COMMON, NUMBERS, TREE],
    kernels: &[PIECES, MERGE],
};

/// The tables' loop.
pub(crate) static DRIVER: Module = Module {
    name: "parse_tree_lr",
    source: include_str!("../../../../../cu/parse_tree_lr.cu"),
    headers: &[COMMON, NUMBERS, TREE],
    kernels: &[LR_SHARED, LR],
};

/// Lines to blocks.
pub(crate) static NESTING: Module = Module {
    name: "parse_tree_blocks",
    source: include_str!("../../../../../cu/parse_tree_blocks.cu"),
    headers: &[COMMON, NUMBERS, TREE],
    kernels: &[BLOCKS],
};

/// Nodes to rows.
pub(crate) static COLUMNS: Module = Module {
    name: "parse_tree_rows",
    source: include_str!("../../../../../cu/parse_tree_rows.cu"),
    headers: &[COMMON, NUMBERS, TREE, CHECKS],
    kernels: &[ROWS, ROWS_CUT],
};

/// Constants.
pub(crate) static CONSTANTS: Module = Module {
    name: "parse_tree_values",
    source: include_str!("../../../../../cu/parse_tree_values.cu"),
    headers: &[COMMON, NUMBERS, TREE, SCAN, TEXT],
    kernels: &[VALUES, TEXTS, EXTRA_SUM, EXTRA_SPREAD, EXTRA, SUMMARY],
};

#[cfg(test)]
mod tests {
    use accelerd_parser::{Field, Kind, Terminal};

    /// `KIND_AUG_ASSIGN` and `AugAssign` become the same.
    fn bare(name: &str) -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
    }

    #[test]
    fn kernels_number_terminals_kinds_and_fields_as_the_parser_does() {
        let terminals = Terminal::ALL.map(|terminal| (bare(&format!("token{terminal:?}")), terminal as u8));
        let kinds = Kind::ALL.iter().map(|kind| (bare(&format!("kind{kind:?}")), *kind as u8));
        let fields = Field::ALL.iter().map(|field| (bare(&format!("field{field:?}")), *field as u8));
        let known: Vec<_> = terminals.into_iter().chain(kinds).chain(fields).collect();
        let lines = super::NUMBERS.1.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "));
        let mut count = 0;
        for (name, number) in lines {
            let expected = known.iter().find(|(known, _)| *known == bare(name)).map(|(_, number)| number.to_string());
            assert_eq!(expected.as_deref(), Some(number), "{name}");
            count += 1;
        }
        assert!(count > 60);
    }
}
