//! The Rust of the documents, so that it compiles: written by `python3 tests/snippets/test_snippets.py`.
#![allow(unused, reason = "nothing calls it")]
#![allow(clippy::pedantic, clippy::unused_async, reason = "it stands as in the documents")]

use accelerd_client::{Client, Error, Pem};

fn main() {}

/// Of README.md.
async fn readme_0(token: String) -> Result<(), Error> {
    let client = accelerd_client::Client::connect("http://localhost:7433").await?;
    let vectors = client.embed(["parse a date", "def parse_date(s): ..."]).await?;
    Ok(())
}

/// Of SECURITY.md.
async fn security_0(token: String) -> Result<(), Error> {
    let tls = accelerd_client::Tls::default().ca(Pem::File("ca.pem".into()));
    let client = Client::builder("https://accelerd.example.com:7433").tls(tls).token(token).connect().await?;
    let vectors = client.embed(["parse a date"]).await?;
    Ok(())
}
