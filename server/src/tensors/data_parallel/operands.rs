//! The inputs of each shard, and the tensors that are copied or scattered for it first.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use accelerd_engine::Context;
use accelerd_kernels::{
    DeviceId,
    ops::tensor::{ResidentTensor, TensorInput},
};
use accelerd_tensor::{Attribute, GraphSpec, NodeSpec, TensorType};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::split::{Shard, Split};
use crate::{
    error::ApiError,
    tensors::{
        graph_executor::{Execution, GraphExecutor, GraphRequest},
        table::Copies,
    },
};

/// Copies, and scatters, of a call that run at once: each holds elements in host memory.
const TRANSFERS_AT_ONCE: usize = 8;

/// Where a shard finds an input.
#[derive(Clone, Debug)]
enum Operand {
    /// The shard reads it as it is.
    Whole(TensorInput),
    /// The part of a resident tensor on the shard's device, which is read in place.
    PartOf(Arc<ResidentTensor>),
    /// By its position in [`Operands::copies`].
    Copied(usize),
    /// A part of an input in [`Operands::scatters`], by their positions.
    Scattered { scatter: usize, part: usize },
}

/// Parts of a tensor that are read into host memory, where they are sent from.
#[derive(Debug)]
struct Scatter {
    source: TensorInput,
    of: TensorType,
    device: DeviceId,
    dim: usize,
    parts: Vec<Range<usize>>,
}

/// The operands of all shards.
#[derive(Debug)]
pub(super) struct Operands {
    /// For each shard, those of its inputs.
    shards: Vec<Vec<Operand>>,
    /// Resident tensors that a device without one of equal elements needs.
    copies: Vec<(Arc<ResidentTensor>, DeviceId)>,
    scatters: Vec<Scatter>,
}

/// Operands that were copied and scattered.
#[derive(Debug)]
pub(super) struct Fetched {
    copies: Vec<Arc<ResidentTensor>>,
    scatters: Vec<Vec<Bytes>>,
}

impl Operands {
    /// Finds the inputs of all shards. `copies` are the caller's tensors on the devices of shards.
    pub(super) fn new(request: &GraphRequest, split: &Split, copies: &Copies) -> Self {
        let mut operands = Self { shards: vec![vec![]; split.shards.len()], copies: vec![], scatters: vec![] };
        let listed: HashMap<_, _> = request.resident.iter().map(|(at, listed)| (*at, listed)).collect();
        for (at, input) in request.inputs.iter().enumerate() {
            let on = |device: DeviceId| match input {
                TensorInput::Inline(_) => None,
                TensorInput::Resident(tensor) if tensor.device() == device => Some(tensor),
                TensorInput::Resident(_) => copies.get(&listed.get(&at)?.kept, device).map(|found| &found.kept.tensor),
            };
            let of = &request.spec.inputs[at].1;
            // A part that is all of it is no part.
            let dim = split.dims[at].filter(|_| split.shards.len() > 1);
            match dim {
                None => operands.add_whole(input, split, on),
                Some(dim) => operands.add_parts(input, of, dim, split, on),
            }
        }
        operands
    }

    fn add_whole<'a>(
        &mut self,
        input: &TensorInput,
        split: &Split,
        on: impl Fn(DeviceId) -> Option<&'a Arc<ResidentTensor>>,
    ) {
        let mut copied = HashMap::new();
        for (shard, Shard { device, .. }) in split.shards.iter().enumerate() {
            let operand = match (input, on(*device)) {
                (TensorInput::Inline(_), _) => Operand::Whole(input.clone()),
                (_, Some(there)) => Operand::Whole(TensorInput::Resident(Arc::clone(there))),
                (TensorInput::Resident(tensor), None) => Operand::Copied(*copied.entry(*device).or_insert_with(|| {
                    self.copies.push((Arc::clone(tensor), *device));
                    self.copies.len() - 1
                })),
            };
            self.shards[shard].push(operand);
        }
    }

    fn add_parts<'a>(
        &mut self,
        input: &TensorInput,
        of: &TensorType,
        dim: usize,
        split: &Split,
        on: impl Fn(DeviceId) -> Option<&'a Arc<ResidentTensor>>,
    ) {
        let (on_host, device) = match input {
            TensorInput::Inline(bytes) => (Some(bytes), DeviceId::Cpu),
            TensorInput::Resident(tensor) => (tensor.host_bytes(), tensor.device()),
        };
        // Its parts are contiguous: bytes of the host need no copy.
        let sliced = on_host.filter(|_| of.shape[..dim].iter().all(|extent| *extent == 1));
        let mut parts = vec![];
        for (shard, Shard { device, part }) in split.shards.iter().enumerate() {
            let operand = match (on(*device), sliced) {
                (Some(there), _) => Operand::PartOf(Arc::clone(there)),
                (None, Some(bytes)) => {
                    let row = of.bytes() / of.shape[dim].max(1);
                    Operand::Whole(bytes.slice(part.start * row..part.end * row).into())
                }
                (None, None) => {
                    parts.push(part.clone());
                    Operand::Scattered { scatter: self.scatters.len(), part: parts.len() - 1 }
                }
            };
            self.shards[shard].push(operand);
        }
        if !parts.is_empty() {
            self.scatters.push(Scatter { source: input.clone(), of: of.clone(), device, dim, parts });
        }
    }

    /// The sizes of the copies.
    pub(super) fn copied_bytes(&self) -> impl Iterator<Item = u64> {
        self.copies.iter().map(|(tensor, _)| tensor.of().bytes() as u64)
    }

    /// The graph of a shard.
    pub(super) fn spec(&self, spec: &GraphSpec, split: &Split, shard: usize) -> GraphSpec {
        let mut own = spec.clone();
        let taken: HashSet<_> = names(spec).collect();
        let Shard { part, .. } = &split.shards[shard];
        for (at, operand) in self.shards[shard].iter().enumerate() {
            let Some(dim) = split.dims[at] else { continue };
            let (name, of) = &mut own.inputs[at];
            if let Operand::PartOf(_) = operand {
                let whole = unused(at, &taken);
                own.nodes.push(slice(std::mem::replace(name, whole.clone()), whole, dim, part));
            } else {
                of.shape[dim] = part.len();
            }
        }
        own
    }

    /// Copies and scatters the operands that shards need.
    pub(super) async fn fetch(&self, executor: &GraphExecutor, context: &Context) -> Result<Fetched, ApiError> {
        let copy = |(tensor, device): &(Arc<ResidentTensor>, DeviceId)| {
            let tensor = Arc::clone(tensor);
            let device = *device;
            async move { executor.resident().copy_to(&tensor, device, context).await }
        };
        let copies: Vec<_> = self.copies.iter().map(copy).collect();
        let scatters: Vec<_> = self.scatters.iter().map(|scatter| scatter.run(executor, context)).collect();
        let (copies, scatters) = futures::try_join!(
            stream::iter(copies).buffered(TRANSFERS_AT_ONCE).try_collect(),
            stream::iter(scatters).buffered(TRANSFERS_AT_ONCE).try_collect(),
        )?;
        Ok(Fetched { copies, scatters })
    }

    /// Returns the inputs of a shard.
    pub(super) fn inputs(&self, shard: usize, fetched: &Fetched) -> Vec<TensorInput> {
        let input = |operand: &Operand| match operand {
            Operand::Whole(input) => input.clone(),
            Operand::PartOf(tensor) => TensorInput::Resident(Arc::clone(tensor)),
            Operand::Copied(copy) => TensorInput::Resident(Arc::clone(&fetched.copies[*copy])),
            Operand::Scattered { scatter, part } => fetched.scatters[*scatter][*part].clone().into(),
        };
        self.shards[shard].iter().map(input).collect()
    }
}

impl Scatter {
    /// Reads the parts where the tensor is.
    async fn run(&self, executor: &GraphExecutor, context: &Context) -> Result<Vec<Bytes>, ApiError> {
        let whole = "whole".to_owned();
        let mut spec = GraphSpec { inputs: vec![(whole.clone(), self.of.clone())], ..GraphSpec::default() };
        for (nth, part) in self.parts.iter().enumerate() {
            let name = format!("part {nth}");
            spec.nodes.push(slice(name.clone(), whole.clone(), self.dim, part));
            spec.outputs.push(name);
        }
        let plan = executor.plan(&spec)?;
        let keep = vec![false; plan.outputs.len()];
        let execution = Execution { plan, inputs: vec![self.source.clone()], keep, device: Some(self.device) };
        Ok(executor.execute(execution, context.clone()).await?.returned)
    }
}

/// The part of a value along a dimension.
fn slice(name: String, of: String, dim: usize, part: &Range<usize>) -> NodeSpec {
    let int = |number: usize| Attribute::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let attributes = [("dim", dim), ("start", part.start), ("end", part.end)];
    let attributes = attributes.map(|(key, number)| (key.to_owned(), int(number))).into();
    NodeSpec { name, op: "slice".to_owned(), inputs: vec![of], attributes }
}

fn names(spec: &GraphSpec) -> impl Iterator<Item = &str> {
    let inputs = spec.inputs.iter().map(|(name, _)| name.as_str());
    inputs.chain(spec.nodes.iter().map(|node| node.name.as_str()))
}

/// A name for the whole of an input that is no name of the graph.
fn unused(input: usize, taken: &HashSet<&str>) -> String {
    let mut name = format!("whole of input {input}");
    while taken.contains(name.as_str()) {
        name.push('\'');
    }
    name
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use accelerd_kernels::{
        ledger::Ledger,
        ops::tensor::{HostUpload, TensorAccount, oracle},
    };
    use accelerd_tensor::{Dtype, Graph, Plan};

    use super::*;
    use crate::tensors::data_parallel::SplitInput;

    fn of(shape: &[usize]) -> TensorType {
        TensorType { dtype: Dtype::U8, shape: shape.to_vec() }
    }

    /// A tensor of the CPU with these bytes.
    fn resident(shape: &[usize], data: &[u8]) -> TensorInput {
        let mut upload = HostUpload::new(of(shape), &TensorAccount::new(&Ledger::new(), 1)).expect("no limit");
        upload.write(data).expect("it fits");
        TensorInput::Resident(Arc::new(upload.finish()))
    }

    /// A graph that returns all of its inputs.
    fn request(inputs: Vec<(&str, &[usize], TensorInput)>) -> GraphRequest {
        let types = inputs.iter().map(|(name, shape, _)| ((*name).to_owned(), of(shape)));
        let spec = GraphSpec {
            inputs: types.collect(),
            nodes: vec![],
            outputs: inputs.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        };
        let inputs = inputs.into_iter().map(|(.., input)| input).collect();
        GraphRequest { spec, inputs, resident: vec![], keep: vec![], ttl: Duration::ZERO, response_bytes: |_, _| 0 }
    }

    fn split(request: &GraphRequest, devices: &[DeviceId], listed: &[(&str, i64)]) -> Split {
        let listed: Vec<_> =
            listed.iter().map(|(name, dim)| SplitInput { name: (*name).to_owned(), dim: *dim }).collect();
        Split::new(devices, &listed, &request.spec.inputs).expect("it can be split")
    }

    /// Returns the outputs of a shard's graph by the oracle, if nothing is fetched.
    fn outputs(operands: &Operands, request: &GraphRequest, split: &Split, shard: usize) -> Vec<Vec<u8>> {
        let spec = operands.spec(&request.spec, split, shard);
        let plan = Plan::new(&Graph::new(&spec).expect("a valid graph"));
        let inputs = operands.inputs(shard, &Fetched { copies: vec![], scatters: vec![] });
        let bytes: Vec<_> = inputs
            .iter()
            .map(|input| match input {
                TensorInput::Inline(bytes) => &bytes[..],
                TensorInput::Resident(tensor) => &tensor.host_bytes().expect("on the CPU")[..],
            })
            .collect();
        oracle::execute(&plan, &bytes)
    }

    #[test]
    fn shards_read_their_parts_of_tensors_that_are_there() {
        let sent = TensorInput::Inline(Bytes::from_static(&[1, 2, 3, 4, 5, 6]));
        let request = request(vec![
            ("x", &[3, 2], sent.clone()),
            ("y", &[2, 3], resident(&[2, 3], &[1, 2, 3, 4, 5, 6])),
            // The name that the whole of y would have.
            ("whole of input 1", &[2], resident(&[2], &[7, 8])),
            ("z", &[1, 3, 2], sent),
        ]);
        let split = split(&request, &[DeviceId::Cpu; 2], &[("x", 0), ("y", 1), ("z", 1)]);
        let operands = Operands::new(&request, &split, &Copies::default());
        assert!(operands.copies.is_empty() && operands.scatters.is_empty(), "{operands:?}");
        let expected: [[&[u8]; 4]; 2] =
            [[&[1, 2, 3, 4], &[1, 2, 4, 5], &[7, 8], &[1, 2, 3, 4]], [&[5, 6], &[3, 6], &[7, 8], &[5, 6]]];
        for (shard, expected) in expected.into_iter().enumerate() {
            assert_eq!(outputs(&operands, &request, &split, shard), expected, "shard {shard}");
        }
    }

    #[test]
    fn what_is_elsewhere_is_copied_once_a_device_and_scattered_from_where_it_is() {
        let x = resident(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let w = resident(&[2], &[7, 8]);
        let sent = TensorInput::Inline(Bytes::from_static(&[1, 2, 3, 4, 5, 6]));
        let request = request(vec![("x", &[2, 3], x), ("w", &[2], w), ("s", &[2, 3], sent)]);
        let gpu = DeviceId::Cuda(1);
        let split = split(&request, &[DeviceId::Cpu, gpu, gpu], &[("x", -1), ("s", -1)]);
        let operands = Operands::new(&request, &split, &Copies::default());
        let copied: Vec<_> = operands.copies.iter().map(|(tensor, device)| (tensor.of().bytes(), *device)).collect();
        assert_eq!(copied, [(2, gpu)], "both shards of the GPU read one copy");
        let scatter: Vec<_> =
            operands.scatters.iter().map(|scatter| (scatter.device, scatter.dim, scatter.parts.clone())).collect();
        let expected = [(DeviceId::Cpu, 1, vec![1..2, 2..3]), (DeviceId::Cpu, 1, vec![0..1, 1..2, 2..3])];
        assert_eq!(scatter, expected, "columns of x are read in place on the CPU");
    }

    #[test]
    fn a_single_shard_reads_everything_as_it_is() {
        let request = request(vec![("x", &[1, 2], resident(&[1, 2], &[1, 2]))]);
        let split = split(&request, &[DeviceId::Cpu; 3], &[("x", 0)]);
        let operands = Operands::new(&request, &split, &Copies::default());
        assert_eq!(operands.spec(&request.spec, &split, 0), request.spec);
    }
}
