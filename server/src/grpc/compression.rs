//! Compressed messages. Requests may come compressed. Answers are compressed only where the caller asks with metadata of
//! ours: Python's and Go's gRPC offer gzip on every call, and deflating vectors or trees costs far more than sending them.

use std::io::{self, Read, Write as _};

use http::{HeaderMap, HeaderValue};
use tonic::Status;

use crate::transport::call::Charge;

/// The request metadata that asks for a compressed answer: `gzip` or `zstd`.
pub const ASK: &str = "accelerd-compression";

/// The encodings that requests may have, in the words of `grpc-accept-encoding`.
const ACCEPTED: &str = "gzip,zstd,identity";

/// Bytes that are decompressed before the next are charged.
const STEP: usize = 64 << 10;

/// The largest window a zstd frame may ask for, as a power of two: what `zstd -19` needs.
const ZSTD_WINDOW_LOG: u32 = 23;

/// How a message is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Zstd,
}

impl Encoding {
    fn parse(name: &[u8]) -> Option<Self> {
        match name {
            b"gzip" => Some(Self::Gzip),
            b"zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// How the messages of a request are compressed.
    pub(super) fn of_request(headers: &HeaderMap) -> Result<Option<Self>, Status> {
        let Some(name) = headers.get("grpc-encoding").map(HeaderValue::as_bytes) else { return Ok(None) };
        let known = Self::parse(name);
        if known.is_none() && name != b"identity" {
            let name = String::from_utf8_lossy(name);
            let mut status =
                Status::unimplemented(format!("expected grpc-encoding gzip, zstd or identity, got {name:?}"));
            let accepted = tonic::metadata::MetadataValue::from_static(ACCEPTED);
            status.metadata_mut().insert("grpc-accept-encoding", accepted);
            return Err(status);
        }
        Ok(known)
    }

    /// How the caller wants answers: as asked for, if it takes that.
    pub(super) fn of_answer(headers: &HeaderMap) -> Option<Self> {
        let asked = headers.get(ASK)?;
        let accepted = headers.get("grpc-accept-encoding")?.to_str().ok()?;
        let takes = accepted.split(',').any(|name| name.trim().as_bytes() == asked.as_bytes());
        Self::parse(asked.as_bytes()).filter(|_| takes)
    }

    /// The value of `grpc-encoding`.
    pub(super) fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }

    /// Compresses onto the end of `out`.
    pub(super) fn compress(self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
        let compressed = match self {
            Self::Gzip => {
                let mut writer = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                writer.write_all(message).and_then(|()| writer.finish().map(|_| ()))
            }
            Self::Zstd => zstd::stream::copy_encode(message, out, zstd::DEFAULT_COMPRESSION_LEVEL),
        };
        compressed.map_err(|error| Status::internal(format!("the answer was not compressed: {error}")))
    }

    /// Decompresses a message of at most `limit` bytes, which are charged as they come out.
    pub(super) fn decompress(self, message: &[u8], limit: usize, charge: &mut Charge) -> Result<Vec<u8>, Decompress> {
        match self {
            Self::Gzip => read(flate2::read::GzDecoder::new(message), limit, charge),
            Self::Zstd => {
                let mut reader = zstd::Decoder::new(message).map_err(Decompress::Malformed)?;
                reader.window_log_max(ZSTD_WINDOW_LOG).map_err(Decompress::Malformed)?;
                read(reader, limit, charge)
            }
        }
    }
}

/// Tells callers which encodings they may use.
pub(super) fn announce(headers: &mut HeaderMap) {
    headers.insert("grpc-accept-encoding", HeaderValue::from_static(ACCEPTED));
}

/// Why a message was not decompressed.
#[derive(Debug)]
pub(super) enum Decompress {
    /// It grows beyond the limit.
    TooLarge,
    /// It is not what its encoding says.
    Malformed(io::Error),
    /// There is no memory for it.
    Full(Status),
}

fn read(mut reader: impl Read, limit: usize, charge: &mut Charge) -> Result<Vec<u8>, Decompress> {
    let mut out = vec![];
    loop {
        let step = STEP.min(limit - out.len() + 1);
        let before = out.len();
        let read = reader.by_ref().take(step as u64).read_to_end(&mut out).map_err(Decompress::Malformed)?;
        if read == 0 {
            return Ok(out);
        }
        if out.len() > limit {
            return Err(Decompress::TooLarge);
        }
        charge.grow((out.len() - before) as u64).map_err(Decompress::Full)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{
        call::Call,
        memory::{Kind, Memory},
    };

    const BOTH: [Encoding; 2] = [Encoding::Gzip, Encoding::Zstd];

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|&(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value))).collect()
    }

    fn charge() -> (std::sync::Arc<Memory>, Charge) {
        let memory = Memory::new(64 << 20);
        let charge = Call::new(std::sync::Arc::clone(&memory), None).charge(Kind::Request);
        (memory, charge)
    }

    #[test]
    fn answers_are_compressed_only_where_the_caller_asks_and_accepts() {
        let offered = ("grpc-accept-encoding", "identity, deflate, gzip");
        assert_eq!(Encoding::of_answer(&headers(&[offered])), None, "an offer is no request");
        assert_eq!(Encoding::of_answer(&headers(&[offered, (ASK, "gzip")])), Some(Encoding::Gzip));
        assert_eq!(Encoding::of_answer(&headers(&[offered, (ASK, "zstd")])), None, "it is not accepted");
        assert_eq!(Encoding::of_answer(&headers(&[offered, (ASK, "deflate")])), None, "it is not known");
        assert_eq!(Encoding::of_answer(&headers(&[(ASK, "gzip")])), None);
    }

    #[test]
    fn unknown_encodings_of_requests_are_refused_with_those_that_are_known() {
        assert_eq!(Encoding::of_request(&headers(&[])).expect("none"), None);
        assert_eq!(Encoding::of_request(&headers(&[("grpc-encoding", "identity")])).expect("none"), None);
        assert_eq!(Encoding::of_request(&headers(&[("grpc-encoding", "zstd")])).expect("known"), Some(Encoding::Zstd));
        let refused = Encoding::of_request(&headers(&[("grpc-encoding", "br")])).expect_err("unknown");
        assert_eq!(refused.code(), tonic::Code::Unimplemented);
        assert!(refused.metadata().get("grpc-accept-encoding").is_some());
    }

    #[test]
    fn what_was_compressed_comes_back_and_is_charged() {
        let message: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        for encoding in BOTH {
            let (memory, mut charge) = charge();
            let mut compressed = vec![];
            encoding.compress(&message, &mut compressed).expect("compresses");
            let out = encoding.decompress(&compressed, message.len(), &mut charge).expect("decompresses");
            assert_eq!((out == message, memory.held()), (true, message.len() as u64), "{encoding:?}");
        }
    }

    #[test]
    fn a_bomb_is_cut_off_at_the_limit() {
        for encoding in BOTH {
            let mut bomb = vec![];
            encoding.compress(&vec![0; 16 << 20], &mut bomb).expect("compresses");
            let (memory, mut charge) = charge();
            let refused = encoding.decompress(&bomb, 100_000, &mut charge).expect_err("too large");
            assert!(matches!(refused, Decompress::TooLarge), "{refused:?}");
            assert!(memory.held() <= 100_000, "{encoding:?} was charged {}", memory.held());
        }
    }

    #[test]
    fn garbage_is_malformed() {
        for encoding in BOTH {
            let refused = encoding.decompress(&[7; 100], 1000, &mut charge().1).expect_err("garbage");
            assert!(matches!(refused, Decompress::Malformed(_)), "{encoding:?}: {refused:?}");
        }
    }
}
