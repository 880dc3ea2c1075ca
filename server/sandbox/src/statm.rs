//! Memory of a process, as `/proc/PID/statm` has it.

/// What is resident and not shared.
pub(crate) fn private_bytes(statm: &str) -> Option<u64> {
    let mut fields = statm.split(' ').skip(1);
    let resident: u64 = fields.next()?.parse().ok()?;
    let shared: u64 = fields.next()?.parse().ok()?;
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_shared_does_not_count() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(private_bytes("900 30 10 5 0 100 0\n"), Some(20 * page));
        assert_eq!(private_bytes("900 10 30 5 0 100 0\n"), Some(0));
        assert_eq!(private_bytes("900 x"), None);
    }
}
