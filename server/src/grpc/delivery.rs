//! Objects that a call makes for its caller: they are removed if the response that names them is not sent.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tonic::Response;

/// Travels in the extensions of a response. Dropped before the response is sent, it takes back what the response names.
#[derive(Clone)]
pub(super) struct Delivery(Arc<Pending>);

struct Pending(Mutex<Option<TakeBack>>);

type TakeBack = Box<dyn FnOnce() + Send>;

impl Delivery {
    /// Adds the callback to a response that removes its object again.
    pub(super) fn attach<R>(response: R, take_back: impl FnOnce() + Send + 'static) -> Response<R> {
        let mut response = Response::new(response);
        response.extensions_mut().insert(Self(Arc::new(Pending(Mutex::new(Some(Box::new(take_back)))))));
        response
    }

    /// Called once the transport has taken the response.
    pub(super) fn complete(&self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(take_back) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            take_back();
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").finish_non_exhaustive()
    }
}
