//! Collections of a few points, and their devices, as a client sees them.

use std::error::Error;

use accelerd_proto::v1::{
    self, device_service_client::DeviceServiceClient, similarity_service_client::SimilarityServiceClient,
};
use tonic::transport::Channel;

pub(crate) type Similarity = SimilarityServiceClient<Channel>;

/// Creates a collection of four points.
pub(crate) async fn create(similarity: &mut Similarity, name: &str, durable: bool) -> Result<(), Box<dyn Error>> {
    let name = name.to_owned();
    let metric = v1::Metric::Dot.into();
    let create =
        v1::CreateCollectionRequest { name: name.clone(), dimensions: 2, metric, durable, ..Default::default() };
    similarity.create_collection(create).await?;
    let vectors = tensor(4, &[0.0, 1.0, 1.0, 0.0, 0.5, 0.5, -1.0, 0.0]);
    let ids = Some(v1::PointIds { numbers: vec![1, 2, 3, 4], ..Default::default() });
    let points = Some(v1::upsert_request::Points::Vectors(vectors));
    similarity.upsert(v1::UpsertRequest { collection: name, ids, points, ..Default::default() }).await?;
    Ok(())
}

fn tensor(rows: i64, values: &[f32]) -> v1::Tensor {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>().into();
    v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![rows, 2], data }
}

/// The hits of a search. All scores are exact in binary, so that they are equal on all devices.
pub(crate) async fn search(similarity: &mut Similarity, name: &str) -> Result<v1::SearchResponse, Box<dyn Error>> {
    let query = Some(v1::search_request::Query::Vectors(tensor(1, &[1.0, 0.25])));
    let request = v1::SearchRequest { collection: name.to_owned(), query, limit: 3, ..Default::default() };
    Ok(similarity.search(request).await?.into_inner())
}

/// The devices of all collections, by name.
pub(crate) async fn devices(similarity: &mut Similarity) -> Result<Vec<String>, Box<dyn Error>> {
    let listed = similarity.list_collections(v1::ListCollectionsRequest::default()).await?.into_inner();
    Ok(listed.collections.into_iter().map(|collection| collection.device).collect())
}

/// The states of all devices, by ordinal; the CPU comes last.
pub(crate) async fn states(grpc: &str) -> Result<Vec<v1::DeviceState>, Box<dyn Error>> {
    let mut client = DeviceServiceClient::connect(grpc.to_owned()).await?;
    let listed = client.list_devices(v1::ListDevicesRequest {}).await?.into_inner();
    Ok(listed.devices.iter().map(v1::Device::state).collect())
}
