//! A check: a subject, a reference, and the cases in which they are compared.

use std::path::Path;

use accelerd_client::{Cases, Domain, Policy, Verification, VerifySide, proto::Tensor};
use bytes::Bytes;
use toml::Table;

use super::{
    fields::{Bound, Fields, Mistakes},
    inherit,
    options::{Expect, Options, PolicyFields},
    side::{Arrays, Outputs, Side, read_arrays, required},
};

/// Bytes of a chunk of cases, about.
const CHUNK: usize = 1 << 20;

#[derive(Debug)]
pub struct Check {
    pub name: String,
    pub subject: Side,
    pub reference: Side,
    pub inputs: Inputs,
    options: Options,
    output_policies: Vec<(String, PolicyFields)>,
}

/// The inputs of the cases.
#[derive(Debug)]
pub enum Inputs {
    Generated(Generated),
    /// Inputs of functions, none if both sides are arrays. There are this many cases.
    Given {
        arrays: Arrays,
        case_count: u64,
    },
}

#[derive(Debug)]
pub struct Generated {
    pub count: u64,
    pub seed: u64,
    domains: Vec<(String, Domain)>,
}

impl Check {
    /// Reads a check; `None` if it has mistakes.
    pub(super) fn read(
        mut table: Table,
        defaults: &Table,
        place: String,
        folder: &Path,
        mistakes: &Mistakes,
    ) -> Option<Self> {
        let known = mistakes.len();
        let own: Vec<_> = ["count", "seed", "device"].into_iter().filter(|key| table.contains_key(*key)).collect();
        inherit(&mut table, defaults);
        let mut fields = Fields::new(table, place, mistakes);
        let name = required(&mut fields, "name");
        let subject = Side::read(&mut fields, "subject", folder);
        let reference = Side::read(&mut fields, "reference", folder);
        let options = Options::read(&mut fields);
        let output_policies: Vec<_> = fields
            .tables("outputs")
            .into_iter()
            .map(|(name, mut policy)| {
                let read = PolicyFields::read(&mut policy);
                policy.finish();
                (name, read)
            })
            .collect();
        let sides = subject.as_ref().zip(reference.as_ref());
        let inputs = Inputs::read(&mut fields, sides, &options, &own, folder);
        let has_max_norm = options.policy.has_max_norm || output_policies.iter().any(|(_, policy)| policy.has_max_norm);
        if has_max_norm && sides.is_some_and(|(subject, reference)| subject.is_function() || reference.is_function()) {
            fields.note("max_norm", "expected npy on both sides, because it needs all cases at once");
        }
        let any_order = options.policy.any_order || output_policies.iter().any(|(_, policy)| policy.any_order);
        if has_max_norm && any_order {
            fields.note("any_order", "expected no max_norm, which compares all cases at once");
        }
        if let Some(Expect::InEachCase(names)) = &options.expect {
            let cases = match &inputs {
                Some(Inputs::Given { case_count, .. }) => Some(*case_count),
                Some(Inputs::Generated(_)) | None => None,
            };
            if cases != Some(names.len() as u64) {
                let expected =
                    cases.map_or("one name, for there are no cases".to_owned(), |cases| format!("{cases} names"));
                fields.note("expect", format!("expected {expected}, got {}", names.len()));
            }
        }
        fields.finish();
        if mistakes.len() > known {
            return None;
        }
        Some(Self { name: name?, subject: subject?, reference: reference?, inputs: inputs?, options, output_policies })
    }

    /// The arrays of both sides, if a tolerance needs all cases at once.
    pub fn whole_arrays(&self) -> Option<(&Arrays, &Arrays)> {
        let policies =
            || std::iter::once(&self.options.policy).chain(self.output_policies.iter().map(|(_, policy)| policy));
        match (&self.subject.outputs, &self.reference.outputs) {
            (Outputs::Arrays(actual), Outputs::Arrays(expected)) if policies().any(|policy| policy.has_max_norm) => {
                Some((actual, expected))
            }
            _ => None,
        }
    }

    pub fn policy(&self) -> &Policy {
        &self.options.policy.policy
    }

    pub fn output_policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.output_policies.iter().map(|(name, policy)| (name.as_str(), &policy.policy))
    }

    pub fn verification(&self) -> Verification {
        let mut verification = Verification::of(self.subject.side()).against(self.reference.side());
        verification = self.options.apply(verification);
        for (output, policy) in self.output_policies() {
            verification = verification.output_policy(output, policy.clone());
        }
        if let Inputs::Generated(Generated { count, seed, domains }) = &self.inputs {
            verification = verification.generate(*count, *seed);
            if let Some(device) = self.options.device {
                verification = verification.device(device);
            }
            for (input, domain) in domains {
                verification = verification.domain(input, domain.clone());
            }
        }
        verification
    }

    /// The cases in chunks, which share the memory of the arrays.
    pub fn chunks(&self) -> Vec<Cases> {
        let Inputs::Given { arrays: inputs, case_count } = &self.inputs else { return vec![] };
        let actual = self.subject.arrays();
        let expected = self.reference.arrays();
        let all = || inputs.iter().chain(actual).chain(expected);
        let case_count = usize::try_from(*case_count).unwrap_or(usize::MAX);
        let case_bytes: usize = all().map(|(_, tensor)| tensor.data.len() / case_count).sum();
        let length = (CHUNK / case_bytes.max(1)).max(1);
        let chunk = |first: usize| {
            let rows = |tensor: &Tensor| rows(tensor, first, length.min(case_count - first), case_count);
            let cases = inputs.iter().fold(Cases::default(), |cases, (name, tensor)| cases.input(name, rows(tensor)));
            let cases = actual.iter().fold(cases, |cases, (name, tensor)| cases.actual(name, rows(tensor)));
            let cases = expected.iter().fold(cases, |cases, (name, tensor)| cases.expected(name, rows(tensor)));
            match &self.options.expect {
                Some(Expect::InEachCase(names)) => cases.expected_outcomes(names.iter().skip(first).take(length)),
                Some(Expect::InAllCases(_)) | None => cases,
            }
        };
        (0..case_count).step_by(length).map(chunk).collect()
    }
}

/// Rows of a tensor, which has `all` of them.
fn rows(tensor: &Tensor, first: usize, count: usize, all: usize) -> Tensor {
    let bytes = tensor.data.len() / all;
    let data: Bytes = tensor.data.slice(first * bytes..(first + count) * bytes);
    let mut shape = tensor.shape.clone();
    if let Some(extent) = shape.first_mut() {
        *extent = i64::try_from(count).unwrap_or(i64::MAX);
    }
    Tensor { dtype: tensor.dtype, shape, data }
}

impl Side {
    fn is_function(&self) -> bool {
        matches!(self.outputs, Outputs::Function(_))
    }

    fn side(&self) -> VerifySide {
        match &self.outputs {
            Outputs::Function(function) => function.clone(),
            Outputs::Arrays(_) => VerifySide::Given,
        }
    }

    fn arrays(&self) -> &[(String, Tensor)] {
        match &self.outputs {
            Outputs::Function(_) => &[],
            Outputs::Arrays(arrays) => arrays,
        }
    }
}

impl Inputs {
    /// `own` are the keys of generated cases that the check itself has.
    fn read(
        fields: &mut Fields<'_>,
        sides: Option<(&Side, &Side)>,
        options: &Options,
        own: &[&str],
        folder: &Path,
    ) -> Option<Self> {
        let has_inputs = fields.has("inputs");
        let has_cases = fields.has("cases");
        let domains = fields
            .tables("inputs")
            .into_iter()
            .filter_map(|(name, mut input)| {
                let domain = domain(&mut input);
                input.finish();
                Some((name, domain?))
            })
            .collect();
        let files = fields.texts("cases");
        let arrays = if has_cases { read_arrays(fields, "cases", &files, folder) } else { Some(vec![]) };
        let (subject, reference) = sides?;
        let is_generated = !has_cases && subject.is_function() && reference.is_function();
        if is_generated {
            return Some(Self::Generated(Generated { count: options.count, seed: options.seed, domains }));
        }
        if has_inputs {
            let expected =
                if has_cases { "expected inputs or cases, got both" } else { "expected functions on both sides" };
            fields.note("inputs", expected);
        }
        for key in own {
            fields.note(key, "expected none, because the cases are given");
        }
        if !has_cases && (subject.is_function() || reference.is_function()) {
            fields.note("cases", "expected the inputs of the cases whose outputs are given");
        }
        let arrays = arrays?;
        let case_count = case_count(fields, arrays.iter().chain(subject.arrays()).chain(reference.arrays()))?;
        Some(Self::Given { arrays, case_count })
    }
}

/// The number of cases, which all arrays must have.
fn case_count<'a>(fields: &Fields<'_>, arrays: impl Iterator<Item = &'a (String, Tensor)>) -> Option<u64> {
    let counts: Vec<_> =
        arrays.map(|(name, tensor)| (name, tensor.shape.first().copied().unwrap_or_default())).collect();
    let (_, first) = counts.first()?;
    if let Some((name, other)) = counts.iter().find(|(_, count)| count != first) {
        fields.note("cases", format!("expected {first} cases in all arrays, got {other} in {name:?}"));
        return None;
    }
    if *first == 0 {
        fields.note("cases", "expected at least one case, got none");
    }
    u64::try_from(*first).ok().filter(|count| *count > 0)
}

fn domain(fields: &mut Fields<'_>) -> Option<Domain> {
    let min = fields.bound("min");
    let max = fields.bound("max");
    let mut domain = match (min, max) {
        (None, None) => Domain::default(),
        (Some(Bound::Integer(min)), None) => (min..).into(),
        (Some(Bound::Float(min)), None) => (min..).into(),
        (None, Some(Bound::Integer(max))) => (..=max).into(),
        (None, Some(Bound::Float(max))) => (..=max).into(),
        (Some(Bound::Integer(min)), Some(Bound::Integer(max))) if min <= max => (min..=max).into(),
        (Some(Bound::Float(min)), Some(Bound::Float(max))) if min <= max => (min..=max).into(),
        (Some(Bound::Integer(_)), Some(Bound::Float(_))) | (Some(Bound::Float(_)), Some(Bound::Integer(_))) => {
            fields.note("max", "expected the type of min: 1.0 for floating-point numbers, 1 for integers");
            return None;
        }
        (Some(_), Some(_)) => {
            fields.note("max", "expected at least min");
            return None;
        }
    };
    if fields.flag("allow_nan").unwrap_or(false) {
        domain = domain.allow_nan();
    }
    if fields.flag("allow_infinity").unwrap_or(false) {
        domain = domain.allow_infinity();
    }
    match fields.small_integer("length", 1) {
        Some(length) => Some(domain.length(length)),
        None => Some(domain),
    }
}
