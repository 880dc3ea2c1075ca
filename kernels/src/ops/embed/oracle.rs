//! Pooling in plain f64 loops, and how far a backend may be from it.

use super::EmbedRequest;

/// Half the distance from 1 to the next f32.
const UNIT: f64 = f32::EPSILON as f64 / 2.0;

/// The expected response of [`super::Embed`], and the bound on the error of each number.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// f64 [texts, dimensions].
    pub vectors: Vec<f64>,
    /// f64 [texts, dimensions]: the largest absolute error allowed.
    ///
    /// The bound on the error of a mean of `n` tokens: `(n + 1) u / (1 - (n + 1) u)` times the mean of the absolute values, with
    /// `u = 2^-24`: one rounding of the product, `n - 1` of the sum, one of the quotient. (Higham, Accuracy and
    /// Stability of Numerical Algorithms, section 3.1.) Normalised: twice the error's length over the vector's, at
    /// most the diameter of the unit sphere, and one more rounding.
    pub bounds: Vec<f64>,
}

/// Pools a checked request.
pub fn embed(request: &EmbedRequest) -> Expected {
    let mut expected = Expected { vectors: vec![], bounds: vec![] };
    for text in request.offsets.windows(2) {
        let ids = &request.ids[text[0] as usize..text[1] as usize];
        let (mut vector, mut bounds) = mean(request, ids);
        if request.normalize {
            normalize(&mut vector, &mut bounds);
        }
        expected.vectors.append(&mut vector);
        expected.bounds.append(&mut bounds);
    }
    expected
}

fn mean(request: &EmbedRequest, ids: &[u32]) -> (Vec<f64>, Vec<f64>) {
    let rows = || ids.iter().map(|&id| id as usize);
    let table = &request.table;
    let term = |row: usize, d: usize| f64::from(table.scales[row]) * f64::from(table.values[row * table.dim + d]);
    let count = (ids.len() as f64).max(1.0);
    let roundings = (count + 1.0) * UNIT;
    let growth = roundings / (1.0 - roundings);
    (0..request.dimensions)
        .map(|d| {
            let sum: f64 = rows().map(|row| term(row, d)).sum();
            let magnitude: f64 = rows().map(|row| term(row, d).abs()).sum();
            (sum / count, growth * magnitude / count)
        })
        .unzip()
}

fn normalize(vector: &mut [f64], bounds: &mut [f64]) {
    let length = norm(vector);
    let error = norm(bounds);
    if length > 0.0 {
        for x in vector {
            *x /= length;
        }
        bounds.fill((2.0 * error / length).min(2.0) + 2.0 * UNIT);
    } else if error > 0.0 {
        // Terms that cancel exactly may leave a rounding error, which is then scaled to unit length.
        bounds.fill(1.0 + 2.0 * UNIT);
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}
