//! Radix sort of long rows: passes from the lowest digit to the highest, with the keys and indices between them in the workspace.

use super::{
    super::{
        headers::{RADIX_DIGITS, RADIX_ITEMS_32, RADIX_ITEMS_64},
        launches::{Argument, Launch, Launches},
        words::{THREADS, launch, word},
    },
    Sort,
};
use crate::OpError;

const DIGIT_BITS: usize = 8;
/// Blocks that rows are split into.
const TARGET_BLOCKS: usize = 1024;
const INDEX_BYTES: usize = 4;
const COUNTER_BYTES: usize = 4;

/// The partition of rows, and the layout of the workspace.
struct Layout {
    part: usize,
    parts: usize,
    /// The two buffers of keys and of indices, which passes write in turns.
    keys: [Argument; 2],
    indices: [Argument; 2],
    counters: Argument,
    totals: Argument,
    bytes: usize,
}

/// One digit, from the lowest on.
#[derive(Clone, Copy)]
struct Pass {
    digit: usize,
    is_first: bool,
    is_last: bool,
}

impl Sort<'_> {
    pub(super) fn by_digits(&self) -> Result<Launches, OpError> {
        let passes = self.step.input.dtype.size();
        let layout = self.layout(passes);
        let mut launches = vec![];
        for pass in 0..passes {
            let kernels = [
                Some(("tensor_sort_count", "radix_count", self.rows * layout.parts)),
                (layout.parts > 1).then_some(("tensor_sort_scan", "radix_scan", self.rows * RADIX_DIGITS)),
                Some(("tensor_sort_move", "radix_move", self.rows * layout.parts)),
            ];
            for (template, function, blocks) in kernels.into_iter().flatten() {
                let pass = Pass { digit: pass, is_first: pass == 0, is_last: pass + 1 == passes };
                launches.push(self.pass(&layout, pass, template, function, blocks)?);
            }
        }
        Ok(Launches { launches, workspace_bytes: layout.bytes, ..Launches::default() })
    }

    fn pass(
        &self,
        layout: &Layout,
        pass: Pass,
        template: &'static str,
        function: &str,
        blocks: usize,
    ) -> Result<Launch, OpError> {
        let Pass { digit, is_first, is_last } = pass;
        let before = (digit + 1) % 2;
        let after = digit % 2;
        let arguments = vec![
            if is_first { Argument::Address(self.input) } else { layout.keys[before] },
            layout.indices[before],
            layout.keys[after],
            if is_last { Argument::Address(self.output) } else { layout.indices[after] },
            layout.counters,
            layout.totals,
            word(self.columns),
            word(layout.part),
            word(layout.parts),
            word(self.count),
            word(digit * DIGIT_BITS),
        ];
        let text = format!(
            "{}constexpr bool IS_FIRST = {is_first}, IS_LAST = {is_last};\n#include \"tensor/sort_radix.cuh\"\n",
            self.keys(is_first)
        );
        launch(template, function, &text, [blocks, 1], arguments)
    }

    fn layout(&self, passes: usize) -> Layout {
        let tile = THREADS * if self.key_bytes() == 8 { RADIX_ITEMS_64 } else { RADIX_ITEMS_32 };
        let part = self.columns.div_ceil((TARGET_BLOCKS / self.rows).max(1)).next_multiple_of(tile);
        let parts = self.columns.div_ceil(part);
        let mut bytes = 0;
        let mut place = |len: usize| {
            let offset = bytes;
            bytes += len.next_multiple_of(16);
            Argument::Workspace(offset)
        };
        let elements = self.rows * self.columns;
        // The last pass writes to the output, and the first reads the input.
        let buffers = [1, 2].map(|nth| if passes > nth { elements } else { 0 });
        let keys = buffers.map(|elements| place(elements * self.key_bytes()));
        let indices = buffers.map(|elements| place(elements * INDEX_BYTES));
        let counters = place(self.rows * RADIX_DIGITS * parts * COUNTER_BYTES);
        // The counters of a single part are the totals.
        let totals = if parts > 1 { place(self.rows * RADIX_DIGITS * COUNTER_BYTES) } else { counters };
        Layout { part, parts, keys, indices, counters, totals, bytes }
    }
}
