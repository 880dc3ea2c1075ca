//! Instruments of parsing.

use std::iter;

use accelerd_kernels::ops::parse::{Class, ParseResponse};
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter},
};

/// Instruments; the sum of each histogram is the total over all requests.
#[derive(Debug)]
pub(super) struct ParseMetrics {
    sources: Histogram<u64>,
    bytes: Histogram<u64>,
    nodes: Histogram<u64>,
    results_by_class: Counter<u64>,
}

impl ParseMetrics {
    pub(super) fn new(meter: &Meter) -> Self {
        let histogram = |name, description, largest: u32| {
            let boundaries = (0..=largest).step_by(2).map(|exponent| 2_f64.powi(exponent.cast_signed())).collect();
            meter.u64_histogram(name).with_description(description).with_boundaries(boundaries).build()
        };
        Self {
            sources: histogram("accelerd_parse_sources", "Sources in a parse request.", 16),
            bytes: histogram("accelerd_parse_bytes", "Size of the sources in a parse request in bytes.", 26),
            nodes: histogram("accelerd_parse_nodes", "Syntax tree nodes in a parse response.", 26),
            results_by_class: meter
                .u64_counter("accelerd_parse_results")
                .with_description("Parsed sources, by result: ok or the class of the syntax error.")
                .build(),
        }
    }

    /// Records a request with `bytes` of source.
    pub(super) fn record(&self, bytes: u64, response: &ParseResponse) {
        self.sources.record(response.results.len() as u64, &[]);
        self.bytes.record(bytes, &[]);
        self.nodes.record(response.columns.kinds.len() as u64, &[]);
        let mut counts = [0; Class::ALL.len() + 1];
        for result in &response.results {
            counts[result.diagnostic.as_ref().map_or(0, |diagnostic| diagnostic.class as usize)] += 1;
        }
        let names = iter::once("ok").chain(Class::ALL.into_iter().map(Class::name));
        for (name, count) in names.zip(counts).filter(|(_, count)| *count > 0) {
            self.results_by_class.add(count, &[KeyValue::new("result", name)]);
        }
    }
}
