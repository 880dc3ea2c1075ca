//! Kernels that a child compiles for a GPU.

use std::time::Instant;

use bytes::Bytes;

use super::{error::SandboxError, sandbox::Sandbox, stats::add};
use crate::{
    cuda::CudaCode,
    protocol::{CompileRequest, CompiledHeader, Request, Response},
    refusal::Refusal,
};

impl Sandbox {
    /// Compiles CUDA C++ for a GPU of a compute capability. In a source of a client, `entry` is the kernel whose resources are reported.
    ///
    /// A source for which the compiler takes too long or too much memory is refused: the child ends, and the next call has another one.
    pub fn compile(
        &mut self,
        source: Bytes,
        capability: (u32, u32),
        entry: Option<&str>,
        deadline: Instant,
    ) -> Result<CudaCode, SandboxError> {
        self.ensure_started(deadline)?;
        add(&self.counters.compilations, 1);
        let limit = Instant::now() + self.settings.load_timeout;
        let refused = |reason| Err(Refusal::NotCompiled(reason).into());
        let request = CompileRequest { capability, entry: entry.map(str::to_owned) };
        match self.exchange(Request::Compile(request), vec![source], deadline.min(limit)) {
            Ok((Response::Compiled(header), body)) => self.code(header, body),
            Ok((response, _)) => Err(self.unexpected(&response)),
            Err(SandboxError::Timeout { killed: true }) if Instant::now() < deadline => {
                refused(format!("the compiler takes longer than {:?}", self.settings.load_timeout))
            }
            Err(SandboxError::OutOfMemory(_)) => {
                refused(format!("the compiler needs more than {} bytes of memory", self.settings.memory_bytes))
            }
            Err(error) => Err(error),
        }
    }

    fn code(&mut self, header: CompiledHeader, mut body: Vec<u8>) -> Result<CudaCode, SandboxError> {
        let image_end = usize::try_from(header.image_bytes).ok().filter(|image_end| *image_end <= body.len());
        let ptx = image_end.map(|image_end| String::from_utf8(body.split_off(image_end)));
        let Some(Ok(ptx)) = ptx else { return Err(self.protocol_error("the code has no valid PTX".to_owned())) };
        Ok(CudaCode { image: body, ptx, resources: header.resources })
    }
}
