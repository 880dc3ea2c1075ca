//! Kernel arguments and grids.

use std::ffi::c_void;

use bytemuck::Pod;

use super::memory::DevicePtr;

/// The number of blocks of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x.
    pub x: u32,
    /// Blocks along y.
    pub y: u32,
    /// Blocks along z.
    pub z: u32,
}

impl Grid {
    /// A grid of `x` blocks along x.
    pub const fn x(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }

    /// A plane of blocks.
    pub const fn xy(x: u32, y: u32) -> Self {
        Self { x, y, z: 1 }
    }

    /// Returns true if there is no block at all.
    pub const fn is_empty(self) -> bool {
        self.x == 0 || self.y == 0 || self.z == 0
    }
}

/// The configuration of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Programmatic dependent launch, for kernels that wait for the preceding ones by themselves.
    pub pdl: bool,
    /// Blocks.
    pub grid: Grid,
    /// Threads of a block.
    pub block_threads: u32,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Bytes that it reads and writes, for statistics; 0 if they are not counted.
    pub moved_bytes: u64,
}

/// Typed arguments of one launch, in the order of the kernel's parameters.
#[derive(Clone, Debug, Default)]
pub struct Args {
    /// Each argument starts at a word of its own; the machine is little-endian.
    words: Vec<u64>,
    /// First word and size in bytes of each argument.
    spans: Vec<(usize, usize)>,
}

impl Args {
    /// No arguments yet.
    pub fn new() -> Self {
        Self { words: Vec::with_capacity(16), spans: Vec::with_capacity(16) }
    }

    /// A pointer into device memory.
    #[must_use]
    pub fn ptr<T>(self, value: DevicePtr<T>) -> Self {
        self.value(value.raw)
    }

    /// A pointer to nothing.
    #[must_use]
    pub fn null(self) -> Self {
        self.value(0_u64)
    }

    /// A `unsigned int`.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.value(value)
    }

    /// An `int`.
    #[must_use]
    pub fn i32(self, value: i32) -> Self {
        self.value(value)
    }

    /// An `unsigned long long`.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.value(value)
    }

    /// A `float`.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.value(value)
    }

    /// A `double`.
    #[must_use]
    pub fn f64(self, value: f64) -> Self {
        self.value(value)
    }

    /// A struct with the same layout in CUDA, passed by value. It must need no more than 8-byte alignment.
    #[must_use]
    pub fn value<T: Pod>(mut self, value: T) -> Self {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let start = self.words.len();
        self.words.resize(start + size_of::<T>().div_ceil(8), 0);
        bytemuck::cast_slice_mut::<u64, u8>(&mut self.words[start..])[..size_of::<T>()]
            .copy_from_slice(bytemuck::bytes_of(&value));
        self.spans.push((start, size_of::<T>()));
        self
    }

    /// Arguments of these sizes in bytes, given by all their words. An argument starts at a word of its own.
    ///
    /// # Errors
    /// If there are more or fewer words.
    pub(crate) fn from_words(words: Vec<u64>, sizes: &[usize]) -> Result<Self, String> {
        let mut start = 0;
        let span = |size: &usize| {
            let offset = start;
            start += size.div_ceil(8);
            (offset, *size)
        };
        let spans = sizes.iter().map(span).collect();
        if start == words.len() {
            return Ok(Self { words, spans });
        }
        Err(format!("expected {start} words of arguments of {sizes:?} bytes, got {}", words.len()))
    }

    /// Replaces a word.
    pub(crate) fn set_word(&mut self, offset: usize, word: u64) {
        self.words[offset] = word;
    }

    /// Says how the arguments differ from a kernel's parameters, given by their sizes in bytes.
    pub(super) fn mismatch(&self, params: &[usize]) -> Option<String> {
        let given = || self.spans.iter().map(|span| span.1);
        let differs = !given().eq(params.iter().copied());
        differs.then(|| format!("arguments of {params:?} bytes, got {:?}", given().collect::<Vec<_>>()))
    }

    /// Addresses of the arguments, as the driver takes them. Valid while `self` is neither moved nor changed.
    pub(super) fn addresses(&mut self) -> Vec<*mut c_void> {
        let words = self.words.as_mut_ptr();
        self.spans.iter().map(|(start, _)| words.wrapping_add(*start).cast()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_sizes_and_values() {
        let mut args = Args::new().ptr(DevicePtr::<f32>::from_raw(7)).u32(3).f32(1.5).value([1_u32, 2, 3]).null();
        assert_eq!(args.mismatch(&[8, 4, 4, 12, 8]), None);
        let addresses = args.addresses();
        // SAFETY: the addresses point into `args`, which is alive, at values of these types.
        unsafe {
            assert_eq!(*addresses[0].cast::<u64>(), 7);
            assert_eq!(*addresses[1].cast::<u32>(), 3);
            assert_eq!((*addresses[2].cast::<f32>()).to_bits(), 1.5_f32.to_bits());
            assert_eq!(*addresses[3].cast::<[u32; 3]>(), [1, 2, 3]);
        }
    }

    #[test]
    fn words_are_divided_among_arguments() {
        let mut args = Args::from_words(vec![1, 2, 3, 4], &[8, 16, 4]).expect("four words");
        args.set_word(1, 7);
        assert_eq!(args.mismatch(&[8, 16, 4]), None);
        // SAFETY: the addresses point into `args`, which is alive, at as many bytes.
        let values = unsafe {
            let addresses = args.addresses();
            (*addresses[0].cast::<u64>(), *addresses[1].cast::<[u64; 2]>(), *addresses[2].cast::<u32>())
        };
        assert_eq!(values, (1, [7, 3], 4));
        assert!(Args::from_words(vec![1, 2], &[8]).is_err() && Args::from_words(vec![1], &[16]).is_err());
    }

    #[test]
    fn a_wrong_size_or_count_is_told() {
        let params = [8, 4];
        assert!(Args::new().null().u64(1).mismatch(&params).is_some());
        assert!(Args::new().null().mismatch(&params).is_some());
        assert!(Args::new().null().i32(-1).mismatch(&params).is_none());
    }
}
