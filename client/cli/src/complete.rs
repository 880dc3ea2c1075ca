//! What a shell completes that only the daemon knows: names of collections and models.
//!
//! It must not be in the way: without a daemon, or with one that does not answer at once, there is nothing to complete.

use std::time::Duration;

use accelerd_client::{Client, DEFAULT_URL};
use clap_complete::{ArgValueCandidates, CompletionCandidate};

/// How long a daemon has to answer while somebody waits at a prompt.
const PATIENCE: Duration = Duration::from_millis(300);

/// Names of collections.
pub fn collections() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |client| {
            let collections = client.collections().await.unwrap_or_default();
            collections.into_iter().map(|collection| collection.name).collect()
        })
    })
}

/// Names and aliases of models.
pub fn models() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |client| {
            let models = client.models().await.unwrap_or_default();
            models.into_iter().flat_map(|model| std::iter::once(model.name).chain(model.aliases)).collect()
        })
    })
}

fn candidates(names: impl AsyncFnOnce(Client) -> Vec<String>) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return vec![] };
    let server = server(std::env::args());
    let asked = async {
        let connected = Client::builder(server).connect_timeout(PATIENCE).deadline(PATIENCE).connect().await;
        Some(names(connected.ok()?).await)
    };
    let names = runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
    // A lookup of a host's name may go on in a thread of its own.
    runtime.shutdown_background();
    names.ok().flatten().unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

/// The daemon that the words on the line name, or the environment, or the usual one.
fn server(words: impl Iterator<Item = String>) -> String {
    let mut words = words.skip_while(|word| word != "--server" && !word.starts_with("--server="));
    let named = words.next().and_then(|word| match word.strip_prefix("--server=") {
        Some(url) => Some(url.to_owned()),
        None => words.next(),
    });
    let named = named.or_else(|| std::env::var("ACCELERD_SERVER").ok());
    named.filter(|url| !url.is_empty()).unwrap_or_else(|| DEFAULT_URL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_which_daemon_to_ask() {
        let of = |line: &str| server(line.split(' ').map(str::to_owned));
        assert_eq!(of("accelctl -- accelctl --server unix:///a search -c x"), "unix:///a");
        assert_eq!(of("accelctl -- accelctl search --server=http://a:1 -c x"), "http://a:1");
    }
}
