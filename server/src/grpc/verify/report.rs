//! Results of comparisons and verifications as messages.

use std::collections::BTreeMap;

use accelerd_kernels::ops::compare::{Class, Comparison, Mismatch, PairErrors};
use accelerd_proto::v1::{self as pb, verify_response::Part};
use accelerd_tensor::{Dtype, scalar::Literal};

use super::policy::tolerances;
use crate::{
    grpc::{
        dtype::dtype_to_proto,
        small_output::small_output,
        tensor_value::{extents, value},
    },
    verification::{
        Named,
        counterexamples::{CaseResult, Counterexample},
        outcome::OutcomeCounts,
        outputs::OutputVerdict,
        pipeline::Answer,
        report::OutputReport,
        totals::{CaseVerdicts, FunctionSummary, Summary},
    },
};

/// The report of an output.
pub(super) fn comparison(report: OutputReport) -> pb::OutputComparison {
    let OutputReport { name, verdict, actual, expected, rules, compared, small } = report;
    let verdict = match verdict {
        OutputVerdict::Passed => pb::OutputVerdict::Passed,
        OutputVerdict::Mismatch => pb::OutputVerdict::Mismatch,
        OutputVerdict::ShapeMismatch => pb::OutputVerdict::ShapeMismatch,
        OutputVerdict::DtypeMismatch => pb::OutputVerdict::DtypeMismatch,
    };
    pb::OutputComparison {
        name,
        verdict: verdict.into(),
        actual_dtype: dtype_to_proto(actual.dtype).into(),
        expected_dtype: dtype_to_proto(expected.dtype).into(),
        actual_shape: extents(&actual),
        expected_shape: extents(&expected),
        tolerances: tolerances(&rules),
        differences: compared.map(|(elements, compared)| differences(expected.dtype, elements, compared)),
        small_output: small.as_ref().map(small_output),
    }
}

/// The message of an answer.
pub(super) fn response(answer: Answer) -> pb::VerifyResponse {
    let part = match answer {
        Answer::Cases(verdicts) => Part::Cases(case_verdicts(verdicts)),
        Answer::Summary(summary) => Part::Summary(verify_summary(summary)),
    };
    pb::VerifyResponse { part: Some(part) }
}

fn case_verdicts(verdicts: CaseVerdicts) -> pb::CaseVerdicts {
    let CaseVerdicts { first_case, case_count, failed_count, failed_cases } = verdicts;
    pb::CaseVerdicts { first_case, case_count, failed_count, failed_cases: failed_cases.into() }
}

fn verify_summary(summary: Summary) -> pb::VerifySummary {
    let Summary { passed, case_count, failed_count, outputs, functions } = summary;
    pb::VerifySummary {
        passed,
        case_count,
        failed_count,
        outputs: outputs.into_iter().map(comparison).collect(),
        functions: functions.map(function_summary),
    }
}

fn function_summary(summary: FunctionSummary) -> pb::FunctionSummary {
    let FunctionSummary { outcome_mismatches, nondeterministic, gpu_decided, .. } = summary;
    pb::FunctionSummary {
        subject_outcomes: outcome_counts(&summary.subject_outcomes),
        reference_outcomes: outcome_counts(&summary.reference_outcomes),
        outcome_mismatch_count: outcome_mismatches,
        nondeterministic_count: nondeterministic,
        counterexamples: summary.counterexamples.into_iter().map(counterexample).collect(),
        subject_hash: summary.subject_hash.into(),
        reference_hash: summary.reference_hash.into(),
        gpu_decided_count: gpu_decided,
    }
}

fn outcome_counts(OutcomeCounts(counts): &OutcomeCounts) -> BTreeMap<String, u64> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn counterexample(of: Counterexample) -> pb::Counterexample {
    let Counterexample { case_index, found, shrunk, expected_outcome } = of;
    let expected_outcome = expected_outcome.map_or_else(String::new, |outcome| outcome.name().to_owned());
    pb::Counterexample {
        case_index,
        found: Some(case_result(found)),
        shrunk: shrunk.map(case_result),
        expected_outcome,
    }
}

fn case_result(result: CaseResult) -> pb::CaseResult {
    let named = |(name, of, data): Named| pb::NamedTensor { name, value: Some(value(&of, data)) };
    let all = |tensors: Vec<Named>| tensors.into_iter().map(named).collect();
    pb::CaseResult {
        inputs: all(result.inputs),
        actual: all(result.actual),
        expected: all(result.expected),
        subject_outcome: result.subject_outcome.to_owned(),
        reference_outcome: result.reference_outcome.to_owned(),
    }
}

/// Returns the differences between `elements` pairs.
fn differences(dtype: Dtype, elements: u64, compared: Comparison) -> pb::Differences {
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
