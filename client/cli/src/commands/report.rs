//! Reports devices, kernels, lanes and memory of a daemon as JSON or Markdown.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use accelerd_client::{Client, proto};
use clap::{Args, ValueHint};
use serde_json::Value;

use crate::{
    error::{CliError, Result},
    format,
    output::{self, Output},
    visible,
};

/// Elements of the operation whose benchmark measures the bandwidth of copies.
const PROBE_ELEMENTS: i64 = 1024;

/// Report devices, kernels with their bandwidth, lanes and memory, in Markdown or as JSON.
///
/// The bandwidth of kernels is shown as a share of that of copies, which the daemon measures on each device.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write to a .md or .json file instead of standard output.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Measure no bandwidth of copies.
    #[arg(long)]
    no_measure: bool,
}

pub async fn run(args: ReportArgs, client: &Client, output: &Output) -> Result {
    let is_json = match args.output.as_deref().map(Path::extension) {
        None => output.json(),
        Some(Some(extension)) if extension == "json" => true,
        Some(Some(extension)) if extension == "md" => false,
        Some(_) => return Err(CliError::Usage("--output: expected a .md or .json file".to_owned())),
    };
    let mut report = read(client).await?;
    if !args.no_measure {
        let rates = copy_rates(&report, client, output).await;
        add_bandwidth(&mut report, &rates);
    }
    let text = if is_json { output::json(&report, true)? } else { markdown(&report) };
    match args.output {
        Some(path) => fs::write(&path, text).map_err(CliError::file(path)),
        None => output::write_lines(&text),
    }
}

async fn read(client: &Client) -> Result<Value> {
    let text = client.export_report().await?;
    serde_json::from_str(&text).map_err(|error| accelerd_client::Error::Malformed(format!("report: {error}")).into())
}

/// Bytes per second of copies on each device in service, of which the daemon may measure none.
async fn copy_rates(report: &Value, client: &Client, output: &Output) -> BTreeMap<String, f64> {
    let mut rates = BTreeMap::new();
    for device in list(report, "devices").iter().filter(|device| device["lost"].is_null()) {
        let operand =
            proto::BenchmarkOperand { dtype: proto::Dtype::F32.into(), shape: vec![PROBE_ELEMENTS], integers_below: 0 };
        let request = proto::BenchmarkOpRequest {
            op: "neg".to_owned(),
            operands: vec![operand],
            device: text(device, "name").to_owned(),
            repetition_count: 1,
            ..Default::default()
        };
        match client.benchmark_op(request).await {
            Ok(measured) => drop(rates.insert(measured.device, measured.copy_bytes_per_second)),
            Err(error) => output.warn(format!("no bandwidth of {}: {error}", text(device, "name"))),
        }
    }
    rates
}

/// Adds the bandwidth of copies to the devices, and that of kernels and its share to the kernels.
fn add_bandwidth(report: &mut Value, rates: &BTreeMap<String, f64>) {
    for device in array(report, "devices") {
        if let Some(rate) = rates.get(text(device, "name")) {
            device["copy_bytes_per_second"] = (*rate).into();
        }
    }
    for kernel in array(report, "kernels") {
        let moved = number(kernel, "moved_bytes");
        let time = number(kernel, "total_seconds");
        if moved > 0.0 && time > 0.0 {
            kernel["bytes_per_second"] = (moved / time).into();
            if let Some(rate) = rates.get(text(kernel, "device")) {
                kernel["copy_share"] = (moved / time / rate).into();
            }
        }
    }
}

fn array<'a>(report: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    report.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_default()
}

fn bytes(value: &Value, name: &str) -> String {
    // u64::MAX means no limit.
    value[name].as_u64().filter(|bytes| *bytes < u64::MAX).map_or_else(|| "-".to_owned(), format::bytes)
}

fn count(value: &Value, name: &str) -> String {
    format::count(value[name].as_u64().unwrap_or_default())
}

fn time(seconds: f64) -> String {
    format::time(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

fn markdown(report: &Value) -> String {
    let mut page = format!(
        "# accelerd {}\n\nUp {}, {} in flight.\n",
        text(report, "version"),
        time(number(report, "uptime_seconds")),
        format::plural(report["requests_in_flight"].as_u64().unwrap_or_default(), "request")
    );
    table(&mut page, "Devices", ["device", "product", "units", "memory", "copies", "state"], devices(report));
    let heads = ["kernel", "device", "calls", "total", "mean", "moved", "bandwidth", "of copies"];
    table(&mut page, "Kernels", heads, kernels(report));
    let heads =
        ["lane", "requests", "batches", "queued", "failed", "wait p50", "wait p99", "execute p50", "execute p99"];
    table(&mut page, "Lanes", heads, lanes(report));
    table(&mut page, "Memory", ["place", "use", "in use", "reserved", "limit", "refused", "evicted"], memory(report));
    page
}

fn table<const N: usize>(page: &mut String, title: &str, heads: [&str; N], rows: Vec<[String; N]>) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "\n## {title}\n\n| {} |\n|{}", heads.join(" | "), "---|".repeat(N));
    for row in rows {
        let _ = writeln!(page, "| {} |", row.map(|cell| visible::line(&cell).replace('|', "\\|")).join(" | "));
    }
}

fn devices(report: &Value) -> Vec<[String; 6]> {
    let rate = |device: &Value| match number(device, "copy_bytes_per_second") {
        rate if rate > 0.0 => gigabytes(rate),
        _ => "-".to_owned(),
    };
    let row = |device: &Value| {
        let state = device["lost"].as_str().map_or_else(|| "ready".to_owned(), |reason| format!("lost: {reason}"));
        let name = text(device, "name").to_owned();
        let product = text(device, "product").to_owned();
        [name, product, count(device, "compute_units"), bytes(device, "memory_bytes"), rate(device), state]
    };
    list(report, "devices").iter().map(row).collect()
}

fn kernels(report: &Value) -> Vec<[String; 8]> {
    let row = |kernel: &Value| {
        let calls = number(kernel, "calls");
        let total = number(kernel, "total_seconds");
        let moved = number(kernel, "moved_bytes");
        let rate = if moved > 0.0 && total > 0.0 { gigabytes(moved / total) } else { "-".to_owned() };
        let share =
            kernel["copy_share"].as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0));
        [
            text(kernel, "name").to_owned(),
            text(kernel, "device").to_owned(),
            count(kernel, "calls"),
            time(total),
            time(total / calls.max(1.0)),
            if moved > 0.0 { bytes(kernel, "moved_bytes") } else { "-".to_owned() },
            rate,
            share,
        ]
    };
    list(report, "kernels").iter().map(row).collect()
}

fn lanes(report: &Value) -> Vec<[String; 9]> {
    let row = |lane: &Value| {
        let micros = |stage: &str, quantile: &str| time(number(&lane[stage], quantile) / 1e6);
        [
            text(lane, "name").to_owned(),
            count(lane, "requests"),
            count(lane, "batches"),
            count(lane, "queued_requests"),
            count(lane, "failures"),
            micros("wait_micros", "p50"),
            micros("wait_micros", "p99"),
            micros("execute_micros", "p50"),
            micros("execute_micros", "p99"),
        ]
    };
    list(report, "lanes").iter().map(row).collect()
}

fn memory(report: &Value) -> Vec<[String; 7]> {
    let row = |place: &str, what: &str, usage: &Value| {
        let limit = if number(usage, "limit_bytes") > 0.0 { bytes(usage, "limit_bytes") } else { "-".to_owned() };
        let refused = count(usage, "refused");
        let evicted = bytes(usage, "evicted_bytes");
        let used = bytes(usage, "used_bytes");
        [place.to_owned(), what.to_owned(), used, bytes(usage, "held_bytes"), limit, refused, evicted]
    };
    let places = list(report, "memory").iter().flat_map(|place| {
        let name = text(place, "place");
        let accounts = list(place, "accounts").iter().map(move |account| row(name, text(account, "kind"), account));
        std::iter::once(row(name, "all", place)).chain(accounts)
    });
    places.collect()
}

fn gigabytes(rate: f64) -> String {
    format!("{:.1} GB/s", rate / 1e9)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kernels_have_their_share_of_the_bandwidth_of_copies() {
        let mut report = json!({
            "devices": [{"name": "cpu", "product": "a|b", "compute_units": 2, "memory_bytes": 1024, "lost": null}],
            "kernels": [
                {"name": "map", "device": "cpu", "calls": 2, "total_seconds": 0.5, "moved_bytes": 1_000_000_000},
                {"name": "parse", "device": "cpu", "calls": 1, "total_seconds": 0.5, "moved_bytes": 0},
            ],
        });
        add_bandwidth(&mut report, &[("cpu".to_owned(), 4e9)].into());
        let page = markdown(&report);
        assert!(page.contains("| map | cpu | 2 | 500 ms | 250 ms | 953.7 MiB | 2.0 GB/s | 50% |"), "{page}");
        assert!(page.contains("| parse | cpu | 1 | 500 ms | 500 ms | - | - | - |"), "{page}");
        assert!(page.contains("| cpu | a\\|b | 2 | 1.0 KiB | 4.0 GB/s | ready |"), "{page}");
    }

    #[test]
    fn a_report_of_another_version_is_no_error() {
        assert!(markdown(&json!({"kernels": "none"})).contains("## Memory"));
    }
}
