//! One attack on a new daemon.

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tonic::{Code, transport::Channel};

use crate::{
    attack::Attack,
    daemon::{Daemon, HOST_LIMIT},
    polite,
};

/// The calls that are sent at once, over as many connections as a hostile client might open.
const CALLS: usize = 64;
const CONNECTIONS: usize = 8;

/// The time limit of each call of an attack.
const DEADLINE: Duration = Duration::from_secs(10);

/// Runs the attack while a polite caller calls. Then it checks the peak memory, and that SIGTERM ends the daemon with exit code 0.
pub(crate) async fn run(attack: &Attack) -> Result<(), Box<dyn Error>> {
    let mut daemon = Daemon::start()?;
    let polite = daemon.connect().await?;
    polite::calls(&polite).await?;

    let connections = connections(&daemon).await?;
    let mut calls = JoinSet::new();
    for index in 0..CALLS {
        calls.spawn((attack.message)(index).send(connections[index % CONNECTIONS].clone(), DEADLINE));
    }
    let mut served = 0;
    while !calls.is_empty() {
        polite::calls(&polite).await?;
        served += 1;
        while let Some(ended) = calls.try_join_next() {
            let code = ended?.map_or_else(|status| status.code(), |()| Code::Ok);
            let is_lost = matches!(code, Code::Internal | Code::Unknown | Code::Unavailable);
            assert!(!is_lost, "a call of the attack ended with {code:?}");
        }
    }
    assert!(served > 0, "the polite caller has called during the attack");

    polite::calls(&polite).await?;
    let peak = daemon.peak_bytes();
    let limit = HOST_LIMIT / 10 * 13;
    assert!(peak < limit, "the processes took {peak} bytes, expected at most {limit}");
    assert!(daemon.is_alive());
    assert_eq!(daemon.terminate()?, ExitCode::SUCCESS, "a daemon that is told to end has cut off no call");
    Ok(())
}

/// The times of polite calls on a new daemon, while an attack keeps its number of calls.
pub(crate) async fn measure(attack: Option<&Attack>, time: Duration) -> Result<Vec<[Duration; 2]>, Box<dyn Error>> {
    let daemon = Daemon::start()?;
    let polite = daemon.connect().await?;
    polite::calls(&polite).await?;

    let connections = connections(&daemon).await?;
    let mut calls = JoinSet::new();
    let mut sent = 0;
    let mut times = vec![];
    let start = Instant::now();
    while times.is_empty() || start.elapsed() < time {
        while let Some(attack) = attack
            && calls.len() < CALLS
        {
            calls.spawn((attack.message)(sent).send(connections[sent % CONNECTIONS].clone(), DEADLINE));
            sent += 1;
        }
        times.push(polite::calls(&polite).await?);
        while calls.try_join_next().is_some() {}
    }
    Ok(times)
}

async fn connections(daemon: &Daemon) -> Result<Vec<Channel>, Box<dyn Error>> {
    let mut connections = vec![];
    for _ in 0..CONNECTIONS {
        connections.push(daemon.connect().await?);
    }
    Ok(connections)
}
