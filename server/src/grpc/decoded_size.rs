//! Estimates the bytes that decoding a message allocates, from its encoded bytes.
//!
//! An empty string takes two bytes on the wire and 24 in memory, so a message can decode to a dozen times its size. The
//! estimate is charged before decoding. Fields of type `bytes` share the message's buffer and cost nothing.

use std::{collections::HashMap, sync::OnceLock};

use bytes::Buf;
use prost::Message;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// Maximum nesting depth of messages; prost refuses to decode deeper ones.
const MAX_DEPTH: usize = 100;

/// Overhead of an allocation in bytes.
const ALLOCATION_OVERHEAD: u64 = 16;

/// A growing vector allocates at most twice the size of its elements.
const GROWTH_FACTOR: u64 = 2;

/// The memory layout of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Numbers of `size` bytes in memory.
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

/// The memory layout of a message.
#[derive(Debug, Default)]
struct MessageLayout {
    fields: HashMap<u64, Field>,
    /// Size of the struct in bytes.
    size: u64,
}

/// The layouts of all messages, and the request message of each method by its path.
#[derive(Debug, Default)]
struct Layouts {
    all: Vec<MessageLayout>,
    requests: HashMap<String, usize>,
}

/// Estimated bytes that decoding the request of a method allocates, besides the encoded message.
pub(super) fn decoded_size(path: &str, message: &[u8]) -> u64 {
    static LAYOUTS: OnceLock<Layouts> = OnceLock::new();
    let layouts = LAYOUTS.get_or_init(|| Layouts::of(accelerd_proto::DESCRIPTORS));
    layouts.requests.get(path).map_or(0, |&request| layouts.allocations(request, message, MAX_DEPTH))
}

impl Layouts {
    fn of(descriptors: &[u8]) -> Self {
        let files = FileDescriptorSet::decode(descriptors).map(|set| set.file).unwrap_or_default();
        let mut named = vec![];
        for file in &files {
            collect(&format!(".{}", file.package()), &file.message_type, &mut named);
        }
        let index: HashMap<_, _> = named.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
        let fields = |message: &DescriptorProto| message.field.iter().filter_map(|one| field(one, &index)).collect();
        let mut all: Vec<_> =
            named.iter().map(|(_, message)| MessageLayout { fields: fields(message), size: 0 }).collect();
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

    /// Bytes that the fields of a message allocate.
    fn allocations(&self, layout: usize, mut message: &[u8], depth: usize) -> u64 {
        let mut sum = 0;
        while message.has_remaining() {
            let Some((number, wire)) = tag(&mut message) else { return sum };
            let Some(length) = length(wire, &mut message) else { return sum };
            let Some((value, rest)) = message.split_at_checked(length) else { return sum };
            message = rest;
            let bytes = length as u64;
            sum += match self.all[layout].fields.get(&number) {
                Some(Field::Number { size, repeated: true }) if wire == 2 => bytes * size * GROWTH_FACTOR,
                Some(Field::Number { size, repeated: true }) => size * GROWTH_FACTOR,
                Some(Field::Text { repeated }) => allocation(bytes) + if *repeated { 24 * GROWTH_FACTOR } else { 0 },
                Some(Field::Bytes { repeated: true }) => 32 * GROWTH_FACTOR,
                Some(Field::Message { index, repeated }) => {
                    let own = if *repeated { self.all[*index].size * GROWTH_FACTOR } else { 0 };
                    own + if depth == 0 { 0 } else { self.allocations(*index, value, depth - 1) }
                }
                Some(Field::Number { repeated: false, .. } | Field::Bytes { repeated: false }) | None => 0,
            };
        }
        sum
    }
}

/// The cost of an allocation of `bytes`.
fn allocation(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes + ALLOCATION_OVERHEAD }
}

fn tag(message: &mut &[u8]) -> Option<(u64, u64)> {
    let tag = prost::encoding::decode_varint(message).ok()?;
    Some((tag >> 3, tag & 7))
}

/// Length of a value; consumes varints, which count as 0.
fn length(wire: u64, message: &mut &[u8]) -> Option<usize> {
    match wire {
        0 => prost::encoding::decode_varint(message).ok().map(|_| 0),
        1 => Some(8),
        2 => usize::try_from(prost::encoding::decode_varint(message).ok()?).ok(),
        5 => Some(4),
        _ => None,
    }
}

/// Collects the messages of a file, including nested ones, by full name.
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
        // Of fixed width: packed, they take as many bytes on the wire as in memory.
        Type::Double | Type::Float | Type::Fixed64 | Type::Fixed32 | Type::Sfixed32 | Type::Sfixed64 => {
            Field::Number { size: 1, repeated }
        }
        Type::Int64 | Type::Uint64 | Type::Sint64 => Field::Number { size: 8, repeated },
        Type::Int32 | Type::Uint32 | Type::Sint32 | Type::Enum => Field::Number { size: 4, repeated },
        Type::Bool => Field::Number { size: 1, repeated },
    };
    Some((number, field))
}

/// Size of a struct, including nested structs.
fn struct_size(all: &[MessageLayout], index: usize, depth: usize) -> u64 {
    let size = |field: &Field| match *field {
        Field::Number { repeated: true, .. } | Field::Text { .. } | Field::Message { repeated: true, .. } => 24,
        Field::Number { size, .. } => size.max(4) * 2,
        Field::Bytes { .. } => 32,
        Field::Message { index, .. } if depth > 0 => struct_size(all, index, depth - 1) + 8,
        Field::Message { .. } => 8,
    };
    all[index].fields.values().map(size).sum::<u64>() + 8
}

#[cfg(test)]
mod tests {
    use accelerd_proto::{
        methods::{embed_service, similarity_service, tensor_service},
        v1 as pb,
    };

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
        let path = embed_service::EMBED.path();
        let empty = of(path, &embed(vec![String::new(); 1000]));
        assert!((24_000..=60_000).contains(&empty), "{empty}");
        let letters = of(path, &embed(vec!["a".to_owned(); 1000]));
        assert!((40_000..=80_000).contains(&letters), "{letters}");
        let long = of(path, &embed(vec!["a".repeat(1_000_000)]));
        assert!((1_000_000..=1_001_000).contains(&long), "{long}");
    }

    #[test]
    fn requests_of_a_stream_cost_what_unary_ones_do() {
        let step = pb::EmbedStreamRequest { sequence: 1, embed: Some(embed(vec![String::new(); 1000])) };
        let alone = of(embed_service::EMBED.path(), &embed(vec![String::new(); 1000]));
        assert_eq!(of(embed_service::EMBED_STREAM.path(), &step), alone);
    }

    #[test]
    fn bytes_fields_cost_nothing_and_packed_numbers_their_decoded_size() {
        let tensor = crate::grpc::convert::tensor_of(pb::Dtype::F32, &[1000, 100], vec![7; 400_000].into());
        let search = pb::FindSimilarRequest { corpus: Some(tensor), k: 1, ..pb::FindSimilarRequest::default() };
        assert!(of(similarity_service::FIND_SIMILAR.path(), &search) < 1000);
        let ids = pb::PointIds { numbers: vec![1; 10_000], ..pb::PointIds::default() };
        let get = pb::GetPointsRequest { ids: Some(ids), ..pb::GetPointsRequest::default() };
        let size = of(similarity_service::GET_POINTS.path(), &get);
        assert!((80_000..=161_000).contains(&size), "{size}");
    }

    #[test]
    fn payloads_cost_the_size_of_their_maps() {
        let value = || pb::Value { kind: Some(pb::value::Kind::IntValue(1)) };
        let fields = |_| pb::Payload { fields: (0..10).map(|at| (format!("f{at}"), value())).collect() };
        let upsert = pb::UpsertRequest { payloads: (0..1000).map(fields).collect(), ..pb::UpsertRequest::default() };
        let size = of(similarity_service::UPSERT.path(), &upsert);
        let least = 10_000 * (24 + 2 + size_of::<pb::Value>() as u64);
        assert!((least..=least * 6).contains(&size), "{size} of at least {least}");
    }

    #[test]
    fn arbitrary_bytes_and_paths_cost_nothing() {
        for bytes in [&[][..], &[0xff; 40], &[0x0a], &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]] {
            assert_eq!(decoded_size(embed_service::EMBED.path(), bytes), 0, "{bytes:?}");
        }
        assert_eq!(decoded_size("/made.up/Path", &[0x0a, 0]), 0);
    }

    /// Messages within a message of this type; `None` if there are more than `limit`.
    fn nesting(layouts: &Layouts, index: usize, limit: usize) -> Option<usize> {
        let inner = layouts.all[index].fields.values().filter_map(|field| match field {
            Field::Message { index, .. } => Some(*index),
            Field::Number { .. } | Field::Text { .. } | Field::Bytes { .. } => None,
        });
        let mut depths = inner.map(|index| nesting(layouts, index, limit.checked_sub(1)?).map(|depth| depth + 1));
        depths.try_fold(0, |deepest, depth| Some(deepest.max(depth?)))
    }

    #[test]
    fn no_request_nests_nearly_as_deep_as_messages_are_decoded() {
        let layouts = Layouts::of(accelerd_proto::DESCRIPTORS);
        assert!(layouts.requests.len() > 30, "{} methods", layouts.requests.len());
        for (path, &request) in &layouts.requests {
            assert!(nesting(&layouts, request, MAX_DEPTH / 4).is_some(), "{path}");
        }
    }

    #[test]
    fn groups_nested_ten_times_as_deep_as_messages_are_decoded_are_refused() {
        const BEGIN: u8 = 15 << 3 | 3;
        const END: u8 = 15 << 3 | 4;
        let nested = |depth: usize| [vec![BEGIN; depth], vec![END; depth]].concat();
        let shallow = nested(MAX_DEPTH / 2);
        assert!(pb::ExecuteRequest::decode(shallow.as_slice()).is_ok(), "unknown fields are skipped");
        for deep in [nested(10 * MAX_DEPTH), vec![BEGIN; 10_000 * MAX_DEPTH]] {
            assert!(pb::ExecuteRequest::decode(deep.as_slice()).is_err());
            assert_eq!(decoded_size(tensor_service::EXECUTE.path(), &deep), 0);
        }
    }
}
