//! The other end of a connection: its address, and the names of the certificate that it proved in the TLS handshake.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    net::{IpAddr, SocketAddr},
};

/// The other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its address; `None` for a Unix socket.
    pub address: Option<SocketAddr>,
    /// The names in its certificate, which the handshake verified; `None` without a certificate.
    pub certificate: Option<CertificateNames>,
    /// The number of the connection.
    pub connection: u64,
}

/// The subject alternative names of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// DNS names.
    pub dns: Vec<String>,
    /// URIs, such as SPIFFE ids.
    pub uris: Vec<String>,
}

impl Peer {
    /// A peer without a certificate.
    pub fn at(address: SocketAddr) -> Self {
        Self { address: Some(address), ..Self::default() }
    }

    /// A number that callers from one host share: a hash of the IPv4 address, or of the first 64 bits of the IPv6 address,
    /// because one host usually has all addresses of such a network.
    pub fn host_id(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self.address.map(|address| address.ip().to_canonical()) {
            None => hasher.write_u8(0),
            Some(IpAddr::V4(address)) => address.octets().hash(&mut hasher),
            Some(IpAddr::V6(address)) => address.segments()[..4].hash(&mut hasher),
        }
        hasher.finish()
    }

    /// A number that calls of one connection share.
    pub fn connection_id(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.connection.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str("unix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_share_a_host_id_by_address_and_not_by_port() {
        let id = |address: &str| Peer::at(address.parse().expect("an address")).host_id();
        assert_eq!(id("10.0.0.1:1"), id("10.0.0.1:2"));
        assert_eq!(id("10.0.0.1:1"), id("[::ffff:10.0.0.1]:1"), "an IPv4 address mapped to IPv6");
        assert_ne!(id("10.0.0.1:1"), id("10.0.0.2:1"));
        assert_eq!(id("[2001:db8::1]:1"), id("[2001:db8::2]:1"), "one network of 64 bits");
        assert_ne!(id("[2001:db8::1]:1"), id("[2001:db8:1::1]:1"));
        assert_ne!(id("10.0.0.1:1"), Peer::default().host_id());
    }
}
