//! The audit log: one event for each call that changes what others see, and for refusals, of which a flood is shortened (see
//! `log_limit`).
//!
//! Events have the target `accelerd::audit`. A principal's name and a peer's address are logged, a credential never.

use std::time::Instant;

use opentelemetry::{
    KeyValue,
    metrics::{Counter, Meter},
};

use super::{
    log_limit::{LogLimit, RefusalKind},
    refusal::Refusal,
};
use crate::peer::Peer;

/// The target of audit events.
pub const TARGET: &str = "accelerd::audit";

/// Writes audit events and counts refusals.
#[derive(Debug)]
pub(super) struct Audit {
    refused: Counter<u64>,
    log_limit: LogLimit,
}

/// The call that an event is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallInfo<'a> {
    pub(super) principal: &'a str,
    pub(super) peer: &'a Peer,
    pub(super) method: &'static str,
}

impl Audit {
    pub(super) fn new(meter: &Meter) -> Self {
        let refused = meter
            .u64_counter("accelerd_auth_refused")
            .with_description("Calls and messages refused by authentication, roles, patterns or quotas, by reason.")
            .build();
        Self { refused, log_limit: LogLimit::default() }
    }

    /// Records a refusal.
    pub(super) fn refused(&self, call: CallInfo<'_>, refusal: &Refusal) {
        let CallInfo { principal, peer, method } = call;
        let (reason, resource) = (refusal.reason(), refusal.resource());
        self.refused.add(1, &[KeyValue::new("reason", reason)]);
        let kind = RefusalKind::new(principal, peer.host_id(), reason);
        let Some(suppressed) = self.log_limit.admit(Instant::now(), kind) else { return };
        tracing::info!(
            target: TARGET, outcome = "refused", principal, %peer, method, resource, reason, suppressed, "call refused"
        );
    }
}

/// Records a successful call that changes state.
pub(super) fn changed(call: CallInfo<'_>, resource: &str) {
    let CallInfo { principal, peer, method } = call;
    tracing::info!(target: TARGET, outcome = "done", principal, %peer, method, resource, "state changed");
}
