//! The product: blocks of 32 rows by 32 columns, all rows of one pair of column tiles before the next pair.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::super::amx;
use super::{AmxToken, BLOCK_SIDE, Bf16RowsView, OutputBlock, PackedBf16, TILE_SIDE, Tile};

/// Bytes of the next columns that a block prefetches per tile of depth.
const PREFETCH_BYTES: usize = 256;

impl PackedBf16 {
    /// Computes `rows . columns + bias`, without a bias if it is empty, and passes each block to `epilogue`.
    ///
    /// The epilogue of a block runs after the next block is computed: its loads would stall on the tile stores just
    /// issued.
    pub(crate) fn multiply(
        &self,
        amx: AmxToken,
        rows: Bf16RowsView<'_>,
        bias: &[f32],
        mut epilogue: impl FnMut(OutputBlock<'_>),
    ) {
        let mut sums = [Sums([0.0; BLOCK_SIDE * BLOCK_SIDE]), Sums([0.0; BLOCK_SIDE * BLOCK_SIDE])];
        let mut buffer = 0;
        let mut pending: Option<(Range<usize>, Range<usize>)> = None;
        self.blocks(amx, rows, bias, |block, rows, columns| {
            block.compute(&mut sums[buffer].0, BLOCK_SIDE);
            buffer = 1 - buffer;
            let columns = columns.start..columns.end.min(self.columns());
            if let Some((rows, columns)) = pending.replace((rows, columns)) {
                epilogue(OutputBlock { rows, columns, sums: &mut sums[buffer].0 });
            }
        });
        if let Some((rows, columns)) = pending {
            epilogue(OutputBlock { rows, columns, sums: &mut sums[1 - buffer].0 });
        }
    }

    /// Computes `rows . columns + bias`, without a bias if it is empty, into `out` f32[rows, width]; `width` is at
    /// least the number of columns, and more if padding columns are written too.
    pub(crate) fn multiply_into(
        &self,
        amx: AmxToken,
        rows: Bf16RowsView<'_>,
        bias: &[f32],
        out: &mut [f32],
        width: usize,
    ) {
        let mut sums = Sums([0.0; BLOCK_SIDE * BLOCK_SIDE]);
        self.blocks(amx, rows, bias, |block, rows, columns| {
            let out = &mut out[rows.start * width + columns.start..];
            if rows.len().is_multiple_of(TILE_SIDE) && columns.end <= width {
                block.compute(out, width);
            } else {
                block.compute(&mut sums.0, BLOCK_SIDE);
                let columns = columns.start..columns.end.min(width);
                for (out, sums) in out.chunks_mut(width).zip(sums.0.chunks_exact(BLOCK_SIDE)).take(rows.len()) {
                    out[..columns.len()].copy_from_slice(&sums[..columns.len()]);
                }
            }
        });
    }

    /// Calls `then` with each block, its rows, and its columns including padding.
    fn blocks(
        &self,
        amx: AmxToken,
        rows: Bf16RowsView<'_>,
        bias: &[f32],
        mut then: impl FnMut(&BlockProduct<'_>, Range<usize>, Range<usize>),
    ) {
        assert_eq!(rows.dim, self.dim, "rows as deep as the matrix");
        let session = amx.start();
        let depth = self.depth();
        let blocks = rows.count.div_ceil(BLOCK_SIDE).max(1);
        for (pair, columns) in self.tiles.chunks_exact((2 * depth).max(1)).enumerate() {
            let all = pair * BLOCK_SIDE..(pair + 1) * BLOCK_SIDE;
            let bias = bias.get(all.clone()).unwrap_or(&[0.0; BLOCK_SIDE]);
            // Prefetch the next columns during this product, since a model's weights exceed the caches. Each block
            // prefetches some of them per step, and the rest, if there are too few blocks, at its start.
            let next = &self.tiles[(pair + 1) * 2 * depth..];
            let next = &next[..next.len().min(2 * depth)];
            let rest = &next[next.len().min(blocks * depth * PREFETCH_BYTES / size_of::<Tile>())..];
            let mut rest = rest.chunks(rest.len().div_ceil(blocks).max(1));
            for (block, first) in (0..rows.count).step_by(BLOCK_SIDE).enumerate() {
                session.prefetch(rest.next().unwrap_or_default());
                let tiles = &rows.tiles[first / TILE_SIDE * depth..];
                let product = BlockProduct {
                    session: &session,
                    depth,
                    rows: &tiles[..tiles.len().min(2 * depth)],
                    columns,
                    bias,
                    ahead: next.as_ptr().cast::<u8>().wrapping_add(block * depth * PREFETCH_BYTES),
                };
                then(&product, first..(first + BLOCK_SIDE).min(rows.count), all.clone());
            }
        }
    }
}

#[repr(C, align(64))]
struct Sums([f32; BLOCK_SIDE * BLOCK_SIDE]);

/// The tile registers of this thread, configured.
struct AmxSession {
    #[cfg(target_arch = "x86_64")]
    registers: amx::TileRegisters,
}

impl AmxToken {
    fn start(self) -> AmxSession {
        AmxSession {
            // SAFETY: a token exists only if AMX is available. Only a product starts a session, and its epilogue calls
            // no product.
            #[cfg(target_arch = "x86_64")]
            registers: unsafe { amx::TileRegisters::configure() },
        }
    }
}

impl AmxSession {
    fn prefetch(&self, tiles: &[Tile]) {
        #[cfg(target_arch = "x86_64")]
        self.registers.prefetch(tiles.as_ptr().cast(), size_of_val(tiles));
        #[cfg(not(target_arch = "x86_64"))]
        let _ = tiles;
    }
}

/// The operands of one block of the output.
struct BlockProduct<'a> {
    session: &'a AmxSession,
    depth: usize,
    /// One or two rows of `depth` tiles.
    rows: &'a [Tile],
    /// Two columns of `depth` tiles.
    columns: &'a [Tile],
    /// f32[32].
    bias: &'a [f32],
    /// The address to prefetch from; need not be valid.
    ahead: *const u8,
}

impl BlockProduct<'_> {
    /// Writes 32 columns of 16 or 32 rows, which are `width` numbers apart.
    fn compute(&self, out: &mut [f32], width: usize) {
        let Self { depth, rows, columns, bias, .. } = *self;
        assert!(depth > 0 && columns.len() == 2 * depth && (rows.len() == depth || rows.len() == 2 * depth));
        assert!(
            bias.len() == BLOCK_SIDE && out.len() >= (rows.len() / depth * TILE_SIDE - 1) * width + BLOCK_SIDE,
            "room for a block"
        );
        #[cfg(target_arch = "x86_64")]
        {
            let address = |tiles: &[Tile], index: usize| tiles[index * depth..][..depth].as_ptr().cast::<u8>();
            let operands = amx::Operands {
                depth,
                columns: [address(columns, 0), address(columns, 1)],
                bias: bias.as_ptr(),
                ahead: self.ahead,
            };
            let out = amx::Output { at: out.as_mut_ptr(), stride: width * size_of::<f32>() };
            let registers = &self.session.registers;
            // SAFETY: the assertions above cover the tiles, the bias and the output.
            unsafe {
                if rows.len() == depth {
                    registers.prefetch(self.ahead, depth * PREFETCH_BYTES);
                    registers.multiply_16x32(address(rows, 0), &operands, &out);
                } else {
                    registers.multiply_32x32([address(rows, 0), address(rows, 1)], &operands, &out);
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (out, width, self.session, self.ahead);
    }
}
