//! Clusters a .npy file or a collection by k-means, and shows the sizes and the most central members of the clusters.

mod assignments;

use std::{
    collections::HashMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use accelerd_client::{Client, ClusterOptions, Clusters, Id, Ids, Matrix, Payload, SearchOptions, Value};
use clap::Args;
use serde::Serialize;

use self::assignments::AssignmentsFile;
use super::{MAX_HITS, search::paths::shortest};
use crate::{
    complete,
    error::{CliError, Result},
    format, npy,
    output::{Output, Report},
    renderer::{Renderer, Style},
};

/// Nearest points to request for each member to show: some of them may belong to a neighbouring cluster.
const CANDIDATES: u32 = 4;

/// Cluster vectors by k-means and show each cluster's size and most central members.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// A .npy file of vectors.
    #[arg(required_unless_present = "collection", conflicts_with = "collection")]
    file: Option<PathBuf>,
    /// Cluster all points of a collection.
    #[arg(long, short, add = complete::collections())]
    collection: Option<String>,
    /// Number of clusters.
    #[arg(short = 'k', long = "clusters", default_value_t = 8, value_name = "N")]
    cluster_count: u32,
    /// Members to show per cluster.
    #[arg(long, default_value_t = 3, value_name = "N")]
    top: usize,
    /// Maximum iterations; 0 means the daemon's default.
    #[arg(long, default_value_t = 0, value_name = "N")]
    iterations: u32,
    /// Initialisations to run; the result with the lowest inertia is kept.
    #[arg(long, default_value_t = 1, value_name = "N")]
    n_init: u32,
    /// Normalise rows and centers (spherical k-means).
    #[arg(long)]
    spherical: bool,
    /// Seed of the initialisations.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write the centers to a .npy file.
    #[arg(long, value_name = "FILE.npy")]
    centers: Option<PathBuf>,
    /// Write the cluster of each row or point to a file: .csv, .jsonl, or .npy (int32, in the order of the rows or of the
    /// points' ids). Points of `accelctl index` include path and lines.
    #[arg(long, value_name = "FILE", value_parser = AssignmentsFile::new)]
    assignments: Option<AssignmentsFile>,
}

#[derive(Serialize)]
struct Results {
    rows: usize,
    inertia: f64,
    iterations: u32,
    converged: bool,
    seconds: f64,
    clusters: Vec<Cluster>,
}

#[derive(Serialize)]
struct Cluster {
    number: usize,
    size: usize,
    members: Vec<String>,
}

impl Report for Results {
    fn render(&self, renderer: &mut Renderer) {
        let time = format::time(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let how = if self.converged { "converged" } else { "stopped" };
        let rows = format::plural(self.rows as u64, "row");
        let iterations = format::plural(self.iterations.into(), "iteration");
        renderer.line(format!("{rows}, {how} after {iterations} in {time}, inertia {:.6}", self.inertia));
        let largest = self.clusters.first().map_or(1, |cluster| cluster.size).max(1);
        for cluster in &self.clusters {
            let share = cluster.size as f64 / self.rows.max(1) as f64;
            let bar = renderer.style(Style::Name, "▇".repeat((cluster.size * 24).div_ceil(largest)));
            let name = renderer.style(Style::Title, format!("cluster {}", cluster.number));
            renderer.line(format!("{name}  {} ({:.1}%)  {bar}", format::count(cluster.size as u64), share * 100.0));
            for member in &cluster.members {
                renderer.line(format!("    {}", shortest(member, None, renderer.width()).1));
            }
        }
    }
}

pub async fn run(args: ClusterArgs, client: &Client, output: &Output) -> Result {
    let start = Instant::now();
    let options = ClusterOptions {
        cluster_count: args.cluster_count,
        max_iterations: args.iterations,
        tolerance: None,
        init_count: args.n_init,
        spherical: args.spherical,
        seed: args.seed,
    };
    let (clusters, mut members) = match (&args.file, &args.collection) {
        (Some(file), _) => {
            let vectors = npy::read(file)?;
            let clusters = client.cluster(&vectors, &options).await?;
            let members = central_rows(&vectors, &clusters, args.top);
            (clusters, members)
        }
        (None, Some(name)) => {
            let clusters = client.cluster_collection(name, &options).await?;
            let members = central_points(client, name, &clusters, args.top).await?;
            (clusters, members)
        }
        (None, None) => return Err(CliError::Usage("expected a .npy file or --collection".into())),
    };
    if let Some(path) = &args.centers {
        npy::write(path, &clusters.centers)?;
    }
    if let Some(file) = &args.assignments {
        file.write(client, args.collection.as_deref(), &clusters).await?;
    }
    let sizes = sizes(&clusters);
    members.resize(sizes.len(), vec![]);
    let mut shown: Vec<_> = (0..)
        .zip(sizes.into_iter().zip(members))
        .map(|(number, (size, members))| Cluster { number, size, members })
        .collect();
    shown.sort_by_key(|cluster| std::cmp::Reverse(cluster.size));
    output.show(&Results {
        rows: clusters.assignments.rows(),
        inertia: clusters.inertia,
        iterations: clusters.iteration_count,
        converged: clusters.converged,
        seconds: start.elapsed().as_secs_f64(),
        clusters: shown,
    })
}

fn sizes(clusters: &Clusters) -> Vec<usize> {
    let mut sizes = vec![0; clusters.centers.rows()];
    for cluster in clusters.assignments.as_slice() {
        if let Some(size) = usize::try_from(*cluster).ok().and_then(|cluster| sizes.get_mut(cluster)) {
            *size += 1;
        }
    }
    sizes
}

/// Returns the rows nearest to the center of each cluster.
fn central_rows(vectors: &Matrix, clusters: &Clusters, top: usize) -> Vec<Vec<String>> {
    let mut members = vec![vec![]; clusters.centers.rows()];
    for (row, (vector, cluster)) in vectors.iter().zip(clusters.assignments.as_slice()).enumerate() {
        let Ok(cluster) = usize::try_from(*cluster) else { continue };
        if let (Some(center), Some(members)) = (clusters.centers.row(cluster), members.get_mut(cluster)) {
            let distance: f32 = vector.iter().zip(center).map(|(a, b)| (a - b) * (a - b)).sum();
            members.push((distance, row));
        }
    }
    let name = |mut members: Vec<(f32, usize)>| {
        members.sort_by(|a, b| a.0.total_cmp(&b.0));
        members
            .into_iter()
            .take(top)
            .map(|(distance, row)| format!("row {row} (distance {:.4})", distance.sqrt()))
            .collect()
    };
    members.into_iter().map(name).collect()
}

/// Returns the points nearest to the center of each cluster by the collection's metric.
async fn central_points(client: &Client, name: &str, clusters: &Clusters, top: usize) -> Result<Vec<Vec<String>>> {
    let (Some(ids), true) = (&clusters.ids, top > 0) else { return Ok(vec![]) };
    let cluster_of = clusters_by_id(ids, clusters.assignments.as_slice());
    let limit = u32::try_from(top).unwrap_or(MAX_HITS).saturating_mul(CANDIDATES).min(MAX_HITS);
    let neighbours = client.collection(name).search_vectors(&clusters.centers, &SearchOptions::limit(limit)).await?;
    let members = (0..).zip(neighbours.results).map(|(cluster, hits)| {
        let own = hits.into_iter().filter(|hit| cluster_of.get(&hit.id) == Some(&cluster));
        own.take(top).map(|hit| describe(&hit.id, &hit.payload)).collect()
    });
    Ok(members.collect())
}

fn clusters_by_id(ids: &Ids, assignments: &[i32]) -> HashMap<Id, i32> {
    assignments.iter().enumerate().filter_map(|(index, cluster)| Some((ids.get(index)?, *cluster))).collect()
}

fn describe(id: &Id, payload: &Payload) -> String {
    let line = |field: &str| payload.get(field).and_then(Value::as_int);
    match (payload.get("path").and_then(Value::as_str), line("start_line"), line("end_line")) {
        (Some(path), Some(start), Some(end)) => format!("{path}:{start}-{end}"),
        (Some(path), ..) => path.to_owned(),
        (None, ..) => id.to_string(),
    }
}
