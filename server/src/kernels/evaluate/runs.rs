//! The runs of an evaluation. Each has memory that is written anew; what a kernel may not do is looked for after each, and the results of
//! some are kept. Which ones, a kernel cannot know: it is launched in the same way each time.

use std::{ops::Range, time::Duration};

use accelerd_sandbox::{SandboxError, SubjectOutcome, SubjectResult};
use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::{
    Verdict,
    layout::{Layout, Overwritten, mix},
};
use crate::{error::ApiError, kernels::benchmark::rotated};

/// Kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamKind {
    Value,
    Input,
    Output,
    InputOutput,
}

impl ParamKind {
    pub(super) fn is_written(self) -> bool {
        matches!(self, Self::Output | Self::InputOutput)
    }
}

/// A parameter in all runs.
#[derive(Clone, Debug)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) kind: ParamKind,
    pub(super) of: TensorType,
    /// The argument; empty for an output.
    pub(super) data: Bytes,
    /// True if the elements are the same in all runs.
    pub(super) is_fixed: bool,
}

/// Launches and their parameters.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) params: Vec<Param>,
    pub(super) layout: Layout,
    pub(super) warm_up: u32,
    pub(super) runs: u32,
    /// Seed that is unknown to all kernels.
    pub(super) seed: u64,
}

/// Results of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) run: u32,
    /// The arrays that are written, in the order of the parameters.
    pub(super) outputs: Vec<Vec<u8>>,
}

/// A check that a kernel failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) verdict: Verdict,
    pub(super) message: String,
    pub(super) run: u32,
    pub(super) param: Option<usize>,
}

/// Findings of the runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Of the timed runs that ended.
    pub(super) times: Vec<Duration>,
    pub(super) checked: Vec<Checked>,
    /// Results of the repetition of the run in the middle.
    pub(super) repeat: Option<Checked>,
    pub(super) failure: Option<Failure>,
}

impl Plan {
    fn end(&self) -> u32 {
        self.warm_up + self.runs
    }

    /// A timed run between the first and the last one, if there is one.
    pub(super) fn middle(&self) -> u32 {
        let between = u64::from(self.runs.saturating_sub(2)).max(1);
        let nth = u32::try_from(mix(self.seed) % between).expect("it is less than the number of runs");
        (self.warm_up + 1 + nth).min(self.end() - 1)
    }

    fn is_checked(&self, run: u32) -> bool {
        run == self.warm_up || run == self.middle() || run == self.end() - 1
    }

    /// Returns the parameters of a run: values, elements of arrays, and for arrays that are only written, bytes that differ from run to run.
    pub(super) fn contents(&self, run: u32) -> Vec<Bytes> {
        let of_run = |param: &Param| match param.kind {
            ParamKind::Output => vec![self.poison(run); param.of.bytes()].into(),
            ParamKind::Input | ParamKind::InputOutput if !param.is_fixed => {
                rotated(&param.data, param.of.dtype.size(), run.wrapping_add(self.first_rotation()))
            }
            ParamKind::Input | ParamKind::InputOutput | ParamKind::Value => param.data.clone(),
        };
        self.params.iter().map(of_run).collect()
    }

    fn first_rotation(&self) -> u32 {
        let [low, high, ..] = self.seed.to_le_bytes();
        u16::from_le_bytes([low, high]).into()
    }

    /// As numbers of any type these bytes are finite, and far from 0.
    fn poison(&self, run: u32) -> u8 {
        let [first, ..] = mix(self.seed).to_le_bytes();
        let [run, ..] = run.to_le_bytes();
        0xc0 | (first.wrapping_add(run) & 0x0f)
    }

    fn arrays(&self, is_wanted: impl Fn(ParamKind) -> bool) -> impl Iterator<Item = (usize, Range<u64>)> {
        let params = self.params.iter().enumerate().filter(move |(_, param)| is_wanted(param.kind));
        params.filter_map(|(nth, _)| Some((nth, self.layout.array(nth)?)))
    }

    /// Has all runs launched, until one fails a check. `launch` gets the memory, and the ranges to read.
    pub(super) fn execute(
        &self,
        mut launch: impl FnMut(Bytes, Vec<Range<u64>>) -> Result<SubjectResult, ApiError>,
    ) -> Result<Runs, ApiError> {
        let mut runs = Runs::default();
        for step in 0..=self.end() {
            let is_repeat = step == self.end();
            let run = if is_repeat { self.middle() } else { step };
            let contents = self.contents(run);
            let guard_seed = mix(self.seed ^ mix(step.into()));
            let guards = self.layout.guards();
            let is_checked = is_repeat || self.is_checked(run);
            let kept = self.arrays(|kind| is_checked && kind != ParamKind::Value);
            let ranges = guards.iter().cloned().chain(kept.map(|(_, range)| range)).collect();
            let image = Bytes::from(self.layout.image(&contents, guard_seed));
            let (time, memory) = match ended(launch(image, ranges))? {
                Ok(ended) => ended,
                Err((verdict, message)) => {
                    runs.failure = Some(Failure { verdict, message, run, param: None });
                    break;
                }
            };
            if (self.warm_up..self.end()).contains(&step) {
                runs.times.push(time);
            }
            let (guards, arrays) = memory.split_at_checked(guards.len()).unwrap_or((&memory, &[]));
            runs.failure = self.violation(run, guards, guard_seed).or_else(|| self.changed(run, &contents, arrays));
            if runs.failure.is_some() {
                break;
            }
            if is_checked {
                let outputs = self.outputs(arrays);
                let checked = Checked { run, outputs };
                if is_repeat { runs.repeat = Some(checked) } else { runs.checked.push(checked) }
            }
        }
        Ok(runs)
    }

    /// A write outside of the arrays.
    fn violation(&self, run: u32, guards: &[Vec<u8>], seed: u64) -> Option<Failure> {
        let Overwritten { param, distance } = self.layout.overwritten(guards, seed)?;
        let place = if distance < 0 { "before the start" } else { "after the end" };
        let message = format!("it wrote {} bytes {place} of {:?}", distance.unsigned_abs(), self.params[param].name);
        Some(Failure { verdict: Verdict::OutOfBoundsWrite, message, run, param: Some(param) })
    }

    /// Returns a failure if an input has changed.
    fn changed(&self, run: u32, contents: &[Bytes], arrays: &[Vec<u8>]) -> Option<Failure> {
        let all = self.arrays(|kind| kind != ParamKind::Value).zip(arrays);
        let mut inputs = all.filter(|((nth, _), _)| self.params[*nth].kind == ParamKind::Input);
        inputs.find_map(|((nth, _), after)| {
            let before = &contents[nth];
            let param = &self.params[nth];
            let offset = before.iter().zip(after).position(|(before, after)| before != after)?;
            let message = format!("it changed element {} of {:?}", offset / param.of.dtype.size(), param.name);
            Some(Failure { verdict: Verdict::InputChanged, message, run, param: Some(nth) })
        })
    }

    fn outputs(&self, arrays: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let all = self.arrays(|kind| kind != ParamKind::Value).zip(arrays);
        let written = all.filter(|((nth, _), _)| self.params[*nth].kind.is_written());
        written.map(|(_, bytes)| bytes.clone()).collect()
    }
}

type Ended = Result<(Duration, Vec<Vec<u8>>), (Verdict, String)>;

/// The time and the memory of a launch, or why there is none.
fn ended(launched: Result<SubjectResult, ApiError>) -> Result<Ended, ApiError> {
    let SubjectResult { outcome, outputs } = match launched {
        Err(ApiError::Sandbox(SandboxError::Crashed { .. })) => {
            return Ok(Err((Verdict::Fault, "the process that ran it ended".to_owned())));
        }
        launched => launched?,
    };
    Ok(match outcome {
        SubjectOutcome::Ended(time) => Ok((time, outputs)),
        SubjectOutcome::NotLaunched(reason) => Err((Verdict::NotLaunched, reason)),
        SubjectOutcome::Fault(reason) => Err((Verdict::Fault, reason)),
        SubjectOutcome::Timeout => Err((Verdict::Timeout, "the launch did not end in time".to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::Dtype;

    use super::*;

    const ELEMENTS: usize = 64;

    /// A GPU on which a closure of an input, an output and a number of the launch stands for a kernel.
    fn evaluate(kernel: impl Fn(u32, &mut [u8], Range<usize>, Range<usize>) -> SubjectOutcome) -> (Plan, Runs) {
        let bytes = ELEMENTS as u64;
        let of = TensorType { dtype: Dtype::U8, shape: vec![ELEMENTS] };
        let data: Bytes = (0..).take(ELEMENTS).collect::<Vec<u8>>().into();
        let param =
            |name: &str, kind, data| Param { name: name.to_owned(), kind, of: of.clone(), data, is_fixed: false };
        let plan = Plan {
            params: vec![param("x", ParamKind::Input, data), param("y", ParamKind::Output, Bytes::new())],
            layout: Layout::new(&[Some(bytes), Some(bytes)]),
            warm_up: 1,
            runs: 5,
            seed: 3,
        };
        let mut nth = 0;
        let at = |range: Range<u64>| {
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).expect("small"));
            start..end
        };
        let [x, y] = [0, 1].map(|param| at(plan.layout.array(param).expect("an array")));
        let runs = plan.execute(|image, ranges| {
            let mut memory = image.to_vec();
            let outcome = kernel(nth, &mut memory, x.clone(), y.clone());
            nth += 1;
            let outputs = ranges.into_iter().map(|range| memory[at(range)].to_vec()).collect();
            Ok(SubjectResult { outcome, outputs })
        });
        (plan, runs.expect("all launches are valid"))
    }

    fn ok() -> SubjectOutcome {
        SubjectOutcome::Ended(Duration::from_micros(3))
    }

    fn increment(memory: &mut [u8], x: Range<usize>, y: Range<usize>) {
        for (x, y) in x.zip(y) {
            memory[y] = memory[x].wrapping_add(1);
        }
    }

    /// Runs whose results are those of the honest kernel.
    fn right(plan: &Plan, runs: &Runs) -> Vec<u32> {
        let is_right = |checked: &&Checked| {
            let expected: Vec<_> = plan.contents(checked.run)[0].iter().map(|x| x.wrapping_add(1)).collect();
            checked.outputs == [expected]
        };
        runs.checked.iter().filter(is_right).map(|checked| checked.run).collect()
    }

    #[test]
    fn an_honest_kernel_passes_all_runs() {
        let (plan, runs) = evaluate(|_, memory, x, y| {
            increment(memory, x, y);
            ok()
        });
        assert_eq!((runs.failure.as_ref(), runs.times.len()), (None, 5));
        assert_eq!(right(&plan, &runs), [1, plan.middle(), 5]);
        assert!((2..5).contains(&plan.middle()), "{}", plan.middle());
        let repeat = runs.repeat.expect("a run is repeated");
        assert_eq!(repeat, Checked { run: plan.middle(), outputs: runs.checked[1].outputs.clone() });
    }

    #[test]
    fn an_output_that_is_not_written_is_neither_zero_nor_that_of_the_run_before() {
        let (plan, runs) = evaluate(|nth, memory, x, y| {
            if nth == 0 {
                increment(memory, x, y);
            }
            ok()
        });
        assert_eq!((runs.failure.as_ref(), right(&plan, &runs).len()), (None, 0));
        let [first, .., last] = &runs.checked[..] else { panic!("{runs:?}") };
        assert!(first.outputs[0][0] != last.outputs[0][0] && first.outputs[0][0] != 0);
    }

    #[test]
    fn results_that_are_kept_from_the_first_run_are_wrong_in_later_ones() {
        let kept = std::cell::RefCell::new(vec![]);
        let (plan, runs) = evaluate(|nth, memory, x, y| {
            if nth < 2 {
                increment(memory, x, y.clone());
                *kept.borrow_mut() = memory[y].to_vec();
            } else {
                memory[y].copy_from_slice(&kept.borrow());
            }
            ok()
        });
        assert_eq!((runs.failure.as_ref(), right(&plan, &runs)), (None, vec![1]));
    }

    #[test]
    fn a_result_that_depends_on_the_launch_differs_when_the_run_is_repeated() {
        let (_, runs) = evaluate(|nth, memory, x, y| {
            increment(memory, x, y.clone());
            memory[y.start] ^= u8::from(nth == 6);
            ok()
        });
        assert_ne!(runs.repeat.expect("a run is repeated").outputs, runs.checked[1].outputs);
    }

    #[test]
    fn a_write_outside_of_an_array_ends_the_runs() {
        let (_, runs) = evaluate(|nth, memory, x, y| {
            let end = y.end;
            increment(memory, x, y);
            if nth == 2 {
                memory[end + 4] ^= 0xff;
            }
            ok()
        });
        let failure = runs.failure.expect("it is found");
        assert_eq!((failure.verdict, failure.run, failure.param), (Verdict::OutOfBoundsWrite, 2, Some(1)));
        assert_eq!(failure.message, "it wrote 4 bytes after the end of \"y\"");
    }

    #[test]
    fn an_input_must_not_change() {
        let (_, runs) = evaluate(|nth, memory, x, y| {
            let first = x.start;
            increment(memory, x, y);
            memory[first + 7] ^= u8::from(nth == 5);
            ok()
        });
        let failure = runs.failure.expect("it is found");
        assert_eq!((failure.verdict, failure.run, failure.param), (Verdict::InputChanged, 5, Some(0)));
        assert_eq!(failure.message, "it changed element 7 of \"x\"");
    }

    #[test]
    fn a_launch_that_does_not_end_well_ends_the_runs() {
        for (outcome, verdict) in [
            (SubjectOutcome::Fault("an illegal address".to_owned()), Verdict::Fault),
            (SubjectOutcome::NotLaunched("too many threads".to_owned()), Verdict::NotLaunched),
            (SubjectOutcome::Timeout, Verdict::Timeout),
        ] {
            let (_, runs) = evaluate(|nth, _, _, _| if nth == 3 { outcome.clone() } else { ok() });
            let failure = runs.failure.expect("it is found");
            assert_eq!((failure.verdict, failure.run, runs.times.len()), (verdict, 3, 2));
        }
    }
}
