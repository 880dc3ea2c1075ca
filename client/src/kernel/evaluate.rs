//! Evaluations of CUDA C++.

use std::time::Duration;

use accelerd_proto::methods::kernel_service;

use super::KernelProgram;
use crate::{
    Client, Result,
    proto::{self, CudaParamKind, Dtype, Tensor, evaluate_request::Expectation},
    tensor_source::TensorSource,
};

/// A kernel in CUDA C++ to judge, with its parameters in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation(proto::EvaluateRequest);

impl Evaluation {
    /// The kernel `entry` of a source, an `extern "C" __global__` function.
    pub fn new(source: impl Into<String>, entry: impl Into<String>) -> Self {
        let subject = proto::CudaSubject { source: source.into(), entry: entry.into(), ..Default::default() };
        Self(proto::EvaluateRequest { subject: Some(subject), ..Default::default() })
    }

    fn subject(&mut self) -> &mut proto::CudaSubject {
        self.0.subject.get_or_insert_default()
    }

    fn param(mut self, name: String, dtype: Dtype, kind: CudaParamKind, shape: Vec<i64>) -> Self {
        self.subject().params.push(proto::CudaParam { name, dtype: dtype.into(), kind: kind.into(), shape });
        self
    }

    fn passed(self, name: String, dtype: Dtype, kind: CudaParamKind, argument: TensorSource) -> Self {
        let mut evaluation = self.param(name.clone(), dtype, kind, vec![]);
        evaluation.0.arguments.push(argument.named(name));
        evaluation
    }

    /// The next parameter: a value.
    #[must_use]
    pub fn value(self, name: impl Into<String>, dtype: Dtype, argument: impl Into<TensorSource>) -> Self {
        self.passed(name.into(), dtype, CudaParamKind::Value, argument.into())
    }

    /// The next parameter: a pointer to an array that is read, and must not change.
    #[must_use]
    pub fn input(self, name: impl Into<String>, dtype: Dtype, argument: impl Into<TensorSource>) -> Self {
        self.passed(name.into(), dtype, CudaParamKind::Input, argument.into())
    }

    /// The next parameter: a pointer to an array that is only written.
    #[must_use]
    pub fn output(self, name: impl Into<String>, dtype: Dtype, shape: impl IntoIterator<Item = i64>) -> Self {
        self.param(name.into(), dtype, CudaParamKind::Output, shape.into_iter().collect())
    }

    /// The next parameter: a pointer to an array that is read and written.
    #[must_use]
    pub fn input_output(self, name: impl Into<String>, dtype: Dtype, argument: impl Into<TensorSource>) -> Self {
        self.passed(name.into(), dtype, CudaParamKind::InputOutput, argument.into())
    }

    /// Blocks of the grid, in 1 to 3 dimensions, and threads of a block.
    #[must_use]
    pub fn grid(mut self, grid: impl IntoIterator<Item = u32>, block: impl IntoIterator<Item = u32>) -> Self {
        let subject = self.subject();
        (subject.grid, subject.block) = (grid.into_iter().collect(), block.into_iter().collect());
        self
    }

    /// Dynamic shared memory of a block.
    #[must_use]
    pub fn shared_memory(mut self, bytes: u32) -> Self {
        self.subject().dynamic_shared_memory_bytes = bytes;
        self
    }

    /// Compares with what a kernel in Python computes on a grid of threads, from elements that differ from run to run. Of the dialect Python the
    /// grid may be empty.
    #[must_use]
    pub fn against(mut self, reference: KernelProgram, grid: impl IntoIterator<Item = i64>) -> Self {
        let program = Some(reference.0);
        let grid = grid.into_iter().collect();
        self.0.expectation = Some(Expectation::Reference(proto::EvaluationReference { program, grid }));
        self
    }

    /// Compares an array with this one. All runs have the arguments as they are then.
    #[must_use]
    pub fn expect(mut self, name: impl Into<String>, value: Tensor) -> Self {
        let output = proto::NamedTensor { name: name.into(), value: Some(value) };
        if let Some(Expectation::Expected(expected)) = &mut self.0.expectation {
            expected.outputs.push(output);
        } else {
            self.0.expectation = Some(Expectation::Expected(proto::ExpectedOutputs { outputs: vec![output] }));
        }
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

    /// Sets the maximum time of a launch, 1 s by default.
    #[must_use]
    pub fn launch_timeout(mut self, timeout: Duration) -> Self {
        self.0.launch_timeout = timeout.try_into().ok();
        self
    }
}

impl Client {
    /// Judges a kernel in CUDA C++ that nobody trusts. What is wrong with it is the verdict of the response. The daemon needs the setting
    /// `sandbox.cuda_source` and a GPU.
    pub async fn evaluate(&self, evaluation: Evaluation) -> Result<proto::EvaluateResponse> {
        Ok(self.unary(kernel_service::EVALUATE, evaluation.0).await?.message)
    }
}
