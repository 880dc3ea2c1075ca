//! A compiler and a GPU for tests. A source is a list of words that say how they behave.
//!
//! A kernel adds 1, or the number in the name of its entry, to the number of 8 bytes that each of its threads has, in an array whose address is the first of the parameter block.

use std::{
    io::{self, Write},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use accelerd_sandbox::{
    CudaCode, CudaResources, SubjectOutcome,
    child::{CudaCompiler, CudaDevice, CudaError, CudaRuntime, CudaSubjectDevice, CudaSubjectLaunch, CudaThreads},
};

/// Where the memory starts.
const ADDRESS: u64 = 1 << 40;

/// An ordinal without a device.
const NO_DEVICE: u32 = 9;

pub(crate) struct FakeCuda;

struct FakeCompiler {
    quick: bool,
}

#[derive(Default)]
struct FakeDevice {
    limit: u64,
    kernels: Vec<Kernel>,
    memory: Vec<u8>,
    running: Option<Running>,
    fault: Option<[u8; 40]>,
}

/// Behaviour of threads by the words of a source.
#[derive(Clone, Default)]
struct Kernel {
    adds: u8,
    nanos: u64,
    faults: Vec<u64>,
    ignores_stop: bool,
    loses_device: bool,
    no_memory: bool,
}

struct Running {
    kernel: Kernel,
    threads: CudaThreads,
    array: usize,
    began: Instant,
    is_stopped: bool,
}

impl CudaRuntime for FakeCuda {
    fn compiler(&self, library_paths: &[PathBuf], quick: bool) -> Result<Box<dyn CudaCompiler>, String> {
        match library_paths.first() {
            Some(folder) => Err(format!("{} has no compiler", folder.display())),
            None => Ok(Box::new(FakeCompiler { quick })),
        }
    }

    fn device(&self, ordinal: u32, memory_bytes: u64) -> Result<Box<dyn CudaDevice>, String> {
        if ordinal == NO_DEVICE {
            return Err(format!("there is no device {ordinal}"));
        }
        Ok(Box::new(FakeDevice { limit: memory_bytes, ..FakeDevice::default() }))
    }

    fn subject_device(&self, ordinal: u32, memory_bytes: u64) -> Result<Box<dyn CudaSubjectDevice>, String> {
        if ordinal == NO_DEVICE {
            return Err(format!("there is no device {ordinal}"));
        }
        Ok(Box::new(FakeSubjectDevice { limit: memory_bytes, memory: vec![], launches: 0 }))
    }
}

impl CudaCompiler for FakeCompiler {
    fn compile(&self, source: &str, (major, _): (u32, u32), _entry: Option<&str>) -> Result<CudaCode, String> {
        let mut hoard = vec![];
        for word in source.split_whitespace() {
            match word {
                "endless" => loop {
                    thread::sleep(Duration::from_secs(1));
                },
                "insatiable" => loop {
                    hoard.push(vec![1_u8; 1 << 20]);
                },
                "abort" => std::process::abort(),
                "wrong" => return Err("line 1: wrong".to_owned()),
                "verbose" => return Err("line 1: wrong\n".repeat(10_000)),
                "passwd" => match std::fs::read("/etc/passwd") {
                    Ok(text) => return Err(String::from_utf8_lossy(&text).into_owned()),
                    Err(error) => return Err(format!("cannot open: {error}")),
                },
                _ => {}
            }
        }
        let registers = if self.quick { 2 * major } else { major };
        let resources = CudaResources { registers, ..CudaResources::default() };
        Ok(CudaCode { image: source.into(), ptx: format!("// {source}"), resources: Some(resources) })
    }
}

impl Kernel {
    fn new(source: &str) -> Self {
        let mut kernel = Self::default();
        for word in source.split_whitespace() {
            let (name, number) = word.split_once('=').unwrap_or((word, "0"));
            let number = number.parse().expect("a number");
            match name {
                "nanos" => kernel.nanos = number,
                "fault" => kernel.faults.push(number),
                "ignores_stop" => kernel.ignores_stop = true,
                "loses_device" => kernel.loses_device = true,
                "no_memory" => kernel.no_memory = true,
                _ => {}
            }
        }
        kernel
    }
}

impl FakeDevice {
    fn range(&self, at: u64, length: usize) -> Result<std::ops::Range<usize>, CudaError> {
        let at = usize::try_from(at).map_err(|_| CudaError::OutOfMemory)?;
        let inside = at.checked_add(length).filter(|end| *end <= self.memory.len());
        inside.map(|end| at..end).ok_or_else(|| CudaError::Failed("outside of the memory".to_owned()))
    }

    /// Has the threads run.
    fn run(&mut self, Running { kernel, threads: CudaThreads { first, count, .. }, array, .. }: &Running) {
        for thread in *first..first + count {
            let at = array + 8 * usize::try_from(thread).expect("a small grid");
            if let Some(number) = self.memory.get_mut(at..at + 8) {
                number[0] += kernel.adds;
            }
            if kernel.faults.contains(&thread) && self.fault.is_none() {
                let mut record = [0; 40];
                record[..8].copy_from_slice(&thread.to_le_bytes());
                self.fault = Some(record);
            }
        }
    }
}

impl CudaDevice for FakeDevice {
    fn load(&mut self, image: &[u8], entry: &str) -> Result<u64, CudaError> {
        let adds = entry.strip_prefix("add_").map_or(1, |number| number.parse().expect("a number"));
        let kernel = Kernel { adds, ..Kernel::new(std::str::from_utf8(image).expect("a source")) };
        if kernel.no_memory {
            return Err(CudaError::OutOfMemory);
        }
        self.kernels.push(kernel);
        Ok(self.kernels.len() as u64 - 1)
    }

    fn unload(&mut self, _kernel: u64) {}

    fn allocate(&mut self, bytes: u64) -> Result<u64, CudaError> {
        if bytes > self.limit {
            return Err(CudaError::OutOfMemory);
        }
        self.fault = None;
        self.memory = vec![0; usize::try_from(bytes).expect("a small memory")];
        Ok(ADDRESS)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), CudaError> {
        let range = self.range(at, bytes.len())?;
        self.memory[range].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        bytes.copy_from_slice(&self.memory[self.range(at, bytes.len())?]);
        Ok(())
    }

    fn start(&mut self, kernel: u64, threads: &CudaThreads, params: &[u8]) -> Result<(), CudaError> {
        assert!(self.running.is_none(), "one chunk at a time");
        let kernel = self.kernels[usize::try_from(kernel).expect("a loaded kernel")].clone();
        let address = u64::from_le_bytes(*params.first_chunk().expect("an address"));
        let array = usize::try_from(address - ADDRESS).expect("an address in the memory");
        let began = Instant::now();
        self.running = Some(Running { kernel, threads: *threads, array, began, is_stopped: false });
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Duration>, CudaError> {
        let Some(running) = &self.running else { return Err(CudaError::Failed("nothing runs".to_owned())) };
        let takes = Duration::from_nanos(running.kernel.nanos.saturating_mul(running.threads.count));
        let ends = running.is_stopped && !running.kernel.ignores_stop;
        let left = if ends { Duration::ZERO } else { takes.saturating_sub(running.began.elapsed()) };
        if left > timeout {
            thread::sleep(timeout);
            return Ok(None);
        }
        thread::sleep(left);
        let running = self.running.take().expect("it runs");
        if running.kernel.loses_device {
            return Err(CudaError::Lost("an illegal address".to_owned()));
        }
        self.run(&running);
        Ok(Some(takes))
    }

    fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            running.is_stopped = true;
        }
    }

    fn fault(&mut self) -> Result<Option<[u8; 40]>, CudaError> {
        Ok(self.fault)
    }
}

/// A GPU for CUDA C++ of clients. A source is a word that says what its kernel does with the byte at the address of its first parameter: it
/// adds the second one, and counts the launches of the process in the next byte.
struct FakeSubjectDevice {
    limit: u64,
    memory: Vec<u8>,
    launches: u8,
}

impl CudaSubjectDevice for FakeSubjectDevice {
    fn allocate(&mut self, bytes: u64) -> Result<u64, CudaError> {
        if bytes > self.limit {
            return Err(CudaError::OutOfMemory);
        }
        self.memory = vec![0; usize::try_from(bytes).expect("a small memory")];
        Ok(ADDRESS)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), CudaError> {
        let at = usize::try_from(at).expect("a small memory");
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        let at = usize::try_from(at).expect("a small memory");
        bytes.copy_from_slice(&self.memory[at..at + bytes.len()]);
        Ok(())
    }

    fn run(&mut self, image: &[u8], launch: &CudaSubjectLaunch, timeout: Duration) -> SubjectOutcome {
        self.launches += 1;
        let address = u64::from_le_bytes(*launch.params[0].first_chunk().expect("an address"));
        let at = usize::try_from(address - ADDRESS).expect("an address in the memory");
        match image {
            b"traps" => return SubjectOutcome::Fault("a trap".repeat(1000)),
            b"hangs" => {
                thread::sleep(timeout);
                return SubjectOutcome::Timeout;
            }
            b"blocks" => loop {
                thread::sleep(Duration::from_secs(1));
            },
            b"aborts" => std::process::abort(),
            b"prints" => writeln!(io::stdout(), "a line").expect("standard output is open"),
            b"too large" => return SubjectOutcome::NotLaunched("too many threads".to_owned()),
            _ => {}
        }
        self.memory[at] = self.memory[at].wrapping_add(launch.params[1][0]);
        self.memory[at + 1] = self.launches;
        SubjectOutcome::Ended(Duration::from_micros(7))
    }
}
