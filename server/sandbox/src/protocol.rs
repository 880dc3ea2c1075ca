//! Messages between parent and child: frames over the child's standard input and output.
//!
//! A frame is a prefix of 16 bytes, a header and a body. The prefix is `ACS` and the version of the protocol as a byte, the length of the
//! header as u32 and the length of the body as u64, little-endian. The header is a [`Request`] or a [`Response`] in postcard's format. The
//! body is bulk data: a module, columns, outcomes and columns, or memory of a kernel. Both sides check lengths before they allocate. The
//! parent sends a request and then receives its response; the child sends nothing else.

use std::{
    io::{self, Read, Write},
    ops::Range,
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    abi::{Signature, WasmSignature},
    cuda::CudaResources,
    limits::{CaseLimits, Isolation, ModuleLimits, OnFault, Slice},
    refusal::Refusal,
};

const MAGIC: [u8; 4] = *b"ACS\x06";

/// Bytes of a header. The largest is the description of a module with long names of exports.
pub(crate) const MAX_HEADER_BYTES: usize = 4 << 20;

/// Bytes of outcomes and columns in a response; a slice that would have more is cut.
pub(crate) const MAX_SLICE_BYTES: u64 = 16 << 20;

/// Bytes of the record of a fault.
pub(crate) const FAULT_RECORD_BYTES: usize = 40;

/// Bytes of an entry in the body of [`Response::LaunchSlice`].
pub(crate) const FAULT_ENTRY_BYTES: usize = 8 + 1 + FAULT_RECORD_BYTES;

/// Bytes of a page of memory.
pub(crate) const WASM_PAGE: u64 = 1 << 16;

/// Bytes of the largest memory.
const MAX_MEMORY: u64 = 1 << 32;

/// SHA-256 of a module's binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModuleHash(pub [u8; 32]);

/// A request of the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first request. Answered by [`Response::Ready`].
    Start(ChildSettings),
    /// Compiles the module in the body. Answered by [`Response::Loaded`].
    Load(LoadRequest),
    /// Starts a call with the columns in the body and runs its first slice. Answered by [`Response::Slice`] or [`Response::NotLoaded`].
    Call(CallRequest),
    /// Writes the segments in the body to the memory of a new instance, and runs the first slice of a launch. Answered by
    /// [`Response::LaunchSlice`] or [`Response::NotLoaded`].
    Launch(LaunchRequest),
    /// Runs the next slice of the call or launch. Any other request ends it, but for [`Request::Read`] after the last slice.
    Continue(Slice),
    /// Reads memory of a launch whose last slice has run. Answered by [`Response::Memory`].
    Read(ReadRequest),
    /// Ends a launch on a GPU, where threads run on after a slice. Answered by [`Response::Stopped`].
    Stop,
    /// Compiles the CUDA C++ in the body. Answered by [`Response::Compiled`].
    Compile(CompileRequest),
    /// Launches a kernel of a client's CUDA C++ on memory with the contents of the body. Answered by [`Response::SubjectRan`] or
    /// [`Response::NotLoaded`]. [`Request::Read`] reads the memory, until the next launch.
    RunSubject(SubjectRequest),
}

impl Request {
    /// Returns true if it needs nothing of the requests before it but a module, whose lack the child reports.
    pub(crate) fn begins_work(&self) -> bool {
        match self {
            Self::Load(_) | Self::Call(_) | Self::Launch(_) | Self::Compile(_) | Self::RunSubject(_) => true,
            Self::Start(_) | Self::Continue(_) | Self::Read(_) | Self::Stop => false,
        }
    }
}

/// Purpose of a child process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Role {
    /// Modules of WebAssembly.
    Wasm,
    /// Compiles kernels for GPUs. The compiler is searched in these folders first.
    CudaCompiler {
        /// Folders of libraries.
        library_paths: Vec<PathBuf>,
        /// True if sources are those of clients. The process can open no file then, which a source could include.
        client_sources: bool,
        /// True if kernels are compiled in less time, to slower code of the same results.
        quick: bool,
    },
    /// Runs kernels on a GPU.
    CudaDevice {
        /// The driver's number of the GPU.
        ordinal: u32,
        /// The share of time in which launches of several chunks use it, at most 1.
        duty_cycle: f32,
    },
    /// Runs kernels of a client's CUDA C++ on a GPU.
    CudaSubject {
        /// The driver's number of the GPU.
        ordinal: u32,
    },
}

/// Target of a compilation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompileRequest {
    pub capability: (u32, u32),
    /// The kernel whose resources are reported, in a source of a client; `None` for generated code.
    pub entry: Option<String>,
}

/// A launch of a kernel of a client's CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubjectRequest {
    pub hash: ModuleHash,
    pub config: SubjectConfig,
    pub timeout: Duration,
}

/// Launch configuration of a kernel of a client's CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectConfig {
    /// Name of the kernel.
    pub entry: String,
    /// Its parameters, in order.
    pub params: Vec<SubjectParam>,
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

/// A parameter of a kernel of a client's CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubjectParam {
    /// The address of a byte of the launch's memory.
    Address(u64),
    /// A value.
    Value(Vec<u8>),
}

/// Outcome of a launch of a kernel of a client's CUDA C++. Only after `Ended` and `NotLaunched` the process can serve another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubjectOutcome {
    /// Its threads have ended; how long the GPU ran them.
    Ended(Duration),
    /// The GPU cannot launch it.
    NotLaunched(String),
    /// The GPU ended it with an error.
    Fault(String),
    /// It did not end in time.
    Timeout,
}

/// Further parameters of a launch on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaTarget {
    /// The symbol of the kernel.
    pub entry: String,
    /// Its parameter block.
    pub params: Vec<u8>,
    /// Where the block has addresses in the launch's memory, 8 bytes each.
    pub addresses: Vec<u32>,
    /// Extents of the grid; 1 beyond its dimensions.
    pub grid: [u32; 4],
}

/// Limits of the child process, and those of all modules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChildSettings {
    pub role: Role,
    pub memory_bytes: u64,
    pub stack_bytes: u64,
    pub case_memory_bytes: u64,
    pub message_bytes: u64,
    pub cached_modules: u32,
    pub nice: i32,
    pub module_limits: ModuleLimits,
}

/// Which module is compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadRequest {
    pub hash: ModuleHash,
    pub code: ModuleCode,
}

/// Kind of a module's compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ModuleCode {
    /// Code of the module alone, for launches and for cases that share an instance.
    Plain,
    /// Code that counts fuel.
    Fuel,
    /// Code that can undo the effects of a case, for cases that observe new instances.
    Undo,
}

/// A call with its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallRequest {
    pub hash: ModuleHash,
    pub function: String,
    pub signature: Signature,
    pub case_count: u64,
    pub limits: CaseLimits,
    pub isolation: Isolation,
    pub math: bool,
    pub slice: Slice,
}

impl CallRequest {
    /// The code that the call runs.
    pub(crate) fn code(&self) -> ModuleCode {
        ModuleCode::of_cases(&self.limits, self.isolation)
    }
}

impl ModuleCode {
    /// The code that cases run. Fuel is that of the module's own instructions, and the log is a page of memory besides.
    pub fn of_cases(limits: &CaseLimits, isolation: Isolation) -> Self {
        match (limits.fuel, isolation) {
            (Some(_), _) => Self::Fuel,
            (None, Isolation::Fresh) if limits.memory_bytes >= WASM_PAGE => Self::Undo,
            (None, _) => Self::Plain,
        }
    }
}

/// Which threads are run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LaunchRequest {
    pub hash: ModuleHash,
    /// Address and length of the segments in the body.
    pub segments: Vec<(u32, u64)>,
    pub memory_bytes: u64,
    pub arguments: u32,
    pub grid: u32,
    pub first_thread: u64,
    pub thread_count: u64,
    pub loop_budget: u64,
    pub on_fault: OnFault,
    pub timeout: Duration,
    pub slice: Slice,
    /// `None` for a module of WebAssembly.
    pub cuda: Option<CudaTarget>,
}

/// Which memory is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReadRequest {
    /// Addresses; of at most [`MAX_SLICE_BYTES`] in all.
    pub ranges: Vec<Range<u64>>,
    /// True if the launch ends with this request.
    pub is_last: bool,
}

impl LaunchRequest {
    /// Bytes of the memory: that of an instance has whole pages.
    pub(crate) fn page_bytes(&self) -> u64 {
        if self.cuda.is_some() {
            return self.memory_bytes;
        }
        self.memory_bytes.max(1).checked_next_multiple_of(WASM_PAGE).unwrap_or(u64::MAX)
    }

    /// Checks numbers against each other, and against the memory that an instance may have.
    pub(crate) fn check(&self, case_memory_bytes: u64) -> Result<(), Refusal> {
        let within = |what: &str, got: u64, limit: u64| {
            if got <= limit { Ok(()) } else { Err(Refusal::OutOfRange { what: what.to_owned(), limit, got }) }
        };
        let what = "memory of a launch".to_owned();
        let got = self.page_bytes();
        let limit = case_memory_bytes.min(MAX_MEMORY);
        if got > limit {
            return Err(Refusal::LimitTooHigh { what, got, limit });
        }
        for (address, bytes) in &self.segments {
            within("end of a segment", u64::from(*address).saturating_add(*bytes), self.memory_bytes)?;
        }
        let end = self.first_thread.saturating_add(self.thread_count);
        within("end of the threads", end, i64::MAX.cast_unsigned())
    }
}

impl ReadRequest {
    /// Checks addresses against the bytes of memory, and what is read against the limit of a message.
    pub(crate) fn check(&self, memory_bytes: u64) -> Result<(), Refusal> {
        let outside = |what: &str, got, limit| Err(Refusal::OutOfRange { what: what.to_owned(), limit, got });
        let mut bytes = 0u64;
        for Range { start, end } in &self.ranges {
            if *end > memory_bytes || start > end {
                return outside("end of what is read", *end, memory_bytes);
            }
            bytes = bytes.saturating_add(end - start);
        }
        if bytes > MAX_SLICE_BYTES { outside("bytes that are read", bytes, MAX_SLICE_BYTES) } else { Ok(()) }
    }
}

/// A response of the child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Response {
    /// The child has lowered its limits and waits for requests.
    Ready,
    /// The module is compiled and in the cache.
    Loaded(ModuleInfo),
    /// The module is not in the cache: it has to be loaded first.
    NotLoaded,
    /// Outcomes, one byte a case, and the columns of the cases of a slice.
    Slice(SliceHeader),
    /// Faults of a slice of a launch: see [`LaunchSlice`].
    LaunchSlice(LaunchSlice),
    /// The memory that was asked for.
    Memory,
    /// No thread of a launch runs.
    Stopped,
    /// The code in the body: an image that a GPU loads, and PTX.
    Compiled(CompiledHeader),
    /// Outcome of a launch.
    SubjectRan(SubjectOutcome),
    /// The request cannot be served; the child can serve others.
    Refused(Refusal),
}

/// Which cases a slice has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SliceHeader {
    /// The first case.
    pub first: u64,
    /// The number of cases.
    pub cases: u64,
    /// Fuel that these cases used, if it was counted.
    pub fuel: u64,
}

/// Result of a slice of a launch. The body has an entry of [`FAULT_ENTRY_BYTES`] for each thread that ended early: the number of the
/// thread as u64, the code of its outcome, and the record of its fault if the outcome is `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchSlice {
    /// Threads that have ended since the launch began.
    pub threads_done: u64,
    /// The code of the launch's outcome, if this was its last slice.
    pub outcome: Option<u8>,
    /// Time of the slice.
    pub time: Duration,
}

/// Parts of a body with compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompiledHeader {
    /// Bytes of the image that a GPU loads; the rest is PTX.
    pub image_bytes: u64,
    pub resources: Option<CudaResources>,
}

/// Exports of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// Exported functions, in the order of the module.
    pub functions: Vec<ExportedFunction>,
    /// True if it exports a memory named `memory`.
    pub exports_memory: bool,
    /// Initial bytes of its memory; 0 without one.
    pub memory_bytes: u64,
    /// Functions of module `math` that it imports, by name.
    pub math_imports: Vec<String>,
    /// Bytes of the compiled code.
    pub code_bytes: u64,
}

/// An exported function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedFunction {
    /// Its name.
    pub name: String,
    /// Its type.
    pub signature: WasmSignature,
    /// True if its code proves that it leaves its instance as it was. Cases of such a function share an instance.
    pub is_pure: bool,
    /// Constants of its code, and of all functions that it can reach.
    pub constants: FunctionConstants,
}

/// Constants of code, each once, the most important ones first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionConstants {
    /// Integers. Negative ones of 32 bits are there without sign as well.
    pub integers: Vec<i64>,
    /// Bits of floating-point numbers as f64.
    pub float_bits: Vec<u64>,
}

impl FunctionConstants {
    /// The floating-point numbers.
    pub fn floats(&self) -> impl Iterator<Item = f64> {
        self.float_bits.iter().copied().map(f64::from_bits)
    }
}

/// A message that is not one of this protocol.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("expected the prefix of a frame, got {0:02x?}")]
    Magic([u8; 4]),
    #[error("the {part} has {got} bytes, at most {limit} are allowed")]
    TooLarge { part: &'static str, got: u64, limit: u64 },
    #[error("the header is malformed: {0}")]
    Header(#[from] postcard::Error),
    #[error("{0} bytes follow the header's message")]
    TrailingBytes(usize),
    #[error("no memory for a body of {0} bytes")]
    OutOfMemory(usize),
}

/// Writes a frame whose body is the concatenation of `body`.
pub(crate) fn write_frame(to: &mut impl Write, message: &impl Serialize, body: &[&[u8]]) -> Result<(), FrameError> {
    let header = postcard::to_stdvec(message)?;
    let body_bytes: u64 = body.iter().map(|part| part.len() as u64).sum();
    let header_bytes = u32::try_from(header.len()).unwrap_or(u32::MAX);
    check("header", u64::from(header_bytes), MAX_HEADER_BYTES as u64)?;
    let mut prefix = Vec::with_capacity(16 + header.len());
    prefix.extend_from_slice(&MAGIC);
    prefix.extend_from_slice(&header_bytes.to_le_bytes());
    prefix.extend_from_slice(&body_bytes.to_le_bytes());
    prefix.extend_from_slice(&header);
    to.write_all(&prefix)?;
    for part in body {
        to.write_all(part)?;
    }
    Ok(to.flush()?)
}

/// Reads a frame whose body has at most `body_limit` bytes; `None` at the end of the stream.
pub(crate) fn read_frame<T: DeserializeOwned>(
    from: &mut impl Read,
    body_limit: u64,
) -> Result<Option<(T, Vec<u8>)>, FrameError> {
    let mut prefix = [0; 16];
    if !read_prefix(from, &mut prefix)? {
        return Ok(None);
    }
    let [m0, m1, m2, m3, h0, h1, h2, h3, body @ ..] = prefix;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(FrameError::Magic([m0, m1, m2, m3]));
    }
    let header = read_part(from, "header", u64::from(u32::from_le_bytes([h0, h1, h2, h3])), MAX_HEADER_BYTES as u64)?;
    let body = read_part(from, "body", u64::from_le_bytes(body), body_limit)?;
    let (message, rest) = postcard::take_from_bytes(&header)?;
    if rest.is_empty() { Ok(Some((message, body))) } else { Err(FrameError::TrailingBytes(rest.len())) }
}

/// Fills the prefix; false if the stream ends before it.
fn read_prefix(from: &mut impl Read, prefix: &mut [u8; 16]) -> Result<bool, FrameError> {
    let mut filled = 0;
    while filled < prefix.len() {
        match from.read(&mut prefix[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

fn read_part(from: &mut impl Read, part: &'static str, bytes: u64, limit: u64) -> Result<Vec<u8>, FrameError> {
    check(part, bytes, limit)?;
    let length = usize::try_from(bytes).map_err(|_| FrameError::TooLarge { part, got: bytes, limit })?;
    let mut data = vec![];
    data.try_reserve_exact(length).map_err(|_| FrameError::OutOfMemory(length))?;
    if from.take(bytes).read_to_end(&mut data)? < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(data)
}

fn check(part: &'static str, got: u64, limit: u64) -> Result<(), FrameError> {
    if got <= limit { Ok(()) } else { Err(FrameError::TooLarge { part, got, limit }) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(message: &Response, body: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![];
        write_frame(&mut bytes, message, body).expect("a vector takes everything");
        bytes
    }

    fn read(mut bytes: &[u8], limit: u64) -> Result<Option<(Response, Vec<u8>)>, FrameError> {
        read_frame(&mut bytes, limit)
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let message = Response::Slice(SliceHeader { first: 3, cases: u64::MAX, fuel: 7 });
        let bytes = frame(&message, &[b"ab", b"", b"cde"]);
        assert_eq!(read(&bytes, 5).expect("a frame").expect("a message"), (message, b"abcde".to_vec()));
        assert!(read(&[], 0).expect("the end").is_none());
    }

    #[test]
    fn a_truncated_frame_is_an_error() {
        let bytes = frame(&Response::Ready, &[b"abc"]);
        for length in 1..bytes.len() {
            assert!(matches!(read(&bytes[..length], 9), Err(FrameError::Io(_))), "{length} bytes");
        }
    }

    #[test]
    fn a_body_above_the_limit_is_refused_before_it_is_read() {
        let mut bytes = frame(&Response::Ready, &[]);
        bytes[8..16].fill(0xff);
        assert!(matches!(read(&bytes, 1 << 20), Err(FrameError::TooLarge { part: "body", .. })));
        bytes[4..8].fill(0xff);
        assert!(matches!(read(&bytes, 1 << 20), Err(FrameError::TooLarge { part: "header", .. })));
    }

    #[test]
    fn bytes_after_the_message_are_an_error() {
        let mut bytes = frame(&Response::Ready, &[]);
        bytes[4] += 1;
        bytes.push(0);
        assert!(matches!(read(&bytes, 0), Err(FrameError::TrailingBytes(1))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), framed: bool) {
            if framed && bytes.len() >= 16 {
                let header = u32::try_from(bytes.len() - 16).expect("a short vector");
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4..8].copy_from_slice(&header.to_le_bytes());
                bytes[8..16].fill(0);
            }
            let _ = read(&bytes, 1 << 10);
            let _ = read_frame::<Request>(&mut bytes.as_slice(), 1 << 10);
        }
    }
}
