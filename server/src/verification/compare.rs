//! Compares pairs of tensors: on the device that holds them, to which those on other devices are brought, or on the CPU.

use accelerd_engine::Context;
use accelerd_kernels::{
    Op as _,
    ops::{
        compare::{Compare, CompareRequest, Comparison, Pair},
        tensor::TensorInput,
    },
};

use super::service::VerificationService;
use crate::{error::ApiError, layers::timing, ledger::RequestMemory, tensors::resident_tensors::is_on_gpu};

impl VerificationService {
    /// Compares the pairs that there are, in their places.
    pub(super) async fn compare(
        &self,
        pairs: Vec<Option<Pair>>,
        context: Context,
    ) -> Result<Vec<Option<Comparison>>, ApiError> {
        let places: Vec<_> = pairs.iter().map(Option::is_some).collect();
        let mut pairs: Vec<_> = pairs.into_iter().flatten().collect();
        if pairs.is_empty() {
            return Ok(places.into_iter().map(|_| None).collect());
        }
        let mut memory = RequestMemory::new(&self.memory);
        self.gather(&mut pairs, &mut memory, &context).await?;
        let mut compared = self.compare_gathered(pairs, &mut memory, context).await?.into_iter();
        Ok(places.into_iter().map(|is_compared| if is_compared { compared.next() } else { None }).collect())
    }

    /// Compares pairs on the device that holds them. If it has no memory to compare in, the CPU compares copies.
    async fn compare_gathered(
        &self,
        pairs: Vec<Pair>,
        memory: &mut RequestMemory,
        context: Context,
    ) -> Result<Vec<Comparison>, ApiError> {
        let reads_gpu = pairs.iter().any(|pair| is_on_gpu(&pair.actual) || is_on_gpu(&pair.expected));
        let again = reads_gpu.then(|| pairs.clone());
        let request = CompareRequest::new(pairs);
        let size = Compare::size(&request);
        let done = match (self.lane.submit(request, context.clone()).await, again) {
            (Err(error), Some(mut pairs)) if self.lane.falls_back(&error, size, &context) => {
                for side in pairs.iter_mut().flat_map(|pair| [&mut pair.actual, &mut pair.expected]) {
                    self.resident.move_to_host(side, memory, &context).await?;
                }
                self.lane.submit(CompareRequest::new(pairs), context).await?
            }
            (done, _) => done?,
        };
        timing::record(&done);
        Ok(done.response)
    }

    /// Reads tensors into host memory that are not on the device of the first resident one, where the pairs are compared.
    async fn gather(&self, pairs: &mut [Pair], memory: &mut RequestMemory, context: &Context) -> Result<(), ApiError> {
        let mut first = None;
        for side in pairs.iter_mut().flat_map(|pair| [&mut pair.actual, &mut pair.expected]) {
            let TensorInput::Resident(tensor) = side else { continue };
            if *first.get_or_insert(tensor.device()) != tensor.device() {
                self.resident.move_to_host(side, memory, context).await?;
            }
        }
        Ok(())
    }
}
