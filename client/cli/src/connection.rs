//! Options of the connection: address, TLS, token and timeout.

use std::{env, fs, path::PathBuf, time::Duration};

use accelerd_client::{Builder, Client, DEFAULT_URL, Pem, Tls};
use clap::{
    Args, ValueHint,
    builder::{OsStringValueParser, TypedValueParser},
};

use crate::{
    args::positive_duration,
    error::{CliError, Result},
};

/// Environment variable of the token.
pub const TOKEN_VARIABLE: &str = "ACCELERD_TOKEN";

/// The daemon's address and credentials.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Connection {
    /// Address of the daemon: http://host:port, https://host:port or unix:///path.
    #[arg(long, global = true, env = "ACCELERD_SERVER", default_value = DEFAULT_URL, value_parser = utf8(), value_name = "URL")]
    pub server: String,
    /// PEM file of the certificate authorities to trust instead of the system's.
    #[arg(long, global = true, env = "ACCELERD_TLS_CA", value_parser = path(), value_hint = ValueHint::FilePath, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// PEM file of the client certificate, with its chain.
    #[arg(long, global = true, env = "ACCELERD_TLS_CERT", value_parser = path(), value_hint = ValueHint::FilePath, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the client certificate's private key.
    #[arg(long, global = true, env = "ACCELERD_TLS_KEY", value_parser = path(), value_hint = ValueHint::FilePath, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Name to expect in the daemon's certificate instead of the host of --server.
    #[arg(long, global = true, env = "ACCELERD_TLS_SERVER_NAME", value_parser = utf8(), value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// File of the bearer token; without it, the token is the environment variable ACCELERD_TOKEN.
    ///
    /// There is no option for the token itself: every user of this machine can read the command lines of all processes.
    /// A token is sent only over TLS, to a Unix socket or to this machine.
    #[arg(long, global = true, env = "ACCELERD_TOKEN_FILE", value_parser = path(), value_hint = ValueHint::FilePath, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Send the token in plaintext to other machines, for networks that encrypt by other means.
    #[arg(long, global = true)]
    pub allow_plaintext_token: bool,
    /// Timeout of a call, retries included.
    #[arg(long, global = true, value_parser = positive_duration, default_value = "60s", value_name = "TIME")]
    pub timeout: Duration,
}

impl Connection {
    /// Returns a client's builder with these options.
    pub fn builder(&self) -> Result<Builder> {
        let mut builder =
            Client::builder(&self.server).deadline(self.timeout).allow_plaintext_token(self.allow_plaintext_token);
        if let Some(tls) = self.tls()? {
            builder = builder.tls(tls);
        }
        if let Some(token) = self.token()? {
            builder = builder.token(token);
        }
        Ok(builder)
    }

    fn tls(&self) -> Result<Option<Tls>> {
        let pem = |path: &PathBuf| Pem::File(path.clone());
        let mut tls = Tls::default();
        if let Some(ca) = given(self.tls_ca.as_ref()) {
            tls = tls.ca(pem(ca));
        }
        tls = match (given(self.tls_cert.as_ref()), given(self.tls_key.as_ref())) {
            (Some(certificate), Some(key)) => tls.client_certificate(pem(certificate), pem(key)),
            (None, None) => tls,
            (Some(_), None) => return Err(CliError::Usage("--tls-cert needs --tls-key".to_owned())),
            (None, Some(_)) => return Err(CliError::Usage("--tls-key needs --tls-cert".to_owned())),
        };
        let server_name = self.tls_server_name.as_ref().filter(|name| !name.is_empty());
        if let Some(name) = server_name {
            tls = tls.server_name(name);
        }
        let files = [&self.tls_ca, &self.tls_cert];
        let is_set = server_name.is_some() || files.into_iter().any(|path| given(path.as_ref()).is_some());
        Ok(is_set.then_some(tls))
    }

    fn token(&self) -> Result<Option<String>> {
        let text = match given(self.token_file.as_ref()) {
            Some(path) => Some(fs::read_to_string(path).map_err(CliError::file(path))?),
            None => match env::var(TOKEN_VARIABLE) {
                Ok(token) => Some(token).filter(|token| !token.is_empty()),
                Err(env::VarError::NotPresent) => None,
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(CliError::Usage(format!(
                        "{TOKEN_VARIABLE}: expected a token, got bytes that are not UTF-8"
                    )));
                }
            },
        };
        Ok(text.map(|text| text.trim().to_owned()))
    }
}

/// Parser of text. Unlike clap's own, it names the option, or its variable, whose value is not UTF-8.
fn utf8() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| text.into_string().map_err(|_| "expected UTF-8"))
}

/// Parser of paths that accepts an empty environment variable, which means none.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn given(path: Option<&PathBuf>) -> Option<&PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}
