//! Effects of a kernel on its arrays.

use super::{Kernel, races::Access, visit};

impl Kernel {
    /// For each parameter, whether it is an array that a thread may write.
    pub fn written(&self) -> Vec<bool> {
        self.accessed(|access| access != Access::Read)
    }

    /// Returns true if threads that run again leave memory as it was, if all threads after them that have run do so too, in order. This
    /// holds if no array is both read and written, as in every kernel of the Python dialect.
    pub fn is_repeatable(&self) -> bool {
        let read = self.accessed(|access| access != Access::Write);
        self.written().into_iter().zip(read).all(|(is_written, is_read)| !(is_written && is_read))
    }

    fn accessed(&self, is_meant: impl Fn(Access) -> bool) -> Vec<bool> {
        let mut accessed = vec![false; self.params.len()];
        visit::each_access(&self.body, &mut |place, access| {
            accessed[place.array.0 as usize] |= is_meant(access);
        });
        accessed
    }
}
