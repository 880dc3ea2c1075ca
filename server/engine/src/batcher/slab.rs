//! Queued entries in reusable slots, each linked into two lists: by arrival, and by flow.
//!
//! The lists are intrusive: removing an entry from the middle of both costs four writes, and a caller that submits and cancels
//! for ever leaves no garbage.

/// Identifies a queued entry; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryId {
    /// Counts arrivals.
    sequence: u64,
    slot: usize,
}

/// One of an entry's two lists.
#[derive(Clone, Copy)]
pub(super) enum Chain {
    /// All entries, by arrival.
    Arrival,
    /// The entries of one key, priority and principal, by arrival.
    Flow,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    head: Option<usize>,
    tail: Option<usize>,
}

impl List {
    pub(super) fn is_empty(self) -> bool {
        self.head.is_none()
    }
}

#[derive(Clone, Copy, Default)]
struct Link {
    previous: Option<usize>,
    next: Option<usize>,
}

struct Slot<T> {
    sequence: u64,
    links: [Link; 2],
    value: T,
}

pub(super) struct Slab<T> {
    slots: Vec<Option<Slot<T>>>,
    free: Vec<usize>,
    next_sequence: u64,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: vec![], free: vec![], next_sequence: 0 }
    }
}

impl<T> Slab<T> {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Stores a value, which is in no list yet.
    pub(super) fn insert(&mut self, value: T) -> EntryId {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let filled = Some(Slot { sequence, links: [Link::default(); 2], value });
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot] = filled;
            slot
        } else {
            self.slots.push(filled);
            self.slots.len() - 1
        };
        EntryId { sequence, slot }
    }

    /// The value, while it is queued.
    pub(super) fn get(&self, id: EntryId) -> Option<&T> {
        let slot = self.slots.get(id.slot)?.as_ref()?;
        (slot.sequence == id.sequence).then_some(&slot.value)
    }

    /// Removes a value, which must be unlinked from its lists.
    pub(super) fn remove(&mut self, id: EntryId) -> Option<T> {
        self.get(id)?;
        self.free.push(id.slot);
        self.slots[id.slot].take().map(|slot| slot.value)
    }

    pub(super) fn head(&self, list: List) -> Option<EntryId> {
        list.head.map(|slot| self.id(slot))
    }

    pub(super) fn next(&self, id: EntryId, chain: Chain) -> Option<EntryId> {
        self.slot(id.slot).links[chain as usize].next.map(|slot| self.id(slot))
    }

    pub(super) fn append(&mut self, list: &mut List, id: EntryId, chain: Chain) {
        let previous = list.tail.replace(id.slot);
        self.slot_mut(id.slot).links[chain as usize] = Link { previous, next: None };
        match previous {
            Some(previous) => self.slot_mut(previous).links[chain as usize].next = Some(id.slot),
            None => list.head = Some(id.slot),
        }
    }

    pub(super) fn unlink(&mut self, list: &mut List, id: EntryId, chain: Chain) {
        let Link { previous, next } = std::mem::take(&mut self.slot_mut(id.slot).links[chain as usize]);
        match previous {
            Some(previous) => self.slot_mut(previous).links[chain as usize].next = next,
            None => list.head = next,
        }
        match next {
            Some(next) => self.slot_mut(next).links[chain as usize].previous = previous,
            None => list.tail = previous,
        }
    }

    fn id(&self, slot: usize) -> EntryId {
        EntryId { sequence: self.slot(slot).sequence, slot }
    }

    fn slot(&self, slot: usize) -> &Slot<T> {
        self.slots[slot].as_ref().expect("lists refer to filled slots only")
    }

    fn slot_mut(&mut self, slot: usize) -> &mut Slot<T> {
        self.slots[slot].as_mut().expect("lists refer to filled slots only")
    }
}
