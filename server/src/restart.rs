//! Starting the daemon again after the loss of its GPUs: an error of a kernel ends CUDA for the whole process, and only a new
//! one can use the GPUs again.

use std::{
    env, fmt, fs, io,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::sleep;

use crate::config::{Restart, environment};

/// The environment variable that hands the times of earlier restarts to the next image.
const VARIABLE: &str = "ACCELERD_RESTARTS";

/// Most restarts within [`WINDOW`]. Beyond it the cause is likely to come back at once.
const MAX_RESTARTS: usize = 3;
const WINDOW: Duration = Duration::from_secs(3600);

/// Interval at which a refused restart is considered again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Why the daemon does not start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The setting says so.
    Never,
    /// The pod is replaced once liveness is false.
    Kubernetes,
    /// Collections would be lost.
    InMemoryCollections,
    /// There were [`MAX_RESTARTS`] within [`WINDOW`].
    TooMany,
}

impl Refusal {
    /// Returns true if it stands for the rest of the process's life.
    fn is_final(self) -> bool {
        match self {
            Self::Never | Self::Kubernetes => true,
            Self::InMemoryCollections | Self::TooMany => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("cuda.restart is \"never\""),
            Self::Kubernetes => f.write_str("Kubernetes replaces the pod"),
            Self::InMemoryCollections => f.write_str("collections that are in memory only would be lost"),
            Self::TooMany => write!(f, "it started {MAX_RESTARTS} times within {WINDOW:?} already"),
        }
    }
}

/// The times of earlier restarts, in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History(Vec<u64>);

impl History {
    /// Reads the values that the previous image handed over. Anything that is not a number is left out.
    pub(crate) fn read(environment: impl Iterator<Item = (String, String)>) -> Self {
        let mut values = environment.filter(|(name, _)| name == VARIABLE);
        let times = values.next().map(|(_, value)| value.split(',').filter_map(|time| time.parse().ok()).collect());
        Self(times.unwrap_or_default())
    }

    /// Restarts within the window that ends `now`. Times in the future, after the clock was set back, count as well.
    fn recent(&self, now: SystemTime) -> impl Iterator<Item = u64> {
        let start = seconds(now).saturating_sub(WINDOW.as_secs());
        self.0.iter().copied().filter(move |time| *time > start)
    }

    /// With one more restart, and without those that no longer count.
    fn with(&self, now: SystemTime) -> Self {
        Self(self.recent(now).chain([seconds(now)]).collect())
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times: Vec<_> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&times.join(","))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Rules of a restart, besides those about collections.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) setting: Restart,
    pub(crate) is_kubernetes: bool,
    pub(crate) history: History,
}

impl Policy {
    /// The policy of this process.
    pub(crate) fn detect(setting: Restart) -> Self {
        let is_kubernetes = environment().any(|(name, value)| name == "KUBERNETES_SERVICE_HOST" && !value.is_empty());
        Self { setting, is_kubernetes, history: History::read(environment()) }
    }

    fn check(&self, has_in_memory_collections: bool, now: SystemTime) -> Result<(), Refusal> {
        match self.setting {
            Restart::Never => return Err(Refusal::Never),
            Restart::Auto if self.is_kubernetes => return Err(Refusal::Kubernetes),
            Restart::Auto if has_in_memory_collections => return Err(Refusal::InMemoryCollections),
            Restart::Auto | Restart::Always => {}
        }
        if self.history.recent(now).count() >= MAX_RESTARTS { Err(Refusal::TooMany) } else { Ok(()) }
    }
}

/// Returns once the daemon is to start again: when the policy and the collections permit it. Logs why they do not, once for
/// each reason. Never returns if the policy forbids it.
pub(crate) async fn permitted(policy: Policy, has_in_memory_collections: impl Fn() -> bool) {
    let mut logged = None;
    loop {
        let Err(refusal) = policy.check(has_in_memory_collections(), SystemTime::now()) else { return };
        if logged.replace(refusal) != Some(refusal) {
            tracing::warn!(reason = %refusal, "the GPUs stay lost: the daemon does not start again");
        }
        if refusal.is_final() {
            return std::future::pending().await;
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Replaces the process by a new image of the same binary, with the same arguments and environment. Returns only if that
/// fails.
pub(crate) fn execute_again() -> io::Error {
    let history = History::read(environment()).with(SystemTime::now());
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    Command::new(executable()).arg0(name).args(arguments).env(VARIABLE, history.to_string()).exec()
}

/// The binary of this process: by its path, which the process is then named after, unless another file is there by now.
fn executable() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    let is_running = |path: &PathBuf| match (fs::metadata(path), fs::metadata(running)) {
        (Ok(file), Ok(image)) => (file.dev(), file.ino()) == (image.dev(), image.ino()),
        (Err(_), _) | (_, Err(_)) => false,
    };
    env::current_exe().ok().filter(is_running).unwrap_or_else(|| running.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    };

    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn policy(setting: Restart, times: &[u64]) -> Policy {
        Policy { setting, is_kubernetes: false, history: History(times.to_vec()) }
    }

    #[test]
    fn the_setting_kubernetes_and_collections_decide() {
        use Refusal::{InMemoryCollections, Kubernetes, Never};
        for (setting, is_kubernetes, in_memory, expected) in [
            (Restart::Auto, false, false, Ok(())),
            (Restart::Auto, true, false, Err(Kubernetes)),
            (Restart::Auto, false, true, Err(InMemoryCollections)),
            (Restart::Always, true, true, Ok(())),
            (Restart::Never, false, false, Err(Never)),
        ] {
            let policy = Policy { is_kubernetes, ..policy(setting, &[]) };
            assert_eq!(policy.check(in_memory, at(NOW)), expected, "{setting:?}, {is_kubernetes}, {in_memory}");
        }
    }

    #[test]
    fn restarts_are_bounded_within_the_window() {
        let check = |times: &[u64]| policy(Restart::Always, times).check(false, at(NOW));
        assert_eq!(check(&[NOW - 3, NOW - 2]), Ok(()));
        assert_eq!(check(&[NOW - 3, NOW - 2, NOW - 1]), Err(Refusal::TooMany));
        assert_eq!(check(&[NOW - WINDOW.as_secs(), NOW - 2, NOW - 1]), Ok(()), "the first no longer counts");
        assert_eq!(check(&[NOW + 9, NOW + 9, NOW + 9]), Err(Refusal::TooMany), "the clock was set back");
    }

    #[test]
    fn the_history_passes_through_the_environment() {
        let read = |value: &str| History::read([(VARIABLE.to_owned(), value.to_owned())].into_iter());
        let first = History::read(std::iter::empty()).with(at(NOW));
        assert_eq!(read(&first.to_string()), first);
        let second = first.with(at(NOW + 5));
        assert_eq!(second.to_string(), format!("{NOW},{}", NOW + 5));
        assert_eq!(second.with(at(NOW + 2 * WINDOW.as_secs())).0.len(), 1, "old ones are left out");
        assert_eq!(read("soon,,7,-1"), History(vec![7]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_waits_until_no_collection_would_be_lost() {
        let in_memory = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&in_memory);
        let waiting = tokio::spawn(permitted(policy(Restart::Auto, &[]), move || seen.load(SeqCst)));
        tokio::time::advance(Duration::from_secs(100)).await;
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        in_memory.store(false, SeqCst);
        waiting.await.expect("it is permitted now");
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_that_is_forbidden_never_comes() {
        let forbidden = permitted(policy(Restart::Never, &[]), || false);
        assert!(tokio::time::timeout(Duration::from_secs(1_000_000), forbidden).await.is_err());
    }

    #[test]
    fn the_binary_is_found_by_its_path() {
        assert_eq!(executable(), env::current_exe().expect("it has a path"));
    }
}
