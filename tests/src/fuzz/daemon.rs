//! A daemon in this process.

use std::{path::PathBuf, time::Duration};

use accelerd::{
    config::{environment, load},
    serve::Daemon,
};
use accelerd_sandbox::Program;
use tonic::transport::{Channel, Endpoint};

/// Starts a daemon on free ports of loopback, whose sandbox runs `program`, and connects to it.
pub async fn start(program: PathBuf) -> (Daemon, Channel) {
    let mut config = load(None, environment(), &[]).expect("the settings are valid");
    let free = "127.0.0.1:0".parse().expect("an address");
    config.server.listen = free;
    config.server.admin_listen = free;
    config.server.health_listen = free;
    config.drain.endpoint_delay = Duration::ZERO;
    config.sandbox.program = Program { path: program, arguments: vec![], environment: vec![] };
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let endpoint = Endpoint::from_shared(format!("http://{}", daemon.grpc_addr())).expect("an address is a URI");
    let channel = endpoint.connect().await.expect("the daemon accepts connections");
    (daemon, channel)
}
