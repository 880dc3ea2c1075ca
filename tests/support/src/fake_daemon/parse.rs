//! The fake parser: prepared responses, and a toy parser of a few kinds of lines.

use accelerd_proto::v1::{
    self as proto, NodeKind, ParseOutput, parse_service_server::ParseService, parse_stream_response::Result as Step,
};
use bytes::Bytes;
use futures::StreamExt;
use tonic::{Request, Response, Status, Streaming};

use super::{FakeDaemon, Replies, Reply};

#[tonic::async_trait]
impl ParseService for FakeDaemon {
    async fn parse(&self, request: Request<proto::ParseRequest>) -> Reply<proto::ParseResponse> {
        self.enter("Parse").await?;
        Ok(Response::new(self.parsed(&request.into_inner())?))
    }

    /// Responds to pairs of batches in reverse order.
    async fn parse_stream(
        &self,
        request: Request<Streaming<proto::ParseStreamRequest>>,
    ) -> Reply<Replies<proto::ParseStreamResponse>> {
        self.enter("ParseStream").await?;
        let fake = self.clone();
        let answers = request.into_inner().map(move |batch| {
            let batch = batch?;
            let done = fake.parsed(&batch.parse.unwrap_or_default());
            let error =
                |status: Status| proto::ItemError { code: status.code().into(), message: status.message().into() };
            let result = done.map_or_else(|status| Step::Error(error(status)), Step::Parse);
            Ok(proto::ParseStreamResponse { sequence: batch.sequence, result: Some(result) })
        });
        let pairs = answers.chunks(2).flat_map(|pair| futures::stream::iter(pair.into_iter().rev()));
        Ok(Response::new(Box::pin(pairs)))
    }
}

impl FakeDaemon {
    fn parsed(&self, request: &proto::ParseRequest) -> Result<proto::ParseResponse, Status> {
        if request.sources.is_empty() {
            return Err(Status::invalid_argument("sources: expected at least one, got none"));
        }
        let mut state = self.state();
        state.parsed += request.sources.len();
        if let ([source], Some(known)) = (request.sources.as_slice(), state.answers.get(&request.sources[0])) {
            assert!(!source.is_empty(), "an answer is written down for a source");
            return Ok(known.clone());
        }
        Ok(toy(request))
    }
}

/// Parses lines.
fn toy(request: &proto::ParseRequest) -> proto::ParseResponse {
    let has = |output: ParseOutput| request.outputs.contains(&i32::from(output));
    let mut response = proto::ParseResponse::default();
    let mut starts = vec![];
    let mut tokens = Tokens::default();
    let mut comments = Spans::default();
    for source in &request.sources {
        let text = std::str::from_utf8(source).unwrap_or("?");
        let mut result = proto::SourceResult { diagnostic: wrong_line(text), ..Default::default() };
        if has(ParseOutput::Outline) && result.diagnostic.is_none() {
            result.outline = outline(text);
        }
        if has(ParseOutput::LineStarts) {
            let before = starts.len();
            starts.push(0);
            starts.extend(text.match_indices('\n').map(|(at, _)| number(at + 1)));
            result.line_count = number(starts.len() - before);
        }
        if has(ParseOutput::Tokens) {
            result.token_count = tokens.add(text);
        }
        if has(ParseOutput::Comments) {
            result.comment_count = comments.add(text);
        }
        response.results.push(result);
    }
    response.line_starts = numbers(&starts);
    response.tokens = Some(proto::TokenColumns {
        kinds: vec![u8::try_from(i32::from(proto::TokenKind::Name)).unwrap_or(0); tokens.0.0.len()].into(),
        starts: numbers(&tokens.0.0),
        ends: numbers(&tokens.0.1),
    });
    response.comments = Some(proto::SpanColumns { starts: numbers(&comments.0), ends: numbers(&comments.1) });
    response
}

/// Words are tokens.
#[derive(Default)]
struct Tokens(Spans);

#[derive(Default)]
struct Spans(Vec<u32>, Vec<u32>);

impl Tokens {
    fn add(&mut self, text: &str) -> u32 {
        let before = self.0.0.len();
        let mut at = 0;
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            if !word.is_empty() {
                self.0.push(at, at + word.len());
            }
            at += word.len() + 1;
        }
        number(self.0.0.len() - before)
    }
}

impl Spans {
    fn push(&mut self, start: usize, end: usize) {
        self.0.push(number(start));
        self.1.push(number(end));
    }

    fn add(&mut self, text: &str) -> u32 {
        let before = self.0.len();
        for (at, _) in text.match_indices('#') {
            self.push(at, text[at..].find('\n').map_or(text.len(), |end| at + end));
        }
        number(self.0.len() - before)
    }
}

/// Lines of a text with their number and where they start.
fn lines(text: &str) -> impl Iterator<Item = (u32, usize, &str)> {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    (1..).zip(starts).zip(text.lines()).map(|((line, start), words)| (line, start, words))
}

/// The first line that the toy does not know.
fn wrong_line(text: &str) -> Option<proto::Diagnostic> {
    let starts = ["def ", "class ", "import ", "return", "pass", "#", "\"\"\"", "@"];
    let known = |line: &str| line.is_empty() || line.contains(" = ") || starts.iter().any(|s| line.starts_with(s));
    let (line, start, words) = lines(text).find(|(_, _, words)| !known(words.trim()))?;
    let indent = words.len() - words.trim_start().len();
    Some(proto::Diagnostic {
        class: proto::DiagnosticClass::SyntaxError.into(),
        message: "invalid syntax".into(),
        line,
        column: number(indent + 1),
        start: number(start + indent),
        end: number(start + words.len()),
        ..proto::Diagnostic::default()
    })
}

/// Functions, classes and imports by their first word; a block ends at the last line that is indented deeper.
fn outline(text: &str) -> Vec<proto::OutlineItem> {
    let lines: Vec<_> = lines(text).collect();
    let indent = |words: &str| words.len() - words.trim_start().len();
    let mut items: Vec<proto::OutlineItem> = vec![];
    let mut open: Vec<(usize, u32)> = vec![];
    for (at, (line, start, words)) in lines.iter().enumerate() {
        let (kind, rest) = match words.trim_start().split_once(' ') {
            Some(("def", rest)) => (NodeKind::FunctionDef, rest),
            Some(("class", rest)) => (NodeKind::ClassDef, rest),
            Some(("import", rest)) => (NodeKind::Import, rest),
            _ => continue,
        };
        let depth = indent(words);
        open.retain(|(outer, _)| *outer < depth);
        let is_inside = |words: &str| words.trim().is_empty() || (kind != NodeKind::Import && indent(words) > depth);
        let block = lines[at + 1..].iter().take_while(|(_, _, words)| is_inside(words));
        let last = block.filter(|(_, _, words)| !words.trim().is_empty()).last().unwrap_or(&lines[at]);
        let decorators = lines[..at].iter().rev().take_while(|(_, _, words)| words.trim_start().starts_with('@'));
        let first = decorators.last().map_or((*line, *start), |(line, start, _)| (*line, *start));
        let doc =
            lines.get(at + 1).filter(|(_, _, words)| words.trim().starts_with("\"\"\"") && words.trim().len() > 3);
        let doc = doc.map(|(_, start, words)| (number(start + indent(words)), number(start + words.len())));
        items.push(proto::OutlineItem {
            kind: kind.into(),
            name: rest.split(['(', ':']).next().unwrap_or_default().to_owned(),
            start: number(first.1 + depth),
            end: number(last.1 + last.2.len()),
            line: first.0,
            end_line: last.0,
            parent: open.last().map(|(_, item)| *item),
            docstring_start: doc.map_or(0, |doc| doc.0),
            docstring_end: doc.map_or(0, |doc| doc.1),
        });
        if kind != NodeKind::Import {
            open.push((depth, number(items.len() - 1)));
        }
    }
    items
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("a toy is small")
}

/// A column of numbers.
fn numbers(column: &[u32]) -> Bytes {
    column.iter().flat_map(|number| number.to_le_bytes()).collect()
}
