//! Collections: create, upsert, search, read, snapshot, delete.

use accelerd_proto::methods::similarity_service;
use futures::{Stream, StreamExt, stream::BoxStream};

use crate::{
    Client, Error, Filter, Fusion, Id, Ids, Matrix, Metric, Payload, Result,
    payload::{payload_from_wire, payload_to_wire},
    proto::{self, Dtype, Tensor, search_request::Query, upsert_request, upsert_stream_response},
    resume::Resend,
    timing::Timings,
};

/// Handle to a collection, which need not exist.
#[derive(Clone, Debug)]
pub struct Collection {
    client: Client,
    name: String,
}

/// A prompt, which is prepended to texts before they are embedded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Prompt {
    /// The collection's; for a new collection the model's.
    #[default]
    Default,
    /// The model's prompt of this name.
    Named(String),
    /// This text; empty for no prompt.
    Text(String),
}

impl Prompt {
    /// No prompt, whatever the collection has.
    pub fn none() -> Self {
        Self::Text(String::new())
    }

    /// The fields of a request: the name, and the text.
    fn into_wire(self) -> (String, Option<String>) {
        match self {
            Self::Default => Default::default(),
            Self::Named(name) => (name, None),
            Self::Text(text) => (String::new(), Some(text)),
        }
    }
}

/// Options of a new collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectionOptions {
    /// Dimensions of its vectors; 0 means the model's.
    pub dimensions: u32,
    /// Metric; default cosine.
    pub metric: Metric,
    /// Element type of the copy that a GPU scans; results are the same for all.
    pub storage: Dtype,
    /// Model that embeds its texts; empty for vectors only.
    pub model: String,
    /// Prompt of the texts of points; by default the model's for documents.
    pub document_prompt: Prompt,
    /// Prompt of the texts of queries; by default the model's for queries.
    pub query_prompt: Prompt,
    /// Payload field to index for [`SearchOptions::hybrid`]; empty for none.
    pub text_field: String,
    /// True if acknowledged writes survive a crash; `None` means that they do if the daemon has a data folder.
    pub durable: Option<bool>,
}

/// The points of an upsert.
#[derive(Clone, Debug, PartialEq)]
pub enum Points {
    /// f32 `[points, dimensions]`.
    Vectors(Tensor),
    /// Texts to embed with the collection's model.
    Texts(Vec<String>),
}

/// Points to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Upsert {
    /// One distinct id per point.
    pub ids: Ids,
    /// The vectors or texts.
    pub points: Points,
    /// Empty, or one payload per point.
    pub payloads: Vec<Payload>,
    /// Prompt of the texts; by default the collection's for documents.
    pub prompt: Prompt,
}

/// Result of an upsert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upserted {
    /// New points.
    pub inserted: u64,
    /// Replaced points.
    pub updated: u64,
}

/// Outcome of one batch of a stream.
#[derive(Debug)]
pub struct UpsertOutcome {
    /// Index of the batch.
    pub sequence: u64,
    /// Counts of the written points, or the reason of the failure. A failed batch does not end the stream.
    pub result: Result<Upserted>,
}

/// Options of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOptions {
    /// Maximum hits per query.
    pub limit: u32,
    /// Hits to skip.
    pub offset: u32,
    /// Omits hits that score worse.
    pub score_threshold: Option<f32>,
    /// Which points to search; `None` means all.
    pub filter: Option<Filter>,
    /// True to omit payloads.
    pub no_payload: bool,
    /// True to combine full-text search with vector search. Requires a collection with a text field.
    pub hybrid: bool,
    /// Fusion of the two rankings of a hybrid search; default relative score.
    pub fusion: Fusion,
    /// Weight of the text ranking in a hybrid search, from 0 to 1; default 0.5.
    pub text_weight: Option<f32>,
    /// Prompt of the texts; by default the collection's for queries.
    pub prompt: Prompt,
}

impl SearchOptions {
    /// Options for this many hits per query, with payloads.
    pub fn limit(limit: u32) -> Self {
        Self {
            limit,
            offset: 0,
            score_threshold: None,
            filter: None,
            no_payload: false,
            hybrid: false,
            fusion: Fusion::Unspecified,
            text_weight: None,
            prompt: Prompt::Default,
        }
    }

    /// Restricts the search to the points that match a filter.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Sets the prompt of the texts.
    #[must_use]
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompt = prompt;
        self
    }

    /// Combines full-text search with vector search.
    #[must_use]
    pub fn hybrid(mut self) -> Self {
        self.hybrid = true;
        self
    }

    /// Sets the weight of the text ranking, from 0 to 1, and makes the search hybrid.
    #[must_use]
    pub fn text_weight(mut self, weight: f32) -> Self {
        self.text_weight = Some(weight);
        self.hybrid()
    }

    /// Sets the fusion of the two rankings and makes the search hybrid.
    #[must_use]
    pub fn fusion(mut self, fusion: Fusion) -> Self {
        self.fusion = fusion;
        self.hybrid()
    }
}

/// A point that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Id of the point.
    pub id: Id,
    /// Value of the collection's metric; in a hybrid search the fused score.
    pub score: f32,
    /// Payload, unless it was omitted.
    pub payload: Payload,
}

/// Results of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResults {
    /// The hits of each query, best first.
    pub results: Vec<Vec<Hit>>,
    /// True if the ranking is certified to equal the exact one.
    pub exact: bool,
    /// Server-side timings.
    pub timings: Timings,
}

/// Stored points.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPoints {
    /// Ids of the points that exist, in the order of the request.
    pub ids: Ids,
    /// One payload per point.
    pub payloads: Vec<Payload>,
    /// One row per point, if requested.
    pub vectors: Option<Matrix>,
}

/// Options of an iteration over the points of a collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrollOptions {
    /// Maximum points per page, up to 16,384; 0 means the daemon's default.
    pub limit: u32,
    /// Which points to return; `None` means all.
    pub filter: Option<Filter>,
    /// True to omit payloads.
    pub no_payload: bool,
    /// True to return vectors.
    pub with_vectors: bool,
}

/// A page of a collection's points.
#[derive(Clone, Debug, PartialEq)]
pub struct PointsPage {
    /// The points in ascending order of id.
    pub points: StoredPoints,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

/// A position in the order of a collection's points, which stays valid after writes and restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(bytes::Bytes);

impl Cursor {
    /// Deserializes a cursor.
    pub fn from_bytes(bytes: impl Into<bytes::Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Serializes the cursor.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Client {
    /// Returns a handle to a collection, without a call to the daemon.
    pub fn collection(&self, name: impl Into<String>) -> Collection {
        Collection { client: self.clone(), name: name.into() }
    }

    /// Lists all collections, sorted by name.
    pub async fn collections(&self) -> Result<Vec<proto::Collection>> {
        Ok(self
            .unary(similarity_service::LIST_COLLECTIONS, proto::ListCollectionsRequest {})
            .await?
            .message
            .collections)
    }

    /// Creates a collection from a snapshot; an empty name means the original's.
    pub async fn restore(&self, url: impl Into<String>, name: impl Into<String>) -> Result<proto::Collection> {
        let request = proto::RestoreCollectionRequest { url: url.into(), name: name.into() };
        described(self.unary(similarity_service::RESTORE_COLLECTION, request).await?.message.collection)
    }
}

impl Collection {
    /// Name of the collection.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the collection.
    pub async fn create(&self, options: &CollectionOptions) -> Result<proto::Collection> {
        let (document_prompt_name, document_prompt) = options.document_prompt.clone().into_wire();
        let (query_prompt_name, query_prompt) = options.query_prompt.clone().into_wire();
        let request = proto::CreateCollectionRequest {
            document_prompt_name,
            document_prompt,
            query_prompt_name,
            query_prompt,
            name: self.name.clone(),
            dimensions: options.dimensions,
            metric: options.metric.into(),
            storage: options.storage.into(),
            model: options.model.clone(),
            text_field: options.text_field.clone(),
            durable: options.durable == Some(true),
            durability: match options.durable {
                None => proto::Durability::Unspecified,
                Some(true) => proto::Durability::Log,
                Some(false) => proto::Durability::Memory,
            }
            .into(),
        };
        described(self.client.unary(similarity_service::CREATE_COLLECTION, request).await?.message.collection)
    }

    /// Returns the collection's configuration and size.
    pub async fn get(&self) -> Result<proto::Collection> {
        let request = proto::GetCollectionRequest { name: self.name.clone() };
        described(self.client.unary(similarity_service::GET_COLLECTION, request).await?.message.collection)
    }

    /// Deletes the collection, its log and its local snapshots.
    pub async fn delete(&self) -> Result<()> {
        let request = proto::DeleteCollectionRequest { name: self.name.clone() };
        self.client.unary(similarity_service::DELETE_COLLECTION, request).await.map(|_| ())
    }

    /// Upserts vectors, atomically.
    pub async fn upsert_vectors(
        &self,
        ids: impl Into<Ids>,
        vectors: impl Into<Tensor>,
        payloads: Vec<Payload>,
    ) -> Result<Upserted> {
        let points = Points::Vectors(vectors.into());
        self.upsert(Upsert { ids: ids.into(), points, payloads, prompt: Prompt::Default }).await
    }

    /// Upserts texts, which the collection's model embeds after the collection's prompt, atomically.
    pub async fn upsert_texts(
        &self,
        ids: impl Into<Ids>,
        texts: impl IntoIterator<Item = impl Into<String>>,
        payloads: Vec<Payload>,
    ) -> Result<Upserted> {
        let points = Points::Texts(texts.into_iter().map(Into::into).collect());
        self.upsert(Upsert { ids: ids.into(), points, payloads, prompt: Prompt::Default }).await
    }

    /// Inserts points and replaces those whose ids exist, atomically.
    pub async fn upsert(&self, upsert: Upsert) -> Result<Upserted> {
        let request = upsert_request(self.name.clone(), upsert);
        Ok(upserted(self.client.unary(similarity_service::UPSERT, request).await?.message))
    }

    /// Upserts batches over one stream, in order. Each batch is atomic. After a lost connection, or the drain of a
    /// daemon, batches are written again from the first without an outcome on, which then count as updates.
    pub async fn upsert_stream(
        &self,
        batches: impl Stream<Item = Upsert> + Send + 'static,
    ) -> Result<BoxStream<'static, Result<UpsertOutcome>>> {
        let name = self.name.clone();
        let mut sequences = 0..;
        let requests = batches.map(move |batch| proto::UpsertStreamRequest {
            sequence: sequences.next().unwrap_or_default(),
            upsert: Some(upsert_request(name.clone(), batch)),
        });
        let method = similarity_service::UPSERT_STREAM;
        let responses = self.client.resumable_stream(method, requests, Resend::FromFirstUnanswered).await?;
        Ok(responses.map(|response| response.and_then(upsert_outcome)).boxed())
    }

    /// Deletes the points that match a filter. Returns their number. A filter without ids and conditions is an error; one with
    /// a list of no ids deletes nothing.
    pub async fn delete_points(&self, filter: Filter) -> Result<u64> {
        let request = proto::DeletePointsRequest { collection: self.name.clone(), filter: Some(filter.into()) };
        Ok(self.client.unary(similarity_service::DELETE_POINTS, request).await?.message.deleted_count)
    }

    /// Finds the points nearest to texts, embedded by the collection's model.
    pub async fn search_text(
        &self,
        texts: impl IntoIterator<Item = impl Into<String>>,
        options: &SearchOptions,
    ) -> Result<SearchResults> {
        let values = texts.into_iter().map(Into::into).collect();
        self.search(Query::Texts(proto::TextInput { values }), options).await
    }

    /// Finds the points nearest to vectors.
    pub async fn search_vectors(&self, vectors: impl Into<Tensor>, options: &SearchOptions) -> Result<SearchResults> {
        self.search(Query::Vectors(vectors.into()), options).await
    }

    /// Finds the points nearest to stored ones. The results of each include the point itself.
    pub async fn search_ids(&self, ids: impl Into<Ids>, options: &SearchOptions) -> Result<SearchResults> {
        self.search(Query::Ids(ids.into().into()), options).await
    }

    async fn search(&self, query: Query, options: &SearchOptions) -> Result<SearchResults> {
        let (prompt_name, prompt) = options.prompt.clone().into_wire();
        let request = proto::SearchRequest {
            prompt_name,
            prompt,
            collection: self.name.clone(),
            query: Some(query),
            limit: options.limit,
            offset: options.offset,
            score_threshold: options.score_threshold,
            filter: options.filter.clone().map(Into::into),
            include_payload: !options.no_payload,
            hybrid: options.hybrid,
            fusion: options.fusion.into(),
            text_weight: options.text_weight,
            ..Default::default()
        };
        let reply = self.client.unary(similarity_service::SEARCH, request).await?;
        let results = reply.message.results.into_iter();
        Ok(SearchResults {
            results: results.map(|result| result.hits.into_iter().map(hit).collect()).collect::<Result<_>>()?,
            exact: reply.message.exact,
            timings: reply.timings,
        })
    }

    /// Returns points by id. Unknown ids are omitted.
    pub async fn get_points(&self, ids: impl Into<Ids>, with_vectors: bool) -> Result<StoredPoints> {
        let request = proto::GetPointsRequest {
            collection: self.name.clone(),
            ids: Some(ids.into().into()),
            include_vectors: with_vectors,
            ..Default::default()
        };
        let points = self.client.unary(similarity_service::GET_POINTS, request).await?.message;
        let vectors = with_vectors.then(|| Matrix::from_tensor(points.vectors, "vectors")).transpose()?;
        let ids = Ids::from(points.ids.unwrap_or_default());
        if ids.len() != points.payloads.len() {
            return Err(Error::Malformed(format!("{} ids with {} payloads", ids.len(), points.payloads.len())));
        }
        Ok(StoredPoints { ids, payloads: points.payloads.into_iter().map(payload_from_wire).collect(), vectors })
    }

    /// Returns a page of points in ascending order of id; without a cursor the first page. A point that exists from the first
    /// page to the last is on exactly one page, whatever is written in between.
    pub async fn scroll(&self, after: Option<&Cursor>, options: &ScrollOptions) -> Result<PointsPage> {
        let request = proto::ScrollPointsRequest {
            collection: self.name.clone(),
            filter: options.filter.clone().map(Into::into),
            limit: options.limit,
            cursor: after.map(|cursor| cursor.0.clone()).unwrap_or_default(),
            include_payload: !options.no_payload,
            include_vectors: options.with_vectors,
            columns: false,
        };
        let page = self.client.unary(similarity_service::SCROLL_POINTS, request).await?.message;
        let ids = Ids::from(page.ids.unwrap_or_default());
        if !options.no_payload && ids.len() != page.payloads.len() {
            return Err(Error::Malformed(format!("{} ids with {} payloads", ids.len(), page.payloads.len())));
        }
        let vectors = options.with_vectors && !ids.is_empty();
        let vectors = vectors.then(|| Matrix::from_tensor(page.vectors, "vectors")).transpose()?;
        let payloads = page.payloads.into_iter().map(payload_from_wire).collect();
        let next = (!page.next_cursor.is_empty()).then(|| Cursor(page.next_cursor));
        Ok(PointsPage { points: StoredPoints { ids, payloads, vectors }, next })
    }

    /// Counts all points, or those that match a filter.
    pub async fn count(&self, filter: Option<Filter>) -> Result<u64> {
        let request = proto::CountPointsRequest { collection: self.name.clone(), filter: filter.map(Into::into) };
        Ok(self.client.unary(similarity_service::COUNT_POINTS, request).await?.message.point_count)
    }

    /// Writes a versioned snapshot to an object store; an empty URL means the configured one.
    pub async fn snapshot(&self, url: impl Into<String>) -> Result<proto::Snapshot> {
        let request = proto::CreateSnapshotRequest { collection: self.name.clone(), url: url.into() };
        let snapshot = self.client.unary(similarity_service::CREATE_SNAPSHOT, request).await?.message.snapshot;
        snapshot.ok_or_else(|| Error::Malformed("no snapshot".into()))
    }

    /// Lists the snapshots in a folder of an object store, oldest first; an empty URL means the configured one. The collection need
    /// not exist any more.
    pub async fn snapshots(&self, url: impl Into<String>) -> Result<Vec<proto::Snapshot>> {
        let request = proto::ListSnapshotsRequest { collection: self.name.clone(), url: url.into() };
        Ok(self.client.unary(similarity_service::LIST_SNAPSHOTS, request).await?.message.snapshots)
    }

    /// Deletes the snapshots in a folder but for the newest `keep_count`. Returns those that were deleted.
    pub async fn prune_snapshots(&self, url: impl Into<String>, keep_count: u32) -> Result<Vec<proto::Snapshot>> {
        let request = proto::PruneSnapshotsRequest { collection: self.name.clone(), url: url.into(), keep_count };
        Ok(self.client.unary(similarity_service::PRUNE_SNAPSHOTS, request).await?.message.deleted)
    }
}

fn described(collection: Option<proto::Collection>) -> Result<proto::Collection> {
    collection.ok_or_else(|| Error::Malformed("no collection".into()))
}

fn upsert_request(collection: String, upsert: Upsert) -> proto::UpsertRequest {
    let points = match upsert.points {
        Points::Vectors(vectors) => upsert_request::Points::Vectors(vectors),
        Points::Texts(values) => upsert_request::Points::Texts(proto::TextInput { values }),
    };
    let (prompt_name, prompt) = upsert.prompt.into_wire();
    proto::UpsertRequest {
        collection,
        prompt_name,
        prompt,
        ids: Some(upsert.ids.into()),
        points: Some(points),
        payloads: upsert.payloads.into_iter().map(payload_to_wire).collect(),
        ..Default::default()
    }
}

fn upserted(response: proto::UpsertResponse) -> Upserted {
    Upserted { inserted: response.inserted_count, updated: response.updated_count }
}

fn upsert_outcome(response: proto::UpsertStreamResponse) -> Result<UpsertOutcome> {
    use upsert_stream_response::Result as Wire;
    let result = match response.result {
        Some(Wire::Upsert(response)) => Ok(upserted(response)),
        Some(Wire::Error(error)) => Err(error.into()),
        None => return Err(Error::Malformed(format!("no result of batch {}", response.sequence))),
    };
    Ok(UpsertOutcome { sequence: response.sequence, result })
}

fn hit(hit: proto::Hit) -> Result<Hit> {
    Ok(Hit {
        id: hit.id.try_into()?,
        score: hit.score,
        payload: hit.payload.map(payload_from_wire).unwrap_or_default(),
    })
}
