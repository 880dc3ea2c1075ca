//! The child that compiles kernels for GPUs. It needs none itself.

use std::{fs::File, path::PathBuf};

use super::runtime::{CudaCompiler, CudaRuntime};
use crate::{
    child::{
        Error,
        confine::{Access, confine_to, forbid_opening, limit_resources},
    },
    cuda::CudaCode,
    protocol::{
        ChildSettings, CompileRequest, CompiledHeader, MAX_SLICE_BYTES, Request, Response, read_frame, write_frame,
    },
    refusal::{Refusal, bounded, bounded_to},
};

/// Compiled before files can no longer be opened: the compiler loads the rest of itself with its first source.
const WARM_UP: &str = "extern \"C\" __global__ void warm_up() {}";
const WARM_UP_CAPABILITY: (u32, u32) = (7, 5);

/// Bytes of the log of a client's source.
const MAX_LOG_BYTES: usize = 16 << 10;

/// Serves requests until the parent closes standard input.
pub(in crate::child) fn compile_on(
    runtime: &dyn CudaRuntime,
    (library_paths, client_sources, quick): (&[PathBuf], bool, bool),
    settings: &ChildSettings,
    (mut stdin, mut stdout): (File, File),
) -> Result<(), Error> {
    limit_resources(Some(settings.memory_bytes), settings.nice)?;
    let compiler = runtime.compiler(library_paths, quick);
    if let Ok(compiler) = &compiler {
        let warm_up = compiler.compile(WARM_UP, WARM_UP_CAPABILITY, client_sources.then_some("warm_up"));
        // A compiler that no longer knows the architecture has loaded itself as well.
        if client_sources {
            warm_up?;
        }
    }
    // Not earlier: only a capability may let this process read the folders of the compiler.
    confine_to(Access::Computing)?;
    forbid_opening()?;
    write_frame(&mut stdout, &Response::Ready, &[])?;
    while let Some((request, body)) = read_frame(&mut stdin, settings.message_bytes)? {
        let code = if let Request::Compile(request) = request {
            compile(compiler.as_deref(), &request, body)
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
    CompileRequest { capability, entry }: &CompileRequest,
    source: Vec<u8>,
) -> Result<CudaCode, Refusal> {
    let compiler = compiler.map_err(|reason| Refusal::NoCompiler(bounded(reason)))?;
    let source = String::from_utf8(source).map_err(|error| Refusal::NotCompiled(error.to_string()))?;
    let log = |log| if entry.is_some() { bounded_to(MAX_LOG_BYTES, log) } else { bounded(log) };
    let code = compiler.compile(&source, *capability, entry.as_deref());
    let code = code.map_err(|error| Refusal::NotCompiled(log(error)))?;
    let got = (code.image.len() + code.ptx.len()) as u64;
    let limit = MAX_SLICE_BYTES;
    if got <= limit { Ok(code) } else { Err(Refusal::LimitTooHigh { what: "compiled code".into(), got, limit }) }
}
