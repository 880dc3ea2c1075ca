//! GPUs whose memory others hold: the CPU computes what they cannot, which is counted and logged, and once the memory is free they
//! compute again.

use std::{collections::BTreeMap, error::Error};

use accelerd_proto::v1::{
    self, cluster_request, device_service_client::DeviceServiceClient, embed_request::Input,
    embed_service_client::EmbedServiceClient, parse_service_client::ParseServiceClient,
    similarity_service_client::SimilarityServiceClient, tensor_input::Source,
    tensor_service_client::TensorServiceClient, verify_service_client::VerifyServiceClient,
};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::{
    daemon::{MEMORY_FREE, MEMORY_HELD, Running},
    faulty::{Fault, Gpus},
    points,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The line of the log.
const LOGGED: &str = "a GPU has no memory for requests, which run on the CPU";

/// The answers of calls of every family.
#[derive(Debug, PartialEq)]
struct Answers {
    trees: v1::ParseResponse,
    vectors: Vec<f32>,
    similar: v1::FindSimilarResponse,
    hits: v1::SearchResponse,
    clusters: [Vec<u8>; 2],
    outputs: Vec<v1::Tensor>,
    compared: v1::CompareOutputsResponse,
}

/// A caller of every service.
struct Caller {
    channel: Channel,
}

impl Caller {
    async fn answers(&self) -> Outcome<Answers> {
        Ok(Answers {
            trees: self.parse().await?,
            vectors: self.embed().await?,
            similar: self.find_similar().await?,
            hits: points::search(&mut self.similarity(), "points").await?,
            clusters: [
                self.cluster(cluster_request::Input::Vectors(matrix(4000, 2))).await?,
                self.cluster(cluster_request::Input::Collection("points".to_owned())).await?,
            ],
            outputs: self.execute("").await?,
            compared: self.compare().await?,
        })
    }

    fn similarity(&self) -> points::Similarity {
        SimilarityServiceClient::new(self.channel.clone())
    }

    async fn parse(&self) -> Outcome<v1::ParseResponse> {
        let sources = vec![b"def parse(text):\n    return text\n".repeat(400).into(); 40];
        let request = v1::ParseRequest { sources, ..Default::default() };
        Ok(ParseServiceClient::new(self.channel.clone()).parse(request).await?.into_inner())
    }

    async fn embed(&self) -> Outcome<Vec<f32>> {
        let texts = v1::TextInput { values: vec!["def parse(text): return text".repeat(200); 500] };
        let request = v1::EmbedRequest { input: Some(Input::Texts(texts)), ..Default::default() };
        let response = EmbedServiceClient::new(self.channel.clone()).embed(request).await?.into_inner();
        let data = response.embeddings.ok_or("embeddings")?.data;
        Ok(data.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().expect("four bytes"))).collect())
    }

    async fn find_similar(&self) -> Outcome<v1::FindSimilarResponse> {
        let queries = Some(matrix(3, 64));
        let corpus = Some(matrix(5000, 64));
        let request = v1::FindSimilarRequest { queries, corpus, k: 5, ..Default::default() };
        Ok(self.similarity().find_similar(request).await?.into_inner())
    }

    /// The clusters of the rows.
    async fn cluster(&self, input: cluster_request::Input) -> Outcome<Vec<u8>> {
        let request = v1::ClusterRequest { input: Some(input), cluster_count: 2, seed: 1, ..Default::default() };
        let response = self.similarity().cluster(request).await?.into_inner();
        Ok(response.assignments.ok_or("assignments")?.data.to_vec())
    }

    /// A sum that is large enough for a GPU, on the device of this name.
    async fn execute(&self, device: &str) -> Result<Vec<v1::Tensor>, tonic::Status> {
        let input = v1::TensorInput { name: "x".to_owned(), source: Some(Source::Value(matrix(500, 500))) };
        let node = v1::TensorNode {
            name: "y".to_owned(),
            op: "relu".to_owned(),
            inputs: vec!["x".to_owned()],
            ..Default::default()
        };
        let output = v1::TensorOutput { name: "y".to_owned(), ..Default::default() };
        let request = v1::ExecuteRequest {
            inputs: vec![input],
            nodes: vec![node],
            outputs: vec![output],
            device: device.to_owned(),
            ..Default::default()
        };
        Ok(TensorServiceClient::new(self.channel.clone()).execute(request).await?.into_inner().outputs)
    }

    async fn compare(&self) -> Outcome<v1::CompareOutputsResponse> {
        let side = |rows| {
            let source = Some(Source::Value(matrix(rows, 100)));
            vec![v1::TensorInput { name: "y".to_owned(), source }]
        };
        let request = v1::CompareOutputsRequest { actual: side(5000), expected: side(5000), ..Default::default() };
        Ok(VerifyServiceClient::new(self.channel.clone()).compare_outputs(request).await?.into_inner())
    }

    /// Uploads a tensor to a device, or to the default one; the device that it is on.
    async fn upload(&self, device: &str) -> Result<String, tonic::Status> {
        let tensor = matrix(10, 10);
        let dtype = tensor.dtype;
        let shape = tensor.shape;
        let device = device.to_owned();
        let header = v1::UploadTensorHeader { dtype, shape, device, ttl: None };
        let part = v1::UploadTensorRequest { header: Some(header), data: tensor.data };
        let uploaded =
            TensorServiceClient::new(self.channel.clone()).upload_tensor(futures::stream::iter([part])).await?;
        Ok(uploaded.into_inner().tensor.map(|tensor| tensor.device).unwrap_or_default())
    }

    /// The requests that fell back, by lane.
    async fn fallbacks(&self) -> Outcome<Vec<(String, u64)>> {
        let mut client = DeviceServiceClient::new(self.channel.clone());
        let stats = client.get_stats(v1::GetStatsRequest {}).await?.into_inner();
        assert!(stats.cpu_fallbacks.iter().all(|one| one.device.starts_with("cuda:") && one.reason == "out_of_memory"));
        Ok(by_lane(stats.cpu_fallbacks.into_iter().map(|one| (one.lane, one.request_count))))
    }
}

/// A matrix whose numbers are exact in binary, so that all devices compute the same.
fn matrix(rows: i64, columns: i64) -> v1::Tensor {
    let numbers = (0..rows * columns).map(|index| (index * 7 % 64 - 32) as f32 / 8.0);
    let data = numbers.flat_map(f32::to_le_bytes).collect::<Vec<_>>().into();
    v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![rows, columns], data }
}

/// Every family is answered while the memory of the GPUs is held, and by the GPUs once it is free.
pub(crate) fn falls_back(gpus: Gpus) -> Outcome {
    // Every request tries the GPU.
    let settings = [("CUDA__MEMORY_RETRY", "0s")];
    let mut running = Running::start(gpus, Fault::StickyError, &settings)?;
    let addresses = running.serving();
    Runtime::new()?.block_on(async {
        let caller = Caller { channel: Channel::from_shared(addresses.grpc.clone())?.connect().await? };
        points::create(&mut caller.similarity(), "points", false).await?;
        let expected = caller.answers().await?;
        assert_eq!(caller.fallbacks().await?, []);

        running.toggle_memory()?;
        running.line(MEMORY_HELD);
        let answers = caller.answers().await?;
        assert_eq!(addresses.get("/readyz")?.0, 200, "the daemon is ready");
        assert_answers(gpus, &answers, &expected);
        let counted = caller.fallbacks().await?;
        if let Gpus::StandIns(_) = gpus {
            let lanes: Vec<_> = counted.iter().map(|(lane, _)| lane.as_str()).collect();
            assert_eq!(lanes, ["cluster", "compare", "embed", "find_similar", "parse", "search", "tensor"]);
            assert!(counted.iter().all(|(_, requests)| *requests > 0), "{counted:?}");
            let line = running.line(LOGGED);
            assert_eq!((line["level"].as_str(), line["count"].as_u64()), (Some("WARN"), Some(1)), "{line}");
            check_named_devices(&caller).await?;
        }
        assert_eq!(metrics(&addresses.get("/metrics")?.1), caller.fallbacks().await?);

        let counted = caller.fallbacks().await?;
        running.toggle_memory()?;
        running.line(MEMORY_FREE);
        assert_answers(gpus, &caller.answers().await?, &expected);
        assert_eq!(caller.fallbacks().await?, counted, "the GPUs compute again");
        running.stop()?;
        // Stand-ins are full; what remains of a GPU's memory may be enough for all of these calls.
        let limit = if let Gpus::StandIns(_) = gpus { 0 } else { 1 };
        let lines = running.rest().iter().filter(|line| line["message"] == LOGGED).count();
        assert!(lines <= limit, "{lines} more lines within a minute");
        Ok(())
    })
}

/// A caller that names a GPU gets its error; otherwise a tensor goes where there is memory.
async fn check_named_devices(caller: &Caller) -> Outcome {
    let before = caller.fallbacks().await?;
    for refused in [caller.execute("cuda:0").await.map(drop), caller.upload("cuda:0").await.map(drop)] {
        let status = refused.expect_err("the GPU is full");
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
        assert!(status.message().contains("out of memory on cuda:0"), "{status}");
    }
    assert_eq!(caller.fallbacks().await?, before);
    assert_eq!(caller.upload("").await?, "cpu");
    let uploads = caller.fallbacks().await?.into_iter().find(|(lane, _)| lane == "tensor_upload");
    assert_eq!(uploads, Some(("tensor_upload".to_owned(), 1)));
    Ok(())
}

/// Between a GPU and the CPU unit vectors may differ in rounding, and clusters in their numbers; all else is equal.
fn assert_answers(gpus: Gpus, answers: &Answers, expected: &Answers) {
    let Answers { vectors, .. } = answers;
    assert_eq!(vectors.len(), expected.vectors.len());
    let largest = vectors.iter().zip(&expected.vectors).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(largest < 1e-5, "they differ by {largest}");
    assert_eq!(answers.trees, expected.trees);
    assert_eq!(answers.similar, expected.similar);
    assert_eq!(answers.hits, expected.hits);
    match gpus {
        Gpus::StandIns(_) => assert_eq!(answers.clusters, expected.clusters),
        Gpus::Real(_) => {
            assert_eq!(answers.clusters.each_ref().map(Vec::len), expected.clusters.each_ref().map(Vec::len));
        }
    }
    assert_eq!(answers.outputs, expected.outputs);
    assert_eq!(answers.compared, expected.compared);
    assert!(answers.compared.passed);
}

/// The requests that fell back by the metrics, by lane.
fn metrics(text: &str) -> Vec<(String, u64)> {
    let samples = text.lines().filter(|line| line.starts_with("accelerd_cpu_fallback_requests_total{"));
    by_lane(samples.map(|line| {
        let lane = line.split("lane=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a lane");
        (lane.to_owned(), line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count"))
    }))
}

/// Counts of all GPUs together.
fn by_lane(counts: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut lanes = BTreeMap::<_, u64>::new();
    for (lane, count) in counts {
        *lanes.entry(lane).or_default() += count;
    }
    lanes.into_iter().collect()
}
