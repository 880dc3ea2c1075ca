//! Tensor maps: how the tensor memory accelerator (TMA) of GPUs from sm_90 on addresses boxes of a tensor.

use cudarc::driver::sys;

use super::{device::Device, launch_structs, memory::DevicePtr};
use crate::OpError;

launch_structs! {
    pub(crate) header TENSOR_MAP_LAUNCH = "launch/tensor_map.cuh";

    /// Bytes of an encoded map, which is an argument of a kernel.
    pub(crate) const TENSOR_MAP_BYTES: usize = 128;
}
/// The alignment of addresses and strides, in bytes.
pub(crate) const TMA_ALIGNMENT: usize = 16;
const ELEMENT_BYTES: usize = 2;

/// A tensor of 16-bit elements, and the box of it that a copy transfers. Boxes are written to shared memory in rows of 128 bytes with the
/// 128-byte swizzle; elements outside of the tensor are zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorMap {
    /// Elements of each dimension, the innermost first.
    pub(crate) extents: Vec<u64>,
    /// Bytes between neighbours of each dimension but the innermost.
    pub(crate) strides: Vec<u64>,
    pub(crate) boxes: TmaBox,
}

/// The box that a copy transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TmaBox {
    /// Neighbouring elements of each dimension.
    Tile(Vec<u32>),
    /// Channels of neighbouring positions of a convolution's window, of images of channels, columns, rows and images. Pairs are of columns
    /// and rows.
    Im2col {
        /// The first position of an image.
        lower_corner: [i32; 2],
        /// The last position, from the last pixel of an image.
        upper_corner: [i32; 2],
        /// Pixels between positions.
        position_strides: [u32; 2],
        channels: u32,
        positions: u32,
    },
}

impl TensorMap {
    /// Returns true if a map takes a stride in elements: positive, aligned, and less than 2^40 bytes.
    pub(crate) fn takes_stride(stride: isize) -> bool {
        let bytes = usize::try_from(stride).ok().and_then(|stride| stride.checked_mul(ELEMENT_BYTES));
        bytes.is_some_and(|bytes| (1..1 << 40).contains(&bytes) && bytes.is_multiple_of(TMA_ALIGNMENT))
    }

    /// The stride of a dimension in bytes. No copy steps along one of extent 1, or one that repeats; its stride must only be valid.
    pub(crate) fn stride_bytes(extent: usize, stride: isize) -> u64 {
        if extent > 1 && stride != 0 { (stride.unsigned_abs() * ELEMENT_BYTES) as u64 } else { TMA_ALIGNMENT as u64 }
    }

    /// The map as a kernel takes it, of a tensor at an address.
    ///
    /// # Errors
    /// If the driver refuses it.
    pub(crate) fn encode(&self, at: DevicePtr<u8>, device: &Device) -> Result<[u64; TENSOR_MAP_BYTES / 8], OpError> {
        use sys::{
            CUtensorMapDataType_enum as DataType, CUtensorMapFloatOOBfill_enum as Fill,
            CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as L2,
            CUtensorMapSwizzle_enum as Swizzle,
        };
        let rank = self.extents.len();
        if self.strides.len() + 1 != rank {
            return Err(device.failed("tensor map", &format!("{} strides of {rank} dimensions", self.strides.len())));
        }
        let element = DataType::CU_TENSOR_MAP_DATA_TYPE_UINT16;
        let dims = u32::try_from(rank).unwrap_or(u32::MAX);
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let extents = self.extents.as_ptr();
        let strides = self.strides.as_ptr();
        let address = std::ptr::without_provenance_mut(usize::try_from(at.address()).unwrap_or(0));
        let interleave = Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE;
        let swizzle = Swizzle::CU_TENSOR_MAP_SWIZZLE_128B;
        let promotion = L2::CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
        let fill = Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
        let encoded = match &self.boxes {
            TmaBox::Tile(extents_of_box) => {
                if extents_of_box.len() != rank {
                    return Err(device.failed("tensor map", &format!("a box of {extents_of_box:?}, {rank} dimensions")));
                }
                let ones = vec![1_u32; rank];
                let of_box = extents_of_box.as_ptr();
                let steps = ones.as_ptr();
                // SAFETY: all arrays have an element for each dimension, `strides` one less; the driver reads them and writes the map.
                unsafe {
                    sys::cuTensorMapEncodeTiled(
                        &raw mut map,
                        element,
                        dims,
                        address,
                        extents,
                        strides,
                        of_box,
                        steps,
                        interleave,
                        swizzle,
                        promotion,
                        fill,
                    )
                }
            }
            TmaBox::Im2col { lower_corner, upper_corner, position_strides: [columns, rows], channels, positions } => {
                if rank != 4 {
                    return Err(device.failed("tensor map", &format!("images of {rank} dimensions")));
                }
                let steps = [1, *columns, *rows, 1];
                let lower = lower_corner.as_ptr();
                let upper = upper_corner.as_ptr();
                let steps = steps.as_ptr();
                // SAFETY: as above, and the corners are of the two dimensions between channels and images.
                unsafe {
                    sys::cuTensorMapEncodeIm2col(
                        &raw mut map,
                        element,
                        dims,
                        address,
                        extents,
                        strides,
                        lower,
                        upper,
                        *channels,
                        *positions,
                        steps,
                        interleave,
                        swizzle,
                        promotion,
                        fill,
                    )
                }
            }
        };
        device.check("tensor map", encoded)?;
        Ok(map.opaque)
    }
}
