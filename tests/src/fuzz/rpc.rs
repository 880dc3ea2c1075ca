//! Calls with messages that are changed along their descriptors: whatever is sent, the daemon ends the call with a status other than that of
//! a panic, and answers the next one.

use std::{sync::OnceLock, time::Duration};

use accelerd_proto::v1;
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};

use super::{choices::Choices, messages::mutate, seeds::Seed};

/// The deadline of a call, which the daemon keeps.
const DEADLINE: Duration = Duration::from_millis(500);
/// A call that has not ended by then hangs.
const HANG: Duration = Duration::from_secs(60);

/// Services whose methods are fuzzed.
pub const SERVICES: [&str; 3] = ["accelerd.v1.TensorService", "accelerd.v1.KernelService", "accelerd.v1.VerifyService"];

fn descriptors() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| DescriptorPool::decode(accelerd_proto::DESCRIPTORS).expect("a descriptor set"))
}

/// The methods of [`SERVICES`].
pub fn methods() -> Vec<MethodDescriptor> {
    let services = SERVICES.iter().map(|name| descriptors().get_service_by_name(name).expect("a service"));
    services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

/// Calls a method with a changed seed, asserts how it ends, and makes a polite call.
pub async fn run(channel: &Channel, method: &MethodDescriptor, seeds: &[Seed], data: &[u8]) {
    let choices = &mut Choices::new(data);
    let of_method: Vec<_> = seeds.iter().filter(|seed| seed.method == method.name()).collect();
    let messages = of_method.get(choices.below(of_method.len())).map(|seed| seed.messages.clone()).unwrap_or_default();
    let sent: Vec<Vec<u8>> = messages.iter().map(|message| changed(method, message, choices)).collect();
    let status = tokio::time::timeout(HANG, call(channel, method, sent.clone())).await;
    let status = status.unwrap_or_else(|_| panic!("{} hangs: {sent:?}", method.full_name()));
    let is_fault = matches!(status.code(), Code::Internal | Code::Unknown | Code::DataLoss);
    assert!(!is_fault, "{}: {status:?} after {sent:?}", method.full_name());
    let polite =
        v1::tensor_service_client::TensorServiceClient::new(channel.clone()).list_tensors(v1::ListTensorsRequest {});
    let answered = tokio::time::timeout(HANG, polite).await;
    assert!(matches!(answered, Ok(Ok(_))), "the daemon no longer answers after {}: {sent:?}", method.full_name());
}

fn changed(method: &MethodDescriptor, seed: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let mut message = DynamicMessage::decode(method.input(), seed).expect("a seed is a request");
    mutate(&mut message, choices);
    message.encode_to_vec()
}

/// Sends messages, reads all responses, and returns how the call ended.
async fn call(channel: &Channel, method: &MethodDescriptor, messages: Vec<Vec<u8>>) -> Status {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let mut request = Request::new(tokio_stream::iter(messages));
    request.set_timeout(DEADLINE);
    let mut client = Grpc::new(channel.clone());
    client.ready().await.expect("the daemon accepts calls");
    let path = path.parse().expect("a path");
    let mut responses = match client.streaming(request, path, RawCodec).await {
        Ok(responses) => responses.into_inner(),
        Err(status) => return status,
    };
    loop {
        match responses.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::ok(""),
            Err(status) => return status,
        }
    }
}

/// Messages as bytes.
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
