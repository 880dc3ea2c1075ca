//! `ParseService`: parses Python sources to columnar syntax trees.

use std::{iter, sync::Arc};

use accelerd_engine::{Arrival, Context, Lane};
use accelerd_kernels::ops::parse::{
    Class, Diagnostic, Item, Located, Mode, Options, Outputs, Parse, ParseRequest, ParseResponse, SourceResult,
    SourceType, size_of,
};
use accelerd_proto::v1 as pb;
use futures::StreamExt;
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter},
};
use prost::Message;
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::caller::Caller,
    config::{Limits, to_usize},
    error::ApiError,
    grpc::{
        call::{Requests, Responses},
        context::context,
        handlers::ParseService,
    },
    layers::timing,
    status::{item_error, response_too_large},
};

/// Batches of a stream that are parsed concurrently.
const WINDOW: usize = 8;

/// Supported minor versions of Python 3; the newest is the default.
const VERSIONS: std::ops::RangeInclusive<u32> = 8..=14;

/// The service.
#[derive(Clone, Debug)]
pub struct Parser(Arc<ParserState>);

/// State shared by all calls.
#[derive(Debug)]
struct ParserState {
    lane: Lane<Parse>,
    limits: Limits,
    max_message: usize,
    metrics: ParseMetrics,
}

impl Parser {
    pub(super) fn new(app: &Arc<App>) -> Self {
        let config = &app.config;
        Self(Arc::new(ParserState {
            lane: app.engine.lane(config.lanes.lane(&config.lanes.parse)),
            limits: config.limits.clone(),
            max_message: config.server.max_message(),
            metrics: ParseMetrics::new(app.metrics.meter()),
        }))
    }

    /// Refuses a request that would miss its deadline, by the length of its message: nearly all of it are sources.
    pub(super) fn screen(&self, length: u64, context: &Context) -> Result<Arrival, Status> {
        Ok(self.0.lane.screen(size_of(length, 1), length, context).map_err(ApiError::from)?)
    }
}

impl ParseService for Parser {
    async fn parse(&self, mut request: Request<pb::ParseRequest>) -> Result<Response<pb::ParseResponse>, Status> {
        let context = context(&request);
        let arrival = request.extensions_mut().remove::<Arc<Arrival>>();
        Ok(Response::new(self.0.parse(request.into_inner(), context, arrival).await?))
    }

    fn parse_stream(
        &self,
        _: Caller,
        context: Context,
        batches: Requests<pb::ParseStreamRequest>,
    ) -> Responses<pb::ParseStreamResponse> {
        let state = Arc::clone(&self.0);
        batches.map(move |batch| Arc::clone(&state).step(batch, context.clone())).buffer_unordered(WINDOW).boxed()
    }
}

impl ParserState {
    async fn parse(
        &self,
        request: pb::ParseRequest,
        context: Context,
        arrival: Option<Arc<Arrival>>,
    ) -> Result<pb::ParseResponse, Status> {
        let request = self.check(request)?;
        let bytes = request.sources.iter().map(|source| source.len() as u64).sum();
        let done = self.lane.submit_arrived(request, context, arrival).await.map_err(ApiError::from)?;
        timing::record(&done);
        self.metrics.record(bytes, &done.response);
        let response = response(done.response);
        let size = response.encoded_len();
        if size > self.max_message {
            return Err(response_too_large(size, self.max_message));
        }
        Ok(response)
    }

    /// Parses one batch of a stream. Its error is part of the response; only an error of the stream ends it.
    async fn step(
        self: Arc<Self>,
        step: Result<pb::ParseStreamRequest, Status>,
        context: Context,
    ) -> Result<pb::ParseStreamResponse, Status> {
        use pb::parse_stream_response::Result as Outcome;
        let pb::ParseStreamRequest { sequence, parse } = step?;
        let parsed = match parse {
            Some(request) => self.parse(request, context, None).await,
            None => Err(ApiError::invalid("parse", "expected sources, got none").into()),
        };
        let outcome = parsed.map_or_else(|status| Outcome::Error(item_error(&status)), Outcome::Parse);
        Ok(pb::ParseStreamResponse { sequence, result: Some(outcome) })
    }

    fn check(&self, request: pb::ParseRequest) -> Result<ParseRequest, ApiError> {
        let pb::ParseRequest { sources, feature_version, outputs, source_types, mode } = request;
        let count = sources.len();
        let max = self.limits.max_sources;
        if !(1..=max).contains(&count) {
            return Err(ApiError::invalid("sources", format!("expected 1 to {max} sources, got {count}")));
        }
        let max = to_usize(self.limits.max_source_bytes);
        if let Some((nth, source)) = sources.iter().enumerate().find(|(_, source)| source.len() > max) {
            let reason = format!("expected at most {max} bytes, got {}", source.len());
            return Err(ApiError::invalid(format!("sources[{nth}]"), reason));
        }
        let mut types = self::source_types(&source_types, count)?;
        let source_type = if types.len() == 1 { types.remove(0) } else { SourceType::default() };
        let options = Options { feature_version: version(feature_version)?, source_type, mode: self::mode(mode)? };
        Ok(ParseRequest { sources, options, types, outputs: self::outputs(&outputs)? })
    }
}

fn version(minor: u32) -> Result<u8, ApiError> {
    let oldest = VERSIONS.start();
    let newest = VERSIONS.end();
    let minor = if minor == 0 { *newest } else { minor };
    let known = u8::try_from(minor).ok().filter(|_| VERSIONS.contains(&minor));
    known.ok_or_else(|| {
        let reason = format!("expected {oldest} to {newest}, the minor version of Python 3, got {minor}");
        ApiError::invalid("feature_version", reason)
    })
}

/// The types of `count` sources: none, one for all, or one each.
fn source_types(types: &[i32], count: usize) -> Result<Vec<SourceType>, ApiError> {
    if types.len() > 1 && types.len() != count {
        let reason = format!("expected 0, 1 or {count} source types, as many as sources, got {}", types.len());
        return Err(ApiError::invalid("source_types", reason));
    }
    let source_type = |(nth, &number): (usize, &i32)| match pb::SourceType::try_from(number) {
        Ok(pb::SourceType::Unspecified | pb::SourceType::File) => Ok(SourceType::File),
        Ok(pb::SourceType::Text) => Ok(SourceType::Text),
        Err(_) => {
            let reason = format!("expected a SourceType, got {number}");
            Err(ApiError::invalid(format!("source_types[{nth}]"), reason))
        }
    };
    types.iter().enumerate().map(source_type).collect()
}

fn mode(mode: i32) -> Result<Mode, ApiError> {
    match pb::ParseMode::try_from(mode) {
        Ok(pb::ParseMode::Unspecified | pb::ParseMode::Exec) => Ok(Mode::Exec),
        Ok(pb::ParseMode::Eval) => Ok(Mode::Eval),
        Ok(pb::ParseMode::Single) => Ok(Mode::Single),
        Err(_) => Err(ApiError::invalid("mode", format!("expected a ParseMode, got {mode}"))),
    }
}

fn outputs(requested: &[i32]) -> Result<Outputs, ApiError> {
    let mut outputs = Outputs { tree: requested.is_empty(), ..Outputs::default() };
    for (nth, &output) in requested.iter().enumerate() {
        match pb::ParseOutput::try_from(output) {
            Ok(pb::ParseOutput::Tree) => outputs.tree = true,
            Ok(pb::ParseOutput::Tokens) => outputs.tokens = true,
            Ok(pb::ParseOutput::Comments) => outputs.comments = true,
            Ok(pb::ParseOutput::Outline) => outputs.outline = true,
            Ok(pb::ParseOutput::LineStarts) => outputs.line_starts = true,
            Ok(pb::ParseOutput::Unspecified) | Err(_) => {
                let reason = format!("expected a ParseOutput other than UNSPECIFIED, got {output}");
                return Err(ApiError::invalid(format!("outputs[{nth}]"), reason));
            }
        }
    }
    Ok(outputs)
}

fn response(response: ParseResponse) -> pb::ParseResponse {
    let ParseResponse { results, columns } = response;
    pb::ParseResponse {
        results: results.into_iter().map(result).collect(),
        nodes: Some(pb::NodeColumns {
            kinds: columns.kinds.into_bytes(),
            fields: columns.fields.into_bytes(),
            parents: columns.parents.into_bytes(),
            starts: columns.starts.into_bytes(),
            ends: columns.ends.into_bytes(),
            aux: columns.aux.into_bytes(),
        }),
        names: Some(pb::SpanColumns { starts: columns.name_starts.into_bytes(), ends: columns.name_ends.into_bytes() }),
        values: Some(pb::ValueColumns {
            tags: columns.value_tags.into_bytes(),
            starts: columns.value_starts.into_bytes(),
            ends: columns.value_ends.into_bytes(),
        }),
        extra: columns.extra.into_bytes(),
        line_starts: columns.line_starts.into_bytes(),
        tokens: Some(pb::TokenColumns {
            kinds: columns.token_kinds.into_bytes(),
            starts: columns.token_starts.into_bytes(),
            ends: columns.token_ends.into_bytes(),
        }),
        comments: Some(pb::SpanColumns {
            starts: columns.comment_starts.into_bytes(),
            ends: columns.comment_ends.into_bytes(),
        }),
    }
}

fn result(result: SourceResult) -> pb::SourceResult {
    let counts = result.counts;
    pb::SourceResult {
        diagnostic: result.diagnostic.map(diagnostic),
        node_count: counts.nodes,
        name_count: counts.names,
        value_count: counts.values,
        extra_size: counts.extra,
        line_count: counts.lines,
        token_count: counts.tokens,
        comment_count: counts.comments,
        text: result.text,
        outline: result.outline.into_iter().map(outline_item).collect(),
    }
}

fn diagnostic(error: Diagnostic) -> pb::Diagnostic {
    let Diagnostic { class, start, end, message, position, .. } = error;
    let from_one = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    pb::Diagnostic {
        class: class as i32,
        message: message.into_owned(),
        line: from_one(position.lineno),
        column: from_one(position.offset),
        start,
        end,
        lineno: position.lineno,
        offset: position.offset,
        end_lineno: position.end_lineno,
        end_offset: position.end_offset,
    }
}

fn outline_item(Located { item, line, end_line, .. }: Located<Item>) -> pb::OutlineItem {
    let (docstring_start, docstring_end) = item.docstring.unwrap_or_default();
    pb::OutlineItem {
        kind: item.kind as i32,
        name: item.name,
        start: item.start,
        end: item.end,
        line,
        end_line,
        parent: item.parent,
        docstring_start,
        docstring_end,
    }
}

/// Instruments; the sum of each histogram is the total over all requests.
#[derive(Debug)]
struct ParseMetrics {
    sources: Histogram<u64>,
    bytes: Histogram<u64>,
    nodes: Histogram<u64>,
    results_by_class: Counter<u64>,
}

impl ParseMetrics {
    fn new(meter: &Meter) -> Self {
        let histogram = |name, description, largest: u32| {
            let boundaries = (0..=largest).step_by(2).map(|exponent| 2_f64.powi(exponent.cast_signed())).collect();
            meter.u64_histogram(name).with_description(description).with_boundaries(boundaries).build()
        };
        Self {
            sources: histogram("accelerd_parse_sources", "Sources in a parse request.", 16),
            bytes: histogram("accelerd_parse_bytes", "Size of the sources in a parse request in bytes.", 26),
            nodes: histogram("accelerd_parse_nodes", "Syntax tree nodes in a parse response.", 26),
            results_by_class: meter
                .u64_counter("accelerd_parse_results")
                .with_description("Parsed sources, by result: ok or the class of the syntax error.")
                .build(),
        }
    }

    /// Records a request with `bytes` of source.
    fn record(&self, bytes: u64, response: &ParseResponse) {
        self.sources.record(response.results.len() as u64, &[]);
        self.bytes.record(bytes, &[]);
        self.nodes.record(response.columns.kinds.len() as u64, &[]);
        let mut counts = [0; Class::ALL.len() + 1];
        for result in &response.results {
            counts[result.diagnostic.as_ref().map_or(0, |diagnostic| diagnostic.class as usize)] += 1;
        }
        let names = iter::once("ok").chain(Class::ALL.into_iter().map(Class::name));
        for (name, count) in names.zip(counts).filter(|(_, count)| *count > 0) {
            self.results_by_class.add(count, &[KeyValue::new("result", name)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use accelerd_parser::{Class, Field, Kind, Operator, Tag, Terminal};

    use super::*;

    /// Converts `FunctionDef` to `FUNCTION_DEF`.
    fn screaming_snake_case(name: &str) -> String {
        let mut converted = String::new();
        let mut after_lowercase = false;
        for letter in name.chars() {
            if after_lowercase && letter.is_uppercase() {
                converted.push('_');
            }
            after_lowercase = letter.is_lowercase();
            converted.push(letter.to_ascii_uppercase());
        }
        converted
    }

    #[test]
    fn proto_enums_match_the_parser() {
        for kind in Kind::ALL.iter().copied() {
            let wire = pb::NodeKind::try_from(kind as i32).expect("each kind is known");
            // Java's enums would have both a value MATCH_VALUE and a constant of that name for a value MATCH.
            let name = if kind == Kind::Match {
                "MATCH_STATEMENT".to_owned()
            } else {
                screaming_snake_case(&format!("{kind:?}"))
            };
            assert_eq!(wire.as_str_name(), format!("NODE_KIND_{name}"));
        }
        for field in Field::ALL.iter().copied() {
            let wire = pb::NodeField::try_from(field as i32).expect("each field is known");
            assert_eq!(wire.as_str_name(), format!("NODE_FIELD_{}", field.name().to_uppercase()));
        }
        for operator in Operator::ALL.iter().copied() {
            let wire = pb::Operator::try_from(operator as i32).expect("each operator is known");
            assert_eq!(wire.as_str_name(), format!("OPERATOR_{}", screaming_snake_case(&format!("{operator:?}"))));
        }
        for tag in Tag::ALL {
            let wire = pb::ValueTag::try_from(tag as i32).expect("each tag is known");
            assert_eq!(wire.as_str_name(), format!("VALUE_TAG_{}", screaming_snake_case(&format!("{tag:?}"))));
        }
        for class in Class::ALL {
            let wire = pb::DiagnosticClass::try_from(class as i32).expect("each class is known");
            assert_eq!(wire.as_str_name(), format!("DIAGNOSTIC_CLASS_{}", screaming_snake_case(class.name())));
        }
        let last = Terminal::Tilde as usize;
        for terminal in &Terminal::ALL[..=last] {
            let wire = pb::TokenKind::try_from(*terminal as i32 + 1).expect("each token is known");
            assert_eq!(wire.as_str_name(), format!("TOKEN_KIND_{}", screaming_snake_case(&format!("{terminal:?}"))));
        }
    }
}
