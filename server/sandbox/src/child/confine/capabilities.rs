//! Capabilities of the thread: it keeps none, and no program that it might execute gets one.

use std::io;

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

/// Empties the bounding, ambient, inheritable, permitted and effective sets.
pub(in crate::child) fn drop_all() -> io::Result<()> {
    empty_bounding_set()?;
    match clear_ambient_capability_set() {
        // Kernels before 4.3 have no ambient set.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// A thread without `CAP_SETPCAP` keeps its bounding set. That set only bounds what a program gains that the thread executes, and with
/// `PR_SET_NO_NEW_PRIVS` it gains nothing.
fn empty_bounding_set() -> io::Result<()> {
    let capabilities = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    for capability in capabilities {
        match capability_is_in_bounding_set(capability) {
            Ok(false) => continue,
            Ok(true) => {}
            // Beyond the last capability that the kernel knows.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
