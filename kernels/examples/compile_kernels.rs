//! Compiles every kernel into a folder, as a daemon does, for the named architectures or all that are supported: it may fail where the quick
//! compilation of the tests does not, and machine code can be compared between commits.
//!
//! `ACCELERD_NVRTC_PATH` names the folder of NVRTC: `compile_kernels FOLDER sm_90 sm_80`.
#![expect(clippy::print_stdout, reason = "a command for people")]

use std::{env, error::Error, path::Path};

use accelerd_kernels::{
    LoadProgress,
    cuda::{self, Arch},
    ops,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let folder = args.next().ok_or("usage: compile_kernels FOLDER [ARCH ...]")?;
    let named = args.map(|arg| arg.parse()).collect::<Result<Vec<Arch>, _>>()?;
    let archs = if named.is_empty() { Arch::SUPPORTED.to_vec() } else { named };
    let nvrtc = env::var_os("ACCELERD_NVRTC_PATH").map(Into::into);
    for image in cuda::compile_kernels(
        &ops::modules(),
        &archs,
        cuda::KernelFolder::Cache,
        Path::new(&folder),
        nvrtc.as_slice(),
        &LoadProgress::default(),
    )? {
        println!("{} {} {} bytes", image.module, image.arch, image.bytes);
    }
    Ok(())
}
