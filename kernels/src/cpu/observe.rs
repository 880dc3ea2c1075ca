//! Tells whoever is interested when a kernel begins and ends on the calling thread, so that a trace can show it. This crate
//! knows no tracing; it holds what it was given until the kernel has ended.

use std::{any::Any, sync::OnceLock};

/// Called with a kernel's name when it begins. What it returns is dropped on the same thread when the kernel ends.
pub type Observer = fn(&'static str) -> Option<Box<dyn Any>>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Has kernels of the CPU observed, by the first observer that is given.
pub fn observe_kernels(observer: Observer) {
    // A second one is the same one of another engine.
    let _second = OBSERVER.set(observer);
}

/// A kernel begins.
pub(crate) fn begin(name: &'static str) -> Option<Box<dyn Any>> {
    OBSERVER.get().and_then(|observer| observer(name))
}
