//! Python source to the syntax tree that CPython builds, as columns that are read in place.

mod batch;
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
    call::{Method, last},
    proto::{self, ParseOutput, parse_stream_response},
    timing::Timings,
};

const PARSE: Method<proto::ParseRequest, proto::ParseResponse> = Method::repeatable("/accelerd.v1.ParseService/Parse");
const PARSE_STREAM: Method<proto::ParseStreamRequest, proto::ParseStreamResponse> =
    Method::repeatable("/accelerd.v1.ParseService/ParseStream");

/// Which grammar, and what to return. The default is trees by the newest grammar.
///
/// ```
/// use accelerd_client::{ParseOptions, proto::ParseOutput};
///
/// let options = ParseOptions::of([ParseOutput::Outline, ParseOutput::Comments]).feature_version(12);
/// assert_eq!(options.outputs.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
    /// Minor version of the grammar, as `ast.parse(feature_version=(3, n))`; 0 means the newest.
    pub feature_version: u32,
    /// What to return besides the verdict; empty means trees.
    pub outputs: Vec<ParseOutput>,
}

impl ParseOptions {
    /// These outputs, by the newest grammar.
    pub fn of(outputs: impl IntoIterator<Item = ParseOutput>) -> Self {
        Self { feature_version: 0, outputs: outputs.into_iter().collect() }
    }

    /// By the grammar of Python 3.n.
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

/// The outcome of one batch of a stream.
#[derive(Debug)]
pub struct ParseOutcome {
    /// Which batch, counted from 0.
    pub sequence: u64,
    /// Its sources, or why none of them was parsed.
    pub result: Result<ParsedBatch>,
}

impl Client {
    /// Parses Python sources, given as the bytes of their files. A source that is not Python has a diagnostic; the call
    /// succeeds.
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
        let reply = self.unary(PARSE, options.request(sources.clone())).await?;
        ParsedBatch::new(reply.message, sources, options, reply.timings)
    }

    /// Parses batch after batch. Each is answered as it finishes, perhaps before an earlier one. Nothing is retried.
    pub async fn parse_stream(
        &self,
        batches: impl Stream<Item = Vec<Bytes>> + Send + 'static,
        options: &ParseOptions,
    ) -> Result<BoxStream<'static, Result<ParseOutcome>>> {
        let sent = Arc::new(Sent::default());
        let (noted, asked, mut sequences) = (sent.clone(), options.clone(), 0..);
        let requests = batches.map(move |sources| {
            let sequence = sequences.next().unwrap_or_default();
            noted.insert(sequence, sources.clone());
            proto::ParseStreamRequest { sequence, parse: Some(asked.request(sources)) }
        });
        let answers = self.both_stream(PARSE_STREAM, requests).await?;
        let options = options.clone();
        Ok(answers.map(move |answer| answer.map_err(last).and_then(|answer| outcome(answer, &sent, &options))).boxed())
    }
}

/// Sources sent and not answered: trees refer to them.
#[derive(Default)]
struct Sent(Mutex<HashMap<u64, Vec<Bytes>>>);

impl Sent {
    fn insert(&self, sequence: u64, sources: Vec<Bytes>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(sequence, sources);
    }

    fn take(&self, sequence: u64) -> Result<Vec<Bytes>> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&sequence);
        sources.ok_or_else(|| Error::Malformed(format!("an answer to batch {sequence}, which was not sent or has one")))
    }
}

fn outcome(answer: proto::ParseStreamResponse, sent: &Sent, options: &ParseOptions) -> Result<ParseOutcome> {
    use parse_stream_response::Result as Step;
    let sources = sent.take(answer.sequence)?;
    let result = match answer.result {
        Some(Step::Parse(response)) => ParsedBatch::new(response, sources, options, Timings::default()),
        Some(Step::Error(error)) => Err(error.into()),
        None => return Err(Error::Malformed(format!("batch {} without an outcome", answer.sequence))),
    };
    Ok(ParseOutcome { sequence: answer.sequence, result })
}
