//! Server-side timings of calls, from `server-timing` metadata.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// Metadata key of a request that asks for timings.
pub(crate) const REQUEST_KEY: &str = "accelerd-timing";

/// A stage of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// `queue`, `execute`, ...
    pub name: String,
    /// Duration of the stage.
    pub duration: Duration,
}

/// Stages in the daemon's order; empty unless [`Builder::timings`](crate::Builder::timings) requests them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timings(pub Vec<Stage>);

impl Timings {
    /// Parses all `server-timing` values: comma-separated `name;dur=milliseconds` entries, as in W3C Server Timing.
    pub(crate) fn from_metadata(metadata: &MetadataMap) -> Self {
        let values = metadata.get_all("server-timing").iter();
        Self(
            values
                .filter_map(|value| value.to_str().ok())
                .flat_map(|value| value.split(','))
                .filter_map(stage)
                .collect(),
        )
    }

    /// Adds the stages of another call to those of the same names.
    pub(crate) fn add(&mut self, other: Self) {
        for stage in other.0 {
            match self.0.iter_mut().find(|mine| mine.name == stage.name) {
                Some(mine) => mine.duration += stage.duration,
                None => self.0.push(stage),
            }
        }
    }

    /// Duration of a stage.
    pub fn get(&self, name: &str) -> Option<Duration> {
        self.0.iter().find(|stage| stage.name == name).map(|stage| stage.duration)
    }
}

fn stage(entry: &str) -> Option<Stage> {
    let mut parts = entry.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let millis: f64 = parts.find_map(|part| part.strip_prefix("dur="))?.parse().ok()?;
    let duration = Duration::try_from_secs_f64(millis / 1e3).ok()?;
    Some(Stage { name: name.to_owned(), duration })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read_and_nonsense_is_passed_over() {
        let mut metadata = MetadataMap::new();
        metadata.append("server-timing", "queue;dur=0.5, execute;desc=\"gpu\";dur=12".parse().unwrap());
        metadata.append("server-timing", ";dur=1,total,copy;dur=-1,bad;dur=x,total;dur=13".parse().unwrap());
        let timings = Timings::from_metadata(&metadata);
        let names: Vec<_> = timings.0.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["queue", "execute", "total"]);
        assert_eq!(timings.get("queue"), Some(Duration::from_micros(500)));
        assert_eq!(timings.get("total"), Some(Duration::from_millis(13)));
        assert_eq!(timings.get("copy"), None);
    }
}
