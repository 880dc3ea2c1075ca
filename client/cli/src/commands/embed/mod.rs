//! Embeds texts to JSON lines or a .npy file.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use accelerd_client::{Client, EmbedOptions, Embeddings};
use clap::Args;
use serde::Serialize;

use crate::{
    error::{CliError, Result},
    format, npy,
    output::{self, COUNT_BAR, Output, Report},
    renderer::{Renderer, Style},
};

mod send;
mod source;

/// Embed texts; prints one JSON document per text, or writes a .npy file.
///
/// Texts are streamed: files may be of any size.
#[derive(Debug, Args)]
pub struct EmbedArgs {
    /// Texts; `-` reads one text per line of standard input.
    #[arg(required_unless_present = "file")]
    texts: Vec<String>,
    /// Read texts from a file, one per line.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write the vectors to a .npy file.
    #[arg(long, short, value_name = "FILE.npy")]
    output: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Model options.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Name or alias of a loaded model.
    #[arg(long, default_value = "builtin", add = crate::complete::models())]
    model: String,
    /// Leading dimensions to keep (Matryoshka embeddings); 0 keeps all.
    #[arg(long, default_value_t = 0, value_name = "N")]
    dimensions: u32,
    /// Name of one of the model's prompts, such as query.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    prompt_name: String,
}

impl ModelArgs {
    pub fn options(&self) -> EmbedOptions {
        EmbedOptions {
            model: self.model.clone(),
            dimensions: self.dimensions,
            prompt_name: self.prompt_name.clone(),
            ..EmbedOptions::default()
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    text: &'a str,
    token_count: u32,
    embedding: &'a [f32],
}

#[derive(Serialize)]
struct Written {
    output: PathBuf,
    rows: usize,
    dimensions: usize,
    token_count: u64,
}

impl Report for Written {
    fn render(&self, renderer: &mut Renderer) {
        let output = renderer.style(Style::Name, self.output.display().to_string());
        let tokens = format::plural(self.token_count, "token");
        renderer.line(format!("wrote {output}: {} x {} float32, {tokens}", self.rows, self.dimensions));
    }
}

/// Destination of the vectors.
enum Sink {
    Lines,
    File(npy::Writer),
}

/// Totals of a run.
#[derive(Default)]
struct Tally {
    rows: usize,
    dimensions: usize,
    token_count: u64,
}

pub async fn run(args: EmbedArgs, client: &Client, output: &Output) -> Result {
    let mut sink = match &args.output {
        Some(path) => Sink::File(npy::Writer::create(path)?),
        None => Sink::Lines,
    };
    let bar = output.bar(0, COUNT_BAR, "embedding");
    let mut tally = Tally::default();
    let texts = source::Texts { given: args.texts, file: args.file };
    let note = |batch: &[String], done: &Embeddings| {
        bar.inc(batch.len() as u64);
        tally.add(done);
        bar.suspend(|| sink.take(batch, done))
    };
    send::each_batch(client, &args.model.options(), texts, note).await?;
    bar.finish_and_clear();
    if tally.rows == 0 {
        return Err(CliError::Usage("no texts to embed".into()));
    }
    let (Sink::File(file), Some(path)) = (sink, args.output) else { return Ok(()) };
    let Tally { rows, dimensions, token_count } = tally;
    file.finish(rows, dimensions)?;
    output.show(&Written { output: path, rows, dimensions, token_count })
}

impl Tally {
    fn add(&mut self, done: &Embeddings) {
        self.rows += done.vectors.rows();
        self.dimensions = done.vectors.dim();
        self.token_count += done.token_counts.iter().copied().map(u64::from).sum::<u64>();
    }
}

impl Sink {
    fn take(&mut self, texts: &[String], done: &Embeddings) -> Result {
        match self {
            Self::File(file) => file.add(done.vectors.as_slice()),
            Self::Lines => {
                let vectors = done.vectors.iter().zip(&done.token_counts);
                let line = |(text, (embedding, &token_count))| Line { text, token_count, embedding };
                output::write_json_lines(texts.iter().map(String::as_str).zip(vectors).map(line))
            }
        }
    }
}

/// Reads the lines of a file; `-` is standard input.
pub fn lines(path: &Path) -> Result<Vec<String>> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    Ok(text.map_err(CliError::file(path))?.lines().map(str::to_owned).collect())
}
