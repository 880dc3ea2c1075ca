//! Results of comparisons as messages.

use accelerd_kernels::ops::compare::{BUCKETS, Class, Comparison, Mismatch, PairErrors};
use accelerd_proto::v1 as pb;
use accelerd_tensor::{Dtype, scalar::Literal};

/// The most bytes of an [`Differences`](pb::Differences) without mismatches and rows.
pub(super) const DIFFERENCES_BYTES: usize = 10 * BUCKETS + 400;

/// The most bytes of a mismatch.
pub(super) const MISMATCH_BYTES: usize = 96;

/// What differs between `elements` pairs.
pub(super) fn differences(dtype: Dtype, elements: u64, compared: Comparison) -> pb::Differences {
    let counts = compared.counts;
    let sufficient = pb::SufficientTolerances {
        atol: compared.excess,
        rtol: compared.min_rtol(),
        max_ulps: compared.max_ulps.map_or(0, |largest| largest.value),
        max_norm_rtol: compared.min_max_norm(),
    };
    let buckets = compared.histogram.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    pb::Differences {
        element_count: elements,
        failed_count: compared.failed,
        counts: Some(pb::PairCounts {
            equal_count: counts.equal,
            zero_sign_count: counts.zero_sign,
            within_tolerance_count: counts.within_tolerance,
            mismatch_count: counts.mismatch,
            nan_equal_count: counts.nan_equal,
            nan_mismatch_count: counts.nan_mismatch,
            infinity_mismatch_count: counts.infinity_mismatch,
        }),
        max_absolute: compared.max_absolute.map(|most| pb::LargestError { value: most.value, index: most.index }),
        max_relative: compared.max_relative.map(|most| pb::LargestError { value: most.value, index: most.index }),
        max_ulps: compared.max_ulps.map(|most| pb::LargestDistance { value: most.value, index: most.index }),
        ulp_histogram: compared.histogram[..buckets].to_vec(),
        max_norm: compared.norm,
        sufficient: Some(sufficient),
        mismatches: compared.mismatches.iter().map(|one| mismatch(dtype, one)).collect(),
        failed_rows: compared.failed_rows.into(),
    }
}

fn mismatch(dtype: Dtype, mismatch: &Mismatch) -> pb::Mismatch {
    let kind = match mismatch.class {
        Class::NanMismatch => pb::MismatchKind::Nan,
        Class::InfinityMismatch => pb::MismatchKind::Infinity,
        Class::ZeroSign => pb::MismatchKind::ZeroSign,
        Class::Mismatch | Class::Equal | Class::WithinTolerance | Class::NanEqual => pb::MismatchKind::Tolerance,
    };
    let number = |bits| Literal::from_bits(dtype, bits).as_f64();
    let errors = |PairErrors { absolute, relative, ulps }| pb::PairErrors { absolute, relative, ulps };
    pb::Mismatch {
        index: mismatch.index,
        kind: kind.into(),
        actual: number(mismatch.actual),
        expected: number(mismatch.expected),
        actual_bits: mismatch.actual,
        expected_bits: mismatch.expected,
        errors: mismatch.errors.map(errors),
    }
}
