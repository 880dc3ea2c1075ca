//! Clustering the points of a collection.

use std::sync::Arc;

use accelerd_engine::{Context, Lane};
use accelerd_kernels::ops::cluster::{Cluster, ClusterRequest, Clusters, Rows};
use accelerd_store::Ids;

use super::{Collection, blocking, points::Points};
use crate::{error::ApiError, layers::timing};

impl Collection {
    /// Clusters all points; `request` makes the request from the rows. The ids are in the order of the assignments.
    pub async fn cluster(
        &self,
        lane: &Lane<Cluster>,
        request: impl Fn(Rows) -> ClusterRequest,
        context: Context,
    ) -> Result<(Clusters, Ids), ApiError> {
        let generation = self.shared().generation();
        let changes = {
            let points = generation.read();
            check_clusters(request(Rows::Corpus(Arc::clone(&generation.corpus))).clusters, points.count())?;
            points.changes()
        };
        let home = generation.corpus.home();
        let resident = || request(Rows::Corpus(Arc::clone(&generation.corpus)));
        let done = match lane.submit(resident(), context.clone()).await {
            Err(error) if self.shared().env.is_lost(&generation.corpus, home, &error) => {
                lane.submit(resident(), context.clone()).await?
            }
            done => done?,
        };
        timing::record(&done);
        if let Some(ids) = ids_if_unchanged(&generation.read(), changes) {
            return Ok((done.response, ids));
        }
        // Points changed meanwhile, so nobody knows which rows were clustered. A copy of them does not change.
        let view = self.view().await?;
        let clusters = request(Rows::Corpus(Arc::clone(&generation.corpus))).clusters;
        check_clusters(clusters, view.rows.len())?;
        let (ids, rows) = blocking(move || {
            let ids = view.generation.read().ids_of(&view.rows);
            Ok((ids, view.generation.corpus.gather(&view.rows)))
        })
        .await?;
        let done = lane.submit(request(Rows::Inline(rows)), context).await?;
        timing::record(&done);
        Ok((done.response, ids))
    }
}

/// Clusters must be as many as rows at most.
pub(crate) fn check_clusters(clusters: usize, rows: usize) -> Result<(), ApiError> {
    if rows == 0 {
        return Err(ApiError::invalid("input", "expected at least one row, got none"));
    }
    if (1..=rows).contains(&clusters) {
        return Ok(());
    }
    Err(ApiError::invalid("cluster_count", format!("expected 1 to the {rows} rows, got {clusters}")))
}

fn ids_if_unchanged(points: &Points, changes: u64) -> Option<Ids> {
    (points.changes() == changes).then(|| points.ids_of(&points.live_rows().collect::<Vec<_>>()))
}
