//! Systems without inotify.

use std::{convert::Infallible, path::PathBuf, sync::Arc};

use super::Pending;
use crate::{
    error::{CliError, Result},
    walk::Scope,
};

/// No value of this type exists: nothing reports changes here.
pub struct Folders(Infallible);

impl Folders {
    pub fn new(_roots: Vec<PathBuf>, _pending: Arc<Pending>) -> Result<Self> {
        Err(CliError::Usage("this system reports no changes: add --poll 2s".to_owned()))
    }

    pub async fn failed(&mut self) -> CliError {
        match self.0 {}
    }

    pub fn watch_above(&mut self) -> Result {
        match self.0 {}
    }

    pub fn watch(&mut self, _folders: &[PathBuf]) -> Result<bool> {
        match self.0 {}
    }

    pub fn keep(&mut self, _scope: &Scope, _folders: &[PathBuf]) {
        match self.0 {}
    }
}
