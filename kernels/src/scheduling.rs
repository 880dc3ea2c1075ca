//! Scheduling parameters of threads: the slice that the operating system gives to a thread.

/// The slice of threads that answer: far below the 3 ms that Linux gives to threads that compute, and above what one event takes.
const SHORT_SLICE_NANOS: u64 = 100_000;

/// Lets the calling thread run as soon as it wakes, although others compute on all cores: Linux prefers the thread whose slice ends first. Its
/// share of a core and its nice value stay as they are, and threads that it starts have the usual slice.
///
/// Linux has slices since version 6.12. Where there are none, or a sandbox forbids the system call, nothing changes.
pub fn use_short_slice() {
    // SAFETY: reads the nice value of this thread, without memory of ours.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).expect("a small structure"),
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SHORT_SLICE_NANOS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the system only reads the attributes, whose size is their first field; thread 0 is the calling one.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use std::{io, thread};

    use super::*;

    fn attributes() -> libc::sched_attr {
        // SAFETY: a structure of numbers, for which zeros are valid.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the system writes at most `size` bytes to it.
        let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } != 0;
        assert!(!failed, "{}", io::Error::last_os_error());
        attributes
    }

    #[test]
    fn only_the_slice_of_the_thread_changes() {
        let run = || {
            // SAFETY: sets the nice value of this thread, without memory of ours.
            assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) }, 0);
            let before = attributes();
            use_short_slice();
            let after = attributes();
            assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, 5));
            let slice_of_system = before.sched_runtime;
            let expected = if slice_of_system == 0 { 0 } else { SHORT_SLICE_NANOS };
            assert_eq!(after.sched_runtime, expected, "systems without slices report 0");
            let started = thread::spawn(attributes).join().expect("it does not panic");
            assert_eq!((started.sched_runtime, started.sched_nice), (slice_of_system, 5));
        };
        thread::spawn(run).join().expect("the thread has its slice");
    }
}
