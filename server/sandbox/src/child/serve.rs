//! The child's main loop.

use std::{collections::HashMap, fs::File, io, os::fd::AsFd, process::ExitCode, sync::Arc, thread};

use sha2::{Digest, Sha256};
use wasmtime::Module;

use super::{
    Error,
    active_call::ActiveCall,
    active_launch::ActiveLaunch,
    cache::{LoadedModule, ModuleCache},
    clock::{Clock, ResidentMemory, ticks_of},
    confine::{Access, confine_to, limit_resources},
    cuda::{CudaRuntime, compile_on, launch_on, run_subjects_on},
    driver::Layout,
    driver_runner::Driver,
    engine::EngineLinker,
    inspect::inspect,
    subject::Subject,
    undo::with_log,
};
use crate::{
    abi::Signature,
    limits::Slice,
    protocol::{
        CallRequest, ChildSettings, FrameError, LaunchRequest, LoadRequest, ModuleCode, ModuleHash, ModuleInfo,
        ReadRequest, Request, Response, Role, read_frame, write_frame,
    },
    refusal::{Refusal, bounded},
};

/// Native stack of the thread that compiles and runs, besides the stack of WebAssembly.
const HOST_STACK_BYTES: usize = 8 << 20;

/// Drivers that are kept, by signature.
const MAX_DRIVERS: usize = 64;

/// The largest image of initial memory that a module keeps.
const MAX_IMAGE_BYTES: u64 = 16 << 20;

/// Runs the child process: serves requests of the parent until it closes standard input. `cuda` is for children that need it.
pub fn main(cuda: &dyn CudaRuntime) -> ExitCode {
    match run(cuda) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cuda: &dyn CudaRuntime) -> Result<(), Error> {
    let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    // The driver prints what kernels print to standard output, which the protocol must keep for itself.
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let settings = match read_frame(&mut stdin, 0)? {
        Some((Request::Start(settings), _)) => settings,
        Some(_) => return Err("the first request is not a start".into()),
        None => return Ok(()),
    };
    match &settings.role {
        Role::Wasm => serve_wasm(settings, stdin, stdout),
        Role::CudaCompiler { library_paths, client_sources, quick } => {
            let compiler = (library_paths.as_slice(), *client_sources, *quick);
            compile_on(cuda, compiler, &settings, (stdin, stdout))
        }
        Role::CudaDevice { ordinal, duty_cycle } => {
            let device = (*ordinal, *duty_cycle);
            launch_on(cuda, device, settings, (stdin, stdout))
        }
        Role::CudaSubject { ordinal } => run_subjects_on(cuda, *ordinal, settings, (stdin, stdout)),
    }
}

fn serve_wasm(settings: ChildSettings, stdin: File, stdout: File) -> Result<(), Error> {
    let stack = usize::try_from(settings.stack_bytes)?.saturating_add(HOST_STACK_BYTES);
    let server = Server::start(settings)?;
    let serve = move || server.serve(stdin, stdout);
    let thread = thread::Builder::new().name("sandbox".into()).stack_size(stack).spawn(serve)?;
    thread.join().map_err(|_| "the thread that serves requests panicked")?
}

struct Server {
    settings: ChildSettings,
    /// In the order of [`ModuleCode`].
    engines: [EngineLinker; 3],
    clock: Arc<Clock>,
    cache: ModuleCache,
    /// Of the engine of the modules that they run with, and for functions whose instance has a log or for others.
    drivers: HashMap<(Signature, ModuleCode, bool), Driver>,
    active: Active,
}

/// The call or launch that the next slice belongs to.
enum Active {
    Nothing,
    Call(Box<ActiveCall>),
    Launch(ActiveLaunch),
}

impl Server {
    fn start(settings: ChildSettings) -> Result<Self, Error> {
        let engine = |code| EngineLinker::new(&settings, code);
        let engines = [engine(ModuleCode::Plain)?, engine(ModuleCode::Fuel)?, engine(ModuleCode::Undo)?];
        let memory = ResidentMemory::open()?;
        // The needed files of `/proc` are open by now, and threads inherit the limits of the one that starts them.
        limit_resources(Some(settings.memory_bytes), settings.nice)?;
        confine_to(Access::Computing)?;
        let clocked = engines.iter().map(|with| with.engine.clone()).collect();
        let clock = Clock::start(clocked, memory, settings.memory_bytes)?;
        let cache = ModuleCache::new(settings.cached_modules, settings.memory_bytes / 4);
        Ok(Self { settings, engines, clock, cache, drivers: HashMap::new(), active: Active::Nothing })
    }

    fn serve(mut self, mut stdin: File, mut stdout: File) -> Result<(), Error> {
        write_frame(&mut stdout, &Response::Ready, &[])?;
        let clock = Arc::clone(&self.clock);
        while let Some((request, body)) = read_frame(&mut stdin, self.settings.message_bytes)? {
            let busy = clock.busy();
            let response = self.handle(request, body);
            drop(busy);
            self.respond(&mut stdout, &response)?;
            if matches!(&self.active, Active::Launch(launch) if launch.is_read()) {
                self.active = Active::Nothing;
            }
        }
        Ok(())
    }

    fn respond(&self, stdout: &mut File, response: &Response) -> Result<(), FrameError> {
        let body = match (response, &self.active) {
            (Response::Slice(slice), Active::Call(call)) => call.body(*slice),
            (Response::LaunchSlice(_), Active::Launch(launch)) => vec![launch.faults()],
            (Response::Memory, Active::Launch(launch)) => launch.memory(),
            _ => vec![],
        };
        write_frame(stdout, response, &body)
    }

    fn handle(&mut self, request: Request, body: Vec<u8>) -> Response {
        let response = match request {
            Request::Continue(slice) => self.run_slice(slice),
            Request::Start(_) => Err(Refusal::InvalidModule("the sandbox has started already".into())),
            Request::Load(request) => self.load(&request, &body),
            Request::Call(request) => self.call(&request, body),
            Request::Launch(request) => self.launch(request, body),
            Request::Read(request) => self.read(request),
            Request::Stop | Request::Compile(_) | Request::RunSubject(_) => {
                Err(Refusal::NotStarted("this process has no GPU".into()))
            }
        };
        response.unwrap_or_else(Response::Refused)
    }

    fn load(&mut self, request: &LoadRequest, binary: &[u8]) -> Result<Response, Refusal> {
        self.active = Active::Nothing;
        let key = (request.hash, request.code);
        if let Some(module) = self.cache.get(&key) {
            return Ok(Response::Loaded((*module.info).clone()));
        }
        if ModuleHash(Sha256::digest(binary).into()) != request.hash {
            return Err(Refusal::InvalidModule("the binary does not have the stated hash".into()));
        }
        let mut info = inspect(binary, &self.settings.module_limits)?;
        let logged = if request.code == ModuleCode::Undo { self.logged(&info, binary)? } else { None };
        let (module, code) = match (logged, request.code) {
            (Some(module), code) => (module, code),
            (None, ModuleCode::Undo) => (self.compile(ModuleCode::Plain, binary)?, ModuleCode::Plain),
            (None, code) => (self.compile(code, binary)?, code),
        };
        let linker = &self.engines[code as usize].linker;
        let instance_pre = linker.instantiate_pre(&module).map_err(|error| not_compiled(&error))?;
        let image = module.image_range();
        info.code_bytes = (image.end as usize - image.start as usize) as u64;
        let bytes = info.code_bytes * 2 + binary.len() as u64 * 2 + info.memory_bytes.min(MAX_IMAGE_BYTES);
        let info = Arc::new(info);
        self.cache.insert(key, LoadedModule { instance_pre, info: Arc::clone(&info), code, bytes });
        Ok(Response::Loaded((*info).clone()))
    }

    fn compile(&self, code: ModuleCode, binary: &[u8]) -> Result<Module, Refusal> {
        let engine = &self.engines[code as usize].engine;
        Module::from_binary(engine, binary).map_err(|error| compile_error(engine, binary, &error))
    }

    /// The code of a valid module with a log, if it has functions that write. `None` also if the log takes it beyond a limit of
    /// WebAssembly, such as that of variables.
    fn logged(&self, info: &ModuleInfo, binary: &[u8]) -> Result<Option<Module>, Refusal> {
        if info.functions.iter().all(|function| function.is_pure) {
            return Ok(None);
        }
        let [plain, undo] = [ModuleCode::Plain, ModuleCode::Undo].map(|code| &self.engines[code as usize].engine);
        Module::validate(plain, binary).map_err(|invalid| Refusal::InvalidModule(bounded(format!("{invalid:#}"))))?;
        Ok(with_log(binary).and_then(|logged| Module::from_binary(undo, &logged).ok()))
    }

    fn call(&mut self, request: &CallRequest, body: Vec<u8>) -> Result<Response, Refusal> {
        self.active = Active::Nothing;
        let Some(module) = self.cache.get(&(request.hash, request.code())) else { return Ok(Response::NotLoaded) };
        let code = module.code;
        let subject = Subject::new(request, module, &self.settings, &self.clock)?;
        let has_log = subject.undo.is_some();
        let call = ActiveCall::new(request, subject, body, || self.driver(&request.signature, code, has_log))?;
        self.active = Active::Call(Box::new(call));
        self.run_slice(request.slice)
    }

    fn launch(&mut self, request: LaunchRequest, body: Vec<u8>) -> Result<Response, Refusal> {
        // Its memory is free before the next launch takes some.
        self.active = Active::Nothing;
        let Some(module) = self.cache.get(&(request.hash, ModuleCode::Plain)) else { return Ok(Response::NotLoaded) };
        let slice = request.slice;
        self.active = Active::Launch(ActiveLaunch::new(request, module, body, &self.settings, &self.clock)?);
        self.run_slice(slice)
    }

    fn run_slice(&mut self, slice: Slice) -> Result<Response, Refusal> {
        let slice_end = self.clock.ticks().saturating_add(ticks_of(slice.time));
        match &mut self.active {
            Active::Call(call) => Ok(Response::Slice(call.run(slice, slice_end))),
            Active::Launch(launch) => launch.run(slice_end),
            Active::Nothing => Ok(Response::NotLoaded),
        }
    }

    fn read(&mut self, request: ReadRequest) -> Result<Response, Refusal> {
        match &mut self.active {
            Active::Launch(launch) => launch.read(request),
            Active::Call(_) | Active::Nothing => Ok(Response::NotLoaded),
        }
    }

    fn driver(&mut self, signature: &Signature, code: ModuleCode, has_log: bool) -> Result<Driver, Refusal> {
        let key = (signature.clone(), code, has_log);
        if let Some(driver) = self.drivers.get(&key) {
            return Ok(driver.clone());
        }
        let layout = Layout::new(signature);
        let module = Module::from_binary(&self.engines[code as usize].engine, &layout.driver(has_log));
        let module = module.map_err(|error| not_compiled(&error))?;
        let driver = Driver { module, layout: Arc::new(layout) };
        if self.drivers.len() >= MAX_DRIVERS {
            self.drivers.clear();
        }
        self.drivers.insert(key, driver.clone());
        Ok(driver)
    }
}

/// Says whether the module is invalid, or valid and not compiled.
fn compile_error(engine: &wasmtime::Engine, binary: &[u8], error: &wasmtime::Error) -> Refusal {
    match Module::validate(engine, binary) {
        Err(invalid) => Refusal::InvalidModule(bounded(format!("{invalid:#}"))),
        Ok(()) => not_compiled(error),
    }
}

fn not_compiled(error: &wasmtime::Error) -> Refusal {
    Refusal::NotCompiled(bounded(format!("{error:#}")))
}
