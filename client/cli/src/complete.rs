//! Shell completion of the names of collections and models, which the daemon provides.
//!
//! If the daemon does not respond at once, there are no candidates.

use std::time::Duration;

use accelerd_client::{Client, DEFAULT_URL};
use clap_complete::{ArgValueCandidates, CompletionCandidate};

/// Time limit of a completion: the user waits at a prompt.
const TIMEOUT: Duration = Duration::from_millis(300);

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
    let lookup = async {
        let connected = Client::builder(server).connect_timeout(TIMEOUT).deadline(TIMEOUT).connect().await;
        Some(names(connected.ok()?).await)
    };
    let names = runtime.block_on(async { tokio::time::timeout(TIMEOUT, lookup).await });
    // A DNS lookup may continue on a blocking thread.
    runtime.shutdown_background();
    names.ok().flatten().unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

/// Address of the daemon from the command line, the environment or the default.
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
    fn the_address_is_read_from_the_command_line() {
        let of = |line: &str| server(line.split(' ').map(str::to_owned));
        assert_eq!(of("accelctl -- accelctl --server unix:///a search -c x"), "unix:///a");
        assert_eq!(of("accelctl -- accelctl search --server=http://a:1 -c x"), "http://a:1");
    }
}
