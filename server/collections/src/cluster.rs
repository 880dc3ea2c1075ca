//! Clustering the points of a collection.

use std::sync::Arc;

use accelerd_engine::{Context, Lane};
use accelerd_kernels::{
    Op as _,
    ops::cluster::{Cluster, ClusterRequest, Clusters, Rows},
};
use accelerd_store::Ids;

use super::{Collection, blocking, points::Points};
use crate::error::CollectionError;

impl Collection {
    /// Clusters all points; `request` builds the request from the rows. Returns ids in the order of the assignments.
    pub async fn cluster(
        &self,
        lane: &Lane<Cluster>,
        request: impl Fn(Rows) -> ClusterRequest,
        context: Context,
    ) -> Result<(Clusters, Ids), CollectionError> {
        let generation = self.shared().generation();
        let changes = {
            let points = generation.read();
            check_clusters(request(Rows::Corpus(Arc::clone(&generation.corpus))).clusters, points.count())?;
            points.changes()
        };
        let device = generation.corpus.device();
        let resident = || request(Rows::Corpus(Arc::clone(&generation.corpus)));
        // The CPU copies the rows, for which host memory is reserved first.
        let on_gpu = Context { no_cpu_fallback: true, ..context.clone() };
        let env = &self.shared().env;
        let done = match lane.submit(resident(), on_gpu).await {
            Err(error) if env.fall_back_if_lost(&generation.corpus, device, &error) => {
                lane.submit(resident(), context.clone()).await?
            }
            Err(error) if lane.falls_back(&error, Cluster::size(&resident()), &context) => {
                let rows = generation.corpus.len() as u64 * generation.corpus.dim() as u64;
                let _copy = env.budget.reserve_working(context.principal, rows * size_of::<f32>() as u64)?;
                lane.submit_to_cpu(resident(), context.clone()).await?
            }
            done => done?,
        };
        self.shared().env.services.record(&done);
        if let Some(ids) = ids_if_unchanged(&generation.read(), changes) {
            return Ok((done.response, ids));
        }
        // A concurrent change makes the clustered rows ambiguous: cluster a copy of a consistent view.
        let view = self.view().await?;
        let clusters = request(Rows::Corpus(Arc::clone(&generation.corpus))).clusters;
        check_clusters(clusters, view.rows.len())?;
        let (ids, rows) = blocking(move || {
            let ids = view.generation.read().ids_of(&view.rows);
            Ok((ids, view.generation.corpus.gather(&view.rows)))
        })
        .await?;
        let done = lane.submit(request(Rows::Inline(rows)), context).await?;
        self.shared().env.services.record(&done);
        Ok((done.response, ids))
    }
}

/// Checks that the number of clusters is between 1 and the number of rows.
pub fn check_clusters(clusters: usize, rows: usize) -> Result<(), CollectionError> {
    if rows == 0 {
        return Err(CollectionError::invalid("input", "expected at least one row, got none"));
    }
    if (1..=rows).contains(&clusters) {
        return Ok(());
    }
    Err(CollectionError::invalid("cluster_count", format!("expected 1 to the {rows} rows, got {clusters}")))
}

fn ids_if_unchanged(points: &Points, changes: u64) -> Option<Ids> {
    (points.changes() == changes).then(|| points.ids_of(&points.live_rows().collect::<Vec<_>>()))
}
