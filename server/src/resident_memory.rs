//! Watches the resident memory of the process, and has the allocator return free memory to the kernel.
//!
//! The ledger counts what is in use. The allocator keeps what was freed for a second, which is faster, but the kernel kills a
//! process for it. So memory returns at once while much of the reserve is used up, and soon after it is idle otherwise.

use std::{
    fs, io,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use accelerd_kernels::ledger::Ledger;

use crate::config::Config;

/// Interval of the watch. Memory that is faulted in meanwhile must fit into what is left of the reserve.
const INTERVAL: Duration = Duration::from_millis(25);

/// Checks between two trims of a process that has enough memory.
const IDLE_TRIM: u32 = 40;

/// Starts the watch, which ends with the ledger.
pub(crate) fn watch(config: &Config, ledger: &Arc<Ledger>) -> io::Result<()> {
    let mut pressure = Pressure::new(config.process_memory.bytes, config.memory.reserve.as_u64());
    let ledger = Arc::downgrade(ledger);
    thread::Builder::new().name("memory".to_owned()).spawn(move || run(&mut pressure, &ledger)).map(drop)
}

fn run(pressure: &mut Pressure, ledger: &Weak<Ledger>) {
    let mut checks = 0_u32;
    while ledger.strong_count() > 0 {
        let Some(resident) = anonymous() else { return };
        if pressure.update(resident) {
            tracing::debug!(resident, is_high = pressure.is_high, "pressure of resident memory changed");
            accelerd_allocator::set_prompt(pressure.is_high);
        }
        checks = checks.wrapping_add(1);
        if checks.is_multiple_of(IDLE_TRIM) {
            accelerd_allocator::trim(false);
        }
        thread::sleep(INTERVAL);
    }
    if pressure.is_high {
        accelerd_allocator::set_prompt(false);
    }
}

/// Anonymous resident memory of the process in bytes; the kernel can drop the rest.
fn anonymous() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Detects high resident memory, with hysteresis.
#[derive(Debug)]
struct Pressure {
    high: u64,
    low: u64,
    is_high: bool,
}

impl Pressure {
    /// The upper threshold leaves three quarters of the reserve, the lower one seven eighths.
    fn new(memory: u64, reserve: u64) -> Self {
        let less = |eighths| memory.saturating_sub(reserve / 8 * eighths);
        Self { high: less(6), low: less(7), is_high: false }
    }

    /// Returns whether it has changed.
    fn update(&mut self, resident: u64) -> bool {
        let bound = if self.is_high { self.low } else { self.high };
        let was_high = std::mem::replace(&mut self.is_high, resident > bound);
        was_high != self.is_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_begins_where_a_quarter_of_the_reserve_is_used_and_ends_below() {
        let mut pressure = Pressure::new(1000, 80);
        assert_eq!([930, 940, 941].map(|resident| pressure.update(resident)), [false, false, true]);
        assert_eq!([931, 930, 931].map(|resident| pressure.update(resident)), [false, true, false]);
        assert!(!pressure.is_high);
    }

    #[test]
    fn resident_memory_can_be_read() {
        assert!(anonymous().is_some_and(|bytes| bytes > 0));
    }
}
