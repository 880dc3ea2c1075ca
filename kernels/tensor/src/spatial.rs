//! Attributes of operations that slide a window over the last one or two dimensions.

use crate::{GraphError, NodeSpec, TensorType, attributes::Attributes};

/// The most of a kernel, stride, padding, dilation or output size: products of two of them stay far below 2^64.
const MAX: i64 = i32::MAX as i64;

/// The number of spatial dimensions of an operation: 1 or 2. A single one is the width of images of height 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spatial(pub(crate) usize);

impl Spatial {
    /// Numbers for height and width, each at least `least`: one for both, or one for each. `None` if the attribute is not set.
    pub(crate) fn pair(
        self,
        attributes: &Attributes<'_>,
        name: &'static str,
        least: i64,
    ) -> Result<Option<[usize; 2]>, GraphError> {
        let Some(values) = attributes.ints(name)? else { return Ok(None) };
        let refused = || {
            let count = if self.0 == 1 { "one number" } else { "one or two numbers" };
            attributes.error(name, format!("{count} from {least} to {MAX}"), format!("{values:?}"))
        };
        let in_range = |value: &i64| usize::try_from(*value).ok().filter(|_| (least..=MAX).contains(value));
        let checked: Option<Vec<usize>> = values.iter().map(in_range).collect();
        match checked.ok_or_else(refused)?[..] {
            // The least value is that of a height of 1: kernel 1, stride 1, padding 0, dilation 1.
            [width] if self.0 == 1 => Ok(Some([usize::try_from(least).unwrap_or(0), width])),
            [both] => Ok(Some([both; 2])),
            [height, width] if self.0 == 2 => Ok(Some([height, width])),
            _ => Err(refused()),
        }
    }

    /// The shape of images, the first operand, with the height. The batch may be missing.
    pub(crate) fn images(self, node: &NodeSpec, x: &TensorType) -> Result<Vec<usize>, GraphError> {
        let ranks = [self.0 + 1, self.0 + 2];
        let expected = || format!("{} or {} dimensions", ranks[0], ranks[1]);
        let refused = || GraphError::new(&node.name, "inputs[0]", expected(), x.shape.len());
        ranks.contains(&x.shape.len()).then(|| self.image(&x.shape)).ok_or_else(refused)
    }

    /// A shape with the height.
    pub(crate) fn image(self, shape: &[usize]) -> Vec<usize> {
        let mut image = shape.to_vec();
        if self.0 == 1 {
            image.insert(shape.len() - 1, 1);
        }
        image
    }

    /// The inverse of [`Self::image`].
    pub(crate) fn shape(self, mut image: Vec<usize>) -> Vec<usize> {
        if self.0 == 1 {
            image.remove(image.len() - 2);
        }
        image
    }
}
