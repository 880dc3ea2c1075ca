//! Texts to vectors, as JSON lines or a .npy file.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use accelerd_client::{Client, EmbedOptions, Matrix};
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::{
    error::{CliError, Result},
    human, npy,
    page::{Page, Paint},
    screen::{self, ITEMS_BAR, Report, Screen},
};

/// Texts of one call.
pub const BATCH: usize = 512;
/// Calls at once.
const IN_FLIGHT: usize = 4;

/// Embed texts: prints one JSON document a text, or writes a .npy file.
#[derive(Debug, Args)]
pub struct EmbedArgs {
    /// Texts; `-` reads them from standard input, one a line.
    #[arg(required_unless_present = "file")]
    texts: Vec<String>,
    /// Read texts from a file, one a line.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write the vectors to a .npy file.
    #[arg(long, short, value_name = "FILE.npy")]
    output: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
}

/// Which model, and what of its vectors.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Name or alias of a loaded model.
    #[arg(long, default_value = "builtin")]
    model: String,
    /// Leading dimensions to keep; 0 keeps all.
    #[arg(long, default_value_t = 0, value_name = "N")]
    dimensions: u32,
    /// Name of one of the model's prompts, such as query.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    prompt_name: String,
}

impl ModelArgs {
    /// As the client has it.
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
    fn render(&self, page: &mut Page) {
        let output = page.paint(Paint::Name, self.output.display().to_string());
        let tokens = human::plural(self.token_count, "token");
        page.line(format!("wrote {output}: {} x {} float32, {tokens}", self.rows, self.dimensions));
    }
}

/// Embeds and prints or writes.
pub async fn run(args: EmbedArgs, client: &Client, screen: &Screen) -> Result {
    let texts = texts(args.texts, args.file.as_deref())?;
    let bar = screen.bar(texts.len() as u64, ITEMS_BAR, "embedding");
    let options = args.model.options();
    let options = &options;
    let mut batches = stream::iter(texts.chunks(BATCH))
        .map(|batch| async move { client.embed_with(batch.iter().cloned(), options).await.map(|done| (batch, done)) })
        .buffered(IN_FLIGHT);
    let (mut numbers, mut dimensions, mut token_count) = (vec![], 0, 0);
    while let Some((batch, embeddings)) = batches.try_next().await? {
        bar.inc(batch.len() as u64);
        dimensions = embeddings.vectors.dim();
        token_count += embeddings.token_counts.iter().copied().map(u64::from).sum::<u64>();
        if args.output.is_some() {
            numbers.extend_from_slice(embeddings.vectors.as_slice());
            continue;
        }
        let vectors = embeddings.vectors.iter().zip(embeddings.token_counts);
        let lines = batch.iter().zip(vectors);
        let lines = lines.map(|(text, (embedding, token_count))| Line { text, token_count, embedding });
        bar.suspend(|| screen::write_json_lines(lines))?;
    }
    bar.finish_and_clear();
    let Some(output) = args.output else { return Ok(()) };
    let matrix = Matrix::new(numbers, dimensions).map_err(accelerd_client::Error::from)?;
    npy::write(&output, &matrix)?;
    screen.show(&Written { output, rows: matrix.rows(), dimensions, token_count })
}

/// The texts that the arguments mean.
fn texts(given: Vec<String>, file: Option<&Path>) -> Result<Vec<String>> {
    let mut texts = vec![];
    for text in given {
        if text == "-" { texts.extend(lines(Path::new("-"))?) } else { texts.push(text) }
    }
    if let Some(file) = file {
        texts.extend(lines(file)?);
    }
    if texts.is_empty() { Err(CliError::Usage("there is no text to embed".into())) } else { Ok(texts) }
}

/// The lines of a file; `-` is standard input.
pub fn lines(path: &Path) -> Result<Vec<String>> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    Ok(text.map_err(CliError::file(path))?.lines().map(str::to_owned).collect())
}
