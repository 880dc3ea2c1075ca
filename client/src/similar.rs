//! Exact nearest neighbours in an inline corpus.

use accelerd_proto::methods::similarity_service;

use crate::{
    Client, Matrix, Result,
    proto::{self, Metric, Tensor},
    timing::Timings,
};

/// Options of a search in an inline corpus.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarOptions {
    /// Metric.
    pub metric: Metric,
    /// Rows to return per query.
    pub k: u32,
    /// Omits rows that score worse.
    pub score_threshold: Option<f32>,
}

impl SimilarOptions {
    /// Options for the k nearest rows by cosine similarity.
    pub fn cosine(k: u32) -> Self {
        Self { metric: Metric::Cosine, k, score_threshold: None }
    }
}

/// The nearest rows of each query, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Similar {
    /// Rows of the corpus; -1 where fewer than k rows pass the threshold.
    pub indices: Matrix<i32>,
    /// Scores of the rows; NaN where the index is -1.
    pub scores: Matrix,
    /// Server-side timings.
    pub timings: Timings,
}

impl Client {
    /// Finds the nearest rows of a corpus for each query, exactly. Takes a [`Matrix`] without a copy, or a
    /// [`MatrixRef`](crate::MatrixRef).
    pub async fn find_similar(
        &self,
        queries: impl Into<Tensor>,
        corpus: impl Into<Tensor>,
        options: &SimilarOptions,
    ) -> Result<Similar> {
        let request = proto::FindSimilarRequest {
            queries: Some(queries.into()),
            corpus: Some(corpus.into()),
            metric: options.metric.into(),
            k: options.k,
            score_threshold: options.score_threshold,
        };
        let reply = self.unary(similarity_service::FIND_SIMILAR, request).await?;
        Ok(Similar {
            indices: Matrix::from_tensor(reply.message.indices, "indices")?,
            scores: Matrix::from_tensor(reply.message.scores, "scores")?,
            timings: reply.timings,
        })
    }
}
