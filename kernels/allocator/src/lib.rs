//! Control of `mimalloc`, the daemon's allocator: when it returns free memory to the kernel.
//!
//! It keeps freed memory for a while, since returning and faulting in pages costs time. Where memory is short, what is kept counts
//! against the process's limit like memory in use.

use std::ffi::{c_int, c_long};

// Links the library that has the functions below.
use mimalloc as _;

/// Index of `mi_option_purge_delay` in `mi_option_t`.
const PURGE_DELAY: c_int = 15;

/// The allocator's default for it, in milliseconds.
const DEFAULT_DELAY: c_long = 1000;

unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
}

/// Returns memory to the kernel that has been free for longer than the allocator's delay; with `force`, all that is free in no
/// thread's own pages. The allocator does so itself only when it is called.
pub fn trim(force: bool) {
    // SAFETY: it may be called from any thread, and frees nothing that is in use.
    unsafe { mi_collect(force) }
}

/// Sets whether memory returns to the kernel as soon as it is free, rather than after a second. What is free then returns, too.
pub fn set_prompt(prompt: bool) {
    // Before the change: the allocator purges nothing later where it purges at once.
    trim(prompt);
    // SAFETY: options are atomic integers, and the index is that of the version that is linked, which a test checks.
    unsafe { mi_option_set(PURGE_DELAY, if prompt { 0 } else { DEFAULT_DELAY }) }
}

/// Returns true if memory returns to the kernel as soon as it is free.
pub fn is_prompt() -> bool {
    // SAFETY: as above.
    unsafe { mi_option_get(PURGE_DELAY) == 0 }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

    fn resident() -> u64 {
        let status = fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
    }

    /// Allocates and frees; returns what stays resident.
    fn kept() -> u64 {
        let before = resident();
        drop(vec![vec![1_u8; 1 << 20]; 128]);
        resident().saturating_sub(before)
    }

    #[test]
    fn free_memory_is_kept_until_it_is_trimmed_or_returned_promptly() {
        // SAFETY: reads an option.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, DEFAULT_DELAY, "the index or the default has changed");
        let before = resident();
        assert!(kept() > 64 << 20, "the allocator keeps it");
        trim(true);
        assert!(resident().saturating_sub(before) < 32 << 20, "it is returned");
        set_prompt(true);
        assert!(is_prompt());
        assert!(kept() < 32 << 20);
        set_prompt(false);
        assert!(!is_prompt());
    }
}
