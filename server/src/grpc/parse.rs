//! `ParseService`: parses Python sources to columnar syntax trees.

use std::sync::Arc;

use accelerd_engine::{Arrival, Context};
use accelerd_kernels::ops::parse::{Diagnostic, Item, Located, Mode, Outputs, ParseResponse, SourceResult, SourceType};
use accelerd_proto::v1 as pb;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::caller::Caller,
    batches::Numbered,
    error::{ApiError, Decoded},
    grpc::{
        call::{Requests, Responses},
        context::context,
        handlers::ParseService,
    },
    parsing::{ParsingService, SourceBatch},
    status::{item_error, response_too_large},
};

/// The service.
#[derive(Clone, Debug)]
pub struct Parser {
    service: Arc<ParsingService>,
    max_message: usize,
}

impl Parser {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self { service: Arc::new(ParsingService::new(app)), max_message: app.config.server.max_message() }
    }

    /// Refuses a request that would miss its deadline, by the length of its message.
    pub(super) fn screen(&self, length: u64, context: &Context) -> Result<Arrival, Status> {
        Ok(self.service.screen(length, context)?)
    }
}

impl ParseService for Parser {
    async fn parse(&self, mut request: Request<pb::ParseRequest>) -> Result<Response<pb::ParseResponse>, Status> {
        let context = context(&request);
        let arrival = request.extensions_mut().remove::<Arc<Arrival>>();
        let parsed = self.service.parse(source_batch(request.into_inner()), context, arrival).await?;
        Ok(Response::new(response(parsed, self.max_message)?))
    }

    fn parse_stream(
        &self,
        _: Caller,
        context: Context,
        batches: Requests<pb::ParseStreamRequest>,
    ) -> Responses<pb::ParseStreamResponse> {
        let batches = batches.map_ok(|pb::ParseStreamRequest { sequence, parse }| {
            let missing = || ApiError::invalid("parse", "expected sources, got none");
            (sequence, parse.map(source_batch).ok_or_else(missing))
        });
        let max_message = self.max_message;
        let answers = self.service.parse_stream(context, batches);
        answers.map_ok(move |answer| stream_response(answer, max_message)).boxed()
    }
}

fn source_batch(
    request: pb::ParseRequest,
) -> SourceBatch<impl ExactSizeIterator<Item = Decoded<SourceType>> + Send + 'static> {
    let pb::ParseRequest { sources, feature_version, outputs, source_types, mode } = request;
    SourceBatch {
        sources,
        feature_version,
        source_types: source_types.into_iter().enumerate().map(source_type),
        mode: self::mode(mode),
        outputs: self::outputs(&outputs),
    }
}

fn source_type((nth, number): (usize, i32)) -> Decoded<SourceType> {
    match pb::SourceType::try_from(number) {
        Ok(pb::SourceType::Unspecified | pb::SourceType::File) => Ok(SourceType::File),
        Ok(pb::SourceType::Text) => Ok(SourceType::Text),
        Err(_) => {
            let reason = format!("expected a SourceType, got {number}");
            Err(ApiError::invalid(format!("source_types[{nth}]"), reason))
        }
    }
}

fn mode(mode: i32) -> Decoded<Mode> {
    match pb::ParseMode::try_from(mode) {
        Ok(pb::ParseMode::Unspecified | pb::ParseMode::Exec) => Ok(Mode::Exec),
        Ok(pb::ParseMode::Eval) => Ok(Mode::Eval),
        Ok(pb::ParseMode::Single) => Ok(Mode::Single),
        Err(_) => Err(ApiError::invalid("mode", format!("expected a ParseMode, got {mode}"))),
    }
}

fn outputs(requested: &[i32]) -> Decoded<Outputs> {
    let mut outputs = Outputs::default();
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

/// The answer to a batch of a stream.
fn stream_response((sequence, parsed): Numbered<ParseResponse>, max_message: usize) -> pb::ParseStreamResponse {
    use pb::parse_stream_response::Result as Outcome;
    let response = parsed.map_err(Status::from).and_then(|parsed| response(parsed, max_message));
    let outcome = response.map_or_else(|status| Outcome::Error(item_error(&status)), Outcome::Parse);
    pb::ParseStreamResponse { sequence, result: Some(outcome) }
}

/// The message of a response, unless it exceeds the maximum.
fn response(parsed: ParseResponse, max_message: usize) -> Result<pb::ParseResponse, Status> {
    let response = message(parsed);
    let size = response.encoded_len();
    if size > max_message { Err(response_too_large(size, max_message)) } else { Ok(response) }
}

fn message(parsed: ParseResponse) -> pb::ParseResponse {
    let ParseResponse { results, columns } = parsed;
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
