//! Embeddings of token ids by a table, similarity and clusters: `CudaEmbedder`.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use accelerd_client::{ClusterOptions, Error, Graph, Matrix, MatrixRef, SimilarOptions, proto::ResidentTensor};

use crate::{
    CudaError, CudaResult,
    daemon::{Connection, block_on, gpu_memory_mb},
};

/// Bytes of the rows of the table that a call reads.
const MAX_CALL_BYTES: usize = 64 << 20;

/// Sizes of an embedding table, and how many tokens of a sequence it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingConfig {
    /// Rows of the table.
    pub vocab_size: u32,
    /// Columns of the table.
    pub embedding_dim: u32,
    /// Tokens of a padded sequence.
    pub max_sequence_length: u32,
    /// Seed of the table that an embedder has without a pretrained one. Equal sizes and seeds give equal tables.
    pub seed: u32,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        Self { vocab_size: 50_000, embedding_dim: 768, max_sequence_length: 512, seed: 0 }
    }
}

/// What a call took, without the upload of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbeddingMetrics {
    /// Latency at the caller.
    pub encoding_time_ms: f32,
    /// The same.
    pub total_time_ms: f32,
    /// Number of sequences.
    pub sequences_processed: u32,
    /// Sequences a second.
    pub throughput_seq_per_sec: f32,
    /// Memory that the daemon uses on its GPUs; 0.0 on the CPU.
    pub gpu_memory_used_mb: f32,
}

/// A row of a corpus that is similar to a query.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarityResult {
    /// The query.
    pub query_idx: u32,
    /// The row.
    pub match_idx: u32,
    /// Their cosine similarity.
    pub similarity_score: f32,
}

/// A table of embeddings on a device of the daemon. The daemon frees it some time after its last use.
#[derive(Debug)]
pub struct CudaEmbedder {
    config: EmbeddingConfig,
    pretrained: Option<Matrix>,
    connection: Connection,
    table: Mutex<Option<ResidentTensor>>,
}

impl CudaEmbedder {
    /// Connects to the daemon, with default sizes and a random table.
    pub fn new() -> CudaResult<Self> {
        Self::with_config(EmbeddingConfig::default(), None)
    }

    /// Connects to the daemon, with a table of `vocab_size` x `embedding_dim` numbers, or a random one of normally distributed
    /// numbers. It is sent by the first call.
    pub fn with_config(config: EmbeddingConfig, pretrained_embeddings: Option<&[f32]>) -> CudaResult<Self> {
        Self::with_connection(config, pretrained_embeddings, Connection::from_environment()?)
    }

    /// An embedder over a connection.
    pub fn with_connection(
        config: EmbeddingConfig,
        pretrained_embeddings: Option<&[f32]>,
        connection: Connection,
    ) -> CudaResult<Self> {
        let dim = config.embedding_dim as usize;
        let expected = config.vocab_size as usize * dim;
        if expected == 0 || config.max_sequence_length == 0 {
            return Err(CudaError::InvalidArgument(format!("expected sizes of at least 1, got {config:?}")));
        }
        let pretrained = match pretrained_embeddings {
            Some(table) if table.len() != expected => {
                let text = format!("pretrained_embeddings: expected {expected} numbers, got {}", table.len());
                return Err(CudaError::InvalidArgument(text));
            }
            Some(table) => Some(Matrix::new(table.to_vec(), dim).map_err(Error::from)?),
            None => None,
        };
        Ok(Self { config, pretrained, connection, table: Mutex::default() })
    }

    /// The sizes.
    pub fn config(&self) -> &EmbeddingConfig {
        &self.config
    }

    /// Embeds sequences of token ids: the mean of their rows of the table, scaled to unit length. `token_ids` is padded to
    /// `max_sequence_length` ids for each of `sequence_lengths`. An id outside of the vocabulary counts as a row of zeros, and a
    /// sequence without tokens has the embedding zero. Returns `embedding_dim` numbers for each sequence.
    pub fn encode(&self, token_ids: &[u32], sequence_lengths: &[u32]) -> CudaResult<(Vec<f32>, EmbeddingMetrics)> {
        let expected = sequence_lengths.len() * self.width();
        if token_ids.len() != expected {
            let text = format!("token_ids: expected {expected} ids, got {}", token_ids.len());
            return Err(CudaError::InvalidArgument(text));
        }
        block_on(async {
            let (embeddings, elapsed) = match self.encoded(token_ids, sequence_lengths).await {
                // The table has expired, or the daemon was restarted.
                Err(CudaError::Failed(error)) if error.is_not_found() => {
                    self.keep(None);
                    self.encoded(token_ids, sequence_lengths).await?
                }
                done => done?,
            };
            let stats = self.connection.sample().await?;
            let metrics = EmbeddingMetrics {
                encoding_time_ms: 1e3 * elapsed.as_secs_f32(),
                total_time_ms: 1e3 * elapsed.as_secs_f32(),
                sequences_processed: u32::try_from(sequence_lengths.len()).unwrap_or(u32::MAX),
                throughput_seq_per_sec: sequence_lengths.len() as f32 / elapsed.as_secs_f32(),
                gpu_memory_used_mb: gpu_memory_mb(stats.as_ref()),
            };
            Ok((embeddings, metrics))
        })
    }

    /// Finds the `top_k` candidates with the largest cosine similarity to each query, best first.
    pub fn find_similar(
        &self,
        query_embeddings: &[f32],
        candidate_embeddings: &[f32],
        top_k: usize,
    ) -> CudaResult<Vec<SimilarityResult>> {
        let dim = self.config.embedding_dim as usize;
        let rows = |numbers| MatrixRef::new(numbers, dim).map_err(Error::from);
        let options = SimilarOptions::cosine(u32::try_from(top_k).unwrap_or(u32::MAX));
        let queries = rows(query_embeddings)?;
        let candidates = rows(candidate_embeddings)?;
        let found = block_on(self.connection.client.find_similar(queries, candidates, &options))?;
        let rows = (0..).zip(found.indices.iter().zip(found.scores.iter()));
        let results = rows.flat_map(|(query_idx, (indices, scores))| {
            indices.iter().zip(scores).map(move |(index, score)| SimilarityResult {
                query_idx,
                match_idx: u32::try_from(*index).unwrap_or(u32::MAX),
                similarity_score: *score,
            })
        });
        Ok(results.collect())
    }

    /// Embeds sequences as [`encode`](Self::encode) does, and clusters them by k-means. Returns the cluster of each sequence, and the
    /// centers, of `embedding_dim` numbers each.
    pub fn cluster_code_snippets(
        &self,
        token_ids: &[u32],
        sequence_lengths: &[u32],
        num_clusters: u32,
    ) -> CudaResult<(Vec<u32>, Vec<f32>)> {
        let (embeddings, _) = self.encode(token_ids, sequence_lengths)?;
        let embeddings = Matrix::new(embeddings, self.config.embedding_dim as usize).map_err(Error::from)?;
        let options = ClusterOptions::clusters(num_clusters);
        let clusters = block_on(self.connection.client.cluster(embeddings, &options))?;
        let ids = clusters.assignments.as_slice().iter().map(|id| u32::try_from(*id).unwrap_or(u32::MAX));
        Ok((ids.collect(), clusters.centers.as_slice().to_vec()))
    }

    fn width(&self) -> usize {
        self.config.max_sequence_length as usize
    }

    fn keep(&self, table: Option<ResidentTensor>) {
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// The table on the daemon, followed by a row of zeros.
    async fn resident(&self) -> CudaResult<ResidentTensor> {
        let kept = self.table.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(table) = kept {
            return Ok(table);
        }
        let [rows, dim] = [self.config.vocab_size, self.config.embedding_dim].map(i64::from);
        let mut graph = Graph::default();
        let table = if let Some(table) = &self.pretrained {
            graph.input(table)
        } else {
            let seed = i64::from(self.config.seed).into();
            let shape = [rows, dim].as_slice().into();
            graph.op("randn", [], [("shape", shape), ("dtype", "f32".into()), ("seed", seed)])
        };
        let shape = [1, dim].as_slice().into();
        let zeros = graph.op("full", [], [("shape", shape), ("value", 0.0.into()), ("dtype", "f32".into())]);
        let table = graph.op("concat", [&table, &zeros], [("dim", 0.into())]);
        let done = self.connection.client.execute(&graph, [table.keep()]).await?;
        let table = done.kept.into_iter().next().expect("an execution keeps as many tensors as were asked for");
        self.keep(Some(table.clone()));
        Ok(table)
    }

    /// The embeddings, and how long they took to compute.
    async fn encoded(&self, token_ids: &[u32], lengths: &[u32]) -> CudaResult<(Vec<f32>, Duration)> {
        let table = self.resident().await?;
        let start = Instant::now();
        let longest = lengths.iter().max().map_or(1, |length| (*length as usize).clamp(1, self.width()));
        let dim = self.config.embedding_dim as usize;
        let step = (MAX_CALL_BYTES / (longest * dim * size_of::<f32>())).max(1);
        let mut embeddings = Vec::with_capacity(lengths.len() * dim);
        for (ids, lengths) in token_ids.chunks(step * self.width()).zip(lengths.chunks(step)) {
            let ids = ids.chunks(self.width()).zip(lengths);
            let ids = ids.flat_map(|(ids, length)| self.read(&ids[..longest], *length as usize));
            let means = self.means(&table, ids.collect(), longest, lengths).await?;
            embeddings.extend_from_slice(means.as_slice());
        }
        Ok((embeddings, start.elapsed()))
    }

    /// The ids that are read. Those outside of the vocabulary, and those after the end, become that of the row of zeros.
    fn read(&self, ids: &[u32], length: usize) -> impl Iterator<Item = i32> {
        let zeros = self.config.vocab_size;
        let ids = (0..).zip(ids).map(move |(at, id)| if at < length { (*id).min(zeros) } else { zeros });
        ids.map(|id| i32::try_from(id).unwrap_or(i32::MAX))
    }

    async fn means(
        &self,
        table: &ResidentTensor,
        ids: Vec<i32>,
        longest: usize,
        lengths: &[u32],
    ) -> CudaResult<Matrix> {
        let lengths = lengths.iter().map(|length| (*length as usize).clamp(1, self.width()) as f32).collect();
        let mut graph = Graph::default();
        let table = graph.resident(table);
        let ids = graph.input(Matrix::new(ids, longest).map_err(Error::from)?);
        let lengths = graph.input(Matrix::new(lengths, 1).map_err(Error::from)?);
        let rows = graph.op("embedding", [&table, &ids], []);
        let sums = graph.op("sum", [&rows], [("dim", 1.into())]);
        let means = graph.op("div", [&sums, &lengths], []);
        let unit = graph.op("normalize", [&means], [("dim", 1.into())]);
        Ok(self.connection.client.execute(&graph, [&unit]).await?.matrix(0)?)
    }
}
