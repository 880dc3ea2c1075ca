//! Places of memory, and the kinds of its use.

use std::fmt;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Memory of the process.
    Host,
    /// Memory of an NVIDIA GPU, by ordinal.
    Cuda(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// The purpose of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Connections, request messages and responses.
    Messages,
    /// Admitted requests and their results.
    Requests,
    /// Vectors, ids, payloads and text indexes of collections.
    Collections,
    /// Working memory of writers and readers of collections: checkpoints, snapshots, recovery, commits of text indexes.
    Writers,
    /// Indexes of filters and sort orders of collections, which are built again when a request needs them.
    Indexes,
    /// Weights of models on the host, as their files hold them.
    Models,
    /// Copies that are made again when needed: on the host the CPU's copies of weights, on a GPU copies of collections.
    Copies,
    /// Pinned host memory for transfers.
    Pinned,
    /// Captured CUDA graphs.
    Graphs,
    /// Memory that a GPU's pool has reserved for anything else: weights, activations, blocks that are free.
    Pool,
    /// Resident tensors.
    Tensors,
    /// Child processes that run code of clients, and compiled kernels.
    Sandbox,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Messages,
        Self::Requests,
        Self::Collections,
        Self::Writers,
        Self::Indexes,
        Self::Models,
        Self::Copies,
        Self::Pinned,
        Self::Graphs,
        Self::Pool,
        Self::Tensors,
        Self::Sandbox,
    ];

    /// The kinds that are evicted, in this order: first the unused bytes of allowances, then the data that is cheapest to recreate.
    /// Child processes are evicted while no call uses them. Collections, tensors and pinned memory are never evicted.
    pub const EVICTION: [Self; 7] =
        [Self::Messages, Self::Requests, Self::Sandbox, Self::Graphs, Self::Indexes, Self::Copies, Self::Models];

    /// The label in metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Requests => "requests",
            Self::Collections => "collections",
            Self::Writers => "writers",
            Self::Indexes => "indexes",
            Self::Models => "models",
            Self::Copies => "copies",
            Self::Pinned => "pinned",
            Self::Graphs => "graphs",
            Self::Pool => "pool",
            Self::Tensors => "tensors",
            Self::Sandbox => "sandbox",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
