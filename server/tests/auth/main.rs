//! Protection of the daemon over real sockets: TLS, client certificates, tokens, roles, quotas, the audit log.

mod harness;
mod http;
mod kernels;
mod logs;
mod names;
mod tensors;
mod tls;
mod tokens;
