//! Device discovery.

use crate::{Choice, Device, DiscoverError, Settings, cpu, cuda, ops};

/// Result of device discovery.
#[derive(Debug)]
pub struct Discovered {
    /// GPUs by ordinal, then the CPU pool.
    pub devices: Vec<Device>,
    /// Why no GPU is used; `None` if `devices` has one.
    pub fallback: Option<String>,
}

/// Finds the devices of this machine. A missing driver or library never panics: it becomes the fallback's reason.
pub fn discover(settings: &Settings) -> Result<Discovered, DiscoverError> {
    let pool = cpu::Pool::start(settings.cpu_threads).map_err(DiscoverError::Cpu)?;
    let (mut devices, fallback) = match settings.choice {
        Choice::Cpu => (vec![], Some("backend is \"cpu\"".to_owned())),
        Choice::Auto => match cuda::discover(settings, &ops::modules(), &pool) {
            Ok(found) => (found, None),
            Err(reason) => (vec![], Some(reason)),
        },
        Choice::Cuda => (cuda::discover(settings, &ops::modules(), &pool).map_err(DiscoverError::NoCuda)?, None),
    };
    let mut devices: Vec<_> = devices.drain(..).map(Device::Cuda).collect();
    devices.push(Device::Cpu(pool));
    Ok(Discovered { devices, fallback })
}
