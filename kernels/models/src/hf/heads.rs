//! The heads of cross-encoders: what a checkpoint that classifies sequences makes of a pooled state, and what its tensors
//! are called.

use std::path::Path;

use accelerd_kernels::ops::encode::{
    Activation, EncoderConfig, Head, HeadActivation, HeadParts, Linear, Norm, NormKind, Pooling,
};

use super::{error::LoadError, families::activation, fields::Fields, files::Checkpoint, files::object_if_there};

/// The names of a head's tensors, without `.weight` and `.bias`.
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

/// Which classes have which head. All but ModernBERT's read the first token.
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

/// A head's description and where its weights are.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadFamily {
    names: Names,
    pooling: Pooling,
    activation: HeadActivation,
    dense_bias: bool,
    norm_bias: bool,
}

impl HeadFamily {
    /// What config.json says; none where the checkpoint has no class of classifiers.
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

    /// Reads the weights. The prefix of names is known already.
    pub(super) fn read(&self, config: &EncoderConfig, checkpoint: &Checkpoint) -> Result<Head, LoadError> {
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
        let parts = HeadParts {
            pooling: self.pooling,
            dense: linear(self.names.dense, hidden, self.dense_bias)?,
            activation: self.activation,
            norm: self.names.norm.map(norm).transpose()?,
            out: linear(self.names.out, 1, true)?,
        };
        Ok(Head::new(&parts)?)
    }
}

/// Whether scores pass the logistic function where the request does not say: as sentence-transformers writes it beside a
/// model or into config.json, in one of two spellings, and else yes.
pub(super) fn sigmoid(folder: &Path, fields: Fields<'_>) -> Result<bool, LoadError> {
    let beside = object_if_there(&folder.join("config_sentence_transformers.json"))?.unwrap_or_default();
    let mut name = Fields(&beside).text(&["activation_fn"], "")?;
    if name.is_empty()
        && let Some(own) = fields.object("sentence_transformers")?
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
