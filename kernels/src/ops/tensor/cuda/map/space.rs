//! Parameters of the kernels that iterate over views.

use accelerd_tensor::MAX_RANK;

use crate::cuda::launch_structs;

launch_structs! {
    pub(super) header LAUNCH = "tensor/views_launch.cuh";

    /// Threads of a block that computes tiles.
    pub(super) const TILE_THREADS: u32 = 256;

    /// An iteration space.
    pub(super) struct Space {
        /// Number of vectors, or of tiles.
        pub(super) vectors: u64,
        /// Number of elements.
        pub(super) elements: u64,
        /// Extents of the last two dimensions, where they are cut into tiles.
        pub(super) rows: u64,
        pub(super) columns: u64,
        /// Vectors or tiles along each dimension, outermost first.
        pub(super) extents: [u64; 8],
        /// Distances between neighbours in the row-major order of the step's shape, where tiles change the order of dimensions.
        pub(super) index_strides: [i64; 8],
        /// Division by the extents: see [`Division`].
        pub(super) multipliers: [u32; 8],
        pub(super) shifts: [u32; 8],
    }

    /// A view.
    pub(super) struct View {
        pub(super) address: u64,
        /// In elements.
        pub(super) strides: [i64; 8],
    }
}

/// Division of a number below 2^31 by a constant: the quotient is `(high32(n * multiplier) + n) >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    multiplier: u32,
    shift: u32,
}

impl Division {
    /// `divisor` is from 1 to 2^31.
    pub(super) fn new(divisor: u64) -> Self {
        let shift = divisor.next_power_of_two().trailing_zeros();
        // With s = ceil(log2 d), m = floor(2^32 (2^s - d) / d) + 1 is below 2^32.
        let multiplier = ((1_u64 << 32) * ((1_u64 << shift) - divisor) / divisor + 1) & u64::from(u32::MAX);
        Self { multiplier: u32::try_from(multiplier).expect("masked to 32 bits"), shift }
    }
}

impl Space {
    /// A space of these extents, which are at least 1, of vectors or tiles of `elements` elements in total. Without `divides`, no index
    /// is divided by 32-bit arithmetic.
    pub(super) fn new(extents: &[usize], elements: usize, divides: bool) -> Self {
        let mut space = Self {
            vectors: extents.iter().map(|&extent| extent as u64).product(),
            elements: elements as u64,
            rows: 0,
            columns: 0,
            extents: [1; MAX_RANK],
            index_strides: [0; MAX_RANK],
            multipliers: [0; MAX_RANK],
            shifts: [0; MAX_RANK],
        };
        for (dim, &extent) in extents.iter().enumerate() {
            space.extents[dim] = extent as u64;
            if divides {
                let Division { multiplier, shift } = Division::new(extent as u64);
                (space.multipliers[dim], space.shifts[dim]) = (multiplier, shift);
            }
        }
        space
    }
}

/// Strides as kernels take them.
pub(super) fn padded(strides: &[isize]) -> [i64; MAX_RANK] {
    let mut padded = [0; MAX_RANK];
    for (to, &stride) in padded.iter_mut().zip(strides) {
        *to = stride as i64;
    }
    padded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The division as the kernels compute it.
    fn divide(n: u32, divisor: u32) -> u32 {
        let Division { multiplier, shift } = Division::new(u64::from(divisor));
        let high = u32::try_from((u64::from(n) * u64::from(multiplier)) >> 32).expect("a high half");
        (high + n) >> shift
    }

    proptest! {
        #[test]
        fn multiplication_and_shift_divide(n in 0..1_u32 << 31, divisor in 1..=1_u32 << 31, small in 1..5000_u32) {
            prop_assert_eq!(divide(n, divisor), n / divisor);
            prop_assert_eq!(divide(n, small), n / small);
            prop_assert_eq!(divide(n / small * small, small), n / small);
        }
    }

    #[test]
    fn the_extremes_divide() {
        let largest = (1 << 31) - 1;
        for divisor in [1, 2, 3, 7, 641, (1 << 30) - 1, 1 << 30, (1 << 30) + 1, largest, 1 << 31] {
            for n in [0, 1, divisor - 1, divisor.min(largest), largest - 1, largest] {
                assert_eq!(divide(n, divisor), n / divisor, "{n} / {divisor}");
            }
        }
    }
}
