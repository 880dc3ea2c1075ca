//! Tensors: graphs of operations on one device or several, and tensors that stay in memory between calls.

pub(crate) mod data_parallel;
pub(crate) mod execute;
pub(crate) mod graph_executor;
pub(crate) mod op_benchmark;
mod placement;
mod plan_checks;
pub(crate) mod resident_tensors;
pub(crate) mod source;
pub(crate) mod table;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_collections::Collections;
use accelerd_engine::{Engine, Lane, LaneConfig};
use accelerd_kernels::{
    DeviceId, Op,
    ledger::{Allowance, Ledger},
};

use self::table::TensorTable;
use crate::auth::Auth;

/// The state that the tensors of all callers share. Clones share it, too.
#[derive(Clone)]
pub(crate) struct Tensors {
    pub(crate) table: Arc<TensorTable>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) collections: Arc<Collections>,
    pub(crate) ledger: Arc<Ledger>,
    /// Memory of admitted requests.
    pub(crate) requests: Arc<Allowance>,
    pub(crate) lanes: LaneConfig,
    pub(crate) default_ttl: Duration,
    pub(crate) max_ttl: Duration,
}

impl Tensors {
    /// A new lane of tensor operations.
    fn lane<O: Op>(&self) -> Lane<O> {
        self.engine.lane(self.lanes.clone())
    }

    /// Returns true if a device is lost.
    fn is_lost(&self) -> impl Fn(DeviceId) -> bool + use<> {
        let losses = self.engine.losses();
        move |device| losses.borrow().iter().any(|loss| loss.device == device)
    }

    /// Frees the memory of expired and lost tensors.
    pub(crate) fn sweep(&self) {
        self.table.sweep(Instant::now(), self.is_lost());
    }
}
