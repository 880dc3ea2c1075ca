//! What parse requests are made of, and what becomes of their sources.

use std::iter;

use accelerd_kernels::ops::parse::{Class, ParseResponse};
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter},
};

/// The instruments; of each histogram the sum counts all requests together.
#[derive(Debug)]
pub(super) struct Metrics {
    sources: Histogram<u64>,
    bytes: Histogram<u64>,
    nodes: Histogram<u64>,
    verdicts: Counter<u64>,
}

impl Metrics {
    pub(super) fn new(meter: &Meter) -> Self {
        let histogram = |name, description, largest: u32| {
            let boundaries = (0..=largest).step_by(2).map(|exponent| 2_f64.powi(exponent.cast_signed())).collect();
            meter.u64_histogram(name).with_description(description).with_boundaries(boundaries).build()
        };
        Self {
            sources: histogram("accelerd_parse_sources", "Sources of a parse request.", 16),
            bytes: histogram("accelerd_parse_bytes", "Bytes of source in a parse request.", 26),
            nodes: histogram("accelerd_parse_nodes", "Nodes returned to a parse request.", 26),
            verdicts: meter
                .u64_counter("accelerd_parse_verdicts")
                .with_description("Parsed sources by verdict: ok, or the class of the error.")
                .build(),
        }
    }

    /// A request of so many bytes was parsed.
    pub(super) fn parsed(&self, bytes: u64, response: &ParseResponse) {
        self.sources.record(response.results.len() as u64, &[]);
        self.bytes.record(bytes, &[]);
        self.nodes.record(response.columns.kinds.len() as u64, &[]);
        let mut counts = [0; Class::ALL.len() + 1];
        for result in &response.results {
            counts[result.diagnostic.as_ref().map_or(0, |diagnostic| diagnostic.class as usize)] += 1;
        }
        let names = iter::once("ok").chain(Class::ALL.into_iter().map(Class::name));
        for (name, count) in names.zip(counts).filter(|(_, count)| *count > 0) {
            self.verdicts.add(count, &[KeyValue::new("verdict", name)]);
        }
    }
}
