//! Outputs of small numbers, of which an absolute tolerance says little.

use accelerd_client::proto;
use serde::Serialize;

/// An output of which most expected numbers are smaller than the absolute tolerance.
#[derive(Serialize)]
pub(super) struct SmallOutput {
    output: String,
    atol: f64,
    max_norm: f64,
    /// The largest error relative to `max_norm`; `None` if the tolerance is set, and decides alone.
    max_norm_rtol: Option<f64>,
}

impl From<proto::SmallOutput> for SmallOutput {
    fn from(small: proto::SmallOutput) -> Self {
        let proto::SmallOutput { output, atol, max_norm, max_norm_rtol } = small;
        Self { output, atol, max_norm, max_norm_rtol }
    }
}

impl SmallOutput {
    /// The sentence about it.
    pub(super) fn line(&self) -> String {
        let Self { output, atol, max_norm, max_norm_rtol } = self;
        let what = format!("most expected numbers of {output} are smaller than atol {atol:e}");
        match max_norm_rtol {
            Some(rtol) => {
                format!("{what}: errors must be at most {rtol:e} of the largest, {max_norm:e}, unless --atol is set")
            }
            None => format!("{what}, which accepts zeros instead"),
        }
    }
}
