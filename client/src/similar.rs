//! The best rows of an inline corpus.

use crate::{
    Client, Matrix, Result,
    call::Method,
    proto::{self, Metric, Tensor},
    timing::Timings,
};

const FIND_SIMILAR: Method<proto::FindSimilarRequest, proto::FindSimilarResponse> =
    Method::repeatable("/accelerd.v1.SimilarityService/FindSimilar");

/// What to look for.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarOptions {
    /// How rows are compared.
    pub metric: Metric,
    /// Rows to return for each query.
    pub k: u32,
    /// Leaves out rows worse than this.
    pub score_threshold: Option<f32>,
}

impl SimilarOptions {
    /// The k rows nearest by cosine.
    pub fn cosine(k: u32) -> Self {
        Self { metric: Metric::Cosine, k, score_threshold: None }
    }
}

/// The best rows of each query, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Similar {
    /// Rows of the corpus; -1 where fewer passed the threshold.
    pub indices: Matrix<i32>,
    /// Their scores; NaN where the index is -1.
    pub scores: Matrix,
    /// Where the time went.
    pub timings: Timings,
}

impl Client {
    /// Scores every query against every row of a corpus, exactly. Takes a [`Matrix`] without copying it, or a
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
        let reply = self.unary(FIND_SIMILAR, request).await?;
        Ok(Similar {
            indices: Matrix::from_tensor(reply.message.indices, "indices")?,
            scores: Matrix::from_tensor(reply.message.scores, "scores")?,
            timings: reply.timings,
        })
    }
}
