//! Resident tensors: graphs that read and keep them equal graphs whose tensors are sent, and memory is returned.

use std::sync::Arc;

use accelerd_kernels::{
    Backend, OpError,
    ledger::{Kind, Ledger, Limit},
    ops::tensor::{
        Download, DownloadRequest, Execute, ExecuteRequest, HostUpload, ResidentTensor, TensorAccount, TensorInput,
        Upload, UploadRequest,
    },
};
use accelerd_parity::{random, run_batch};
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};
use bytes::Bytes;
use rand::Rng;

use super::Case;

/// No multiple of a warp, a vector or a chunk.
const ELEMENTS: usize = 70_001;
const STEPS: usize = 4;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("resident::a_chain_of_kept_outputs_equals_one_of_sent_tensors", chain),
        Case::new("resident::a_tensor_that_is_dropped_while_a_graph_reads_it_stays", dropped_owner),
        Case::new("resident::empty_tensors_and_scalars", small),
        Case::new("resident::refused_memory_keeps_nothing", refused),
    ]
}

fn vector(elements: usize) -> TensorType {
    TensorType { dtype: Dtype::F32, shape: vec![elements] }
}

/// A step of gradient descent with momentum: reads weights and momentum, and returns both and the mean of the squares.
fn step(of: &TensorType) -> Arc<Plan> {
    let node = |name: &str, op: &str, inputs: &[&str], other: Option<f64>| NodeSpec {
        name: name.to_owned(),
        op: op.to_owned(),
        inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        attributes: other.map(|other| ("other".to_owned(), Attribute::Float(other))).into_iter().collect(),
    };
    let spec = GraphSpec {
        inputs: ["w", "m"].map(|name| (name.to_owned(), of.clone())).into(),
        nodes: vec![
            node("decayed", "mul", &["m"], Some(0.9)),
            node("m_next", "add", &["decayed", "w"], None),
            node("change", "mul", &["m_next"], Some(0.01)),
            node("w_next", "sub", &["w", "change"], None),
            node("squares", "mul", &["w_next", "w_next"], None),
            node("loss", "sum", &["squares"], None),
        ],
        outputs: ["loss", "w_next", "m_next"].map(str::to_owned).into(),
    };
    Arc::new(Plan::new(&Graph::new(&spec).expect("a graph")))
}

fn numbers(elements: usize, seed: u64) -> Bytes {
    let mut random = random(seed);
    (0..elements).flat_map(|_| random.random_range(-1.0_f32..1.0).to_le_bytes()).collect()
}

struct Memory {
    ledger: Arc<Ledger>,
    account: TensorAccount,
}

impl Memory {
    fn new() -> Self {
        let ledger = Ledger::new();
        let account = TensorAccount::new(&ledger, 1);
        Self { ledger, account }
    }

    fn held(&self, backend: &Backend) -> u64 {
        self.ledger.account(backend.device().place(), Kind::Tensors).usage().0
    }

    /// Uploads in chunks, as a service does.
    fn upload(&self, backend: &mut Backend, of: &TensorType, data: &Bytes) -> Result<Arc<ResidentTensor>, OpError> {
        let device = backend.device();
        if let Backend::Cpu(_) = backend {
            let mut upload = HostUpload::new(of.clone(), &self.account)?;
            upload.write(data)?;
            return Ok(Arc::new(upload.finish()));
        }
        let half = data.len() / 2 + 1;
        let begin = UploadRequest::begin(of.clone(), device, self.account.clone(), data.slice(..half.min(data.len())));
        let tensor = run_batch::<Upload>(&[begin], backend)?.remove(0);
        if half < data.len() {
            let next = UploadRequest::next(Arc::clone(&tensor), half, data.slice(half..));
            run_batch::<Upload>(&[next], backend)?;
        }
        Ok(tensor)
    }
}

fn download(backend: &mut Backend, tensor: &Arc<ResidentTensor>) -> Result<Bytes, OpError> {
    let bytes = tensor.of().bytes();
    if let Some(data) = tensor.host_bytes() {
        return Ok(data.clone());
    }
    let half = bytes / 2;
    let requests = [0..half, half..bytes].map(|range| DownloadRequest::new(Arc::clone(tensor), range));
    Ok(run_batch::<Download>(&requests, backend)?.concat().into())
}

fn equal(what: &str, expected: &[u8], got: &[u8]) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{what} differs")) }
}

fn chain(backend: &mut Backend) -> Result<(), String> {
    let text = |error: OpError| error.to_string();
    let memory = Memory::new();
    let of = vector(ELEMENTS);
    let plan = step(&of);
    let mut sent = [numbers(ELEMENTS, 1), numbers(ELEMENTS, 2)];
    let mut resident = sent.each_ref().map(|data| memory.upload(backend, &of, data).expect("it fits"));
    for _ in 0..STEPS {
        let request = ExecuteRequest::new(Arc::clone(&plan), sent.to_vec());
        let [loss, w, m] =
            run_batch::<Execute>(&[request], backend).map_err(text)?.remove(0).returned.try_into().expect("three");
        let inputs = resident.each_ref().map(|tensor| TensorInput::Resident(Arc::clone(tensor)));
        let request = ExecuteRequest::new(Arc::clone(&plan), Vec::from(inputs))
            .keeping(vec![false, true, true], memory.account.clone());
        let done = run_batch::<Execute>(&[request], backend).map_err(text)?.remove(0);
        equal("the returned output", &loss, &done.returned[0])?;
        (sent, resident) = ([w, m], done.kept.into_iter().map(Arc::new).collect::<Vec<_>>().try_into().expect("two"));
        for (sent, kept) in sent.iter().zip(&resident) {
            equal("a kept output", sent, &download(backend, kept).map_err(text)?)?;
        }
        if memory.held(backend) != 2 * of.bytes() as u64 {
            return Err(format!("{} bytes are held", memory.held(backend)));
        }
    }
    drop(resident);
    if memory.held(backend) > 0 { Err("dropped tensors are held".to_owned()) } else { Ok(()) }
}

/// The request alone keeps its inputs; other work then reuses the memory that it returns.
fn dropped_owner(backend: &mut Backend) -> Result<(), String> {
    let text = |error: OpError| error.to_string();
    let memory = Memory::new();
    let of = vector(ELEMENTS);
    let plan = step(&of);
    let sent = [numbers(ELEMENTS, 3), numbers(ELEMENTS, 4)];
    let request = ExecuteRequest::new(Arc::clone(&plan), sent.to_vec());
    let expected = run_batch::<Execute>(&[request], backend).map_err(text)?.remove(0).returned;
    for _ in 0..8 {
        let resident = sent.each_ref().map(|data| memory.upload(backend, &of, data).expect("it fits"));
        let inputs = resident.map(TensorInput::Resident);
        let request = ExecuteRequest::new(Arc::clone(&plan), Vec::from(inputs));
        let got = run_batch::<Execute>(&[request], backend).map_err(text)?.remove(0).returned;
        for (expected, got) in expected.iter().zip(&got) {
            equal("an output", expected, got)?;
        }
        if memory.held(backend) > 0 {
            return Err("the inputs of a request that ended are held".to_owned());
        }
    }
    Ok(())
}

fn small(backend: &mut Backend) -> Result<(), String> {
    let text = |error: OpError| error.to_string();
    let memory = Memory::new();
    for shape in [vec![], vec![0], vec![3, 0]] {
        let of = TensorType { dtype: Dtype::F32, shape };
        let data = numbers(of.elements(), 5);
        let inputs = [&data, &data].map(|data| memory.upload(backend, &of, data).expect("it fits"));
        let inputs = inputs.map(TensorInput::Resident).to_vec();
        let plan = step(&of);
        let request = ExecuteRequest::new(Arc::clone(&plan), vec![data.clone(), data]);
        let expected = run_batch::<Execute>(&[request], backend).map_err(text)?.remove(0).returned;
        let request = ExecuteRequest::new(plan, inputs).keeping(vec![true; 3], memory.account.clone());
        let kept = run_batch::<Execute>(&[request], backend).map_err(text)?.remove(0).kept;
        for (expected, kept) in expected.iter().zip(kept) {
            equal("an output", expected, &download(backend, &Arc::new(kept)).map_err(text)?)?;
        }
    }
    Ok(())
}

fn refused(backend: &mut Backend) -> Result<(), String> {
    let memory = Memory::new();
    let of = vector(ELEMENTS);
    let limit = Limit { bytes: 3 * of.bytes() as u64, setting: "a test" };
    memory.ledger.cap(backend.device().place(), Kind::Tensors, limit);
    let inputs = [6, 7].map(|seed| memory.upload(backend, &of, &numbers(ELEMENTS, seed)).expect("two of three"));
    let inputs = inputs.map(TensorInput::Resident).to_vec();
    // The second output to keep does not fit.
    let request = ExecuteRequest::new(step(&of), inputs).keeping(vec![false, true, true], memory.account.clone());
    match run_batch::<Execute>(&[request], backend) {
        Err(OpError::MemoryLimit(refusal)) if refusal.asked == of.bytes() as u64 => {}
        other => return Err(format!("expected a refusal with the figures, got {other:?}")),
    }
    if memory.held(backend) > 0 { Err("the request's memory is held".to_owned()) } else { Ok(()) }
}
