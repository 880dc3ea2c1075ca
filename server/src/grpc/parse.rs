//! `ParseService`: Python sources to the columns of their trees.

use std::sync::Arc;

use accelerd_engine::{Context, Lane};
use accelerd_kernels::ops::parse::{
    Diagnostic, Item, Located, Mode, Options, Outputs, Parse, ParseRequest, ParseResponse, SourceResult, SourceType,
};
use accelerd_proto::v1::{
    self as pb,
    parse_service_server::{ParseService, ParseServiceServer},
};
use futures::{StreamExt, stream::BoxStream};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

mod metrics;

use crate::{
    config::{Limits, to_usize},
    error::ApiError,
    grpc::{
        context,
        status::{item_error, response_too_large},
    },
    layers::timing,
    serve::App,
};
use metrics::Metrics;

/// Batches of one stream that are parsed at once.
const WINDOW: usize = 8;

/// The oldest and newest feature version, and what 0 means.
const VERSIONS: std::ops::RangeInclusive<u32> = 8..=14;

/// The service.
#[derive(Clone, Debug)]
pub struct Parser(Arc<State>);

/// What all calls share.
#[derive(Debug)]
struct State {
    lane: Lane<Parse>,
    limits: Limits,
    max_message: usize,
    metrics: Metrics,
}

/// The service over a lane of the daemon's engine.
pub(crate) fn service(app: &Arc<App>) -> ParseServiceServer<Parser> {
    let config = &app.config;
    ParseServiceServer::new(Parser(Arc::new(State {
        lane: app.engine.lane(config.lanes.lane(&config.lanes.parse)),
        limits: config.limits.clone(),
        max_message: config.server.max_message(),
        metrics: Metrics::new(app.metrics.meter()),
    })))
}

#[tonic::async_trait]
impl ParseService for Parser {
    type ParseStreamStream = BoxStream<'static, Result<pb::ParseStreamResponse, Status>>;

    async fn parse(&self, request: Request<pb::ParseRequest>) -> Result<Response<pb::ParseResponse>, Status> {
        let context = context(&request);
        Ok(Response::new(self.0.parse(request.into_inner(), context).await?))
    }

    async fn parse_stream(
        &self,
        request: Request<Streaming<pb::ParseStreamRequest>>,
    ) -> Result<Response<Self::ParseStreamStream>, Status> {
        let (state, context) = (Arc::clone(&self.0), context(&request));
        let answers = request.into_inner().map(move |step| Arc::clone(&state).step(step, context.clone()));
        Ok(Response::new(answers.buffer_unordered(WINDOW).boxed()))
    }
}

impl State {
    async fn parse(&self, request: pb::ParseRequest, context: Context) -> Result<pb::ParseResponse, Status> {
        let request = self.check(request)?;
        let bytes = request.sources.iter().map(|source| source.len() as u64).sum();
        let done = self.lane.submit(request, context).await.map_err(ApiError::from)?;
        timing::record(&done);
        self.metrics.parsed(bytes, &done.response);
        let response = response(done.response);
        let size = response.encoded_len();
        if size > self.max_message {
            return Err(response_too_large(size, self.max_message));
        }
        Ok(response)
    }

    /// One batch of a stream. Only a broken stream ends it.
    async fn step(
        self: Arc<Self>,
        step: Result<pb::ParseStreamRequest, Status>,
        context: Context,
    ) -> Result<pb::ParseStreamResponse, Status> {
        use pb::parse_stream_response::Result as Outcome;
        let pb::ParseStreamRequest { sequence, parse } = step?;
        let parsed = match parse {
            Some(request) => self.parse(request, context).await,
            None => Err(ApiError::invalid("parse", "expected sources, got none").into()),
        };
        let outcome = parsed.map_or_else(|status| Outcome::Error(item_error(&status)), Outcome::Parse);
        Ok(pb::ParseStreamResponse { sequence, result: Some(outcome) })
    }

    fn check(&self, request: pb::ParseRequest) -> Result<ParseRequest, ApiError> {
        let pb::ParseRequest { sources, feature_version, outputs, source_types, mode } = request;
        let (count, most) = (sources.len(), self.limits.max_sources);
        if !(1..=most).contains(&count) {
            return Err(ApiError::invalid("sources", format!("expected 1 to {most} sources, got {count}")));
        }
        let most = to_usize(self.limits.max_source_bytes);
        if let Some((nth, source)) = sources.iter().enumerate().find(|(_, source)| source.len() > most) {
            let reason = format!("expected at most {most} bytes, got {}", source.len());
            return Err(ApiError::invalid(format!("sources[{nth}]"), reason));
        }
        let mut types = self::source_types(&source_types, count)?;
        let source_type = if types.len() == 1 { types.remove(0) } else { SourceType::default() };
        let options = Options { feature_version: version(feature_version)?, source_type, mode: self::mode(mode)? };
        Ok(ParseRequest { sources, options, types, outputs: self::outputs(&outputs)? })
    }
}

fn version(minor: u32) -> Result<u8, ApiError> {
    let (oldest, newest) = (VERSIONS.start(), VERSIONS.end());
    let minor = if minor == 0 { *newest } else { minor };
    let known = u8::try_from(minor).ok().filter(|_| VERSIONS.contains(&minor));
    known.ok_or_else(|| {
        let reason = format!("expected {oldest} to {newest}, the minor version of Python 3, got {minor}");
        ApiError::invalid("feature_version", reason)
    })
}

/// The type of each of `count` sources; one or none is that of all.
fn source_types(types: &[i32], count: usize) -> Result<Vec<SourceType>, ApiError> {
    if types.len() > 1 && types.len() != count {
        let reason = format!("expected 0, 1 or {count} source types, as many as sources, got {}", types.len());
        return Err(ApiError::invalid("source_types", reason));
    }
    let one = |(nth, &number): (usize, &i32)| match pb::SourceType::try_from(number) {
        Ok(pb::SourceType::Unspecified | pb::SourceType::File) => Ok(SourceType::File),
        Ok(pb::SourceType::Text) => Ok(SourceType::Text),
        Err(_) => {
            let reason = format!("expected a SourceType, got {number}");
            Err(ApiError::invalid(format!("source_types[{nth}]"), reason))
        }
    };
    types.iter().enumerate().map(one).collect()
}

fn mode(mode: i32) -> Result<Mode, ApiError> {
    match pb::ParseMode::try_from(mode) {
        Ok(pb::ParseMode::Unspecified | pb::ParseMode::Exec) => Ok(Mode::Exec),
        Ok(pb::ParseMode::Eval) => Ok(Mode::Eval),
        Ok(pb::ParseMode::Single) => Ok(Mode::Single),
        Err(_) => Err(ApiError::invalid("mode", format!("expected a ParseMode, got {mode}"))),
    }
}

fn outputs(asked: &[i32]) -> Result<Outputs, ApiError> {
    let mut outputs = Outputs { tree: asked.is_empty(), ..Outputs::default() };
    for (nth, &output) in asked.iter().enumerate() {
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

fn outline_item(Located { what, line, end_line, .. }: Located<Item>) -> pb::OutlineItem {
    let (docstring_start, docstring_end) = what.docstring.unwrap_or_default();
    pb::OutlineItem {
        kind: what.kind as i32,
        name: what.name,
        start: what.start,
        end: what.end,
        line,
        end_line,
        parent: what.parent,
        docstring_start,
        docstring_end,
    }
}

#[cfg(test)]
mod tests {
    use accelerd_parser::{Class, Field, Kind, Operator, Tag, Terminal};

    use super::*;

    /// `FunctionDef` as `FUNCTION_DEF`.
    fn shouted(name: &str) -> String {
        let mut shouted = String::new();
        let mut after_small = false;
        for letter in name.chars() {
            if after_small && letter.is_uppercase() {
                shouted.push('_');
            }
            after_small = letter.is_lowercase();
            shouted.push(letter.to_ascii_uppercase());
        }
        shouted
    }

    #[test]
    fn numbers_on_the_wire_are_the_parsers() {
        for kind in Kind::ALL.iter().copied() {
            let wire = pb::NodeKind::try_from(kind as i32).expect("each kind is known");
            assert_eq!(wire.as_str_name(), format!("NODE_KIND_{}", shouted(&format!("{kind:?}"))));
        }
        for field in Field::ALL.iter().copied() {
            let wire = pb::NodeField::try_from(field as i32).expect("each field is known");
            assert_eq!(wire.as_str_name(), format!("NODE_FIELD_{}", field.name().to_uppercase()));
        }
        for operator in Operator::ALL.iter().copied() {
            let wire = pb::Operator::try_from(operator as i32).expect("each operator is known");
            assert_eq!(wire.as_str_name(), format!("OPERATOR_{}", shouted(&format!("{operator:?}"))));
        }
        for tag in Tag::ALL {
            let wire = pb::ValueTag::try_from(tag as i32).expect("each tag is known");
            assert_eq!(wire.as_str_name(), format!("VALUE_TAG_{}", shouted(&format!("{tag:?}"))));
        }
        for class in Class::ALL {
            let wire = pb::DiagnosticClass::try_from(class as i32).expect("each class is known");
            assert_eq!(wire.as_str_name(), format!("DIAGNOSTIC_CLASS_{}", shouted(class.name())));
        }
        let last = Terminal::Tilde as usize;
        for terminal in &Terminal::ALL[..=last] {
            let wire = pb::TokenKind::try_from(*terminal as i32 + 1).expect("each token is known");
            assert_eq!(wire.as_str_name(), format!("TOKEN_KIND_{}", shouted(&format!("{terminal:?}"))));
        }
    }
}
