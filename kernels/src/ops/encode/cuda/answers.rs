//! Where the rows of an answer lie in a GPU's memory, and what each of them is.

use super::{
    kernels::{Answer, Format, POOL, Pool},
    primitives::by_width,
    states::States,
    weights::fit,
};
use crate::{
    OpError,
    cuda::{Args, Buffer, Grid, Worker},
    ops::encode::{Output, Pooled, Reduce, Row},
};

/// The rows of an answer on the device: what they are, then their scales and bytes.
pub(super) struct Answers {
    rows: Buffer<Answer>,
    out: Buffer<u8>,
    scale_bytes: usize,
}

impl Answers {
    /// Uploads what the rows are.
    pub(super) fn new(worker: &Worker, rows: &[Row]) -> Result<Self, OpError> {
        let Layout { answers, scale_bytes, bytes } = Layout::new(rows)?;
        Ok(Self { rows: worker.upload_new(&answers)?, out: worker.alloc(scale_bytes + bytes)?, scale_bytes })
    }

    /// Reduces states to them, and waits for all of them.
    pub(super) fn pooled(&self, worker: &Worker, format: Format, states: &States) -> Result<Pooled, OpError> {
        if !self.rows.is_empty() {
            let kernel = &POOL[format as usize][by_width(format, states.steps)?];
            let shared_bytes = states.steps * fit(format.columns())? * 16;
            let grid = Grid::x(fit(self.rows.len())?);
            worker.launch_early(kernel, grid, 128, shared_bytes, &mut Args::new().value(self.of(states)))?;
        }
        self.download(worker)
    }

    /// What reduces states to them.
    fn of(&self, states: &States) -> Pool {
        Pool {
            states: states.address(),
            answers: self.rows.ptr().address(),
            out: self.out.ptr_at(self.scale_bytes).address(),
            scales: self.out.ptr().address(),
            steps: states.steps,
            unused: 0,
        }
    }

    /// Waits for all of them.
    fn download(&self, worker: &Worker) -> Result<Pooled, OpError> {
        let bytes = worker.download(&self.out, self.scale_bytes..)?;
        let scales = worker.download(&self.out, ..self.scale_bytes)?;
        Ok(Pooled { bytes, scales: bytemuck::pod_collect_to_vec(&scales) })
    }
}

/// Where the rows of an answer go: scales first, then the rows without gaps.
struct Layout {
    answers: Vec<Answer>,
    scale_bytes: usize,
    bytes: usize,
}

impl Layout {
    fn new(rows: &[Row]) -> Result<Self, OpError> {
        let mut layout = Self { answers: Vec::with_capacity(rows.len()), scale_bytes: 0, bytes: 0 };
        for row in rows {
            layout.answers.push(Answer {
                from: row.from,
                to: row.to,
                dimensions: row.dimensions,
                scale: fit(layout.scale_bytes / 4)?,
                start: layout.bytes as u64,
                reduce: match row.reduce {
                    Reduce::Mean => 0,
                    Reduce::WeightedMean => 1,
                    Reduce::Max => 2,
                },
                output: match row.output {
                    Output::F32 => 0,
                    Output::F16 => 1,
                    Output::Bf16 => 2,
                    Output::Int8 => 3,
                    Output::Binary => 4,
                },
                normalize: row.normalize.into(),
                unused: 0,
            });
            layout.bytes += row.bytes();
            layout.scale_bytes += if row.output == Output::Int8 { 4 } else { 0 };
        }
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_lie_one_after_the_other_behind_their_scales() {
        let row = |output, dimensions| Row { from: 1, to: 2, reduce: Reduce::Max, dimensions, normalize: true, output };
        let rows = [row(Output::Binary, 9), row(Output::Int8, 3), row(Output::F32, 2), row(Output::Int8, 1)];
        let layout = Layout::new(&rows).expect("few");
        assert_eq!((layout.scale_bytes, layout.bytes), (8, 2 + 3 + 8 + 1));
        let places: Vec<_> = layout.answers.iter().map(|answer| (answer.start, answer.scale)).collect();
        assert_eq!(places, [(0, 0), (2, 0), (5, 1), (13, 1)]);
    }
}
