//! Results as a bar chart: the share of its bound that each case reaches.

use std::fmt::Write;

use super::results::{Measured, Results};

/// Sizes in pixels.
const ROW: usize = 22;
const TOP: usize = 56;
const NAME: usize = 190;
const FULL: usize = 420;
const WIDTH: usize = NAME + FULL + 190;

/// Gridlines, in percent.
const GRID: [usize; 5] = [0, 25, 50, 75, 100];

pub(super) fn plot(results: &Results) -> String {
    let bottom = TOP + ROW * results.cases.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        bottom + 28
    );
    text(&mut svg, 10, 20, "start", &format!("Share of the bound, {}", results.heading()));
    for percent in GRID {
        let x = NAME + FULL * percent / 100;
        // Writing to a string does not fail.
        let _ = writeln!(svg, "<line x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#ddd\"/>", TOP - 6);
        text(&mut svg, x, bottom + 16, "middle", &format!("{percent}%"));
    }
    legend(&mut svg);
    for (nth, case) in results.cases.iter().enumerate() {
        bar(&mut svg, TOP + ROW * nth, case);
    }
    svg.push_str("</svg>\n");
    svg
}

fn color(bound: &str) -> &'static str {
    if bound == "product" { "#d08770" } else { "#5e81ac" }
}

fn legend(svg: &mut String) {
    for (nth, bound) in ["memory", "product"].into_iter().enumerate() {
        let x = NAME + 160 * nth;
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"32\" width=\"10\" height=\"10\" fill=\"{}\"/>", color(bound));
        text(svg, x + 16, 41, "start", &format!("bound by {bound}"));
    }
}

/// A bar ends at 100%; its text says more.
fn bar(svg: &mut String, y: usize, case: &Measured) {
    text(svg, NAME - 8, y + 12, "end", case.name);
    let Some(figures) = &case.figures else {
        return text(svg, NAME + 6, y + 12, "start", "failed");
    };
    let width = FULL as f64 * figures.bound_share.clamp(0.0, 1.0);
    let fill = color(figures.bound);
    let _ = writeln!(svg, "<rect x=\"{NAME}\" y=\"{y}\" width=\"{width:.1}\" height=\"16\" fill=\"{fill}\"/>");
    let figures = format!("{:.0}%, {:.3} ms", figures.bound_share * 100.0, figures.median_ms);
    text(svg, NAME + FULL + 12, y + 12, "start", &figures);
}

fn text(svg: &mut String, x: usize, y: usize, anchor: &str, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{content}</text>");
}
