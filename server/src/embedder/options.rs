//! What a request may say of how it is embedded, and what that means for its model.

use accelerd_kernels::ops::encode::{Output, Pooling};
use accelerd_models::{Cut, Keep, Kind, Long, Model};

use crate::error::ApiError;

/// A part of a text that is to have a vector of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which text.
    pub text: u32,
    /// First byte of a text, or first of its tokens where tokens were sent.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
}

/// What a request says; the default is what the model's own files say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Leading dimensions to keep; 0 keeps all.
    pub dimensions: u32,
    /// Whether to scale to unit length.
    pub normalize: Option<bool>,
    /// How tokens become vectors.
    pub pooling: Option<Pooling>,
    /// Parts that have vectors instead of the texts.
    pub spans: Vec<Span>,
    /// Name of a prompt of the model.
    pub prompt_name: String,
    /// A prompt in its own words.
    pub prompt: Option<String>,
    /// Which end of a long text stays.
    pub keep: Keep,
    /// What is done with a long text.
    pub long: Long,
    /// Most tokens of a text; 0 is the model's own limit.
    pub max_tokens: u32,
    /// In what numbers vectors are answered.
    pub output: Output,
    /// Whether a GPU computes GELU through the error function.
    pub exact_gelu: bool,
    /// Whether to wait for room instead of being refused: for streams, which hold their callers back by themselves.
    pub waits: bool,
    /// Most bytes of the answer.
    pub max_answer_bytes: Option<usize>,
}

/// What a request means for its model.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) dimensions: usize,
    pub(super) normalize: bool,
    pub(super) pooling: Pooling,
    pub(super) cut: Cut,
}

impl Options {
    /// Leading dimensions, scaled to unit length.
    pub fn unit(dimensions: u32) -> Self {
        Self { dimensions, normalize: Some(true), ..Self::default() }
    }

    pub(super) fn choose(&self, model: &Model, takes_texts: bool) -> Result<Choice, ApiError> {
        let pooling = self.pooling.unwrap_or(model.pooling());
        self.check_table(model, pooling)?;
        if self.long == Long::Chunk && (pooling != Pooling::Mean || !self.spans.is_empty()) {
            let reason = "expected pooling by mean and no spans where long texts are cut into chunks";
            return Err(ApiError::invalid("long_input", reason));
        }
        if let Some((most, _)) = model.limits()
            && self.max_tokens as usize > most
        {
            let reason = format!("expected 0 to {most} for {:?}, got {}", model.name(), self.max_tokens);
            return Err(ApiError::invalid("max_tokens", reason));
        }
        let cut = Cut {
            prompt: if takes_texts { self.prompt(model)?.to_owned() } else { self.no_prompt()? },
            limit: (self.max_tokens > 0).then_some(self.max_tokens as usize),
            long: self.long,
            keep: self.keep,
            with_bytes: !self.spans.is_empty() && takes_texts,
        };
        let normalize = self.normalize.unwrap_or(model.normalize());
        Ok(Choice { dimensions: self.offered(model)?, normalize, pooling, cut })
    }

    /// A table has one way to pool, and no limit.
    fn check_table(&self, model: &Model, pooling: Pooling) -> Result<(), ApiError> {
        if matches!(model.kind(), Kind::Encoder(_)) {
            return Ok(());
        }
        let wrong = |field: &str, what: &str| {
            Err(ApiError::invalid(field, format!("expected none, since {:?} {what}", model.name())))
        };
        if pooling != Pooling::Mean {
            return wrong("pooling", "pools by mean only");
        }
        if !self.spans.is_empty() {
            return wrong("spans", "reads each token by itself: send the parts as texts");
        }
        if self.max_tokens > 0 {
            return wrong("max_tokens", "has no limit");
        }
        Ok(())
    }

    /// The dimensions to keep, if the model offers them.
    fn offered(&self, model: &Model) -> Result<usize, ApiError> {
        match self.dimensions {
            0 => Ok(model.dimensions()),
            asked if model.offers(asked) => Ok(asked as usize),
            asked => {
                let offered = match model.kind() {
                    Kind::Table(_) => format!("0 or one of {:?}", model.offered_dimensions()),
                    Kind::Encoder(_) => format!("0 to {}", model.dimensions()),
                };
                Err(ApiError::invalid("dimensions", format!("expected {offered}, got {asked}")))
            }
        }
    }

    fn prompt<'a>(&'a self, model: &'a Model) -> Result<&'a str, ApiError> {
        if let Some(prompt) = &self.prompt {
            return Ok(prompt);
        }
        let Kind::Encoder(encoder) = model.kind() else { return self.no_prompt_name(model) };
        let name = match self.prompt_name.as_str() {
            "" => encoder.default_prompt.as_deref().unwrap_or_default(),
            name => name,
        };
        if name.is_empty() {
            return Ok("");
        }
        let known = || encoder.prompts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        encoder.prompts.get(name).map(String::as_str).ok_or_else(|| {
            let reason = format!("{:?} has no prompt {name:?}, it has: {}", model.name(), known());
            ApiError::invalid("prompt_name", reason)
        })
    }

    fn no_prompt_name(&self, model: &Model) -> Result<&'static str, ApiError> {
        if self.prompt_name.is_empty() {
            return Ok("");
        }
        let reason = format!("{:?} has no prompt {:?}, it has none", model.name(), self.prompt_name);
        Err(ApiError::invalid("prompt_name", reason))
    }

    fn no_prompt(&self) -> Result<String, ApiError> {
        let field = if self.prompt.as_ref().is_some_and(|prompt| !prompt.is_empty()) {
            "prompt"
        } else if self.prompt_name.is_empty() {
            return Ok(String::new());
        } else {
            "prompt_name"
        };
        Err(ApiError::invalid(field, "expected none with tokens"))
    }
}
