//! Ctrl-C: the first one stops the work in order, the second one exits the program.

use tokio::sync::watch;

use crate::error::{self, CliError, Result};

/// Whether Ctrl-C was pressed.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Awaits Ctrl-C, which does not end the program by itself from then on.
    pub fn listen() -> Self {
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            sender.send_replace(true);
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(error::INTERRUPTED.into());
            }
        });
        Self(receiver)
    }

    /// Completes at the first Ctrl-C.
    pub async fn pressed(&self) {
        if self.0.clone().wait_for(|pressed| *pressed).await.is_err() {
            // No signal can be received.
            std::future::pending::<()>().await;
        }
    }

    /// Runs until Ctrl-C.
    pub async fn stops<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let work = Box::pin(work);
        tokio::select! {
            done = work => Ok(done),
            () = self.pressed() => Err(CliError::Interrupted("interrupted".to_owned())),
        }
    }
}
