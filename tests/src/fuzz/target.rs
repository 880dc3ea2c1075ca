//! A daemon in this process that is called with the messages of a case.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use accelerd::{
    config::{environment, load},
    serve::Daemon,
};
use accelerd_proto::{
    methods::{Rpc, tensor_service},
    v1,
};
use accelerd_sandbox::Program;
use bytes::Bytes;
use prost::Message;
use prost_reflect::MethodDescriptor;
use tempfile::TempDir;
use tonic::{Code, Status};

use super::{
    connection::Connection,
    judge::{self, peak_bytes},
    panics,
};

/// The deadline of a call, which the daemon keeps.
const DEADLINE: Duration = Duration::from_millis(500);
/// The deadline of calls that must succeed, and the time after which a call that has not ended hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The value of `memory.host_limit`, of which each kind of process of the sandbox holds a part from its first use on.
const HOST_LIMIT: &str = "3GiB";
/// The memory limit of the daemon itself: the calls are small.
const MAX_BYTES: u64 = 1 << 30;

/// A daemon and a connection to it.
#[derive(Debug)]
pub struct Target {
    daemon: Daemon,
    connection: Connection,
    /// From which models may be loaded, and where snapshots may be.
    folder: TempDir,
    /// Peak memory of this process before the first case.
    base_bytes: u64,
}

impl Target {
    /// Starts a daemon on free ports of loopback, whose sandbox runs `program`.
    pub async fn start(program: PathBuf) -> Self {
        panics::watch();
        let folder = tempfile::tempdir().expect("a folder");
        let flags = settings(folder.path()).map(|(key, value)| (key.to_owned(), value));
        let mut config = load(None, environment(), &flags).expect("the settings are valid");
        config.sandbox.program = Program { path: program, arguments: vec![], environment: vec![] };
        let daemon = Daemon::start(config).await.expect("the daemon starts");
        let connection = Connection::open(daemon.grpc_addr()).await;
        Self { daemon, connection, folder, base_bytes: peak_bytes() }
    }

    /// The folder of models and snapshots.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a call that may fail.
    ///
    /// # Panics
    /// If it hangs.
    pub async fn call(&self, path: &str, messages: Vec<Vec<u8>>) -> (Bytes, Status) {
        self.call_within(path, messages, DEADLINE).await
    }

    /// Makes a call with a long deadline.
    ///
    /// # Panics
    /// If it hangs.
    pub async fn call_patiently(&self, path: &str, messages: Vec<Vec<u8>>) -> (Bytes, Status) {
        self.call_within(path, messages, PATIENCE).await
    }

    async fn call_within(&self, path: &str, messages: Vec<Vec<u8>>, deadline: Duration) -> (Bytes, Status) {
        let answered = tokio::time::timeout(deadline + PATIENCE, self.connection.call(path, messages, deadline)).await;
        answered.unwrap_or_else(|_| panic!("{path} hangs"))
    }

    /// Makes a call that is expected to succeed.
    ///
    /// # Errors
    /// The status with which it is refused.
    pub async fn ask<Q: Message, R: Message + Default>(&self, method: Rpc<Q, R>, request: &Q) -> Result<R, Status> {
        let (response, status) = self.call_patiently(method.path(), vec![request.encode_to_vec()]).await;
        if status.code() == Code::Ok { Ok(R::decode(response).expect("a response")) } else { Err(status) }
    }

    /// Asserts that the daemon is whole after a call that ended with `status`: it did not fail itself, it did not panic, it has kept to its
    /// memory, it computes for others, and it holds nothing. `sent` describes the call.
    ///
    /// # Panics
    /// If it is not.
    pub async fn assert_whole(&self, status: &Status, sent: &str) {
        let judged = judge::status(status).and_then(|()| judge::panics());
        judged.unwrap_or_else(|reason| panic!("{reason}: {status:?} after {sent}"));
        let used = peak_bytes().saturating_sub(self.base_bytes);
        assert!(used < MAX_BYTES, "{used} bytes were used after {sent}");
        let polite = self.ask(tensor_service::EXECUTE, &polite()).await;
        polite.unwrap_or_else(|status| panic!("a polite caller gets {status:?} after {sent}"));
        self.free_tensors().await;
    }

    /// Frees all resident tensors: each case starts without any.
    async fn free_tensors(&self) {
        let listed = self.ask(tensor_service::LIST_TENSORS, &v1::ListTensorsRequest {}).await.expect("a list");
        if !listed.tensors.is_empty() {
            let handles = listed.tensors.into_iter().map(|tensor| tensor.handle).collect();
            let request = v1::FreeTensorsRequest { handles };
            self.ask(tensor_service::FREE_TENSORS, &request).await.expect("they were listed");
        }
    }

    /// Ends the daemon.
    pub async fn shutdown(self) {
        self.daemon.shutdown().await;
    }
}

/// Settings of a small daemon on free ports of loopback.
fn settings(folder: &Path) -> [(&'static str, String); 12] {
    let free = || "127.0.0.1:0".to_owned();
    [
        ("server.listen", free()),
        ("server.admin_listen", free()),
        ("server.health_listen", free()),
        ("http.listen", String::new()),
        ("backend.kind", "cpu".to_owned()),
        ("memory.host_limit", HOST_LIMIT.to_owned()),
        ("sandbox.processes", "1".to_owned()),
        ("sandbox.memory", "256MiB".to_owned()),
        ("sandbox.cuda_source", "true".to_owned()),
        ("drain.endpoint_delay", "0s".to_owned()),
        ("models.folders", folder.display().to_string()),
        ("store.snapshot_folders", url(folder)),
    ]
}

/// The path of a method.
pub fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// The URL of a folder.
pub fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

/// Adds two numbers.
fn polite() -> v1::ExecuteRequest {
    let numbers = [1.5_f32, 2.5].map(f32::to_le_bytes).concat();
    let value = v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![2], data: numbers.into() };
    let input = v1::TensorInput { name: "x".into(), source: Some(v1::tensor_input::Source::Value(value)) };
    let node = v1::TensorNode { name: "y".into(), op: "add".into(), inputs: vec!["x".into(); 2], ..Default::default() };
    let output = v1::TensorOutput { name: "y".into(), keep: false };
    v1::ExecuteRequest { inputs: vec![input], nodes: vec![node], outputs: vec![output], ..Default::default() }
}
