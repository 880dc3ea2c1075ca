//! Paths, by Landlock. Its rules hold for this thread and for those that it starts, and cannot be lifted.

use std::{env, fs, io, path::PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

/// The newest version whose rights are named here. Older kernels enforce those that they know.
const VERSION: ABI = ABI::V6;

/// Where systems keep the driver's libraries and what these read.
const DRIVER_PATHS: [&str; 13] = [
    "/usr",
    "/lib",
    "/lib64",
    "/nix/store",
    "/run/opengl-driver",
    "/etc/ld.so.cache",
    "/sys",
    "/proc/self",
    "/proc/driver",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/meminfo",
    "/proc/modules",
];

/// Devices that the driver opens, besides its own.
const DEVICE_PATHS: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/urandom"];

/// Prefixes of the driver's devices on servers, on Jetson, and on WSL.
const DEVICE_PREFIXES: [&str; 5] = ["nvidia", "nvhost", "nvmap", "nvgpu", "dxg"];

/// The part of a set of rules that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enforcement {
    Full,
    Partial,
    None,
}

/// Nothing can be opened, connected to or signalled.
pub(super) fn allow_none() -> io::Result<Enforcement> {
    enforce(ruleset())
}

/// The libraries of the driver can be read, and its devices also written.
pub(super) fn allow_driver() -> io::Result<Enforcement> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let library_path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let library_paths = env::split_paths(&library_path).filter(|path| path.is_absolute());
    let readable = DRIVER_PATHS.iter().map(PathBuf::from).chain(library_paths);
    enforce(ruleset().and_then(|rules| {
        rules
            .add_rules(path_beneath_rules(readable, read))?
            .add_rules(path_beneath_rules(devices(), AccessFs::from_all(VERSION)))
    }))
}

/// The driver's devices, and the folders of those of parts of a GPU.
fn devices() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_device = |name: &str| DEVICE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let of_driver = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_device));
    DEVICE_PATHS.iter().map(PathBuf::from).chain(of_driver.map(|entry| entry.path())).collect()
}

/// Rules about everything that can be ruled, without an exception.
fn ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?
        .create()
}

fn enforce(rules: Result<RulesetCreated, RulesetError>) -> io::Result<Enforcement> {
    let status = rules.and_then(RulesetCreated::restrict_self).map_err(io::Error::other)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforcement::Full,
        RulesetStatus::PartiallyEnforced => Enforcement::Partial,
        RulesetStatus::NotEnforced => Enforcement::None,
    })
}
