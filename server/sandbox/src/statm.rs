//! Memory of a process, as `/proc/PID/statm` has it.

/// Pages that are resident and not shared.
pub(crate) fn private_pages(statm: &str) -> Option<u64> {
    let mut fields = statm.split(' ').skip(1);
    let resident: u64 = fields.next()?.parse().ok()?;
    let shared: u64 = fields.next()?.parse().ok()?;
    Some(resident.saturating_sub(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_shared_does_not_count() {
        assert_eq!(private_pages("900 30 10 5 0 100 0\n"), Some(20));
        assert_eq!(private_pages("900 10 30 5 0 100 0\n"), Some(0));
        assert_eq!(private_pages("900 x"), None);
    }
}
