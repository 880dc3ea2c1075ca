//! Bearer tokens and their hashes. A token is shown once, when it is created; files and memory hold only its hash.

use std::{fmt, io, str::FromStr};

use sha2::{Digest, Sha256};

/// Prefix of tokens, by which secret scanners recognise them.
const PREFIX: &str = "acl_";

/// Prefix of hashes.
const ALGORITHM: &str = "sha256:";

/// A new token with 256 bits of entropy.
pub struct Token(String);

impl Token {
    /// A token from the operating system's source of randomness.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 32];
        let filled = rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes);
        filled.map_err(|_| io::Error::other("the operating system provides no random bytes"))?;
        Ok(Self(format!("{PREFIX}{}", hex::encode(bytes))))
    }

    /// The text that a caller sends.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Its hash, for the principals file.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(redacted)")
    }
}

/// The SHA-256 hash of a token. A fast hash is enough, because a token has 256 bits of entropy and cannot be guessed.
///
/// Hashes are compared as keys of a hash map, not in constant time: what a caller could learn from the time of a
/// comparison is a prefix of the hash of its own guess, from which no token can be derived.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a caller's token.
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", hex::encode(self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(redacted)")
    }
}

/// Text that is not a hash. It is not repeated, because it may be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected sha256: and 64 hexadecimal digits, as printed by `accelerd token create`")]
pub struct InvalidHash;

impl FromStr for TokenHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let mut hash = [0; 32];
        let digits = text.strip_prefix(ALGORITHM).ok_or(InvalidHash)?;
        hex::decode_to_slice(digits, &mut hash).map_err(|_| InvalidHash)?;
        Ok(Self(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_hashes_to_what_the_principals_file_holds() {
        let token = Token::random().expect("random bytes");
        assert_eq!(token.reveal().len(), PREFIX.len() + 64);
        assert_eq!(token.hash().to_string().parse(), Ok(token.hash()));
        assert_eq!(TokenHash::of(token.reveal().as_bytes()), token.hash());
        assert_ne!(Token::random().expect("random bytes").reveal(), token.reveal());
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(TokenHash::of(b"").to_string(), empty);
    }

    #[test]
    fn debug_output_and_errors_show_neither_token_nor_hash() {
        let token = Token::random().expect("random bytes");
        assert_eq!(format!("{token:?} {:?}", token.hash()), "Token(redacted) TokenHash(redacted)");
        for wrong in [token.reveal(), "", "sha256:", "sha256:00", "md5:00"] {
            let error = wrong.parse::<TokenHash>().expect_err("no hash").to_string();
            assert!(wrong.is_empty() || wrong == "sha256:" || !error.contains(wrong), "{error}");
        }
    }
}
