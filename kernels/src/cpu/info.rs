//! The processor's name and the memory size, as the operating system reports them.

use std::fs;

/// The processor's name, or its architecture if the system does not report one.
pub(super) fn product() -> String {
    let listed = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    model_name(&listed).map_or_else(|| format!("{} CPU", std::env::consts::ARCH), str::to_owned)
}

/// The machine's memory or the limit of the control group, whichever is less; 0 if the system reports neither.
pub(super) fn memory_bytes() -> u64 {
    let whole = fs::read_to_string("/proc/meminfo").ok().and_then(|listed| total(&listed)).unwrap_or(0);
    let allowed = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|max| max.trim().parse().ok());
    allowed.map_or(whole, |allowed: u64| if whole == 0 { allowed } else { allowed.min(whole) })
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let (_, name) = cpuinfo.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(name.trim()).filter(|name| !name.is_empty())
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        assert_eq!(model_name("processor\t: 0\nmodel name\t: A Fast One\n"), Some("A Fast One"));
        assert_eq!(model_name("processor\t: 0\n"), None);
        assert_eq!(total("MemTotal:       24696064 kB\nMemFree: 1 kB\n"), Some(24_696_064 * 1024));
        assert_eq!(total("MemTotal: many\n"), None);
    }
}
