//! Functions of Warp that are written in the dialect itself, for sources that call them.

/// A part of the library: the functions that sources may call, and their definitions.
struct Part {
    names: &'static [&'static str],
    source: &'static str,
}

const PARTS: [Part; 5] = [
    Part {
        names: &[
            "norm_huber",
            "norm_l1",
            "norm_l2",
            "norm_pseudo_huber",
            "poisson",
            "quat_between_vectors",
            "quat_from_euler",
            "quat_to_euler",
            "quat_to_rpy",
            "quat_twist",
            "quat_twist_angle",
            "quat_twist_angle_signed",
            "randn",
            "smooth_normalize",
            "transform_compose",
            "transform_to_matrix",
            "transform_twist",
            "transform_wrench",
            "velocity_at_point",
        ],
        source: include_str!("library.py"),
    },
    Part {
        names: &[
            "bvh_get_group_root",
            "bvh_query_aabb",
            "bvh_query_next",
            "bvh_query_ray",
            "bvh_query_sphere",
            "hash_grid_point_id",
            "hash_grid_query",
            "hash_grid_query_next",
            "mesh_eval_face_normal",
            "mesh_eval_position",
            "mesh_eval_velocity",
            "mesh_get",
            "mesh_get_bvh",
            "mesh_get_group_root",
            "mesh_get_index",
            "mesh_get_point",
            "mesh_get_velocity",
            "mesh_query_aabb",
            "mesh_query_aabb_next",
            "mesh_query_furthest_point_no_sign",
            "mesh_query_point",
            "mesh_query_point_no_sign",
            "mesh_query_point_sign_normal",
            "mesh_query_point_sign_parity",
            "mesh_query_point_sign_winding_number",
            "mesh_query_ray",
            "mesh_query_ray_anyhit",
            "mesh_query_ray_count_intersections",
            "volume_index_to_world",
            "volume_index_to_world_dir",
            "volume_lookup_f",
            "volume_lookup_i",
            "volume_lookup_index",
            "volume_lookup_v",
            "volume_sample_f",
            "volume_sample_grad_f",
            "volume_sample_i",
            "volume_sample_v",
            "volume_voxel_count",
            "volume_world_to_index",
            "volume_world_to_index_dir",
        ],
        source: concat!(
            include_str!("geometry.py"),
            "\n",
            include_str!("meshes.py"),
            "\n",
            include_str!("grids.py"),
            "\n",
            include_str!("volumes.py")
        ),
    },
    Part { names: &["closest_point_edge_edge", "eig3", "qr3", "svd3"], source: include_str!("decompositions.py") },
    Part { names: &["curlnoise", "noise", "pnoise"], source: include_str!("noise.py") },
    Part {
        names: &[
            "lower_bound",
            "sample_cdf",
            "sample_triangle",
            "sample_unit_cube",
            "sample_unit_disk",
            "sample_unit_hemisphere",
            "sample_unit_hemisphere_surface",
            "sample_unit_ring",
            "sample_unit_sphere",
            "sample_unit_sphere_surface",
            "sample_unit_square",
        ],
        source: include_str!("sampling.py"),
    },
];

/// Imports of the parts.
const IMPORTS: &str = "import typing as __typing\nimport warp as __wp\n";

/// The name of the definition of a function of Warp; `None` for functions that are no part of the library.
pub(crate) fn definition(name: &str) -> Option<String> {
    PARTS.iter().any(|part| part.names.contains(&name)).then(|| format!("__wp_{name}"))
}

/// Returns true for the name of a function of the library.
pub(crate) fn is_part(name: &str) -> bool {
    name.starts_with("__wp_")
}

/// The function that proceeds to the next result of a query, by the name of its struct.
pub(crate) fn advance(query: &str) -> Option<&'static str> {
    match query {
        "__wp_BoxQuery" | "__wp_RayQuery" | "__wp_SphereQuery" => Some("__wp_bvh_query_next"),
        "__wp_GridQuery" => Some("__wp_hash_grid_query_next"),
        _ => None,
    }
}

/// Returns true if a function of the library advances a state of random numbers, its first argument.
pub(crate) fn advances_state(name: &str) -> bool {
    matches!(name, "poisson" | "randn") || name.starts_with("sample_")
}

/// A source followed by the parts of the library of which it may call a function.
pub(crate) fn extended(source: &str) -> Option<String> {
    let is_mentioned = |part: &&Part| part.names.iter().any(|name| source.contains(name));
    let parts: Vec<_> = PARTS.iter().filter(is_mentioned).map(|part| part.source).collect();
    (!parts.is_empty()).then(|| format!("{source}\n{IMPORTS}{}", parts.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_defined() {
        for part in &PARTS {
            for name in part.names {
                assert!(part.source.contains(&format!("\ndef __wp_{name}(")), "{name}");
            }
        }
    }
}
