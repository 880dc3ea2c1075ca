//! The upload of a request's rows.

use std::borrow::Cow;

use crate::{
    Matrix, OpError,
    cuda::{Buffer, Worker},
    ops::{cluster::request::Rows, similarity::View},
};

/// The rows of a request on the host.
pub(super) enum Input<'a> {
    Inline(&'a Matrix),
    Corpus(View),
}

impl<'a> Input<'a> {
    pub(super) fn of(rows: &'a Rows) -> Self {
        match rows {
            Rows::Inline(matrix) => Self::Inline(matrix),
            Rows::Corpus(corpus) => Self::Corpus(corpus.view()),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Inline(matrix) => matrix.rows(),
            Self::Corpus(view) => view.len() - view.deleted_count(),
        }
    }

    pub(super) fn dim(&self) -> usize {
        match self {
            Self::Inline(matrix) => matrix.cols(),
            Self::Corpus(view) => view.dim(),
        }
    }

    /// Uploads the live rows, contiguously.
    pub(super) fn upload(&self, worker: &Worker) -> Result<Buffer<f32>, OpError> {
        let buffer = worker.alloc(self.count() * self.dim())?;
        match self {
            Self::Inline(matrix) => {
                let numbers: Cow<'_, [f32]> = matrix.as_f32();
                worker.upload(&numbers, &buffer, 0)?;
            }
            Self::Corpus(view) => {
                worker.upload_parts(live(view), &buffer, 0)?;
            }
        }
        Ok(buffer)
    }
}

/// The maximal ranges of consecutive live rows.
fn live(view: &View) -> impl Iterator<Item = &[f32]> {
    let deleted = view.deleted_bits().unwrap_or_default();
    let is_deleted = |row: usize| deleted.get(row / 32).is_some_and(|word| word >> (row % 32) & 1 == 1);
    let dim = view.dim();
    view.chunks().flat_map(move |(first, rows)| {
        let mut index = 0;
        let count = rows.len() / dim;
        std::iter::from_fn(move || {
            index += (index..count).take_while(|row| is_deleted(first + row)).count();
            let many = (index..count).take_while(|row| !is_deleted(first + row)).count();
            let piece = &rows[index * dim..(index + many) * dim];
            index += many;
            (many > 0).then_some(piece)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DeviceId,
        ops::similarity::{Corpus, Metric, Storage},
    };

    #[test]
    fn live_rows_are_uploaded_in_order_without_deleted_ones() {
        let corpus = Corpus::new(2, Metric::Dot, Storage::F32, DeviceId::Cpu);
        let numbers = (0..20).map(|x| x as f32).collect();
        corpus.append(&Matrix::from_vec(10, 2, numbers).expect("10 rows"));
        corpus.delete(&[0, 3, 4, 9]);
        let view = corpus.view();
        let pieces: Vec<&[f32]> = live(&view).collect();
        assert_eq!(pieces, [&[2.0, 3.0, 4.0, 5.0][..], &[10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0]]);
        assert_eq!(Input::of(&Rows::Corpus(corpus)).count(), 6);
    }
}
