//! The role that each method needs, by the table of methods.

use accelerd_proto::methods::Method;
pub use accelerd_proto::methods::Role;

/// Prefixes of the services that need no credentials: health, and reflection if it is served.
const OPEN: [&str; 3] =
    ["/grpc.health.v1.Health/", "/grpc.reflection.v1.ServerReflection/", "/grpc.reflection.v1alpha.ServerReflection/"];

/// The service of the Open Inference Protocol.
pub(crate) const INFERENCE: &str = "/inference.GRPCInferenceService/";

/// Its methods that say as much as the health service, which need no credentials.
const OPEN_INFERENCE: [&str; 2] = ["ServerLive", "ServerReady"];

/// Its methods that call those of the daemon, which need the same role.
const READ_INFERENCE: [&str; 6] = [
    "/inference.GRPCInferenceService/ModelInfer",
    "/inference.GRPCInferenceService/ModelMetadata",
    "/inference.GRPCInferenceService/ModelReady",
    "/inference.GRPCInferenceService/ModelStreamInfer",
    "/inference.GRPCInferenceService/RepositoryIndex",
    "/inference.GRPCInferenceService/ServerMetadata",
];

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
        None if path.strip_prefix(INFERENCE).is_some_and(|name| OPEN_INFERENCE.contains(&name)) => Access::Open,
        None => READ_INFERENCE
            .iter()
            .find(|inference| **inference == path)
            .map_or(Access::Unknown, |inference| Access::Role(inference, Role::Read)),
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
    fn inference_needs_the_role_of_the_methods_that_it_calls() {
        use accelerd_proto::{DESCRIPTORS, methods::embed_service::EMBED};
        use prost::Message;

        let files = prost_types::FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors").file;
        let services = files.into_iter().filter(|file| file.package() == "inference").flat_map(|file| file.service);
        let methods: Vec<_> = services.flat_map(|service| service.method).collect();
        assert_eq!(methods.len(), OPEN_INFERENCE.len() + READ_INFERENCE.len());
        for method in methods {
            let path = format!("{INFERENCE}{}", method.name());
            match access(&path) {
                Access::Open => assert!(OPEN_INFERENCE.contains(&method.name()), "{path}"),
                Access::Role(label, role) => {
                    assert_eq!((label, Access::Role(EMBED.path(), role)), (&*path, access(EMBED.path())));
                }
                Access::Unknown => panic!("{path} is unknown"),
            }
            assert_eq!(access(&format!("{path}d")), Access::Unknown);
        }
    }

    #[test]
    fn roles_include_lower_ones() {
        assert!(Role::ALL.is_sorted() && Role::Read < Role::Write && Role::Write < Role::Admin);
    }
}
