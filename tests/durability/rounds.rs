//! Rounds of load, kill, restart, check.

use std::{path::Path, time::Duration};

use accelerd_proto::v1::{self, PointIds, value::Kind};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    daemon::Daemon,
    writer::{COLLECTION, Client, DIM, State, Writer, vector},
};

const WRITERS: u64 = 4;
/// The longest delay between the last awaited response and the kill.
const EXTRA: Duration = Duration::from_millis(3);

/// Runs `rounds` rounds of load, kill, restart, check.
pub(crate) async fn run(rounds: usize, seed: u64) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let data = folder.path().join("data");
    let snapshots = folder.path().join("snapshots");
    let mut random = StdRng::seed_from_u64(seed);
    let mut writers: Vec<_> = (0..WRITERS).map(|number| Writer::new(number, seed)).collect();
    let mut daemon = Daemon::start(&data, &snapshots).await;
    create(client(&daemon)).await;
    let mut answered = 0;
    let mut snapshots_read = 0;
    for round in 0..rounds {
        let wanted = random.random_range(1..300);
        let extra = EXTRA.mul_f64(random.random());
        answered += load(&mut writers, daemon, wanted, extra, &snapshots).await;
        daemon = Daemon::start(&data, &snapshots).await;
        for writer in &mut writers {
            writer.check(&contents(client(&daemon), writer).await);
        }
        snapshots_read += usize::from(restore(client(&daemon), &snapshots).await);
        let points: usize = writers.iter().map(|writer| writer.certain.len()).sum();
        eprintln!("round {round}: {answered} answers so far, {points} points, {snapshots_read} snapshots read back");
    }
    drop(daemon);
    let checkpoints = count(&data.join("collections").join(COLLECTION), "checkpoint-");
    assert!(rounds < 10 || (snapshots_read > 0 && checkpoints > 0), "no snapshot or checkpoint in {rounds} rounds");
}

/// The entries of a folder whose names have this prefix.
fn count(folder: &Path, prefix: &str) -> usize {
    let entries = std::fs::read_dir(folder).expect("it is there").filter_map(Result::ok);
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).count()
}

fn client(daemon: &Daemon) -> Client {
    Client::new(daemon.channel.clone())
}

async fn create(mut client: Client) {
    let request = v1::CreateCollectionRequest {
        name: COLLECTION.into(),
        dimensions: u32::try_from(DIM).expect("small"),
        metric: v1::Metric::SquaredL2.into(),
        durable: true,
        ..v1::CreateCollectionRequest::default()
    };
    client.create_collection(request).await.expect("the name is free");
}

/// Runs all writers and takes snapshots, and kills the daemon shortly after a number of responses. Returns the number
/// of responses.
async fn load(writers: &mut Vec<Writer>, daemon: Daemon, wanted: usize, extra: Duration, snapshots: &Path) -> usize {
    let (answers, mut answered) = mpsc::channel(1);
    let mut tasks = JoinSet::new();
    for mut writer in writers.drain(..) {
        let client = client(&daemon);
        let answers = answers.clone();
        tasks.spawn(async move {
            writer.write(client, &answers).await;
            writer
        });
    }
    drop(answers);
    let snapshots = tokio::spawn(snapshot_again_and_again(client(&daemon), url(snapshots)));
    let mut count = 0;
    while count < wanted && answered.recv().await.is_some() {
        count += 1;
    }
    // Keeps receiving responses during the delay; the writers would block otherwise.
    let moment = tokio::time::sleep(extra);
    tokio::pin!(moment);
    loop {
        tokio::select! {
            () = &mut moment => break,
            answer = answered.recv() => match answer {
                Some(()) => count += 1,
                None => break,
            },
        }
    }
    daemon.kill();
    while answered.recv().await.is_some() {
        count += 1;
    }
    while let Some(writer) = tasks.join_next().await {
        writers.push(writer.expect("a writer does not panic"));
    }
    snapshots.await.expect("it does not panic");
    count
}

async fn snapshot_again_and_again(mut client: Client, url: String) {
    let request = || v1::CreateSnapshotRequest { collection: COLLECTION.into(), url: url.clone() };
    while client.create_snapshot(request()).await.is_ok() {}
}

fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

/// The points of a writer, checked for consistency.
async fn contents(mut client: Client, writer: &Writer) -> State {
    let ids = PointIds { numbers: writer.ids().collect(), ..PointIds::default() };
    let request = v1::GetPointsRequest {
        collection: COLLECTION.into(),
        ids: Some(ids),
        include_vectors: true,
        ..v1::GetPointsRequest::default()
    };
    let points = client.get_points(request).await.expect("the collection is there").into_inner();
    let ids = points.ids.expect("it is always set").numbers;
    let vectors = points.vectors.expect("they were asked for").data;
    let mut state = State::new();
    for ((id, payload), bytes) in ids.iter().zip(&points.payloads).zip(vectors.chunks(DIM * 4)) {
        let Some(Kind::IntValue(stamp)) = payload.fields["stamp"].kind else { panic!("{payload:?} has no stamp") };
        let expected: Vec<_> = vector(*id, stamp).into_iter().flat_map(f32::to_le_bytes).collect();
        assert_eq!(bytes, expected, "vector and payload of point {id} are of different changes");
        state.insert(*id, stamp);
    }
    state
}

/// Restores the newest complete snapshot, if there is one: a kill during a later snapshot does not damage it.
async fn restore(mut client: Client, snapshots: &Path) -> bool {
    let name = "restored";
    let request = v1::RestoreCollectionRequest { url: url(snapshots), name: name.into() };
    match client.restore_collection(request).await {
        Ok(_) => {}
        Err(status) if status.code() == tonic::Code::NotFound => return false,
        Err(status) => panic!("the newest snapshot is not whole: {status}"),
    }
    client.delete_collection(v1::DeleteCollectionRequest { name: name.into() }).await.expect("it was restored");
    true
}
