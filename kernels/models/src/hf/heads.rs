//! Classification heads of cross-encoders: their structure and tensor names.

use std::path::Path;

use accelerd_kernels::ops::encode::{
    Activation, ClassificationHead, EncoderConfig, HeadActivation, HeadWeights, Linear, Norm, NormKind, Pooling,
};

use super::{
    error::LoadError,
    families::activation,
    fields::Fields,
    files::{Checkpoint, optional_object},
    modules::SETTINGS,
};

/// Tensor names of a head, without `.weight` and `.bias`.
#[derive(Clone, Copy, Debug)]
struct Names {
    dense: &'static str,
    norm: Option<&'static str>,
    out: &'static str,
}

const BERT: Names = Names { dense: "pooler.dense", norm: None, out: "classifier" };
const ROBERTA: Names = Names { dense: "classifier.dense", norm: None, out: "classifier.out_proj" };
const DISTILBERT: Names = Names { dense: "pre_classifier", norm: None, out: "classifier" };
const MODERNBERT: Names = Names { dense: "head.dense", norm: Some("head.norm"), out: "classifier" };

/// The head of each architecture. All but ModernBERT's pool the first token.
const CLASSES: [(&str, Names, HeadActivation); 9] = [
    ("BertForSequenceClassification", BERT, HeadActivation::Tanh),
    ("CamembertForSequenceClassification", ROBERTA, HeadActivation::Tanh),
    ("DistilBertForSequenceClassification", DISTILBERT, HeadActivation::Of(Activation::Relu)),
    ("JinaBertForSequenceClassification", BERT, HeadActivation::Tanh),
    ("MPNetForSequenceClassification", ROBERTA, HeadActivation::Tanh),
    (MODERN, MODERNBERT, HeadActivation::Of(Activation::Gelu)),
    ("NomicBertForSequenceClassification", BERT, HeadActivation::Tanh),
    ("RobertaForSequenceClassification", ROBERTA, HeadActivation::Tanh),
    ("XLMRobertaForSequenceClassification", ROBERTA, HeadActivation::Tanh),
];

const MODERN: &str = "ModernBertForSequenceClassification";

/// A head's configuration and tensor names.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadFamily {
    names: Names,
    pooling: Pooling,
    activation: HeadActivation,
    dense_bias: bool,
    norm_bias: bool,
}

impl HeadFamily {
    /// Reads config.json; `None` unless it is a sequence classifier.
    pub(super) fn new(fields: Fields<'_>) -> Result<Option<Self>, LoadError> {
        let classes = fields.texts(&["architectures"])?.unwrap_or_default();
        let Some(class) = classes.into_iter().find(|class| class.ends_with("ForSequenceClassification")) else {
            return Ok(None);
        };
        let Some((_, names, activation)) = CLASSES.iter().find(|(known, ..)| *known == class).copied() else {
            let known = CLASSES.map(|(known, ..)| known).join(", ");
            return Err(LoadError::Unsupported(format!("the head of {class} (known are those of {known})")));
        };
        let plain = Self { names, pooling: Pooling::Cls, activation, dense_bias: true, norm_bias: true };
        if class == MODERN { plain.modern(fields).map(Some) } else { Ok(Some(plain)) }
    }

    fn modern(self, fields: Fields<'_>) -> Result<Self, LoadError> {
        let pooling = match fields.text(&["classifier_pooling"], "cls")? {
            "cls" => Pooling::Cls,
            "mean" => Pooling::Mean,
            other => return Err(LoadError::Unsupported(format!("classifier_pooling \"{other}\""))),
        };
        Ok(Self {
            pooling,
            activation: HeadActivation::Of(activation(fields.text(&["classifier_activation"], "gelu")?)?),
            dense_bias: fields.flag(&["classifier_bias"], false)?,
            norm_bias: fields.flag(&["norm_bias"], false)?,
            ..self
        })
    }

    /// Reads the weights, after the prefix of names is known.
    pub(super) fn read(
        &self,
        config: &EncoderConfig,
        checkpoint: &Checkpoint,
    ) -> Result<ClassificationHead, LoadError> {
        let hidden = config.hidden;
        let out = format!("{}.weight", self.names.out);
        let labels = checkpoint.rows_around(&out)?;
        if labels != 1 {
            let reason =
                format!("a classifier of {labels} labels; a cross-encoder has 1, which is the score, and so that");
            return Err(LoadError::Unsupported(reason));
        }
        let take = |name: &str, part: &str, shape: &[usize]| checkpoint.take_around(&format!("{name}.{part}"), shape);
        let linear = |name: &str, outputs: usize, has_bias: bool| {
            let bias = has_bias.then(|| take(name, "bias", &[outputs])).transpose()?;
            Ok::<_, LoadError>(Linear {
                weight: take(name, "weight", &[outputs, hidden])?,
                bias,
                inputs: hidden,
                outputs,
            })
        };
        let norm = |name: &str| {
            let bias = self.norm_bias.then(|| take(name, "bias", &[hidden])).transpose()?;
            let weight = take(name, "weight", &[hidden])?;
            Ok::<_, LoadError>(Norm { kind: NormKind::Layer, epsilon: config.epsilon, weight, bias })
        };
        let parts = HeadWeights {
            pooling: self.pooling,
            dense: linear(self.names.dense, hidden, self.dense_bias)?,
            activation: self.activation,
            norm: self.names.norm.map(norm).transpose()?,
            out: linear(self.names.out, 1, true)?,
        };
        Ok(ClassificationHead::new(&parts)?)
    }
}

/// Returns true if scores pass the sigmoid by default: as the files of sentence-transformers or config.json say, in one of two
/// spellings; else yes.
pub(super) fn sigmoid(folder: &Path, fields: Fields<'_>) -> Result<bool, LoadError> {
    let settings = optional_object(&folder.join(SETTINGS))?.unwrap_or_default();
    let mut name = Fields::new(SETTINGS, &settings).text(&["activation_fn"], "")?;
    if name.is_empty()
        && let Some(own) = fields.object(&["sentence_transformers"])?
    {
        name = own.text(&["activation_fn"], "")?;
    }
    if name.is_empty() {
        name = fields.text(&["sbert_ce_default_activation_function"], "")?;
    }
    match name.rsplit('.').next().unwrap_or_default() {
        "" | "Sigmoid" => Ok(true),
        "Identity" => Ok(false),
        _ => Err(LoadError::Unsupported(format!("a score through \"{name}\""))),
    }
}
