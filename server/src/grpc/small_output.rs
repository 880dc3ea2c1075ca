//! Outputs of small numbers as messages.

use accelerd_proto::v1 as pb;

use crate::small_outputs::SmallOutput;

pub(super) fn small_output(small: &SmallOutput) -> pb::SmallOutput {
    let SmallOutput { output, atol, max_norm, max_norm_rtol } = small;
    pb::SmallOutput { output: output.clone(), atol: *atol, max_norm: *max_norm, max_norm_rtol: *max_norm_rtol }
}
