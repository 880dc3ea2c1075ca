//! The caller of a method, as the services see it.

use std::sync::{Arc, LazyLock};

use http::Extensions;

use super::{
    audit::{self, Audit, CallInfo},
    principal::Principal,
    principals::ANONYMOUS,
    quota::BytesInFlight,
    refusal::Refusal,
    role::Role,
};
use crate::peer::Peer;

/// The method of a caller whose path names none.
pub(super) const NO_METHOD: &str = "unknown";

/// Who makes a call. The authentication layer puts it into the extensions of every request.
#[derive(Clone, Debug)]
pub struct Caller {
    identity: Identity,
    method: &'static str,
    peer: Arc<Peer>,
    audit: Option<Arc<Audit>>,
}

/// Identity that a caller has proved.
#[derive(Clone, Debug)]
enum Identity {
    /// A request that did not pass the authentication layer: nothing is allowed.
    Nobody,
    /// Without credentials, or with wrong ones.
    Anonymous(Option<Role>),
    Principal(Arc<Principal>),
}

impl Caller {
    /// A caller without credentials, which has `role` if there is one.
    pub(super) fn anonymous(role: Option<Role>, method: &'static str, peer: Arc<Peer>, audit: Arc<Audit>) -> Self {
        Self { identity: Identity::Anonymous(role), method, peer, audit: Some(audit) }
    }

    /// The same caller, which has shown to be a principal.
    pub(super) fn with_principal(mut self, principal: Arc<Principal>) -> Self {
        self.identity = Identity::Principal(principal);
        self
    }

    /// The caller of a request. Without the authentication layer it is nobody, to whom no name is allowed.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        static NO_PEER: LazyLock<Arc<Peer>> = LazyLock::new(Arc::default);
        extensions.get::<Self>().cloned().unwrap_or_else(|| Self {
            identity: Identity::Nobody,
            method: NO_METHOD,
            peer: Arc::clone(&NO_PEER),
            audit: None,
        })
    }

    fn principal(&self) -> Option<&Arc<Principal>> {
        match &self.identity {
            Identity::Principal(principal) => Some(principal),
            Identity::Nobody | Identity::Anonymous(_) => None,
        }
    }

    /// The name of its principal, or `anonymous`.
    pub fn name(&self) -> &str {
        self.principal().map_or(ANONYMOUS, |principal| principal.name())
    }

    /// The name that owns the collections it creates; empty for anonymous callers, which have no quota.
    pub(crate) fn owner(&self) -> &str {
        self.principal().map_or("", |principal| principal.name())
    }

    /// The other end of its connection.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The path of the called method; `unknown` if there is no such method.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Its role; `None` if it may do nothing.
    pub fn role(&self) -> Option<Role> {
        match &self.identity {
            Identity::Nobody => None,
            Identity::Anonymous(role) => *role,
            Identity::Principal(principal) => Some(principal.role),
        }
    }

    /// The number by which queues share fairly: of its principal, or of its host.
    pub fn queue_id(&self) -> u64 {
        self.principal().map_or_else(|| self.peer.host_id(), |principal| principal.id())
    }

    /// Identifies the group that takes turns as one at resources that are used for long: its principal, or its connection.
    pub fn sharer_id(&self) -> u64 {
        self.principal().map_or_else(|| self.peer.connection_id(), |principal| principal.id())
    }

    /// Refuses a caller of a lower role, for a request that needs more than its method does.
    pub(crate) fn check_role(&self, needed: Role) -> Result<(), Refusal> {
        match self.role() {
            Some(got) if got < needed => Err(self.refuse(Refusal::Role { needed, got })),
            Some(_) => Ok(()),
            None => Err(self.refuse(Refusal::NoCredentials)),
        }
    }

    /// Refuses a collection outside of the caller's patterns.
    pub(crate) fn check_collection(&self, name: &str) -> Result<(), Refusal> {
        self.check_name("collection", name, self.sees_collection(name))
    }

    /// Refuses a model outside of the caller's patterns. One of its names must be within them.
    pub(crate) fn check_model<'a>(
        &self,
        requested: &'a str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Refusal> {
        self.check_name("model", requested, self.sees_model(names))
    }

    fn check_name(&self, kind: &'static str, name: &str, is_allowed: bool) -> Result<(), Refusal> {
        if is_allowed { Ok(()) } else { Err(self.refuse(Refusal::name(kind, name))) }
    }

    /// Returns true if a collection is within the caller's patterns.
    pub(crate) fn sees_collection(&self, name: &str) -> bool {
        match &self.identity {
            Identity::Nobody => false,
            Identity::Anonymous(role) => role.is_some(),
            Identity::Principal(principal) => principal.collections.matches(name),
        }
    }

    /// Returns true if one of a model's names is within the caller's patterns.
    pub(crate) fn sees_model<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        match &self.identity {
            Identity::Nobody => false,
            Identity::Anonymous(role) => role.is_some(),
            Identity::Principal(principal) => names.into_iter().any(|name| principal.models.matches(name)),
        }
    }

    /// Takes one request of the principal's rate; an error says when the next is available.
    pub(crate) fn take_request(&self) -> Result<(), Refusal> {
        let Some(principal) = self.principal() else { return Ok(()) };
        let rate = principal.limits.requests_per_second;
        if rate == 0.0 {
            return Ok(());
        }
        let taken = principal.usage.take_request(rate);
        taken.map_err(|retry_after| Refusal::Rate { per_second: rate.to_string(), retry_after })
    }

    /// Reserves the bytes of a request message; `None` without a quota.
    pub(crate) fn reserve_bytes(&self, asked: u64) -> Result<Option<BytesInFlight>, Refusal> {
        let Some(principal) = self.principal() else { return Ok(None) };
        let limit = principal.limits.bytes_in_flight;
        if limit == 0 {
            return Ok(None);
        }
        let reserved = principal.usage.reserve_bytes(asked, limit);
        reserved.map(Some).map_err(|used| Refusal::BytesInFlight { used, limit, asked })
    }

    /// Records a refusal and returns it.
    pub(crate) fn refuse(&self, refusal: Refusal) -> Refusal {
        if let Some(audit) = &self.audit {
            audit.refused(self.info(), &refusal);
        }
        refusal
    }

    /// Records that the call changed a resource.
    pub(crate) fn record_change(&self, resource: &str) {
        audit::changed(self.info(), resource);
    }

    fn info(&self) -> CallInfo<'_> {
        CallInfo { principal: self.name(), peer: &self.peer, method: self.method }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_passed_no_authentication_is_nobody_s() {
        let nobody = Caller::of(&Extensions::new());
        assert_eq!((nobody.role(), nobody.name()), (None, "anonymous"));
        assert!(nobody.check_collection("any").is_err() && nobody.check_model("any", ["any"]).is_err());
    }
}
