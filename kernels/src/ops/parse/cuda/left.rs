//! What is left to the CPU: which sources, why, counted by name, and what it makes of them.

use std::{
    cmp::Reverse,
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use rayon::Scope;

use super::{
    crew::{Crew, Job},
    foreseen::has_long_line,
    lexer::Reason,
    slice::Asked,
};
use crate::{cuda::Left, ops::parse::cpu::Done};

/// The lexer's bits stand above the tree's.
const LEXER_SHIFT: u32 = 8;

/// The tree's bits, as `Reason` in `cu/parse_tree.cuh` has them; the first of them only says that the lexer has one.
const BY_TREE: [(u32, &str); 5] =
    [(2, "line"), (BY_LENGTH, "length"), (8, "block"), (16, "check"), (BY_VALUE, "value")];
/// The reason of a source with a line of too many tokens.
pub(super) const BY_LENGTH: u32 = 4;
/// The reason of a source with a value that only the CPU knows.
pub(super) const BY_VALUE: u32 = 32;
/// The reason of a source in a mode other than a module's; kernels do not know it.
pub(super) const BY_MODE: u32 = 64;

/// Bytes of sources that one thread looks through for long lines, and of the least source that may have one.
const LOOKED_THROUGH: usize = 1 << 20;
const LEAST_LOOKED_AT: usize = 12 << 10;

/// All sources of a batch, and which of them are the CPU's.
pub(super) struct Batch<'a> {
    pub(super) sources: Vec<Asked<'a>>,
    /// Bytes of the sources before each.
    before: Vec<usize>,
    /// What the CPU makes of those that are its own.
    pub(super) anew: Vec<OnceLock<Done>>,
    left: Vec<AtomicBool>,
    counts: &'a Left,
    crew: Crew,
}

impl<'a> Batch<'a> {
    /// `threads`: of the CPU.
    pub(super) fn new(sources: Vec<Asked<'a>>, counts: &'a Left, threads: usize) -> Self {
        let anew = sources.iter().map(|_| OnceLock::new()).collect();
        let left = sources.iter().map(|_| AtomicBool::new(false)).collect();
        let bytes_before = |sum: &mut usize, source: &Asked<'_>| {
            let before = *sum;
            *sum += source.bytes.len();
            Some(before)
        };
        let before = sources.iter().scan(0, bytes_before).collect();
        Self { sources, before, anew, left, counts, crew: Crew::new(threads) }
    }

    /// Whether a source is left to the CPU.
    pub(super) fn is_left(&self, at: usize) -> bool {
        self.left[at].load(Relaxed)
    }

    fn size(&self, at: usize) -> usize {
        self.sources[at].bytes.len()
    }
}

/// Leaves sources to the CPU, which parses them beside the device's work.
#[derive(Clone, Copy)]
pub(super) struct Leave<'l, 'a> {
    pub(super) batch: &'a Batch<'a>,
    pub(super) scope: &'l Scope<'a>,
}

impl Leave<'_, '_> {
    /// Leaves sources to the CPU, each with the reasons of its summary, unless they are already.
    pub(super) fn leave(self, which: impl Iterator<Item = (usize, u32)>) {
        let batch = self.batch;
        let new = which.filter(|(at, _)| !batch.left[*at].swap(true, Relaxed));
        let jobs = new.map(|(at, reasons)| {
            let bytes = batch.size(at);
            batch.counts.count("parse", name(reasons), bytes as u64);
            Job::parse(at, bytes, batch.before[at])
        });
        self.spawn(batch.crew.call(jobs.collect()));
    }

    /// Has sources with long lines found and left to the CPU, beside what follows.
    pub(super) fn foresee(self) {
        let jobs = self.in_parts().into_iter().map(|part| Job::LookThrough(Reverse(part.start), part.end));
        self.spawn(self.batch.crew.call(jobs.collect()));
    }

    /// Says that every source is packed: all threads may parse now.
    pub(super) fn all_hands(self) {
        self.spawn(self.batch.crew.all_hands());
    }

    /// Has so many more threads at work.
    fn spawn(self, hands: usize) {
        let batch = self.batch;
        for _ in 0..hands {
            self.scope.spawn(move |scope| Leave { batch, scope }.work());
        }
    }

    fn work(self) {
        let batch = self.batch;
        while let Some(job) = batch.crew.next() {
            match job {
                Job::Parse { at, .. } => {
                    let Asked { bytes, options, outputs } = batch.sources[at];
                    drop(batch.anew[at].set(Done::parse(bytes, options, outputs)));
                }
                Job::LookThrough(Reverse(first), end) => self.look_through(first..end),
            }
        }
    }

    fn look_through(self, sources: Range<usize>) {
        let batch = self.batch;
        let long = |at: &usize| batch.size(*at) >= LEAST_LOOKED_AT && has_long_line(batch.sources[*at].bytes);
        self.leave(sources.filter(long).map(|at| (at, BY_LENGTH)));
    }

    /// The sources, so many bytes of them together; none where there are few.
    fn in_parts(self) -> Vec<Range<usize>> {
        let (mut parts, mut first, mut bytes) = (vec![], 0, 0);
        for at in 0..self.batch.sources.len() {
            bytes += self.batch.size(at);
            if bytes >= LOOKED_THROUGH {
                parts.push(first..at + 1);
                (first, bytes) = (at + 1, 0);
            }
        }
        if !parts.is_empty() {
            parts.push(first..self.batch.sources.len());
        }
        parts
    }
}

/// One name for a source's reasons: the first that was found, so that counts add up to the sources. Without any, the
/// source is no text.
fn name(reasons: u32) -> &'static str {
    if let Some(reason) = Reason::of(reasons >> LEXER_SHIFT).next() {
        return reason.name();
    }
    if reasons & BY_MODE != 0 {
        return "mode";
    }
    BY_TREE.iter().find(|(bit, _)| reasons & bit != 0).map_or("encoding", |&(_, name)| name)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        cpu::Pool,
        ops::parse::{Options, Outputs, ParseRequest},
    };

    #[test]
    fn the_cpu_gets_each_source_once_and_long_lines_are_foreseen() {
        let table = format!("x = [{}]\n", "1, 2,\n".repeat(300_000));
        let other = "def f():\n    return 1\n".repeat(50_000);
        let sources = [&table, "a = 1\n", "a = 12\n", &other, &table];
        let sources = sources.map(|source| Bytes::copy_from_slice(source.as_bytes())).into();
        let outputs = Outputs { tree: true, ..Outputs::default() };
        let request = ParseRequest::new(sources, Options::default(), outputs);
        let asked = Asked::all(&request).collect();
        let counts = Left::default();
        let batch = Batch::new(asked, &counts, 1);
        let pool = Pool::start(1).expect("one thread");
        pool.scope(|scope| Leave { batch: &batch, scope }.foresee());
        let left = || (0..5).map(|at| batch.is_left(at)).collect::<Vec<_>>();
        assert_eq!(left(), [true, false, false, false, true]);
        pool.scope(|scope| Leave { batch: &batch, scope }.leave([(0, 2), (1, 8), (2, BY_VALUE)].into_iter()));
        assert_eq!(left(), [true, true, true, false, true]);
        let nodes = |at: usize| batch.anew[at].get().map(|done: &Done| done.result.counts.nodes);
        assert_eq!((nodes(1), nodes(3), nodes(0)), (Some(3), None, nodes(4)));
        let counted: Vec<_> = counts.stats().into_iter().map(|one| (one.reason, one.items, one.bytes)).collect();
        assert_eq!(counted, [("block", 1, 6), ("length", 2, 2 * table.len() as u64), ("value", 1, 7)]);
    }

    #[test]
    fn few_sources_are_not_looked_through() {
        let sources = vec!["a,\n".repeat(9_000).into()];
        let request = ParseRequest::new(sources, Options::default(), Outputs::default());
        let counts = Left::default();
        let batch = Batch::new(Asked::all(&request).collect(), &counts, 1);
        Pool::start(1).expect("one thread").scope(|scope| Leave { batch: &batch, scope }.foresee());
        assert!(!batch.is_left(0));
    }

    #[test]
    fn every_reason_has_a_name_and_the_first_found_counts() {
        let lexers = Reason::ALL.map(|reason| name(1 | (reason as u32) << LEXER_SHIFT));
        let trees = BY_TREE.map(|(bit, _)| name(bit));
        let mut names: Vec<_> = lexers.into_iter().chain(trees).chain([name(0), name(BY_MODE)]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 19);
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
        assert_eq!(name(2 | 16), "line");
        let long_line_and_names = (Reason::LongLine as u32 | Reason::Names as u32) << LEXER_SHIFT;
        assert_eq!(name(long_line_and_names | 1 | 4), "long_line");
    }

    #[test]
    fn numbers_are_those_of_the_kernels() {
        let header = include_str!("../../../../cu/parse_tree.cuh");
        for (bit, name) in BY_TREE {
            let line = format!("BY_{} = {bit},", name.to_uppercase());
            assert!(header.contains(&line), "{line}");
        }
        assert!(header.contains(&format!("#define LEXER_SHIFT {LEXER_SHIFT}\n")));
    }
}
