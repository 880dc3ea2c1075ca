//! Authentication and authorisation: identities, rights, quotas and the audit log.
//!
//! A caller is a principal of the principals file if it presents one of its tokens or a client certificate with one of its
//! names, and anonymous otherwise. `layers::auth` decides before a message is received; the services check the names
//! of collections and models, which are in the messages.

pub mod audit;
pub mod caller;
mod log_limit;
pub mod principal;
pub mod principals;
pub(crate) mod quota;
pub mod refusal;
pub mod role;
pub mod token;

use std::{net::SocketAddr, path::Path, sync::Arc};

use http::{HeaderMap, header::AUTHORIZATION};
use opentelemetry::metrics::Meter;

use self::{
    audit::Audit,
    caller::{Caller, NO_METHOD},
    principals::Principals,
    refusal::Refusal,
    role::{Access, Role},
    token::TokenHash,
};
use crate::{
    config::{Anonymous, Config},
    peer::Peer,
    reload::{Refresh, Reloadable},
};

/// Why the daemon does not start with these credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Everybody who reaches the port could do everything.
    #[error(
        "{key} is {address}, where other machines reach it, and callers would need no credentials: set auth.principals, \
         or auth.insecure = true if the network is protected by other means"
    )]
    Unprotected {
        /// The setting of the port.
        key: &'static str,
        /// Its address.
        address: SocketAddr,
    },
    /// Tokens would be readable on the network.
    #[error("cannot use auth.principals: {0}")]
    Principals(String),
}

/// The rules by which callers are identified.
#[derive(Debug)]
pub struct Auth {
    /// `None` without a principals file: everything is allowed to everybody.
    principals: Option<Arc<Reloadable<Principals>>>,
    /// The role of callers without credentials.
    anonymous: Option<Role>,
    audit: Arc<Audit>,
}

impl Auth {
    /// Reads the principals file. Fails if callers from other machines would need no credentials, or send them in
    /// plaintext, unless the settings accept that.
    pub fn open(config: &Config, meter: &Meter) -> Result<Self, AuthError> {
        let auth = &config.auth;
        let reachable = reachable_port(config);
        let is_reachable = reachable.is_some();
        let is_exposed = is_reachable && !auth.insecure;
        let principals = auth.file().map(|path| {
            let has_plaintext_tokens = is_exposed && !config.tls.is_on();
            open_principals(path, has_plaintext_tokens).map(Arc::new).map_err(AuthError::Principals)
        });
        let principals = principals.transpose()?;
        match reachable {
            Some((key, address)) if principals.is_none() && is_exposed => {
                return Err(AuthError::Unprotected { key, address });
            }
            Some((key, address)) if principals.is_none() => {
                tracing::warn!(key, %address, "auth.insecure is set: everyone who reaches the port may do everything");
            }
            Some((key, address)) if auth.insecure && !config.tls.is_on() => {
                tracing::warn!(key, %address, "auth.insecure is set: tokens may travel in plaintext");
            }
            _ => {}
        }
        let anonymous = match auth.anonymous {
            _ if principals.is_none() => Some(Role::Admin),
            Anonymous::None => None,
            Anonymous::Read => Some(Role::Read),
            Anonymous::Write => Some(Role::Write),
            Anonymous::Admin => Some(Role::Admin),
        };
        Ok(Self { principals, anonymous, audit: Arc::new(Audit::new(meter)) })
    }

    /// The principals file, to be reloaded when it changes.
    pub(crate) fn principals(&self) -> Option<Arc<dyn Refresh>> {
        self.principals.clone().map(|principals| principals as Arc<dyn Refresh>)
    }

    /// The quota of memory for the collections and tensors that a principal created; `None` without one.
    pub(crate) fn resident_limit(&self, owner: &str) -> Option<u64> {
        let principals = self.principals.as_ref().filter(|_| !owner.is_empty())?.get();
        principals.resident_limit(owner).filter(|limit| *limit > 0)
    }

    /// Decides whether a method may be called, from the connection and the metadata of the call.
    pub(crate) fn authorize(&self, path: &str, peer: &Arc<Peer>, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let access = role::access(path);
        let method = if let Access::Role(method, _) = access { method } else { NO_METHOD };
        let anonymous = Caller::anonymous(self.anonymous, method, Arc::clone(peer), Arc::clone(&self.audit));
        if access == Access::Open {
            return Ok(anonymous);
        }
        let Some(principals) = &self.principals else { return Ok(anonymous) };
        let identified = identify(anonymous.clone(), &principals.get(), headers);
        let caller = identified.map_err(|refusal| anonymous.refuse(refusal))?;
        check_role(&caller, access).and_then(|()| caller.take_request()).map_err(|refusal| caller.refuse(refusal))?;
        Ok(caller)
    }
}

/// A port that other machines reach, with its setting.
fn reachable_port(config: &Config) -> Option<(&'static str, SocketAddr)> {
    let grpc = ("server.listen", config.server.listen);
    let http = config.http.listen.address().map(|address| ("http.listen", address));
    std::iter::once(grpc).chain(http).find(|(_, address)| !address.ip().to_canonical().is_loopback())
}

/// Finds the principal of a caller. A token takes precedence over a certificate; a wrong credential is refused even where
/// none is needed.
fn identify(caller: Caller, principals: &Principals, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let mut authorizations = headers.get_all(AUTHORIZATION).iter();
    let wrong = Refusal::WrongCredentials;
    if let Some(authorization) = authorizations.next() {
        if authorizations.next().is_some() {
            return Err(wrong("expected one value of the metadata `authorization`, got several"));
        }
        let token = bearer(authorization.as_bytes()).ok_or(wrong("expected metadata `authorization: Bearer TOKEN`"))?;
        let principal = principals.of_token(TokenHash::of(token));
        let principal = principal.ok_or(wrong("the token belongs to no principal"))?;
        return Ok(caller.with_principal(Arc::clone(principal)));
    }
    if let Some(names) = &caller.peer().certificate {
        let principal = principals.of_certificate(names);
        let principal =
            principal.map_err(|_| wrong("the names of the client certificate belong to several principals"))?;
        let principal = principal.ok_or(wrong("the names of the client certificate belong to no principal"))?;
        let principal = Arc::clone(principal);
        return Ok(caller.with_principal(principal));
    }
    if caller.role().is_some() { Ok(caller) } else { Err(Refusal::NoCredentials) }
}

/// The token of `Bearer TOKEN`; the scheme is case-insensitive.
fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked("Bearer ".len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
}

fn check_role(caller: &Caller, access: Access) -> Result<(), Refusal> {
    let Access::Role(_, needed) = access else { return Ok(()) };
    match caller.role() {
        Some(got) if got < needed => Err(Refusal::Role { needed, got }),
        Some(_) => Ok(()),
        None => Err(Refusal::NoCredentials),
    }
}

fn open_principals(path: &Path, has_plaintext_tokens: bool) -> Result<Reloadable<Principals>, String> {
    let load = move |contents: &[Vec<u8>], previous: Option<&Principals>| {
        let text = contents.first().map(Vec::as_slice).unwrap_or_default();
        let text = std::str::from_utf8(text).map_err(|_| "the file is not UTF-8".to_owned())?;
        let principals = Principals::parse(text, previous).map_err(|error| error.to_string())?;
        if has_plaintext_tokens && principals.have_tokens() {
            return Err("server.listen or http.listen is not a loopback address, where tokens would travel in plaintext: set \
                        tls.certificate and tls.private_key, or auth.insecure = true if the network is protected by other \
                        means"
                .to_owned());
        }
        Ok(principals)
    };
    Reloadable::open(vec![path.to_owned()], load)
}

#[cfg(test)]
mod tests;
