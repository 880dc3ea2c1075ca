//! The wire: types of protobuf and gRPC statuses stand where messages are decoded and encoded, and in no domain.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{modules, rust_files};

/// Where messages become types of the domain, and errors become statuses.
const WIRE: [&str; 3] = ["server/src/grpc", "server/src/status.rs", "server/src/status"];

/// Paths of other crates that no domain names.
const WIRE_TYPES: [&[&str]; 4] = [&["accelerd_proto", "v1"], &["prost"], &["prost_types"], &["tonic", "Status"]];

/// Files that name wire types elsewhere, with the path and why. The list may only become shorter.
const EXCEPTIONS: [(&str, &str, &str); 6] = [
    ("server/src/health.rs", "tonic::Status", "it is the service grpc.health.v1"),
    ("server/src/layers/deadline.rs", "tonic::Status", "the layer answers a call whose deadline passes"),
    ("server/src/layers/trace.rs", "tonic::Status", "spans have the status of the response"),
    ("server/src/transport/connection.rs", "tonic::Status", "HTTP/2 refuses calls before a service sees them"),
    (
        "server/src/transport/http1.rs",
        "tonic::Status",
        "its account says why a call has no memory, as the transport does",
    ),
    ("server/src/transport/request.rs", "tonic::Status", "HTTP/2 refuses calls before a service sees them"),
];

/// The wire types that the code of a file names, but for its tests.
fn wire_types(text: &str) -> BTreeSet<String> {
    let named = modules::paths_of(text);
    let is_named =
        |of: &&&[&str]| named.iter().any(|path| path.iter().map(String::as_str).take(of.len()).eq(of.iter().copied()));
    WIRE_TYPES.iter().filter(is_named).map(|of| of.join("::")).collect()
}

fn is_domain(path: &Path) -> bool {
    path.starts_with("server/src") && !WIRE.iter().any(|wire| path.starts_with(wire))
}

#[test]
fn wire_types_stand_where_messages_are_decoded_and_encoded() {
    let files: Vec<(PathBuf, String)> = rust_files().into_iter().filter(|(path, _)| is_domain(path)).collect();
    let found: BTreeSet<(String, String)> = files
        .iter()
        .flat_map(|(path, text)| wire_types(text).into_iter().map(|named| (path.display().to_string(), named)))
        .collect();
    let listed: BTreeSet<_> =
        EXCEPTIONS.iter().map(|(path, named, _)| ((*path).to_owned(), (*named).to_owned())).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(new.is_empty(), "wire types in a domain: {new:?}");
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "exceptions that are none any more: {gone:?}");
}

#[test]
fn a_wire_type_is_found_by_its_import_and_by_its_path() {
    let text = "use accelerd_proto::v1::{self as pb}; fn f() -> tonic::Status { tonic::Status::ok(\"\") }";
    assert_eq!(wire_types(text), BTreeSet::from(["accelerd_proto::v1", "tonic::Status"].map(str::to_owned)));
    let tests = "use accelerd_proto::DESCRIPTORS; #[cfg(test)] mod tests { use prost::Message; }";
    assert!(wire_types(tests).is_empty());
}
