//! The product itself: blocks of 32 rows by 32 columns, all rows of some columns, then the next columns.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::super::amx;
use super::{BLOCK, Packed, Part, SIDE, Tile, Unit};

/// Bytes of the next columns that are asked for with every tile of depth of a block.
const AHEAD: usize = 256;

impl Packed {
    /// Multiplies, adds one number a column, or none, and gives `then` the sums block by block.
    ///
    /// Each comes after the next was begun: what registers have just written can not be read before it has gone its way.
    pub(crate) fn multiply(&self, unit: Unit, rows: Part<'_>, bias: &[f32], mut then: impl FnMut(Block<'_>)) {
        let mut sums = [Sums([0.0; BLOCK * BLOCK]), Sums([0.0; BLOCK * BLOCK])];
        let mut turn = 0;
        let mut before: Option<(Range<usize>, Range<usize>)> = None;
        self.blocks(unit, rows, bias, |work, rows, columns| {
            work.write(&mut sums[turn].0, BLOCK);
            turn = 1 - turn;
            let columns = columns.start..columns.end.min(self.columns());
            if let Some((rows, columns)) = before.replace((rows, columns)) {
                then(Block { rows, columns, sums: &mut sums[turn].0 });
            }
        });
        if let Some((rows, columns)) = before {
            then(Block { rows, columns, sums: &mut sums[1 - turn].0 });
        }
    }

    /// Multiplies, adds one number a column, or none, and writes the sums into rows of `width` numbers: as many as there
    /// are columns, or more for those of padding.
    pub(crate) fn multiply_into(&self, unit: Unit, rows: Part<'_>, bias: &[f32], out: &mut [f32], width: usize) {
        let mut sums = Sums([0.0; BLOCK * BLOCK]);
        self.blocks(unit, rows, bias, |work, rows, columns| {
            let out = &mut out[rows.start * width + columns.start..];
            if rows.len().is_multiple_of(SIDE) && columns.end <= width {
                work.write(out, width);
            } else {
                work.write(&mut sums.0, BLOCK);
                let columns = columns.start..columns.end.min(width);
                for (out, sums) in out.chunks_mut(width).zip(sums.0.chunks_exact(BLOCK)).take(rows.len()) {
                    out[..columns.len()].copy_from_slice(&sums[..columns.len()]);
                }
            }
        });
    }

    /// Calls `then` with each block's work, rows and columns, those of padding too.
    fn blocks(
        &self,
        unit: Unit,
        rows: Part<'_>,
        bias: &[f32],
        mut then: impl FnMut(&Work<'_>, Range<usize>, Range<usize>),
    ) {
        assert_eq!(rows.dim, self.dim, "rows as deep as the matrix");
        let machine = unit.start();
        let depth = self.depth();
        let blocks = rows.count.div_ceil(BLOCK).max(1);
        for (pair, columns) in self.tiles.chunks_exact((2 * depth).max(1)).enumerate() {
            let all = pair * BLOCK..(pair + 1) * BLOCK;
            let bias = bias.get(all.clone()).unwrap_or(&[0.0; BLOCK]);
            // The next columns come near while these are multiplied: a model's matrices are too many for any near cache.
            // Every block asks for some on its way, and for the others at its begin, where there are few blocks.
            let next = &self.tiles[(pair + 1) * 2 * depth..];
            let next = &next[..next.len().min(2 * depth)];
            let others = &next[next.len().min(blocks * depth * AHEAD / size_of::<Tile>())..];
            let mut others = others.chunks(others.len().div_ceil(blocks).max(1));
            for (block, first) in (0..rows.count).step_by(BLOCK).enumerate() {
                machine.prefetch(others.next().unwrap_or_default());
                let tiles = &rows.tiles[first / SIDE * depth..];
                let work = Work {
                    machine: &machine,
                    depth,
                    rows: &tiles[..tiles.len().min(2 * depth)],
                    columns,
                    bias,
                    ahead: next.as_ptr().cast::<u8>().wrapping_add(block * depth * AHEAD),
                };
                then(&work, first..(first + BLOCK).min(rows.count), all.clone());
            }
        }
    }
}

/// Sums of 32 rows by 32 columns.
pub(crate) struct Block<'a> {
    /// Which rows; those of the block that come after them are to be left alone.
    pub(crate) rows: Range<usize>,
    /// Which columns, likewise.
    pub(crate) columns: Range<usize>,
    /// `[32, 32]`.
    pub(crate) sums: &'a mut [f32; BLOCK * BLOCK],
}

#[repr(C, align(64))]
struct Sums([f32; BLOCK * BLOCK]);

/// A unit that is ready on this thread.
struct Machine {
    #[cfg(target_arch = "x86_64")]
    registers: amx::Registers,
}

impl Unit {
    fn start(self) -> Machine {
        Machine {
            // SAFETY: a unit exists only where tiles are allowed. Only a product starts a machine, and what it calls
            // meanwhile is no product.
            #[cfg(target_arch = "x86_64")]
            registers: unsafe { amx::Registers::configure() },
        }
    }
}

impl Machine {
    /// Asks for tiles that will be read soon.
    fn prefetch(&self, tiles: &[Tile]) {
        #[cfg(target_arch = "x86_64")]
        self.registers.prefetch(tiles.as_ptr().cast(), size_of_val(tiles));
        #[cfg(not(target_arch = "x86_64"))]
        let _ = tiles;
    }
}

/// A block to be multiplied.
struct Work<'a> {
    machine: &'a Machine,
    depth: usize,
    /// One or two rows of `depth` tiles.
    rows: &'a [Tile],
    /// Two columns of them.
    columns: &'a [Tile],
    /// A number for each of 32 columns.
    bias: &'a [f32],
    /// What to ask for meanwhile. Need not be readable.
    ahead: *const u8,
}

impl Work<'_> {
    /// Writes 32 sums into each of 16 or 32 rows that lie `width` numbers apart.
    fn write(&self, out: &mut [f32], width: usize) {
        let Self { depth, rows, columns, bias, .. } = *self;
        assert!(depth > 0 && columns.len() == 2 * depth && (rows.len() == depth || rows.len() == 2 * depth));
        assert!(
            bias.len() == BLOCK && out.len() >= (rows.len() / depth * SIDE - 1) * width + BLOCK,
            "room for a block"
        );
        #[cfg(target_arch = "x86_64")]
        {
            let place = |tiles: &[Tile], at: usize| tiles[at * depth..][..depth].as_ptr().cast::<u8>();
            let factors = amx::Factors {
                depth,
                columns: [place(columns, 0), place(columns, 1)],
                bias: bias.as_ptr(),
                ahead: self.ahead,
            };
            let out = amx::Out { at: out.as_mut_ptr(), stride: width * size_of::<f32>() };
            let registers = &self.machine.registers;
            // SAFETY: the tiles, the bias and the room for the sums are there, as was just asserted.
            unsafe {
                if rows.len() == depth {
                    registers.prefetch(self.ahead, depth * AHEAD);
                    registers.one(place(rows, 0), &factors, &out);
                } else {
                    registers.two([place(rows, 0), place(rows, 1)], &factors, &out);
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (out, width, self.machine, self.ahead);
    }
}
