//! The child that compiles kernels for GPUs. It needs none itself.

use std::{fs::File, path::PathBuf};

use super::runtime::{CudaCompiler, CudaRuntime};
use crate::{
    child::{confine::confine, serve::Error},
    cuda::CudaCode,
    protocol::{ChildSettings, CompiledHeader, MAX_SLICE_BYTES, Request, Response, read_frame, write_frame},
    refusal::{Refusal, bounded},
};

/// Serves requests until the parent closes standard input.
pub(in crate::child) fn compile_on(
    runtime: &dyn CudaRuntime,
    library_paths: &[PathBuf],
    settings: &ChildSettings,
    (mut stdin, mut stdout): (File, File),
) -> Result<(), Error> {
    confine(Some(settings.memory_bytes), settings.nice)?;
    let compiler = runtime.compiler(library_paths);
    write_frame(&mut stdout, &Response::Ready, &[])?;
    while let Some((request, body)) = read_frame(&mut stdin, settings.message_bytes)? {
        let code = if let Request::Compile { capability } = request {
            compile(compiler.as_deref(), capability, body)
        } else {
            Err(Refusal::NotCompiled("this process only compiles kernels for GPUs".to_owned()))
        };
        match code {
            Ok(CudaCode { image, ptx, resources }) => {
                let header = CompiledHeader { image_bytes: image.len() as u64, resources };
                write_frame(&mut stdout, &Response::Compiled(header), &[&image, ptx.as_bytes()])?;
            }
            Err(refusal) => write_frame(&mut stdout, &Response::Refused(refusal), &[])?,
        }
    }
    Ok(())
}

fn compile(
    compiler: Result<&dyn CudaCompiler, &String>,
    capability: (u32, u32),
    source: Vec<u8>,
) -> Result<CudaCode, Refusal> {
    let compiler = compiler.map_err(|reason| Refusal::NoCompiler(bounded(reason)))?;
    let source = String::from_utf8(source).map_err(|error| Refusal::NotCompiled(error.to_string()))?;
    let code = compiler.compile(&source, capability).map_err(|log| Refusal::NotCompiled(bounded(log)))?;
    let (got, limit) = ((code.image.len() + code.ptx.len()) as u64, MAX_SLICE_BYTES);
    if got <= limit { Ok(code) } else { Err(Refusal::LimitTooHigh { what: "compiled code".into(), got, limit }) }
}
