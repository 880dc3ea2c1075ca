//! Decompositions of matrices, and the distance of segments. Results are those of Warp 1.19.

mod common;

use accelerd_lower::ErrorKind;
use common::{body, refused_body, vectors_of};

/// Returns true if numbers differ by less than some units in the last place of 1.
fn is_near(results: &[f32], expected: &[f32]) -> bool {
    results.len() == expected.len() && results.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn segments_have_closest_points() {
    let results = vectors_of(
        "wp.vec3",
        "
o = wp.vec3(0.0, 0.0, 0.0)
x = wp.vec3(1.0, 0.0, 0.0)
out[0] = wp.closest_point_edge_edge(o, x, wp.vec3(0.25, -1.0, 2.0), wp.vec3(0.25, 3.0, 2.0), 1e-6)
out[1] = wp.closest_point_edge_edge(o, o, x, x, 1e-6)
out[2] = wp.closest_point_edge_edge(o, o, wp.vec3(-1.0, 1.0, 0.0), wp.vec3(3.0, 1.0, 0.0), 1e-6)
out[3] = wp.closest_point_edge_edge(o, x, wp.vec3(0.5, 0.0, 4.0), wp.vec3(0.5, 0.0, 4.0), 1e-6)
out[4] = wp.closest_point_edge_edge(o, x, wp.vec3(3.0, 1.0, 0.0), wp.vec3(2.0, 1.0, 0.0), 1e-6)
",
        5,
        3,
    );
    let expected = [[0.25, 0.25, 2.0], [0.0, 0.0, 1.0], [0.0, 0.25, 1.0], [0.5, 0.0, 4.0], [1.0, 1.0, 2.0_f32.sqrt()]];
    assert!(is_near(&results, expected.as_flattened()), "{results:?}");
}

#[test]
fn matrices_are_products_of_their_decompositions() {
    let results = body(
        "float",
        "
A = wp.mat33(2.0, -1.0, 0.5, -1.0, 3.0, 0.25, 0.5, 0.25, -1.0)
B = wp.mat33(1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0, -10.0)
Q, d = wp.eig3(A)
U, sigma, V = wp.svd3(B)
P, R = wp.qr3(B)
U2 = wp.mat33()
s2 = wp.vec3()
V2 = wp.mat33()
wp.svd3(B, U2, s2, V2)
for i in range(3):
    out[0] += wp.length(Q * wp.diag(d) * wp.transpose(Q)[:, i] - A[:, i])
    out[1] += wp.length((U * wp.diag(sigma) * wp.transpose(V))[:, i] - B[:, i])
    out[2] += wp.length((P * R)[:, i] - B[:, i])
    out[3 + i] = sigma[i]
    out[6] += wp.length(U2[i] - U[i]) + wp.abs(s2[i] - sigma[i]) + wp.length(V2[i] - V[i])
zero, values = wp.eig3(wp.mat33())
out[7] = wp.determinant(zero)
out[8] = R[1, 0]
",
        9,
        0.0_f32,
    );
    assert!(results[..3].iter().all(|error| *error < 2e-5), "{results:?}");
    assert!(results[3] > results[4] && results[4] > results[5].abs(), "{results:?}");
    assert!(results[6] == 0.0 && (results[7] - 1.0).abs() < 1e-6 && results[8].abs() < 1e-5, "{results:?}");
}

#[test]
fn the_bits_are_those_of_warp() {
    let results = body(
        "float",
        "
Q, d = wp.eig3(wp.mat33(2.0, -1.0, 0.5, -1.0, 3.0, 0.25, 0.5, 0.25, -1.0))
U, sigma, V = wp.svd3(wp.mat33(1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0, -10.0))
for i in range(3):
    out[i] = d[i]
    out[3 + i] = sigma[i]
",
        6,
        0.0_f32,
    );
    assert_eq!(results, [1.505_620_8, 3.618_596_3, -1.124_217_4, 15.137_63, 8.329_361, -2.339_659_7]);
}

#[test]
fn decompositions_in_double_precision_are_as_exact() {
    let results = body(
        "wp.float64",
        "
A = wp.mat33d(2.0, -1.0, 0.5, -1.0, 3.0, 0.25, 0.5, 0.25, -1.0)
Q, d = wp.eig3(A)
U, sigma, V = wp.svd3(A)
for i in range(3):
    out[0] += wp.length((Q * wp.diag(d) * wp.transpose(Q))[i] - A[i])
    out[1] += wp.length((U * wp.diag(sigma) * wp.transpose(V))[i] - A[i])
",
        2,
        0.0_f64,
    );
    assert!(results.iter().all(|error| *error < 1e-14), "{results:?}");
}

#[test]
fn other_matrices_are_refused() {
    assert_eq!(refused_body("Q, d = wp.eig3(wp.mat22())"), ErrorKind::TypeMismatch);
    assert_eq!(refused_body("Q, d = wp.svd3(wp.identity(n=3, dtype=int))"), ErrorKind::TypeMismatch);
}
