//! Message compression. Requests may be compressed. Responses are compressed only if the client asks through its own metadata
//! key: Python's and Go's gRPC accept gzip on every call, and deflating vectors or trees costs far more than sending them.

use std::io::{self, Write as _};

use accelerd_http::{Decompressed, read_within, zstd_decoder};
use http::{HeaderMap, HeaderValue};
use tonic::Status;

use crate::{error::ApiError, transport::call::Charge};

/// Metadata key that requests a compressed response: `gzip`, `deflate` or `zstd`.
pub const COMPRESSION: &str = "accelerd-compression";

/// Supported encodings, as the value of `grpc-accept-encoding`.
const ACCEPTED: &str = "gzip,deflate,zstd,identity";

/// A compression algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    /// The format of zlib, as in HTTP.
    Deflate,
    Zstd,
}

impl Encoding {
    fn parse(name: &[u8]) -> Option<Self> {
        match name {
            b"gzip" => Some(Self::Gzip),
            b"deflate" => Some(Self::Deflate),
            b"zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The encoding of a request's messages.
    pub(super) fn of_request(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        let Some(name) = headers.get("grpc-encoding").map(HeaderValue::as_bytes) else { return Ok(None) };
        let known = Self::parse(name);
        if known.is_none() && name != b"identity" {
            let name = String::from_utf8_lossy(name);
            let mut status =
                Status::unimplemented(format!("expected grpc-encoding gzip, deflate, zstd or identity, got {name:?}"));
            let accepted = tonic::metadata::MetadataValue::from_static(ACCEPTED);
            status.metadata_mut().insert("grpc-accept-encoding", accepted);
            return Err(status);
        }
        Ok(known)
    }

    /// The encoding of responses: the requested one if the client also accepts it.
    pub(super) fn of_response(headers: &HeaderMap) -> Option<Self> {
        let requested = headers.get(COMPRESSION)?;
        let accepted = headers.get("grpc-accept-encoding")?.to_str().ok()?;
        let is_accepted = accepted.split(',').any(|name| name.trim().as_bytes() == requested.as_bytes());
        Self::parse(requested.as_bytes()).filter(|_| is_accepted)
    }

    /// The value of `grpc-encoding`.
    pub(super) fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        })
    }

    /// Appends the compressed message to `out`.
    pub(super) fn compress(self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
        let compressed = match self {
            Self::Gzip => {
                let mut writer = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                writer.write_all(message).and_then(|()| writer.finish().map(|_| ()))
            }
            Self::Deflate => {
                let mut writer = flate2::write::ZlibEncoder::new(out, flate2::Compression::default());
                writer.write_all(message).and_then(|()| writer.finish().map(|_| ()))
            }
            Self::Zstd => zstd::stream::copy_encode(message, out, zstd::DEFAULT_COMPRESSION_LEVEL),
        };
        compressed.map_err(|error| Status::internal(format!("the response was not compressed: {error}")))
    }

    /// Decompresses a message to at most `limit` bytes, charging them as they are produced.
    pub(super) fn decompress(
        self,
        message: &[u8],
        limit: usize,
        charge: &mut Charge,
    ) -> Result<Vec<u8>, DecompressError> {
        let mut charge = |bytes| charge.grow(bytes);
        let read = match self {
            Self::Gzip => read_within(flate2::read::GzDecoder::new(message), limit, &mut charge),
            Self::Deflate => read_within(flate2::read::ZlibDecoder::new(message), limit, &mut charge),
            Self::Zstd => zstd_decoder(message).and_then(|decoder| read_within(decoder, limit, &mut charge)),
        };
        match read.map_err(DecompressError::Malformed)? {
            Decompressed::Whole(out) => Ok(out),
            Decompressed::TooLarge => Err(DecompressError::TooLarge),
            Decompressed::Refused(refusal) => Err(DecompressError::Memory(refusal)),
        }
    }
}

/// Adds the supported encodings to response headers.
pub(super) fn add_accepted(headers: &mut HeaderMap) {
    headers.insert("grpc-accept-encoding", HeaderValue::from_static(ACCEPTED));
}

/// Why a message was not decompressed.
#[derive(Debug)]
pub(super) enum DecompressError {
    /// It exceeds the limit.
    TooLarge,
    /// It is not valid in its encoding.
    Malformed(io::Error),
    /// Memory is exhausted.
    Memory(ApiError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{
        call::Call,
        memory::{MemoryKind, TransportMemory},
    };

    const ALL: [Encoding; 3] = [Encoding::Gzip, Encoding::Deflate, Encoding::Zstd];

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|&(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value))).collect()
    }

    fn charge() -> (std::sync::Arc<TransportMemory>, Charge) {
        let memory = TransportMemory::new(64 << 20);
        let charge = Call::new(std::sync::Arc::clone(&memory)).charge(MemoryKind::Request);
        (memory, charge)
    }

    #[test]
    fn responses_are_compressed_only_if_the_client_requests_and_accepts_it() {
        let offered = ("grpc-accept-encoding", "identity, br, gzip");
        assert_eq!(Encoding::of_response(&headers(&[offered])), None, "accepting is not requesting");
        assert_eq!(Encoding::of_response(&headers(&[offered, (COMPRESSION, "gzip")])), Some(Encoding::Gzip));
        assert_eq!(Encoding::of_response(&headers(&[offered, (COMPRESSION, "zstd")])), None, "not accepted");
        assert_eq!(Encoding::of_response(&headers(&[offered, (COMPRESSION, "br")])), None, "not supported");
        assert_eq!(Encoding::of_response(&headers(&[(COMPRESSION, "gzip")])), None);
    }

    #[test]
    fn unknown_request_encodings_are_refused_with_the_supported_ones() {
        assert_eq!(Encoding::of_request(&headers(&[])).expect("none"), None);
        assert_eq!(Encoding::of_request(&headers(&[("grpc-encoding", "identity")])).expect("none"), None);
        assert_eq!(Encoding::of_request(&headers(&[("grpc-encoding", "zstd")])).expect("known"), Some(Encoding::Zstd));
        let refused = Encoding::of_request(&headers(&[("grpc-encoding", "br")])).expect_err("unknown");
        assert_eq!(refused.code(), tonic::Code::Unimplemented);
        assert!(refused.metadata().get("grpc-accept-encoding").is_some());
    }

    #[test]
    fn compression_round_trips_and_is_charged() {
        let message: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        for encoding in ALL {
            let (memory, mut charge) = charge();
            let mut compressed = vec![];
            encoding.compress(&message, &mut compressed).expect("compresses");
            let out = encoding.decompress(&compressed, message.len(), &mut charge).expect("decompresses");
            assert_eq!((out == message, memory.used()), (true, message.len() as u64), "{encoding:?}");
        }
    }

    #[test]
    fn decompression_stops_at_the_limit() {
        for encoding in ALL {
            let mut bomb = vec![];
            encoding.compress(&vec![0; 16 << 20], &mut bomb).expect("compresses");
            let (memory, mut charge) = charge();
            let refused = encoding.decompress(&bomb, 100_000, &mut charge).expect_err("too large");
            assert!(matches!(refused, DecompressError::TooLarge), "{refused:?}");
            assert!(memory.used() <= 100_000, "{encoding:?} was charged {}", memory.used());
        }
    }

    #[test]
    fn garbage_is_malformed() {
        for encoding in ALL {
            let refused = encoding.decompress(&[7; 100], 1000, &mut charge().1).expect_err("garbage");
            assert!(matches!(refused, DecompressError::Malformed(_)), "{encoding:?}: {refused:?}");
        }
    }
}
