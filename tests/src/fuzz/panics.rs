//! Panics of any thread: a daemon catches those of its workers, and a test must see them all the same.

use std::{
    panic,
    sync::{Mutex, Once, PoisonError},
};

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Where harnesses report faults, by panics.
const HARNESS: &str = "tests/";
static HOOK: Once = Once::new();

/// Records panics from now on, besides printing them.
pub(super) fn watch() {
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let index = info.location().map_or_else(String::new, ToString::to_string);
            // The daemon catches panics of tokenizers, which are not its own, and answers the call.
            if index.contains("/tokenizers-") {
                return;
            }
            if !index.starts_with(HARNESS) {
                SEEN.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
            }
            print(info);
        }));
    });
}

/// The panics since the last call.
pub(super) fn take() -> Vec<String> {
    std::mem::take(&mut *SEEN.lock().unwrap_or_else(PoisonError::into_inner))
}
