//! The launches of a step, determined before the addresses of its buffers are known.

use bytemuck::Pod;

use super::buffers::Address;
use crate::{
    OpError,
    cuda::{DevicePtr, Grid, JitSource, Product, TensorMap, Worker},
};

/// 8 bytes of the arguments of a kernel: a parameter, or a part of a struct that is passed by value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Argument {
    /// An extent, a stride or another integer.
    Word(u64),
    /// A number.
    F64(f64),
    /// The address of a view.
    Address(Address),
    /// The address of a byte of the workspace.
    Workspace(usize),
}

impl Argument {
    /// A struct by value, whose first fields are these addresses.
    pub(super) fn structure<T: Pod>(value: T, addresses: &[Address]) -> Vec<Self> {
        const { assert!(size_of::<T>().is_multiple_of(8), "a struct of whole words") };
        let words: &[u64] = &bytemuck::pod_collect_to_vec(&[value]);
        let rest = words[addresses.len()..].iter().map(|word| Self::Word(*word));
        addresses.iter().map(|address| Self::Address(*address)).chain(rest).collect()
    }
}

/// A buffer whose address an execution knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pointer {
    View(Address),
    /// A byte of the workspace.
    Workspace(usize),
}

/// A tensor map of a kernel, which is encoded when the address is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapArgument {
    pub(super) map: TensorMap,
    pub(super) at: Pointer,
}

/// One launch of a generated kernel.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) source: JitSource,
    pub(super) grid: Grid,
    /// Bounds the blocks along x to a multiple of those that can run at once. The kernel's blocks take the rest in turns.
    pub(super) waves: Option<u32>,
    /// Programmatic dependent launch: the kernel waits for the one before it by itself.
    pub(super) pdl: bool,
    /// Blocks along x of a cluster, a divisor of the grid's.
    pub(super) cluster: u32,
    pub(super) block_threads: u32,
    /// Dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
    /// All words of all parameters but the tensor maps.
    pub(super) arguments: Vec<Argument>,
    /// The last parameters.
    pub(super) maps: Vec<MapArgument>,
}

impl Launch {
    /// Without dynamic shared memory, clusters and tensor maps; all blocks are launched.
    pub(super) fn new(source: JitSource, grid: Grid, block_threads: u32, arguments: Vec<Argument>) -> Self {
        Self {
            source,
            grid,
            waves: None,
            pdl: false,
            cluster: 1,
            block_threads,
            shared_bytes: 0,
            arguments,
            maps: vec![],
        }
    }
}

/// A product of the library.
#[derive(Clone, Debug)]
pub(super) struct ProductLaunch {
    pub(super) product: Product,
    pub(super) a: Address,
    pub(super) b: Address,
    pub(super) output: Address,
    /// Null without a bias.
    pub(super) bias: Address,
}

impl ProductLaunch {
    /// Has the library choose an algorithm, by the alignments of the operands.
    pub(super) fn prepare(&self, worker: &Worker) -> Result<(), OpError> {
        let [a, b, output] =
            [self.a, self.b, self.output].map(|address| DevicePtr::<u8>::from_raw(address.offset() as u64));
        worker.prepare_multiply(&self.product, a, b, output)
    }
}

/// The work that a step enqueues: a product, then the launches in order. The launches share a workspace.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "there is no better word for the launches")]
pub(super) struct Launches {
    pub(super) product: Option<ProductLaunch>,
    pub(super) launches: Vec<Launch>,
    pub(super) workspace_bytes: usize,
}

impl Launches {
    /// One launch without a workspace.
    pub(super) fn one(launch: Launch) -> Self {
        Self { launches: vec![launch], ..Self::default() }
    }
}

/// A number of blocks along x.
pub(super) fn blocks_x(blocks: usize) -> Result<u32, OpError> {
    let limit = i32::MAX.unsigned_abs();
    let fits = u32::try_from(blocks).ok().filter(|blocks| *blocks <= limit);
    fits.ok_or_else(|| OpError::Invalid(format!("a tensor needs {blocks} blocks of a kernel, more than {limit}")))
}
