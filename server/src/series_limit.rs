//! Bounds the series of a metric for those who scrape it. Callers choose no label value: the number of series grows with methods, status
//! codes, lanes, kernels and devices.

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily};

/// The label value of the series that stands for the rest.
const OTHER: &str = "other";

/// Sums the series of each metric after the first `max - 1` into one.
pub(crate) fn limit(mut families: Vec<MetricFamily>, max: usize) -> Vec<MetricFamily> {
    for family in families.iter_mut().filter(|family| family.get_metric().len() > max) {
        let mut kept = family.take_metric();
        let mut rest = kept.split_off(max.saturating_sub(1));
        let labels = common_labels(&rest);
        // One whose values are all named "other" is the same series.
        rest.extend(kept.extract_if(.., |one| one.get_label() == labels));
        kept.push(sum(&rest, labels));
        family.set_metric(kept);
    }
    families
}

/// The labels of several series: values that differ become [`OTHER`].
fn common_labels(all: &[Metric]) -> Vec<LabelPair> {
    let mut labels = all[0].get_label().to_vec();
    for (nth, label) in labels.iter_mut().enumerate() {
        let is_common = |one: &Metric| one.get_label().get(nth).is_some_and(|other| other.value() == label.value());
        if !all.iter().all(is_common) {
            label.set_value(OTHER.to_owned());
        }
    }
    labels
}

fn sum(all: &[Metric], labels: Vec<LabelPair>) -> Metric {
    let mut counter = Counter::default();
    let mut gauge = Gauge::default();
    counter.set_value(all.iter().map(|one| one.get_counter().get_value()).sum());
    gauge.set_value(all.iter().map(|one| one.get_gauge().get_value()).sum());
    let mut summed = Metric::default();
    summed.set_label(labels);
    summed.set_counter(counter);
    summed.set_gauge(gauge);
    summed.set_histogram(sum_histograms(all));
    summed
}

/// The sum of histograms, which have the same buckets.
fn sum_histograms(all: &[Metric]) -> Histogram {
    let mut buckets: Vec<Bucket> = all[0].get_histogram().get_bucket().to_vec();
    for (nth, bucket) in buckets.iter_mut().enumerate() {
        let counts = all.iter().filter_map(|one| one.get_histogram().get_bucket().get(nth));
        bucket.set_cumulative_count(counts.map(Bucket::cumulative_count).sum());
    }
    let mut summed = Histogram::default();
    summed.set_bucket(buckets);
    summed.set_sample_count(all.iter().map(|one| one.get_histogram().get_sample_count()).sum());
    summed.set_sample_sum(all.iter().map(|one| one.get_histogram().get_sample_sum()).sum());
    summed
}

#[cfg(test)]
mod tests {
    use prometheus::{CounterVec, HistogramOpts, HistogramVec, Opts, Registry, TextEncoder, core::Collector};

    use super::*;

    fn text(of: impl Collector + 'static, max: usize) -> String {
        let registry = Registry::new();
        registry.register(Box::new(of)).expect("a new metric");
        TextEncoder::new().encode_to_string(&limit(registry.gather(), max)).expect("text")
    }

    #[test]
    fn series_beyond_the_limit_are_summed_under_one_label_value() {
        let calls = CounterVec::new(Opts::new("calls", "Calls."), &["collection", "kind"]).expect("a metric");
        for nth in 0..5000_u32 {
            calls.with_label_values(&[&*format!("c{nth:04}"), "search"]).inc();
        }
        calls.with_label_values(&["other", "search"]).inc_by(7.0);
        let text = text(calls, 1000);
        assert_eq!(text.lines().filter(|line| line.starts_with("calls{")).count(), 1000, "{text}");
        assert!(text.contains("calls{collection=\"c0998\",kind=\"search\"} 1\n"), "{text}");
        let other: Vec<_> = text.lines().filter(|line| line.contains("\"other\"")).collect();
        assert_eq!(other, ["calls{collection=\"other\",kind=\"search\"} 4008"]);
    }

    #[test]
    fn histograms_are_summed_by_bucket_and_what_is_within_the_limit_is_unchanged() {
        let times = || {
            let options = HistogramOpts::new("times", "Times.").buckets(vec![1.0, 2.0]);
            let times = HistogramVec::new(options, &["model"]).expect("a metric");
            for (nth, time) in [0.5, 1.5, 2.5].into_iter().enumerate() {
                times.with_label_values(&[&nth.to_string()]).observe(time);
            }
            times
        };
        let limited = text(times(), 2);
        for line in [
            "times_bucket{model=\"0\",le=\"1\"} 1",
            "times_bucket{model=\"other\",le=\"1\"} 0",
            "times_bucket{model=\"other\",le=\"2\"} 1",
            "times_bucket{model=\"other\",le=\"+Inf\"} 2",
            "times_sum{model=\"other\"} 4",
            "times_count{model=\"other\"} 2",
        ] {
            assert!(limited.contains(line), "{line} in {limited}");
        }
        assert!(!text(times(), 3).contains("other"));
    }
}
