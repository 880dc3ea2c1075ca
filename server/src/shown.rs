//! Lists of clients in error messages: the first items, and how many more there are.

use std::fmt;

/// The most items that are written.
const MAX_ITEMS: usize = 16;

/// Writes a list as `{:?}` does, but of a long one only the first items. Formatting a list takes far longer than receiving it.
pub(crate) struct List<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Debug> fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(items) = self;
        let Some(more) = items.len().checked_sub(MAX_ITEMS).filter(|more| *more > 0) else { return items.fmt(f) };
        f.write_str("[")?;
        items[..MAX_ITEMS].iter().try_for_each(|item| write!(f, "{item:?}, "))?;
        write!(f, "and {more} more]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_list_is_written_whole_and_a_long_one_is_counted() {
        assert_eq!(format!("{:?}", List(&[1, -2])), "[1, -2]");
        assert_eq!(format!("{:?}", List::<i64>(&[])), "[]");
        let million = vec![1_i64; 1_000_000];
        let written = format!("{:?}", List(&million));
        assert!(written.starts_with("[1, 1, ") && written.ends_with("1, and 999984 more]"), "{written}");
        assert_eq!(written.matches("1, ").count(), MAX_ITEMS);
    }
}
