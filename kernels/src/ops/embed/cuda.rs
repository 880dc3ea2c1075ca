//! Static embeddings on a GPU: one upload, one launch and one download per batch.

use std::sync::Arc;

use super::{EmbedRequest, Table};
use crate::{
    OpError,
    cuda::{Args, Buffer, COMMON, Grid, Kernel, Module, Worker, cu, launch_structs},
};

const PARAMS: &[usize] = &[8, 8, 8, 8, 8, 8, 4];
const POOL: Kernel = Kernel { name: "embed_pool_i8", params: PARAMS };
const POOL_X4: Kernel = Kernel { name: "embed_pool_i8x4", params: PARAMS };

launch_structs! {
    header LAUNCH = "launch/embed.cuh";

    const EMBED_THREADS: u32 = 64;
    /// A flag of a sequence: its vector is normalised.
    const NORMALIZE: u32 = 1;
}

/// Words of a sequence in the upload: the offset of its vector (u64) and four words of description.
const TEXT_WORDS: usize = 6;

pub(crate) static MODULES: &[&Module] = &[&MODULE];

static MODULE: Module = Module {
    name: "embed",
    source: cu!("pool/embedding_bag.cu"),
    headers: &[COMMON, LAUNCH],
    defines: &[],
    kernels: &[POOL, POOL_X4],
};

#[derive(Debug)]
struct Resident {
    values: Buffer<i8>,
    scales: Buffer<f32>,
}

impl Resident {
    fn new(table: &Table, worker: &Worker) -> Result<Self, OpError> {
        let resident = Self { values: worker.upload_new(&table.values)?, scales: worker.upload_new(&table.scales)? };
        worker.synchronize()?;
        Ok(resident)
    }
}

/// Pools all sequences of a checked batch whose requests share one table.
pub(super) fn run(batch: &[&EmbedRequest], worker: &Worker) -> Result<Vec<Vec<f32>>, OpError> {
    let Some(first) = batch.first() else { return Ok(vec![]) };
    let layout = Layout::new(batch).ok_or_else(|| OpError::Invalid("a batch of more than 2^32 tokens".to_owned()))?;
    if layout.numbers == 0 {
        return Ok(batch.iter().map(|_| vec![]).collect());
    }
    let table = &first.table;
    let resident = worker.device().device_cache().get_or_create(table.id, table, || Resident::new(table, worker))?;
    let vectors = pool(&layout, batch, table, &resident, worker)?;
    let mut end = 0;
    let answers = batch.iter().map(|request| {
        let count = request.sequence_count() * request.dimensions;
        end += count;
        vectors[end - count..end].to_vec()
    });
    Ok(answers.collect())
}

fn pool(
    layout: &Layout,
    batch: &[&EmbedRequest],
    table: &Arc<Table>,
    resident: &Resident,
    worker: &Worker,
) -> Result<Vec<f32>, OpError> {
    let input = worker.alloc::<u32>(layout.words.len() + layout.tokens)?;
    let parts = std::iter::once(&layout.words[..]).chain(batch.iter().map(|request| &request.ids[..]));
    worker.upload_parts(parts, &input, 0)?;
    let out = worker.alloc::<f32>(layout.numbers)?;
    let dim = u32::try_from(table.dim).map_err(|_| OpError::Invalid(format!("a table of {} columns", table.dim)))?;
    let mut args = Args::new()
        .ptr(resident.values.ptr())
        .ptr(resident.scales.ptr())
        .ptr(input.ptr_at(layout.words.len()))
        .ptr(input.ptr_at(2 * layout.texts as usize))
        .ptr(input.ptr())
        .ptr(out.ptr())
        .u32(dim);
    let kernel = if dim.is_multiple_of(4) { POOL_X4 } else { POOL };
    worker.launch(&kernel, Grid::x(layout.texts), EMBED_THREADS, 0, &mut args)?;
    worker.download(&out, ..)
}

/// The upload before the ids: the offset of each vector (u64), then a description of each sequence.
struct Layout {
    words: Vec<u32>,
    texts: u32,
    tokens: usize,
    numbers: usize,
}

impl Layout {
    /// `None` if tokens or sequences exceed 32 bits.
    fn new(batch: &[&EmbedRequest]) -> Option<Self> {
        let texts: usize = batch.iter().map(|request| request.sequence_count()).sum();
        let tokens: usize = batch.iter().map(|request| request.ids.len()).sum();
        u32::try_from(tokens).ok()?;
        let texts_u32 = i32::try_from(texts).ok()?.unsigned_abs();
        let mut words = vec![0; TEXT_WORDS * texts];
        let (starts, described) = words.split_at_mut(2 * texts);
        let mut places = starts.chunks_exact_mut(2).zip(described.chunks_exact_mut(4));
        let mut token = 0_u32;
        let mut number = 0_u64;
        for request in batch {
            let flags = if request.normalize { NORMALIZE } else { 0 };
            for ends in request.offsets.windows(2) {
                let (start, text) = places.next()?;
                start.copy_from_slice(bytemuck::cast_slice(&[number]));
                text.copy_from_slice(&[
                    token + ends[0],
                    token + ends[1],
                    u32::try_from(request.dimensions).ok()?,
                    flags,
                ]);
                number += request.dimensions as u64;
            }
            token += u32::try_from(request.ids.len()).ok()?;
        }
        Some(Self { words, texts: texts_u32, tokens, numbers: usize::try_from(number).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(table: &Arc<Table>, lengths: &[u32], dimensions: usize, normalize: bool) -> EmbedRequest {
        let mut offsets = vec![0];
        offsets.extend(lengths.iter().scan(0, |index, length| {
            *index += length;
            Some(*index)
        }));
        let ids = vec![0; lengths.iter().sum::<u32>() as usize];
        EmbedRequest { table: Arc::clone(table), ids, offsets, dimensions, normalize }
    }

    #[test]
    fn sequences_of_several_requests_are_packed() {
        let table = Arc::new(Table { id: 1, dim: 8, values: vec![0; 8], scales: vec![1.0] });
        let one = request(&table, &[3, 0], 8, true);
        let none = request(&table, &[], 8, true);
        let two = request(&table, &[2], 5, false);
        let layout = Layout::new(&[&one, &none, &two]).expect("small");
        assert_eq!((layout.texts, layout.tokens, layout.numbers), (3, 5, 21));
        assert_eq!(layout.words[..6], [0, 0, 8, 0, 16, 0], "starts");
        assert_eq!(layout.words[6..], [0, 3, 8, 1, 3, 3, 8, 1, 3, 5, 5, 0], "texts");
    }
}
