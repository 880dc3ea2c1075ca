//! Data sets of kernels and their translations.

use std::collections::HashSet;

use accelerd_proto::methods::kernel_service;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tonic::Streaming;

use crate::{
    Client, Error, Result,
    proto::{self, DatasetCategory, DatasetPair, KernelDevice, KernelDialect, KernelTarget},
    retry::Attempts,
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

/// The pairs of a stream that another call continues when it breaks.
struct Pairs {
    client: Client,
    /// The request for the missing pairs.
    missing: proto::GenerateDatasetRequest,
    /// The ids of pairs of earlier calls. A daemon leaves out pairs that are equal to earlier ones of the same call.
    earlier: HashSet<String>,
    /// The ids of all pairs of this call.
    ids: Vec<String>,
    attempts: Attempts,
    responses: Streaming<proto::GenerateDatasetResponse>,
}

impl Client {
    /// Makes pairs of kernels in Python and their translations, each run wherever kernels run. They are made as they are read, without a
    /// deadline. After a lost connection, or the drain of a daemon, the stream continues with the next pair.
    pub async fn generate_dataset(&self, options: &DatasetOptions) -> Result<BoxStream<'static, Result<DatasetPair>>> {
        let missing = options.0.clone();
        let attempts = self.attempts(kernel_service::GENERATE_DATASET.is_idempotent(), None);
        let responses = self.server_stream(kernel_service::GENERATE_DATASET, missing.clone()).await?;
        let client = self.clone();
        let pairs = Pairs { client, missing, earlier: HashSet::new(), ids: vec![], attempts, responses };
        let pairs = stream::try_unfold(pairs, |mut pairs| async {
            let pair = pairs.next().await?;
            Ok(pair.map(|pair| (pair, pairs)))
        });
        Ok(pairs.boxed())
    }
}

impl Pairs {
    /// The next pair; `None` once all are there.
    async fn next(&mut self) -> Result<Option<DatasetPair>> {
        loop {
            match self.responses.message().await {
                Ok(Some(response)) => {
                    let pair = response.pair.ok_or_else(|| malformed("a response without a pair"))?;
                    if self.is_new(&pair) {
                        return Ok(Some(pair));
                    }
                }
                Ok(None) | Err(_) if self.is_complete() => return Ok(None),
                // Pairs that were there before took the place of some that are missing.
                Ok(None) if !self.ids.is_empty() => self.open_again().await?,
                Ok(None) => return Err(malformed("the stream ended before its last pair")),
                Err(status) => {
                    self.client.back_off(&status, &mut self.attempts).await?;
                    self.open_again().await?;
                }
            }
        }
    }

    /// Takes a pair. Returns false if one of an earlier call is equal to it.
    fn is_new(&mut self, pair: &DatasetPair) -> bool {
        self.attempts.progressed();
        self.ids.push(pair.id.clone());
        self.missing.first_index = pair.index.saturating_add(1);
        let is_new = !self.earlier.contains(&pair.id);
        self.missing.pair_count = self.missing.pair_count.saturating_sub(is_new.into());
        is_new
    }

    fn is_complete(&self) -> bool {
        !self.ids.is_empty() && self.missing.pair_count == 0
    }

    async fn open_again(&mut self) -> Result<()> {
        let opened = self.client.server_stream(kernel_service::GENERATE_DATASET, self.missing.clone());
        self.responses = opened.await?;
        self.earlier.extend(self.ids.drain(..));
        Ok(())
    }
}

fn malformed(what: &str) -> Error {
    Error::Malformed(what.to_owned())
}
