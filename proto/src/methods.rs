//! The methods of `accelerd.v1` with the options that the .proto files give them.

use std::{fmt, marker::PhantomData};

pub use prost_types::method_options::IdempotencyLevel;

include!(concat!(env!("OUT_DIR"), "/methods.rs"));

/// A method of the protocol with the options of its .proto file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Identifies the method.
    pub id: MethodId,
    /// HTTP/2 path: a slash, the service, a slash, the name.
    pub path: &'static str,
    /// Full name of its service.
    pub service: &'static str,
    /// Name within its service.
    pub name: &'static str,
    /// True if a call has a stream of requests.
    pub client_streaming: bool,
    /// True if a call has a stream of responses.
    pub server_streaming: bool,
    /// The lowest role whose callers may call it.
    pub role: Role,
    /// The conditions under which a call may be repeated.
    pub idempotency: IdempotencyLevel,
    /// The size of its requests.
    pub size_class: SizeClass,
}

/// The rights of a caller, as in options.proto. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Compute, search and look.
    Read,
    /// Also change collections, and keep tensors.
    Write,
    /// Also load and unload models, drain and resume.
    Admin,
}

/// The size of a method's requests, as in options.proto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeClass {
    /// A few kilobytes.
    Small,
    /// From a few bytes to the maximum message size; the cost of each request is estimated.
    Variable,
    /// Mostly bulk data or long computations.
    Large,
}

impl Role {
    /// All roles, the lowest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The name in settings and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Method {
    /// The method of a path; `None` if there is none.
    #[must_use]
    pub fn of_path(path: &str) -> Option<&'static Self> {
        let mut slot = slot_of(path);
        while SLOTS[slot] != EMPTY {
            let method = &METHODS[usize::from(SLOTS[slot])];
            if method.path == path {
                return Some(method);
            }
            slot = (slot + 1) % SLOT_COUNT;
        }
        None
    }

    /// Returns true if a call may be repeated although the daemon may have executed it.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        !matches!(self.idempotency, IdempotencyLevel::IdempotencyUnknown)
    }
}

/// A method with the types of its messages, as a client calls it.
#[derive(Debug)]
pub struct Rpc<Q, R> {
    path: &'static str,
    is_idempotent: bool,
    types: PhantomData<fn(Q) -> R>,
}

impl<Q, R> Clone for Rpc<Q, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, R> Copy for Rpc<Q, R> {}

impl<Q, R> Rpc<Q, R> {
    /// A method of another protocol.
    #[must_use]
    pub const fn new(path: &'static str, is_idempotent: bool) -> Self {
        Self { path, is_idempotent, types: PhantomData }
    }

    const fn of(method: &Method) -> Self {
        Self::new(method.path, method.is_idempotent())
    }

    /// The same method, for calls that may be repeated although others may not.
    #[must_use]
    pub const fn idempotent(self) -> Self {
        Self::new(self.path, true)
    }

    /// HTTP/2 path.
    #[must_use]
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// Returns true if a call may be repeated although the daemon may have executed it.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }
}

/// Slots of the hash table of paths, of which at least three of four are empty.
const SLOT_COUNT: usize = METHODS.len().next_power_of_two() * 4;

/// The value of a slot without a method.
const EMPTY: u8 = u8::MAX;

/// Open addressing with linear probing: the index of a method is in the first free slot from that of its path on.
static SLOTS: [u8; SLOT_COUNT] = slots();

const fn slots() -> [u8; SLOT_COUNT] {
    assert!(METHODS.len() < EMPTY as usize, "the index of a method is a byte");
    let mut slots = [EMPTY; SLOT_COUNT];
    let mut index = 0;
    while index < METHODS.len() {
        let mut slot = slot_of(METHODS[index].path);
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOT_COUNT;
        }
        slots[slot] = index as u8;
        index += 1;
    }
    slots
}

/// Hashes a path by a multiplication for each eight bytes. Callers choose paths, not the contents of the table: a lookup passes as many
/// slots as the longest run of methods at most.
const fn slot_of(path: &str) -> usize {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut rest = path.as_bytes();
    let mut hash = rest.len() as u64;
    if let Some(last) = rest.last_chunk::<8>() {
        hash ^= u64::from_le_bytes(*last);
    }
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        hash = (hash ^ u64::from_le_bytes(*chunk)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 32;
        rest = tail;
    }
    (hash >> 8) as usize % SLOT_COUNT
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message;

    use super::*;

    #[test]
    fn the_table_has_every_method_of_the_protocol_and_no_other() {
        let descriptors = prost_types::FileDescriptorSet::decode(crate::DESCRIPTORS).expect("descriptors");
        let mut served = BTreeSet::new();
        for file in descriptors.file.iter().filter(|file| file.package() == "accelerd.v1") {
            for service in &file.service {
                let path = |name: &str| format!("/{}.{}/{name}", file.package(), service.name());
                let streams = |method: &prost_types::MethodDescriptorProto| {
                    (path(method.name()), method.client_streaming(), method.server_streaming())
                };
                served.extend(service.method.iter().map(streams));
            }
        }
        let listed = METHODS.iter().map(|one| (one.path.to_owned(), one.client_streaming, one.server_streaming));
        assert_eq!(listed.collect::<BTreeSet<_>>(), served);
    }

    #[test]
    fn methods_are_found_by_their_paths_and_by_their_ids() {
        for method in &METHODS {
            assert_eq!(Method::of_path(method.path), Some(method));
            assert_eq!(METHODS[method.id as usize], *method);
            assert_eq!(method.path, format!("/{}/{}", method.service, method.name));
            assert!(SERVICES.contains(&method.service), "{}", method.service);
        }
    }

    #[test]
    fn other_paths_have_no_method() {
        let embed = embed_service::EMBED.path();
        let others = ["", "/", "Embed", "/grpc.health.v1.Health/Check", &embed[1..], &embed[..embed.len() - 1]];
        for path in others {
            assert_eq!(Method::of_path(path), None, "{path}");
        }
        assert_eq!(Method::of_path(&format!("{embed}d")), None);
        assert_eq!(Method::of_path(&"x".repeat(10_000)), None);
    }

    #[test]
    fn a_lookup_passes_few_slots() {
        let is_full = |slot: &u8| *slot != EMPTY;
        let longest = SLOTS.split(|slot| !is_full(slot)).map(<[u8]>::len).max();
        assert!(longest <= Some(6), "{longest:?} methods in a row");
        assert_eq!(SLOTS.iter().filter(|slot| is_full(slot)).count(), METHODS.len());
    }

    #[test]
    fn a_method_is_repeated_only_if_its_level_says_so() {
        assert!(embed_service::EMBED.is_idempotent() && similarity_service::UPSERT.is_idempotent());
        let execute = tensor_service::EXECUTE;
        assert!(!execute.is_idempotent() && execute.idempotent().is_idempotent());
        assert_eq!(execute.idempotent().path(), execute.path());
    }
}
