//! Parameters of requests, inputs and outputs.

use std::collections::BTreeMap;

use accelerd_proto::inference::{InferParameter, infer_parameter::ParameterChoice};
use serde::Deserialize;

use crate::failure::Failure;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a truth value, a number or a string")]
pub(crate) enum Parameter {
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(String),
}

/// Parameters by name. Unknown ones are ignored, as the protocol has it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Parameters(BTreeMap<String, Parameter>);

impl Parameters {
    pub(super) fn bool(&self, name: &str) -> Result<Option<bool>, Failure> {
        self.get(name, "a truth value", |value| if let Parameter::Bool(value) = value { Some(*value) } else { None })
    }

    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, Failure> {
        let count =
            |value: &Parameter| if let Parameter::Integer(value) = value { u64::try_from(*value).ok() } else { None };
        self.get(name, "an integer of 0 or more", count)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        self.get(name, "a string", |value| if let Parameter::Text(text) = value { Some(text.clone()) } else { None })
    }

    fn get<T>(
        &self,
        name: &str,
        expected: &str,
        of: impl FnOnce(&Parameter) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let found = of(value).ok_or_else(|| Failure::invalid(name, format!("expected {expected}, got {value:?}")))?;
        Ok(Some(found))
    }

    /// Refuses extensions of the protocol that would change what an input or output is.
    pub(super) fn refuse_unsupported(&self, tensor: &str) -> Result<(), Failure> {
        for name in ["shared_memory_region", "classification"] {
            if self.0.contains_key(name) {
                return Err(Failure::invalid(tensor, format!("the extension {name} is not supported")));
            }
        }
        Ok(())
    }
}

impl From<BTreeMap<String, InferParameter>> for Parameters {
    fn from(parameters: BTreeMap<String, InferParameter>) -> Self {
        let value = |parameter: InferParameter| match parameter.parameter_choice? {
            ParameterChoice::BoolParam(value) => Some(Parameter::Bool(value)),
            ParameterChoice::Int64Param(value) => Some(Parameter::Integer(value)),
            ParameterChoice::StringParam(value) => Some(Parameter::Text(value)),
            ParameterChoice::DoubleParam(value) => Some(Parameter::Number(value)),
            ParameterChoice::Uint64Param(value) => {
                Some(i64::try_from(value).map_or(Parameter::Number(value as f64), Parameter::Integer))
            }
        };
        Self(parameters.into_iter().filter_map(|(name, parameter)| Some((name, value(parameter)?))).collect())
    }
}
