//! The models that are loaded; loading and unloading them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use accelerd_client::{Client, ModelSource, proto};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::{
    complete,
    error::{CliError, Result},
    human,
    page::{Page, Paint, Table},
    screen::{Report, Screen},
};

/// Reading a large model takes longer than a usual call may.
const LOAD_DEADLINE: Duration = Duration::from_secs(3600);

/// List, load, unload and inspect models; lists them where nothing else is said.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List every model.
    List,
    /// Load a model from a folder or file on the daemon's machine, or from its hub.
    ///
    /// The daemon loads from folders that it was started with, by `accelerd serve --model FOLDER` or its setting models.folders;
    /// and from its hub where the setting models.hub.allow is "callers".
    Load {
        /// Its name in requests.
        name: String,
        /// A folder with config.json, safetensors and tokenizer.json; a table in a .npy or .safetensors file; or
        /// hf://owner/name, or hf://owner/name@revision.
        path: PathBuf,
        /// Another name for it; may be given several times.
        #[arg(long = "alias", value_name = "NAME")]
        aliases: Vec<String>,
        /// What it is computed in; auto is bf16 on a GPU and f32 on a CPU.
        #[arg(long, value_enum, default_value_t = Precision::Auto)]
        precision: Precision,
    },
    /// Forget models; their memory is freed when the last call that uses them ends.
    Unload {
        /// Their names.
        #[arg(required = true, add = complete::models())]
        names: Vec<String>,
    },
    /// Show all that is known of a model.
    Inspect {
        /// Its name or an alias.
        #[arg(add = complete::models())]
        name: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Precision {
    Auto,
    Bf16,
    F16,
    F32,
}

impl From<Precision> for proto::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Auto => Self::Unspecified,
            Precision::Bf16 => Self::Bf16,
            Precision::F16 => Self::F16,
            Precision::F32 => Self::F32,
        }
    }
}

#[derive(Serialize)]
struct Models {
    models: Vec<Model>,
}

#[derive(Serialize)]
struct Model {
    name: String,
    aliases: Vec<String>,
    architecture: String,
    dimensions: u32,
    offered_dimensions: Vec<u32>,
    vocabulary_size: u32,
    max_tokens: u32,
    default_max_tokens: u32,
    pooling: String,
    normalize: bool,
    prompt_names: Vec<String>,
    takes_texts: bool,
    reranks: bool,
    size_bytes: u64,
    sha256: String,
}

impl From<proto::Model> for Model {
    fn from(model: proto::Model) -> Self {
        let pooling = model.pooling().as_str_name().trim_start_matches("POOLING_").to_lowercase();
        Self {
            pooling,
            name: model.name,
            aliases: model.aliases,
            architecture: model.architecture,
            dimensions: model.dimensions,
            offered_dimensions: model.offered_dimensions,
            vocabulary_size: model.vocabulary_size,
            max_tokens: model.max_tokens,
            default_max_tokens: model.default_max_tokens,
            normalize: model.normalize,
            prompt_names: model.prompt_names,
            takes_texts: model.takes_texts,
            reranks: model.reranks,
            size_bytes: model.size_bytes,
            sha256: model.sha256,
        }
    }
}

impl Report for Models {
    fn render(&self, page: &mut Page) {
        let header =
            ["<model", "<architecture", "dimensions", "<may be cut to", "vocabulary", "tokens", "size", "<sha256"];
        let mut table = Table::new(header);
        for model in &self.models {
            let shorter = model.offered_dimensions.iter().filter(|d| **d != model.dimensions).map(u32::to_string);
            table.row([
                page.paint(Paint::Name, &model.name),
                model.architecture.clone(),
                if model.reranks { "scores".to_owned() } else { model.dimensions.to_string() },
                shorter.collect::<Vec<_>>().join(", "),
                human::count(model.vocabulary_size.into()),
                if model.default_max_tokens == 0 { "any".to_owned() } else { model.default_max_tokens.to_string() },
                human::bytes(model.size_bytes),
                page.paint(Paint::Dim, model.sha256.get(..12).unwrap_or_default()),
            ]);
        }
        page.table(&table);
    }
}

impl Report for Model {
    fn render(&self, page: &mut Page) {
        let limit = |tokens: u32| if tokens == 0 { "any number of".to_owned() } else { tokens.to_string() };
        let or_none = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        page.line(format!("{}: {}", page.paint(Paint::Name, &self.name), self.architecture));
        page.line(format!("  aliases     {}", or_none(&self.aliases)));
        if !self.reranks {
            page.line(format!("  dimensions  {}", self.dimensions));
        }
        page.line(format!("  vocabulary  {}", human::count(self.vocabulary_size.into())));
        let (default, most) = (limit(self.default_max_tokens), limit(self.max_tokens));
        page.line(format!("  reads       {default} tokens of a text, at most {most}"));
        if self.reranks {
            page.line("  makes       scores of pairs, for rerank");
        } else {
            let length = if self.normalize { "unit length" } else { "any length" };
            page.line(format!("  pools       {}, {length}", self.pooling));
        }
        page.line(format!("  prompts     {}", or_none(&self.prompt_names)));
        page.line(format!("  takes       {}", if self.takes_texts { "texts and token ids" } else { "token ids" }));
        page.line(format!("  weights     {}, sha256 {}", human::bytes(self.size_bytes), self.sha256));
    }
}

#[derive(Serialize)]
struct Unloaded {
    unloaded: Vec<String>,
}

impl Report for Unloaded {
    fn render(&self, page: &mut Page) {
        for name in &self.unloaded {
            page.line(format!("unloaded {}", page.paint(Paint::Name, name)));
        }
    }
}

/// A path as the daemon understands it: what is a file or folder here is sent with its whole path, since the daemon runs in
/// another folder.
fn place(path: &Path) -> String {
    let whole = if path.is_relative() { path.canonicalize().ok() } else { None };
    whole.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

/// Does what was asked.
pub async fn run(args: ModelsArgs, client: &Client, screen: &Screen) -> Result {
    match args.action.unwrap_or(Action::List) {
        Action::List => {
            let models = client.models().await?.into_iter().map(Model::from);
            screen.show(&Models { models: models.collect() })
        }
        Action::Load { name, path, aliases, precision } => {
            let path = place(&path);
            let source = ModelSource { name, path, aliases, precision: precision.into() };
            let model = client.clone().with_deadline(LOAD_DEADLINE).load_model(source).await?;
            screen.show(&Model::from(model))
        }
        Action::Unload { names } => {
            let mut unloaded = vec![];
            for name in names {
                unloaded.push(client.unload_model(name).await?);
            }
            screen.show(&Unloaded { unloaded })
        }
        Action::Inspect { name } => {
            let is_it = |model: &proto::Model| model.name == name || model.aliases.contains(&name);
            let model = client.models().await?.into_iter().find(is_it);
            let model = model.ok_or_else(|| CliError::Usage(format!("no model {name:?} is loaded")))?;
            screen.show(&Model::from(model))
        }
    }
}
