//! The rights of callers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::some_path;
use crate::config::deserialize;

/// Authentication and the rights of callers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// File with the principals; empty allows everything to everybody.
    pub principals: PathBuf,
    /// True if the daemon may start although callers from other machines need no credentials, or send them in plaintext.
    pub insecure: bool,
    /// Rights of callers without credentials if there is a principals file.
    #[serde(deserialize_with = "deserialize::choice")]
    pub anonymous: Anonymous,
}

impl Auth {
    /// The principals file, if any.
    pub fn file(&self) -> Option<&Path> {
        some_path(&self.principals)
    }
}

/// Rights of callers without credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Anonymous {
    /// Nothing but health checks, and reflection if it is served.
    None,
    /// The rights of the role `read`.
    Read,
    /// The rights of the role `write`.
    Write,
    /// Everything.
    Admin,
}
