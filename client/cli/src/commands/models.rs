//! Lists, loads and unloads models.

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
    format,
    output::{Output, Report},
    renderer::{Renderer, Style, Table},
};

/// Loading a large model may take longer than the global timeout.
const LOAD_DEADLINE: Duration = Duration::from_secs(3600);

/// List, load, unload and inspect models; the default is to list them.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all models.
    List,
    /// Load a model from a folder or file on the daemon's machine, or from its hub.
    ///
    /// The daemon allows the folders of `accelerd serve --model FOLDER` and of its setting models.folders, and its hub if the
    /// setting models.hub.allow is "callers".
    Load {
        /// Name in requests.
        name: String,
        /// A folder with config.json, safetensors and tokenizer.json; a table of static embeddings in a .npy or .safetensors
        /// file; or hf://owner/name, or hf://owner/name@revision.
        path: PathBuf,
        /// Another name in requests; can be repeated.
        #[arg(long = "alias", value_name = "NAME")]
        aliases: Vec<String>,
        /// Precision of its computation; auto is bf16 on a GPU and f32 on a CPU.
        #[arg(long, value_enum, default_value_t = Precision::Auto)]
        precision: Precision,
    },
    /// Unload models; the memory of a model is freed when the last call that uses it ends.
    Unload {
        /// Names or aliases of the models.
        #[arg(required = true, add = complete::models())]
        names: Vec<String>,
    },
    /// Show all properties of a model.
    Inspect {
        /// Name or alias of the model.
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
    supported_dimensions: Vec<u32>,
    vocabulary_size: u32,
    max_tokens: u32,
    default_max_tokens: u32,
    pooling: String,
    normalize: bool,
    prompt_names: Vec<String>,
    accepts_text: bool,
    cross_encoder: bool,
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
            supported_dimensions: model.supported_dimensions,
            vocabulary_size: model.vocabulary_size,
            max_tokens: model.max_tokens,
            default_max_tokens: model.default_max_tokens,
            normalize: model.normalize,
            prompt_names: model.prompt_names,
            accepts_text: model.accepts_text,
            cross_encoder: model.cross_encoder,
            size_bytes: model.size_bytes,
            sha256: model.sha256,
        }
    }
}

impl Report for Models {
    fn render(&self, renderer: &mut Renderer) {
        let header =
            ["<model", "<architecture", "dimensions", "<truncates to", "vocabulary", "tokens", "size", "<sha256"];
        let mut table = Table::new(header);
        for model in &self.models {
            let shorter = model.supported_dimensions.iter().filter(|d| **d != model.dimensions).map(u32::to_string);
            table.row([
                renderer.style(Style::Name, &model.name),
                model.architecture.clone(),
                if model.cross_encoder { "scores".to_owned() } else { model.dimensions.to_string() },
                shorter.collect::<Vec<_>>().join(", "),
                format::count(model.vocabulary_size.into()),
                if model.default_max_tokens == 0 { "any".to_owned() } else { model.default_max_tokens.to_string() },
                format::bytes(model.size_bytes),
                renderer.style(Style::Dim, model.sha256.get(..12).unwrap_or_default()),
            ]);
        }
        renderer.table(&table);
    }
}

impl Report for Model {
    fn render(&self, renderer: &mut Renderer) {
        let limit = |tokens: u32| if tokens == 0 { "any number of".to_owned() } else { tokens.to_string() };
        let or_none = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        renderer.line(format!("{}: {}", renderer.style(Style::Name, &self.name), self.architecture));
        renderer.line(format!("  aliases     {}", or_none(&self.aliases)));
        if !self.cross_encoder {
            renderer.line(format!("  dimensions  {}", self.dimensions));
        }
        renderer.line(format!("  vocabulary  {}", format::count(self.vocabulary_size.into())));
        let default = limit(self.default_max_tokens);
        let max = limit(self.max_tokens);
        renderer.line(format!("  tokens      {default} by default, at most {max}"));
        if self.cross_encoder {
            renderer.line("  output      relevance scores, for rerank");
        } else {
            let length = if self.normalize { "normalised" } else { "not normalised" };
            renderer.line(format!("  pooling     {}, {length}", self.pooling));
        }
        renderer.line(format!("  prompts     {}", or_none(&self.prompt_names)));
        renderer.line(format!("  input       {}", if self.accepts_text { "texts and token ids" } else { "token ids" }));
        renderer.line(format!("  weights     {}, sha256 {}", format::bytes(self.size_bytes), self.sha256));
    }
}

#[derive(Serialize)]
struct Unloaded {
    unloaded: Vec<String>,
}

impl Report for Unloaded {
    fn render(&self, renderer: &mut Renderer) {
        for name in &self.unloaded {
            renderer.line(format!("unloaded {}", renderer.style(Style::Name, name)));
        }
    }
}

/// Makes the path of an existing file or folder absolute: the daemon has another working directory.
fn absolute(path: &Path) -> String {
    let absolute = if path.is_relative() { path.canonicalize().ok() } else { None };
    absolute.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

pub async fn run(args: ModelsArgs, client: &Client, output: &Output) -> Result {
    match args.action.unwrap_or(Action::List) {
        Action::List => {
            let models = client.models().await?.into_iter().map(Model::from);
            output.show(&Models { models: models.collect() })
        }
        Action::Load { name, path, aliases, precision } => {
            let path = absolute(&path);
            let source = ModelSource { name, path, aliases, precision: precision.into() };
            let model = client.clone().with_deadline(LOAD_DEADLINE).load_model(source).await?;
            output.show(&Model::from(model))
        }
        Action::Unload { names } => {
            let mut unloaded = vec![];
            for name in names {
                unloaded.push(client.unload_model(name).await?);
            }
            output.show(&Unloaded { unloaded })
        }
        Action::Inspect { name } => {
            let is_it = |model: &proto::Model| model.name == name || model.aliases.contains(&name);
            let model = client
                .models()
                .await?
                .into_iter()
                .find(is_it)
                .ok_or_else(|| CliError::Usage(format!("no model {name:?} is loaded")))?;
            output.show(&Model::from(model))
        }
    }
}
