//! Takes the vectors of chunks whose text the collection has, so that only changed functions are embedded.

use std::collections::HashMap;

use accelerd_client::{Collection, StoredPoints, Value};
use futures::{StreamExt, TryStreamExt, stream};

use super::read::{Piece, Prepared, TEXT_HASH};
use crate::error::{CliError, Result};

/// Points per call.
const CALL_POINTS: usize = 512;
/// Maximum calls in flight.
const IN_FLIGHT: usize = 4;

/// Sets the vectors of pieces whose text is stored under the id of any of the pieces. Returns their number.
pub async fn reuse_vectors(collection: &Collection, files: &mut [(Vec<Piece>, Prepared)]) -> Result<u64> {
    let ids: Vec<_> = files.iter().flat_map(|(pieces, _)| pieces.iter().map(|piece| piece.id.clone())).collect();
    let calls = ids.chunks(CALL_POINTS).map(|ids| collection.get_points(ids.to_vec(), true));
    let stored: Vec<_> = stream::iter(calls).buffer_unordered(IN_FLIGHT).try_collect().await.map_err(CliError::from)?;
    let vectors: HashMap<&str, &[f32]> = stored.iter().flat_map(vectors).collect();
    let mut reused = 0;
    for piece in files.iter_mut().flat_map(|(pieces, _)| pieces) {
        piece.vector = vectors.get(piece.text_hash.as_str()).map(|vector| vector.to_vec());
        reused += u64::from(piece.vector.is_some());
    }
    Ok(reused)
}

/// Vectors by the hash of their text. Points of earlier versions have none.
fn vectors(points: &StoredPoints) -> impl Iterator<Item = (&str, &[f32])> {
    let vectors = points.vectors.iter().flat_map(accelerd_client::Matrix::iter);
    points
        .payloads
        .iter()
        .zip(vectors)
        .filter_map(|(payload, vector)| payload.get(TEXT_HASH).and_then(Value::as_str).map(|hash| (hash, vector)))
}
