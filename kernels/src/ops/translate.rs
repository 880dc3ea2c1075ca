//! Translation of Python kernels, on the CPU of whatever worker runs it.

use std::ops::ControlFlow;

pub use accelerd_ir::kernel::{Component, Param, ParamType, cuda::DeviceCode};
pub use accelerd_translate::{Captured, Diagnostic, Dialect, File, Request, Targets, Translated, Translation};
use accelerd_translate::{TranslateError, translate};

use crate::{Backend, Op, OpError, Size};

/// The translation op.
#[derive(Debug)]
pub struct Translate;

impl Op for Translate {
    const NAME: &'static str = "translate";
    type Request = Request;
    type Response = Result<Translation, TooLarge>;
    type Key = ();

    fn key(_: &Request) {}

    /// Bytes of source count eight times, for syntax tree and kernels.
    fn size(request: &Request) -> Size {
        Size { items: 1, bytes: (request.source.len() as u64).saturating_mul(8).max(1) }
    }

    fn run(batch: &[&Request], on: &mut Backend) -> Result<Vec<Self::Response>, OpError> {
        batch.iter().map(|request| one(request, on)).collect()
    }
}

/// The files of a translation have more bytes than the request allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The most bytes.
    pub limit: usize,
}

fn one(request: &Request, on: &Backend) -> Result<Result<Translation, TooLarge>, OpError> {
    let mut failed = None;
    let outcome = translate(request, || match on.preemption_point() {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    match outcome {
        Ok(translation) => Ok(Ok(translation)),
        Err(TranslateError::TooLarge { limit }) => Ok(Err(TooLarge { limit })),
        Err(TranslateError::Cancelled) => Err(failed.unwrap_or(OpError::Cancelled)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cpu;

    fn backend() -> Backend {
        Backend::Cpu(cpu::Worker::new(cpu::Pool::start(1).expect("one thread")))
    }

    fn request(source: &str) -> Request {
        Request { source: source.to_owned(), max_bytes: 1 << 20, ..Request::default() }
    }

    #[test]
    fn each_request_has_its_own_translation() {
        let sources = ["def f(x: float) -> float:\n    return x\n", "def g(x: float) -> float:\n    return g\n"];
        let requests = sources.map(request);
        let answers: Vec<_> = Translate::run(&requests.each_ref(), &mut backend())
            .expect("translations")
            .into_iter()
            .map(|answer| answer.expect("small"))
            .collect();
        assert_eq!(answers[0].kernels[0].name, "f");
        assert_eq!((answers[1].kernels.len(), answers[1].diagnostics[0].kernel.as_str()), (0, "g"));
    }

    #[test]
    fn files_beyond_the_limit_fail_their_own_request_only() {
        let source = "def f(x: float) -> float:\n    return x\n";
        let requests = [Request { max_bytes: 10, ..request(source) }, request(source)];
        let answers = Translate::run(&requests.each_ref(), &mut backend()).expect("translations");
        assert_eq!(answers[0], Err(TooLarge { limit: 10 }));
        assert!(answers[1].is_ok());
    }

    #[test]
    fn a_translation_that_nobody_awaits_ends() {
        let mut backend = backend();
        backend.set_preemption(Arc::new(|| ControlFlow::Break(())));
        let outcome = Translate::run(&[&request("def f(x: float) -> float:\n    return x\n")], &mut backend);
        assert!(matches!(outcome, Err(OpError::Cancelled)), "{outcome:?}");
    }
}
