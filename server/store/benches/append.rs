//! Measures the log on the disk of a folder: appends per second by the number of concurrent writers, then replay.
//!
//! ```text
//! cargo bench -p accelerd-store --bench append -- /var/lib/accelerd
//! ```

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_store::{
    CollectionMeta, Fsync, Ids, Journal, Metric, Record, ReplayHooks, Storage, Store, StoreError, Upsert,
};

const DIM: u32 = 768;

fn main() -> Result<(), StoreError> {
    let parent = std::env::args_os()
        .skip(1)
        .find(|argument| argument != "--bench")
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("append-{}", std::process::id()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("threads can be started");
    let (store, _) = Store::open(&dir, Fsync::Always)?;
    for (writers, points) in [(1, 1), (64, 1), (1024, 1), (1, 1000), (4, 1000)] {
        let name = format!("w{writers}-p{points}");
        let journal = Arc::new(store.create(&meta(&name))?);
        let (records, elapsed) = runtime.block_on(appends(&journal, writers, points));
        let rate = records as f64 / elapsed.as_secs_f64();
        let megabytes = journal.bytes() as f64 / 1e6;
        let speed = megabytes / elapsed.as_secs_f64();
        eprintln!("{writers:>5} writers, {points:>4} points each: {rate:>9.0} appends/s, {speed:>7.1} MB/s");
    }
    drop(store);
    let (_store, found) = Store::open(&dir, Fsync::Always)?;
    for found in found {
        let name = found.name.clone();
        let begin = Instant::now();
        let mut points = 0;
        found.replay(ReplayHooks::default(), Ok, |record| {
            points += if let Record::Upsert(upsert) = record { upsert.ids.len() } else { 0 };
            Ok::<_, StoreError>(())
        })?;
        eprintln!("{name}: replayed {points} points in {:?}", begin.elapsed());
    }
    let _ = std::fs::remove_dir_all(dir);
    Ok(())
}

/// Appends for about two seconds from `writers` tasks, each of which awaits its append before the next.
async fn appends(journal: &Arc<Journal>, writers: usize, points: usize) -> (usize, Duration) {
    let begin = Instant::now();
    let tasks: Vec<_> = (0..writers).map(|_| tokio::spawn(append_until(Arc::clone(journal), points, begin))).collect();
    let mut records = 0;
    for task in tasks {
        records += task.await.expect("a task does not panic");
    }
    (records, begin.elapsed())
}

async fn append_until(journal: Arc<Journal>, points: usize, begin: Instant) -> usize {
    let vectors = vec![0x3f; points * DIM as usize * 4].into();
    let ids = Ids::Numbers((0..points as u64).collect());
    let record = Record::Upsert(Upsert { ids, dim: DIM, vectors, payloads: vec![] });
    let mut records = 0;
    while begin.elapsed() < Duration::from_secs(2) {
        journal.append(&record).await.expect("the disk has room");
        records += 1;
    }
    records
}

fn meta(name: &str) -> CollectionMeta {
    CollectionMeta {
        format: CollectionMeta::FORMAT,
        name: name.into(),
        dim: DIM,
        metric: Metric::Cosine,
        storage: Storage::Bf16,
        model: String::new(),
        model_digest: String::new(),
        prompts: None,
        text_field: String::new(),
        owner: String::new(),
        durable: true,
        create_time_ms: 0,
    }
}
