//! The models: encoders and rerankers of the daemon, and graphs as files.

use accelerd_proto::v1 as pb;
use http::StatusCode;

use super::{
    datatype::Datatype,
    graph,
    metadata::{IndexEntry, Metadata, TensorMetadata, VERSION, check_version},
    request::{DOCUMENTS, EMBEDDING, QUERY, SCORES, TEXT},
};
use crate::{api::models, exchange::Exchange, failure::Failure};

/// Describes a version of a model; an empty one is the newest.
pub(super) async fn describe(exchange: &Exchange, name: &str, version: &str) -> Result<Metadata, Failure> {
    let listed = models::list(exchange).await?;
    if let Some(loaded) = graph::load(exchange, name).await? {
        check_version(name, version, loaded.version)?;
        return loaded.describe(name);
    }
    check_version(name, version, VERSION)?;
    find(name, &listed)
}

/// Describes an encoder or a reranker.
pub(super) async fn of_service(exchange: &Exchange, name: &str) -> Result<Metadata, Failure> {
    find(name, &models::list(exchange).await?)
}

/// All models by their names.
pub(super) async fn index(exchange: &Exchange) -> Result<Vec<IndexEntry>, Failure> {
    let entry = |name, version: u64| IndexEntry { name, version: version.to_string(), state: "READY" };
    let listed = models::list(exchange).await?;
    let mut entries: Vec<_> = listed.iter().flat_map(models::names).map(|name| entry(name.clone(), VERSION)).collect();
    let graphs = graph::list(exchange).await?;
    entries.retain(|entry| graphs.iter().all(|(name, _)| *name != entry.name));
    entries.extend(graphs.into_iter().map(|(name, version)| entry(name, version)));
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn find(name: &str, listed: &[pb::Model]) -> Result<Metadata, Failure> {
    let unknown = || Failure::new(StatusCode::NOT_FOUND, format!("no model {name:?} is loaded"));
    Ok(metadata(name, models::named(listed, name).ok_or_else(unknown)?))
}

fn metadata(name: &str, model: &pb::Model) -> Metadata {
    let texts = |name| TensorMetadata::new(name, Datatype::Bytes, &[-1]);
    let (platform, inputs, output) = if model.cross_encoder {
        let query = TensorMetadata::new(QUERY, Datatype::Bytes, &[1]);
        ("accelerd_reranker", vec![query, texts(DOCUMENTS)], TensorMetadata::new(SCORES, Datatype::Fp32, &[-1]))
    } else {
        let shape = [-1, i64::from(model.dimensions)];
        ("accelerd_encoder", vec![texts(TEXT)], TensorMetadata::new(EMBEDDING, Datatype::Fp32, &shape))
    };
    Metadata { name: name.to_owned(), versions: [VERSION.to_string()], platform, inputs, outputs: vec![output] }
}
