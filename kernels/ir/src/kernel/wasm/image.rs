//! The memory layout when a kernel is launched.

use std::ops::Range;

use super::abi::{ARRAY_SIZE, ArgumentLayout, RESERVED, SHAPE, STRIDES};
use crate::kernel::{ArrayType, Element, Kernel, ParamType};

/// Alignment of arrays: a multiple of the vectors of WebAssembly, and of the bytes that a warp of a GPU reads at once.
const ALIGNMENT: u64 = 128;
/// Bytes before the argument block: the grid, after what belongs to the module.
const GRID_SIZE: u32 = 16;
/// Bytes of the largest memory.
const MAX_MEMORY: u64 = 1 << 32;
/// Extents are i32.
const MAX_EXTENT: u64 = i32::MAX as u64;

/// The argument of a parameter. `B` holds bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageArgument<B> {
    /// The bytes of one element.
    Value(B),
    /// A contiguous row-major array.
    Array {
        /// The extent of each dimension.
        extents: Vec<u64>,
        /// The bytes of its elements, little-endian.
        data: B,
    },
    /// A contiguous row-major array of zeros.
    Zeros {
        /// The extent of each dimension.
        extents: Vec<u64>,
    },
    /// Elements of the array of another parameter.
    View(View),
}

/// Which elements of an array a parameter shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Position of the parameter that has the array, which is not a view.
    pub array: usize,
    /// Where its first element begins, in bytes from the start of the array.
    pub offset: u64,
    /// The extent of each dimension.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next along each dimension; `None` if the elements are contiguous and row-major.
    pub strides: Option<Vec<u64>>,
}

/// The content of a module's memory when a kernel is launched. Memory that neither `head` nor `data` covers is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryImage<B> {
    /// Grid and argument block. They lie at the address [`RESERVED`].
    pub head: Vec<u8>,
    /// Addresses and bytes of arrays.
    pub data: Vec<(u32, B)>,
    /// For each parameter, where its elements lie if it is an array with elements of its own.
    pub arrays: Vec<Option<Range<u64>>>,
    /// Address of the grid.
    pub grid: u32,
    /// Address of the argument block.
    pub arguments: u32,
    /// Bytes of memory that all of this takes, from address 0.
    pub memory_bytes: u64,
    /// Number of threads of the grid: at most `i64::MAX`.
    pub thread_count: u64,
}

/// A launch cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The grid has another number of dimensions than the kernel.
    #[error("expected a grid of {expected} dimensions, got {got}")]
    GridDims {
        /// Dimensions of the kernel's grid.
        expected: u8,
        /// Extents that there are.
        got: usize,
    },
    /// An extent of the grid is 2^31 or more.
    #[error("dimension {axis} of the grid has the extent {extent}, at most {MAX_EXTENT} is allowed")]
    GridExtent {
        /// The dimension.
        axis: usize,
        /// Its extent.
        extent: u64,
    },
    /// The number of threads does not fit in 63 bits.
    #[error("the grid has more than {} threads", i64::MAX)]
    TooManyThreads,
    /// There are more or fewer arguments than parameters.
    #[error("expected {expected} arguments, got {got}")]
    ArgumentCount {
        /// Parameters of the kernel.
        expected: usize,
        /// Arguments that there are.
        got: usize,
    },
    /// An argument does not fit its parameter.
    #[error("argument `{name}`: {mismatch}")]
    Argument {
        /// Position of the parameter.
        param: usize,
        /// Name of the parameter.
        name: String,
        /// The mismatch.
        mismatch: ArgumentMismatch,
    },
    /// Grid, arguments and arrays take more memory than is allowed.
    #[error("the launch needs {got} bytes of memory, at most {limit} are allowed")]
    TooLarge {
        /// Bytes that are needed; `u64::MAX` stands for this and any greater number.
        got: u64,
        /// Bytes that are allowed.
        limit: u64,
    },
}

/// Why an argument does not fit its parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentMismatch {
    /// An array stands for a value, or the reverse.
    #[error("expected {0}")]
    Kind(&'static str),
    /// An array has another number of dimensions.
    #[error("expected {expected} dimensions, got {got}")]
    Dims {
        /// Dimensions of the parameter.
        expected: u8,
        /// Extents that there are.
        got: usize,
    },
    /// An extent is 2^31 or more.
    #[error("dimension {axis} has the extent {extent}, at most {MAX_EXTENT} is allowed")]
    Extent {
        /// The dimension.
        axis: usize,
        /// Its extent.
        extent: u64,
    },
    /// There are more or fewer bytes than those of all elements.
    #[error("expected {expected} bytes, got {got}")]
    Size {
        /// Bytes of the elements; `u64::MAX` stands for this and any greater number.
        expected: u64,
        /// Bytes that there are.
        got: u64,
    },
    /// A view shares elements with what has none of its own.
    #[error("expected elements of an array that is not a view")]
    NoArray,
    /// A view has another number of strides than dimensions.
    #[error("expected {expected} strides, got {got}")]
    Strides {
        /// Dimensions of the parameter.
        expected: u8,
        /// Strides that there are.
        got: usize,
    },
    /// A stride of a view is 2^31 or more.
    #[error("dimension {axis} has the stride {stride}, at most {MAX_EXTENT} is allowed")]
    Stride {
        /// The dimension.
        axis: usize,
        /// Its stride.
        stride: u64,
    },
    /// An offset or a stride of a view is no multiple of what its elements are aligned to.
    #[error("expected an offset and strides that are multiples of {0} bytes")]
    Alignment(u32),
    /// A view ends after the array.
    #[error("expected elements in an array of {expected} bytes, got an end at {got}")]
    Outside {
        /// Bytes of the array.
        expected: u64,
        /// Where the view ends; `u64::MAX` stands for this and any greater number.
        got: u64,
    },
    /// A component of a view has another type than all those of the array.
    #[error("expected components of the types that the array has")]
    Components,
}

impl<B: AsRef<[u8]>> MemoryImage<B> {
    /// Lays out a launch of a kernel that is well formed, in at most `limit` bytes and at most 4 GiB.
    ///
    /// # Errors
    /// Grid or arguments do not fit the kernel, or need more memory.
    pub fn new(
        kernel: &Kernel,
        grid: &[u64],
        arguments: Vec<ImageArgument<B>>,
        limit: u64,
    ) -> Result<Self, ImageError> {
        let thread_count = check_grid(kernel, grid)?;
        let expected = kernel.params.len();
        let got = arguments.len();
        if expected != got {
            return Err(ImageError::ArgumentCount { expected, got });
        }
        let layout = ArgumentLayout::new(kernel);
        let mut head = vec![0; (GRID_SIZE + layout.size) as usize];
        write_words(&mut head, 0, grid.iter().copied());
        let mut image = Self {
            memory_bytes: u64::from(RESERVED) + head.len() as u64,
            head,
            data: vec![],
            arrays: vec![None; expected],
            grid: RESERVED,
            arguments: RESERVED + GRID_SIZE,
            thread_count,
        };
        let limit = limit.min(MAX_MEMORY);
        let mut contents = vec![];
        // Views follow the arrays that they share.
        let (views, own): (Vec<_>, Vec<_>) =
            arguments.into_iter().enumerate().partition(|(_, argument)| matches!(argument, ImageArgument::View(_)));
        for (nth, argument) in own.into_iter().chain(views) {
            let offset = (GRID_SIZE + layout.offsets[nth]) as usize;
            let content = image.place(kernel, nth, argument, offset).map_err(|mismatch| ImageError::Argument {
                param: nth,
                name: kernel.params[nth].name.clone(),
                mismatch,
            })?;
            contents.extend(content);
        }
        if image.memory_bytes > limit {
            return Err(ImageError::TooLarge { got: image.memory_bytes, limit });
        }
        let address = |offset: u64| u32::try_from(offset).expect("arrays with elements start below the limit");
        image.data = contents.into_iter().map(|(offset, data)| (address(offset), data)).collect();
        Ok(image)
    }

    /// Writes an argument to the block, `offset` bytes from the head's start, and assigns an address to an array; the address with its bytes.
    fn place(
        &mut self,
        kernel: &Kernel,
        nth: usize,
        argument: ImageArgument<B>,
        offset: usize,
    ) -> Result<Option<(u64, B)>, ArgumentMismatch> {
        match (&kernel.params[nth].ty, argument) {
            (ParamType::Value(element), ImageArgument::Value(value)) => {
                let value = value.as_ref();
                check_size(element.size.into(), value)?;
                self.head[offset..offset + value.len()].copy_from_slice(value);
                Ok(None)
            }
            (ParamType::Array(ty), ImageArgument::Array { extents, data }) => {
                let size = array_size(ty, &extents)?;
                check_size(size, data.as_ref())?;
                let range = self.place_array(&ty.element, &extents, size, offset);
                self.arrays[nth] = Some(range.clone());
                Ok((size > 0).then_some((range.start, data)))
            }
            (ParamType::Array(ty), ImageArgument::Zeros { extents }) => {
                let size = array_size(ty, &extents)?;
                self.arrays[nth] = Some(self.place_array(&ty.element, &extents, size, offset));
                Ok(None)
            }
            (ParamType::Array(ty), ImageArgument::View(view)) => {
                self.place_view(kernel, ty, &view, offset).map(|()| None)
            }
            (
                ParamType::Value(_),
                ImageArgument::Array { .. } | ImageArgument::Zeros { .. } | ImageArgument::View(_),
            ) => Err(ArgumentMismatch::Kind("a value, got an array")),
            (ParamType::Array(_), ImageArgument::Value(_)) => Err(ArgumentMismatch::Kind("an array, got a value")),
        }
    }

    /// Places an array after all others. One without elements takes no memory.
    fn place_array(&mut self, element: &Element, extents: &[u64], size: u64, offset: usize) -> Range<u64> {
        let start = match size {
            0 => RESERVED.into(),
            _ => self.memory_bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX),
        };
        let end = start.saturating_add(size);
        self.memory_bytes = self.memory_bytes.max(end);
        self.write_array(offset, start, extents, contiguous(element, extents));
        start..end
    }

    /// Places a view of an array that has a place.
    fn place_view(
        &mut self,
        kernel: &Kernel,
        ty: &ArrayType,
        view: &View,
        offset: usize,
    ) -> Result<(), ArgumentMismatch> {
        let View { array, offset: first, extents, strides } = view;
        let array_ty = kernel.params.get(*array).map(|param| &param.ty);
        let range = self.arrays.get(*array).cloned().flatten();
        let (Some(ParamType::Array(shared)), Some(range)) = (array_ty, range) else {
            return Err(ArgumentMismatch::NoArray);
        };
        if !shares_components(&ty.element, &shared.element) {
            return Err(ArgumentMismatch::Components);
        }
        let size = array_size(ty, extents)?;
        let strides = strides.clone().unwrap_or_else(|| contiguous(&ty.element, extents));
        if strides.len() != extents.len() {
            return Err(ArgumentMismatch::Strides { expected: ty.dims, got: strides.len() });
        }
        if let Some((axis, stride)) = too_large(&strides) {
            return Err(ArgumentMismatch::Stride { axis, stride });
        }
        let alignment = ty.element.alignment();
        if strides.iter().chain([first]).any(|bytes| !bytes.is_multiple_of(alignment.into())) {
            return Err(ArgumentMismatch::Alignment(alignment));
        }
        let last =
            extents.iter().zip(&strides).map(|(extent, stride)| extent.saturating_sub(1).saturating_mul(*stride));
        let elements = if size == 0 { 0 } else { last.fold(ty.element.size.into(), u64::saturating_add) };
        let end = first.saturating_add(elements);
        let expected = range.end - range.start;
        if end > expected {
            return Err(ArgumentMismatch::Outside { expected, got: end });
        }
        self.write_array(offset, range.start.saturating_add(*first), extents, strides);
        Ok(())
    }

    /// Writes an array to the block.
    fn write_array(&mut self, offset: usize, start: u64, extents: &[u64], strides: Vec<u64>) {
        let header = &mut self.head[offset..offset + ARRAY_SIZE as usize];
        write_words(header, 0, [start]);
        write_words(header, SHAPE as usize, extents.iter().copied());
        write_words(header, STRIDES as usize, strides);
    }
}

/// The strides of a contiguous row-major array; they wrap.
fn contiguous(element: &Element, extents: &[u64]) -> Vec<u64> {
    let mut strides = vec![0; extents.len()];
    let mut stride = u64::from(element.size);
    for (to, extent) in strides.iter_mut().zip(extents).rev() {
        *to = stride;
        stride = stride.wrapping_mul(*extent);
    }
    strides
}

/// Returns true if compilers of C++ see that components of both elements may be the same: they are laid out alike, or all have one type.
fn shares_components(one: &Element, other: &Element) -> bool {
    let layout = |element: &Element| {
        let components = element.components.iter().map(|component| (component.dtype, component.offset));
        (element.size, components.collect::<Vec<_>>())
    };
    let mut types = one.components.iter().chain(&other.components).map(|component| component.dtype);
    let first = types.next();
    types.all(|dtype| Some(dtype) == first) || layout(one) == layout(other)
}

/// Writes numbers as u32. Those of strides wrap: addresses are computed modulo 2^32.
#[expect(clippy::cast_possible_truncation, reason = "other numbers are checked, or belong to a launch that is refused")]
fn write_words(to: &mut [u8], offset: usize, words: impl IntoIterator<Item = u64>) {
    for (bytes, word) in to[offset..].chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&(word as u32).to_le_bytes());
    }
}

/// The number of threads.
fn check_grid(kernel: &Kernel, grid: &[u64]) -> Result<u64, ImageError> {
    if grid.len() != usize::from(kernel.grid_dims) {
        return Err(ImageError::GridDims { expected: kernel.grid_dims, got: grid.len() });
    }
    if let Some((axis, extent)) = too_large(grid) {
        return Err(ImageError::GridExtent { axis, extent });
    }
    let threads = count(grid);
    if i64::try_from(threads).is_ok() { Ok(threads) } else { Err(ImageError::TooManyThreads) }
}

/// Bytes of the elements of an array; saturates.
fn array_size(ty: &ArrayType, extents: &[u64]) -> Result<u64, ArgumentMismatch> {
    if extents.len() != usize::from(ty.dims) {
        return Err(ArgumentMismatch::Dims { expected: ty.dims, got: extents.len() });
    }
    match too_large(extents) {
        Some((axis, extent)) => Err(ArgumentMismatch::Extent { axis, extent }),
        None => Ok(count(extents).saturating_mul(ty.element.size.into())),
    }
}

fn check_size(expected: u64, data: &[u8]) -> Result<(), ArgumentMismatch> {
    let got = data.len() as u64;
    if expected == got { Ok(()) } else { Err(ArgumentMismatch::Size { expected, got }) }
}

fn too_large(extents: &[u64]) -> Option<(usize, u64)> {
    extents.iter().copied().enumerate().find(|(_, extent)| *extent > MAX_EXTENT)
}

/// The product of extents; saturates, unless one is 0.
fn count(extents: &[u64]) -> u64 {
    if extents.contains(&0) { 0 } else { extents.iter().fold(1, |product, extent| product.saturating_mul(*extent)) }
}
