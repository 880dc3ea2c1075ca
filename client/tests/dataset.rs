//! Tests of data sets against a fake daemon.

use accelerd_client::{Builder, DatasetAgreement, DatasetCategory, DatasetOptions, KernelDevice};
use accelerd_test_support::FakeDaemon;
use futures::TryStreamExt;

#[tokio::test]
async fn pairs_continue_after_the_last_one_without_repetition() {
    let fake = FakeDaemon::default();
    // Kernels 2n and 2n + 1 are equal, and are both sent in one call.
    fake.state().drained_pairs.extend([3, 3, 4, 9]);
    let client = Builder::new(format!("http://{}", fake.listen().await)).connect().await.expect("the fake listens");
    let pairs = client.generate_dataset(&DatasetOptions::new(6, 7)).await.expect("a stream");
    let pairs: Vec<_> = pairs.try_collect().await.expect("pairs");
    assert_eq!(pairs.iter().map(|pair| pair.index).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6]);
    assert_eq!(fake.state().calls, ["GenerateDataset"; 4]);
}

#[tokio::test]
async fn pairs_are_streamed_from_an_index_on() {
    let fake = FakeDaemon::default();
    let client = Builder::new(format!("http://{}", fake.listen().await)).connect().await.expect("the fake listens");
    let options = DatasetOptions::new(3, 7).category(DatasetCategory::Math).first_index(4).device(KernelDevice::Cpu);
    let pairs = client.generate_dataset(&options.split(20, 30)).await.expect("a stream");
    let pairs: Vec<_> = pairs.try_collect().await.expect("pairs");
    assert_eq!(pairs.iter().map(|pair| pair.index).collect::<Vec<_>>(), [4, 5, 6]);
    assert_eq!(pairs[0].runs[0].agreement(), DatasetAgreement::Different);
    assert_eq!(fake.state().calls, ["GenerateDataset"]);
}
