//! Compiled kernels, and their launches.

use std::{collections::BTreeMap, time::Duration};

use accelerd_proto::methods::kernel_service;

use super::KernelConstant;
use crate::{
    Client, Element, Error, Matrix, Result,
    proto::{
        self, CudaCode, CudaCompileOptions, Kernel, KernelDevice, KernelDialect, KernelFault, KernelView, Tensor,
        launch_request::Kernel as Launched,
    },
    tensor_source::TensorSource,
    timing::Timings,
};

/// A kernel of a Python module. By default its dialect follows from its decorators, and it is the only kernel of the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelProgram(pub(crate) proto::KernelProgram);

/// A kernel with its grid and its arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch(proto::LaunchRequest);

/// A launch to measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Benchmark(proto::BenchmarkRequest);

/// Results of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchOutcome {
    /// The arrays by name; empty after a fault.
    pub outputs: BTreeMap<String, Tensor>,
    /// Why the kernel ended early, if it did.
    pub fault: Option<KernelFault>,
    /// Time that it ran; on a GPU, without transfers.
    pub execution_time: Duration,
    /// Where it ran.
    pub device: KernelDevice,
    /// Server-side timings.
    pub timings: Timings,
}

impl KernelProgram {
    /// A kernel of this module.
    pub fn new(source: impl Into<String>) -> Self {
        Self(proto::KernelProgram { source: source.into(), ..Default::default() })
    }

    /// Sets the meaning of operators and functions.
    #[must_use]
    pub fn dialect(mut self, dialect: KernelDialect) -> Self {
        self.0.dialect = dialect.into();
        self
    }

    /// Defines a name that the module uses.
    #[must_use]
    pub fn constant(mut self, name: impl Into<String>, value: impl Into<KernelConstant>) -> Self {
        let KernelConstant(value) = value.into();
        self.0.constants.insert(name.into(), proto::KernelConstant { value: Some(value) });
        self
    }

    /// The name of the kernel, of a module with several.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = name.into();
        self
    }
}

impl Launch {
    /// A launch of a program, which is compiled if it has not been.
    pub fn program(program: KernelProgram) -> Self {
        Self::of(Launched::Program(program.0))
    }

    /// A launch of a compiled kernel, by its id.
    pub fn kernel(id: impl Into<String>) -> Self {
        Self::of(Launched::KernelId(id.into()))
    }

    fn of(kernel: Launched) -> Self {
        Self(proto::LaunchRequest { kernel: Some(kernel), ..Default::default() })
    }

    /// Extents of the grid of threads. A kernel of the dialect Python without a grid runs for each element of its arguments.
    #[must_use]
    pub fn grid(mut self, extents: impl IntoIterator<Item = i64>) -> Self {
        self.0.grid = extents.into_iter().collect();
        self
    }

    /// An argument: a number, a tensor or a resident tensor.
    #[must_use]
    pub fn argument(mut self, name: impl Into<String>, value: impl Into<TensorSource>) -> Self {
        self.0.arguments.push(value.into().named(name));
        self
    }

    /// A parameter that shares the memory of an argument: what the kernel writes to one it reads from the other. By default it has all its
    /// elements.
    #[must_use]
    pub fn view(mut self, view: KernelView) -> Self {
        self.0.views.push(view);
        self
    }

    /// Returns an array. Without outputs, all arrays that the kernel writes are returned.
    #[must_use]
    pub fn output(self, name: impl Into<String>) -> Self {
        self.output_of_shape(name, [])
    }

    /// Returns an array that is no argument: it has this shape, and zeros to begin with.
    #[must_use]
    pub fn output_of_shape(mut self, name: impl Into<String>, shape: impl IntoIterator<Item = i64>) -> Self {
        self.0.outputs.push(proto::KernelOutput { name: name.into(), shape: shape.into_iter().collect() });
        self
    }

    /// The most iterations of all loops of a thread, 2^32 by default.
    #[must_use]
    pub fn loop_budget(mut self, iterations: u64) -> Self {
        self.0.loop_budget = Some(iterations);
        self
    }

    /// Where it runs; on the CPU by default.
    #[must_use]
    pub fn device(mut self, device: KernelDevice) -> Self {
        self.0.device = device.into();
        self
    }
}

impl Benchmark {
    /// Measures a launch. The elements of its arrays differ from run to run.
    pub fn of(launch: Launch) -> Self {
        Self(proto::BenchmarkRequest { launch: Some(launch.0), ..Default::default() })
    }

    /// Has another kernel with the same arrays compute the expected results on the CPU. By default the kernel itself does.
    #[must_use]
    pub fn against(mut self, reference: KernelProgram) -> Self {
        self.0.reference = Some(reference.0);
        self
    }

    /// Keeps the elements of an array, such as sorted offsets.
    #[must_use]
    pub fn fixed(mut self, array: impl Into<String>) -> Self {
        self.0.fixed_arguments.push(array.into());
        self
    }

    /// Timed runs, 20 by default.
    #[must_use]
    pub fn runs(mut self, count: u32) -> Self {
        self.0.run_count = Some(count);
        self
    }

    /// Runs before those that are timed, 3 by default.
    #[must_use]
    pub fn warm_up(mut self, count: u32) -> Self {
        self.0.warm_up_count = Some(count);
        self
    }

    /// Accepts `|actual - expected| <= atol + rtol * |expected|`. By default the tolerances of torch.testing apply.
    #[must_use]
    pub fn close(mut self, atol: f64, rtol: f64) -> Self {
        (self.0.atol, self.0.rtol) = (Some(atol), Some(rtol));
        self
    }
}

impl LaunchOutcome {
    fn new(response: proto::LaunchResponse, timings: Timings) -> Result<Self> {
        let device = response.device();
        let proto::LaunchResponse { outputs, fault, execution_time, .. } = response;
        let output = |proto::NamedTensor { name, value }| match value {
            Some(value) => Ok((name, value)),
            None => Err(Error::Malformed(format!("no value of the output {name:?}"))),
        };
        let outputs = outputs.into_iter().map(output).collect::<Result<_>>()?;
        let execution_time = Duration::try_from(execution_time.unwrap_or_default());
        let execution_time = execution_time.map_err(|error| Error::Malformed(format!("execution time: {error}")))?;
        Ok(Self { outputs, fault, execution_time, device, timings })
    }

    /// An output as a matrix; a vector becomes a matrix with one column.
    pub fn matrix<T: Element>(&self, name: &str) -> Result<Matrix<T>> {
        Matrix::from_tensor(self.outputs.get(name).cloned(), &format!("outputs[{name}]"))
    }
}

impl Client {
    /// Compiles a kernel, which the daemon keeps. Equal programs have one id.
    pub async fn compile(&self, program: KernelProgram) -> Result<Kernel> {
        self.compile_with(program, None).await.map(|(kernel, _)| kernel)
    }

    /// Compiles a kernel for GPUs of an architecture, such as `sm_90`, as well; an empty name is that of the daemon's GPU, or else `sm_75`.
    /// It needs no GPU.
    pub async fn compile_cuda(&self, program: KernelProgram, arch: impl Into<String>) -> Result<(Kernel, CudaCode)> {
        let (kernel, cuda) = self.compile_with(program, Some(CudaCompileOptions { arch: arch.into() })).await?;
        Ok((kernel, cuda.ok_or_else(|| Error::Malformed("no code for a GPU".to_owned()))?))
    }

    async fn compile_with(
        &self,
        program: KernelProgram,
        cuda: Option<CudaCompileOptions>,
    ) -> Result<(Kernel, Option<CudaCode>)> {
        let request = proto::CompileRequest { program: Some(program.0), cuda };
        let response = self.unary(kernel_service::COMPILE, request).await?.message;
        Ok((response.kernel.ok_or_else(|| Error::Malformed("no kernel".to_owned()))?, response.cuda))
    }

    /// Runs a kernel, once for each thread of a grid. One that does what its dialect forbids, such as an access outside of an array, ends
    /// with a fault, which is part of the outcome.
    ///
    /// ```no_run
    /// # async fn run(client: accelerd_client::Client) -> Result<(), accelerd_client::Error> {
    /// use accelerd_client::{KernelProgram, Launch, Matrix};
    ///
    /// let source = "import warp as wp\n\
    ///     @wp.kernel\n\
    ///     def scale(x: wp.array2d(dtype=float), a: float, y: wp.array2d(dtype=float)):\n\
    ///     \x20   i, j = wp.tid()\n\
    ///     \x20   y[i, j] = a * x[i, j]\n";
    /// let x = Matrix::new(vec![1.0_f32, 2.0, 3.0, 4.0], 2)?;
    /// let launch = Launch::program(KernelProgram::new(source)).grid([2, 2]).argument("x", x).argument("a", 2.0_f32);
    /// let outcome = client.launch(launch.output_of_shape("y", [2, 2])).await?;
    /// assert_eq!(outcome.matrix::<f32>("y")?.row(1), Some(&[6.0, 8.0][..]));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn launch(&self, launch: Launch) -> Result<LaunchOutcome> {
        let reply = self.unary(kernel_service::LAUNCH, launch.0).await?;
        LaunchOutcome::new(reply.message, reply.timings)
    }

    /// Measures a kernel, and compares what it computes in the first and the last run with what a reference computes. A wrong result, a fault
    /// or a time that is too short to be true is the verdict of the response.
    pub async fn benchmark(&self, benchmark: Benchmark) -> Result<proto::BenchmarkResponse> {
        Ok(self.unary(kernel_service::BENCHMARK, benchmark.0).await?.message)
    }

    /// Lists the kernels that are kept, the most recently used first.
    pub async fn list_kernels(&self) -> Result<Vec<Kernel>> {
        Ok(self.unary(kernel_service::LIST_KERNELS, proto::ListKernelsRequest {}).await?.message.kernels)
    }

    /// Drops a kernel that is kept, by its id.
    pub async fn evict_kernel(&self, id: impl Into<String>) -> Result<()> {
        self.unary(kernel_service::EVICT_KERNEL, proto::EvictKernelRequest { kernel_id: id.into() }).await.map(drop)
    }
}
