//! Resident tensors of several principals: whose they are, what they count for, and which roles make them.

use accelerd::{Config, Daemon, auth::token::Token};
use accelerd_proto::v1::{
    self, tensor_input::Source, tensor_service_client::TensorServiceClient, verify_service_client::VerifyServiceClient,
};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt;

use crate::harness::{
    Client, Files, new_collection, plaintext, principal, refusal, refused, similarity, token, with_token,
};

fn tensor(channel: &Channel, token: &Token) -> TensorServiceClient<Client> {
    TensorServiceClient::new(with_token(channel, Some(token)))
}

/// Uploads bytes to the CPU.
async fn upload(client: &mut TensorServiceClient<Client>, bytes: usize) -> Result<String, Status> {
    let extent = i64::try_from(bytes).expect("a small tensor");
    let device = "cpu".to_owned();
    let header =
        v1::UploadTensorHeader { dtype: v1::Dtype::U8.into(), shape: vec![extent], device, ..Default::default() };
    let part = v1::UploadTensorRequest { header: Some(header), data: vec![7; bytes].into() };
    let response = client.upload_tensor(futures::stream::iter([part])).await?;
    Ok(response.into_inner().tensor.expect("a tensor").handle)
}

/// A graph that returns a tensor, or keeps it.
fn same(handle: &str, keep: bool) -> v1::ExecuteRequest {
    let name = "x".to_owned();
    let source = Some(Source::Handle(handle.to_owned()));
    v1::ExecuteRequest {
        inputs: vec![v1::TensorInput { name: name.clone(), source }],
        outputs: vec![v1::TensorOutput { name, keep }],
        ..Default::default()
    }
}

/// The messages of all ways to use a handle, all refused.
async fn refusals(client: &mut TensorServiceClient<Client>, handle: &str) -> Vec<String> {
    let copy = v1::CopyTensorRequest { handle: handle.to_owned(), ..Default::default() };
    let free = v1::FreeTensorsRequest { handles: vec![handle.to_owned()] };
    let download = v1::DownloadTensorRequest { handle: handle.to_owned() };
    let downloaded = match client.download_tensor(download).await {
        Ok(parts) => parts.into_inner().message().await.map(drop),
        Err(status) => Err(status),
    };
    let all = [
        client.execute(same(handle, false)).await.map(drop),
        client.copy_tensor(copy).await.map(drop),
        client.free_tensors(free).await.map(drop),
        downloaded,
    ];
    let refused = all.map(|result| result.expect_err("not a tensor of the caller"));
    for status in &refused {
        assert_eq!(status.code(), Code::NotFound, "{status:?}");
        assert!(status.get_details_error_info().is_none(), "{status:?}");
    }
    refused.map(|status| status.message().replace(handle, "HANDLE")).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_of_another_principal_is_as_good_as_none() {
    let files = Files::new();
    let mut config = Config::loopback();
    let owner = token();
    let other = token();
    let file = principal("owner", "write", &owner, "") + &principal("other", "admin", &other, "");
    config.auth.principals = files.write("principals.toml", &file);
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let channel = plaintext(&daemon).await;
    let [mut owners, mut others] = [&owner, &other].map(|token| tensor(&channel, token));
    let handle = upload(&mut owners, 100).await.expect("it fits");
    let unknown = "0123456789abcdef0123456789abcdef";
    assert_eq!(refusals(&mut others, &handle).await, refusals(&mut others, unknown).await);
    let listed = others.list_tensors(v1::ListTensorsRequest {}).await.expect("a list").into_inner().tensors;
    assert!(listed.is_empty(), "{listed:?}");
    let done = owners.execute(same(&handle, false)).await.expect("its owner may").into_inner();
    assert_eq!(done.outputs[0].data[..], [7; 100]);
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_compares_tensors_of_its_own_alone() {
    let files = Files::new();
    let mut config = Config::loopback();
    let owner = token();
    let reader = token();
    let file = principal("owner", "write", &owner, "") + &principal("reader", "read", &reader, "");
    config.auth.principals = files.write("principals.toml", &file);
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let channel = plaintext(&daemon).await;
    let handle = upload(&mut tensor(&channel, &owner), 100).await.expect("it fits");
    let compare = async |token: &Token, source: Source| {
        let value = v1::Tensor { dtype: v1::Dtype::U8.into(), shape: vec![100], data: vec![7; 100].into() };
        let input = |source| vec![v1::TensorInput { name: "x".to_owned(), source: Some(source) }];
        let actual = input(Source::Value(value));
        let expected = input(source);
        let request = v1::CompareOutputsRequest { actual, expected, ..Default::default() };
        VerifyServiceClient::new(with_token(&channel, Some(token))).compare_outputs(request).await
    };
    let owned = compare(&owner, Source::Handle(handle.clone())).await.expect("its owner may").into_inner();
    assert!(owned.passed);
    let refused = compare(&reader, Source::Handle(handle)).await.expect_err("not a tensor of the caller");
    assert_eq!(refused.code(), Code::NotFound, "{refused:?}");
    let value = v1::Tensor { dtype: v1::Dtype::U8.into(), shape: vec![100], data: vec![8; 100].into() };
    let sent = compare(&reader, Source::Value(value)).await.expect("a reader compares").into_inner();
    assert!(!sent.passed);
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tensors_and_collections_share_a_quota() {
    let files = Files::new();
    let mut config = Config::loopback();
    let limited = token();
    let other = token();
    let file =
        principal("limited", "write", &limited, "resident_bytes = \"1MiB\"") + &principal("other", "write", &other, "");
    config.auth.principals = files.write("principals.toml", &file);
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let channel = plaintext(&daemon).await;
    let [mut client, mut others] = [&limited, &other].map(|token| tensor(&channel, token));
    let expected = refused(Code::ResourceExhausted, "RESIDENT_BYTES_EXCEEDED");
    let half = upload(&mut client, 512 << 10).await.expect("half of the quota");
    let status = upload(&mut client, (512 << 10) + 1).await.expect_err("a byte too many");
    assert!(status.message().contains("524288 of 1048576 bytes") && status.message().contains("524289"), "{status:?}");
    assert_eq!(refusal(Err::<(), _>(status)), expected);
    upload(&mut others, 2 << 20).await.expect("no quota");
    let kept = client.execute(same(&half, true)).await.expect("exactly the quota").into_inner().kept.remove(0).handle;
    assert_eq!(refusal(client.execute(same(&half, true)).await), expected);
    client.execute(same(&half, false)).await.expect("what is returned needs no quota");
    let copy = v1::CopyTensorRequest { handle: half.clone(), ..Default::default() };
    assert_eq!(refusal(client.copy_tensor(copy).await), expected);
    let mut collections = similarity(&channel, Some(&limited));
    assert_eq!(refusal(collections.create_collection(new_collection("full")).await), expected);
    client.free_tensors(v1::FreeTensorsRequest { handles: vec![half, kept] }).await.expect("both are there");
    collections.create_collection(new_collection("fits")).await.expect("nothing is held");
    upload(&mut client, 900 << 10).await.expect("nothing else is held");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn principals_share_the_memory_limit_and_have_their_own_quotas() {
    const MIB: usize = 1 << 20;
    let files = Files::new();
    let mut config = Config::loopback();
    let limited = token();
    let other = token();
    let file =
        principal("limited", "write", &limited, "resident_bytes = \"2MiB\"") + &principal("other", "write", &other, "");
    config.auth.principals = files.write("principals.toml", &file);
    config.tensors.memory_limit = "3MiB".parse().expect("a size");
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let channel = plaintext(&daemon).await;
    let [mut client, mut others] = [&limited, &other].map(|token| tensor(&channel, token));
    let [over_quota, over_limit] =
        ["RESIDENT_BYTES_EXCEEDED", "MEMORY_LIMIT"].map(|reason| refused(Code::ResourceExhausted, reason));
    let first = upload(&mut client, MIB).await.expect("half of the quota");
    let second = upload(&mut client, MIB).await.expect("the quota");
    assert_eq!(refusal(upload(&mut client, MIB).await), over_quota, "although there is memory");
    let third = upload(&mut others, MIB).await.expect("the memory that is left");
    assert_eq!(refusal(upload(&mut others, 1).await), over_limit);
    assert_eq!(refusal(others.execute(same(&third, true)).await), over_limit);
    others.execute(same(&third, false)).await.expect("what is returned needs no resident memory");
    let listed = others.list_tensors(v1::ListTensorsRequest {}).await.expect("a list").into_inner().tensors;
    assert_eq!(listed.len(), 1, "refused calls keep nothing");
    client.free_tensors(v1::FreeTensorsRequest { handles: vec![first, second] }).await.expect("both are there");
    let kept = others.execute(same(&third, true)).await.expect("there is memory again").into_inner().kept;
    assert_eq!(kept.len(), 1);
    upload(&mut client, MIB).await.expect("so there is for the first");
    assert_eq!(refusal(upload(&mut client, 1).await), over_limit, "its quota would allow it");
    daemon.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_computes_and_keeps_nothing() {
    let files = Files::new();
    let mut config = Config::loopback();
    let reader = token();
    config.auth.principals = files.write("principals.toml", &principal("reader", "read", &reader, ""));
    let daemon = Daemon::start(config).await.expect("the daemon starts");
    let channel = plaintext(&daemon).await;
    let mut client = tensor(&channel, &reader);
    let expected = refused(Code::PermissionDenied, "ROLE_TOO_LOW");
    let value = v1::Tensor { dtype: v1::Dtype::U8.into(), shape: vec![1], data: vec![7].into() };
    let sent = |keep| {
        let inputs = vec![v1::TensorInput { name: "x".to_owned(), source: Some(Source::Value(value.clone())) }];
        v1::ExecuteRequest { inputs, ..same("", keep) }
    };
    client.execute(sent(false)).await.expect("a reader computes");
    assert_eq!(refusal(client.execute(sent(true)).await), expected);
    assert_eq!(refusal(upload(&mut client, 1).await), expected);
    assert_eq!(refusal(client.copy_tensor(v1::CopyTensorRequest::default()).await), expected);
    assert_eq!(refusal(client.free_tensors(v1::FreeTensorsRequest::default()).await), expected);
    client.list_tensors(v1::ListTensorsRequest {}).await.expect("a reader lists");
    daemon.shutdown().await;
}
