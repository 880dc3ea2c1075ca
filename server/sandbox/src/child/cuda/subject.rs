//! The child that runs CUDA C++ of a client on a GPU. Kernels can write whatever the context of this process maps, so its parent believes nothing
//! of what it answers but the times, and has it serve one client.

use std::fs::File;

use sha2::{Digest, Sha256};

use super::runtime::{CudaError, CudaRuntime, CudaSubjectDevice, CudaSubjectLaunch};
use crate::{
    child::{
        Error,
        confine::{Access, confine_to, drop_capabilities, limit_resources},
    },
    protocol::{
        ChildSettings, LoadRequest, ModuleHash, ModuleInfo, ReadRequest, Request, Response, SubjectConfig,
        SubjectOutcome, SubjectParam, SubjectRequest, read_frame, write_frame,
    },
    refusal::{Refusal, bounded},
};

struct Server {
    device: Box<dyn CudaSubjectDevice>,
    settings: ChildSettings,
    image: Option<(ModuleHash, Vec<u8>)>,
    /// Bytes of the memory of the last launch.
    memory_bytes: u64,
}

/// Serves requests until the parent closes standard input.
pub(in crate::child) fn run_subjects_on(
    runtime: &dyn CudaRuntime,
    ordinal: u32,
    settings: ChildSettings,
    (mut stdin, mut stdout): (File, File),
) -> Result<(), Error> {
    // As for other launches on a GPU: what this process allocates is bounded by the messages.
    limit_resources(None, settings.nice)?;
    // The driver starts threads, which inherit it.
    drop_capabilities()?;
    let device = runtime.subject_device(ordinal, settings.case_memory_bytes)?;
    // Not earlier: the driver creates files and sockets of its own before it has a context.
    confine_to(Access::Device)?;
    write_frame(&mut stdout, &Response::Ready, &[])?;
    let message_bytes = settings.message_bytes;
    let mut server = Server { device, settings, image: None, memory_bytes: 0 };
    while let Some((request, body)) = read_frame(&mut stdin, message_bytes)? {
        match server.handle(request, body) {
            Ok((response, body)) => write_frame(&mut stdout, &response, &[&body])?,
            Err(refusal) => write_frame(&mut stdout, &Response::Refused(refusal), &[])?,
        }
    }
    Ok(())
}

impl Server {
    fn handle(&mut self, request: Request, body: Vec<u8>) -> Result<(Response, Vec<u8>), Refusal> {
        match request {
            Request::Load(request) => self.load(&request, body),
            Request::RunSubject(request) => self.run(request, &body),
            Request::Read(request) => self.read(&request),
            Request::Start(_)
            | Request::Call(_)
            | Request::Launch(_)
            | Request::Continue(_)
            | Request::Stop
            | Request::Compile(_) => Err(not_started("this process only runs CUDA C++ of a client")),
        }
    }

    fn load(&mut self, request: &LoadRequest, bytes: Vec<u8>) -> Result<(Response, Vec<u8>), Refusal> {
        if ModuleHash(Sha256::digest(&bytes).into()) != request.hash {
            return Err(Refusal::InvalidModule("the image does not have the stated hash".into()));
        }
        self.image = Some((request.hash, bytes));
        Ok((Response::Loaded(ModuleInfo::default()), vec![]))
    }

    fn run(&mut self, request: SubjectRequest, memory: &[u8]) -> Result<(Response, Vec<u8>), Refusal> {
        let SubjectRequest { hash, config, timeout } = request;
        let Some((_, image)) = self.image.as_ref().filter(|(loaded, _)| *loaded == hash) else {
            return Ok((Response::NotLoaded, vec![]));
        };
        let got = memory.len() as u64;
        let limit = self.settings.case_memory_bytes;
        if got > limit {
            return Err(Refusal::LimitTooHigh { what: "memory of a launch".to_owned(), got, limit });
        }
        self.memory_bytes = got;
        let address = match self.device.allocate(got).and_then(|address| {
            self.device.write(0, memory)?;
            Ok(address)
        }) {
            Ok(address) => address,
            Err(CudaError::Lost(reason)) => return Ok(ran(SubjectOutcome::Fault(bounded(reason)))),
            Err(error) => return Err(not_started(error.to_string())),
        };
        let launch = launch(config, address, got)?;
        Ok(ran(self.device.run(image, &launch, timeout)))
    }

    fn read(&mut self, request: &ReadRequest) -> Result<(Response, Vec<u8>), Refusal> {
        request.check(self.memory_bytes)?;
        let mut bytes = vec![];
        for range in &request.ranges {
            let start = bytes.len();
            bytes.resize(start + usize::try_from(range.end - range.start).expect("a message fits in memory"), 0);
            let read = self.device.read(range.start, &mut bytes[start..]);
            read.map_err(|error| not_started(error.to_string()))?;
        }
        Ok((Response::Memory, bytes))
    }
}

/// The launch on memory at an address.
fn launch(config: SubjectConfig, address: u64, memory_bytes: u64) -> Result<CudaSubjectLaunch, Refusal> {
    let param = |param| match param {
        SubjectParam::Value(bytes) => Ok(bytes),
        SubjectParam::Address(at) if at <= memory_bytes => Ok((address + at).to_le_bytes().to_vec()),
        SubjectParam::Address(got) => {
            Err(Refusal::OutOfRange { what: "address of a parameter".to_owned(), limit: memory_bytes, got })
        }
    };
    let SubjectConfig { entry, params, grid, block, shared_bytes } = config;
    let params = params.into_iter().map(param).collect::<Result<_, _>>()?;
    Ok(CudaSubjectLaunch { entry, params, grid, block, shared_bytes })
}

fn ran(outcome: SubjectOutcome) -> (Response, Vec<u8>) {
    let outcome = match outcome {
        SubjectOutcome::NotLaunched(reason) => SubjectOutcome::NotLaunched(bounded(reason)),
        SubjectOutcome::Fault(reason) => SubjectOutcome::Fault(bounded(reason)),
        outcome @ (SubjectOutcome::Ended(_) | SubjectOutcome::Timeout) => outcome,
    };
    (Response::SubjectRan(outcome), vec![])
}

fn not_started(reason: impl Into<String>) -> Refusal {
    Refusal::NotStarted(bounded(reason))
}
