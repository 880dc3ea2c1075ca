//! Totals of the chunks of a verification.

use accelerd_kernels::ops::compare::Comparison;
use accelerd_tensor::TensorType;

use super::{
    counterexamples::{Counterexample, Found},
    evaluate::Evaluated,
    header::Header,
    outcome::{CaseOutcome, OutcomeCounts},
    outputs::{Output, OutputVerdict},
    report::{OutputReport, verdict},
    screening::Decided,
    sides::Side,
    small::small_in_all_cases,
};
use crate::{error::ApiError, shown::List};

/// Which cases of a chunk fail.
#[derive(Debug)]
pub(crate) struct CaseVerdicts {
    pub(crate) first_case: u64,
    pub(crate) case_count: u64,
    pub(crate) failed_count: u64,
    /// A bit for each case, if they are wanted.
    pub(crate) failed_cases: Vec<u8>,
}

/// Totals of all chunks.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) passed: bool,
    pub(crate) case_count: u64,
    pub(crate) failed_count: u64,
    pub(crate) outputs: Vec<OutputReport>,
    /// `None` if there is no function.
    pub(crate) functions: Option<FunctionSummary>,
}

/// Totals of the functions in all cases.
#[derive(Debug)]
pub(crate) struct FunctionSummary {
    pub(crate) subject_outcomes: OutcomeCounts,
    pub(crate) reference_outcomes: OutcomeCounts,
    pub(crate) outcome_mismatches: u64,
    pub(crate) nondeterministic: u64,
    pub(crate) counterexamples: Vec<Counterexample>,
    pub(crate) subject_hash: Vec<u8>,
    pub(crate) reference_hash: Vec<u8>,
    pub(crate) gpu_decided: u64,
}

/// The totals of the chunks so far.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) cases: u64,
    failed: u64,
    outputs: Vec<OutputTotal>,
    subject_outcomes: OutcomeCounts,
    reference_outcomes: OutcomeCounts,
    outcome_mismatches: u64,
    nondeterministic: u64,
    gpu_decided: u64,
    /// The first cases that fail.
    pub(super) found: Vec<Found>,
}

/// An output of the chunks so far.
struct OutputTotal {
    /// That of the first chunk, without elements.
    output: Output,
    /// Elements of a case.
    case_elements: u64,
    incomparable: Option<OutputVerdict>,
    compared: Comparison,
}

impl Totals {
    pub(super) fn is_first(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Adds a chunk of `case_count` cases. Returns its verdicts.
    pub(super) fn add(
        &mut self,
        header: &Header,
        case_count: u64,
        evaluated: Option<Evaluated>,
        decided: Option<Decided>,
    ) -> Result<CaseVerdicts, ApiError> {
        let first_case = self.cases;
        let failed = evaluated.map(|evaluated| self.add_evaluated(header, evaluated)).transpose()?.unwrap_or_default();
        if let Some(decided) = decided {
            self.add_decided(decided);
        }
        self.cases += case_count;
        self.failed += failed.len() as u64;
        let failed_count = failed.len() as u64;
        let failed_cases = if header.case_verdicts { bitmap(failed, first_case, case_count) } else { vec![] };
        Ok(CaseVerdicts { first_case, case_count, failed_count, failed_cases })
    }

    /// Adds cases that were evaluated. Returns the numbers of those that fail.
    fn add_evaluated(&mut self, header: &Header, evaluated: Evaluated) -> Result<Vec<u64>, ApiError> {
        let places = self.places(&evaluated.outputs)?;
        let failed = (0..evaluated.count).filter(|case| evaluated.fails(*case));
        let failed = failed.map(|case| evaluated.number(case, self.cases)).collect();
        if self.outputs.is_empty() {
            self.outputs = evaluated.outputs.into_iter().map(OutputTotal::new).collect();
        }
        for (place, compared) in places.into_iter().zip(evaluated.compared) {
            self.outputs[place].append(compared, self.cases, evaluated.numbers.as_deref(), header.max_mismatches);
        }
        self.subject_outcomes.add(&evaluated.actual.outcomes);
        self.reference_outcomes.add(&evaluated.expected.outcomes);
        self.outcome_mismatches += evaluated.outcome_mismatches;
        self.nondeterministic += evaluated.nondeterministic;
        Ok(failed)
    }

    /// Adds cases that a GPU has decided, all of which pass.
    fn add_decided(&mut self, Decided { count, faults, outputs }: Decided) {
        self.gpu_decided += count;
        for total in &mut self.outputs {
            let decided = outputs.iter().find(|output| output.name == total.output.name);
            let (nans, norm) = decided.map_or((0, 0.0), |output| (output.nans, output.norm));
            total.compared.add_equal(count - nans, nans, norm);
        }
        let mut with_results = count;
        for ([subject, reference], cases) in faults {
            self.subject_outcomes.add_equal(subject, cases);
            self.reference_outcomes.add_equal(reference, cases);
            with_results -= cases;
        }
        self.subject_outcomes.add_equal(CaseOutcome::OK, with_results);
        self.reference_outcomes.add_equal(CaseOutcome::OK, with_results);
    }

    pub(super) fn summary(self, header: &Header, counterexamples: Vec<Counterexample>) -> Summary {
        let cases = self.cases;
        let hash = |side: &Side| side.function().map(|computed| computed.function.hash()).unwrap_or_default();
        let functions = header.sides.has_functions().then(|| FunctionSummary {
            subject_outcomes: self.subject_outcomes,
            reference_outcomes: self.reference_outcomes,
            outcome_mismatches: self.outcome_mismatches,
            nondeterministic: self.nondeterministic,
            counterexamples,
            subject_hash: hash(&header.sides.subject),
            reference_hash: hash(&header.sides.reference),
            gpu_decided: self.gpu_decided,
        });
        let outputs: Vec<_> = self.outputs.into_iter().map(|total| total.report(cases)).collect();
        let are_outputs_right = outputs.iter().all(|output| output.verdict == OutputVerdict::Passed);
        Summary {
            passed: self.failed == 0 && self.nondeterministic == 0 && are_outputs_right,
            case_count: cases,
            failed_count: self.failed,
            outputs,
            functions,
        }
    }

    /// The positions of a chunk's outputs; those of the first chunk are their own.
    fn places(&self, outputs: &[Output]) -> Result<Vec<usize>, ApiError> {
        if self.outputs.is_empty() {
            return Ok((0..outputs.len()).collect());
        }
        if outputs.len() != self.outputs.len() {
            let reason =
                format!("expected {} tensors, as in the first chunk, got {}", self.outputs.len(), outputs.len());
            return Err(ApiError::invalid("cases.actual", reason));
        }
        let place = |(nth, output): (usize, &Output)| {
            let place = self.outputs.iter().position(|total| total.output.name == output.name);
            let field = format!("cases.actual[{nth}]");
            let place = place.ok_or_else(|| {
                ApiError::invalid(format!("{field}.name"), "expected the name of an output of the first chunk")
            })?;
            let first = &self.outputs[place].output;
            for (list, of, first) in
                [("actual", &output.actual, &first.actual), ("expected", &output.expected, &first.expected)]
            {
                if (of.dtype, case_shape(of)) != (first.dtype, case_shape(first)) {
                    let expected = format!("{} of shape {:?}", first.dtype, List(case_shape(first)));
                    let got = format!("{} of shape {:?}", of.dtype, List(case_shape(of)));
                    let reason = format!("expected cases of {expected} in {list}, as in the first chunk, got {got}");
                    return Err(ApiError::invalid(field, reason));
                }
            }
            Ok(place)
        };
        outputs.iter().enumerate().map(place).collect()
    }
}

impl OutputTotal {
    fn new(output: Output) -> Self {
        let case = TensorType { dtype: output.expected.dtype, shape: case_shape(&output.expected).to_vec() };
        let case_elements = case.elements() as u64;
        let incomparable = output.incomparable;
        Self { output: output.without_elements(), case_elements, incomparable, compared: Comparison::default() }
    }

    /// Adds cases of a chunk, which have these numbers, or follow `before` cases.
    fn append(&mut self, compared: Option<Comparison>, before: u64, numbers: Option<&[u64]>, max_mismatches: usize) {
        let Some(compared) = compared else { return };
        let Some(numbers) = numbers else {
            return self.compared.append(compared, before * self.case_elements, max_mismatches);
        };
        let elements = self.case_elements;
        let index_of = |index: u64| {
            let case = usize::try_from(index / elements).expect("a case of a chunk in memory");
            numbers[case] * elements + index % elements
        };
        self.compared.append(compared.with_indices(index_of), 0, max_mismatches);
    }

    fn report(self, cases: u64) -> OutputReport {
        let Self { mut output, case_elements, incomparable, compared } = self;
        output.small = small_in_all_cases(&output, &compared);
        let all = |of: &TensorType| {
            let cases = usize::try_from(cases).unwrap_or(usize::MAX);
            TensorType { dtype: of.dtype, shape: [&[cases][..], case_shape(of)].concat() }
        };
        let is_rejected = output.small.as_ref().is_some_and(|small| small.max_norm_rtol.is_some());
        let rejected = is_rejected.then_some(OutputVerdict::Mismatch);
        let verdict = verdict(incomparable.or(rejected), Some(&compared));
        let compared = incomparable.is_none().then_some((cases * case_elements, compared));
        OutputReport::new(&output, [all(&output.actual), all(&output.expected)], verdict, compared)
    }
}

/// A bit for each of `count` cases from `first` on.
fn bitmap(cases: Vec<u64>, first: u64, count: u64) -> Vec<u8> {
    let place = |case: u64| usize::try_from(case).expect("a message has the bits");
    let mut bitmap = vec![0; place(count.div_ceil(8))];
    for case in cases {
        bitmap[place((case - first) / 8)] |= 1 << ((case - first) % 8);
    }
    bitmap
}

/// The extents of a case.
pub(super) fn case_shape(of: &TensorType) -> &[usize] {
    of.shape.get(1..).unwrap_or_default()
}
