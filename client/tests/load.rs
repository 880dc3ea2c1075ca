//! Tests of the load generator against a fake daemon that refuses, fails and hangs on demand.

use std::{num::NonZero, thread, time::Duration};

use accelerd_client::{
    Builder, Code, Priority, RetryPolicy,
    load::{PriorityMix, Schedule, Until, open_loop},
};
use accelerd_test_support::{FakeDaemon, busy};
use tokio::sync::mpsc::unbounded_channel;
use tonic::Status;

const DEADLINE: Duration = Duration::from_secs(3);

#[tokio::test]
async fn an_open_loop_counts_answers_refusals_and_expired_calls_by_priority() {
    let fake = FakeDaemon::default();
    let url = format!("http://{}", fake.listen().await);
    let refused = 10;
    let expired = 3;
    let failed = 2;
    fake.fail_next((0..refused).map(|_| busy(Some(Duration::from_millis(1)))));
    fake.fail_next((0..expired).map(|_| Status::deadline_exceeded("in the queue")));
    fake.fail_next((0..failed).map(|_| Status::internal("kernel")));
    // The client's deadline ends this call.
    fake.state().hang = true;
    let builder = Builder::new(url).retry(RetryPolicy::NEVER).deadline(DEADLINE);
    let client = builder.connections(NonZero::new(2).expect("two")).connect().await.expect("the fake listens");
    let mix: PriorityMix = "high=1,low=1".parse().expect("it is valid");
    let (sender, arrivals) = unbounded_channel();
    let schedule = Schedule::new(500.0, Until::Requests(60), &mix, 5);
    thread::spawn(move || schedule.run(&[sender]));
    let report = open_loop(arrivals, Duration::ZERO, Some(DEADLINE), |_, priority| {
        let client = client.clone().with_priority(priority);
        async move { client.embed(["a text"]).await.map(drop) }
    })
    .await;
    let total = report.total();
    assert_eq!((total.refused(), total.expired(), total.errors()), (refused, expired + 1, failed));
    assert_eq!((total.sent(), total.ok(), total.in_time), (60, 44, 44));
    assert_eq!((total.refusals.total(), total.latencies.total(), report.lag.total()), (refused, 44, 60));
    assert!(report.first_error.as_ref().is_some_and(|error| error.code() == Code::Internal));
    assert!(report.window < report.elapsed && report.elapsed >= DEADLINE);

    let sent = std::mem::take(&mut fake.state().priorities);
    for (priority, counted) in [Priority::High, Priority::Low].map(|priority| (priority, report.of(priority))) {
        let received = sent.iter().filter(|name| name.as_deref() == Some(priority.name())).count() as u64;
        assert!(received == counted.sent() && received > 0, "{priority}: {received} of {}", counted.sent());
    }
    assert_eq!(report.of(Priority::Normal).sent(), 0);
}

#[tokio::test]
async fn calls_without_a_priority_carry_no_metadata() {
    let fake = FakeDaemon::default();
    let url = format!("http://{}", fake.listen().await);
    let client = Builder::new(url).connect().await.expect("the fake listens");
    client.embed(["a text"]).await.expect("it answers");
    client.with_priority(Priority::High).embed(["a text"]).await.expect("it answers");
    assert_eq!(fake.state().priorities, [None, Some("high".to_owned())]);
}
