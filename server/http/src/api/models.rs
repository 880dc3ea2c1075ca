//! The loaded models by their names.

use accelerd_proto::{methods::embed_service, v1 as pb};

use crate::{exchange::Exchange, failure::Failure};

/// The loaded models. Callers without rights are refused.
pub(super) async fn list(exchange: &Exchange) -> Result<Vec<pb::Model>, Failure> {
    Ok(exchange.call(embed_service::LIST_MODELS, &pb::ListModelsRequest {}).await?.models)
}

/// The name of a model and its aliases.
pub(super) fn names(model: &pb::Model) -> impl Iterator<Item = &String> {
    std::iter::once(&model.name).chain(&model.aliases)
}

/// The model of a name or an alias.
pub(super) fn named<'a>(models: &'a [pb::Model], name: &str) -> Option<&'a pb::Model> {
    models.iter().find(|model| names(model).any(|one| one == name))
}
