//! Why a call is refused.

use std::time::Duration;

use super::role::Role;

/// Why a call is refused. No message contains a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The caller presents no credentials.
    #[error("expected credentials: metadata `authorization: Bearer TOKEN` or a client certificate, got none")]
    NoCredentials,
    /// The caller's token or certificate belongs to no principal.
    #[error("{0}")]
    WrongCredentials(&'static str),
    /// The caller's role does not include the method.
    #[error("the call needs the role {needed}, the caller has the role {got}")]
    Role {
        /// The role that the call needs.
        needed: Role,
        /// The caller's role.
        got: Role,
    },
    /// A name is outside of the caller's patterns.
    #[error("the caller may not use the {kind} {name:?}")]
    Name {
        /// `collection` or `model`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The caller's rate of requests is exhausted.
    #[error("more than {per_second} requests per second")]
    Rate {
        /// The limit, as text.
        per_second: String,
        /// When the next request may succeed.
        retry_after: Duration,
    },
    /// The caller's quota of bytes in flight is exhausted.
    #[error("quota of bytes in flight: {used} of {limit} bytes in use, the message has {asked}")]
    BytesInFlight {
        /// Bytes of the caller's messages in flight.
        used: u64,
        /// The quota.
        limit: u64,
        /// Bytes of the refused message.
        asked: u64,
    },
    /// The quota of the owner's collections and tensors is exhausted.
    #[error(
        "quota of resident bytes: the collections and tensors of their owner hold {used} of {limit} bytes, the call adds {asked}"
    )]
    ResidentBytes {
        /// Host memory of the owner's collections, and memory of its tensors.
        used: u64,
        /// The quota.
        limit: u64,
        /// Bytes that the call adds, at least.
        asked: u64,
    },
    /// The owner has as many tensors as are permitted.
    #[error("the caller has {used} of {limit} resident tensors, the call adds {asked}")]
    TensorCount {
        /// The caller's tensors.
        used: usize,
        /// Their maximum.
        limit: usize,
        /// Tensors that the call adds.
        asked: usize,
    },
}

/// Retry delay where it is not known when quota is released.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Characters of a refused name that messages and logs show.
const SHOWN_CHARACTERS: usize = 128;

impl Refusal {
    /// A refused name, which may be of any length.
    pub(super) fn name(kind: &'static str, name: &str) -> Self {
        Self::Name { kind, name: name.chars().take(SHOWN_CHARACTERS).collect() }
    }

    /// The reason in error details, audit events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoCredentials => "NO_CREDENTIALS",
            Self::WrongCredentials(_) => "WRONG_CREDENTIALS",
            Self::Role { .. } => "ROLE_TOO_LOW",
            Self::Name { kind: "model", .. } => "MODEL_NOT_ALLOWED",
            Self::Name { .. } => "COLLECTION_NOT_ALLOWED",
            Self::Rate { .. } => "RATE_EXCEEDED",
            Self::BytesInFlight { .. } => "BYTES_IN_FLIGHT_EXCEEDED",
            Self::ResidentBytes { .. } => "RESIDENT_BYTES_EXCEEDED",
            Self::TensorCount { .. } => "TENSOR_COUNT_EXCEEDED",
        }
    }

    /// When a retry may succeed; `None` if it cannot.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rate { retry_after, .. } => Some(*retry_after),
            Self::BytesInFlight { limit, asked, .. } => (asked <= limit).then_some(RETRY_AFTER),
            Self::NoCredentials
            | Self::WrongCredentials(_)
            | Self::Role { .. }
            | Self::Name { .. }
            | Self::ResidentBytes { .. }
            | Self::TensorCount { .. } => None,
        }
    }

    /// The name that the caller may not use, for audit events.
    pub(super) fn resource(&self) -> &str {
        match self {
            Self::Name { name, .. } => name,
            Self::NoCredentials
            | Self::WrongCredentials(_)
            | Self::Role { .. }
            | Self::Rate { .. }
            | Self::BytesInFlight { .. }
            | Self::ResidentBytes { .. }
            | Self::TensorCount { .. } => "",
        }
    }
}
