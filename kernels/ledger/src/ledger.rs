//! The balances of all places, their accounts and reservations, and the callbacks that evict caches.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    balance::{Balance, Exceeded, Limit},
    kind::{Kind, Place},
    sync::{Mutex, lock},
};

/// Evicts about as many bytes as it is asked for, and returns how many it evicted. It is called without a lock of the
/// ledger, by the thread that makes a reservation: it must not wait for locks that are held while memory is reserved.
type Evictor = Arc<dyn Fn(u64) -> u64 + Send + Sync>;

/// Reads how many bytes are held.
type Gauge = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The memory of the process and of its GPUs.
#[derive(Default)]
pub struct Ledger {
    places: RwLock<BTreeMap<Place, Arc<Books>>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("places", &self.read()).finish()
    }
}

/// The balance of one place, and its callbacks.
pub(crate) struct Books {
    balance: Mutex<Balance>,
    evictors: RwLock<Vec<(Kind, Evictor)>>,
    gauges: RwLock<Vec<(Kind, Gauge)>>,
    /// Reads the bytes that the allocator of the place has reserved in total.
    total: RwLock<Option<Gauge>>,
}

impl fmt::Debug for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Books").field("balance", &*lock(&self.balance)).finish_non_exhaustive()
    }
}

/// A snapshot of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceMemory {
    /// The place.
    pub place: Place,
    /// Maximum of `held`; `u64::MAX` means none.
    pub limit: u64,
    /// Bytes held.
    pub held: u64,
    /// The kinds that hold, refused or evicted something.
    pub kinds: Vec<KindMemory>,
    /// Bytes held by each principal that holds any; 0 stands for the daemon and anonymous callers.
    pub principals: Vec<(u64, u64)>,
}

/// A snapshot of one kind in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindMemory {
    /// The kind.
    pub kind: Kind,
    /// Bytes held.
    pub held: u64,
    /// Maximum of `held`; `u64::MAX` means none but the place's.
    pub cap: u64,
    /// Reservations refused since the start.
    pub refused: u64,
    /// Bytes evicted since the start.
    pub evicted: u64,
}

impl Ledger {
    /// A ledger with limits of none.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Sets the limit of a place.
    pub fn limit(&self, place: Place, limit: Limit) {
        lock(&self.books(place).balance).limit = limit;
    }

    /// Caps one kind in a place.
    pub fn cap(&self, place: Place, kind: Kind, cap: Limit) {
        lock(&self.books(place).balance).kind(kind).cap = cap;
    }

    /// Registers a callback that evicts cached data of this kind. It is called with the bytes that are missing, from the
    /// thread that reserves, and returns the bytes that it evicted; their reservations are dropped by then. It must not wait
    /// for a lock that is held while memory is reserved.
    pub fn on_eviction(&self, place: Place, kind: Kind, evict: impl Fn(u64) -> u64 + Send + Sync + 'static) {
        write(&self.books(place).evictors).push((kind, Arc::new(evict)));
    }

    /// Registers a callback that reads the bytes of a kind that are held outside of reservations. It counts in snapshots, and for no
    /// limit: the allocator of the place has its own.
    pub fn observe(&self, place: Place, kind: Kind, read: impl Fn() -> u64 + Send + Sync + 'static) {
        write(&self.books(place).gauges).push((kind, Arc::new(read)));
    }

    /// Registers a callback that reads the bytes that the allocator of a place has reserved. Those that no other kind holds count as
    /// [`Kind::Pool`] in snapshots.
    pub fn observe_total(&self, place: Place, read: impl Fn() -> u64 + Send + Sync + 'static) {
        *write(&self.books(place).total) = Some(Arc::new(read));
    }

    /// The account of a kind in a place.
    pub fn account(&self, place: Place, kind: Kind) -> Account {
        Account { books: self.books(place), kind, principal: 0 }
    }

    /// Evicts caches of a place, for an allocator with its own limit. Returns the bytes evicted.
    pub fn evict(&self, place: Place, bytes: u64) -> u64 {
        let books = self.books(place);
        let mut evicted = 0;
        for kind in Kind::EVICTION {
            for evict in books.evictors(kind) {
                if evicted < bytes {
                    evicted += books.run(kind, &evict, bytes - evicted);
                }
            }
        }
        evicted
    }

    /// The balances of all places.
    pub fn snapshot(&self) -> Vec<PlaceMemory> {
        let places: Vec<_> = self.read().iter().map(|(place, books)| (*place, Arc::clone(books))).collect();
        places.into_iter().map(|(place, books)| books.snapshot(place)).collect()
    }

    fn books(&self, place: Place) -> Arc<Books> {
        if let Some(books) = self.read().get(&place) {
            return Arc::clone(books);
        }
        let mut places = write(&self.places);
        Arc::clone(places.entry(place).or_insert_with(|| Arc::new(Books::new(place))))
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<Place, Arc<Books>>> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write<T>(locked: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    locked.write().unwrap_or_else(PoisonError::into_inner)
}

impl Books {
    fn new(place: Place) -> Self {
        let balance = Mutex::new(Balance::new(place, Limit::NONE));
        Self { balance, evictors: RwLock::default(), gauges: RwLock::default(), total: RwLock::default() }
    }

    /// The callbacks of a kind, so that none is called under a lock.
    fn evictors(&self, kind: Kind) -> Vec<Evictor> {
        let evictors = self.evictors.read().unwrap_or_else(PoisonError::into_inner);
        evictors.iter().filter(|(registered, _)| *registered == kind).map(|(_, evict)| Arc::clone(evict)).collect()
    }

    fn run(&self, kind: Kind, evict: &Evictor, bytes: u64) -> u64 {
        let evicted = evict(bytes);
        lock(&self.balance).kind(kind).evicted += evicted;
        evicted
    }

    /// Adds `bytes`, after an eviction if the place is full.
    fn reserve(&self, principal: u64, kind: Kind, bytes: u64) -> Result<(), Exceeded> {
        // Nothing is always available, even where recorded use exceeds the limit.
        if bytes == 0 {
            return Ok(());
        }
        let (mut refusal, could_fit) = {
            let mut balance = lock(&self.balance);
            match balance.try_add(principal, kind, bytes) {
                Ok(()) => return Ok(()),
                Err(refusal) => (refusal, balance.could_fit(bytes)),
            }
        };
        // Nothing is evicted for a reservation that would not fit afterwards.
        if !refusal.is_cap && could_fit {
            for victim in Kind::EVICTION {
                for evict in self.evictors(victim) {
                    if self.run(victim, &evict, refusal.missing()) == 0 {
                        continue;
                    }
                    match lock(&self.balance).try_add(principal, kind, bytes) {
                        Ok(()) => return Ok(()),
                        Err(still) => refusal = still,
                    }
                }
            }
        }
        lock(&self.balance).kind(kind).refused += 1;
        Err(refusal)
    }

    fn snapshot(&self, place: Place) -> PlaceMemory {
        let gauges = self.gauges.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut observed: Vec<_> = gauges.into_iter().map(|(kind, read)| (kind, read())).collect();
        let total = self.total.read().unwrap_or_else(PoisonError::into_inner).clone();
        let total = total.map_or(0, |read| read());
        let balance = lock(&self.balance).clone();
        let known = balance.held + observed.iter().map(|(_, bytes)| bytes).sum::<u64>();
        observed.push((Kind::Pool, total.saturating_sub(known)));
        let mut memory = PlaceMemory {
            place,
            limit: balance.limit.bytes,
            held: balance.held,
            kinds: vec![],
            principals: balance.principals.into_iter().collect(),
        };
        for kind in Kind::ALL {
            let balance_of_kind = balance.kinds[kind as usize];
            let seen: u64 =
                observed.iter().filter(|(observed_kind, _)| *observed_kind == kind).map(|(_, bytes)| bytes).sum();
            memory.held += seen;
            let held = balance_of_kind.held + seen;
            let cap = balance_of_kind.cap.bytes;
            if held > 0 || cap < u64::MAX || balance_of_kind.refused > 0 || balance_of_kind.evicted > 0 {
                memory.kinds.push(KindMemory {
                    kind,
                    held,
                    cap,
                    refused: balance_of_kind.refused,
                    evicted: balance_of_kind.evicted,
                });
            }
        }
        memory
    }
}

/// Where reservations of one kind and principal are charged.
#[derive(Clone, Debug)]
pub struct Account {
    books: Arc<Books>,
    kind: Kind,
    principal: u64,
}

impl Account {
    /// An account of this kind on the host, of a ledger of its own with this limit.
    pub fn standalone(kind: Kind, limit: Limit) -> Self {
        let ledger = Ledger::new();
        ledger.limit(Place::Host, limit);
        ledger.account(Place::Host, kind)
    }

    /// The same account of another principal.
    #[must_use]
    pub fn of(&self, principal: u64) -> Self {
        Self { principal, ..self.clone() }
    }

    /// Reserves bytes if they are available, evicting caches if need be.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, Exceeded> {
        self.books.reserve(self.principal, self.kind, bytes)?;
        Ok(Reservation { account: self.clone(), bytes })
    }

    /// Reserves free bytes, for a cache: nothing is evicted for them, and `None` does not count as a refusal.
    pub fn reserve_unused(&self, bytes: u64) -> Option<Reservation> {
        let mut reservation = self.empty();
        reservation.try_grow(bytes).then_some(reservation)
    }

    /// A reservation of nothing, to be resized.
    pub fn empty(&self) -> Reservation {
        Reservation { account: self.clone(), bytes: 0 }
    }

    /// Bytes that a reservation finds without an eviction, below both the cap of the kind and the limit of the place.
    pub fn available(&self) -> u64 {
        lock(&self.books.balance).available(self.kind)
    }

    /// Bytes held of this kind by all principals, and the cap.
    pub fn usage(&self) -> (u64, Limit) {
        let mut balance = lock(&self.books.balance);
        let kind = balance.kind(self.kind);
        (kind.held, kind.cap)
    }
}

/// Reserved bytes, returned on drop.
#[derive(Debug)]
pub struct Reservation {
    account: Account,
    bytes: u64,
}

impl Reservation {
    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Grows or shrinks to `bytes`. Growing fails if the difference is not available, and then changes nothing.
    pub fn try_resize(&mut self, bytes: u64) -> Result<(), Exceeded> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.account.books.reserve(self.account.principal, self.account.kind, more)?,
            None => self.subtract(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Grows by `bytes` if they are available without an eviction; returns whether they are. A failure is no refusal.
    pub(crate) fn try_grow(&mut self, bytes: u64) -> bool {
        let Account { books, kind, principal } = &self.account;
        let is_free = lock(&books.balance).try_add(*principal, *kind, bytes).is_ok();
        if is_free {
            self.bytes += bytes;
        }
        is_free
    }

    /// Records actual use, which may exceed the limits because the memory is already allocated.
    pub fn record(&mut self, bytes: u64) {
        Self::record_all([(self, bytes)]);
    }

    /// Records actual use of several reservations of a place in one step: what moves from one to another counts once.
    ///
    /// # Panics
    /// If they are reservations of several places or ledgers.
    pub fn record_all<'a>(uses: impl IntoIterator<Item = (&'a mut Self, u64)>) {
        let mut uses = uses.into_iter().peekable();
        let Some((first, _)) = uses.peek() else { return };
        let books = Arc::clone(&first.account.books);
        let mut balance = lock(&books.balance);
        for (reservation, bytes) in uses {
            let Account { books: its, kind, principal } = &reservation.account;
            assert!(Arc::ptr_eq(its, &books), "reservations of one place");
            match bytes.checked_sub(reservation.bytes) {
                Some(more) => balance.add(*principal, *kind, more),
                None => balance.subtract(*principal, *kind, reservation.bytes - bytes),
            }
            reservation.bytes = bytes;
        }
    }

    fn subtract(&self, bytes: u64) {
        lock(&self.account.books.balance).subtract(self.account.principal, self.account.kind, bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.subtract(self.bytes);
    }
}
