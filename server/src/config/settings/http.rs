//! The HTTP port.

use std::{net::SocketAddr, time::Duration};

use accelerd_http::TokenArrays;
use serde::{Deserialize, Serialize};

use crate::config::deserialize;

/// The HTTP port.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Its address; empty for none.
    #[serde(with = "deserialize::optional_address")]
    pub listen: Option<SocketAddr>,
    /// Names by which clients call it.
    #[serde(deserialize_with = "deserialize::list")]
    pub hosts: Vec<String>,
    /// Origins whose pages may call it.
    #[serde(deserialize_with = "deserialize::list")]
    pub origins: Vec<String>,
    /// What arrays of token ids mean in OpenAI's API.
    #[serde(deserialize_with = "deserialize::choice")]
    pub token_arrays: TokenArrays,
    /// Model of requests that name none; empty means the built-in one.
    pub model: String,
    /// Reranker of requests that name none; empty means the only one that is loaded.
    pub reranker: String,
    /// Time for the headers of the next request to arrive.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
}
