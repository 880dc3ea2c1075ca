//! Functions of Warp that are written in the dialect itself, for sources that call them.

/// Their definitions.
const SOURCE: &str = include_str!("library.py");

/// The functions that sources may call.
const NAMES: [&str; 14] = [
    "norm_huber",
    "norm_pseudo_huber",
    "poisson",
    "quat_from_euler",
    "quat_to_euler",
    "quat_to_rpy",
    "quat_twist",
    "quat_twist_angle",
    "quat_twist_angle_signed",
    "randn",
    "smooth_normalize",
    "transform_twist",
    "transform_wrench",
    "velocity_at_point",
];

/// The name of the definition of a function of Warp; `None` for functions that are no part of the library.
pub(crate) fn definition(name: &str) -> Option<String> {
    NAMES.contains(&name).then(|| format!("__wp_{name}"))
}

/// A source followed by the library, if it may call one of its functions.
pub(crate) fn extended(source: &str) -> Option<String> {
    let mentions = |name: &&str| source.contains(*name);
    NAMES.iter().any(mentions).then(|| format!("{source}\n{SOURCE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_defined() {
        for name in NAMES {
            assert!(SOURCE.contains(&format!("\ndef __wp_{name}(")), "{name}");
        }
    }
}
