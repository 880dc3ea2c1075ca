//! The clock of time limits: a thread that ticks while a request is served.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use wasmtime::Engine;

use crate::{limits::TICK, statm::private_pages};

/// Ticks between two looks at the memory of the process.
const MEMORY_CHECK_TICKS: u64 = 8;

/// Exit code of a child that used more memory than it may.
pub(crate) const OUT_OF_MEMORY_EXIT: i32 = 78;

/// Counts ticks while a request is served, and increments the epoch of the engines with each.
pub(super) struct Clock {
    ticks: AtomicU64,
    is_busy: Mutex<bool>,
    changed: Condvar,
}

/// Lets the clock tick until it is dropped.
pub(super) struct Busy<'a>(&'a Clock);

/// Ends the process when its thread panics: without a clock, no time limit and no limit of memory would hold.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

impl Clock {
    /// Starts the thread. The process exits if its resident memory exceeds `memory_bytes`.
    pub(super) fn start(engines: Vec<Engine>, memory: ResidentMemory, memory_bytes: u64) -> io::Result<Arc<Self>> {
        let clock = Arc::new(Self { ticks: AtomicU64::new(0), is_busy: Mutex::new(false), changed: Condvar::new() });
        let ticking = Arc::clone(&clock);
        let run = move || {
            let _abort = AbortOnPanic;
            ticking.run(&engines, &memory, memory_bytes);
        };
        thread::Builder::new().name("clock".into()).spawn(run)?;
        Ok(clock)
    }

    /// A clock that stands at 0.
    #[cfg(test)]
    pub(super) fn stopped() -> Self {
        Self { ticks: AtomicU64::new(0), is_busy: Mutex::new(false), changed: Condvar::new() }
    }

    /// Ticks so far.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    pub(super) fn busy(&self) -> Busy<'_> {
        self.set_busy(true);
        Busy(self)
    }

    fn set_busy(&self, busy: bool) {
        *self.is_busy.lock().unwrap_or_else(PoisonError::into_inner) = busy;
        self.changed.notify_one();
    }

    fn run(&self, engines: &[Engine], memory: &ResidentMemory, memory_bytes: u64) {
        loop {
            let idle = self.is_busy.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.changed.wait_while(idle, |busy| !*busy).unwrap_or_else(PoisonError::into_inner));
            thread::sleep(TICK);
            let ticks = self.ticks.fetch_add(1, Ordering::Relaxed);
            engines.iter().for_each(Engine::increment_epoch);
            if ticks.is_multiple_of(MEMORY_CHECK_TICKS) && memory.bytes().is_some_and(|bytes| bytes > memory_bytes) {
                eprintln!("resident memory exceeds the limit of {memory_bytes} bytes");
                std::process::exit(OUT_OF_MEMORY_EXIT);
            }
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

/// Ticks after which at least `duration` has passed, wherever between two ticks it starts.
pub(super) fn ticks_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX - 1).saturating_add(1).min(1 << 40)
}

/// Private resident memory of the process.
pub(super) struct ResidentMemory {
    statm: File,
    /// Read before the process is confined: the size of a page may come from a file.
    page_bytes: u64,
}

impl ResidentMemory {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { statm: File::open("/proc/self/statm")?, page_bytes: rustix::param::page_size() as u64 })
    }

    fn bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.statm.read_at(&mut text, 0).ok()?;
        Some(private_pages(std::str::from_utf8(text.get(..length)?).ok()?)? * self.page_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_never_cut_short() {
        assert_eq!(ticks_of(Duration::ZERO), 1);
        assert_eq!(ticks_of(TICK), 2);
        assert_eq!(ticks_of(TICK + Duration::from_nanos(1)), 3);
        assert_eq!(ticks_of(Duration::MAX), 1 << 40);
    }
}
