//! Results of a benchmark: one level for each concurrency or rate.

use std::{collections::BTreeMap, time::Duration};

use accelerd_client::{
    Priority,
    load::{Histogram, Outcomes},
    proto::{GetStatsResponse, LaneStats},
};
use serde::Serialize;

use super::clients::{Plan, Report, Shape};
use crate::{
    format,
    output::Report as Rendered,
    renderer::{Renderer, Style, Table},
};

#[derive(Serialize)]
pub(super) struct Results {
    pub(super) bench: &'static str,
    pub(super) input: String,
    pub(super) items_per_call: u32,
    /// The random collection that was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) collection: Option<String>,
    pub(super) levels: Vec<Level>,
}

#[derive(Serialize)]
pub(super) struct Level {
    /// Calls in flight of a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<usize>,
    /// Offered calls per second of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<f64>,
    connections: usize,
    /// Successful calls.
    calls: u64,
    failed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<String>,
    /// Time in which calls were started.
    seconds: f64,
    /// Successful calls until the last completion.
    calls_per_second: f64,
    items_per_second: f64,
    #[serde(flatten)]
    figures: Figures,
    /// Figures by priority, with `--priorities`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    priorities: BTreeMap<&'static str, Figures>,
    /// Punctuality of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    generator: Option<Generator>,
    lane: String,
    calls_per_batch: f64,
}

/// Figures of the calls of a priority, or of all calls. Latencies are those of successful calls.
#[derive(Serialize)]
struct Figures {
    sent: u64,
    goodput_per_second: f64,
    late: u64,
    refused: u64,
    expired: u64,
    errors: u64,
    codes: BTreeMap<String, u64>,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    refused_p50_ms: f64,
    refused_p99_ms: f64,
}

/// Delays with which the generator started calls. If it did not keep up, the level's figures do not describe the daemon.
#[derive(Serialize)]
struct Generator {
    kept_up: bool,
    late_sends: u64,
    lag_p50_ms: f64,
    lag_p99_ms: f64,
    lag_max_ms: f64,
}

impl Figures {
    fn of(report: &Report, outcomes: &Outcomes) -> Self {
        let latencies = &outcomes.latencies;
        let refusals = &outcomes.refusals;
        Self {
            sent: outcomes.sent(),
            goodput_per_second: report.goodput(outcomes),
            late: outcomes.ok() - outcomes.in_time,
            refused: outcomes.refused(),
            expired: outcomes.expired(),
            errors: outcomes.errors(),
            codes: outcomes.codes().map(|(code, count)| (format!("{code:?}"), count)).collect(),
            p50_ms: ms(latencies, 0.5),
            p90_ms: ms(latencies, 0.9),
            p99_ms: ms(latencies, 0.99),
            max_ms: ms(latencies, 1.0),
            refused_p50_ms: ms(refusals, 0.5),
            refused_p99_ms: ms(refusals, 0.99),
        }
    }
}

impl Generator {
    fn of(report: &Report) -> Self {
        Self {
            kept_up: report.kept_up(),
            late_sends: report.late_sends(),
            lag_p50_ms: ms(&report.lag, 0.5),
            lag_p99_ms: ms(&report.lag, 0.99),
            lag_max_ms: ms(&report.lag, 1.0),
        }
    }
}

fn ms(latencies: &Histogram, share: f64) -> f64 {
    latencies.quantile(share).as_secs_f64() * 1e3
}

impl Level {
    /// `before` and `after` are statistics of the daemon.
    pub(super) fn new(
        plan: &Plan,
        by_priority: bool,
        items: u32,
        report: &Report,
        (before, after): (&GetStatsResponse, &GetStatsResponse),
    ) -> Self {
        let (lane, calls_per_batch) = busiest(before, after);
        let (concurrency, rate) = match plan.shape {
            Shape::Closed { concurrency } => (Some(concurrency), None),
            Shape::Open { rate } => (None, Some(rate)),
        };
        let occurring = Priority::ALL.into_iter().filter(|priority| by_priority && plan.priorities.contains(*priority));
        let total = report.total();
        Self {
            concurrency,
            rate,
            deadline_ms: plan.deadline.map(|deadline| deadline.as_secs_f64() * 1e3),
            connections: plan.connections,
            calls: total.ok(),
            failed: total.failed(),
            first_error: report.first_error.as_ref().map(ToString::to_string),
            seconds: report.window.as_secs_f64(),
            calls_per_second: report.rate(),
            items_per_second: report.rate() * f64::from(items),
            figures: Figures::of(report, &total),
            priorities: occurring.map(|priority| (priority.name(), Figures::of(report, report.of(priority)))).collect(),
            generator: rate.map(|_| Generator::of(report)),
            lane,
            calls_per_batch,
        }
    }

    /// Calls that failed although no overload explains it: refused and expired calls are results of an open loop.
    pub(super) fn unexpected(&self) -> u64 {
        if self.rate.is_some() { self.figures.errors } else { self.failed }
    }

    /// The rate that the generator did not keep up with, and how late it was.
    pub(super) fn missed_rate(&self) -> Option<(f64, String)> {
        let late = self.generator.as_ref().filter(|generator| !generator.kept_up)?;
        Some((self.rate?, format!("{} of {} calls were started late", late.late_sends, self.figures.sent)))
    }
}

impl Rendered for Results {
    fn render(&self, renderer: &mut Renderer) {
        renderer.title(format!("{}: {}", self.bench, self.input));
        let is_open = self.levels.iter().any(|level| level.rate.is_some());
        let table = if is_open { self.open(renderer) } else { self.closed(renderer) };
        renderer.table(&table);
        let mut failed = self.levels.iter().filter(|level| level.unexpected() > 0);
        if let Some(error) = failed.find_map(|level| level.first_error.as_ref()) {
            renderer.line(format!("  {} {error}", renderer.style(Style::Bad, "first error:")));
        }
        if let Some(name) = &self.collection {
            renderer.line(format!("  kept the collection {}", renderer.style(Style::Name, name)));
        }
    }
}

impl Results {
    fn closed(&self, renderer: &Renderer) -> Table {
        let heads = ["in flight", "calls/s", "?items/s", "p50", "p90", "p99", "max", "calls/batch", "?failed"];
        let mut table = Table::new(heads);
        for level in &self.levels {
            let figures = &level.figures;
            table.row([
                level.concurrency.unwrap_or_default().to_string(),
                renderer.style(Style::Figure, format::rate(level.calls_per_second)),
                if self.items_per_call > 1 { format::rate(level.items_per_second) } else { "-".into() },
                time(figures.p50_ms),
                time(figures.p90_ms),
                time(figures.p99_ms),
                time(figures.max_ms),
                format!("{:.1}", level.calls_per_batch),
                failures(renderer, level.failed),
            ]);
        }
        table
    }

    fn open(&self, renderer: &Renderer) -> Table {
        let heads = [
            "offered/s",
            "goodput/s",
            "?late",
            "?refused",
            "?expired",
            "?errors",
            "p50",
            "p90",
            "p99",
            "?refusal p50",
            "?refusal p99",
            "?sent late",
        ];
        let mut table = Table::new(heads);
        for level in &self.levels {
            let late_sends = level.generator.as_ref().map_or(0, |generator| generator.late_sends);
            let rate = format::rate(level.rate.unwrap_or_default());
            let parts = Priority::ALL.map(Priority::name).into_iter().filter_map(|name| {
                let figures = level.priorities.get(name)?;
                Some((name.to_owned(), figures, 0))
            });
            for (label, figures, late_sends) in [(rate, &level.figures, late_sends)].into_iter().chain(parts) {
                table.row([
                    label,
                    renderer.style(Style::Figure, format::rate(figures.goodput_per_second)),
                    format::count(figures.late),
                    format::count(figures.refused),
                    format::count(figures.expired),
                    failures(renderer, figures.errors),
                    time(figures.p50_ms),
                    time(figures.p90_ms),
                    time(figures.p99_ms),
                    if figures.refused > 0 { time(figures.refused_p50_ms) } else { "-".into() },
                    if figures.refused > 0 { time(figures.refused_p99_ms) } else { "-".into() },
                    failures(renderer, late_sends),
                ]);
            }
        }
        table
    }
}

fn time(ms: f64) -> String {
    format::time(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
}

fn failures(renderer: &Renderer, count: u64) -> String {
    renderer.style(if count > 0 { Style::Bad } else { Style::Dim }, format::count(count))
}

/// The lane that executed the most requests between two samples, and its mean requests per batch.
fn busiest(before: &GetStatsResponse, after: &GetStatsResponse) -> (String, f64) {
    let difference = |lane: &LaneStats| {
        let old = before.lanes.iter().find(|old| old.name == lane.name).cloned().unwrap_or_default();
        (lane.request_count.saturating_sub(old.request_count), lane.batch_count.saturating_sub(old.batch_count))
    };
    let lanes = after.lanes.iter().map(|lane| (difference(lane), lane));
    lanes.max_by_key(|((requests, _), _)| *requests).map_or((String::new(), 0.0), |((requests, batches), lane)| {
        (lane.name.clone(), requests as f64 / batches.max(1) as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batching_is_of_the_lane_that_did_the_work_in_between() {
        let sample = |embed: (u64, u64), search: (u64, u64)| {
            let lane = |name: &str, (request_count, batch_count): (u64, u64)| LaneStats {
                name: name.into(),
                request_count,
                batch_count,
                ..Default::default()
            };
            GetStatsResponse { lanes: vec![lane("embed", embed), lane("search", search)], ..Default::default() }
        };
        let (lane, calls) = busiest(&sample((1000, 10), (0, 0)), &sample((1010, 20), (90, 30)));
        assert!(lane == "search" && (calls - 3.0).abs() < 1e-9, "{lane}: {calls}");
        assert_eq!(busiest(&GetStatsResponse::default(), &GetStatsResponse::default()).0, "");
    }
}
