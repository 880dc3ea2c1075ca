//! The report of comparisons.

use accelerd_client::{
    Compared, OutputComparison,
    proto::{Differences, MismatchKind, OutputVerdict, Tolerance, tolerance::Rule},
};
use serde::Serialize;

use crate::{
    commands::small_output::SmallOutput,
    format::count,
    output::Report,
    renderer::{Renderer, Style, Table},
};

/// Comparisons of outputs.
#[derive(Serialize)]
pub struct Comparisons {
    passed: bool,
    outputs: Vec<OutputReport>,
}

/// The comparison of an output.
#[derive(Serialize)]
pub(super) struct OutputReport {
    pub(super) name: String,
    pub(super) verdict: &'static str,
    pub(super) actual_shape: Vec<i64>,
    pub(super) expected_shape: Vec<i64>,
    pub(super) actual_dtype: String,
    pub(super) expected_dtype: String,
    pub(super) tolerances: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) differences: Option<DifferencesReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) small_output: Option<SmallOutput>,
}

#[derive(Serialize)]
pub(super) struct DifferencesReport {
    pub(super) elements: u64,
    pub(super) failed: u64,
    pub(super) equal: u64,
    pub(super) zero_sign: u64,
    pub(super) within_tolerance: u64,
    pub(super) nan_equal: u64,
    pub(super) max_absolute: Option<LargestReport<f64>>,
    pub(super) max_relative: Option<LargestReport<f64>>,
    pub(super) max_ulps: Option<LargestReport<u64>>,
    pub(super) ulp_histogram: Vec<u64>,
    pub(super) sufficient_atol: f64,
    pub(super) sufficient_rtol: f64,
    pub(super) mismatches: Vec<MismatchReport>,
}

#[derive(Serialize)]
pub(super) struct LargestReport<T> {
    pub(super) value: T,
    pub(super) index: Vec<u64>,
}

#[derive(Serialize)]
pub(super) struct MismatchReport {
    pub(super) index: Vec<u64>,
    pub(super) kind: &'static str,
    pub(super) actual: f64,
    pub(super) expected: f64,
    pub(super) actual_bits: String,
    pub(super) expected_bits: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ulps: Option<u64>,
}

impl Comparisons {
    pub fn of(compared: &Compared) -> Self {
        Self { passed: compared.passed, outputs: compared.outputs.iter().map(OutputReport::of).collect() }
    }
}

impl OutputReport {
    pub(super) fn of(output: &OutputComparison) -> Self {
        let dtype = |name: &str| name.trim_start_matches("DTYPE_").to_ascii_lowercase();
        Self {
            name: output.name.clone(),
            verdict: match output.verdict() {
                OutputVerdict::Passed => "passed",
                OutputVerdict::Mismatch => "mismatch",
                OutputVerdict::ShapeMismatch => "shape mismatch",
                OutputVerdict::DtypeMismatch => "dtype mismatch",
                OutputVerdict::Unspecified => "unknown",
            },
            actual_shape: output.actual_shape.clone(),
            expected_shape: output.expected_shape.clone(),
            actual_dtype: dtype(output.actual_dtype().as_str_name()),
            expected_dtype: dtype(output.expected_dtype().as_str_name()),
            tolerances: output.tolerances.iter().filter_map(tolerance).collect(),
            differences: output
                .differences
                .as_ref()
                .map(|differences| DifferencesReport::of(differences, &output.expected_shape)),
            small_output: output.small_output.clone().map(SmallOutput::from),
        }
    }
}

impl DifferencesReport {
    fn of(differences: &Differences, shape: &[i64]) -> Self {
        let counts = differences.counts.unwrap_or_default();
        let sufficient = differences.sufficient.unwrap_or_default();
        let error = |largest: accelerd_client::proto::LargestError| LargestReport {
            value: largest.value,
            index: place(largest.index, shape),
        };
        Self {
            elements: differences.element_count,
            failed: differences.failed_count,
            equal: counts.equal_count,
            zero_sign: counts.zero_sign_count,
            within_tolerance: counts.within_tolerance_count,
            nan_equal: counts.nan_equal_count,
            max_absolute: differences.max_absolute.map(error),
            max_relative: differences.max_relative.map(error),
            max_ulps: differences
                .max_ulps
                .map(|limit| LargestReport { value: limit.value, index: place(limit.index, shape) }),
            ulp_histogram: differences.ulp_histogram.clone(),
            sufficient_atol: sufficient.atol,
            sufficient_rtol: sufficient.rtol,
            mismatches: differences.mismatches.iter().map(|mismatch| MismatchReport::of(mismatch, shape)).collect(),
        }
    }
}

impl MismatchReport {
    fn of(mismatch: &accelerd_client::proto::Mismatch, shape: &[i64]) -> Self {
        Self {
            index: place(mismatch.index, shape),
            kind: match mismatch.kind() {
                MismatchKind::Tolerance => "tolerance",
                MismatchKind::Nan => "nan",
                MismatchKind::Infinity => "infinity",
                MismatchKind::ZeroSign => "sign of zero",
                MismatchKind::Unspecified => "unknown",
            },
            actual: mismatch.actual,
            expected: mismatch.expected,
            actual_bits: format!("{:#x}", mismatch.actual_bits),
            expected_bits: format!("{:#x}", mismatch.expected_bits),
            ulps: mismatch.errors.map(|errors| errors.ulps),
        }
    }
}

impl Report for Comparisons {
    fn render(&self, renderer: &mut Renderer) {
        for output in &self.outputs {
            output.render(renderer);
        }
    }
}

impl OutputReport {
    pub(super) fn render(&self, renderer: &mut Renderer) {
        let style = if self.verdict == "passed" { Style::Good } else { Style::Bad };
        let verdict = renderer.style(style, self.verdict);
        renderer.line(format!("{verdict}: {}{:?}", self.expected_dtype, self.expected_shape));
        if let Some(small) = &self.small_output {
            renderer.line(small.line());
        }
        match &self.differences {
            Some(differences) => differences.render(renderer, &self.tolerances.join(" or ")),
            None => renderer.facts([
                ("actual", format!("{}{:?}", self.actual_dtype, self.actual_shape)),
                ("expected", format!("{}{:?}", self.expected_dtype, self.expected_shape)),
            ]),
        }
    }
}

/// Figures of documents.
impl OutputReport {
    /// Failed pairs, and the largest absolute error, relative error and distance.
    pub(super) fn largest(&self) -> [String; 4] {
        let Some(differences) = &self.differences else { return ["-"; 4].map(str::to_owned) };
        let error = |largest: &Option<LargestReport<f64>>| {
            largest.as_ref().map_or("0".to_owned(), |largest| format!("{:e}", largest.value))
        };
        [
            count(differences.failed),
            error(&differences.max_absolute),
            error(&differences.max_relative),
            count(differences.max_ulps.as_ref().map_or(0, |largest| largest.value)),
        ]
    }

    /// Distances in units in the last place, with the number of pairs.
    pub(super) fn histogram(&self) -> Vec<(String, u64)> {
        let buckets = self.differences.iter().flat_map(|differences| &differences.ulp_histogram);
        buckets.zip(0..).map(|(pairs, nth)| (bucket(nth), *pairs)).collect()
    }

    /// Index, actual and expected element with their bits, and distance of the first pairs that fail.
    pub(super) fn mismatches(&self) -> Vec<[String; 4]> {
        let mismatches = self.differences.iter().flat_map(|differences| &differences.mismatches);
        let row = |mismatch: &MismatchReport| {
            [
                format!("{:?}", mismatch.index),
                format!("{} ({})", mismatch.actual, mismatch.actual_bits),
                format!("{} ({})", mismatch.expected, mismatch.expected_bits),
                mismatch.ulps.map_or(mismatch.kind.to_owned(), count),
            ]
        };
        mismatches.map(row).collect()
    }
}

/// The distances of a bucket of the histogram.
fn bucket(nth: u32) -> String {
    let power = |exponent| 1_u64.checked_shl(exponent).unwrap_or(0);
    match nth {
        0 => "0".to_owned(),
        1 => "1".to_owned(),
        _ => format!("{} to {}", count(power(nth - 1)), count(power(nth).wrapping_sub(1))),
    }
}

impl DifferencesReport {
    fn render(&self, renderer: &mut Renderer, tolerances: &str) {
        let percent = 100.0 * self.failed as f64 / self.elements.max(1) as f64;
        let mut facts = vec![
            ("elements", count(self.elements)),
            ("equal", count(self.equal + self.zero_sign + self.nan_equal)),
            ("within tolerance", format!("{} ({tolerances})", count(self.within_tolerance))),
            ("mismatched", format!("{} ({percent:.1}%)", count(self.failed))),
        ];
        if let (Some(absolute), Some(relative), Some(ulps)) = (&self.max_absolute, &self.max_relative, &self.max_ulps) {
            facts.extend([
                ("largest absolute", format!("{:e} at {:?}", absolute.value, absolute.index)),
                ("largest relative", format!("{:e} at {:?}", relative.value, relative.index)),
                ("largest ULP", format!("{} at {:?}", count(ulps.value), ulps.index)),
                ("would pass", format!("--atol {:e} or --rtol {:e}", self.sufficient_atol, self.sufficient_rtol)),
            ]);
        }
        renderer.facts(facts);
        let mut table = Table::new(["<index", "actual", "expected", "?ULP", "bits", "expected", "?<reason"]);
        for mismatch in &self.mismatches {
            table.row([
                format!("{:?}", mismatch.index),
                mismatch.actual.to_string(),
                mismatch.expected.to_string(),
                mismatch.ulps.map_or("-".to_owned(), count),
                mismatch.actual_bits.clone(),
                mismatch.expected_bits.clone(),
                if mismatch.kind == "tolerance" { String::new() } else { mismatch.kind.to_owned() },
            ]);
        }
        renderer.table(&table);
    }
}

fn tolerance(tolerance: &Tolerance) -> Option<String> {
    Some(match tolerance.rule.as_ref()? {
        Rule::Exact(_) => "exact".to_owned(),
        Rule::Close(close) => format!("atol {:e} + rtol {:e}", close.atol(), close.rtol()),
        Rule::Ulp(ulp) => format!("{} ULP", ulp.max_distance),
        Rule::MaxNorm(norm) => format!("{:e} of the maximum norm", norm.rtol),
    })
}

/// The indices of an element along each dimension.
fn place(mut index: u64, shape: &[i64]) -> Vec<u64> {
    let mut place: Vec<u64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let extent = u64::try_from(*extent).unwrap_or(1).max(1);
            let position = index % extent;
            index /= extent;
            position
        })
        .collect();
    place.reverse();
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two_up_to_all_bits() {
        assert_eq!([0, 1, 2, 3].map(bucket), ["0", "1", "2 to 3", "4 to 7"]);
        assert!(bucket(64).ends_with("to 18,446,744,073,709,551,615"));
    }

    #[test]
    fn an_index_has_a_place_along_each_dimension() {
        assert_eq!(place(0, &[]), [] as [u64; 0]);
        assert_eq!(place(17, &[2, 3, 4]), [1, 1, 1]);
        assert_eq!(place(23, &[2, 3, 4]), [1, 2, 3]);
    }
}
