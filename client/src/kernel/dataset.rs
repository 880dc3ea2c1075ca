//! Data sets of kernels and their translations.

use accelerd_proto::methods::kernel_service;
use futures::{StreamExt, stream::BoxStream};

use crate::{
    Client, Error, Result,
    call::final_error,
    proto::{self, DatasetCategory, DatasetPair, KernelDevice, KernelDialect, KernelTarget},
};

/// Which pairs are made. By default all categories in both dialects, translated to CUDA C++ and WebAssembly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatasetOptions(proto::GenerateDatasetRequest);

impl DatasetOptions {
    /// Pairs of a sequence of kernels that depends on the seed.
    pub fn new(pair_count: u64, seed: u64) -> Self {
        Self(proto::GenerateDatasetRequest { pair_count, seed, ..Default::default() })
    }

    /// Adds a category to those that are made.
    #[must_use]
    pub fn category(mut self, category: DatasetCategory) -> Self {
        self.0.categories.push(category.into());
        self
    }

    /// Adds a dialect to those that kernels have.
    #[must_use]
    pub fn dialect(mut self, dialect: KernelDialect) -> Self {
        self.0.dialects.push(dialect.into());
        self
    }

    /// Starts at an index of the sequence: the one after that of the last pair goes on with a call that ended early.
    #[must_use]
    pub fn first_index(mut self, index: u64) -> Self {
        self.0.first_index = index;
        self
    }

    /// Percentages of kernels for validation and for the test.
    #[must_use]
    pub fn split(mut self, validation_percent: u32, test_percent: u32) -> Self {
        (self.0.validation_percent, self.0.test_percent) = (Some(validation_percent), Some(test_percent));
        self
    }

    /// Adds a target to those that kernels are translated to.
    #[must_use]
    pub fn target(mut self, target: KernelTarget) -> Self {
        self.0.targets.push(target.into());
        self
    }

    /// Runs pairs on the CPU only, or on a GPU as well. By default on a GPU if there is one.
    #[must_use]
    pub fn device(mut self, device: KernelDevice) -> Self {
        self.0.device = device.into();
        self
    }
}

impl Client {
    /// Makes pairs of kernels in Python and their translations, each run wherever kernels run. They are made as they are read, without a
    /// deadline.
    pub async fn generate_dataset(&self, options: &DatasetOptions) -> Result<BoxStream<'static, Result<DatasetPair>>> {
        let responses = self.server_stream(kernel_service::GENERATE_DATASET, options.0.clone()).await?;
        let pairs = responses.map(|response| {
            let pair = response.map_err(final_error)?.pair;
            pair.ok_or_else(|| Error::Malformed("a response without a pair".to_owned()))
        });
        Ok(pairs.boxed())
    }
}
