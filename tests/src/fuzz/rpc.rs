//! Calls with messages that are changed along their descriptors: whatever is sent, the daemon ends the call with a status that names the
//! reason, and answers the next one.

use std::sync::OnceLock;

use accelerd_proto::{
    methods::{kernel_service, tensor_service, verify_service},
    v1,
};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use tonic::Code;

use super::{
    choices::Choices,
    messages::{mutate, mutate_bytes, mutate_stream, text},
    seeds::{self, Residents, Seed},
    target::{Target, path},
};

/// Services whose methods are fuzzed.
const SERVICES: [&str; 3] = [tensor_service::NAME, kernel_service::NAME, verify_service::NAME];
/// Characters of a request in a report.
const REPORTED: usize = 3000;

fn descriptors() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| DescriptorPool::decode(accelerd_proto::DESCRIPTORS).expect("a descriptor set"))
}

/// All methods of the services for tensors, kernels and verification.
pub fn methods() -> Vec<MethodDescriptor> {
    let services = SERVICES.iter().map(|name| descriptors().get_service_by_name(name).expect("a service"));
    services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

/// Calls a method with each of its seeds, without a change, and asserts that they succeed.
pub async fn run_seeds(target: &Target, method: &MethodDescriptor) {
    let seeds = seeds_of(method, &residents(target).await);
    assert!(!seeds.is_empty(), "{} has no seed", method.full_name());
    for seed in seeds {
        let (_, status) = target.call_patiently(&path(method), seed.messages.clone()).await;
        let sent = report(method, &seed.messages);
        let expected = if method.name() == "Evaluate" { Code::FailedPrecondition } else { Code::Ok };
        assert_eq!(status.code(), expected, "a seed is valid: {status:?} after {sent}");
        target.assert_whole(&status, &sent).await;
    }
}

/// Calls a method with a changed seed, asserts how it ends, and returns its code.
pub async fn run(target: &Target, method: &MethodDescriptor, data: &[u8]) -> Code {
    let choices = &mut Choices::new(data);
    let seeds = seeds_of(method, &residents(target).await);
    let mut messages = seeds.get(choices.below(seeds.len())).map(|seed| seed.messages.clone()).unwrap_or_default();
    for message in &mut messages {
        *message = changed(method, message, choices);
    }
    if method.is_client_streaming() {
        mutate_stream(&mut messages, choices);
    }
    let sent = report(method, &messages);
    let (_, status) = target.call(&path(method), messages).await;
    target.assert_whole(&status, &sent).await;
    status.code()
}

/// A tensor and a kernel that exist.
async fn residents(target: &Target) -> Residents {
    let header = v1::UploadTensorHeader { dtype: v1::Dtype::F32.into(), shape: vec![3], ..Default::default() };
    let upload = v1::UploadTensorRequest { header: Some(header), data: vec![0; 12].into() };
    let uploaded = target.ask(tensor_service::UPLOAD_TENSOR, &upload).await.expect("it is valid");
    let compile = v1::CompileRequest { program: Some(seeds::program(seeds::KERNEL)), ..Default::default() };
    let compiled = target.ask(kernel_service::COMPILE, &compile).await.expect("it is valid");
    Residents {
        handle: uploaded.tensor.map(|tensor| tensor.handle).unwrap_or_default(),
        kernel_id: compiled.kernel.map(|kernel| kernel.id).unwrap_or_default(),
    }
}

fn seeds_of(method: &MethodDescriptor, residents: &Residents) -> Vec<Seed> {
    seeds::seeds(residents).into_iter().filter(|seed| seed.method == method.name()).collect()
}

fn changed(method: &MethodDescriptor, seed: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let mut message = DynamicMessage::decode(method.input(), seed).expect("a seed is a request");
    mutate(&mut message, choices);
    let mut bytes = message.encode_to_vec();
    if choices.is_one_in(24) {
        mutate_bytes(&mut bytes, choices);
    }
    bytes
}

/// The messages of a call, shortened.
fn report(method: &MethodDescriptor, messages: &[Vec<u8>]) -> String {
    let texts = messages.iter().map(|message| match DynamicMessage::decode(method.input(), message.as_slice()) {
        Ok(message) => text(&message),
        Err(error) => format!("{message:?} ({error})"),
    });
    let all = texts.collect::<Vec<_>>().join(", then ");
    format!("{} {}", method.full_name(), all.chars().take(REPORTED).collect::<String>())
}
