//! A device as the engine sees it: the lanes that queue for it, its outstanding work, and whether it still lives.

use std::sync::{
    Arc, OnceLock, PoisonError, RwLock,
    atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};
use std::time::Instant;

use accelerd_kernels::{Backend, Device, DeviceId, OpError};

use crate::{queue::Depth, signal::Signal, tidy::Tidying};

/// One lane's queue for one device, whatever the operation.
pub(crate) trait Source: Send + Sync {
    /// Whether a turn may find something; costs one load.
    fn is_available(&self) -> bool;
    /// Runs the next batch, if there is one. `position` is what to report to [`Desk::took_turn`].
    fn turn(&self, position: usize, bench: &mut Bench) -> Turn;
    /// Sends what is queued elsewhere: the device is lost.
    fn abandon(&self);
    /// Answers what is queued with a refusal: the engine ends.
    fn stop(&self);
    /// How much is queued.
    fn depth(&self) -> Depth;
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A batch ran.
    Ran,
    /// Waiting until then pays, unless more comes.
    WaitUntil(Instant),
    /// Nothing may run.
    Nothing,
}

/// A worker's own view of its device.
pub(crate) struct Bench {
    /// What its workers share.
    pub(crate) desk: Arc<Desk>,
    /// What it computes with.
    pub(crate) backend: Backend,
}

/// What the workers of a device and its callers share.
pub(crate) struct Desk {
    device: Device,
    id: DeviceId,
    /// Its place in the list that the engine was started with.
    pub(crate) index: usize,
    /// What its workers sleep on.
    pub(crate) signal: Arc<Signal>,
    /// What its workers were told to give back.
    pub(crate) tidying: Tidying,
    /// Bytes queued for it or running on it.
    load: AtomicU64,
    lost: OnceLock<String>,
    /// Long batches that may run at once, and those that do.
    long_places: usize,
    long_running: AtomicUsize,
    sources: RwLock<Arc<[Arc<dyn Source>]>>,
    /// The source whose turn is next.
    next: AtomicUsize,
}

impl Desk {
    /// A device that nothing queues for.
    pub(crate) fn new(device: Device, index: usize, workers: usize) -> Self {
        // A GPU's short requests are the CPU's, by `cpu_below_bytes`; its workers overlap copies of long ones.
        let spare = usize::from(device.id() == DeviceId::Cpu);
        Self {
            id: device.id(),
            device,
            index,
            signal: Arc::new(Signal::new()),
            tidying: Tidying::new(workers),
            load: AtomicU64::new(0),
            lost: OnceLock::new(),
            long_places: workers.saturating_sub(spare).max(1),
            long_running: AtomicUsize::new(0),
            sources: RwLock::new(Arc::new([])),
            next: AtomicUsize::new(0),
        }
    }

    /// Its name.
    pub(crate) fn id(&self) -> DeviceId {
        self.id
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Most bytes it could ever hold.
    pub(crate) fn capacity(&self) -> u64 {
        let cap = self.device.pool_stats().map_or(0, |pool| pool.limit_bytes);
        let capacity = if cap > 0 { cap } else { self.device.info().memory_bytes };
        if capacity > 0 { capacity } else { u64::MAX }
    }

    /// Why it is lost, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// The error of a request that cannot run because it is lost.
    pub(crate) fn lost_error(&self) -> OpError {
        OpError::DeviceLost { device: self.id, reason: self.lost().unwrap_or("it takes no work").to_owned() }
    }

    /// Takes the device out for good: its workers end, and what is queued for it goes elsewhere.
    pub(crate) fn lose(&self, reason: String) {
        if self.lost.set(reason).is_err() {
            return;
        }
        tracing::error!(device = %self.id, reason = self.lost(), "a device is lost; its work goes elsewhere");
        self.signal.stop();
        for source in self.sources().iter() {
            source.abandon();
        }
    }

    /// Has its workers give back what memory nobody needs any more; ready when each has.
    pub(crate) fn tidy(&self) -> impl Future<Output = ()> + Send + use<> {
        let tidied = self.tidying.tell();
        self.signal.notify_all();
        tidied
    }

    /// Work was queued here.
    pub(crate) fn load(&self, bytes: u64) {
        self.load.fetch_add(bytes, Relaxed);
    }

    /// Work ended or went away.
    pub(crate) fn unload(&self, bytes: u64) {
        self.load.fetch_sub(bytes, Relaxed);
    }

    /// Whether one more long batch may run.
    pub(crate) fn has_long_place(&self) -> bool {
        self.long_running.load(SeqCst) < self.long_places
    }

    /// A place for a long batch, unless all are taken. Whoever gives one back looks at every queue again: what found
    /// none in the meantime need not be woken.
    pub(crate) fn long_place(&self) -> Option<LongPlace<'_>> {
        let more = |running| (running < self.long_places).then_some(running + 1);
        self.long_running.fetch_update(SeqCst, SeqCst, more).ok().map(|_| LongPlace(self))
    }

    /// How it stands for a request that looks for a device.
    pub(crate) fn standing(&self) -> Standing {
        Standing { id: self.id, lost: self.lost().is_some(), load: self.load.load(Relaxed) }
    }

    /// Lets a lane queue here.
    pub(crate) fn add(&self, source: &Arc<dyn Source>) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        *sources = sources.iter().cloned().chain([Arc::clone(source)]).collect();
        drop(sources);
        if self.lost().is_some() {
            source.abandon();
        }
    }

    /// Forgets a lane.
    pub(crate) fn remove(&self, source: &dyn Source) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        *sources = sources.iter().filter(|other| !std::ptr::addr_eq(Arc::as_ptr(other), source)).cloned().collect();
    }

    /// The lanes that queue here.
    pub(crate) fn sources(&self) -> Arc<[Arc<dyn Source>]> {
        Arc::clone(&self.sources.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives each lane a turn, from the one behind the last that ran, until one runs.
    pub(crate) fn round(bench: &mut Bench) -> Turn {
        let sources = bench.desk.sources();
        let start = bench.desk.next.load(SeqCst);
        let mut until = None;
        for offset in 0..sources.len() {
            let position = (start + offset) % sources.len();
            match sources[position].turn(position, bench) {
                Turn::Ran => return Turn::Ran,
                Turn::WaitUntil(at) => until = Some(until.map_or(at, |until: Instant| until.min(at))),
                Turn::Nothing => {}
            }
        }
        until.map_or(Turn::Nothing, Turn::WaitUntil)
    }

    /// A worker took a batch of the source at a position: the next turn is another's, and if there is more to do now,
    /// another worker is called.
    pub(crate) fn took_turn(&self, position: usize) {
        self.next.store(position + 1, SeqCst);
        if self.sources().iter().any(|source| source.is_available()) {
            self.signal.notify();
        }
    }
}

/// The place of a long batch on a device, given back when dropped.
pub(crate) struct LongPlace<'a>(&'a Desk);

impl Drop for LongPlace<'_> {
    fn drop(&mut self) {
        self.0.long_running.fetch_sub(1, SeqCst);
    }
}

/// How a device stands for a request that looks for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Its name.
    pub(crate) id: DeviceId,
    /// It takes no work any more.
    pub(crate) lost: bool,
    /// Its outstanding bytes.
    pub(crate) load: u64,
}

/// What a request asks of its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// The only device it can run on.
    pub(crate) home: Option<DeviceId>,
    /// It is small: the CPU answers sooner.
    pub(crate) small: bool,
    /// It ran as devices were lost, and is not given another to lose.
    pub(crate) suspect: bool,
}

/// The device for a request, by its place in the list.
///
/// What has a home goes there. Other work goes to the least loaded GPU; to the CPU goes what is small, what is
/// suspect, and everything once no GPU is left.
pub(crate) fn route(devices: impl Iterator<Item = Standing> + Clone, wish: Wish) -> Option<usize> {
    let usable = devices.enumerate().filter(|(_, device)| !device.lost);
    if let Some(home) = wish.home {
        return usable.clone().find(|(_, device)| device.id == home).map(|(index, _)| index);
    }
    let least = |cpu: bool| {
        let of_kind = usable.clone().filter(move |(_, device)| (device.id == DeviceId::Cpu) == cpu);
        of_kind.min_by_key(|(_, device)| device.load).map(|(index, _)| index)
    };
    match wish {
        Wish { suspect: true, .. } => least(true),
        Wish { small: true, .. } => least(true).or_else(|| least(false)),
        Wish { .. } => least(false).or_else(|| least(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Wish = Wish { home: None, small: false, suspect: false };

    fn gpu(ordinal: u32, load: u64) -> Standing {
        Standing { id: DeviceId::Cuda(ordinal), lost: false, load }
    }

    fn cpu(load: u64) -> Standing {
        Standing { id: DeviceId::Cpu, lost: false, load }
    }

    fn lost(device: Standing) -> Standing {
        Standing { lost: true, ..device }
    }

    fn routed(devices: &[Standing], wish: Wish) -> Option<usize> {
        route(devices.iter().copied(), wish)
    }

    #[test]
    fn stateless_work_goes_to_the_least_loaded_gpu() {
        assert_eq!(routed(&[gpu(0, 5), gpu(1, 3), cpu(0)], ANY), Some(1));
        assert_eq!(routed(&[gpu(0, 5), lost(gpu(1, 3)), cpu(0)], ANY), Some(0));
    }

    #[test]
    fn the_cpu_takes_small_work_and_what_no_gpu_is_left_for() {
        let small = Wish { small: true, ..ANY };
        assert_eq!(routed(&[gpu(0, 0), cpu(9)], small), Some(1));
        assert_eq!(routed(&[gpu(0, 0), lost(cpu(9))], small), Some(0));
        assert_eq!(routed(&[lost(gpu(0, 0)), cpu(9)], ANY), Some(1));
        assert_eq!(routed(&[cpu(9), cpu(3)], ANY), Some(1));
        assert_eq!(routed(&[lost(gpu(0, 0)), lost(cpu(0))], ANY), None);
    }

    #[test]
    fn what_has_a_home_goes_nowhere_else() {
        let home = Wish { home: Some(DeviceId::Cuda(1)), ..ANY };
        assert_eq!(routed(&[gpu(0, 0), gpu(1, 99), cpu(0)], home), Some(1));
        assert_eq!(routed(&[gpu(0, 0), lost(gpu(1, 99)), cpu(0)], home), None);
        assert_eq!(routed(&[gpu(0, 0), cpu(7)], Wish { home: Some(DeviceId::Cpu), ..ANY }), Some(1));
    }

    #[test]
    fn what_lost_devices_before_is_kept_from_the_others() {
        let suspect = Wish { suspect: true, ..ANY };
        assert_eq!(routed(&[lost(gpu(0, 0)), gpu(1, 0), cpu(5)], suspect), Some(2));
        assert_eq!(routed(&[lost(gpu(0, 0)), gpu(1, 0)], suspect), None);
    }
}
