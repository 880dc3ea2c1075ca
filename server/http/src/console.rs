//! The console: a page that shows and calls the daemon by the JSON of its methods. The page itself has no data, so it needs no token.
//! `console/` has its source; the build embeds `console/dist/`.

use std::{io::Write, sync::OnceLock};

use axum::{
    Router,
    body::Body,
    extract::Path,
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

use crate::{api::json_rpc, exchange::refused, failure::Failure, shared::Shared};

/// Only the page's own files run, and they call only this port. Text cannot become markup: the page has no policy of trusted types, so
/// browsers refuse to parse any.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of all files.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    // A browser asks whether its copy is current: a new version of the daemon has new files at the same paths.
    (header::CACHE_CONTROL, "no-cache"),
    (header::VARY, "accept-encoding"),
];

/// A file of the console.
struct Asset {
    /// The name under `/console/`; empty for the page itself.
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
    encoded: OnceLock<Encoded>,
}

/// What requests need of a file.
struct Encoded {
    gzip: Bytes,
    etag: HeaderValue,
}

macro_rules! asset {
    ($name:literal, $file:literal, $content_type:literal) => {
        Asset {
            name: $name,
            content_type: $content_type,
            content: include_bytes!(concat!("../console/dist/", $file)),
            encoded: OnceLock::new(),
        }
    };
}

static ASSETS: [Asset; 4] = [
    asset!("", "index.html", "text/html; charset=utf-8"),
    asset!("console.js", "console.js", "text/javascript; charset=utf-8"),
    asset!("console.css", "console.css", "text/css; charset=utf-8"),
    asset!("icon.svg", "icon.svg", "image/svg+xml"),
];

/// The routes of the console.
pub(crate) fn routes() -> Router<Shared> {
    let page = |headers: HeaderMap| async move { ASSETS[0].respond(&headers) };
    Router::new().route("/console", get(page)).route("/console/{name}", get(file))
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => asset.respond(&headers),
        None => {
            refused(json_rpc::error, &Failure::new(StatusCode::NOT_FOUND, format!("the console has no file {name:?}")))
        }
    }
}

impl Asset {
    fn respond(&self, asked: &HeaderMap) -> Response {
        let encoded = self.encoded.get_or_init(|| Encoded::new(self.content));
        let mut response = HEADERS.into_response();
        let headers = response.headers_mut();
        headers.insert(header::ETAG, encoded.etag.clone());
        let lists = |name, value: &str| {
            let values = asked.get_all(name).iter().filter_map(|values| values.to_str().ok());
            values.flat_map(|values| values.split(',')).any(|one| one.trim() == value)
        };
        if lists(header::IF_NONE_MATCH, encoded.etag.to_str().expect("digits and quotes")) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        let content = if lists(header::ACCEPT_ENCODING, "gzip") {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            encoded.gzip.clone()
        } else {
            Bytes::from_static(self.content)
        };
        headers.insert(header::CONTENT_LENGTH, content.len().into());
        *response.body_mut() = Body::from(content);
        response
    }
}

impl Encoded {
    fn new(content: &[u8]) -> Self {
        let mut encoder = GzEncoder::new(vec![], Compression::best());
        let gzip = encoder.write_all(content).and_then(|()| encoder.finish()).expect("memory can be written");
        // The compressed form is another representation of the same content, which a weak tag may share.
        let etag = format!("W/\"{:x}\"", Sha256::digest(content));
        Self { gzip: gzip.into(), etag: etag.parse().expect("digits and quotes") }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn the_files_fit_into_200_kb_compressed() {
        let mut size = 0;
        for asset in &ASSETS {
            let Encoded { gzip, .. } = Encoded::new(asset.content);
            let mut decoded = vec![];
            GzDecoder::new(&gzip[..]).read_to_end(&mut decoded).expect("gzip");
            assert_eq!(decoded, asset.content, "{}", asset.name);
            size += gzip.len();
        }
        assert!(size <= 200_000, "{size} bytes");
    }

    #[test]
    fn the_page_has_no_inline_script_or_style_and_needs_no_other_host() {
        let page = std::str::from_utf8(ASSETS[0].content).expect("UTF-8");
        for absent in ["http://", "https://", "<style", " style=", "javascript:"] {
            assert!(!page.contains(absent), "{absent}");
        }
        for script in page.match_indices("<script").map(|(at, _)| &page[at..]) {
            assert!(script.contains("src=\"/console/console.js\"></script>"), "{script}");
        }
        for asset in &ASSETS[1..] {
            assert!(page.contains(&format!("\"/console/{}\"", asset.name)), "{}", asset.name);
        }
    }
}
