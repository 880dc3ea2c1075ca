//! Elements of kernels as parts of tensors: vectors and matrices are further dimensions, structs are bytes.

use std::fmt;

use accelerd_ir::kernel::Element;
use accelerd_tensor::{Dtype, TensorType};

/// The type of a tensor with one element of a kernel, or the last dimensions of one with many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElementType {
    pub(super) dtype: Dtype,
    /// None for a scalar.
    pub(super) shape: Vec<usize>,
}

impl ElementType {
    /// The types that tensors of these elements may have, first the one that results have.
    pub(super) fn all(element: &Element) -> Vec<Self> {
        let bytes = Self { dtype: Dtype::U8, shape: vec![element.size as usize] };
        let count = element.components.len();
        let Some(dtype) = common_dtype(element) else { return vec![bytes] };
        if count == 1 && element.components[0].name.is_empty() {
            return vec![Self { dtype, shape: vec![] }];
        }
        let flat = Self { dtype, shape: vec![count] };
        match aggregate(element) {
            Aggregate::Vector => vec![flat, bytes],
            Aggregate::Matrix(rows, columns) => vec![Self { dtype, shape: vec![rows, columns] }, flat, bytes],
            Aggregate::Struct => vec![bytes, flat],
        }
    }

    /// The extents of the array that a tensor is, if its elements have this type.
    pub(super) fn extents<'a>(&self, of: &'a TensorType, dims: usize) -> Option<&'a [usize]> {
        let (extents, rest) = of.shape.split_at_checked(dims)?;
        (of.dtype == self.dtype && rest == self.shape).then_some(extents)
    }

    /// As text, in an array of a number of dimensions.
    pub(super) fn in_array(&self, dims: usize) -> impl fmt::Display {
        let extents = vec!["_".to_owned(); dims].into_iter().chain(self.shape.iter().map(ToString::to_string));
        format!("{} of shape [{}]", self.dtype, extents.collect::<Vec<_>>().join(", "))
    }
}

/// The type of all components, if they lie one after the other and fill the element.
fn common_dtype(element: &Element) -> Option<Dtype> {
    let dtype = element.components.first()?.dtype;
    let size = u32::try_from(dtype.size()).ok()?;
    let places = (0..).step_by(size as usize);
    let is_packed = element.components.iter().zip(places).all(|(of, at)| of.dtype == dtype && of.offset == at);
    (is_packed && element.components.len() as u64 * u64::from(size) == u64::from(element.size)).then_some(dtype)
}

enum Aggregate {
    Vector,
    Matrix(usize, usize),
    Struct,
}

/// Returns the kind of an element, by the names of its components. A struct with the fields of a vector is like one.
fn aggregate(element: &Element) -> Aggregate {
    const TRANSFORM: [&str; 7] = ["p.x", "p.y", "p.z", "q.x", "q.y", "q.z", "q.w"];
    let names = || element.components.iter().map(|component| component.name.as_str());
    let is_numbered = names().enumerate().all(|(nth, name)| name == format!("c{nth}"));
    if names().zip(["x", "y", "z", "w"]).filter(|(name, expected)| name == expected).count() == element.components.len()
        || names().eq(TRANSFORM)
        || is_numbered
    {
        return Aggregate::Vector;
    }
    match names().next_back().and_then(matrix_size) {
        Some((rows, columns)) if rows.checked_mul(columns) == Some(element.components.len()) => {
            Aggregate::Matrix(rows, columns)
        }
        _ => Aggregate::Struct,
    }
}

/// Rows and columns of the matrix whose last component has this name: `m12`, or `m3_10` if there are more than ten columns.
fn matrix_size(name: &str) -> Option<(usize, usize)> {
    let digits = name.strip_prefix('m')?;
    let (row, column) = digits.split_once('_').or_else(|| digits.split_at_checked(digits.len().checked_sub(1)?))?;
    let count = |last: &str| last.parse::<usize>().ok()?.checked_add(1);
    Some((count(row)?, count(column)?))
}

#[cfg(test)]
mod tests {
    use accelerd_ir::kernel::Component;

    use super::*;

    /// Components of four bytes, one after the other.
    fn element(names: &[&str], dtype: Dtype) -> Element {
        let offsets = (0..).step_by(4);
        let components = names.iter().zip(offsets).map(|(name, offset)| {
            let name = (*name).to_owned();
            Component { name, dtype, offset }
        });
        Element { components: components.collect(), size: 4 * u32::try_from(names.len()).expect("a few") }
    }

    fn shapes(names: &[&str]) -> Vec<(Dtype, Vec<usize>)> {
        ElementType::all(&element(names, Dtype::F32)).into_iter().map(|of| (of.dtype, of.shape)).collect()
    }

    #[test]
    fn vectors_and_matrices_have_dimensions_and_structs_are_bytes() {
        use Dtype::{F32, U8};
        assert_eq!(shapes(&[""]), [(F32, vec![])]);
        assert_eq!(shapes(&["x", "y", "z"]), [(F32, vec![3]), (U8, vec![12])]);
        assert_eq!(shapes(&["c0", "c1", "c2", "c3", "c4"]), [(F32, vec![5]), (U8, vec![20])]);
        let matrix = ["m00", "m01", "m02", "m10", "m11", "m12"];
        assert_eq!(shapes(&matrix), [(F32, vec![2, 3]), (F32, vec![6]), (U8, vec![24])]);
        assert_eq!(shapes(&["position.x", "position.y"]), [(U8, vec![8]), (F32, vec![2])]);
        let mut mixed = element(&["a", "b"], F32);
        mixed.components[1].dtype = Dtype::I32;
        assert_eq!(ElementType::all(&mixed), [ElementType { dtype: U8, shape: vec![8] }]);
        let mut padded = element(&["x", "y"], F32);
        padded.size = 16;
        assert_eq!(ElementType::all(&padded), [ElementType { dtype: U8, shape: vec![16] }]);
    }

    #[test]
    fn a_tensor_is_split_to_extents_and_element() {
        let of = |shape: &[usize]| TensorType { dtype: Dtype::F32, shape: shape.to_vec() };
        let vector = ElementType { dtype: Dtype::F32, shape: vec![3] };
        assert_eq!(vector.extents(&of(&[4, 5, 3]), 2), Some(&[4, 5][..]));
        assert_eq!(vector.extents(&of(&[3]), 0), Some(&[][..]));
        assert_eq!(vector.extents(&of(&[4, 5]), 2), None);
        assert_eq!(vector.extents(&of(&[4, 3, 3]), 1), None);
        assert_eq!(vector.in_array(2).to_string(), "f32 of shape [_, _, 3]");
    }
}
