//! Devices that go out of service: why, and which others go with them.

use std::fmt;

use accelerd_kernels::{DeviceId, LossScope, OpError};

/// A device that is out of service for the rest of the process's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLoss {
    /// The device.
    pub device: DeviceId,
    /// Why it is out of service.
    pub cause: LossCause,
    /// The lane whose launch found it lost, or hung.
    pub lane: &'static str,
    /// The error: the driver's call, the kernel launched before it, and the driver's description.
    pub reason: String,
}

/// Why a device is out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// It failed alone.
    DeviceError,
    /// An error on it ended CUDA in this process.
    StickyError,
    /// An error on another GPU ended CUDA in this process.
    PeerError,
    /// A launch on it did not end in time.
    Hang,
}

impl LossCause {
    /// The label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::DeviceError => "device_error",
            Self::StickyError => "sticky_error",
            Self::PeerError => "peer_error",
            Self::Hang => "hang",
        }
    }

    /// The cause of a loss that an operation reports.
    pub(crate) fn of(scope: LossScope) -> Self {
        match scope {
            LossScope::Device => Self::DeviceError,
            LossScope::Cuda => Self::StickyError,
        }
    }

    /// Returns the devices that are lost for this cause.
    pub(crate) fn scope(self) -> LossScope {
        match self {
            Self::DeviceError | Self::Hang => LossScope::Device,
            Self::StickyError | Self::PeerError => LossScope::Cuda,
        }
    }
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl DeviceLoss {
    /// The loss of `other` that follows from this one, if any does.
    pub(crate) fn of_peer(&self, other: DeviceId) -> Option<Self> {
        let ends_cuda = self.cause.scope() == LossScope::Cuda && self.device != DeviceId::Cpu;
        (ends_cuda && other != DeviceId::Cpu && other != self.device).then(|| Self {
            device: other,
            cause: LossCause::PeerError,
            lane: self.lane,
            reason: format!("an error on {} ended CUDA in this process: {}", self.device, self.reason),
        })
    }

    /// The error of a request that cannot run because of this loss.
    pub(crate) fn error(&self) -> OpError {
        OpError::DeviceLost { device: self.device, scope: self.cause.scope(), reason: self.reason.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(device: DeviceId, cause: LossCause) -> DeviceLoss {
        DeviceLoss { device, cause, lane: "search", reason: "trap".to_owned() }
    }

    #[test]
    fn a_sticky_error_takes_all_other_gpus_along() {
        let sticky = loss(DeviceId::Cuda(0), LossCause::StickyError);
        let peer = sticky.of_peer(DeviceId::Cuda(1)).expect("it goes along");
        assert_eq!((peer.device, peer.cause), (DeviceId::Cuda(1), LossCause::PeerError));
        assert_eq!(peer.reason, "an error on cuda:0 ended CUDA in this process: trap");
        assert_eq!(sticky.of_peer(DeviceId::Cpu), None);
        assert_eq!(sticky.of_peer(DeviceId::Cuda(0)), None);
    }

    #[test]
    fn a_hang_or_a_missing_device_takes_none_along() {
        for cause in [LossCause::Hang, LossCause::DeviceError] {
            assert_eq!(loss(DeviceId::Cuda(0), cause).of_peer(DeviceId::Cuda(1)), None, "{cause}");
        }
        assert_eq!(loss(DeviceId::Cpu, LossCause::StickyError).of_peer(DeviceId::Cuda(0)), None);
    }
}
