//! An LRU cache of recorded graphs, by owner and key.

use std::{
    any::Any,
    rc::Rc,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Key of a graph among those of its owner.
pub(crate) type Shape = [u32; 4];

/// Maximum number of graphs, their bytes, and of shapes remembered.
const MOST_GRAPHS: usize = 128;
const DEFAULT_BYTES: usize = 512 << 20;
const MOST_SHAPES: usize = 256;

/// Result of a lookup.
#[derive(Debug)]
pub(crate) enum GraphLookup<G> {
    /// A miss: the shape was not seen lately.
    Nothing,
    /// The shape was seen before: it may be worth a graph.
    Seen,
    /// The shape cannot be captured.
    Refused,
    /// A hit.
    Graph(Rc<G>),
}

/// An LRU cache of graphs by owner and shape.
#[derive(Debug)]
pub(crate) struct GraphCache<G> {
    /// Least recently used first.
    entries: Vec<Entry<G>>,
    most_bytes: usize,
    /// The bytes of the graphs of this and other caches.
    counter: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Entry<G> {
    owner: Weak<dyn Any + Send + Sync>,
    shape: Shape,
    bytes: Counted,
    known: GraphLookup<G>,
}

/// Bytes in a counter, subtracted on drop.
#[derive(Debug)]
struct Counted {
    counter: Arc<AtomicU64>,
    bytes: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes as u64, Relaxed);
    }
}

impl<G> Default for GraphCache<G> {
    fn default() -> Self {
        Self::counted_by(Arc::default())
    }
}

impl<G> GraphCache<G> {
    /// A cache that adds the bytes of its graphs to `counter`.
    pub(super) fn counted_by(counter: Arc<AtomicU64>) -> Self {
        Self { entries: vec![], most_bytes: DEFAULT_BYTES, counter }
    }

    /// Maximum bytes of all graphs.
    pub(crate) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Sets the maximum, evicts down to it, and forgets refusals.
    pub(super) fn limit(&mut self, bytes: usize) {
        self.most_bytes = bytes;
        self.entries.retain(|entry| !matches!(entry.known, GraphLookup::Refused));
        self.evict();
    }

    /// Looks a shape up and marks it seen.
    pub(crate) fn look<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, shape: Shape) -> GraphLookup<G> {
        let Some(entry) = self.take(owner, shape) else {
            self.put(owner, shape, 0, GraphLookup::Seen);
            return GraphLookup::Nothing;
        };
        let known = match &entry.known {
            GraphLookup::Nothing | GraphLookup::Seen => GraphLookup::Seen,
            GraphLookup::Refused => GraphLookup::Refused,
            GraphLookup::Graph(graph) => GraphLookup::Graph(Rc::clone(graph)),
        };
        self.entries.push(entry);
        known
    }

    /// Inserts a graph of `bytes`, unless it alone exceeds the maximum.
    pub(crate) fn keep<T: Any + Send + Sync>(
        &mut self,
        owner: &Arc<T>,
        shape: Shape,
        bytes: usize,
        graph: G,
    ) -> Option<Rc<G>> {
        if bytes > self.most_bytes {
            self.refuse(owner, shape);
            return None;
        }
        let graph = Rc::new(graph);
        self.take(owner, shape);
        self.put(owner, shape, bytes, GraphLookup::Graph(Rc::clone(&graph)));
        Some(graph)
    }

    /// Remembers that a shape cannot be captured.
    pub(crate) fn refuse<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, shape: Shape) {
        self.take(owner, shape);
        self.put(owner, shape, 0, GraphLookup::Refused);
    }

    /// Drops the graphs whose owners are dropped.
    pub(crate) fn sweep(&mut self) {
        self.entries.retain(|entry| entry.owner.strong_count() > 0);
    }

    /// Drops all graphs; returns whether there were any.
    pub(crate) fn clear(&mut self) -> bool {
        let some = self.graphs() > 0;
        self.entries.retain(|entry| matches!(entry.known, GraphLookup::Refused));
        some
    }

    fn take<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, shape: Shape) -> Option<Entry<G>> {
        let same = |entry: &Entry<G>| entry.shape == shape && entry.owner.as_ptr().addr() == Arc::as_ptr(owner).addr();
        self.entries.iter().rposition(same).map(|index| self.entries.remove(index))
    }

    fn put<T: Any + Send + Sync>(&mut self, owner: &Arc<T>, shape: Shape, bytes: usize, known: GraphLookup<G>) {
        let owner = Arc::downgrade(owner);
        self.counter.fetch_add(bytes as u64, Relaxed);
        let bytes = Counted { counter: Arc::clone(&self.counter), bytes };
        self.entries.push(Entry { owner, shape, bytes, known });
        while self.entries.len() > MOST_SHAPES {
            self.entries.remove(0);
        }
        self.evict();
    }

    fn evict(&mut self) {
        while self.graphs() > MOST_GRAPHS || self.bytes() > self.most_bytes {
            let oldest = self.entries.iter().position(|entry| matches!(entry.known, GraphLookup::Graph(_)));
            let Some(oldest) = oldest else { return };
            self.entries.remove(oldest);
        }
    }

    /// Number of graphs.
    pub(super) fn graphs(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.known, GraphLookup::Graph(_))).count()
    }

    fn bytes(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| matches!(entry.known, GraphLookup::Graph(_)))
            .map(|entry| entry.bytes.bytes)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<G>(graphs: &mut GraphCache<G>, owner: &Arc<u8>, shape: u32) -> &'static str {
        match graphs.look(owner, [shape; 4]) {
            GraphLookup::Nothing => "nothing",
            GraphLookup::Seen => "seen",
            GraphLookup::Refused => "refused",
            GraphLookup::Graph(_) => "graph",
        }
    }

    #[test]
    fn a_shape_is_seen_once_then_kept_or_refused() {
        let mut graphs = GraphCache::default();
        let owner = Arc::new(1);
        let other = Arc::new(1);
        assert_eq!(known(&mut graphs, &owner, 1), "nothing");
        assert_eq!(known(&mut graphs, &owner, 1), "seen");
        assert!(graphs.keep(&owner, [1; 4], 10, ()).is_some());
        graphs.refuse(&owner, [2; 4]);
        assert!(graphs.keep(&owner, [3; 4], DEFAULT_BYTES + 1, ()).is_none());
        assert_eq!([1, 2, 3].map(|shape| known(&mut graphs, &owner, shape)), ["graph", "refused", "refused"]);
        assert_eq!(known(&mut graphs, &other, 1), "nothing", "another owner has graphs of its own");
        assert!(graphs.clear() && !graphs.clear());
        assert_eq!([1, 2].map(|shape| known(&mut graphs, &owner, shape)), ["nothing", "refused"]);
    }

    #[test]
    fn least_recently_used_graphs_are_evicted_and_those_without_owner_dropped() {
        let mut graphs = GraphCache::default();
        let owner = Arc::new(1);
        let count = u32::try_from(MOST_GRAPHS).expect("few");
        for shape in 0..count {
            assert!(graphs.keep(&owner, [shape; 4], 1, ()).is_some());
        }
        assert_eq!(known(&mut graphs, &owner, 0), "graph");
        assert!(graphs.keep(&owner, [count; 4], 1, ()).is_some());
        assert_eq!([0, 1, 2].map(|shape| known(&mut graphs, &owner, shape)), ["graph", "nothing", "graph"]);
        let whole = graphs.keep(&owner, [count + 1; 4], DEFAULT_BYTES, ()).expect("not too large");
        assert_eq!((graphs.graphs(), graphs.bytes()), (1, DEFAULT_BYTES), "it leaves no room for others");
        assert_eq!(graphs.counter.load(Relaxed), DEFAULT_BYTES as u64);
        drop(owner);
        graphs.sweep();
        assert_eq!(graphs.counter.load(Relaxed), 0);
        assert_eq!((Rc::strong_count(&whole), graphs.entries.len()), (1, 0));
    }

    #[test]
    fn shapes_that_are_remembered_are_bounded() {
        let mut graphs = GraphCache::<()>::default();
        let owner = Arc::new(1);
        for shape in 0..2000 {
            known(&mut graphs, &owner, shape);
        }
        assert_eq!(graphs.entries.len(), MOST_SHAPES);
        assert_eq!(known(&mut graphs, &owner, 1999), "seen");
    }
}
