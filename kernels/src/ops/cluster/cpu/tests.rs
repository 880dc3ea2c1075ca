//! k-means on the CPU against its definition and the oracle.
#![expect(clippy::float_cmp, reason = "exact results are compared exactly")]

use std::sync::Arc;

use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{super::oracle, *};
use crate::{
    Backend, DeviceId, Op,
    cpu::Pool,
    ops::{
        cluster::{Cluster, Rows},
        similarity::{Corpus, Metric, Storage},
    },
};

fn numbers(rows: usize, dim: usize, seed: u64) -> Matrix {
    let mut random = SmallRng::seed_from_u64(seed);
    let data = (0..rows * dim).map(|_| random.random_range(-1.0_f32..1.0)).collect();
    Matrix::from_vec(rows, dim, data).expect("the data was made for this shape")
}

fn request(rows: &Matrix, clusters: usize) -> ClusterRequest {
    ClusterRequest {
        rows: Rows::Inline(rows.clone()),
        clusters,
        max_iterations: 30,
        tolerance: 1e-4,
        init_count: 1,
        spherical: false,
        seed: 7,
    }
}

fn run(request: &ClusterRequest, threads: usize) -> Clusters {
    let mut backend = Backend::Cpu(Worker::new(Pool::start(threads).expect("a few threads")));
    Cluster::run(&[request], &mut backend).expect("clustered").remove(0)
}

/// Every row is assigned to its nearest centre up to rounding, and the inertia is right.
fn is_consistent(rows: &Matrix, found: &Clusters) {
    let data = rows.as_f32();
    let centers = found.centers.as_f32();
    assert_eq!(found.assignments.len(), rows.rows());
    let mut inertia = 0.0;
    for (row, cluster) in data.chunks(rows.cols()).zip(&found.assignments) {
        let distances = oracle::squared_distances(row, &centers);
        let nearest = distances.iter().copied().fold(f64::INFINITY, f64::min);
        let mine = distances[*cluster as usize];
        assert!(mine <= nearest * (1.0 + 1e-4) + 1e-5, "{mine} from its centre, {nearest} from another");
        inertia += mine;
    }
    assert!((inertia - found.inertia).abs() <= 1e-9 * inertia, "expected {inertia}, got {}", found.inertia);
}

#[test]
fn assignments_are_nearest_and_inertia_is_close_to_lloyd_in_f64() {
    for (rows, dim, clusters) in [(1, 1, 1), (33, 3, 4), (1025, 31, 7), (3000, 127, 13), (2500, 16, 300), (5000, 5, 49)]
    {
        let rows = numbers(rows, dim, 1);
        let found = run(&ClusterRequest { max_iterations: 300, tolerance: 0.0, ..request(&rows, clusters) }, 2);
        is_consistent(&rows, &found);
        assert!(found.converged);
        let polished = oracle::lloyd(&rows, &found.centers, 20);
        assert!(found.inertia <= polished.inertia * 1.001 + 1e-9, "{} against {}", found.inertia, polished.inertia);
    }
}

#[test]
fn the_same_seed_gives_the_same_clusters_on_any_number_of_threads() {
    let rows = numbers(9000, 40, 2);
    let request = ClusterRequest { init_count: 2, ..request(&rows, 24) };
    let one = run(&request, 1);
    for threads in [2, 3, 7] {
        let other = run(&request, threads);
        assert_eq!(one.centers.bytes(), other.centers.bytes());
        assert_eq!(one.assignments, other.assignments);
        assert_eq!(one.inertia.to_bits(), other.inertia.to_bits());
    }
    let another_seed = run(&ClusterRequest { seed: 8, ..request }, 1);
    assert_ne!(one.centers.bytes(), another_seed.centers.bytes());
}

#[test]
fn separated_blobs_are_found() {
    let blobs = 12;
    let dim = 8;
    let middles = numbers(blobs, dim, 3);
    let noise = numbers(1200, dim, 4);
    let middles = middles.as_f32();
    let noise = noise.as_f32();
    let offset = 1000.0;
    let data = (0..1200 * dim).map(|i| offset + 50.0 * middles[i / dim % blobs * dim + i % dim] + noise[i]).collect();
    let rows = Matrix::from_vec(1200, dim, data).expect("1200 rows");
    let found = run(&request(&rows, blobs), 2);
    is_consistent(&rows, &found);
    assert!((0..1200).all(|row| found.assignments[row] == found.assignments[row % blobs]));
}

#[test]
fn one_cluster_per_row_has_no_inertia() {
    let rows = numbers(40, 5, 5);
    let found = run(&request(&rows, 40), 2);
    assert!(found.inertia < 1e-9, "inertia {}", found.inertia);
    let mut clusters = found.assignments.clone();
    clusters.sort_unstable();
    clusters.dedup();
    assert_eq!(clusters.len(), 40);
}

#[test]
fn equal_rows_leave_no_centre_undefined() {
    let rows = Matrix::from_vec(100, 4, vec![2.5; 400]).expect("100 rows");
    let found = run(&request(&rows, 5), 2);
    assert_eq!((found.inertia, found.centers.first_non_finite(), found.converged), (0.0, None, true));
    assert!(found.centers.as_f32().iter().all(|x| *x == 2.5));
}

#[test]
fn an_empty_cluster_takes_the_farthest_row() {
    let rows = Matrix::from_vec(6, 1, vec![0.0, 0.1, 0.2, 10.0, 0.3, 5.0]).expect("six rows");
    let source_rows = Rows::Inline(rows);
    let source = Source::new(&source_rows);
    let worker = Worker::new(Pool::start(1).expect("one thread"));
    let points = Points::new(&source, false, &worker).expect("nothing cancels");
    let asked = ClusterRequest { rows: source_rows.clone(), ..request(&numbers(1, 1, 1), 3) };
    let fit = lloyd::fit(&points, &[0, 0, 0], &asked, &worker).expect("nothing cancels");
    let found = finish(&source, &points, fit, &worker).expect("nothing cancels");
    let mut centers = found.centers.as_f32().into_owned();
    centers.sort_by(f32::total_cmp);
    let expected = [0.15, 5.0, 10.0];
    assert!(centers.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{centers:?}");
}

#[test]
fn spherical_clusters_ignore_lengths() {
    let rows = numbers(2000, 24, 6);
    let data = rows.as_f32();
    let stretched = data.chunks(24).enumerate().flat_map(|(index, row)| {
        let by = [1.0, 1e-3, 1e15][index % 3];
        row.iter().map(move |x| x * by).collect::<Vec<_>>()
    });
    let stretched = Matrix::from_vec(2000, 24, stretched.collect()).expect("2000 rows");
    let spherical = |rows: &Matrix| run(&ClusterRequest { spherical: true, ..request(rows, 12) }, 2);
    let found = spherical(&rows);
    let other = spherical(&stretched);
    for center in found.centers.as_f32().chunks(24) {
        let length = center.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        assert!((length - 1.0).abs() < 1e-6, "length {length}");
    }
    assert!((found.inertia - other.inertia).abs() < 0.05 * found.inertia, "{} {}", found.inertia, other.inertia);
    let zeros = Matrix::from_vec(30, 3, vec![0.0; 90]).expect("30 rows");
    assert_eq!(spherical(&zeros).inertia, 0.0);
}

#[test]
fn numbers_of_any_magnitude_are_clustered_alike() {
    let rows = numbers(1500, 10, 7);
    let plain = run(&request(&rows, 9), 1);
    for by in [1e-40_f32, 1e-30, 1e30, 3e38] {
        let data = rows.as_f32().iter().map(|x| x * by).collect();
        let scaled = run(&request(&Matrix::from_vec(1500, 10, data).expect("1500 rows"), 9), 1);
        assert_eq!(scaled.centers.first_non_finite(), None);
        let ratio = scaled.inertia / plain.inertia / f64::from(by).powi(2);
        assert!((0.9..1.1).contains(&ratio), "times {by:e}: {ratio}");
    }
}

#[test]
fn the_best_of_several_initialisations_is_kept() {
    let rows = numbers(800, 6, 8);
    let of = |init_count| run(&ClusterRequest { init_count, ..request(&rows, 20) }, 2).inertia;
    let one = of(1);
    let several = of(6);
    assert!(several <= one, "{several} {one}");
}

#[test]
fn iterations_end_at_the_limit_or_the_tolerance() {
    let rows = numbers(3000, 8, 9);
    let of = |max_iterations, tolerance| run(&ClusterRequest { max_iterations, tolerance, ..request(&rows, 30) }, 2);
    let limited = of(3, 0.0);
    assert_eq!((limited.iterations, limited.converged), (3, false));
    is_consistent(&rows, &limited);
    let tolerant = of(300, 1e9);
    assert_eq!((tolerant.iterations, tolerant.converged), (1, true));
    is_consistent(&rows, &tolerant);
}

#[test]
fn deleted_rows_of_a_corpus_do_not_count() {
    let rows = numbers(700, 6, 10);
    let corpus = Corpus::new(6, Metric::Dot, Storage::F32, DeviceId::Cpu);
    corpus.append(&rows);
    corpus.delete(&(0..700).step_by(3).collect::<Vec<_>>());
    let live: Vec<f32> = rows
        .as_f32()
        .chunks(6)
        .enumerate()
        .filter(|(index, _)| index % 3 != 0)
        .flat_map(|(_, row)| row)
        .copied()
        .collect();
    let live = Matrix::from_vec(live.len() / 6, 6, live).expect("whole rows");
    let found = run(&ClusterRequest { rows: Rows::Corpus(Arc::clone(&corpus)), ..request(&rows, 11) }, 2);
    let expected = run(&request(&live, 11), 2);
    assert_eq!(found.assignments, expected.assignments);
    assert_eq!(found.centers.bytes(), expected.centers.bytes());
}

#[test]
fn more_clusters_than_rows_are_refused() {
    let mut backend = Backend::Cpu(Worker::new(Pool::start(1).expect("one thread")));
    let refused = Cluster::run(&[&request(&numbers(3, 2, 1), 4)], &mut backend);
    assert!(matches!(refused, Err(OpError::Invalid(_))));
}

#[test]
fn greedy_initialisation_beats_evenly_spaced_rows() {
    let rows = Rows::Inline(numbers(4000, 4, 11));
    let source = Source::new(&rows);
    let worker = Worker::new(Pool::start(2).expect("two threads"));
    let points = Points::new(&source, false, &worker).expect("nothing cancels");
    let cost = |chosen: &[usize]| -> f64 {
        let centers: Vec<f32> = chosen.iter().flat_map(|&row| points.row(row)).copied().collect();
        let nearest = |row| oracle::squared_distances(row, &centers).into_iter().fold(f64::INFINITY, f64::min);
        points.all().chunks(4).map(nearest).sum()
    };
    let greedy = cost(&init::choose_centers(&points, 40, 3, 0, &worker).expect("nothing cancels"));
    let plain = cost(&(0..40).map(|index| index * 100).collect::<Vec<_>>());
    assert!(greedy < 0.9 * plain, "{greedy} {plain}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_clusters_are_consistent(
        rows in 1_usize..600,
        dim in 1_usize..40,
        share in 1_usize..100,
        integers in any::<bool>(),
        seed in 0_u64..1000,
    ) {
        let clusters = 1 + (rows - 1) * share / 100;
        let mut rows = numbers(rows, dim, seed);
        if integers {
            let rounded = rows.as_f32().iter().map(|x| x.round()).collect();
            rows = Matrix::from_vec(rows.rows(), dim, rounded).expect("as many numbers");
        }
        let found = run(&ClusterRequest { seed, max_iterations: 8, ..request(&rows, clusters) }, 2);
        is_consistent(&rows, &found);
    }
}
