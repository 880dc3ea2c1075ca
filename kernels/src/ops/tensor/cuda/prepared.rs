//! Launches of a plan whose kernels are loaded. An execution binds the addresses of its memory and enqueues them: it generates no text,
//! and looks no kernel up.

use std::{
    collections::HashSet,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_tensor::{Plan, Step};

use super::{
    buffers::{Bindings, BufferSizes, Memory},
    launches::{Argument, Launch, Launches, MapArgument, Pointer, ProductLaunch},
    step,
};
use crate::{
    OpError,
    cuda::{Args, DevicePtr, Grid, JitKernel, LaunchConfig, Slices, TENSOR_MAP_BYTES, Worker},
};

/// Words of an encoded tensor map.
const MAP_WORDS: usize = TENSOR_MAP_BYTES / 8;
/// A preparation that takes longer has compiled a kernel.
const COMPILED: Duration = Duration::from_millis(5);

/// The work of the first slice, in operations on elements: less than the time of a slice on a slow device.
pub(super) const FIRST_COST: u64 = 1_000_000_000;

/// A plan, ready to be enqueued.
pub(super) struct PreparedPlan {
    steps: Vec<PreparedStep>,
    sizes: BufferSizes,
    /// The bytes of the workspace, which steps use one after the other.
    pub(super) workspace_bytes: usize,
}

struct PreparedStep {
    product: Option<ProductLaunch>,
    launches: Vec<PreparedLaunch>,
    /// Estimated work, as of [`Step::cost`].
    cost: u64,
    /// Bytes that the product moves; 0 without one.
    product_bytes: u64,
}

/// A launch whose addresses are missing.
struct PreparedLaunch {
    kernel: Arc<JitKernel>,
    /// One launch of a step of several counts all bytes.
    config: LaunchConfig,
    /// The arguments; addresses are 0.
    args: Args,
    /// The words that are addresses.
    pointers: Vec<(usize, Pointer)>,
    /// The tensor maps, with their first words.
    maps: Vec<(usize, MapArgument)>,
}

impl PreparedPlan {
    /// The plan as the worker has prepared it before, or prepares it now.
    pub(super) fn of(plan: &Arc<Plan>, worker: &Worker) -> Result<Rc<Self>, OpError> {
        let known = worker.derived().get(plan);
        if let Some(known) = known {
            return Ok(known);
        }
        let prepared = Rc::new(Self::new(plan, worker)?);
        worker.derived().insert(plan, prepared.kernel_count().max(1), Rc::clone(&prepared) as Rc<dyn std::any::Any>);
        Ok(prepared)
    }

    /// Generates the kernels and loads them, with a preemption point after each step that has compiled one: a graph may need hundreds.
    fn new(plan: &Plan, worker: &Worker) -> Result<Self, OpError> {
        let sizes = BufferSizes::of(plan);
        let mut workspace_bytes = 0;
        let prepare = |step: &Step| {
            let start = Instant::now();
            let launches = step::prepare(step, &sizes, worker)?;
            workspace_bytes = workspace_bytes.max(launches.workspace_bytes);
            let prepared = PreparedStep::load(launches, step, worker)?;
            if start.elapsed() > COMPILED {
                worker.preemption_point()?;
            }
            Ok(prepared)
        };
        let steps = plan.steps.iter().map(prepare).collect::<Result<_, OpError>>()?;
        Ok(Self { steps, sizes, workspace_bytes })
    }

    /// Number of generated kernels that it keeps loaded.
    fn kernel_count(&self) -> usize {
        let launches = self.steps.iter().flat_map(|step| &step.launches);
        launches.map(|launch| Arc::as_ptr(&launch.kernel).addr()).collect::<HashSet<_>>().len()
    }

    /// Number of launches.
    pub(super) fn launch_count(&self) -> usize {
        self.steps.iter().map(|step| step.launches.len() + usize::from(step.product.is_some())).sum()
    }

    /// The addresses of this memory.
    pub(super) fn bind<'a>(&self, memory: &Memory<'a>) -> Result<Bindings<'a>, OpError> {
        Bindings::new(&self.sizes, self.workspace_bytes, memory)
    }

    /// Enqueues all steps, with preemption points after slices of work on the device.
    pub(super) fn run(&self, bindings: &Bindings<'_>, worker: &Worker) -> Result<(), OpError> {
        let mut slices = Slices::new(FIRST_COST as f64);
        for step in &self.steps {
            step.enqueue(bindings, worker)?;
            slices.queued(worker, step.cost as f64)?;
        }
        Ok(())
    }

    /// Enqueues all steps at once, as a capture needs it.
    pub(super) fn enqueue(&self, bindings: &Bindings<'_>, worker: &Worker) -> Result<(), OpError> {
        self.steps.iter().try_for_each(|step| step.enqueue(bindings, worker))
    }

    /// Has the library choose its algorithms, as a capture needs it.
    pub(super) fn prepare_products(&self, worker: &Worker) -> Result<(), OpError> {
        self.steps.iter().filter_map(|step| step.product.as_ref()).try_for_each(|product| product.prepare(worker))
    }
}

impl PreparedStep {
    /// The bytes of the step are those of its product, or else of its launch with the most threads.
    fn load(launches: Launches, step: &Step, worker: &Worker) -> Result<Self, OpError> {
        let Launches { product, launches, .. } = launches;
        let mut launches =
            launches.into_iter().map(|launch| PreparedLaunch::load(launch, worker)).collect::<Result<Vec<_>, _>>()?;
        let moved_bytes = step.workload().moved();
        let mut product_bytes = 0;
        if product.is_some() {
            product_bytes = moved_bytes;
        } else if let Some(largest) = launches.iter_mut().max_by_key(|launch| launch.threads()) {
            largest.config.moved_bytes = moved_bytes;
        }
        Ok(Self { product, launches, cost: step.cost(), product_bytes })
    }

    fn enqueue(&self, bindings: &Bindings<'_>, worker: &Worker) -> Result<(), OpError> {
        if let Some(ProductLaunch { product, a, b, output, bias }) = &self.product {
            let [a, b, output, bias] = [a, b, output, bias].map(|address| bindings.pointer(*address));
            worker.multiply(product, a, b, output, bias, self.product_bytes)?;
        }
        self.launches.iter().try_for_each(|launch| launch.enqueue(bindings, worker))
    }
}

impl PreparedLaunch {
    fn load(launch: Launch, worker: &Worker) -> Result<Self, OpError> {
        let Launch { source, mut grid, waves, pdl, cluster, block_threads, shared_bytes, arguments, maps } = launch;
        let kernel = worker.jit(&source)?;
        if let Some(waves) = waves {
            let active = worker.max_active_blocks(&kernel, block_threads, shared_bytes)?.max(1);
            let limit = worker.sm_count().saturating_mul(active).saturating_mul(waves);
            grid.x = grid.x.min((limit / cluster).max(1) * cluster);
        }
        let words = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Word(word) => *word,
                Argument::F64(number) => number.to_bits(),
                Argument::Address(_) | Argument::Workspace(_) => 0,
            })
            .chain(std::iter::repeat_n(0, maps.len() * MAP_WORDS));
        let args = Args::from_words(words.collect(), &source.params)
            .map_err(|reason| OpError::Invalid(format!("{}: {reason}", source.template)))?;
        let pointer = |(word, argument): (usize, &Argument)| match argument {
            Argument::Address(address) => Some((word, Pointer::View(*address))),
            Argument::Workspace(index) => Some((word, Pointer::Workspace(*index))),
            Argument::Word(_) | Argument::F64(_) => None,
        };
        let pointers = arguments.iter().enumerate().filter_map(pointer).collect();
        let maps = maps.into_iter().enumerate().map(|(nth, map)| (arguments.len() + nth * MAP_WORDS, map)).collect();
        let config = LaunchConfig { pdl, grid, block_threads, shared_bytes, moved_bytes: 0 };
        Ok(Self { kernel, config, args, pointers, maps })
    }

    fn threads(&self) -> u64 {
        let LaunchConfig { grid: Grid { x, y, z }, block_threads, .. } = self.config;
        [y, z, block_threads].into_iter().fold(x.into(), |threads: u64, by| threads.saturating_mul(by.into()))
    }

    fn enqueue(&self, bindings: &Bindings<'_>, worker: &Worker) -> Result<(), OpError> {
        let mut args = self.args.clone();
        let address = |pointer: Pointer| match pointer {
            Pointer::View(address) => bindings.pointer(address).address(),
            Pointer::Workspace(index) => bindings.workspace().address() + index as u64,
        };
        for (word, pointer) in &self.pointers {
            args.set_word(*word, address(*pointer));
        }
        for (first, MapArgument { map, at: pointer }) in &self.maps {
            let words = map.encode(DevicePtr::from_raw(address(*pointer)), worker.device())?;
            words.into_iter().enumerate().for_each(|(nth, word)| args.set_word(first + nth, word));
        }
        worker.launch_jit(&self.kernel, &self.config, &mut args)
    }
}
