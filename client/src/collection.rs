//! Resident collections: make, fill, search, read, snapshot, drop.

use futures::{Stream, StreamExt, stream::BoxStream};

use crate::{
    Client, Error, Filter, Fusion, Id, Ids, Matrix, Metric, Payload, Result,
    call::{Method, last},
    payload::{payload_from_wire, payload_to_wire},
    proto::{self, Dtype, Tensor, search_request::Query, upsert_request, upsert_stream_response},
    timing::Timings,
};

macro_rules! methods {
    ($($name:ident: $kind:ident $rpc:literal $request:ident -> $response:ident;)*) => {
        $(const $name: Method<proto::$request, proto::$response> =
            Method::$kind(concat!("/accelerd.v1.SimilarityService/", $rpc));)*
    };
}

methods! {
    CREATE: once "CreateCollection" CreateCollectionRequest -> CreateCollectionResponse;
    GET: repeatable "GetCollection" GetCollectionRequest -> GetCollectionResponse;
    LIST: repeatable "ListCollections" ListCollectionsRequest -> ListCollectionsResponse;
    DROP: once "DeleteCollection" DeleteCollectionRequest -> DeleteCollectionResponse;
    UPSERT: repeatable "Upsert" UpsertRequest -> UpsertResponse;
    UPSERT_STREAM: repeatable "UpsertStream" UpsertStreamRequest -> UpsertStreamResponse;
    DELETE_POINTS: repeatable "DeletePoints" DeletePointsRequest -> DeletePointsResponse;
    SEARCH: repeatable "Search" SearchRequest -> SearchResponse;
    GET_POINTS: repeatable "GetPoints" GetPointsRequest -> GetPointsResponse;
    SCROLL: repeatable "ScrollPoints" ScrollPointsRequest -> ScrollPointsResponse;
    COUNT: repeatable "CountPoints" CountPointsRequest -> CountPointsResponse;
    SNAPSHOT: once "CreateSnapshot" CreateSnapshotRequest -> CreateSnapshotResponse;
    RESTORE: once "RestoreCollection" RestoreCollectionRequest -> RestoreCollectionResponse;
}

/// A collection by name; it need not exist.
#[derive(Clone, Debug)]
pub struct Collection {
    client: Client,
    name: String,
}

/// A collection to make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectionOptions {
    /// Dimensions of its vectors; 0 takes the model's.
    pub dimensions: u32,
    /// How rows are compared; default cosine.
    pub metric: Metric,
    /// Precision of the scan copy on a GPU; answers are the same for all.
    pub storage: Dtype,
    /// Model that embeds texts for it; empty for vectors only.
    pub model: String,
    /// Payload field that holds a point's text, for [`SearchOptions::hybrid`]; empty for none.
    pub text_field: String,
    /// Keep acknowledged writes through a crash.
    pub durable: bool,
}

/// What the points of an upsert are.
#[derive(Clone, Debug, PartialEq)]
pub enum Points {
    /// One row a point.
    Vectors(Tensor),
    /// Texts that the collection's model embeds.
    Texts(Vec<String>),
}

/// Points to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Upsert {
    /// One id a point, none twice.
    pub ids: Ids,
    /// The points.
    pub points: Points,
    /// None, or one a point.
    pub payloads: Vec<Payload>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upserted {
    /// Points that are new.
    pub inserted: u64,
    /// Points that replaced one of their id.
    pub updated: u64,
}

/// How one step of a stream of upserts went.
#[derive(Debug)]
pub struct UpsertOutcome {
    /// Which step, counted from 0.
    pub sequence: u64,
    /// How it went; a failed step does not end the stream.
    pub result: Result<Upserted>,
}

/// How to search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchOptions {
    /// Hits a query.
    pub limit: u32,
    /// Hits to skip.
    pub offset: u32,
    /// Leaves out hits worse than this.
    pub score_threshold: Option<f32>,
    /// Which points count.
    pub filter: Option<Filter>,
    /// Leave payloads out of the answer.
    pub no_payload: bool,
    /// Rank by the words of the texts as well as by their vectors. Needs a collection with a text field.
    pub hybrid: bool,
    /// How both rankings of a hybrid search become one; by relative score where unspecified.
    pub fusion: Fusion,
    /// What words weigh in it, from 0 to 1; vectors weigh the rest. `None` for half.
    pub word_weight: Option<f32>,
}

impl SearchOptions {
    /// The best so many, with their payloads.
    pub fn limit(limit: u32) -> Self {
        Self {
            limit,
            offset: 0,
            score_threshold: None,
            filter: None,
            no_payload: false,
            hybrid: false,
            fusion: Fusion::Unspecified,
            word_weight: None,
        }
    }

    /// Only points that pass the filter.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// By words as well as by meaning.
    #[must_use]
    pub fn hybrid(mut self) -> Self {
        self.hybrid = true;
        self
    }

    /// By words and meaning, where words weigh so much, from 0 to 1, and vectors the rest.
    #[must_use]
    pub fn word_weight(mut self, weight: f32) -> Self {
        self.word_weight = Some(weight);
        self.hybrid()
    }

    /// By words and meaning, made one ranking in this way.
    #[must_use]
    pub fn fusion(mut self, fusion: Fusion) -> Self {
        self.fusion = fusion;
        self.hybrid()
    }
}

/// A point found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its name.
    pub id: Id,
    /// Cosine, inner product or squared distance, by the collection's metric.
    pub score: f32,
    /// Its payload, unless it was left out.
    pub payload: Payload,
}

/// The hits of some queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// One list a query, each best first.
    pub results: Vec<Vec<Hit>>,
    /// Whether the ranking is certified equal to the exact one.
    pub exact: bool,
    /// Where the time went.
    pub timings: Timings,
}

/// Points read back.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPoints {
    /// Those that exist, in the order asked.
    pub ids: Ids,
    /// One a point.
    pub payloads: Vec<Payload>,
    /// One row a point, when asked for.
    pub vectors: Option<Matrix>,
}

/// Which points of a collection to read, and what of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrollOptions {
    /// Most points on a page, up to 16,384; 0 leaves it to the daemon.
    pub limit: u32,
    /// Which points count.
    pub filter: Option<Filter>,
    /// Leave payloads out.
    pub no_payload: bool,
    /// Read vectors, too.
    pub with_vectors: bool,
}

/// A page of a collection's points.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The points, in ascending order of their ids. Without payloads where those were left out.
    pub points: StoredPoints,
    /// Where the next page begins; `None` after the last page.
    pub next: Option<Cursor>,
}

/// A place in the order of a collection's points. It stays valid through writes and restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(bytes::Bytes);

impl Cursor {
    /// A cursor that was kept as bytes.
    pub fn from_bytes(bytes: impl Into<bytes::Bytes>) -> Self {
        Self(bytes.into())
    }

    /// The cursor as bytes, to be kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Client {
    /// A collection by name; asks nothing of the daemon.
    pub fn collection(&self, name: impl Into<String>) -> Collection {
        Collection { client: self.clone(), name: name.into() }
    }

    /// Every collection, by name.
    pub async fn collections(&self) -> Result<Vec<proto::Collection>> {
        Ok(self.unary(LIST, proto::ListCollectionsRequest {}).await?.message.collections)
    }

    /// Makes a collection from a snapshot; an empty name keeps the snapshot's.
    pub async fn restore(&self, url: impl Into<String>, name: impl Into<String>) -> Result<proto::Collection> {
        let request = proto::RestoreCollectionRequest { url: url.into(), name: name.into() };
        described(self.unary(RESTORE, request).await?.message.collection)
    }
}

impl Collection {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes it.
    pub async fn create(&self, options: &CollectionOptions) -> Result<proto::Collection> {
        let request = proto::CreateCollectionRequest {
            name: self.name.clone(),
            dimensions: options.dimensions,
            metric: options.metric.into(),
            storage: options.storage.into(),
            model: options.model.clone(),
            text_field: options.text_field.clone(),
            durable: options.durable,
        };
        described(self.client.unary(CREATE, request).await?.message.collection)
    }

    /// Describes it.
    pub async fn get(&self) -> Result<proto::Collection> {
        let request = proto::GetCollectionRequest { name: self.name.clone() };
        described(self.client.unary(GET, request).await?.message.collection)
    }

    /// Drops it, its log and its local snapshots.
    pub async fn delete(&self) -> Result<()> {
        let request = proto::DeleteCollectionRequest { name: self.name.clone() };
        self.client.unary(DROP, request).await.map(|_| ())
    }

    /// Writes points given as vectors, all or none.
    pub async fn upsert_vectors(
        &self,
        ids: impl Into<Ids>,
        vectors: impl Into<Tensor>,
        payloads: Vec<Payload>,
    ) -> Result<Upserted> {
        self.upsert(Upsert { ids: ids.into(), points: Points::Vectors(vectors.into()), payloads }).await
    }

    /// Writes points given as texts, all or none.
    pub async fn upsert_texts(
        &self,
        ids: impl Into<Ids>,
        texts: impl IntoIterator<Item = impl Into<String>>,
        payloads: Vec<Payload>,
    ) -> Result<Upserted> {
        let texts = texts.into_iter().map(Into::into).collect();
        self.upsert(Upsert { ids: ids.into(), points: Points::Texts(texts), payloads }).await
    }

    /// Writes points, all or none.
    pub async fn upsert(&self, upsert: Upsert) -> Result<Upserted> {
        let request = upsert_request(self.name.clone(), upsert);
        Ok(upserted(self.client.unary(UPSERT, request).await?.message))
    }

    /// Writes points in bulk, in order. Each step is all or none and is answered as it finishes. Nothing is retried.
    pub async fn upsert_stream(
        &self,
        steps: impl Stream<Item = Upsert> + Send + 'static,
    ) -> Result<BoxStream<'static, Result<UpsertOutcome>>> {
        let name = self.name.clone();
        let mut sequences = 0..;
        let requests = steps.map(move |step| proto::UpsertStreamRequest {
            sequence: sequences.next().unwrap_or_default(),
            upsert: Some(upsert_request(name.clone(), step)),
        });
        let outcomes = self.client.both_stream(UPSERT_STREAM, requests).await?;
        Ok(outcomes.map(|outcome| outcome.map_err(last).and_then(upsert_outcome)).boxed())
    }

    /// Deletes points and says how many were there. An empty filter is an error.
    pub async fn delete_points(&self, filter: Filter) -> Result<u64> {
        let request = proto::DeletePointsRequest { collection: self.name.clone(), filter: Some(filter.into()) };
        Ok(self.client.unary(DELETE_POINTS, request).await?.message.deleted_count)
    }

    /// Finds the points nearest to texts, embedded by the collection's model.
    pub async fn search_text(
        &self,
        texts: impl IntoIterator<Item = impl Into<String>>,
        options: &SearchOptions,
    ) -> Result<Found> {
        let values = texts.into_iter().map(Into::into).collect();
        self.search(Query::Texts(proto::TextInput { values }), options).await
    }

    /// Finds the points nearest to vectors.
    pub async fn search_vectors(&self, vectors: impl Into<Tensor>, options: &SearchOptions) -> Result<Found> {
        self.search(Query::Vectors(vectors.into()), options).await
    }

    /// Finds the points nearest to stored ones, each of which also finds itself.
    pub async fn search_ids(&self, ids: impl Into<Ids>, options: &SearchOptions) -> Result<Found> {
        self.search(Query::Ids(ids.into().into()), options).await
    }

    async fn search(&self, query: Query, options: &SearchOptions) -> Result<Found> {
        let request = proto::SearchRequest {
            collection: self.name.clone(),
            query: Some(query),
            limit: options.limit,
            offset: options.offset,
            score_threshold: options.score_threshold,
            filter: options.filter.clone().map(Into::into),
            include_payload: !options.no_payload,
            hybrid: options.hybrid,
            fusion: options.fusion.into(),
            word_weight: options.word_weight,
            ..Default::default()
        };
        let reply = self.client.unary(SEARCH, request).await?;
        let results = reply.message.results.into_iter();
        Ok(Found {
            results: results.map(|result| result.hits.into_iter().map(hit).collect()).collect::<Result<_>>()?,
            exact: reply.message.exact,
            timings: reply.timings,
        })
    }

    /// Reads points back; unknown ids are left out.
    pub async fn get_points(&self, ids: impl Into<Ids>, with_vectors: bool) -> Result<StoredPoints> {
        let request = proto::GetPointsRequest {
            collection: self.name.clone(),
            ids: Some(ids.into().into()),
            include_vectors: with_vectors,
            ..Default::default()
        };
        let points = self.client.unary(GET_POINTS, request).await?.message;
        let vectors = with_vectors.then(|| Matrix::from_tensor(points.vectors, "vectors")).transpose()?;
        let ids = Ids::from(points.ids.unwrap_or_default());
        if ids.len() != points.payloads.len() {
            return Err(Error::Malformed(format!("{} ids with {} payloads", ids.len(), points.payloads.len())));
        }
        Ok(StoredPoints { ids, payloads: points.payloads.into_iter().map(payload_from_wire).collect(), vectors })
    }

    /// Reads a page of points in ascending order of their ids, the first page where no cursor is given. A point that is there
    /// from the first page to the last is on exactly one of them, whatever is written meanwhile.
    pub async fn scroll(&self, after: Option<&Cursor>, options: &ScrollOptions) -> Result<Page> {
        let request = proto::ScrollPointsRequest {
            collection: self.name.clone(),
            filter: options.filter.clone().map(Into::into),
            limit: options.limit,
            cursor: after.map(|cursor| cursor.0.clone()).unwrap_or_default(),
            include_payload: !options.no_payload,
            include_vectors: options.with_vectors,
            columns: false,
        };
        let page = self.client.unary(SCROLL, request).await?.message;
        let ids = Ids::from(page.ids.unwrap_or_default());
        if !options.no_payload && ids.len() != page.payloads.len() {
            return Err(Error::Malformed(format!("{} ids with {} payloads", ids.len(), page.payloads.len())));
        }
        let vectors = options.with_vectors && !ids.is_empty();
        let vectors = vectors.then(|| Matrix::from_tensor(page.vectors, "vectors")).transpose()?;
        let payloads = page.payloads.into_iter().map(payload_from_wire).collect();
        let next = (!page.next_cursor.is_empty()).then(|| Cursor(page.next_cursor));
        Ok(Page { points: StoredPoints { ids, payloads, vectors }, next })
    }

    /// Counts all points, or those that pass a filter.
    pub async fn count(&self, filter: Option<Filter>) -> Result<u64> {
        let request = proto::CountPointsRequest { collection: self.name.clone(), filter: filter.map(Into::into) };
        Ok(self.client.unary(COUNT, request).await?.message.point_count)
    }

    /// Writes a versioned snapshot to an object store; an empty URL means the configured one.
    pub async fn snapshot(&self, url: impl Into<String>) -> Result<proto::Snapshot> {
        let request = proto::CreateSnapshotRequest { collection: self.name.clone(), url: url.into() };
        let snapshot = self.client.unary(SNAPSHOT, request).await?.message.snapshot;
        snapshot.ok_or_else(|| Error::Malformed("no snapshot".into()))
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
    proto::UpsertRequest {
        collection,
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
    use upsert_stream_response::Result as Step;
    let result = match response.result {
        Some(Step::Upsert(done)) => Ok(upserted(done)),
        Some(Step::Error(error)) => Err(error.into()),
        None => return Err(Error::Malformed(format!("step {} without an outcome", response.sequence))),
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
