//! Options of an embedding request, resolved against its model.

use accelerd_collections::PromptChoice;
use accelerd_kernels::ops::encode::{OutputType, Pooling};
use accelerd_models::{Kind, LongInput, Model, TokenizeOptions, TruncationSide};

use super::prompts;
use crate::error::ApiError;

/// A part of a text to embed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of the text.
    pub text: u32,
    /// First byte, or first token if the input is tokens.
    pub start: u32,
    /// End, exclusive.
    pub end: u32,
}

/// Options of a request. The defaults are those of the model's files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Leading dimensions to keep; 0 keeps all.
    pub dimensions: u32,
    /// True to scale to unit length.
    pub normalize: Option<bool>,
    /// Pooling of token vectors.
    pub pooling: Option<Pooling>,
    /// Parts to embed instead of whole texts.
    pub spans: Vec<Span>,
    /// Prompt of texts.
    pub prompt: PromptChoice,
    /// Side from which long texts are truncated; `None` means the model's.
    pub truncation_side: Option<TruncationSide>,
    /// Treatment of long texts.
    pub long_input: LongInput,
    /// Maximum number of tokens of a text; 0 means the model's limit.
    pub max_tokens: u32,
    /// Number type of the vectors.
    pub output: OutputType,
    /// True if a GPU computes GELU through the error function.
    pub exact_gelu: bool,
    /// True to wait while the lane is full instead of failing: for streams, which have their own backpressure.
    pub waits: bool,
    /// Maximum size of the response in bytes.
    pub max_response_bytes: Option<usize>,
}

/// Options resolved against a model.
#[derive(Clone, Debug)]
pub(super) struct ResolvedOptions {
    pub(super) dimensions: usize,
    pub(super) normalize: bool,
    pub(super) pooling: Pooling,
    pub(super) tokenize: TokenizeOptions,
}

impl Options {
    /// Vectors of `dimensions` leading dimensions, normalised to unit length.
    pub fn unit(dimensions: u32) -> Self {
        Self { dimensions, normalize: Some(true), ..Self::default() }
    }

    pub(super) fn resolve(&self, model: &Model, takes_texts: bool) -> Result<ResolvedOptions, ApiError> {
        let pooling = self.pooling.unwrap_or(model.pooling());
        self.check_table(model, pooling)?;
        if self.long_input == LongInput::Chunk && (pooling != Pooling::Mean || !self.spans.is_empty()) {
            let reason = "expected mean pooling and no spans with chunking";
            return Err(ApiError::invalid("long_input", reason));
        }
        if let Some((max, _)) = model.limits()
            && self.max_tokens as usize > max
        {
            let reason = format!("expected 0 to {max} for {:?}, got {}", model.name(), self.max_tokens);
            return Err(ApiError::invalid("max_tokens", reason));
        }
        let tokenize = TokenizeOptions {
            prompt: if takes_texts { self.prompt(model)? } else { self.no_prompt()? },
            max_tokens: (self.max_tokens > 0).then_some(self.max_tokens as usize),
            long_input: self.long_input,
            truncation_side: self.truncation_side,
            with_offsets: !self.spans.is_empty() && takes_texts,
        };
        let normalize = self.normalize.unwrap_or(model.normalize());
        Ok(ResolvedOptions { dimensions: self.resolve_dimensions(model)?, normalize, pooling, tokenize })
    }

    /// Checks the options of a static table, which supports only mean pooling and has no token limit.
    fn check_table(&self, model: &Model, pooling: Pooling) -> Result<(), ApiError> {
        if matches!(model.kind(), Kind::Encoder(_)) {
            return Ok(());
        }
        let wrong = |field: &str, what: &str| {
            Err(ApiError::invalid(field, format!("expected none, since {:?} {what}", model.name())))
        };
        if pooling != Pooling::Mean {
            return wrong("pooling", "supports only mean pooling");
        }
        if !self.spans.is_empty() {
            return wrong("spans", "embeds tokens without context: send the parts as texts");
        }
        if self.max_tokens > 0 {
            return wrong("max_tokens", "has no token limit");
        }
        Ok(())
    }

    /// The number of dimensions, if the model offers it.
    fn resolve_dimensions(&self, model: &Model) -> Result<usize, ApiError> {
        match self.dimensions {
            0 => Ok(model.dimensions()),
            requested if model.offers(requested) => Ok(requested as usize),
            requested => {
                let offered = match model.kind() {
                    Kind::Table(_) => format!("0 or one of {:?}", model.offered_dimensions()),
                    Kind::Encoder(_) => format!("0 to {}", model.dimensions()),
                };
                Err(ApiError::invalid("dimensions", format!("expected {offered}, got {requested}")))
            }
        }
    }

    fn prompt(&self, model: &Model) -> Result<String, ApiError> {
        match &self.prompt {
            PromptChoice::Default => Ok(prompts::default(model).text),
            PromptChoice::Named(name) => Ok(prompts::named(model, name, "prompt_name")?.to_owned()),
            PromptChoice::Text(text) => Ok(text.clone()),
        }
    }

    fn no_prompt(&self) -> Result<String, ApiError> {
        let field = match &self.prompt {
            PromptChoice::Default => return Ok(String::new()),
            PromptChoice::Text(text) if text.is_empty() => return Ok(String::new()),
            PromptChoice::Text(_) => "prompt",
            PromptChoice::Named(_) => "prompt_name",
        };
        Err(ApiError::invalid(field, "expected none with tokens"))
    }
}
