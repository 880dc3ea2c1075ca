//! Compares the files of trees at an interval.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{task::AbortHandle, time::sleep};

use super::{Pending, list};
use crate::walk::{Scope, Walk, Walked};

/// A task that compares. It ends with this value.
pub struct Poll(AbortHandle);

/// Sizes and times of files.
type Stamps = HashMap<PathBuf, (u64, Option<SystemTime>)>;

impl Poll {
    /// Begins to compare with the files of a walk.
    pub fn begin(walk: Walk, interval: Duration, walked: &Walked, pending: Arc<Pending>) -> Self {
        let mut before = stamps(walked);
        let task = tokio::spawn(async move {
            loop {
                sleep(interval).await;
                // A walk that fails is made again.
                let Ok(walked) = list(&walk, &Arc::new(Scope::all())).await else { continue };
                let mut now = stamps(&walked);
                if !walked.complete {
                    // A folder that could not be listed may still exist.
                    for (path, stamp) in &before {
                        now.entry(path.clone()).or_insert(*stamp);
                    }
                }
                let scope = difference(&before, &now);
                before = now;
                if !scope.is_empty() {
                    pending.extend(scope);
                }
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn stamps(walked: &Walked) -> Stamps {
    walked.files.iter().map(|file| (file.disk.clone(), (file.size, file.modified))).collect()
}

/// Files that were made, changed or removed.
fn difference(before: &Stamps, now: &Stamps) -> Scope {
    let mut scope = Scope::default();
    let changed = now.iter().filter(|(path, stamp)| before.get(*path) != Some(stamp));
    let removed = before.iter().filter(|(path, _)| !now.contains_key(*path));
    changed.chain(removed).for_each(|(path, _)| scope.add(path.clone()));
    scope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_made_changed_or_removed_are_in_the_difference() {
        let time = Some(SystemTime::UNIX_EPOCH);
        let of = |stamps: &[(&str, u64, Option<SystemTime>)]| -> Stamps {
            stamps.iter().map(|(path, size, time)| (PathBuf::from(path), (*size, *time))).collect()
        };
        let before = of(&[("/same", 1, time), ("/size", 1, time), ("/time", 1, time), ("/removed", 1, time)]);
        let now = of(&[("/same", 1, time), ("/size", 2, time), ("/time", 1, None), ("/made", 1, time)]);
        let scope = difference(&before, &now);
        for (path, is_in) in [("/same", false), ("/size", true), ("/time", true), ("/removed", true), ("/made", true)] {
            assert_eq!(scope.contains(path.as_ref()), is_in, "{path}");
        }
    }
}
