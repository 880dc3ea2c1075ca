//! What decoding a message will allocate, told from its bytes before it is decoded.
//!
//! An empty string has two bytes on the wire and 24 in memory, so that a message within its limit can decode to a dozen
//! times its size. The estimate is charged first. Fields of type `bytes` share the message's buffer and cost nothing.

use std::{collections::HashMap, sync::OnceLock};

use bytes::Buf;
use prost::Message;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// Messages within messages are looked into this deep; what is deeper, decoding refuses.
const DEPTH: usize = 100;

/// What an allocation costs beyond its bytes.
const ALLOCATION: u64 = 16;

/// A vector that grows has at most twice the memory of its elements.
const GROWTH: u64 = 2;

/// A field, as far as its memory goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Numbers, with the bytes of each in memory.
    Number {
        size: u64,
        repeated: bool,
    },
    Text {
        repeated: bool,
    },
    Bytes {
        repeated: bool,
    },
    Message {
        index: usize,
        repeated: bool,
    },
}

/// A message, as far as its memory goes.
#[derive(Debug, Default)]
struct Shape {
    fields: HashMap<u64, Field>,
    /// Bytes of the struct itself.
    size: u64,
}

/// The messages of the protocol, and the request of each method by its path.
#[derive(Debug, Default)]
struct Shapes {
    all: Vec<Shape>,
    requests: HashMap<String, usize>,
}

/// An estimate of what decoding the request of a method allocates beyond the message's own bytes.
pub(super) fn decoded_size(path: &str, message: &[u8]) -> u64 {
    static SHAPES: OnceLock<Shapes> = OnceLock::new();
    let shapes = SHAPES.get_or_init(|| Shapes::of(accelerd_proto::DESCRIPTORS));
    shapes.requests.get(path).map_or(0, |&request| shapes.walk(request, message, DEPTH))
}

impl Shapes {
    fn of(descriptors: &[u8]) -> Self {
        let files = FileDescriptorSet::decode(descriptors).map(|set| set.file).unwrap_or_default();
        let mut named = vec![];
        for file in &files {
            collect(&format!(".{}", file.package()), &file.message_type, &mut named);
        }
        let index: HashMap<_, _> = named.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
        let fields = |message: &DescriptorProto| message.field.iter().filter_map(|one| field(one, &index)).collect();
        let mut all: Vec<_> = named.iter().map(|(_, message)| Shape { fields: fields(message), size: 0 }).collect();
        for at in 0..all.len() {
            all[at].size = struct_size(&all, at, 8);
        }
        let mut requests = HashMap::new();
        for file in &files {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    requests.extend(index.get(method.input_type()).map(|&at| (path, at)));
                }
            }
        }
        Self { all, requests }
    }

    /// What the fields of a message allocate.
    fn walk(&self, shape: usize, mut message: &[u8], depth: usize) -> u64 {
        let mut sum = 0;
        while message.has_remaining() {
            let Some((number, wire)) = tag(&mut message) else { return sum };
            let Some(length) = length(wire, &mut message) else { return sum };
            let Some((value, rest)) = message.split_at_checked(length) else { return sum };
            message = rest;
            let bytes = length as u64;
            sum += match self.all[shape].fields.get(&number) {
                Some(Field::Number { size, repeated: true }) if wire == 2 => bytes * size * GROWTH,
                Some(Field::Number { size, repeated: true }) => size * GROWTH,
                Some(Field::Text { repeated }) => heap(bytes) + if *repeated { 24 * GROWTH } else { 0 },
                Some(Field::Bytes { repeated: true }) => 32 * GROWTH,
                Some(Field::Message { index, repeated }) => {
                    let own = if *repeated { self.all[*index].size * GROWTH } else { 0 };
                    own + if depth == 0 { 0 } else { self.walk(*index, value, depth - 1) }
                }
                Some(Field::Number { repeated: false, .. } | Field::Bytes { repeated: false }) | None => 0,
            };
        }
        sum
    }
}

/// An allocation of so many bytes.
fn heap(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes + ALLOCATION }
}

fn tag(message: &mut &[u8]) -> Option<(u64, u64)> {
    let tag = prost::encoding::decode_varint(message).ok()?;
    Some((tag >> 3, tag & 7))
}

/// The length of a value; numbers of variable length are taken by this.
fn length(wire: u64, message: &mut &[u8]) -> Option<usize> {
    match wire {
        0 => prost::encoding::decode_varint(message).ok().map(|_| 0),
        1 => Some(8),
        2 => usize::try_from(prost::encoding::decode_varint(message).ok()?).ok(),
        5 => Some(4),
        _ => None,
    }
}

/// Every message of a file by its full name, those within others included.
fn collect<'a>(scope: &str, messages: &'a [DescriptorProto], named: &mut Vec<(String, &'a DescriptorProto)>) {
    for message in messages {
        let name = format!("{scope}.{}", message.name());
        collect(&name, &message.nested_type, named);
        named.push((name, message));
    }
}

fn field(field: &FieldDescriptorProto, index: &HashMap<&str, usize>) -> Option<(u64, Field)> {
    let number = u64::try_from(field.number()).ok()?;
    let repeated = field.label() == Label::Repeated;
    let field = match field.r#type() {
        Type::String => Field::Text { repeated },
        Type::Bytes => Field::Bytes { repeated },
        Type::Message | Type::Group => Field::Message { index: *index.get(field.type_name())?, repeated },
        // Of fixed length on the wire: packed, they have as many bytes as in memory.
        Type::Double | Type::Float | Type::Fixed64 | Type::Fixed32 | Type::Sfixed32 | Type::Sfixed64 => {
            Field::Number { size: 1, repeated }
        }
        Type::Int64 | Type::Uint64 | Type::Sint64 => Field::Number { size: 8, repeated },
        Type::Int32 | Type::Uint32 | Type::Sint32 | Type::Enum => Field::Number { size: 4, repeated },
        Type::Bool => Field::Number { size: 1, repeated },
    };
    Some((number, field))
}

/// The bytes of a struct, with the structs within it.
fn struct_size(all: &[Shape], at: usize, depth: usize) -> u64 {
    let size = |field: &Field| match *field {
        Field::Number { repeated: true, .. } | Field::Text { .. } | Field::Message { repeated: true, .. } => 24,
        Field::Number { size, .. } => size.max(4) * 2,
        Field::Bytes { .. } => 32,
        Field::Message { index, .. } if depth > 0 => struct_size(all, index, depth - 1) + 8,
        Field::Message { .. } => 8,
    };
    all[at].fields.values().map(size).sum::<u64>() + 8
}

#[cfg(test)]
mod tests {
    use accelerd_proto::v1 as pb;

    use super::*;

    fn of(path: &str, message: &impl Message) -> u64 {
        decoded_size(path, &message.encode_to_vec())
    }

    fn embed(values: Vec<String>) -> pb::EmbedRequest {
        let input = pb::embed_request::Input::Texts(pb::TextInput { values });
        pb::EmbedRequest { input: Some(input), ..pb::EmbedRequest::default() }
    }

    #[test]
    fn many_short_strings_cost_many_times_their_bytes() {
        let path = "/accelerd.v1.EmbedService/Embed";
        let empty = of(path, &embed(vec![String::new(); 1000]));
        assert!((24_000..=60_000).contains(&empty), "{empty}");
        let letters = of(path, &embed(vec!["a".to_owned(); 1000]));
        assert!((40_000..=80_000).contains(&letters), "{letters}");
        let long = of(path, &embed(vec!["a".repeat(1_000_000)]));
        assert!((1_000_000..=1_001_000).contains(&long), "{long}");
    }

    #[test]
    fn a_stream_is_looked_into_as_deep_as_a_call() {
        let step = pb::EmbedStreamRequest { sequence: 1, embed: Some(embed(vec![String::new(); 1000])) };
        let alone = of("/accelerd.v1.EmbedService/Embed", &embed(vec![String::new(); 1000]));
        assert_eq!(of("/accelerd.v1.EmbedService/EmbedStream", &step), alone);
    }

    #[test]
    fn bulk_numbers_cost_nothing_and_packed_ones_what_they_grow_to() {
        let tensor = crate::grpc::convert::tensor_of(pb::Dtype::F32, &[1000, 100], vec![7; 400_000].into());
        let search = pb::FindSimilarRequest { corpus: Some(tensor), k: 1, ..pb::FindSimilarRequest::default() };
        assert!(of("/accelerd.v1.SimilarityService/FindSimilar", &search) < 1000);
        let ids = pb::PointIds { numbers: vec![1; 10_000], ..pb::PointIds::default() };
        let get = pb::GetPointsRequest { ids: Some(ids), ..pb::GetPointsRequest::default() };
        let size = of("/accelerd.v1.SimilarityService/GetPoints", &get);
        assert!((80_000..=161_000).contains(&size), "{size}");
    }

    #[test]
    fn payloads_cost_their_maps() {
        let value = || pb::Value { kind: Some(pb::value::Kind::IntValue(1)) };
        let fields = |_| pb::Payload { fields: (0..10).map(|at| (format!("f{at}"), value())).collect() };
        let upsert = pb::UpsertRequest { payloads: (0..1000).map(fields).collect(), ..pb::UpsertRequest::default() };
        let size = of("/accelerd.v1.SimilarityService/Upsert", &upsert);
        let least = 10_000 * (24 + 2 + size_of::<pb::Value>() as u64);
        assert!((least..=least * 6).contains(&size), "{size} of at least {least}");
    }

    #[test]
    fn made_up_bytes_and_paths_have_a_size() {
        for bytes in [&[][..], &[0xff; 40], &[0x0a], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]] {
            assert_eq!(decoded_size("/accelerd.v1.EmbedService/Embed", bytes), 0, "{bytes:?}");
        }
        assert_eq!(decoded_size("/made.up/Path", &[0x0a, 0]), 0);
    }
}
