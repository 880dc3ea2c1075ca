//! The body of a request: its type, its limit, its memory, and its compression.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::{
    caller::{Account, Held},
    decompress::{Decompressed, read_within, zstd_decoder},
    failure::Failure,
};

/// Memory of a decoded value of JSON besides its text.
const VALUE_BYTES: u64 = 96;

/// A body and the memory that it holds.
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    held: Vec<Held>,
}

impl Received {
    /// Decodes JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        // Some clients start it with a byte order mark.
        let text = self.bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.bytes);
        serde_json::from_slice(text).map_err(|error| {
            let error = error.to_string();
            // Clients that cut a string within a character send half of it, which `serde_json` takes for the start of a pair.
            let hint =
                if error.contains("end of hex escape") { ", expected the other half of a surrogate pair" } else { "" };
            Failure::new(StatusCode::BAD_REQUEST, format!("the body: {error}{hint}"))
        })
    }

    /// Charges the memory of the values that the body is decoded to, which number at most one more than its separators.
    pub(crate) fn charge_json(&mut self, account: &dyn Account) -> Result<(), Failure> {
        self.charge_json_of(self.bytes.len(), account)
    }

    /// As [`Self::charge_json`], of the first `length` bytes, which the body has.
    pub(crate) fn charge_json_of(&mut self, length: usize, account: &dyn Account) -> Result<(), Failure> {
        let separators = memchr::memchr3_iter(b',', b'[', b'{', &self.bytes[..length]).count() as u64;
        let decoded = length as u64 + (separators + 1) * VALUE_BYTES;
        self.held.push(account.charge(decoded)?);
        Ok(())
    }
}

/// Refuses a body of another type. A web page can send some types, such as `text/plain`, without a preflight request. A body
/// without a type has the expected one.
pub(crate) fn expect_type(headers: &HeaderMap, expected: &[&str]) -> Result<(), Failure> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let given = value.to_str().unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if expected.iter().any(|expected| essence.eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    let message = format!("content-type: expected {}, got {given:?}", expected.join(" or "));
    Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

/// Receives a body of at most `limit` bytes, before and after it is decompressed.
pub(crate) async fn receive(
    headers: &HeaderMap,
    body: Body,
    account: &dyn Account,
    limit: usize,
) -> Result<Received, Failure> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > limit as u64) {
        return Err(too_large(limit));
    }
    let encoding = Encoding::of(headers)?;
    let received = collect(body, account, limit).await?;
    match encoding {
        None => Ok(received),
        Some(encoding) => encoding.decompress(&received.bytes, account, limit),
    }
}

async fn collect(mut body: Body, account: &dyn Account, limit: usize) -> Result<Received, Failure> {
    let waiting = account.waits_for_request();
    let mut held = vec![];
    let mut first = Bytes::new();
    let mut data = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::new(StatusCode::BAD_REQUEST, format!("the body: {error}")))?;
        let Ok(part) = frame.into_data() else { continue };
        account.received(part.len());
        if data.len() + first.len() + part.len() > limit {
            return Err(too_large(limit));
        }
        held.push(account.charge(part.len() as u64)?);
        // Most bodies are one frame, which is not copied.
        if data.is_empty() && first.is_empty() {
            first = part;
        } else {
            data.extend_from_slice(&std::mem::take(&mut first));
            data.extend_from_slice(&part);
        }
    }
    drop(waiting);
    let bytes = if data.is_empty() { first } else { data.freeze() };
    Ok(Received { bytes, held })
}

fn too_large(limit: usize) -> Failure {
    let message = format!("the body exceeds server.max_message_bytes, {limit} bytes");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// The compression of a body.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Gzip,
    Deflate,
    Zstd,
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        let value = headers.get(header::CONTENT_ENCODING).map_or(&b"identity"[..], HeaderValue::as_bytes);
        match value.to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Ok(None),
            b"gzip" | b"x-gzip" => Ok(Some(Self::Gzip)),
            b"deflate" => Ok(Some(Self::Deflate)),
            b"zstd" => Ok(Some(Self::Zstd)),
            _ => {
                let message = "content-encoding: expected gzip, deflate, zstd or identity";
                Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
            }
        }
    }

    fn decompress(self, data: &[u8], account: &dyn Account, limit: usize) -> Result<Received, Failure> {
        let malformed = |error: std::io::Error| {
            Failure::new(StatusCode::BAD_REQUEST, format!("the body cannot be decompressed: {error}"))
        };
        let mut held = vec![];
        let mut charge = |bytes| account.charge(bytes).map(|charge| held.push(charge));
        let read = match self {
            Self::Gzip => read_within(flate2::read::MultiGzDecoder::new(data), limit, &mut charge),
            Self::Deflate => read_within(flate2::read::ZlibDecoder::new(data), limit, &mut charge),
            Self::Zstd => zstd_decoder(data).and_then(|decoder| read_within(decoder, limit, &mut charge)),
        };
        match read.map_err(malformed)? {
            Decompressed::Whole(out) => Ok(Received { bytes: out.into(), held }),
            Decompressed::TooLarge => Err(too_large(limit)),
            Decompressed::Refused(refusal) => Err(refusal.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering::Relaxed},
        },
    };

    use tonic::Status;

    use super::*;

    /// An account of at most a mebibyte.
    #[derive(Clone, Default)]
    struct Mebibyte(Arc<AtomicU64>);

    struct Charge(Arc<AtomicU64>, u64);

    impl Drop for Charge {
        fn drop(&mut self) {
            self.0.fetch_sub(self.1, Relaxed);
        }
    }

    impl Account for Mebibyte {
        fn charge(&self, bytes: u64) -> Result<Held, Status> {
            let held = self.0.fetch_add(bytes, Relaxed) + bytes;
            let charge = Charge(Arc::clone(&self.0), bytes);
            if held > 1 << 20 { Err(Status::resource_exhausted("full")) } else { Ok(Box::new(charge)) }
        }

        fn charge_response(&self, bytes: u64) -> Result<Held, Status> {
            self.charge(bytes)
        }

        fn waits_for_request(&self) -> Held {
            Box::new(())
        }

        fn received(&self, _: usize) {}
    }

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
        encoder.write_all(data).and_then(|()| encoder.finish()).expect("it is written to memory")
    }

    #[tokio::test]
    async fn a_body_is_charged_until_it_is_dropped() {
        let account = Mebibyte::default();
        let mut received = receive(&HeaderMap::new(), Body::from("[1,2]"), &account, 100).await.expect("it fits");
        received.charge_json(&account).expect("it fits");
        assert_eq!(received.bytes, "[1,2]");
        assert_eq!(account.0.load(Relaxed), 5 + 5 + 3 * VALUE_BYTES);
        drop(received);
        assert_eq!(account.0.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_compressed_or_not() {
        let account = Mebibyte::default();
        let refused = async |headers: HeaderMap, body: Vec<u8>| {
            let received = receive(&headers, Body::from(body), &account, 1000).await;
            received.err().expect("it is too large").status
        };
        let bomb = gzip(&vec![0; 100_000]);
        assert!(bomb.len() < 1000);
        assert_eq!(refused(HeaderMap::new(), vec![0; 1001]).await, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(refused(headers(header::CONTENT_LENGTH, "1001"), vec![]).await, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(refused(headers(header::CONTENT_ENCODING, "gzip"), bomb).await, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(account.0.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn compressed_bodies_are_read() {
        let mut zlib = flate2::write::ZlibEncoder::new(vec![], flate2::Compression::best());
        let deflated = zlib.write_all(b"text").and_then(|()| zlib.finish()).expect("written to memory");
        let zstd = zstd::encode_all(&b"text"[..], 1).expect("written to memory");
        for (encoding, body) in [("gzip", gzip(b"text")), ("Deflate", deflated), ("zstd", zstd)] {
            let headers = headers(header::CONTENT_ENCODING, encoding);
            let received = receive(&headers, Body::from(body), &Mebibyte::default(), 100).await.expect(encoding);
            assert_eq!(received.bytes, "text");
        }
        for encoding in ["gzip", "deflate", "zstd", "br"] {
            let headers = headers(header::CONTENT_ENCODING, encoding);
            let received = receive(&headers, Body::from("text"), &Mebibyte::default(), 100).await;
            assert!(received.err().expect(encoding).status.is_client_error());
        }
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let json = |text: &'static str| Received { bytes: text.into(), held: vec![] }.json::<Vec<u8>>();
        assert_eq!(json("\u{feff}[1]").expect("JSON"), [1]);
        let refusal = json("\u{feff}\u{feff}[1]").expect_err("one is enough");
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn other_types_are_refused() {
        let expect = |value| expect_type(&headers(header::CONTENT_TYPE, value), &["application/json"]);
        expect("application/json").expect("the type itself");
        expect("Application/JSON; charset=utf-8").expect("with a parameter");
        expect_type(&HeaderMap::new(), &["application/json"]).expect("no type");
        for other in ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"] {
            let refusal = expect(other).expect_err("another type");
            assert_eq!(refusal.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{other}");
        }
    }
}
