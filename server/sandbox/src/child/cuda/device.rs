//! The child that runs kernels on a GPU.

use std::{
    collections::HashMap,
    fs::File,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};

use super::{
    active::ActiveLaunch,
    chunk::Chunks,
    runtime::{CudaDevice, CudaError, CudaRuntime},
};
use crate::{
    child::{
        Error,
        confine::{Access, confine_to, drop_capabilities, limit_resources},
    },
    outcome::Outcome,
    protocol::{
        ChildSettings, LaunchRequest, LaunchSlice, LoadRequest, ModuleHash, ModuleInfo, ReadRequest, Request, Response,
        read_frame, write_frame,
    },
    refusal::{Refusal, bounded},
};

/// Why a request has no response. The child refuses it, or ends.
enum Failure {
    Refused(Refusal),
    /// The device cannot be used any more, or a chunk does not end.
    Ended(String),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Self {
        match error {
            CudaError::OutOfMemory => Self::Refused(Refusal::NotStarted(error.to_string())),
            CudaError::Failed(reason) => Self::Refused(Refusal::NotStarted(bounded(reason))),
            CudaError::Lost(_) => Self::Ended(error.to_string()),
        }
    }
}

struct Server {
    device: Box<dyn CudaDevice>,
    settings: ChildSettings,
    duty_cycle: f32,
    /// Chunk sizes that the last launches of loaded kernels have found.
    chunks: HashMap<u64, Chunks>,
    /// Compiled code, and the kernels that were loaded from it, by last use.
    images: HashMap<ModuleHash, (u64, Image)>,
    uses: u64,
    active: Option<ActiveLaunch>,
    /// Bytes of the memory of the active launch.
    memory_bytes: u64,
}

struct Image {
    bytes: Vec<u8>,
    /// Loaded kernels by their entries.
    kernels: HashMap<String, u64>,
}

/// Serves requests until the parent closes standard input.
pub(in crate::child) fn launch_on(
    runtime: &dyn CudaRuntime,
    (ordinal, duty_cycle): (u32, f32),
    settings: ChildSettings,
    (mut stdin, mut stdout): (File, File),
) -> Result<(), Error> {
    // The driver maps far more than it uses. What this process allocates for a launch is bounded by the messages.
    limit_resources(None, settings.nice)?;
    // The driver starts threads, which inherit it.
    drop_capabilities()?;
    let device = runtime.device(ordinal, settings.case_memory_bytes)?;
    // Not earlier: the driver creates files and sockets of its own before it has a context.
    confine_to(Access::Device)?;
    write_frame(&mut stdout, &Response::Ready, &[])?;
    let message_bytes = settings.message_bytes;
    let (chunks, images, uses, active, memory_bytes) = Default::default();
    let mut server = Server { device, settings, duty_cycle, chunks, images, uses, active, memory_bytes };
    while let Some((request, body)) = read_frame(&mut stdin, message_bytes)? {
        match server.handle(request, body) {
            Ok((response, body)) => write_frame(&mut stdout, &response, &[&body])?,
            Err(Failure::Refused(refusal)) => write_frame(&mut stdout, &Response::Refused(refusal), &[])?,
            Err(Failure::Ended(reason)) => return Err(reason.into()),
        }
    }
    Ok(())
}

impl Server {
    fn handle(&mut self, request: Request, body: Vec<u8>) -> Result<(Response, Vec<u8>), Failure> {
        match request {
            Request::Continue(slice) => self.run(slice.time),
            Request::Load(request) => self.load(&request, body),
            Request::Launch(request) => self.launch(request, &body),
            Request::Read(request) => self.read(&request),
            Request::Stop => {
                self.stop()?;
                Ok((Response::Stopped, vec![]))
            }
            Request::Start(_) | Request::Call(_) | Request::Compile(_) | Request::RunSubject(_) => {
                Err(Refusal::NotStarted("this process only launches kernels on a GPU".to_owned()).into())
            }
        }
    }

    fn load(&mut self, request: &LoadRequest, bytes: Vec<u8>) -> Result<(Response, Vec<u8>), Failure> {
        self.stop()?;
        if ModuleHash(Sha256::digest(&bytes).into()) != request.hash {
            return Err(Refusal::InvalidModule("the image does not have the stated hash".into()).into());
        }
        self.uses += 1;
        let uses = self.uses;
        self.images.entry(request.hash).or_insert((uses, Image { bytes, kernels: HashMap::new() })).0 = uses;
        while self.images.len() > self.settings.cached_modules.max(1) as usize {
            let oldest = self.images.iter().min_by_key(|(_, (used, _))| *used).map(|(hash, _)| *hash);
            let Some((_, image)) = oldest.and_then(|hash| self.images.remove(&hash)) else { break };
            for kernel in image.kernels.into_values() {
                self.device.unload(kernel);
                self.chunks.remove(&kernel);
            }
        }
        Ok((Response::Loaded(ModuleInfo::default()), vec![]))
    }

    fn launch(&mut self, mut request: LaunchRequest, body: &[u8]) -> Result<(Response, Vec<u8>), Failure> {
        self.stop()?;
        request.check(self.settings.case_memory_bytes)?;
        let Some(target) = request.cuda.take() else {
            return Err(Refusal::NotStarted("the launch is not one for a GPU".to_owned()).into());
        };
        let expected = request.segments.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let got = body.len() as u64;
        if expected != got {
            return Err(Refusal::ColumnMismatch { what: "all segments".into(), expected, got }.into());
        }
        let kernel = match self.kernel(request.hash, &target.entry) {
            Ok(Some(kernel)) => kernel,
            Ok(None) => return Ok((Response::NotLoaded, vec![])),
            Err(CudaError::OutOfMemory) => return Ok(out_of_memory()),
            Err(error) => return Err(error.into()),
        };
        let address = match self.device.allocate(request.memory_bytes) {
            Ok(address) => address,
            Err(CudaError::OutOfMemory) => return Ok(out_of_memory()),
            Err(error) => return Err(error.into()),
        };
        let mut rest = body;
        for (at, bytes) in &request.segments {
            let (segment, others) = rest.split_at(usize::try_from(*bytes).expect("segments fit in the body"));
            self.device.write(u64::from(*at), segment)?;
            rest = others;
        }
        let outside = || Refusal::NotStarted("an address lies outside of the parameter block".to_owned());
        let chunks = self.chunks.get(&kernel).map_or_else(Chunks::new, |chunks| chunks.for_next_launch());
        let pace = (chunks, self.duty_cycle);
        let launch = ActiveLaunch::new(kernel, &request, target, address, pace).ok_or_else(outside)?;
        self.active = Some(launch);
        self.memory_bytes = request.memory_bytes;
        self.run(request.slice.time)
    }

    /// A kernel of an image, which is loaded at its first launch.
    fn kernel(&mut self, hash: ModuleHash, entry: &str) -> Result<Option<u64>, CudaError> {
        self.uses += 1;
        let Some((used, image)) = self.images.get_mut(&hash) else { return Ok(None) };
        *used = self.uses;
        if let Some(kernel) = image.kernels.get(entry) {
            return Ok(Some(*kernel));
        }
        let kernel = self.device.load(&image.bytes, entry)?;
        image.kernels.insert(entry.to_owned(), kernel);
        Ok(Some(kernel))
    }

    fn run(&mut self, time: Duration) -> Result<(Response, Vec<u8>), Failure> {
        let Some(launch) = self.active.as_mut().filter(|launch| !launch.is_over) else {
            return Ok((Response::NotLoaded, vec![]));
        };
        let slice = launch.run(&mut *self.device, Instant::now() + time);
        let slice = match slice {
            Err(CudaError::OutOfMemory) => return Ok(out_of_memory()),
            slice => slice?,
        };
        if launch.is_over {
            self.chunks.insert(launch.kernel, launch.chunks);
        }
        let entry = launch.fault.map(|(thread, record)| {
            let thread = thread.to_le_bytes();
            let code = [Outcome::Ok.code()];
            [&thread[..], &code, &record].concat()
        });
        Ok((Response::LaunchSlice(slice), entry.unwrap_or_default()))
    }

    fn read(&mut self, request: &ReadRequest) -> Result<(Response, Vec<u8>), Failure> {
        if !self.active.as_ref().is_some_and(|launch| launch.is_over) {
            return Ok((Response::NotLoaded, vec![]));
        }
        request.check(self.memory_bytes)?;
        let mut bytes = vec![];
        for range in &request.ranges {
            let start = bytes.len();
            bytes.resize(start + usize::try_from(range.end - range.start).expect("a message fits in memory"), 0);
            self.device.read(range.start, &mut bytes[start..])?;
        }
        if request.is_last {
            self.active = None;
        }
        Ok((Response::Memory, bytes))
    }

    /// Ends the active launch.
    fn stop(&mut self) -> Result<(), Failure> {
        let Some(mut launch) = self.active.take() else { return Ok(()) };
        if launch.stop(&mut *self.device)? {
            return Ok(());
        }
        Err(Failure::Ended("threads of a kernel do not end".to_owned()))
    }
}

/// The end of a launch that has no memory.
fn out_of_memory() -> (Response, Vec<u8>) {
    let outcome = Some(Outcome::OutOfMemory.code());
    (Response::LaunchSlice(LaunchSlice { threads_done: 0, outcome, time: Duration::ZERO }), vec![])
}
