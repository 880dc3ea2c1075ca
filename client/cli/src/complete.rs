//! Shell completion of the names of collections and models, which the daemon provides.
//!
//! If the daemon does not respond at once, there are no candidates.

use std::{path::PathBuf, time::Duration};

use accelerd_client::{Client, DEFAULT_URL};
use clap_complete::{ArgValueCandidates, CompletionCandidate};

use crate::{connection::Connection, visible};

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
    let words: Vec<_> = std::env::args().collect();
    let Ok(builder) = connection(&words).builder() else { return vec![] };
    let lookup = async {
        let connected = builder.connect_timeout(TIMEOUT).connect().await;
        Some(names(connected.ok()?).await)
    };
    let names = runtime.block_on(async { tokio::time::timeout(TIMEOUT, lookup).await });
    // A DNS lookup may continue on a blocking thread.
    runtime.shutdown_background();
    let names = names.ok().flatten().unwrap_or_default();
    // A shell prints candidates as they are, and a user cannot type these.
    let typed = names.into_iter().filter(|name| !name.contains(visible::is_hidden));
    typed.map(CompletionCandidate::new).collect()
}

/// The connection that an unfinished command line names, which the parser of commands would refuse.
fn connection(words: &[String]) -> Connection {
    let path = |option, variable| value(words, option, variable).map(PathBuf::from);
    Connection {
        server: value(words, "--server", "ACCELERD_SERVER").unwrap_or_else(|| DEFAULT_URL.to_owned()),
        tls_ca: path("--tls-ca", "ACCELERD_TLS_CA"),
        tls_cert: path("--tls-cert", "ACCELERD_TLS_CERT"),
        tls_key: path("--tls-key", "ACCELERD_TLS_KEY"),
        tls_server_name: value(words, "--tls-server-name", "ACCELERD_TLS_SERVER_NAME"),
        token_file: path("--token-file", "ACCELERD_TOKEN_FILE"),
        allow_plaintext_token: words.iter().any(|word| word == "--allow-plaintext-token"),
        timeout: TIMEOUT,
    }
}

/// Value of an option from the command line or the environment.
fn value(words: &[String], option: &str, variable: &str) -> Option<String> {
    let is_option =
        |word: &String| word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    let index = words.iter().position(is_option);
    let named = index.and_then(|index| match words[index].split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.get(index + 1).cloned(),
    });
    named.or_else(|| std::env::var(variable).ok()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_is_read_from_the_command_line() {
        let parsed = |line: &str| connection(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parsed("accelctl -- accelctl --server unix:///a search -c x").server, "unix:///a");
        assert_eq!(parsed("accelctl -- accelctl search --server=http://a:1 -c x").server, "http://a:1");
        let secured = parsed("accelctl -- accelctl search --tls-ca ca.pem --token-file=t --tls-server-name");
        assert_eq!((secured.tls_ca, secured.token_file), (Some("ca.pem".into()), Some("t".into())));
        assert_eq!((secured.tls_server_name, secured.tls_cert, secured.allow_plaintext_token), (None, None, false));
    }
}
