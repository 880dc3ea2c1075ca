//! Roles, and what each method needs, by the table of methods.

use std::fmt;

use accelerd_proto::methods::{self, Method};
use serde::Deserialize;

/// What a principal may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Compute, search and look.
    Read,
    /// Also change collections, and keep tensors.
    Write,
    /// Also load and unload models, drain and resume.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        })
    }
}

impl From<methods::Role> for Role {
    fn from(role: methods::Role) -> Self {
        match role {
            methods::Role::Read => Self::Read,
            methods::Role::Write => Self::Write,
            methods::Role::Admin => Self::Admin,
        }
    }
}

/// Prefixes of the services that need no credentials: health, and reflection if it is served.
const OPEN: [&str; 3] =
    ["/grpc.health.v1.Health/", "/grpc.reflection.v1.ServerReflection/", "/grpc.reflection.v1alpha.ServerReflection/"];

/// What a method needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No credentials.
    Open,
    /// A role.
    Role(&'static str, Role),
    /// Credentials of any role, before the caller learns that the method does not exist.
    Unknown,
}

/// What the method of a path needs.
pub(crate) fn access(path: &str) -> Access {
    match Method::of_path(path) {
        Some(method) => Access::Role(method.path, method.role.into()),
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
            assert_eq!(access(method.path), Access::Role(method.path, method.role.into()));
        }
        let needing =
            |role: Role| METHODS.iter().filter(move |method| Role::from(method.role) == role).map(|one| one.name);
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
        assert!(Role::Read < Role::Write && Role::Write < Role::Admin);
    }
}
