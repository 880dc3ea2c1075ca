//! Parses Python to CPython's syntax tree, as columns that are read in place.

mod batch;
mod columns;
mod dump;
mod lines;
mod literal;
mod outline;
mod repr;
mod schema;
mod tree;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use accelerd_proto::methods::parse_service;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};

pub use self::{
    batch::{Comment, Diagnostic, Parsed, ParsedBatch, Token},
    dump::DumpOptions,
    lines::{Lines, Position},
    literal::{Int, Literal},
    outline::OutlineItem,
    tree::{Context, Node, Tree},
};
use crate::{
    Client, Error, Result,
    proto::{self, ParseOutput, parse_stream_response},
    resume::Resend,
    timing::Timings,
};

/// Grammar version and outputs. The default is trees by the newest grammar.
///
/// ```
/// use accelerd_client::{ParseOptions, proto::ParseOutput};
///
/// let options = ParseOptions::of([ParseOutput::Outline, ParseOutput::Comments]).feature_version(12);
/// assert_eq!(options.outputs.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
    /// Minor version of the grammar, as in `ast.parse(feature_version=(3, n))`; 0 means the newest.
    pub feature_version: u32,
    /// Outputs to return; empty means trees. Diagnostics are always returned.
    pub outputs: Vec<ParseOutput>,
}

impl ParseOptions {
    /// Options for these outputs, by the newest grammar.
    pub fn of(outputs: impl IntoIterator<Item = ParseOutput>) -> Self {
        Self { feature_version: 0, outputs: outputs.into_iter().collect() }
    }

    /// Sets the grammar to that of Python 3.n.
    #[must_use]
    pub fn feature_version(mut self, minor: u32) -> Self {
        self.feature_version = minor;
        self
    }

    fn request(&self, sources: Vec<Bytes>) -> proto::ParseRequest {
        proto::ParseRequest {
            sources,
            feature_version: self.feature_version,
            outputs: self.outputs.iter().map(|output| i32::from(*output)).collect(),
            ..proto::ParseRequest::default()
        }
    }

    fn has(&self, output: ParseOutput) -> bool {
        self.outputs.contains(&output) || (output == ParseOutput::Tree && self.outputs.is_empty())
    }
}

/// Outcome of one batch of a stream.
#[derive(Debug)]
pub struct ParseOutcome {
    /// Index of the batch.
    pub sequence: u64,
    /// Results of its sources, or why the batch failed.
    pub result: Result<ParsedBatch>,
}

impl Client {
    /// Parses Python sources, given as the bytes of their files. The result of a source with a syntax error has a
    /// diagnostic; the call succeeds.
    ///
    /// ```no_run
    /// # async fn run(client: accelerd_client::Client) -> Result<(), accelerd_client::Error> {
    /// use accelerd_client::{DumpOptions, ParseOptions};
    ///
    /// let batch = client.parse(["x += f(1)", "x +="], &ParseOptions::default()).await?;
    /// for parsed in &batch {
    ///     match (parsed.tree(), parsed.diagnostic()) {
    ///         (Some(tree), _) => eprintln!("{}", tree.dump(&DumpOptions::default())),
    ///         (None, diagnostic) => eprintln!("{diagnostic:?}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn parse(
        &self,
        sources: impl IntoIterator<Item = impl Into<Bytes>>,
        options: &ParseOptions,
    ) -> Result<ParsedBatch> {
        let sources: Vec<Bytes> = sources.into_iter().map(Into::into).collect();
        let reply = self.unary(parse_service::PARSE, options.request(sources.clone())).await?;
        ParsedBatch::new(reply.message, sources, options, reply.timings)
    }

    /// Parses batches over one stream. Outcomes come in the order of completion. After a lost connection, or the
    /// drain of a daemon, batches without an outcome are sent again.
    pub async fn parse_stream(
        &self,
        batches: impl Stream<Item = Vec<Bytes>> + Send + 'static,
        options: &ParseOptions,
    ) -> Result<BoxStream<'static, Result<ParseOutcome>>> {
        let pending = Arc::new(PendingSources::default());
        let inserted = pending.clone();
        let request_options = options.clone();
        let mut sequences = 0..;
        let requests = batches.map(move |sources| {
            let sequence = sequences.next().unwrap_or_default();
            inserted.insert(sequence, sources.clone());
            proto::ParseStreamRequest { sequence, parse: Some(request_options.request(sources)) }
        });
        let responses = self.resumable_stream(parse_service::PARSE_STREAM, requests, Resend::Unanswered).await?;
        let options = options.clone();
        let read = move |response: Result<_>| response.and_then(|r| outcome(r, &pending, &options));
        Ok(responses.map(read).boxed())
    }
}

/// Sources of the batches without a response: trees refer to them.
#[derive(Default)]
struct PendingSources(Mutex<HashMap<u64, Vec<Bytes>>>);

impl PendingSources {
    fn insert(&self, sequence: u64, sources: Vec<Bytes>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(sequence, sources);
    }

    fn take(&self, sequence: u64) -> Result<Vec<Bytes>> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&sequence);
        sources.ok_or_else(|| Error::Malformed(format!("unexpected sequence {sequence}")))
    }
}

fn outcome(
    response: proto::ParseStreamResponse,
    pending: &PendingSources,
    options: &ParseOptions,
) -> Result<ParseOutcome> {
    use parse_stream_response::Result as Wire;
    let sequence = response.sequence;
    let sources = pending.take(sequence)?;
    let result = match response.result {
        Some(Wire::Parse(response)) => ParsedBatch::new(response, sources, options, Timings::default()),
        Some(Wire::Error(error)) => Err(error.into()),
        None => return Err(Error::Malformed(format!("no result of batch {sequence}"))),
    };
    Ok(ParseOutcome { sequence, result })
}
