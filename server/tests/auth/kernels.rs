//! Kept kernels of several principals: who may drop them.

use accelerd::{Config, Daemon, auth::token::Token};
use accelerd_proto::v1::{self, kernel_service_client::KernelServiceClient};
use tonic::{Code, transport::Channel};

use crate::harness::{Client, Files, plaintext, principal, token, with_token};

fn kernels(channel: &Channel, token: &Token) -> KernelServiceClient<Client> {
    KernelServiceClient::new(with_token(channel, Some(token)))
}

/// Compiles a program and returns its id.
async fn compile(client: &mut KernelServiceClient<Client>) -> String {
    let source = "def f(x: float) -> float:\n    return x\n".to_owned();
    let program = Some(v1::KernelProgram { source, ..Default::default() });
    let response = client.compile(v1::CompileRequest { program, cuda: None }).await.expect("it is valid");
    response.into_inner().kernel.expect("a kernel").id
}

async fn evict(client: &mut KernelServiceClient<Client>, id: &str) -> Code {
    let request = v1::EvictKernelRequest { kernel_id: id.to_owned() };
    client.evict_kernel(request).await.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_is_dropped_by_who_compiled_it_first_and_by_admins() {
    let files = Files::new();
    let mut config = Config::loopback();
    let tokens = [token(), token(), token()];
    let file = principal("owner", "write", &tokens[0], "")
        + &principal("other", "write", &tokens[1], "")
        + &principal("admin", "admin", &tokens[2], "");
    config.auth.principals = files.write("principals.toml", &file);
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let channel = plaintext(&daemon).await;
    let [mut owner, mut other, mut admin] = tokens.each_ref().map(|token| kernels(&channel, token));
    let id = compile(&mut owner).await;
    assert_eq!(compile(&mut other).await, id, "an equal program is the same kernel");
    assert_eq!(evict(&mut other, &id).await, Code::PermissionDenied);
    assert_eq!(evict(&mut owner, &id).await, Code::Ok);
    assert_eq!(evict(&mut owner, &id).await, Code::NotFound);
    assert_eq!(compile(&mut other).await, id);
    assert_eq!(evict(&mut owner, &id).await, Code::PermissionDenied, "now it is the other's");
    assert_eq!(evict(&mut admin, &id).await, Code::Ok);
    daemon.shutdown().await;
}
