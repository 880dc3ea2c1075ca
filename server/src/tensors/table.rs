//! Resident tensors by handle: their owners, their expiry, and the memory of each owner. It has no clock: `now` is an argument.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use accelerd_kernels::{DeviceId, ops::tensor::ResidentTensor};
use tokio::sync::Notify;

use crate::{auth::refusal::Refusal, error::ApiError};

/// Characters of an unknown handle, which may be of any length, that errors show.
const SHOWN_CHARACTERS: usize = 64;

/// All resident tensors.
#[derive(Debug)]
pub(crate) struct TensorTable {
    max_count: usize,
    table: Mutex<Table>,
    inserted: Notify,
}

#[derive(Debug, Default)]
struct Table {
    slots: HashMap<u128, Slot>,
    owners: HashMap<String, Arc<Usage>>,
    /// Orders tensors by age.
    made: u64,
}

/// A handle that was given out and has neither expired nor been freed.
#[derive(Debug)]
struct Slot {
    owner: String,
    content: Content,
    order: u64,
    ttl: Duration,
    created: Instant,
    used: Instant,
}

#[derive(Debug)]
enum Content {
    Kept(Arc<KeptTensor>),
    /// It was on this device.
    Lost(DeviceId),
}

/// A tensor and its share of its owner's quota. Calls that use it keep it alive.
#[derive(Debug)]
pub(crate) struct KeptTensor {
    pub(crate) tensor: Arc<ResidentTensor>,
    /// Copies have that of their original. Tensors never change, so those of one origin have equal elements.
    origin: u64,
    _quota: Quota,
}

/// Number and memory of the tensors of an owner.
#[derive(Debug, Default)]
struct Usage {
    bytes: AtomicU64,
    count: AtomicUsize,
}

/// A tensor's share of its owner's quota, returned on drop.
#[derive(Debug)]
pub(crate) struct Quota {
    usage: Arc<Usage>,
    bytes: u64,
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.usage.bytes.fetch_sub(self.bytes, Relaxed);
        self.usage.count.fetch_sub(1, Relaxed);
    }
}

/// The quota of resident bytes of an owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResidentLimit {
    /// The quota.
    pub(crate) limit: u64,
    /// Part of it that other objects than tensors hold.
    pub(crate) used_elsewhere: u64,
}

/// A tensor as its owner sees it.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) handle: String,
    pub(crate) kept: Arc<KeptTensor>,
    /// Time since it was made.
    pub(crate) age: Duration,
    /// Time since it was used.
    pub(crate) idle: Duration,
    /// Time until it expires.
    pub(crate) left: Duration,
}

/// Tensors by their origin and device.
#[derive(Debug, Default)]
pub(crate) struct Copies(HashMap<(u64, DeviceId), Listed>);

impl Copies {
    /// One with the elements of a tensor, on a device.
    pub(crate) fn get(&self, of: &KeptTensor, device: DeviceId) -> Option<&Listed> {
        self.0.get(&(of.origin, device))
    }
}

impl Slot {
    fn has_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) >= self.ttl
    }

    fn listed(&self, handle: u128, kept: &Arc<KeptTensor>, now: Instant) -> Listed {
        let idle = now.saturating_duration_since(self.used);
        Listed {
            handle: format!("{handle:032x}"),
            kept: Arc::clone(kept),
            age: now.saturating_duration_since(self.created),
            idle,
            left: self.ttl.saturating_sub(idle),
        }
    }

    /// Drops the tensor if its device is lost; returns it, to be dropped without a lock.
    fn lose(&mut self, is_lost: impl Fn(DeviceId) -> bool) -> Option<Content> {
        match &self.content {
            Content::Kept(kept) if is_lost(kept.tensor.device()) => {
                let device = kept.tensor.device();
                Some(std::mem::replace(&mut self.content, Content::Lost(device)))
            }
            Content::Kept(_) | Content::Lost(_) => None,
        }
    }
}

impl TensorTable {
    /// No tensors; each owner may have at most `max_count`.
    pub(crate) fn new(max_count: usize) -> Self {
        Self { max_count, table: Mutex::default(), inserted: Notify::new() }
    }

    /// Takes the quota of new tensors of these sizes: of all, or of none.
    pub(crate) fn reserve(
        &self,
        owner: &str,
        sizes: &[u64],
        quota: Option<ResidentLimit>,
    ) -> Result<Vec<Quota>, Refusal> {
        let usage = Arc::clone(self.lock().owners.entry(owner.to_owned()).or_default());
        let count = |used: usize| used.checked_add(sizes.len()).filter(|sum| *sum <= self.max_count);
        usage.count.fetch_update(Relaxed, Relaxed, count).map_err(|used| Refusal::TensorCount {
            used,
            limit: self.max_count,
            asked: sizes.len(),
        })?;
        // Each share returns its count on drop, also if the bytes are refused.
        let mut shares: Vec<_> = sizes.iter().map(|_| Quota { usage: Arc::clone(&usage), bytes: 0 }).collect();
        let asked = sizes.iter().try_fold(0, |sum: u64, bytes| sum.checked_add(*bytes));
        let ResidentLimit { limit, used_elsewhere } =
            quota.unwrap_or(ResidentLimit { limit: u64::MAX, used_elsewhere: 0 });
        let bytes = |used: u64| {
            let sum = used.checked_add(asked?)?;
            (sum.saturating_add(used_elsewhere) <= limit).then_some(sum)
        };
        usage.bytes.fetch_update(Relaxed, Relaxed, bytes).map_err(|used| {
            let used = used.saturating_add(used_elsewhere);
            Refusal::ResidentBytes { used, limit, asked: asked.unwrap_or(u64::MAX) }
        })?;
        for (share, bytes) in shares.iter_mut().zip(sizes) {
            share.bytes = *bytes;
        }
        Ok(shares)
    }

    /// Gives a tensor a handle. `original` is the tensor that it is a copy of, if it is one.
    pub(crate) fn insert(
        &self,
        owner: &str,
        tensor: Arc<ResidentTensor>,
        original: Option<&KeptTensor>,
        quota: Quota,
        ttl: Duration,
        now: Instant,
    ) -> Listed {
        // Of 128 random bits, by a generator that is seeded by the operating system and cannot be predicted.
        let handle = rand::random();
        let mut table = self.lock();
        table.made += 1;
        let origin = original.map_or(table.made, |original| original.origin);
        let kept = Arc::new(KeptTensor { tensor, origin, _quota: quota });
        let slot = Slot {
            owner: owner.to_owned(),
            content: Content::Kept(Arc::clone(&kept)),
            order: table.made,
            ttl,
            created: now,
            used: now,
        };
        let listed = slot.listed(handle, &kept, now);
        table.slots.insert(handle, slot);
        self.inserted.notify_one();
        listed
    }

    /// A tensor of an owner; its time to live starts again.
    pub(crate) fn get(
        &self,
        owner: &str,
        handle: &str,
        now: Instant,
        is_lost: impl Fn(DeviceId) -> bool,
    ) -> Result<Listed, ApiError> {
        let mut table = self.lock();
        let (key, slot) = table.find(owner, handle, now)?;
        let lost = slot.lose(is_lost);
        let found = match &slot.content {
            Content::Kept(kept) => {
                slot.used = now;
                Ok(slot.listed(key, kept, now))
            }
            Content::Lost(device) => Err(ApiError::TensorLost { handle: handle.to_owned(), device: *device }),
        };
        drop(table);
        drop(lost);
        found
    }

    /// The tensors of an owner on these devices that have the elements of others, being their originals, their copies or themselves.
    /// Their times to live start again.
    pub(crate) fn copies<'a>(
        &self,
        owner: &str,
        of: impl IntoIterator<Item = &'a KeptTensor>,
        devices: &[DeviceId],
        now: Instant,
    ) -> Copies {
        let origins: HashSet<_> = of.into_iter().map(|kept| kept.origin).collect();
        let mut table = self.lock();
        let own = table.slots.iter_mut().filter(|(_, slot)| slot.owner == owner && !slot.has_expired(now));
        let mut listed: Vec<_> = own
            .filter_map(|(handle, slot)| match &slot.content {
                Content::Kept(kept) if origins.contains(&kept.origin) && devices.contains(&kept.tensor.device()) => {
                    slot.used = now;
                    Some((slot.order, slot.listed(*handle, kept, now)))
                }
                Content::Kept(_) | Content::Lost(_) => None,
            })
            .collect();
        drop(table);
        // Of several on a device the oldest, which is inserted last.
        listed.sort_unstable_by_key(|(order, _)| Reverse(*order));
        let key = |listed: &Listed| (listed.kept.origin, listed.kept.tensor.device());
        Copies(listed.into_iter().map(|(_, listed)| (key(&listed), listed)).collect())
    }

    /// Frees tensors of an owner: all of them, or none. Lost ones are freed without an error.
    pub(crate) fn free(&self, owner: &str, handles: &[String], now: Instant) -> Result<(), ApiError> {
        let mut table = self.lock();
        let keys = handles.iter().map(|handle| table.find(owner, handle, now).map(|(key, _)| key));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let freed: Vec<_> = keys.iter().filter_map(|key| table.slots.remove(key)).collect();
        drop(table);
        // Memory is freed without the lock.
        drop(freed);
        Ok(())
    }

    /// The tensors of an owner, oldest first.
    pub(crate) fn list(&self, owner: &str, now: Instant, is_lost: impl Fn(DeviceId) -> bool) -> Vec<Listed> {
        let table = self.lock();
        let own = table.slots.iter().filter(|(_, slot)| slot.owner == owner && !slot.has_expired(now));
        let mut listed: Vec<_> = own
            .filter_map(|(handle, slot)| match &slot.content {
                Content::Kept(kept) if !is_lost(kept.tensor.device()) => {
                    Some((slot.order, slot.listed(*handle, kept, now)))
                }
                Content::Kept(_) | Content::Lost(_) => None,
            })
            .collect();
        drop(table);
        listed.sort_unstable_by_key(|(order, _)| *order);
        listed.into_iter().map(|(_, one)| one).collect()
    }

    /// Frees expired tensors, and the tensors of lost devices, whose handles stay known until they expire.
    pub(crate) fn sweep(&self, now: Instant, is_lost: impl Fn(DeviceId) -> bool) {
        let mut table = self.lock();
        let expired: Vec<_> = table.slots.extract_if(|_, slot| slot.has_expired(now)).collect();
        let lost: Vec<_> = table.slots.values_mut().filter_map(|slot| slot.lose(&is_lost)).collect();
        drop(table);
        drop((expired, lost));
    }

    /// Waits until there is a tensor that may expire or be lost. One task at a time may wait.
    pub(crate) async fn filled(&self) {
        while self.lock().slots.is_empty() {
            self.inserted.notified().await;
        }
    }

    /// Bytes of an owner's tensors.
    pub(crate) fn owned_bytes(&self, owner: &str) -> u64 {
        self.lock().owners.get(owner).map_or(0, |usage| usage.bytes.load(Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The slot of a handle. Unknown, expired and foreign handles are told apart by nobody.
    fn find(&mut self, owner: &str, handle: &str, now: Instant) -> Result<(u128, &mut Slot), ApiError> {
        let unknown = || ApiError::UnknownTensor(handle.chars().take(SHOWN_CHARACTERS).collect());
        let key = parse(handle).ok_or_else(unknown)?;
        let slot = self.slots.get_mut(&key).filter(|slot| slot.owner == owner && !slot.has_expired(now));
        slot.map(|slot| (key, slot)).ok_or_else(unknown)
    }
}

/// 32 lower-case hexadecimal digits.
fn parse(handle: &str) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_handle = handle.len() == 32 && handle.bytes().all(is_digit);
    is_handle.then(|| u128::from_str_radix(handle, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use accelerd_kernels::{
        ledger::{Kind, Ledger, Place},
        ops::tensor::{HostUpload, TensorAccount},
    };
    use accelerd_tensor::{Dtype, TensorType};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    struct Fixture {
        tensors: TensorTable,
        ledger: Arc<Ledger>,
        start: Instant,
    }

    impl Fixture {
        fn new() -> Self {
            Self { tensors: TensorTable::new(3), ledger: Ledger::new(), start: Instant::now() }
        }

        /// A tensor of 8 bytes.
        fn keep(&self, owner: &str, ttl: Duration) -> String {
            let of = TensorType { dtype: Dtype::F32, shape: vec![2] };
            let upload = HostUpload::new(of, &TensorAccount::new(&self.ledger, 1)).expect("no limit");
            let quota = self.tensors.reserve(owner, &[8], None).expect("at most three").remove(0);
            self.tensors.insert(owner, Arc::new(upload.finish()), None, quota, ttl, self.start).handle
        }

        fn get(&self, owner: &str, handle: &str, after: Duration) -> Result<Listed, ApiError> {
            self.tensors.get(owner, handle, self.start + after, |_| false)
        }

        fn held(&self) -> u64 {
            self.ledger.account(Place::Host, Kind::Tensors).usage().0
        }
    }

    #[test]
    fn the_time_to_live_starts_again_with_each_use() {
        let fixture = Fixture::new();
        let handle = fixture.keep("a", HOUR);
        for hours in [0.9_f64, 1.8, 2.7] {
            fixture.get("a", &handle, HOUR.mul_f64(hours)).expect("used in time");
        }
        let listed = fixture.tensors.list("a", fixture.start + HOUR * 3, |_| false);
        assert_eq!((listed[0].age, listed[0].left), (HOUR * 3, HOUR.mul_f64(0.7)));
        assert!(matches!(fixture.get("a", &handle, HOUR.mul_f64(3.7)), Err(ApiError::UnknownTensor(_))));
        assert!(fixture.tensors.list("a", fixture.start + HOUR * 4, |_| false).is_empty());
    }

    #[test]
    fn an_expired_tensor_is_freed_once_no_call_uses_it() {
        let fixture = Fixture::new();
        let handle = fixture.keep("a", HOUR);
        let user = fixture.get("a", &handle, Duration::ZERO).expect("it is there");
        fixture.tensors.sweep(fixture.start + HOUR / 2, |_| false);
        assert_eq!((fixture.held(), fixture.tensors.owned_bytes("a")), (8, 8));
        fixture.tensors.sweep(fixture.start + HOUR, |_| false);
        assert_eq!((fixture.held(), fixture.tensors.owned_bytes("a")), (8, 8), "still in use");
        drop(user);
        assert_eq!((fixture.held(), fixture.tensors.owned_bytes("a")), (0, 0));
    }

    #[test]
    fn foreign_expired_and_unknown_handles_have_one_error() {
        let fixture = Fixture::new();
        let own = fixture.keep("a", HOUR);
        let expired = fixture.keep("b", Duration::ZERO);
        let unknown = "0123456789abcdef0123456789abcdef".to_owned();
        for handle in [own.clone(), expired, unknown, own.to_uppercase(), String::new(), format!("+{}", &own[1..])] {
            let refused = fixture.get("b", &handle, Duration::ZERO).expect_err("not a tensor of b");
            assert_eq!(refused.to_string(), ApiError::UnknownTensor(handle.clone()).to_string());
            let refused =
                fixture.tensors.free("b", std::slice::from_ref(&handle), fixture.start).expect_err("nor here");
            assert_eq!(refused.to_string(), ApiError::UnknownTensor(handle).to_string());
        }
        assert!(fixture.tensors.list("b", fixture.start, |_| false).is_empty());
        fixture.get("a", &own, Duration::ZERO).expect("its owner still has it");
    }

    #[test]
    fn freeing_frees_all_or_none() {
        let fixture = Fixture::new();
        let first = fixture.keep("a", HOUR);
        let second = fixture.keep("a", HOUR);
        let with_unknown = [first.clone(), "unknown".to_owned()];
        assert!(fixture.tensors.free("a", &with_unknown, fixture.start).is_err());
        assert_eq!(fixture.held(), 16);
        fixture.tensors.free("a", &[first.clone(), second, first], fixture.start).expect("a handle may be named twice");
        assert_eq!((fixture.held(), fixture.tensors.owned_bytes("a")), (0, 0));
    }

    #[test]
    fn the_loss_of_its_device_frees_a_tensor_and_is_told_to_its_owner_alone() {
        let fixture = Fixture::new();
        let used = fixture.keep("a", HOUR);
        let swept = fixture.keep("a", HOUR);
        let lost = |owner: &str, handle: &str| fixture.tensors.get(owner, handle, fixture.start, |_| true);
        assert!(matches!(lost("a", &used), Err(ApiError::TensorLost { .. })));
        assert!(matches!(lost("b", &used), Err(ApiError::UnknownTensor(_))));
        assert!(fixture.tensors.list("a", fixture.start, |_| true).is_empty());
        fixture.tensors.sweep(fixture.start, |_| true);
        assert_eq!((fixture.held(), fixture.tensors.owned_bytes("a")), (0, 0));
        assert!(matches!(lost("a", &swept), Err(ApiError::TensorLost { .. })));
        fixture.tensors.free("a", std::slice::from_ref(&swept), fixture.start).expect("a lost tensor can be freed");
        assert!(matches!(lost("a", &swept), Err(ApiError::UnknownTensor(_))));
    }

    #[test]
    fn copies_are_found_by_what_they_are_copies_of() {
        let fixture = Fixture::new();
        let of = TensorType { dtype: Dtype::F32, shape: vec![2] };
        let original = fixture.get("a", &fixture.keep("a", HOUR), Duration::ZERO).expect("it is there");
        let unrelated = fixture.get("a", &fixture.keep("a", HOUR), Duration::ZERO).expect("it is there");
        let upload = HostUpload::new(of, &TensorAccount::new(&fixture.ledger, 1)).expect("no limit");
        let quota = fixture.tensors.reserve("a", &[8], None).expect("at most three").remove(0);
        let tensor = Arc::new(upload.finish());
        let start = fixture.start;
        let copy = fixture.tensors.insert("a", tensor, Some(&original.kept), quota, HOUR, start);
        let found = |owner: &str, of: &Listed, device| {
            let copies = fixture.tensors.copies(owner, [&*of.kept], &[device], start + HOUR / 2);
            copies.get(&of.kept, device).map(|listed| listed.handle.clone())
        };
        assert_eq!(found("a", &unrelated, DeviceId::Cpu), Some(unrelated.handle.clone()));
        assert_eq!(found("a", &copy, DeviceId::Cpu), Some(original.handle.clone()), "the oldest of both");
        assert_eq!((found("a", &original, DeviceId::Cuda(0)), found("b", &original, DeviceId::Cpu)), (None, None));
        fixture.tensors.free("a", std::slice::from_ref(&original.handle), start).expect("it is there");
        assert_eq!(found("a", &original, DeviceId::Cpu), Some(copy.handle.clone()), "the copy outlives its original");
        fixture.get("a", &copy.handle, HOUR * 5 / 4).expect("it was used after half an hour");
    }

    #[test]
    fn quotas_of_count_and_bytes_are_refused_with_the_figures_and_take_nothing() {
        let tensors = TensorTable::new(3);
        let quota = Some(ResidentLimit { limit: 100, used_elsewhere: 40 });
        let held = tensors.reserve("a", &[10, 20], quota).expect("70 of 100");
        let refused = tensors.reserve("a", &[31], quota).expect_err("101 of 100");
        assert_eq!(refused, Refusal::ResidentBytes { used: 70, limit: 100, asked: 31 });
        let refused = tensors.reserve("a", &[1, 1], quota).expect_err("four of three");
        assert_eq!(refused, Refusal::TensorCount { used: 2, limit: 3, asked: 2 });
        assert!(tensors.reserve("c", &[u64::MAX, 1], None).is_err(), "more than can be counted");
        tensors.reserve("b", &[60], quota).expect("another owner has its own quota");
        tensors.reserve("a", &[30], quota).expect("refusals took nothing");
        drop(held);
        assert_eq!(tensors.owned_bytes("a"), 0);
    }
}
