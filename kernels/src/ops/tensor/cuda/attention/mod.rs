//! Scaled dot-product attention: on tensor cores, in exact f32, or by rows of any type and extent.

mod source;
#[cfg(test)]
mod tests;
mod variant;

use accelerd_ir::Dtype;
use accelerd_tensor::{AttentionStep, Layout, View};

use self::{
    source::Text,
    variant::{Problem, Variant},
};
use super::{
    buffers::{Address, BufferSizes},
    launches::{Argument, Launch, Launches, MapArgument, Pointer, blocks_x},
};
use crate::{
    OpError,
    cuda::{Grid, TensorMap, TmaBox, launch_structs},
};

launch_structs! {
    header LAUNCH = "tensor/attention_launch.cuh";

    /// Operands and extents. Strides are in elements, of batches, heads and rows, and of a mask of columns, too.
    struct Attention {
        query: u64,
        key: u64,
        value: u64,
        mask: u64,
        lengths: u64,
        output: u64,
        heads: i64,
        group: i64,
        queries: i64,
        keys: i64,
        dim: i64,
        value_dim: i64,
        rows: i64,
        parts: i64,
        part_keys: i64,
        query_strides: [i64; 3],
        key_strides: [i64; 3],
        value_strides: [i64; 3],
        mask_strides: [i64; 4],
        scale: f64,
    }
}

/// The launches of a step on a device of a compute capability; none if there is no result.
pub(super) fn prepare(step: &AttentionStep, sizes: &BufferSizes, capability: (u32, u32)) -> Result<Launches, OpError> {
    let checked = Checked::new(step, sizes)?;
    let problem = &checked.problem;
    if problem.rows() == 0 || problem.value_dim == 0 {
        return Ok(Launches::default());
    }
    let variant = Variant::choose(problem, capability);
    let text = Text::new(step, variant);
    let arguments = checked.arguments(step, variant);
    let launch = |source, grid, block_threads, shared_bytes| Launch {
        shared_bytes,
        ..Launch::new(source, grid, block_threads, arguments.clone())
    };
    let grid = variant.grid(problem)?;
    let mut first = launch(text.source(), grid, variant.threads(), variant.shared_bytes());
    if let Variant::Sm90 { .. } = variant {
        // Blocks take items in turn.
        first.waves = Some(1);
        first.pdl = true;
        first.maps = checked.maps(step);
    }
    let Variant::Mma(mma) = variant else { return Ok(Launches::one(first)) };
    if mma.parts == 1 {
        return Ok(Launches::one(first));
    }
    let combine = Grid::x(blocks_x(problem.rows().div_ceil(variant::COMBINE_ROWS))?);
    let launches = vec![first, launch(text.combine(), combine, variant.threads(), 0)];
    Ok(Launches { launches, workspace_bytes: mma.workspace_bytes(problem), ..Launches::default() })
}

/// A step whose views fit each other.
struct Checked {
    problem: Problem,
    /// The addresses of query, key, value, mask, lengths and output.
    addresses: [Address; 6],
}

impl Checked {
    fn new(step: &AttentionStep, sizes: &BufferSizes) -> Result<Self, OpError> {
        let shapes = [&step.query, &step.key, &step.value, &step.output].map(|view| &view.layout.shape[..]);
        let (&[batch, heads, queries, dim], &[_, kv_heads, keys, _], &[_, _, _, value_dim]) =
            (shapes[0], shapes[1], shapes[2])
        else {
            return Err(invalid("operands of four dimensions"));
        };
        let expected = [
            [batch, heads, queries, dim],
            [batch, kv_heads, keys, dim],
            [batch, kv_heads, keys, value_dim],
            [batch, heads, queries, value_dim],
        ];
        if shapes.iter().zip(&expected).any(|(is, expected)| is[..] != expected[..]) {
            return Err(invalid(&format!("shapes {expected:?}, not {shapes:?}")));
        }
        if kv_heads == 0 && heads > 0 || heads.checked_rem(kv_heads).is_some_and(|rest| rest != 0) {
            return Err(invalid("whole groups of heads"));
        }
        if queries.max(keys) > AttentionStep::MAX_ROWS {
            return Err(invalid(&format!("at most {} queries and keys", AttentionStep::MAX_ROWS)));
        }
        let dtype = step.query.dtype;
        let views = [&step.query, &step.key, &step.value, &step.output];
        if !dtype.is_float() || views.iter().any(|view| view.dtype != dtype) {
            return Err(invalid("one floating-point type"));
        }
        let has_rows = |view: &&View| view.layout.elements() == 0 || view.layout.strides.last() == Some(&1);
        if !views[..3].iter().all(has_rows) || !step.output.layout.is_contiguous() {
            return Err(invalid("contiguous rows"));
        }
        let is_mask = |mask: &View| {
            mask.layout.shape == [batch, heads, queries, keys] && [Dtype::Bool, Dtype::F32, dtype].contains(&mask.dtype)
        };
        if !step.mask.as_ref().is_none_or(is_mask) {
            return Err(invalid("a mask for each query and key"));
        }
        let is_length = |lengths: &View| {
            lengths.layout.shape == [batch] && lengths.layout.is_contiguous() && lengths.dtype == Dtype::I32
        };
        if !step.lengths.as_ref().is_none_or(is_length) {
            return Err(invalid("a length for each batch"));
        }
        let read = |view: &View| sizes.address(view);
        let optional = |view: &Option<View>| view.as_ref().map_or(Ok(Address::Null), read);
        let addresses = [
            read(&step.query)?,
            read(&step.key)?,
            read(&step.value)?,
            optional(&step.mask)?,
            optional(&step.lengths)?,
            sizes.address_mut(&step.output)?,
        ];
        let stride = views[..3].iter().map(|view| outer(&view.layout)[2].unsigned_abs()).max().unwrap_or(0);
        let strides = views[..3].iter().flat_map(|view| outer(&view.layout));
        let offsets = [0, 1, 2, 5].map(|nth| addresses[nth].offset() / dtype.size());
        let problem = Problem {
            dtype,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            dim,
            value_dim,
            is_causal: step.is_causal,
            has_lengths: step.lengths.is_some(),
            fits_maps: views[..3].iter().all(|view| fits_map(view)),
            stride,
            vector: variant::vector(strides, &offsets, [dim, value_dim]),
        };
        Ok(Self { problem, addresses })
    }

    /// The tensor maps of query, key and value.
    fn maps(&self, step: &AttentionStep) -> Vec<MapArgument> {
        let views = [&step.query, &step.key, &step.value];
        let map = |(view, address): (&View, &Address)| MapArgument { map: map(view), at: Pointer::View(*address) };
        views.into_iter().zip(&self.addresses).map(map).collect()
    }

    fn arguments(&self, step: &AttentionStep, variant: Variant) -> Vec<Argument> {
        let Problem { heads, kv_heads, queries, keys, dim, value_dim, .. } = self.problem;
        let (parts, part_keys) = variant.parts(keys);
        let signed = |extent: usize| extent.cast_signed() as i64;
        let rows = |view: &View| outer(&view.layout).map(|stride| stride as i64);
        let mask_strides = step.mask.as_ref().map_or([0; 4], |mask| {
            [0, 1, 2, 3].map(|dim| mask.layout.strides.get(dim).map_or(0, |stride| *stride as i64))
        });
        let attention = Attention {
            query: 0,
            key: 0,
            value: 0,
            mask: 0,
            lengths: 0,
            output: 0,
            heads: signed(heads),
            group: signed(heads / kv_heads),
            queries: signed(queries),
            keys: signed(keys),
            dim: signed(dim),
            value_dim: signed(value_dim),
            rows: signed(self.problem.rows()),
            parts: signed(parts),
            part_keys: signed(part_keys),
            query_strides: rows(&step.query),
            key_strides: rows(&step.key),
            value_strides: rows(&step.value),
            mask_strides,
            scale: f64::from_bits(step.scale_bits),
        };
        let mut arguments = Argument::structure(attention, &self.addresses);
        arguments.push(if parts > 1 { Argument::Workspace(0) } else { Argument::Word(0) });
        arguments
    }
}

/// The strides of batches, heads and rows; those of dimensions of extent 1 are 0.
fn outer(layout: &Layout) -> [isize; 3] {
    [0, 1, 2].map(|dim| if layout.shape[dim] > 1 { layout.strides[dim] } else { 0 })
}

/// Returns true if a tensor map describes a view of 16-bit elements.
fn fits_map(view: &View) -> bool {
    let shape = &view.layout.shape;
    let strides = &view.layout.strides;
    (0..3).all(|dim| shape[dim] == 1 || TensorMap::takes_stride(strides[dim]))
}

/// The tensor map of a view, in boxes of rows of a head.
fn map(view: &View) -> TensorMap {
    let shape = &view.layout.shape;
    let stride = |dim: usize| TensorMap::stride_bytes(shape[dim], view.layout.strides[dim]);
    TensorMap {
        extents: [3, 2, 1, 0].map(|dim| shape[dim] as u64).to_vec(),
        strides: [2, 1, 0].map(stride).to_vec(),
        boxes: TmaBox::Tile(vec![variant::SM90_BOX_COLUMNS, variant::SM90_BOX_ROWS, 1, 1]),
    }
}

fn invalid(expected: &str) -> OpError {
    OpError::Invalid(format!("attention: expected {expected}"))
}
