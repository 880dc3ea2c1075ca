//! The encoder's primitives by the kernels of `cu/encode_*.cu`: one launch each, two where heads are turned.

use std::{cell::Cell, rc::Rc};

use super::{
    answers::Answers,
    few::Few,
    input::Input,
    join::{Join, Joined},
    kernels::{
        self, ATTEND_EXACT, BROAD, COLUMNS, EMBED, EMBED_EARLY, EVEN, Format, LINEAR_EXACT, MIDDLE, NORM, NORM_EARLY,
        RELAY, SMALL, TURN, Tile, WIDE,
    },
    states::{Shelf, States},
    weights::{Weight, fit},
};
use crate::{
    OpError,
    cuda::{Args, Grid, Kernel, Worker},
    ops::encode::{
        Activation, Attention, Batch, Embeddings, Linear, Norm, NormKind, Pooled, Primitives, QueryNorm, Row, Then,
    },
};

/// A window that holds everything.
const EVERYTHING: u32 = u32::MAX;

/// Rows that have no more than a warp for each of a multiprocessor's schedulers: each waits for its weights as long as for
/// its numbers, so these are read early.
const EARLY_ROWS: usize = 512;

/// One batch on its way through an encoder.
pub(super) struct Pass<'a> {
    worker: &'a Worker,
    format: Format,
    /// What the residual is kept in.
    residual: Format,
    shelf: Rc<Shelf>,
    input: Input,
    /// Whether the latest launch over rows began with the last.
    backwards: Cell<bool>,
}

impl<'a> Pass<'a> {
    /// A pass of what is in `input` that computes in `format` and keeps the residual in `residual`, in states of so many
    /// bytes at most.
    pub(super) fn new(worker: &'a Worker, format: Format, residual: Format, input: Input, most_bytes: usize) -> Self {
        Self { worker, format, residual, shelf: Shelf::new(most_bytes), input, backwards: Cell::new(false) }
    }

    /// What it is a pass of.
    pub(super) fn into_input(self) -> Input {
        self.input
    }

    /// Which way the next launch goes over rows: against the latest, so that it reads first what that one wrote last and
    /// the level 2 cache still holds.
    fn direction(&self) -> u32 {
        self.backwards.set(!self.backwards.get());
        self.backwards.get().into()
    }

    fn states(&self, width: usize) -> Result<States, OpError> {
        self.states_in(self.format, width)
    }

    /// With as many numbers in a row as there are in the format computed in.
    fn states_in(&self, format: Format, width: usize) -> Result<States, OpError> {
        let mut states =
            self.shelf.take(self.worker, format, self.input.rows, width.next_multiple_of(self.format.columns()))?;
        states.width = width;
        Ok(states)
    }

    /// Tiles that rows of a residual take in the format computed in.
    fn steps(&self, width: usize) -> Result<u32, OpError> {
        fit(width.div_ceil(self.format.columns()))
    }

    /// A warp for each row, or for the widest rows a block.
    fn launch_rows<T: bytemuck::Pod>(
        &self,
        kernels: &[[Kernel; 3]; 3],
        early: &[[Kernel; 2]; 3],
        steps: u32,
        value: T,
    ) -> Result<(), OpError> {
        let (width, format, rows) = (by_width(self.format, steps)?, self.format as usize, self.input.rows);
        let early = early[format].get(width);
        let (kernel, threads, blocks) = match early.filter(|_| rows <= EARLY_ROWS) {
            Some(kernel) => (kernel, 128, rows.div_ceil(4)),
            None => (&kernels[format][width], 256, if early.is_some() { rows.div_ceil(8) } else { rows }),
        };
        self.worker.launch_early(kernel, Grid::x(fit(blocks)?), threads, 0, &mut Args::new().value(value))
    }

    fn norms(
        &self,
        x: &States,
        delta: Option<&States>,
        sum: Option<&States>,
        out: &States,
        norm: kernels::Norm,
    ) -> Result<(), OpError> {
        let norms = kernels::Norms {
            x: x.address(),
            delta: delta.map_or(0, States::address),
            out: out.address(),
            sum: sum.map_or(0, States::address),
            norm,
            rows: fit(self.input.rows)?,
            steps: out.steps,
            width: fit(x.width)?,
            exact: (x.format != self.format).into(),
            backwards: self.direction(),
            unused: 0,
        };
        self.launch_rows(&NORM, &NORM_EARLY, out.steps, norms)
    }

    /// A layer without an activation, from the first rows on.
    fn layer(&self, x: &States, linear: &Linear<Weight>, out: &States) -> Result<kernels::Linear, OpError> {
        Ok(kernels::Linear {
            x: x.address(),
            weight: linear.weight.address(),
            bias: linear.bias.as_ref().map_or(0, Weight::address),
            out: out.address(),
            rows: fit(self.input.rows)?,
            columns: linear.weight.rows,
            steps: linear.weight.steps,
            out_steps: out.steps,
            activation: 0,
            gated: 0,
            backwards: 0,
            unused: 0,
        })
    }

    /// The kernel that computes a layer with the residual and the norm behind it, and how many clusters, where both in one
    /// are done first.
    fn joined(
        &self,
        x: &States,
        linear: &Linear<Weight>,
        residual: &States,
    ) -> Result<Option<(&'static Joined, usize)>, OpError> {
        let (rows, columns, steps) = (self.input.rows, linear.weight.rows as usize, linear.weight.steps as usize);
        let fits = self.worker.compute_capability().0 == 9
            && self.format != Format::F32
            && [x.format, residual.format, linear.weight.out] == [self.format; 3]
            && [linear.outputs, residual.width] == [columns; 2];
        let Some(joined) = Joined::of(rows, columns).filter(|_| fits) else { return Ok(None) };
        let kernel = joined.kernel(self.format);
        let most = self.worker.clusters(&kernel, joined.blocks, Joined::THREADS, Joined::SHARED_BYTES)?;
        let clusters = Joined::clusters(rows, most as usize);
        let alone = tile_for(rows, columns, steps, false, self.worker.units() as usize).1;
        Ok(joined.is_faster(rows, steps, clusters, alone).then_some((joined, clusters)))
    }

    fn multiply(&self, layer: kernels::Linear) -> Result<(), OpError> {
        let (rows, columns) = (self.input.rows, layer.columns as usize);
        let mut args = Args::new().value(layer);
        if self.format == Format::F32 || self.worker.compute_capability().0 != 9 {
            let blocks = fit(rows.div_ceil(128) * columns.div_ceil(64))?;
            return self.worker.launch_early(&LINEAR_EXACT[self.format as usize], Grid::x(blocks), 256, 0, &mut args);
        }
        let units = self.worker.units();
        if let Some(few) = Few::of(rows, columns, layer.steps as usize, layer.gated != 0, units as usize) {
            let (grid, kernel, shared_bytes) =
                (Grid::x(fit(few.blocks)?), few.kernel(self.format), fit(few.shared_bytes)?);
            let mut args = args.u32(fit(few.stages)?);
            return self.worker.launch_early(&kernel, grid, Few::THREADS, shared_bytes, &mut args);
        }
        let (tile, _) = tile_for(rows, columns, layer.steps as usize, layer.gated != 0, units as usize);
        let together = tile.together;
        let blocks = rows.div_ceil(tile.rows * together) * together * columns.div_ceil(tile.columns);
        let most = (tile.each * units as usize / together * together).max(together);
        let grid = Grid::x(fit(blocks.min(most))?);
        self.worker.launch_early(&tile.kernel(self.format), grid, tile.threads, tile.shared_bytes, &mut args)
    }

    /// Normalises and rotates queries and keys, in place.
    fn turn(&self, qkv: &States, how: &Attention<'_, Weight>) -> Result<(), OpError> {
        if how.query_norm.is_none() && how.rotary.is_none() {
            return Ok(());
        }
        let address = |weight: Option<&Weight>| weight.map_or(0, Weight::address);
        let (queries, keys) = (how.query_norm.map(|norm| norm.1), how.query_norm.map(|norm| norm.2));
        let turns = kernels::Turns {
            qkv: qkv.address(),
            starts: self.input.starts(),
            query_weight: address(queries.map(|norm| &norm.weight)),
            query_bias: address(queries.and_then(|norm| norm.bias.as_ref())),
            key_weight: address(keys.map(|norm| &norm.weight)),
            key_bias: address(keys.and_then(|norm| norm.bias.as_ref())),
            table: address(how.rotary.map(|rotary| rotary.0)),
            texts: fit(self.input.texts)?,
            steps: qkv.steps,
            heads: fit(how.heads)?,
            kv_heads: fit(how.kv_heads)?,
            head: fit(how.head_dim)?,
            padded: fit(kernels::padded_head(self.format, how.head_dim))?,
            dims: fit(how.rotary.map_or(0, |rotary| rotary.1))?,
            kind: queries.map_or(0, |norm| kind_of(norm.kind)),
            together: matches!(how.query_norm, Some((QueryNorm::All, ..))).into(),
            epsilon: queries.map_or(0.0, |norm| norm.epsilon),
        };
        let shared_bytes = fit((how.heads + how.kv_heads) * how.head_dim * 4)?;
        let grid = Grid::x(fit(self.input.rows)?);
        self.worker.launch_early(&TURN[qkv.format as usize], grid, 256, shared_bytes, &mut Args::new().value(turns))
    }

    fn attend(&self, qkv: &States, out: &States, how: &Attention<'_, Weight>) -> Result<(), OpError> {
        let padded = kernels::padded_head(self.format, how.head_dim);
        let items = &self.input.items;
        let args = kernels::Attention {
            qkv: qkv.address(),
            out: out.address(),
            starts: self.input.starts(),
            items: self.input.address(0),
            slopes: how.slopes.map_or(0, Weight::address),
            relative: how.relative_bias.map_or(0, Weight::address),
            rows: fit(self.input.rows)?,
            texts: fit(self.input.texts)?,
            steps: qkv.steps,
            out_steps: out.steps,
            heads: fit(how.heads)?,
            kv_heads: fit(how.kv_heads)?,
            share: fit(how.heads / how.kv_heads)?,
            head: fit(how.head_dim)?,
            padded: fit(padded)?,
            reach: fit(how.max_tokens)?,
            causal: how.causal.into(),
            window: how.window.map_or(Ok(EVERYTHING), fit)?,
            long_items: fit(items.long)?,
            whole_items: fit(items.whole)?,
            middle_items: fit(items.middle)?,
            short_items: fit(items.short)?,
            scale: how.scale,
            wide: (out.format == Format::Bf16).into(),
            backwards: self.direction(),
            unused: 0,
        };
        let mut args = Args::new().value(args);
        if let Some([attend_few, attend_many]) =
            kernels::attend(self.format, how.head_dim, self.worker.compute_capability())
        {
            let ([few, many], shared_bytes) = (items.blocks(how.heads), fit(512 * padded)?);
            self.worker.launch_early(attend_few, Grid::x(fit(few)?), 128, shared_bytes, &mut args)?;
            let (biased, capability) = (how.slopes.or(how.relative_bias).is_some(), self.worker.compute_capability());
            if let Some(group) = kernels::attend_group([how.heads, how.kv_heads, padded], biased, capability) {
                let grid = Grid::x(fit(many)?.min(self.worker.units()));
                return self.worker.launch_early(&group.kernel, grid, group.threads, group.shared_bytes, &mut args);
            }
            return self.worker.launch_early(attend_many, Grid::x(fit(many)?), 128, shared_bytes, &mut args);
        }
        let grid = Grid::xy(fit(self.input.rows.div_ceil(4))?, fit(how.heads)?);
        self.worker.launch_early(&ATTEND_EXACT[self.format as usize], grid, 128, fit(32 * how.head_dim)?, &mut args)
    }
}

impl Primitives for Pass<'_> {
    type Weight = Weight;
    type Tensor = States;

    fn embed(
        &mut self,
        _batch: &Batch,
        embeddings: &Embeddings<Weight>,
        position_offset: usize,
    ) -> Result<States, OpError> {
        let width = embeddings.words.width;
        let (out, steps) = (self.states_in(self.residual, width)?, self.steps(width)?);
        let exact = |format: Format, bit| if format == self.format { 0 } else { bit };
        let exact_table = |table: Option<&Weight>, bit| table.map_or(0, |table| exact(table.format, bit));
        let address = |table: Option<&Weight>| table.map_or(0, Weight::address);
        let embedding = kernels::Embedding {
            ids: self.input.address(self.input.ids()),
            types: self.input.types(),
            starts: self.input.starts(),
            words: embeddings.words.address(),
            positions: address(embeddings.positions.as_ref()),
            kinds: address(embeddings.types.as_ref()),
            out: out.address(),
            norm: embeddings.norm.as_ref().map(norm_of).unwrap_or_default(),
            rows: fit(self.input.rows)?,
            texts: fit(self.input.texts)?,
            steps,
            width: fit(width)?,
            offset: fit(position_offset)?,
            exact: exact_table(Some(&embeddings.words), kernels::EXACT_WORDS)
                | exact_table(embeddings.positions.as_ref(), kernels::EXACT_POSITIONS)
                | exact_table(embeddings.types.as_ref(), kernels::EXACT_KINDS)
                | exact(out.format, kernels::EXACT_OUT),
        };
        self.launch_rows(&EMBED, &EMBED_EARLY, steps, embedding)?;
        Ok(out)
    }

    fn linear(&mut self, x: &States, linear: &Linear<Weight>, then: Then) -> Result<States, OpError> {
        if x.format != self.format {
            let rounded = self.states(x.width)?;
            self.norms(x, None, None, &rounded, kernels::Norm::default())?;
            return self.linear(&rounded, linear, then);
        }
        let columns = linear.weight.rows as usize;
        let out_format = linear.weight.out;
        let (activation, gated) = match then {
            Then::Nothing if out_format == self.format => (0, false),
            Then::Nothing => (kernels::HALVES, false),
            Then::Activate(activation) => (activation_of(activation), false),
            Then::Gate(activation) => (activation_of(activation), true),
        };
        let mut out = self.states_in(out_format, if gated { columns / 2 } else { columns })?;
        out.width = if gated { linear.outputs / 2 } else { linear.outputs };
        let layer = self.layer(x, linear, &out)?;
        self.multiply(kernels::Linear { activation, gated: gated.into(), backwards: self.direction(), ..layer })?;
        Ok(out)
    }

    fn attention(&mut self, _batch: &Batch, qkv: States, how: &Attention<'_, Weight>) -> Result<States, OpError> {
        self.turn(&qkv, how)?;
        let width = how.heads * kernels::padded_head(self.format, how.head_dim);
        let out = self.states(width)?;
        if let Some(buffer) = out.buffer().filter(|_| !width.is_multiple_of(self.format.columns())) {
            // What no head writes is multiplied with zeros, so it must be a number.
            self.worker.fill_zero(buffer)?;
        }
        self.attend(&qkv, &out, how)?;
        Ok(out)
    }

    fn norm(&mut self, x: &States, norm: &Norm<Weight>) -> Result<States, OpError> {
        let out = self.states(x.width)?;
        self.norms(x, None, None, &out, norm_of(norm))?;
        Ok(out)
    }

    fn add_norm(&mut self, residual: States, delta: States, norm: &Norm<Weight>) -> Result<States, OpError> {
        self.norms(&residual, Some(&delta), None, &residual, norm_of(norm))?;
        Ok(residual)
    }

    fn linear_add_norm(
        &mut self,
        x: &States,
        linear: &Linear<Weight>,
        residual: States,
        norm: &Norm<Weight>,
    ) -> Result<States, OpError> {
        let Some((joined, clusters)) = self.joined(x, linear, &residual)? else {
            let delta = self.linear(x, linear, Then::Nothing)?;
            return self.add_norm(residual, delta, norm);
        };
        let layer = kernels::Linear { backwards: self.direction(), ..self.layer(x, linear, &residual)? };
        let mut args = Args::new().value(Join { layer, residual: residual.address(), norm: norm_of(norm) });
        let (kernel, grid) = (joined.kernel(self.format), Grid::x(fit(clusters)? * joined.blocks));
        self.worker.launch_early(&kernel, grid, Joined::THREADS, Joined::SHARED_BYTES, &mut args)?;
        Ok(residual)
    }

    fn add_then_norm(&mut self, residual: &mut States, delta: States, norm: &Norm<Weight>) -> Result<States, OpError> {
        self.norms(residual, Some(&delta), Some(residual), &delta, norm_of(norm))?;
        Ok(delta)
    }

    fn pool(&mut self, states: &States, rows: &[Row]) -> Result<Pooled, OpError> {
        Answers::new(self.worker, rows)?.pooled(self.worker, self.format, states)
    }
}

/// Which of [`COLUMNS`] hold rows of so many steps.
pub(super) fn by_width(format: Format, steps: u32) -> Result<usize, OpError> {
    let columns = steps as usize * format.columns();
    let most = COLUMNS[COLUMNS.len() - 1];
    let wide = || OpError::Invalid(format!("states of {columns} numbers; a GPU takes at most {most}"));
    COLUMNS.iter().position(|fits| *fits >= columns).ok_or_else(wide)
}

/// The tile for a product: the one that is done first, by how many tiles a multiprocessor computes one after the other
/// and what a tile of its size takes, about; and what all takes, in the time of a sum. All give the same bits.
pub(super) fn tile_for(rows: usize, columns: usize, steps: usize, gated: bool, units: usize) -> (Tile, usize) {
    // Time of 64 x 64 sums, of all of a multiprocessor's blocks together: of a step, for which smaller tiles read more, of
    // what follows the last step of a tile, and of what follows the last tile.
    let candidates = [
        (WIDE, 100, 235, 0),
        (RELAY, 106, 60, 400),
        (BROAD, 102, 180, 0),
        (EVEN, 130, 0, 0),
        (MIDDLE, 224, 0, 0),
        (SMALL, 448, 0, 0),
    ];
    let cost = |(tile, step, tile_end, end): &(Tile, usize, usize, usize)| {
        let tiles = rows.div_ceil(tile.rows * tile.together) * tile.together * columns.div_ceil(tile.columns);
        let rounds = tiles.div_ceil(units * tile.each);
        let each = tile.each.min(tiles.div_ceil(units)) * tile.rows * tile.columns;
        (rounds * (step * steps + tile_end) + end) * each
    };
    let fits =
        |(tile, ..): &&(Tile, usize, usize, usize)| tile.columns != 192 || (columns.is_multiple_of(192) && !gated);
    let costs = candidates.iter().filter(fits).map(|candidate| (candidate.0, cost(candidate)));
    costs.min_by_key(|(_, cost)| *cost).unwrap_or((WIDE, usize::MAX))
}

fn norm_of(norm: &Norm<Weight>) -> kernels::Norm {
    kernels::Norm {
        weight: norm.weight.address(),
        bias: norm.bias.as_ref().map_or(0, Weight::address),
        kind: kind_of(norm.kind),
        epsilon: norm.epsilon,
    }
}

fn kind_of(kind: NormKind) -> u32 {
    match kind {
        NormKind::Layer => 1,
        NormKind::Rms => 2,
    }
}

/// As kernels number them. GELU is computed so exactly that nothing faster is needed.
fn activation_of(activation: Activation) -> u32 {
    match activation {
        Activation::Gelu => 1,
        Activation::GeluTanh => 2,
        Activation::Relu => 3,
        Activation::Silu => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_take_the_tiles_that_fill_the_device() {
        let tile = |rows, columns, steps| tile_for(rows, columns, steps, false, 132).0;
        assert_eq!([1, 32, 64].map(|rows| tile(rows, 768, 12).columns), [16; 3]);
        let large = |columns, steps| (tile(1 << 18, columns, steps).columns, tile(1 << 18, columns, steps).together);
        assert_eq!(large(768, 48), (256, 2), "many steps");
        assert_eq!([large(768, 12), large(3072, 12), large(1152, 6)], [(192, 2); 3], "few steps");
        assert_eq!(large(1024, 16), (256, 2), "192 do not divide them");
        assert_eq!(tile_for(1 << 18, 1152, 6, true, 132).0.columns % 128, 0, "a gated tile has whole halves");
        assert!((64..=192).contains(&tile(1024, 1152, 6).columns));
    }
}
