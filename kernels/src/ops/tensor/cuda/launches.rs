//! Launches of generated kernels, decided on without a device.

use crate::{
    OpError,
    cuda::{Args, Buffer, Grid, JitSource, Worker},
};

/// An argument of a kernel: 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Argument {
    /// An address, an extent or a stride.
    Word(u64),
    /// A number.
    F64(f64),
    /// The address of the workspace.
    Workspace,
}

/// One launch.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) source: JitSource,
    pub(super) grid: Grid,
    pub(super) block_threads: u32,
    pub(super) arguments: Vec<Argument>,
}

/// Launches in order, and the device memory that they share.
#[derive(Clone, Debug, Default)]
pub(super) struct Launches {
    pub(super) launches: Vec<Launch>,
    pub(super) workspace_bytes: usize,
}

impl Launches {
    /// One launch without a workspace.
    pub(super) fn one(launch: Launch) -> Self {
        Self { launches: vec![launch], workspace_bytes: 0 }
    }

    /// Enqueues them with a workspace that is freed after them.
    pub(super) fn run(&self, worker: &Worker) -> Result<(), OpError> {
        let workspace =
            if self.workspace_bytes == 0 { Buffer::empty() } else { worker.alloc::<u8>(self.workspace_bytes)? };
        for launch in &self.launches {
            let kernel = worker.jit(&launch.source)?;
            let args = launch.arguments.iter().fold(Args::new(), |args, argument| match *argument {
                Argument::Word(word) => args.u64(word),
                Argument::F64(number) => args.f64(number),
                Argument::Workspace => args.u64(workspace.ptr().address()),
            });
            worker.launch_jit(&kernel, launch.grid, launch.block_threads, 0, &mut { args })?;
        }
        Ok(())
    }
}

/// A number of blocks along x.
pub(super) fn blocks_x(blocks: usize) -> Result<u32, OpError> {
    let most = i32::MAX.unsigned_abs();
    let fits = u32::try_from(blocks).ok().filter(|blocks| *blocks <= most);
    fits.ok_or_else(|| OpError::Invalid(format!("a tensor needs {blocks} blocks of a kernel, more than {most}")))
}
