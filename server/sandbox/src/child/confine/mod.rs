//! Confinement of the child process before it sees anything of a client: resources, capabilities, paths and system calls.
//!
//! Address space is not limited: each slot of the pooling allocator reserves 4 GiB of it without access. `RLIMIT_DATA` counts what may be
//! written, so it limits the heap, the memories of instances and compiled code.

mod capabilities;
mod paths;
mod syscalls;

use std::{fs, io, thread};

pub(super) use capabilities::drop_all as drop_capabilities;
use rustix::process::{
    Resource, Rlimit, Signal, getppid, nice, set_dumpable_behavior, set_parent_process_death_signal,
};

/// A module with data segments keeps one file in memory open.
const MAX_OPEN_FILES: u64 = 512;

/// Rights that a child keeps once it is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Access {
    /// Memory, threads, and the files that are open.
    Computing,
    /// The driver of the GPUs: its device files and libraries.
    Device,
}

/// Lowers the limits of the process; `memory_bytes` is the memory that it may allocate from now on, if that is limited.
#[doc(hidden)]
pub fn limit_resources(memory_bytes: Option<u64>, niceness: i32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().is_none() {
        return Err(io::Error::other("the parent process has ended"));
    }
    rustix::thread::set_no_new_privs(true)?;
    // Other processes of this user cannot read the memory of the child, and it leaves no dump.
    set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Nofile, MAX_OPEN_FILES)?;
    if let Some(bytes) = memory_bytes {
        limit(Resource::Data, data_bytes()?.saturating_add(bytes))?;
    }
    nice(niceness)?;
    Ok(())
}

/// Gives up all capabilities, and all paths and system calls beyond `access`. Filters of system calls hold for all threads; capabilities and
/// paths for this one and those that it starts. What the kernel lacks is left out: see [`missing_confinement`].
#[doc(hidden)]
pub fn confine_to(access: Access) -> io::Result<()> {
    capabilities::drop_all()?;
    match access {
        Access::Computing => {
            paths::allow_none()?;
            syscalls::allow_computing()?;
        }
        Access::Device => {
            paths::allow_driver()?;
            syscalls::deny_other_processes()?;
        }
    }
    Ok(())
}

/// Returns the features that the kernel, or the container of this process, lacks to confine child processes. This process is not confined.
pub fn missing_confinement() -> Vec<&'static str> {
    // Both are properties of a thread.
    let probe = thread::Builder::new().name("confinement".into()).spawn(|| {
        let paths = paths::allow_none().unwrap_or(paths::Enforcement::None);
        let syscalls = syscalls::allow_all().unwrap_or(false);
        (paths, syscalls)
    });
    let (paths, syscalls) = probe.ok().and_then(|probe| probe.join().ok()).unwrap_or((paths::Enforcement::None, false));
    let paths = match paths {
        paths::Enforcement::Full => None,
        paths::Enforcement::Partial => Some("Landlock for network and signals"),
        paths::Enforcement::None => Some("Landlock"),
    };
    paths.into_iter().chain((!syscalls).then_some("seccomp filters")).collect()
}

/// Opens no further file from now on: those that are open stay.
pub(super) fn forbid_opening() -> io::Result<()> {
    limit(Resource::Nofile, 0)
}

/// Sets a limit that cannot be raised again; a lower one stays.
fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let maximum = rustix::process::getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) })?)
}

/// Bytes that `RLIMIT_DATA` counts already.
fn data_bytes() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kilobytes.ok_or_else(|| io::Error::other("/proc/self/status has no VmData"))? * 1024)
}
