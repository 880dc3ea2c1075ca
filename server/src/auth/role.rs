//! Roles, and the role that each method needs.

use std::{collections::HashMap, fmt, sync::OnceLock};

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

use Role::{Admin, Read, Write};

/// The methods and the roles that they need.
const METHODS: [(&str, Role); 47] = [
    ("/accelerd.v1.DeviceService/ListDevices", Read),
    ("/accelerd.v1.DeviceService/GetStats", Read),
    ("/accelerd.v1.DeviceService/Watch", Read),
    ("/accelerd.v1.DeviceService/ExportReport", Read),
    ("/accelerd.v1.DeviceService/Drain", Admin),
    ("/accelerd.v1.DeviceService/Resume", Admin),
    ("/accelerd.v1.EmbedService/Embed", Read),
    ("/accelerd.v1.EmbedService/EmbedStream", Read),
    ("/accelerd.v1.EmbedService/Rerank", Read),
    ("/accelerd.v1.EmbedService/Tokenize", Read),
    ("/accelerd.v1.EmbedService/ListModels", Read),
    ("/accelerd.v1.EmbedService/LoadModel", Admin),
    ("/accelerd.v1.EmbedService/UnloadModel", Admin),
    ("/accelerd.v1.KernelService/Translate", Read),
    ("/accelerd.v1.KernelService/Compile", Read),
    ("/accelerd.v1.KernelService/Launch", Read),
    ("/accelerd.v1.KernelService/Benchmark", Read),
    ("/accelerd.v1.KernelService/Evaluate", Read),
    ("/accelerd.v1.KernelService/GenerateDataset", Read),
    ("/accelerd.v1.KernelService/ListKernels", Read),
    ("/accelerd.v1.KernelService/EvictKernel", Write),
    ("/accelerd.v1.ParseService/Parse", Read),
    ("/accelerd.v1.ParseService/ParseStream", Read),
    ("/accelerd.v1.SimilarityService/FindSimilar", Read),
    ("/accelerd.v1.SimilarityService/CreateCollection", Write),
    ("/accelerd.v1.SimilarityService/GetCollection", Read),
    ("/accelerd.v1.SimilarityService/ListCollections", Read),
    ("/accelerd.v1.SimilarityService/DeleteCollection", Write),
    ("/accelerd.v1.SimilarityService/Upsert", Write),
    ("/accelerd.v1.SimilarityService/UpsertStream", Write),
    ("/accelerd.v1.SimilarityService/DeletePoints", Write),
    ("/accelerd.v1.SimilarityService/Search", Read),
    ("/accelerd.v1.SimilarityService/GetPoints", Read),
    ("/accelerd.v1.SimilarityService/ScrollPoints", Read),
    ("/accelerd.v1.SimilarityService/CountPoints", Read),
    ("/accelerd.v1.SimilarityService/CreateSnapshot", Write),
    ("/accelerd.v1.SimilarityService/RestoreCollection", Write),
    ("/accelerd.v1.SimilarityService/Cluster", Read),
    ("/accelerd.v1.TensorService/Execute", Read),
    ("/accelerd.v1.TensorService/UploadTensor", Write),
    ("/accelerd.v1.TensorService/DownloadTensor", Read),
    ("/accelerd.v1.TensorService/FreeTensors", Write),
    ("/accelerd.v1.TensorService/ListTensors", Read),
    ("/accelerd.v1.TensorService/CopyTensor", Write),
    ("/accelerd.v1.TensorService/BenchmarkOp", Read),
    ("/accelerd.v1.VerifyService/CompareOutputs", Read),
    ("/accelerd.v1.VerifyService/Verify", Read),
];

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
    static ROLES: OnceLock<HashMap<&'static str, Role>> = OnceLock::new();
    let roles = ROLES.get_or_init(|| METHODS.into_iter().collect());
    match roles.get_key_value(path) {
        Some((&path, &role)) => Access::Role(path, role),
        None if OPEN.iter().any(|prefix| path.starts_with(prefix)) => Access::Open,
        None => Access::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn every_method_of_the_protocol_has_a_role_and_no_other_does() {
        let descriptors = prost_types::FileDescriptorSet::decode(accelerd_proto::DESCRIPTORS).expect("descriptors");
        let mut served = vec![];
        for file in &descriptors.file {
            for service in &file.service {
                let methods = service.method.iter();
                served.extend(methods.map(|one| format!("/{}.{}/{}", file.package(), service.name(), one.name())));
            }
        }
        served.sort();
        let mut listed = METHODS.map(|(path, _)| path);
        listed.sort_unstable();
        assert_eq!(served, listed);
    }

    #[test]
    fn health_and_reflection_are_open_and_unknown_methods_are_not() {
        assert_eq!(access("/grpc.health.v1.Health/Check"), Access::Open);
        assert_eq!(access("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), Access::Open);
        assert_eq!(access("/grpc.health.v1.Healthy/Check"), Access::Unknown);
        assert_eq!(access("/accelerd.v1.EmbedService/"), Access::Unknown);
        let drain = "/accelerd.v1.DeviceService/Drain";
        assert_eq!(access(drain), Access::Role(drain, Admin));
    }

    #[test]
    fn roles_include_lower_ones() {
        assert!(Read < Write && Write < Admin);
    }
}
