//! Which part of which input each shard reads.

use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
};

use accelerd_kernels::DeviceId;
use accelerd_tensor::TensorType;

use super::shown;
use crate::error::ApiError;

/// An input to split.
#[derive(Clone, Debug)]
pub(crate) struct SplitInput {
    pub(crate) name: String,
    /// The dimension to split along, which may count from the end.
    pub(crate) dim: i64,
}

/// The execution of a graph on a part of its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) device: DeviceId,
    /// Its part of the extent along the dimension of each input that is split.
    pub(super) part: Range<usize>,
}

/// Split of a graph.
#[derive(Debug)]
pub(super) struct Split {
    /// The shards that run.
    pub(super) shards: Vec<Shard>,
    /// For each input of the graph, the dimension along which it is split.
    pub(super) dims: Vec<Option<usize>>,
}

impl Split {
    /// Splits the inputs that are `listed`, over one device or more.
    pub(super) fn new(
        devices: &[DeviceId],
        listed: &[SplitInput],
        inputs: &[(String, TensorType)],
    ) -> Result<Self, ApiError> {
        let positions: HashMap<_, _> = inputs.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
        let mut split = HashMap::new();
        let mut extent = None;
        for (nth, SplitInput { name, dim }) in listed.iter().enumerate() {
            let field = |field: &str| format!("data_parallel.inputs[{nth}]{field}");
            let position = positions.get(name.as_str()).ok_or_else(|| {
                ApiError::invalid(field(".name"), format!("expected the name of an input, got {}", shown(name)))
            })?;
            let shape = &inputs[*position].1.shape;
            let dim = dimension(*dim, shape.len()).map_err(|reason| ApiError::invalid(field(".dim"), reason))?;
            let expected = *extent.get_or_insert(shape[dim]);
            if shape[dim] != expected {
                let reason = format!(
                    "expected the extent {expected} along dimension {dim}, as of data_parallel.inputs[0], got {}",
                    shape[dim]
                );
                return Err(ApiError::invalid(field(""), reason));
            }
            let Entry::Vacant(place) = split.entry(*position) else {
                let reason = format!("expected each input once, got {} again", shown(name));
                return Err(ApiError::invalid(field(".name"), reason));
            };
            place.insert(dim);
        }
        let extent = extent.ok_or_else(|| {
            ApiError::invalid("data_parallel.inputs", "expected at least one input to split, got none")
        })?;
        let dims = (0..inputs.len()).map(|at| split.get(&at).copied()).collect();
        Ok(Self { shards: shards(devices, extent), dims })
    }
}

impl Split {
    /// All inputs on one device.
    pub(super) fn whole(device: DeviceId, inputs: usize) -> Self {
        Self { shards: vec![Shard { device, part: 0..0 }], dims: vec![None; inputs] }
    }

    pub(super) fn devices(&self) -> Vec<DeviceId> {
        self.shards.iter().map(|shard| shard.device).collect()
    }
}

/// A dimension that may count from the end.
pub(super) fn dimension(dim: i64, rank: usize) -> Result<usize, String> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    let from_front = if dim < 0 { dim.saturating_add(signed) } else { dim };
    let dim_from_front = usize::try_from(from_front).ok().filter(|dim| *dim < rank);
    dim_from_front.ok_or_else(|| match rank {
        0 => "expected a tensor with a dimension, got a scalar".to_owned(),
        _ => format!("expected {} to {}, got {dim}", -signed, signed - 1),
    })
}

/// Parts whose sizes differ by at most 1, the larger ones first. Empty ones are left out, but for the first.
fn shards(devices: &[DeviceId], extent: usize) -> Vec<Shard> {
    let size = extent / devices.len().max(1);
    let larger = extent % devices.len().max(1);
    let mut start = 0;
    let parts = devices.iter().enumerate().map(|(nth, device)| {
        let end = start + size + usize::from(nth < larger);
        let part = std::mem::replace(&mut start, end)..end;
        Shard { device: *device, part }
    });
    parts.take(extent.clamp(1, devices.len().max(1))).collect()
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::Dtype;

    use super::*;

    fn inputs() -> Vec<(String, TensorType)> {
        [("x", vec![5, 3]), ("y", vec![2, 5]), ("w", vec![3, 3]), ("s", vec![])]
            .map(|(name, shape)| (name.to_owned(), TensorType { dtype: Dtype::F32, shape }))
            .into()
    }

    fn split(listed: &[(&str, i64)]) -> Result<Split, ApiError> {
        let listed: Vec<_> =
            listed.iter().map(|(name, dim)| SplitInput { name: (*name).to_owned(), dim: *dim }).collect();
        Split::new(&[DeviceId::Cuda(1), DeviceId::Cpu], &listed, &inputs())
    }

    #[test]
    fn inputs_are_split_along_their_dimensions() {
        let split = split(&[("x", 0), ("y", -1)]).expect("both have the extent 5");
        assert_eq!(split.dims, [Some(0), Some(1), None, None]);
        let expected = [(DeviceId::Cuda(1), 0..3), (DeviceId::Cpu, 3..5)];
        assert_eq!(split.shards, expected.map(|(device, part)| Shard { device, part }));
    }

    #[test]
    fn parts_cover_the_extent_in_order_and_differ_by_at_most_one() {
        for (devices, extent) in (1..=9).flat_map(|devices| (0..40).map(move |extent| (devices, extent))) {
            let shards = shards(&vec![DeviceId::Cpu; devices], extent);
            assert_eq!(shards.len(), devices.min(extent).max(1), "{devices} {extent}");
            assert_eq!((shards[0].part.start, shards[shards.len() - 1].part.end), (0, extent));
            assert!(shards.windows(2).all(|pair| pair[0].part.end == pair[1].part.start));
            let sizes = shards.iter().map(|shard| shard.part.len());
            assert!(sizes.clone().max() <= sizes.clone().min().map(|least| least + 1), "{devices} {extent}");
            assert!(sizes.is_sorted_by(|a, b| a >= b));
        }
    }

    #[test]
    fn what_cannot_be_split_is_refused_by_its_field() {
        let cases: [(&[(&str, i64)], _, _); 7] = [
            (&[], "data_parallel.inputs", "at least one input to split, got none"),
            (&[("x", 0), ("z", 0)], "data_parallel.inputs[1].name", "the name of an input, got \"z\""),
            (&[("x", 0), ("x", 0)], "data_parallel.inputs[1].name", "each input once, got \"x\" again"),
            (&[("x", 2)], "data_parallel.inputs[0].dim", "-2 to 1, got 2"),
            (&[("x", i64::MIN)], "data_parallel.inputs[0].dim", "-2 to 1, got -9223372036854775808"),
            (&[("s", 0)], "data_parallel.inputs[0].dim", "a tensor with a dimension, got a scalar"),
            (
                &[("x", 0), ("w", 1)],
                "data_parallel.inputs[1]",
                "the extent 5 along dimension 1, as of data_parallel.inputs[0], got 3",
            ),
        ];
        for (listed, field, reason) in cases {
            let refused = split(listed).expect_err("it cannot be split");
            assert_eq!(refused.to_string(), format!("{field}: expected {reason}"));
        }
    }
}
