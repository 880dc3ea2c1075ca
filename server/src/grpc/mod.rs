//! The gRPC services. A file here decodes, submits and encodes; it computes nothing.

pub mod similarity;
