//! Tables of geometry for examples. `kernels/lower/src/warp/geometry.py` states their format.

use accelerd_ir::kernel::Argument;

/// The names of the parameters that take the tables.
pub(crate) const INTS: &str = "geometry_ints";
const VECTORS: &str = "geometry_vectors";

/// What the handles of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Geometry {
    /// A square of two faces, whose hierarchy has a leaf for each.
    Mesh,
    /// Two cells with three points.
    Grid,
    /// A volume of one value.
    Volume,
}

impl Geometry {
    pub(crate) const ALL: [Self; 3] = [Self::Mesh, Self::Grid, Self::Volume];

    /// The table of a parameter, of an object with the handles 1 and `handle`; `None` for other parameters.
    pub(crate) fn table(self, param: &str, handle: i32) -> Option<Argument> {
        match param {
            INTS => Some(Argument::array(&self.ints(handle))),
            VECTORS => {
                let bytes = VECTORS_OF_MESH.iter().flatten().flat_map(|component| component.to_le_bytes()).collect();
                Some(Argument::contiguous(bytes, &[VECTORS_OF_MESH.len().try_into().ok()?], 12))
            }
            _ => None,
        }
    }

    fn ints(self, handle: i32) -> Vec<i32> {
        let header = [2, 1, 0, 7, handle, 0, 7];
        let one = 1.0_f32.to_bits().cast_signed();
        let record = match self {
            Self::Mesh => [
                &[1, 2, 25, 0, 40, 6, 42, 2, 10, 4, 0, 0, 44, 6, one, 0, 1, 0][..],
                &[0, 1, 1, 2, -1, 1, 2, 1, 2, 0, 0, 1, 0, -1, -1],
                &[0, 1, 0, 1],
                &[0, 1, 2, 1, 3, 2],
            ]
            .concat(),
            Self::Grid => [&[3, 2, 1, 1, one, 17, 19, 21, 3, 24][..], &[0, 2, 2, 3], &[2, 0, 1], &[0, 1, 0]].concat(),
            Self::Volume => {
                let identity = [one, 0, 0, 0, one, 0, 0, 0, one];
                let fields = [4, 24, 1, 512, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1];
                [&fields[..], &[one], &[0; 73], &identity, &identity, &[0; 3]].concat()
            }
        };
        [&header[..], &record].concat()
    }
}

/// Boxes of nodes and items, and points.
const VECTORS_OF_MESH: [[f32; 3]; 14] = {
    let low = [0.0, 0.0, 0.0];
    let high = [1.0, 1.0, 0.0];
    let right = [1.0, 0.0, 0.0];
    let above = [0.0, 1.0, 0.0];
    [low, high, low, high, low, high, low, high, low, high, low, right, above, high]
};
