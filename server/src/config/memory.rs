//! How much memory the process may use, and the shares of it that settings of `"auto"` become.
//!
//! A container's limit is read from its control group: in version 2 the smallest `memory.max` from the process's own group
//! up to the root, in version 1 the same of `memory.limit_in_bytes`. Where no group sets a limit, all of the machine's memory
//! counts. The shares add up to less than the whole, so that a daemon whose budgets are all full is refused work and not
//! ended by the kernel.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use super::{ByteSize, Config};

/// What version 1 of control groups reports where there is no limit is close to `i64::MAX`; no machine has as much.
const UNLIMITED: u64 = 1 << 60;

/// Used where neither a control group nor the kernel says anything.
const FALLBACK: u64 = 4 << 30;

/// Memory that the process may use, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub bytes: u64,
    /// Where the figure comes from.
    pub origin: Origin,
}

/// Where the figure comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file of a control group.
    ControlGroup(PathBuf),
    /// `/proc/meminfo`: the machine's memory.
    Machine,
    /// Nothing could be read, and a small machine is assumed.
    Assumed,
    /// A caller of [`Memory::of`].
    Given,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = ByteSize::b(self.bytes);
        match &self.origin {
            Origin::ControlGroup(file) => write!(f, "{size}, the limit in {}", file.display()),
            Origin::Machine => write!(f, "{size}, the machine's memory: no control group sets a limit"),
            Origin::Assumed => write!(f, "{size}, assumed: neither a control group nor /proc/meminfo says more"),
            Origin::Given => write!(f, "{size}"),
        }
    }
}

impl Memory {
    /// As much as given.
    pub fn of(bytes: u64) -> Self {
        Self { bytes, origin: Origin::Given }
    }

    /// What this process may use.
    pub fn detect() -> Self {
        Self::below(Path::new("/"))
    }

    /// The same, with `/proc` and `/sys` below another folder.
    fn below(root: &Path) -> Self {
        let machine = machine(root);
        let limits = groups(root).into_iter().flat_map(|(top, group, file)| limits(&top, &group, file));
        let smallest =
            limits.filter(|(bytes, _)| *bytes < machine.unwrap_or(UNLIMITED)).min_by_key(|(bytes, _)| *bytes);
        match (smallest, machine) {
            (Some((bytes, file)), _) => Self { bytes, origin: Origin::ControlGroup(file) },
            (None, Some(bytes)) => Self { bytes, origin: Origin::Machine },
            (None, None) => Self { bytes: FALLBACK, origin: Origin::Assumed },
        }
    }
}

/// All memory of the machine.
fn machine(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kib: u64 =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The process's groups that may limit memory: mount point, path below it, and the name of the file with the limit.
fn groups(root: &Path) -> Vec<(PathBuf, PathBuf, &'static str)> {
    let Ok(text) = fs::read_to_string(root.join("proc/self/cgroup")) else { return vec![] };
    let group = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        // A path that leaves the root is one outside of the process's namespace.
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

/// The limits of a group and of all above it. Inside of a container the path may not exist below the mount point, which then
/// is the group itself.
fn limits(top: &Path, group: &Path, file: &str) -> Vec<(u64, PathBuf)> {
    let limit = |folder: &Path| {
        let path = top.join(folder).join(file);
        let bytes = fs::read_to_string(&path).ok()?.trim().parse::<u64>().ok()?;
        (bytes < UNLIMITED && bytes > 0).then_some((bytes, path))
    };
    group.ancestors().filter_map(limit).collect()
}

/// What each setting of `"auto"` gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// `store.memory_limit`.
    pub store: u64,
    /// `models.memory_limit`.
    pub models: u64,
    /// `admission.max_bytes`.
    pub admission: u64,
    /// `admission.max_message_memory`.
    pub messages: u64,
}

impl Shares {
    /// The shares of so much memory: 40% for collections, 20% for models, 10% each for admitted work and for messages. A fifth
    /// stays free for what no budget counts: code, stacks, caches, fragments of the heap, and what batches need while they
    /// run. Messages get at least twice the largest message, at the expense of collections. Work and messages never get more than
    /// they can use.
    pub fn of(memory: u64, max_message: u64) -> Self {
        let share = |percent: u64| memory / 100 * percent;
        let twice = max_message.saturating_mul(2);
        let messages = share(10).max(twice).min((1 << 30).max(twice));
        Self {
            // No less than a tenth: zero would mean no cap.
            store: share(50).saturating_sub(messages.max(share(10))).max(share(10)),
            models: share(20),
            admission: share(10).min(2 << 30),
            messages,
        }
    }
}

/// Settings that may be `"auto"`.
pub(super) const KEYS: [&str; 4] =
    ["store.memory_limit", "models.memory_limit", "admission.max_bytes", "admission.max_message_memory"];

/// Puts figures in the place of `"auto"`. Returns the settings that were.
pub(super) fn resolve(config: &mut Config) -> Vec<&'static str> {
    let shares = Shares::of(config.memory.bytes, config.server.max_message_bytes.as_u64());
    let fields = [
        (&mut config.store.memory_limit, shares.store),
        (&mut config.models.memory_limit, shares.models),
        (&mut config.admission.max_bytes, shares.admission),
        (&mut config.admission.max_message_memory, shares.messages),
    ];
    let mut derived = vec![];
    for (key, (size, share)) in KEYS.into_iter().zip(fields) {
        if size.is_auto() {
            *size = ByteSize::b(share);
            derived.push(key);
        }
    }
    derived
}

/// What the budgets add up to where each has a cap.
pub(super) fn promised(config: &Config) -> Option<u64> {
    let capped = |size: ByteSize| Some(size.as_u64()).filter(|bytes| *bytes > 0);
    let store = capped(config.store.memory_limit)?;
    let models = capped(config.models.memory_limit)?;
    let (work, messages) = (config.admission.max_bytes.as_u64(), config.admission.max_message_memory.as_u64());
    Some(store.saturating_add(models).saturating_add(work).saturating_add(messages))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        let Memory { bytes, origin } = Memory::below(root.path());
        let file = match origin {
            Origin::ControlGroup(file) => Some(file.strip_prefix(root.path()).expect("below").display().to_string()),
            Origin::Machine | Origin::Assumed | Origin::Given => None,
        };
        (bytes, file)
    }

    #[test]
    fn the_smallest_limit_from_the_groups_of_version_2_up_counts() {
        let group = ("proc/self/cgroup", "0::/kubepods/pod1/container\n");
        let controllers = ("sys/fs/cgroup/cgroup.controllers", "memory");
        let container = ("sys/fs/cgroup/kubepods/pod1/container/memory.max", "max\n");
        let pod = ("sys/fs/cgroup/kubepods/pod1/memory.max", "2147483648\n");
        let all = ("sys/fs/cgroup/kubepods/memory.max", "4294967296\n");
        let found = detected(&[group, controllers, container, pod, all]);
        assert_eq!(found, (2 << 30, Some("sys/fs/cgroup/kubepods/pod1/memory.max".to_owned())));
    }

    #[test]
    fn the_mount_point_is_the_group_where_a_container_sees_no_more() {
        let group = ("proc/self/cgroup", "0::/../../pod1/container\n");
        let controllers = ("sys/fs/cgroup/cgroup.controllers", "memory");
        let own = ("sys/fs/cgroup/memory.max", "1073741824\n");
        assert_eq!(detected(&[group, controllers, own]), (1 << 30, Some("sys/fs/cgroup/memory.max".to_owned())));
    }

    #[test]
    fn version_1_and_mixed_hierarchies_are_read() {
        let group = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
        let none = ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        let some = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "536870912\n");
        let expected = (512 << 20, Some("sys/fs/cgroup/memory/a/memory.limit_in_bytes".to_owned()));
        assert_eq!(detected(&[group, none, some]), expected);
        assert_eq!(detected(&[group, none]), (8 << 30, None), "no limit is the machine's memory");
    }

    #[test]
    fn a_limit_above_the_machine_s_memory_or_unreadable_files_are_no_limit() {
        let group = ("proc/self/cgroup", "4:memory:/a\n");
        let more = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "99999999999999\n");
        let broken = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "lots\n");
        for files in [&[group, more][..], &[group, broken], &[("proc/self/cgroup", "\n::\nx")], &[]] {
            assert_eq!(detected(files), (8 << 30, None), "{files:?}");
        }
        let nothing = tempfile::tempdir().expect("a folder");
        assert_eq!(Memory::below(nothing.path()).origin, Origin::Assumed);
    }

    proptest! {
        #[test]
        fn shares_fit_into_the_memory_with_a_fifth_to_spare(memory in (1u64 << 30)..(1 << 45)) {
            let Shares { store, models, admission, messages } = Shares::of(memory, 64 << 20);
            prop_assert!(store + models + admission + messages <= memory / 5 * 4);
            prop_assert!(messages >= 128 << 20);
        }
    }
}
