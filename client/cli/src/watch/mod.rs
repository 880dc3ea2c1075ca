//! Watches trees: waits for changes of their files, and lists the files of the changed part by the rules of a walk.
//!
//! Changes are collected until no more come for a moment, so a save of an editor or the checkout of a branch is one change.

#[cfg(target_os = "linux")]
mod folders;
#[cfg(not(target_os = "linux"))]
#[path = "no_folders.rs"]
mod folders;
mod mounts;
mod poll;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use clap::Args;
use tokio::{
    sync::Notify,
    task::spawn_blocking,
    time::{Instant, sleep, timeout_at},
};

use self::{folders::Folders, poll::Poll};
use crate::{
    args::positive_duration,
    error::{CliError, Result},
    output::Output,
    walk::{Scope, Walk, Walked},
};

/// Changes are complete once none came for this time.
const QUIET: Duration = Duration::from_millis(50);
/// Maximum time for which changes are collected, while files are written all the time.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// More of it for each path, so that the checkout of a large branch is one change.
const DELAY_OF_A_PATH: Duration = Duration::from_millis(1);
/// Maximum of both.
const MAX_DELAY_OF_MANY: Duration = Duration::from_secs(10);
/// Time after a failure until changes are processed again. The calls themselves are retried for longer.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Options of commands that watch.
#[derive(Clone, Copy, Debug, Args)]
pub struct WatchArgs {
    /// Keep running, and follow changes of the files until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// Compare names, sizes and times of all files at this interval instead of asking the system for changes, as on network
    /// file systems, which report none of other machines.
    #[arg(long, value_name = "TIME", requires = "watch", value_parser = positive_duration)]
    poll: Option<Duration>,
}

/// Changes that were not processed yet.
#[derive(Debug, Default)]
struct Pending {
    scope: Mutex<Scope>,
    changed: Notify,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Scope> {
        self.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend(&self, scope: Scope) {
        self.lock().extend(scope);
        self.changed.notify_one();
    }

    fn take(&self) -> Scope {
        std::mem::take(&mut self.lock())
    }

    /// Waits for changes, and until no more come.
    async fn settle(&self) {
        self.changed.notified().await;
        let start = Instant::now();
        loop {
            let end = self.end(start);
            let more = timeout_at(end.min(Instant::now() + QUIET), self.changed.notified()).await;
            if more.is_err() || Instant::now() >= end {
                return;
            }
        }
    }

    /// When changes are processed that began to come at a time.
    fn end(&self, start: Instant) -> Instant {
        let count = u32::try_from(self.lock().len()).unwrap_or(u32::MAX);
        start + DELAY_OF_A_PATH.saturating_mul(count).saturating_add(MAX_DELAY).min(MAX_DELAY_OF_MANY)
    }
}

/// The source of changes: inotify, or a poll.
enum ChangeSource {
    Folders(Folders),
    Poll { _task: Poll },
}

/// Trees that are watched.
pub struct Watch {
    walk: Walk,
    pending: Arc<Pending>,
    source: ChangeSource,
}

impl Watch {
    /// Begins to watch, and lists all files. Changes from then on are reported.
    pub async fn begin(walk: Walk, args: WatchArgs, output: &Output) -> Result<(Self, Walked)> {
        let pending = Arc::new(Pending::default());
        if let Some(interval) = args.poll {
            let walked = list(&walk, &Arc::new(Scope::all())).await?;
            let source =
                ChangeSource::Poll { _task: Poll::begin(walk.clone(), interval, &walked, Arc::clone(&pending)) };
            return Ok((Self { walk, pending, source }, walked));
        }
        for (tree, kind) in mounts::remote(&walk.trees) {
            output.warn(format!("{tree} is on {kind}, which reports only changes of this machine; --poll 5s sees all"));
        }
        let roots = walk.trees.iter().map(|tree| tree.root.clone()).collect();
        let source = ChangeSource::Folders(Folders::new(roots, Arc::clone(&pending))?);
        let mut watch = Self { walk, pending, source };
        let walked = watch.list(&Arc::new(Scope::all())).await?;
        Ok((watch, walked))
    }

    /// Waits for changes. Returns what changed, and the files that it has now.
    pub async fn next(&mut self) -> Result<(Arc<Scope>, Walked)> {
        let scope = Arc::new(self.changed().await?);
        let walked = self.list(&scope).await?;
        Ok((scope, walked))
    }

    async fn changed(&mut self) -> Result<Scope> {
        loop {
            match &mut self.source {
                ChangeSource::Poll { .. } => self.pending.settle().await,
                ChangeSource::Folders(folders) => tokio::select! {
                    () = self.pending.settle() => {}
                    error = folders.failed() => return Err(error),
                },
            }
            let scope = self.pending.take();
            if !scope.is_empty() {
                return Ok(scope);
            }
        }
    }

    /// Reports changes again after a moment, because they could not be processed.
    pub async fn put_back(&self, scope: &Scope) {
        self.pending.extend(scope.clone());
        sleep(AFTER_FAILURE).await;
    }

    /// Lists the files of a scope, and watches its folders.
    async fn list(&mut self, scope: &Arc<Scope>) -> Result<Walked> {
        loop {
            if let ChangeSource::Folders(folders) = &mut self.source {
                folders.watch_above()?;
            }
            let walked = list(&self.walk, scope).await?;
            let ChangeSource::Folders(folders) = &mut self.source else { return Ok(walked) };
            // Files may have been made in a new folder before it was watched.
            if !folders.watch(&walked.folders)? {
                folders.keep(scope, &walked.folders);
                return Ok(walked);
            }
        }
    }
}

async fn list(walk: &Walk, scope: &Arc<Scope>) -> Result<Walked> {
    let walk = walk.clone();
    let scope = Arc::clone(scope);
    spawn_blocking(move || walk.files(&scope)).await.map_err(|error| CliError::Partial(format!("walk failed: {error}")))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn one(path: &str) -> Scope {
        let mut scope = Scope::default();
        scope.add(PathBuf::from(path));
        scope
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_follow_each_other_are_one() {
        let pending = Arc::new(Pending::default());
        let start = Instant::now();
        let writer = Arc::clone(&pending);
        tokio::spawn(async move {
            for n in 0..5 {
                writer.extend(one(&format!("/{n}")));
                sleep(QUIET / 2).await;
            }
        });
        pending.settle().await;
        let scope = pending.take();
        assert!((0..5).all(|n| scope.contains(format!("/{n}/below").as_ref())));
        assert!(start.elapsed() >= 3 * QUIET && start.elapsed() < MAX_DELAY);
        assert!(pending.take().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn steady_writing_is_processed_after_the_maximum_delay() {
        let pending = Arc::new(Pending::default());
        let start = Instant::now();
        let writer = Arc::clone(&pending);
        tokio::spawn(async move {
            loop {
                writer.extend(one("/log"));
                sleep(QUIET / 2).await;
            }
        });
        pending.settle().await;
        assert_eq!(start.elapsed(), MAX_DELAY + DELAY_OF_A_PATH);
    }

    #[tokio::test(start_paused = true)]
    async fn many_files_that_take_longer_are_one_change() {
        let pending = Arc::new(Pending::default());
        let writer = Arc::clone(&pending);
        tokio::spawn(async move {
            for n in 0..3_000 {
                writer.extend(one(&format!("/{n}")));
                sleep(DELAY_OF_A_PATH).await;
            }
        });
        pending.settle().await;
        assert_eq!(pending.take().len(), 3_000);
    }
}
