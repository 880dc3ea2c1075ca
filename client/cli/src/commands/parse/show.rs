//! Shows the tree, outline, tokens or error of one source.

use std::ops::Range;

use accelerd_client::{Diagnostic, OutlineItem, Parsed, proto::NodeKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::ShowArgs;
use crate::{
    error::Result,
    output::{self, Output},
    renderer::{Renderer, Style},
};

/// An error of a source.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    path: String,
    line: u32,
    column: u32,
    class: &'static str,
    message: String,
}

impl Problem {
    pub fn new(path: &str, diagnostic: &Diagnostic) -> Self {
        Self {
            path: path.into(),
            line: diagnostic.line,
            column: diagnostic.column,
            class: diagnostic.class_name(),
            message: diagnostic.message.clone(),
        }
    }

    /// `file:line:column: message`, as compilers write it.
    pub fn plain(&self) -> String {
        format!("{}:{}:{}: {}", self.path, self.line, self.column, self.message)
    }

    /// `file:line:column: message` with colours.
    pub fn line(&self, renderer: &Renderer) -> String {
        let place = renderer.style(Style::Name, format!("{}:{}:{}:", self.path, self.line, self.column));
        format!("{place} {}", self.message)
    }
}

/// A token or comment.
#[derive(Serialize)]
struct Shown {
    line: usize,
    column: usize,
    kind: String,
    text: String,
}

/// Shows the requested output of a source; nothing if the source has an error.
pub fn show(path: &str, parsed: Parsed<'_>, show: ShowArgs, output: &Output) -> Result {
    if output.json() {
        return output::write_json_lines([document(path, parsed, show)]);
    }
    if !parsed.is_valid() && !show.tokens {
        return Ok(());
    }
    if show.dump {
        return output::write_lines(&(parsed.dump(&show.dump_options()).unwrap_or_default() + "\n"));
    }
    let mut renderer = output.renderer();
    renderer.title(path);
    if show.outline {
        outline(parsed.outline(), &mut renderer);
    } else {
        tokens(&shown_tokens(parsed), &mut renderer);
    }
    output::show(&renderer)
}

fn document(path: &str, parsed: Parsed<'_>, show: ShowArgs) -> Value {
    let mut document = json!({ "path": path });
    if let Some(diagnostic) = parsed.diagnostic() {
        document["error"] = json!(Problem::new(path, diagnostic));
    }
    if show.dump {
        document["dump"] = json!(parsed.dump(&show.dump_options()));
    } else if show.outline {
        let outline = parsed.outline();
        document["outline"] = outline.iter().map(|item| outline_item(item, outline)).collect();
    } else {
        document["tokens"] = json!(shown_tokens(parsed));
    }
    document
}

fn outline_item(item: &OutlineItem, outline: &[OutlineItem]) -> Value {
    json!({
        "kind": keyword(item.kind),
        "name": item.name,
        "qualified_name": item.qualified_name(outline),
        "line": item.lines.start(),
        "end_line": item.lines.end(),
        "start": item.span.start,
        "end": item.span.end,
        "parent": item.parent,
    })
}

/// Keyword of an item.
fn keyword(kind: NodeKind) -> &'static str {
    let keywords = [
        (NodeKind::AsyncFunctionDef, "async def"),
        (NodeKind::ClassDef, "class"),
        (NodeKind::Import, "import"),
        (NodeKind::ImportFrom, "from"),
    ];
    keywords.iter().find(|(own, _)| *own == kind).map_or("def", |(_, keyword)| keyword)
}

/// Renders items indented below their parents.
fn outline(items: &[OutlineItem], renderer: &mut Renderer) {
    let mut depths: Vec<usize> = vec![];
    for item in items {
        let depth = item.parent.map_or(0, |parent| depths[parent] + 1);
        depths.push(depth);
        let lines = renderer.style(Style::Dim, lines(item));
        let keyword = renderer.style(Style::Dim, keyword(item.kind));
        let is_import = matches!(item.kind, NodeKind::Import | NodeKind::ImportFrom);
        let name = if is_import { item.name.clone() } else { renderer.style(Style::Name, &item.name) };
        renderer.whole_line(format!("  {}{keyword} {name}  {lines}", "  ".repeat(depth)));
    }
}

fn lines(item: &OutlineItem) -> String {
    let first = item.lines.start();
    let last = item.lines.end();
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Tokens and comments in source order.
fn shown_tokens(parsed: Parsed<'_>) -> Vec<Shown> {
    let lines = parsed.lines();
    let tokens = parsed.tokens().map(|token| (token.span, token.kind.as_str_name(), token.text));
    let comments = parsed.comments().map(|comment| (comment.span, "TOKEN_KIND_COMMENT", comment.text));
    let mut all: Vec<(Range<usize>, &str, &[u8])> = tokens.chain(comments).collect();
    all.sort_by_key(|(span, _, _)| span.start);
    let shown = |(span, kind, text): (Range<usize>, &str, &[u8])| {
        let position = lines.position(span.start);
        Shown {
            line: position.line,
            column: position.column,
            kind: kind.trim_start_matches("TOKEN_KIND_").to_lowercase(),
            text: String::from_utf8_lossy(text).into_owned(),
        }
    };
    all.into_iter().map(shown).collect()
}

fn tokens(tokens: &[Shown], renderer: &mut Renderer) {
    for Shown { line, column, kind, text } in tokens {
        let place = renderer.style(Style::Dim, format!("{:>10}", format!("{line}:{column}")));
        renderer.whole_line(format!("{place}  {kind:<15} {}", text.escape_debug()));
    }
}
