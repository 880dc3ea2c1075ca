//! The HTTP port.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use accelerd_http::TokenArrays;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::config::deserialize;

/// The HTTP port.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Its address.
    pub listen: HttpListen,
    /// Names by which clients call it.
    #[serde(deserialize_with = "deserialize::list")]
    pub hosts: Vec<String>,
    /// Origins whose pages may call it.
    #[serde(deserialize_with = "deserialize::list")]
    pub origins: Vec<String>,
    /// The meaning of arrays of token ids in OpenAI's API.
    #[serde(deserialize_with = "deserialize::choice")]
    pub token_arrays: TokenArrays,
    /// Whether the console is served.
    pub console: bool,
    /// Model of requests that name none; empty means the built-in one.
    pub model: String,
    /// Reranker of requests that name none; empty means the only one that is loaded.
    pub reranker: String,
    /// Time for the headers of the next request to arrive.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
}

/// Where the HTTP port listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpListen {
    /// On its usual address, if no other process does.
    Auto,
    /// Nowhere.
    Off,
    /// On an address.
    At(SocketAddr),
}

impl HttpListen {
    const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7436);

    /// The address to listen on, if any.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Auto => Some(Self::USUAL),
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

impl fmt::Display for HttpListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => Ok(()),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl Serialize for HttpListen {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HttpListen {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)?.as_str() {
            "auto" => Ok(Self::Auto),
            "" => Ok(Self::Off),
            text => text.parse().map(Self::At).map_err(|_| {
                D::Error::custom(format!("expected an address such as 127.0.0.1:7436, \"auto\" or \"\", got {text:?}"))
            }),
        }
    }
}
