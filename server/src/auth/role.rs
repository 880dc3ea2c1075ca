//! The role that each method needs, by the table of methods.

use accelerd_proto::methods::Method;
pub use accelerd_proto::methods::Role;

/// Prefixes of the services that need no credentials: health, and reflection if it is served.
const OPEN: [&str; 3] =
    ["/grpc.health.v1.Health/", "/grpc.reflection.v1.ServerReflection/", "/grpc.reflection.v1alpha.ServerReflection/"];

/// Credentials that a method needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No credentials.
    Open,
    /// A role.
    Role(&'static str, Role),
    /// Credentials of any role, before the caller learns that the method does not exist.
    Unknown,
}

/// Returns the credentials that the method of a path needs.
pub(crate) fn access(path: &str) -> Access {
    match Method::of_path(path) {
        Some(method) => Access::Role(method.path, method.role),
        None if OPEN.iter().any(|prefix| path.starts_with(prefix)) => Access::Open,
        None => Access::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use accelerd_proto::methods::{METHODS, device_service::DRAIN};

    use super::*;

    #[test]
    fn a_method_needs_the_role_of_its_option() {
        for method in &METHODS {
            assert_eq!(access(method.path), Access::Role(method.path, method.role));
        }
        let needing = |role: Role| METHODS.iter().filter(move |method| method.role == role).map(|method| method.name);
        assert_eq!(needing(Role::Admin).collect::<Vec<_>>(), ["Drain", "Resume", "LoadModel", "UnloadModel"]);
        assert!(needing(Role::Write).any(|name| name == "Upsert") && needing(Role::Read).any(|name| name == "Search"));
    }

    #[test]
    fn health_and_reflection_are_open_and_unknown_methods_are_not() {
        assert_eq!(access("/grpc.health.v1.Health/Check"), Access::Open);
        assert_eq!(access("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), Access::Open);
        assert_eq!(access("/grpc.health.v1.Healthy/Check"), Access::Unknown);
        assert_eq!(access(&format!("{}ed", DRAIN.path())), Access::Unknown);
        assert_eq!(access(DRAIN.path()), Access::Role(DRAIN.path(), Role::Admin));
    }

    #[test]
    fn roles_include_lower_ones() {
        assert!(Role::ALL.is_sorted() && Role::Read < Role::Write && Role::Write < Role::Admin);
    }
}
