//! The balance of one place: plain numbers, without locks or callbacks.

use std::{collections::BTreeMap, fmt};

use crate::kind::{Kind, Place};

/// A maximum, and the setting that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes; `u64::MAX` means no limit.
    pub bytes: u64,
    /// Named in refusals.
    pub setting: &'static str,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self { bytes: u64::MAX, setting: "" };
}

/// Why a reservation was refused, with the figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Exceeded {
    /// Where memory was asked for.
    pub place: Place,
    /// The kind of memory.
    pub kind: Kind,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes held under the limit that would be exceeded.
    pub held: u64,
    /// That limit in bytes.
    pub limit: u64,
    /// The setting of that limit.
    pub setting: &'static str,
    /// True if the limit is that of the kind, rather than that of the place.
    pub is_cap: bool,
    /// Bytes held in the place by each kind that holds any.
    pub by_kind: Vec<(Kind, u64)>,
}

impl Exceeded {
    /// Returns true if the memory returns as soon as calls end.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, Kind::Messages | Kind::Requests)
    }

    /// Bytes that must be returned before the reservation fits.
    pub fn missing(&self) -> u64 {
        self.held.saturating_add(self.asked).saturating_sub(self.limit)
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, asked, held, limit, setting, .. } = self;
        write!(f, "memory limit reached ({setting}): {held} of {limit} bytes in use")?;
        if !self.is_cap {
            let kinds: Vec<_> = self.by_kind.iter().map(|(kind, held)| format!("{kind} {held}")).collect();
            write!(f, " in {place} memory ({})", kinds.join(", "))?;
        }
        write!(f, ", the request needs {asked} more")
    }
}

/// The balance of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindBalance {
    pub(crate) held: u64,
    pub(crate) cap: Limit,
    /// Reservations refused since the start.
    pub(crate) refused: u64,
    /// Bytes evicted since the start.
    pub(crate) evicted: u64,
}

/// The balance of one place.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    place: Place,
    pub(crate) limit: Limit,
    pub(crate) held: u64,
    pub(crate) kinds: [KindBalance; Kind::ALL.len()],
    /// Bytes by principal; those that hold nothing are absent.
    pub(crate) principals: BTreeMap<u64, u64>,
}

impl Balance {
    pub(crate) fn new(place: Place, limit: Limit) -> Self {
        let none = KindBalance { held: 0, cap: Limit::NONE, refused: 0, evicted: 0 };
        Self { place, limit, held: 0, kinds: [none; Kind::ALL.len()], principals: BTreeMap::new() }
    }

    pub(crate) fn kind(&mut self, kind: Kind) -> &mut KindBalance {
        &mut self.kinds[kind as usize]
    }

    /// Adds `bytes` if neither the cap of the kind nor the limit of the place is exceeded.
    pub(crate) fn try_add(&mut self, principal: u64, kind: Kind, bytes: u64) -> Result<(), Exceeded> {
        let KindBalance { held, cap, .. } = self.kinds[kind as usize];
        let fits = |held: u64, limit: u64| held.checked_add(bytes).is_some_and(|sum| sum <= limit);
        if !fits(held, cap.bytes) {
            return Err(self.exceeded(kind, bytes, held, cap, true));
        }
        if !fits(self.held, self.limit.bytes) {
            return Err(self.exceeded(kind, bytes, self.held, self.limit, false));
        }
        self.add(principal, kind, bytes);
        Ok(())
    }

    /// The most bytes that [`Self::try_add`] adds.
    pub(crate) fn available(&self, kind: Kind) -> u64 {
        let KindBalance { held, cap, .. } = self.kinds[kind as usize];
        cap.bytes.saturating_sub(held).min(self.limit.bytes.saturating_sub(self.held))
    }

    /// Adds `bytes` that are in use already, whatever the limits.
    pub(crate) fn add(&mut self, principal: u64, kind: Kind, bytes: u64) {
        if bytes > 0 {
            self.held += bytes;
            self.kind(kind).held += bytes;
            *self.principals.entry(principal).or_default() += bytes;
        }
    }

    pub(crate) fn subtract(&mut self, principal: u64, kind: Kind, bytes: u64) {
        self.held -= bytes;
        self.kind(kind).held -= bytes;
        if let Some(held) = self.principals.get_mut(&principal) {
            *held -= bytes;
            if *held == 0 {
                self.principals.remove(&principal);
            }
        }
    }

    /// Returns true if the reservation could fit if everything that is ever evicted were.
    pub(crate) fn could_fit(&self, bytes: u64) -> bool {
        let stays = Kind::ALL.iter().filter(|kind| !Kind::EVICTION.contains(kind));
        let held: u64 = stays.map(|kind| self.kinds[*kind as usize].held).sum();
        held.checked_add(bytes).is_some_and(|sum| sum <= self.limit.bytes)
    }

    fn exceeded(&self, kind: Kind, asked: u64, held: u64, limit: Limit, is_cap: bool) -> Exceeded {
        let each = Kind::ALL.iter().map(|kind| (*kind, self.kinds[*kind as usize].held));
        let by_kind = each.filter(|(_, held)| *held > 0).collect();
        let Limit { bytes: limit, setting } = limit;
        Exceeded { place: self.place, kind, asked, held, limit, setting, is_cap, by_kind }
    }
}
