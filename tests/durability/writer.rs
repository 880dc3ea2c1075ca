//! A writer that streams changes of its points and knows their valid states after a crash.

use std::collections::{BTreeMap, BTreeSet};

use accelerd_proto::v1::{
    self, PointIds, Tensor, UpsertRequest, UpsertStreamRequest, condition, similarity_service_client, upsert_request,
    upsert_stream_response, value::Kind,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::transport::Channel;

pub(crate) type Client = similarity_service_client::SimilarityServiceClient<Channel>;

/// The collection that all writers share.
pub(crate) const COLLECTION: &str = "durable";
/// Dimensions of a vector.
pub(crate) const DIM: usize = 8;
/// Points for each writer.
const POINTS: u64 = 150;

/// Maps an id to the number of the change that last wrote it.
pub(crate) type State = BTreeMap<u64, i64>;

/// A change of some points.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Upsert(BTreeSet<u64>, i64),
    Delete(BTreeSet<u64>),
}

/// A writer with its own range of points.
pub(crate) struct Writer {
    first: u64,
    random: StdRng,
    stamp: i64,
    /// The acknowledged state.
    pub(crate) certain: State,
    /// Changes in flight, in order.
    pub(crate) open: Vec<Change>,
}

impl Change {
    pub(crate) fn apply(&self, state: &mut State) {
        match self {
            Self::Upsert(ids, stamp) => state.extend(ids.iter().map(|id| (*id, *stamp))),
            Self::Delete(ids) => state.retain(|id, _| !ids.contains(id)),
        }
    }
}

impl Writer {
    pub(crate) fn new(number: u64, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed ^ number << 32);
        Self { first: number * POINTS, random, stamp: 0, certain: State::new(), open: vec![] }
    }

    /// The ids of this writer's points.
    pub(crate) fn ids(&self) -> std::ops::Range<u64> {
        self.first..self.first + POINTS
    }

    /// Writes until the daemon is gone, and counts responses in `answers`.
    pub(crate) async fn write(&mut self, client: Client, answers: &mpsc::Sender<()>) {
        while self.random.random_bool(0.5) {
            if self.delete_some(client.clone(), answers).await.is_none() {
                return;
            }
        }
        self.stream(client, answers).await;
    }

    /// Deletes some points by id and others by a filter; `None` if the daemon is gone.
    async fn delete_some(&mut self, mut client: Client, answers: &mpsc::Sender<()>) -> Option<()> {
        let ids = self.some_ids();
        let filter = if self.random.random_bool(0.5) { by_id(&ids) } else { by_payload(&ids) };
        self.open.push(Change::Delete(ids));
        let request = v1::DeletePointsRequest { collection: COLLECTION.into(), filter: Some(filter) };
        client.delete_points(request).await.ok()?;
        self.settle(1);
        answers.send(()).await.ok()
    }

    /// Streams upserts, several in flight at once.
    async fn stream(&mut self, mut client: Client, answers: &mpsc::Sender<()>) {
        let (requests, queue) = mpsc::channel(4);
        let Ok(stream) = client.upsert_stream(ReceiverStream::new(queue)).await else { return };
        let mut stream = stream.into_inner();
        let mut settled = 0;
        loop {
            let (sequence, request) = self.next_request(settled);
            tokio::select! {
                permit = requests.reserve() => match permit {
                    Ok(permit) => {
                        self.open.push(request.1);
                        permit.send(UpsertStreamRequest { sequence, upsert: Some(request.0) });
                    }
                    Err(_) => return,
                },
                answer = stream.next() => {
                    let Some(Ok(answer)) = answer else { return };
                    assert!(matches!(answer.result, Some(upsert_stream_response::Result::Upsert(_))), "{answer:?}");
                    // Changes of a collection are applied in order, so a response acknowledges the changes before it.
                    let through = answer.sequence + 1;
                    if through > settled {
                        self.settle(usize::try_from(through - settled).expect("few are open"));
                        settled = through;
                    }
                    if answers.send(()).await.is_err() { return; }
                }
            }
        }
    }

    fn next_request(&mut self, settled: u64) -> (u64, (UpsertRequest, Change)) {
        let sequence = settled + self.open.len() as u64;
        let ids = self.some_ids();
        self.stamp += 1;
        (sequence, (upsert(&ids, self.stamp), Change::Upsert(ids, self.stamp)))
    }

    fn some_ids(&mut self) -> BTreeSet<u64> {
        let ids = self.ids();
        let count = self.random.random_range(1..40);
        (0..count).map(|_| self.random.random_range(ids.clone())).collect()
    }

    /// Moves the first changes in flight to the acknowledged state.
    fn settle(&mut self, count: usize) {
        for change in self.open.drain(..count) {
            change.apply(&mut self.certain);
        }
    }

    /// Compares the writer's points with the restarted daemon's: all acknowledged changes, and a prefix of those in
    /// flight. Adopts the state that it finds.
    pub(crate) fn check(&mut self, found: &State) {
        let mut state = self.certain.clone();
        let mut holds = state == *found;
        for change in std::mem::take(&mut self.open) {
            change.apply(&mut state);
            holds |= state == *found;
        }
        assert!(holds, "points {:?} are not what was answered: expected {:?}, got {found:?}", self.ids(), self.certain);
        self.certain.clone_from(found);
    }
}

fn upsert(ids: &BTreeSet<u64>, stamp: i64) -> UpsertRequest {
    let numbers = ids.iter().flat_map(|id| vector(*id, stamp)).flat_map(f32::to_le_bytes).collect::<Vec<_>>();
    let shape = vec![i64::try_from(ids.len()).expect("few"), i64::try_from(DIM).expect("small")];
    let vectors = Tensor { dtype: v1::Dtype::F32.into(), shape, data: numbers.into() };
    let int = |value| v1::Value { kind: Some(Kind::IntValue(value)) };
    let payload =
        |id: &u64| v1::Payload { fields: [("id".into(), int(id.cast_signed())), ("stamp".into(), int(stamp))].into() };
    UpsertRequest {
        collection: COLLECTION.into(),
        ids: Some(PointIds { numbers: ids.iter().copied().collect(), ..PointIds::default() }),
        points: Some(upsert_request::Points::Vectors(vectors)),
        payloads: ids.iter().map(payload).collect(),
        ..UpsertRequest::default()
    }
}

/// A vector that encodes the point and the change that wrote it.
pub(crate) fn vector(id: u64, stamp: i64) -> [f32; DIM] {
    std::array::from_fn(|i| if i % 2 == 0 { id as f32 } else { stamp as f32 })
}

fn by_id(ids: &BTreeSet<u64>) -> v1::Filter {
    let numbers = ids.iter().copied().collect();
    v1::Filter { ids: Some(PointIds { numbers, ..PointIds::default() }), ..v1::Filter::default() }
}

fn by_payload(ids: &BTreeSet<u64>) -> v1::Filter {
    let value = |id: &u64| v1::Value { kind: Some(Kind::IntValue(id.cast_signed())) };
    let any_of = condition::Test::AnyOf(v1::ValueSet { values: ids.iter().map(value).collect() });
    v1::Filter { must: vec![v1::Condition { field: "id".into(), test: Some(any_of) }], ..v1::Filter::default() }
}
