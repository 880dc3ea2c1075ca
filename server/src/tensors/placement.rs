//! Where tensors go, and where graphs run, whose callers name no device.

use std::cmp::Reverse;

use accelerd_kernels::{
    DeviceId,
    ledger::{Kind, Ledger},
};

/// Of the GPUs in use the one with the most free memory for tensors, the first of equal ones; the CPU if there is none.
pub(super) fn default_device(ledger: &Ledger, in_use: impl IntoIterator<Item = DeviceId>) -> DeviceId {
    let gpus = in_use.into_iter().filter(|id| *id != DeviceId::Cpu);
    gpus.min_by_key(|id| Reverse(ledger.account(id.place(), Kind::Tensors).available())).unwrap_or(DeviceId::Cpu)
}

/// The device that holds the most bytes of tensors, so that the fewest are copied; the first of equal ones.
pub(super) fn device_of_most(tensors: impl IntoIterator<Item = (DeviceId, u64)>) -> Option<DeviceId> {
    let mut held: Vec<(DeviceId, u64)> = vec![];
    for (device, bytes) in tensors {
        match held.iter_mut().find(|(other, _)| *other == device) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => held.push((device, bytes)),
        }
    }
    held.into_iter().min_by_key(|(_, bytes)| Reverse(*bytes)).map(|(device, _)| device)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use accelerd_kernels::ledger::{Limit, Place, Reservation};

    use super::*;

    const GPUS: [DeviceId; 3] = [DeviceId::Cuda(0), DeviceId::Cuda(1), DeviceId::Cuda(2)];

    /// Three GPUs of 100 bytes for tensors each.
    fn ledger() -> Arc<Ledger> {
        let ledger = Ledger::new();
        for id in GPUS {
            ledger.cap(id.place(), Kind::Tensors, Limit { bytes: 100, setting: "tensors.gpu_share" });
        }
        ledger
    }

    fn hold(ledger: &Ledger, ordinal: u32, kind: Kind, bytes: u64) -> Reservation {
        ledger.account(Place::Cuda(ordinal), kind).reserve(bytes).expect("it fits")
    }

    /// The default device of a daemon with a CPU.
    fn placed(ledger: &Ledger, gpus: &[DeviceId]) -> DeviceId {
        default_device(ledger, gpus.iter().copied().chain([DeviceId::Cpu]))
    }

    #[test]
    fn tensors_of_equal_sizes_go_round_the_gpus() {
        let ledger = ledger();
        let mut held = vec![];
        for expected in [0, 1, 2, 0, 1, 2] {
            assert_eq!(placed(&ledger, &GPUS), DeviceId::Cuda(expected));
            held.push(hold(&ledger, expected, Kind::Tensors, 30));
        }
        drop(held.remove(1));
        assert_eq!(placed(&ledger, &GPUS), DeviceId::Cuda(1), "what is freed is free again");
    }

    #[test]
    fn a_gpu_that_is_not_in_use_gets_none() {
        let ledger = ledger();
        let _held = hold(&ledger, 2, Kind::Tensors, 1);
        assert_eq!(placed(&ledger, &GPUS[1..]), DeviceId::Cuda(1));
        assert_eq!(placed(&ledger, &GPUS[2..]), DeviceId::Cuda(2));
        assert_eq!(placed(&ledger, &[]), DeviceId::Cpu);
    }

    #[test]
    fn a_larger_gpu_is_preferred_and_what_other_kinds_hold_counts() {
        let ledger = ledger();
        ledger.cap(Place::Cuda(2), Kind::Tensors, Limit { bytes: 200, setting: "tensors.gpu_share" });
        assert_eq!(placed(&ledger, &GPUS), DeviceId::Cuda(2));
        ledger.limit(Place::Cuda(2), Limit { bytes: 250, setting: "cuda.pool_limit" });
        let _graphs = hold(&ledger, 2, Kind::Graphs, 151);
        assert_eq!(placed(&ledger, &GPUS), DeviceId::Cuda(0), "99 bytes are left on cuda:2");
    }

    #[test]
    fn a_gpu_without_room_is_taken_if_all_are_full() {
        let ledger = ledger();
        let _held: Vec<_> = (0..3).map(|ordinal| hold(&ledger, ordinal, Kind::Tensors, 100)).collect();
        assert_eq!(placed(&ledger, &GPUS), DeviceId::Cuda(0), "the refusal has its figures");
    }

    #[test]
    fn a_graph_runs_where_most_bytes_are() {
        let [first, second, _] = GPUS;
        assert_eq!(device_of_most([(first, 5), (second, 3), (DeviceId::Cpu, 4), (second, 3)]), Some(second));
        assert_eq!(device_of_most([(second, 0), (first, 0)]), Some(second), "the first of equal ones");
        assert_eq!(device_of_most([]), None);
    }
}
