//! Why sources are left to the CPU, counted by name.

use super::lexer::Reason;
use crate::cuda::Device;

/// The lexer's bits stand above the tree's.
const LEXER_SHIFT: u32 = 8;

/// The tree's bits, as `Reason` in `cu/parse_tree.cuh` has them; the first of them only says that the lexer has one.
const BY_TREE: [(u32, &str); 5] = [(2, "line"), (4, "length"), (8, "block"), (16, "check"), (BY_VALUE, "value")];

/// The reason of a source with a value that only the CPU knows.
pub(super) const BY_VALUE: u32 = 32;

/// Leaves a source to the CPU, once: its number in the batch, and the reasons of its summary.
pub(super) type Leave<'a> = dyn Fn(usize, u32) + 'a;

/// Counts a source that the device left to the CPU: the reasons of its summary, and its bytes.
pub(super) fn count(reasons: u32, bytes: usize, device: &Device) {
    device.count_left("parse", name(reasons), bytes as u64);
}

/// One name for a source's reasons: the first that was found, so that counts add up to the sources. Without any, the
/// source is no text.
fn name(reasons: u32) -> &'static str {
    if let Some(reason) = Reason::of(reasons >> LEXER_SHIFT).next() {
        return reason.name();
    }
    BY_TREE.iter().find(|(bit, _)| reasons & bit != 0).map_or("encoding", |&(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_and_the_first_found_counts() {
        let lexers = Reason::ALL.map(|reason| name(1 | (reason as u32) << LEXER_SHIFT));
        let trees = BY_TREE.map(|(bit, _)| name(bit));
        let mut names: Vec<_> = lexers.into_iter().chain(trees).chain([name(0)]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 18);
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
