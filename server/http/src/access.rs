//! Protects a daemon from web pages: a page of another site reaches a loopback address through the user's browser, either by its
//! address (cross-site requests) or by a name that resolves to it (DNS rebinding).

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};

use crate::failure::Failure;

/// Which names and origins requests may have.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Names of this server besides addresses and `localhost`; empty means any name, unless `only_local` is set.
    pub hosts: Vec<String>,
    /// Origins whose pages may call this server, such as `https://example.com`.
    pub origins: Vec<String>,
    /// True if the listener has a loopback address, for which only configured names are accepted.
    pub only_local: bool,
}

impl Access {
    /// Refuses a request by its host or its origin.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
        let host = self.check_host(uri, headers)?;
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
        match text(header::ORIGIN.as_str()) {
            Some(origin) if self.allows_origin(origin, host) => Ok(()),
            Some(origin) => {
                let message = format!("requests of pages of {origin} are not allowed; see the setting http.origins");
                Err(Failure::new(StatusCode::FORBIDDEN, message))
            }
            // A browser says where a request without Origin comes from. A link from another site may be followed.
            None => match (text("sec-fetch-site"), text("sec-fetch-mode")) {
                (None | Some("same-origin" | "none"), _) => Ok(()),
                (_, Some("navigate")) if method == Method::GET => Ok(()),
                _ => Err(Failure::new(StatusCode::FORBIDDEN, "requests of pages of other sites are not allowed")),
            },
        }
    }

    fn check_host<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Result<&'a str, Failure> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (uri.authority(), hosts.next(), hosts.next()) {
            (Some(authority), _, None) => Some(authority.as_str()),
            (None, Some(host), None) => host.to_str().ok(),
            _ => None,
        };
        let host = host.ok_or_else(|| Failure::new(StatusCode::BAD_REQUEST, "expected one header `host`"))?;
        if self.allows_host(without_port(host)) {
            return Ok(host);
        }
        let message = format!("requests for the host {host:?} are not allowed; see the setting http.hosts");
        Err(Failure::new(StatusCode::MISDIRECTED_REQUEST, message))
    }

    /// An address names no other machine, so no page can have rebound it.
    fn allows_host(&self, name: &str) -> bool {
        let is_address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok();
        let any_name = self.hosts.is_empty() && !self.only_local;
        let is_listed = self.hosts.iter().any(|host| host == "*" || host.eq_ignore_ascii_case(name));
        is_address || any_name || is_listed || name.eq_ignore_ascii_case("localhost")
    }

    /// Pages of this server itself may call it.
    fn allows_origin(&self, origin: &str, host: &str) -> bool {
        let is_own = origin.split_once("://").is_some_and(|(_, own)| own.eq_ignore_ascii_case(host));
        is_own || self.lists_origin(origin)
    }

    pub(crate) fn lists_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(access: &Access, headers: &[(&'static str, &str)]) -> Result<(), StatusCode> {
        let pairs =
            headers.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        let headers: HeaderMap = pairs.collect();
        access.check(&Method::GET, &Uri::from_static("/x"), &headers).map_err(|failure| failure.status)
    }

    fn local() -> Access {
        Access { only_local: true, ..Access::default() }
    }

    #[test]
    fn a_loopback_listener_accepts_addresses_localhost_and_configured_names() {
        for host in ["localhost", "LOCALHOST:7436", "127.0.0.1:7436", "[::1]:7436", "[::1]", "10.0.0.1"] {
            assert_eq!(check(&local(), &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["rebound.example:7436", "localhost.example", "127.0.0.1.example", "", "a:b:1"] {
            assert_eq!(check(&local(), &[("host", host)]), Err(StatusCode::MISDIRECTED_REQUEST), "{host}");
        }
        let named = Access { hosts: vec!["Accelerd.internal".to_owned()], ..local() };
        assert_eq!(check(&named, &[("host", "accelerd.INTERNAL:80")]), Ok(()));
        assert_eq!(check(&named, &[("host", "other.internal")]), Err(StatusCode::MISDIRECTED_REQUEST));
        assert_eq!(check(&Access::default(), &[("host", "accelerd.default.svc")]), Ok(()), "not on loopback");
    }

    #[test]
    fn a_request_has_one_host() {
        assert_eq!(check(&Access::default(), &[]), Err(StatusCode::BAD_REQUEST));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(check(&Access::default(), &two), Err(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let own = ("host", "127.0.0.1:7436");
        let from = |origin| check(&local(), &[own, ("origin", origin)]);
        assert_eq!(from("http://127.0.0.1:7436"), Ok(()), "a page of the daemon itself");
        for origin in ["http://127.0.0.1:8000", "http://localhost:7436", "https://evil.example", "null", ""] {
            assert_eq!(from(origin), Err(StatusCode::FORBIDDEN), "{origin}");
        }
        let listed = Access { origins: vec!["https://app.example".to_owned()], ..local() };
        assert_eq!(check(&listed, &[own, ("origin", "https://app.example")]), Ok(()));
        assert_eq!(check(&listed, &[own, ("origin", "https://app.example.evil")]), Err(StatusCode::FORBIDDEN));
    }

    #[test]
    fn a_request_without_origin_is_refused_if_a_browser_says_that_another_site_made_it() {
        let own = ("host", "localhost");
        let site = |site, mode| check(&local(), &[own, ("sec-fetch-site", site), ("sec-fetch-mode", mode)]);
        assert_eq!(site("same-origin", "cors"), Ok(()));
        assert_eq!(site("none", "navigate"), Ok(()));
        assert_eq!(site("cross-site", "navigate"), Ok(()), "a link");
        for other in ["cross-site", "same-site", "?"] {
            assert_eq!(site(other, "no-cors"), Err(StatusCode::FORBIDDEN), "{other}");
        }
    }
}
