//! Downloads ranges of device memory into one pinned block.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use crate::{
    OpError,
    cuda::{Buffer, DownloadPlan, HostBuffer, Layout, Region, StreamKind, Worker},
};

/// Copies ranges of buffers after all work enqueued so far, and waits for them. The block lives as long as any of the returned slices.
pub(in super::super) fn download(
    parts: &[(&Buffer<u8>, Range<usize>)],
    worker: &Worker,
) -> Result<Vec<Bytes>, OpError> {
    let mut layout = Layout::default();
    let mut plan = DownloadPlan::default();
    let regions: Vec<Region<u8>> = parts.iter().map(|(_, range)| layout.add(range.len())).collect();
    for ((buffer, range), region) in parts.iter().zip(&regions) {
        plan.add(buffer, range.start, *region);
    }
    let mut pending = worker.pending_download(&layout)?;
    worker.download_async(&plan, &mut pending, StreamKind::Compute)?;
    let block = Arc::new(pending.wait()?);
    let slice = |region| Bytes::from_owner(Downloaded { block: Arc::clone(&block), region });
    Ok(regions.into_iter().map(slice).collect())
}

/// A slice of the block.
struct Downloaded {
    block: Arc<HostBuffer>,
    region: Region<u8>,
}

impl AsRef<[u8]> for Downloaded {
    fn as_ref(&self) -> &[u8] {
        self.block.get(self.region)
    }
}
