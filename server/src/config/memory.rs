//! The memory available to the process.
//!
//! A container's limit is that of its cgroup: in version 2 the smallest `memory.max` from the process's cgroup up to the
//! root, in version 1 likewise `memory.limit_in_bytes`. Without a limit it is the machine's memory.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use super::size::ByteSize;

/// Without a limit, cgroup v1 reports a value close to `i64::MAX`, more than any machine has.
const UNLIMITED: u64 = 1 << 60;

/// Assumed if neither a cgroup nor `/proc/meminfo` can be read.
const FALLBACK: u64 = 4 << 30;

/// Memory that the process may use, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Bytes.
    pub bytes: u64,
    /// Source of the number.
    pub origin: MemoryOrigin,
}

/// Source of the available memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryOrigin {
    /// The limit in this file of a cgroup.
    Cgroup(PathBuf),
    /// `/proc/meminfo`: the machine's memory.
    Machine,
    /// Nothing could be read; a small machine is assumed.
    Assumed,
    /// Given to [`ProcessMemory::of`].
    Given,
}

impl fmt::Display for ProcessMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = ByteSize::b(self.bytes);
        match &self.origin {
            MemoryOrigin::Cgroup(file) => write!(f, "{size}, the limit in {}", file.display()),
            MemoryOrigin::Machine => write!(f, "{size}, the machine's memory: no cgroup limit"),
            MemoryOrigin::Assumed => write!(f, "{size}, assumed: neither a cgroup nor /proc/meminfo can be read"),
            MemoryOrigin::Given => write!(f, "{size}"),
        }
    }
}

impl ProcessMemory {
    /// A given amount.
    pub fn of(bytes: u64) -> Self {
        Self { bytes, origin: MemoryOrigin::Given }
    }

    /// Detects the memory available to this process.
    pub fn detect() -> Self {
        Self::detect_in(Path::new("/"))
    }

    /// As [`Self::detect`], with `/proc` and `/sys` below `root`.
    fn detect_in(root: &Path) -> Self {
        let machine = machine_memory(root);
        let limits = cgroups(root).into_iter().flat_map(|(top, group, file)| limits(&top, &group, file));
        let smallest =
            limits.filter(|(bytes, _)| *bytes < machine.unwrap_or(UNLIMITED)).min_by_key(|(bytes, _)| *bytes);
        match (smallest, machine) {
            (Some((bytes, file)), _) => Self { bytes, origin: MemoryOrigin::Cgroup(file) },
            (None, Some(bytes)) => Self { bytes, origin: MemoryOrigin::Machine },
            (None, None) => Self { bytes: FALLBACK, origin: MemoryOrigin::Assumed },
        }
    }
}

/// The machine's memory in bytes.
fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kib: u64 =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The process's cgroups that may limit memory: mount point, path below it, and name of the limit's file.
fn cgroups(root: &Path) -> Vec<(PathBuf, PathBuf, &'static str)> {
    let Ok(text) = fs::read_to_string(root.join("proc/self/cgroup")) else { return vec![] };
    let group = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let _hierarchy = fields.next()?;
        let controllers = fields.next()?;
        let path = fields.next()?;
        // A path above the root is outside of the process's cgroup namespace.
        let path = PathBuf::from(path.trim_start_matches('/').trim_start_matches("../"));
        if controllers.is_empty() {
            let unified = [root.join("sys/fs/cgroup"), root.join("sys/fs/cgroup/unified")];
            let top = unified.into_iter().find(|top| top.join("cgroup.controllers").exists())?;
            Some((top, path, "memory.max"))
        } else if controllers.split(',').any(|name| name == "memory") {
            Some((root.join("sys/fs/cgroup/memory"), path, "memory.limit_in_bytes"))
        } else {
            None
        }
    };
    text.lines().filter_map(group).collect()
}

/// The limits of a cgroup and its ancestors. In a container the path may not exist: then the mount point is the cgroup.
fn limits(top: &Path, group: &Path, file: &str) -> Vec<(u64, PathBuf)> {
    let limit = |folder: &Path| {
        let path = top.join(folder).join(file);
        let bytes = fs::read_to_string(&path).ok()?.trim().parse::<u64>().ok()?;
        (bytes < UNLIMITED && bytes > 0).then_some((bytes, path))
    };
    group.ancestors().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 8 GiB with these files.
    fn machine_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in [("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n")].iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        root
    }

    fn detected(files: &[(&str, &str)]) -> (u64, Option<String>) {
        let root = machine_with(files);
        let ProcessMemory { bytes, origin } = ProcessMemory::detect_in(root.path());
        let file = match origin {
            MemoryOrigin::Cgroup(file) => Some(file.strip_prefix(root.path()).expect("below").display().to_string()),
            MemoryOrigin::Machine | MemoryOrigin::Assumed | MemoryOrigin::Given => None,
        };
        (bytes, file)
    }

    #[test]
    fn the_smallest_limit_of_the_cgroup_v2_ancestors_counts() {
        let group = ("proc/self/cgroup", "0::/kubepods/pod1/container\n");
        let controllers = ("sys/fs/cgroup/cgroup.controllers", "memory");
        let container = ("sys/fs/cgroup/kubepods/pod1/container/memory.max", "max\n");
        let pod = ("sys/fs/cgroup/kubepods/pod1/memory.max", "2147483648\n");
        let all = ("sys/fs/cgroup/kubepods/memory.max", "4294967296\n");
        let found = detected(&[group, controllers, container, pod, all]);
        assert_eq!(found, (2 << 30, Some("sys/fs/cgroup/kubepods/pod1/memory.max".to_owned())));
    }

    #[test]
    fn the_mount_point_is_the_cgroup_in_a_container() {
        let group = ("proc/self/cgroup", "0::/../../pod1/container\n");
        let controllers = ("sys/fs/cgroup/cgroup.controllers", "memory");
        let own = ("sys/fs/cgroup/memory.max", "1073741824\n");
        assert_eq!(detected(&[group, controllers, own]), (1 << 30, Some("sys/fs/cgroup/memory.max".to_owned())));
    }

    #[test]
    fn cgroup_v1_and_hybrid_hierarchies_are_read() {
        let group = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
        let none = ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        let some = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912\n");
        let expected = (512 << 20, Some("sys/fs/cgroup/memory/a/memory.limit_in_bytes".to_owned()));
        assert_eq!(detected(&[group, none, some]), expected);
        assert_eq!(detected(&[group, none]), (8 << 30, None), "no limit is the machine's memory");
    }

    #[test]
    fn limits_above_the_machine_memory_and_unreadable_files_do_not_count() {
        let group = ("proc/self/cgroup", "4:memory:/a\n");
        let more = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "99999999999999\n");
        let broken = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "lots\n");
        for files in [&[group, more][..], &[group, broken], &[("proc/self/cgroup", "\n::\nx")], &[]] {
            assert_eq!(detected(files), (8 << 30, None), "{files:?}");
        }
        let nothing = tempfile::tempdir().expect("a folder");
        assert_eq!(ProcessMemory::detect_in(nothing.path()).origin, MemoryOrigin::Assumed);
    }
}
