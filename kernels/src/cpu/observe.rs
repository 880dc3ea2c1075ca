//! Observation of CPU kernels, for traces: an observer is called when a kernel begins on the calling thread, and the
//! guard it returns is dropped when the kernel ends. This crate does not depend on `tracing`.

use std::{any::Any, sync::OnceLock};

/// Called with a kernel's name when it begins. The returned guard is dropped on the same thread when the kernel ends.
pub type Observer = fn(&'static str) -> Option<Box<dyn Any>>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Installs the process's observer of CPU kernels. Only the first call has an effect.
pub fn observe_kernels(observer: Observer) {
    // A second engine in the process installs the same observer.
    let _second = OBSERVER.set(observer);
}

pub(crate) fn begin(name: &'static str) -> Option<Box<dyn Any>> {
    OBSERVER.get().and_then(|observer| observer(name))
}
