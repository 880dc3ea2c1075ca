//! Results as a table on the terminal, in JSON and in Markdown.

use std::fmt::Write;

use accelerd_client::{
    Error,
    proto::{BenchmarkBound, BenchmarkOpResponse},
};
use serde::Serialize;

use super::cases::{Case, Size};
use crate::{
    commands::stats::seconds,
    format,
    output::Report,
    renderer::{Renderer, Style, Table},
};

#[derive(Serialize)]
pub(super) struct Results {
    bench: &'static str,
    size: Size,
    pub(super) device: String,
    pub(super) product: String,
    /// The greatest of the cases, which each measure it.
    copy_bytes_per_second: f64,
    pub(super) cases: Vec<Measured>,
}

/// A case, with its figures or its error.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) name: &'static str,
    operands: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    pub(super) figures: Option<Figures>,
}

#[derive(Serialize)]
pub(super) struct Figures {
    repetitions: u32,
    launches: u32,
    min_ms: f64,
    p10_ms: f64,
    pub(super) median_ms: f64,
    p90_ms: f64,
    max_ms: f64,
    moved_bytes: u64,
    operations: u64,
    bytes_per_second: f64,
    operations_per_second: f64,
    copy_bytes_per_second: f64,
    product_operations_per_second: f64,
    pub(super) bound: &'static str,
    pub(super) bound_share: f64,
}

impl Figures {
    fn new(response: &BenchmarkOpResponse) -> Self {
        let ms = |time: Option<&prost_types::Duration>| seconds(time) * 1e3;
        Self {
            repetitions: response.repetition_count,
            launches: response.launch_count,
            min_ms: ms(response.min.as_ref()),
            p10_ms: ms(response.p10.as_ref()),
            median_ms: ms(response.median.as_ref()),
            p90_ms: ms(response.p90.as_ref()),
            max_ms: ms(response.max.as_ref()),
            moved_bytes: response.moved_bytes,
            operations: response.operation_count,
            bytes_per_second: response.bytes_per_second,
            operations_per_second: response.operations_per_second,
            copy_bytes_per_second: response.copy_bytes_per_second,
            product_operations_per_second: response.product_operations_per_second,
            bound: match response.bound() {
                BenchmarkBound::Memory => "memory",
                BenchmarkBound::Product => "product",
                BenchmarkBound::Unspecified => "unknown",
            },
            bound_share: response.bound_share,
        }
    }

    /// Half of the range from the 10th to the 90th percentile, in percent of the median.
    fn spread(&self) -> f64 {
        (self.p90_ms - self.p10_ms) / 2.0 / self.median_ms.max(f64::MIN_POSITIVE) * 100.0
    }

    /// Median, spread, bandwidth, arithmetic rate, share of the bound, and the bound.
    fn cells(&self) -> [String; 6] {
        [
            format!("{:.4} ms", self.median_ms),
            format!("±{:.0}%", self.spread()),
            format!("{:.1} GB/s", self.bytes_per_second / 1e9),
            format!("{:.1} GFLOP/s", self.operations_per_second / 1e9),
            format!("{:.0}%", self.bound_share * 100.0),
            self.bound.to_owned(),
        ]
    }
}

impl Measured {
    pub(super) fn failed(case: &Case, error: &Error) -> Self {
        Self { name: case.name, operands: case.operands(), error: Some(error.to_string()), figures: None }
    }

    fn cells(&self) -> [String; 6] {
        match &self.figures {
            Some(figures) => figures.cells(),
            None => ["failed", "-", "-", "-", "-", "-"].map(str::to_owned),
        }
    }
}

impl Results {
    pub(super) fn new(size: Size) -> Self {
        let (device, product) = Default::default();
        Self { bench: "tensor", size, device, product, copy_bytes_per_second: 0.0, cases: vec![] }
    }

    pub(super) fn add(&mut self, case: &Case, response: &BenchmarkOpResponse) {
        self.device.clone_from(&response.device);
        self.product.clone_from(&response.product);
        self.copy_bytes_per_second = self.copy_bytes_per_second.max(response.copy_bytes_per_second);
        let figures = Some(Figures::new(response));
        self.cases.push(Measured { name: case.name, operands: case.operands(), error: None, figures });
    }

    pub(super) fn failed(&self) -> usize {
        self.cases.iter().filter(|case| case.error.is_some()).count()
    }

    pub(super) fn heading(&self) -> String {
        let copies = format!("{:.1} GB/s", self.copy_bytes_per_second / 1e9);
        format!("{} ({}): copies at {copies}", self.device, self.product)
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.heading());
        text.push_str("| case | operands | median | spread | bandwidth | arithmetic | share of the bound | bound |\n");
        text.push_str("|---|---|---|---|---|---|---|---|\n");
        for case in &self.cases {
            // Writing to a string does not fail.
            let _ = writeln!(text, "| {} | {} | {} |", case.name, case.operands, case.cells().join(" | "));
        }
        text
    }
}

impl Report for Results {
    fn render(&self, renderer: &mut Renderer) {
        renderer.title(self.heading());
        let heads = ["<case", "median", "spread", "bandwidth", "arithmetic", "of bound", "<bound", "?launches"];
        let mut table = Table::new(heads);
        for case in &self.cases {
            let [median, spread, bandwidth, arithmetic, share, bound] = case.cells();
            let launches = case.figures.as_ref().map_or(0, |figures| figures.launches);
            let name = renderer.style(Style::Name, case.name);
            let share = renderer.style(Style::Figure, share);
            let launches = format::count(launches.into());
            table.row([name, median, spread, bandwidth, arithmetic, share, bound, launches]);
        }
        renderer.table(&table);
        for case in &self.cases {
            if let Some(error) = &case.error {
                renderer.line(format!("{}: {error}", renderer.style(Style::Bad, case.name)));
            }
        }
    }
}
