//! Compiles every kernel for the named architectures into a folder, to compare machine code between commits.
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
    let folder = args.next().ok_or("usage: compile_kernels FOLDER ARCH ...")?;
    let archs = args.map(|arg| arg.parse()).collect::<Result<Vec<Arch>, _>>()?;
    let nvrtc = env::var_os("ACCELERD_NVRTC_PATH").map(Into::into);
    for image in
        cuda::compile_kernels(&ops::modules(), &archs, Path::new(&folder), nvrtc.as_slice(), &LoadProgress::default())?
    {
        println!("{} {} {} bytes", image.module, image.arch, image.bytes);
    }
    Ok(())
}
