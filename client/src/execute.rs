//! Executions of graphs. Inputs that exceed a message are uploaded for the call, and outputs that exceed one are kept and downloaded.

use accelerd_proto::methods::{Rpc, tensor_service};

use crate::{
    Client, Error, Executed, Result, UploadOptions,
    parts::MAX_REQUEST_BYTES,
    proto::{ExecuteRequest, ExecuteResponse, ResidentTensor, Tensor, TensorInput, tensor_input::Source},
};

/// For calls that keep no outputs: others would keep them twice.
const EXECUTE: Rpc<ExecuteRequest, ExecuteResponse> = tensor_service::EXECUTE.idempotent();

/// The tensors that a call keeps on the daemon while it runs.
#[derive(Default)]
struct Temporary(Vec<ResidentTensor>);

impl Client {
    /// Executes a graph that is a message, whose inputs and nodes have names of the caller's; otherwise as [`execute`](Self::execute).
    pub async fn execute_request(&self, request: ExecuteRequest) -> Result<Executed> {
        let mut temporary = Temporary::default();
        let done = Box::pin(self.within_deadline(self.execute_any(request, &mut temporary))).await;
        if !temporary.0.is_empty() {
            // A tensor that cannot be freed expires.
            drop(self.free(&temporary.0).await);
        }
        done
    }

    /// Executes a graph of any size.
    async fn execute_any(&self, mut request: ExecuteRequest, temporary: &mut Temporary) -> Result<Executed> {
        let device = request.device.clone();
        for input in large_inputs(&mut request.inputs, self.max_message_bytes().min(MAX_REQUEST_BYTES)) {
            let options = UploadOptions::default().device(device.clone());
            let Some(Source::Value(tensor)) = input.source.take() else { continue };
            let resident = self.upload(tensor, &options).await?;
            input.source = Some(Source::Handle(resident.handle.clone()));
            temporary.0.push(resident);
        }
        match self.execute_once(request.clone()).await {
            Err(error) if error.is_message_too_large() && request.outputs.iter().any(|output| !output.keep) => {
                self.execute_and_download(request, temporary).await
            }
            done => done,
        }
    }

    /// Executes a graph whose outputs exceed a message.
    async fn execute_and_download(&self, mut request: ExecuteRequest, temporary: &mut Temporary) -> Result<Executed> {
        let keeps: Vec<_> = request.outputs.iter().map(|output| output.keep).collect();
        request.outputs.iter_mut().for_each(|output| output.keep = true);
        let Executed { kept: all, timings, .. } = self.execute_once(request).await?;
        let mut outputs = vec![];
        let mut kept = vec![];
        for (resident, keep) in all.into_iter().zip(keeps) {
            if keep {
                kept.push(resident);
                continue;
            }
            temporary.0.push(resident.clone());
            outputs.push(self.download(&resident).await?);
        }
        Ok(Executed { outputs, kept, timings })
    }

    async fn execute_once(&self, request: ExecuteRequest) -> Result<Executed> {
        let kept = request.outputs.iter().filter(|output| output.keep).count();
        let expected = (request.outputs.len() - kept, kept);
        let method = if kept == 0 { EXECUTE } else { tensor_service::EXECUTE };
        let reply = self.unary(method, request).await?;
        let ExecuteResponse { outputs, kept } = reply.message;
        let got = (outputs.len(), kept.len());
        if got != expected {
            return Err(Error::Malformed(format!("{got:?} outputs returned and kept, expected {expected:?}")));
        }
        Ok(Executed { outputs, kept, timings: reply.timings })
    }
}

/// The largest inputs, so that the others together have at most `limit` bytes.
fn large_inputs(inputs: &mut [TensorInput], limit: usize) -> impl Iterator<Item = &mut TensorInput> {
    let mut sizes: Vec<_> = inputs.iter().map(size).collect();
    sizes.sort_unstable();
    let mut left = limit;
    let fitting = sizes.iter().take_while(|size| {
        let rest = left.checked_sub(**size);
        left = rest.unwrap_or_default();
        rest.is_some()
    });
    let fitting = fitting.count();
    // Of inputs of one size all are uploaded, or none.
    let smallest = sizes.get(fitting).copied().unwrap_or(usize::MAX);
    inputs.iter_mut().filter(move |input| size(input) >= smallest.max(1))
}

/// Bytes of a tensor that is sent; 0 for a resident one.
fn size(input: &TensorInput) -> usize {
    match &input.source {
        Some(Source::Value(Tensor { data, .. })) => data.len(),
        Some(Source::Handle(_)) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, bytes: usize) -> TensorInput {
        let data = vec![0; bytes].into();
        TensorInput { name: name.to_owned(), source: Some(Source::Value(Tensor { data, ..Tensor::default() })) }
    }

    fn uploaded(sizes: &[usize], limit: usize) -> Vec<usize> {
        let mut inputs: Vec<_> = sizes.iter().map(|bytes| input("x", *bytes)).collect();
        inputs.push(TensorInput { name: "y".to_owned(), source: Some(Source::Handle("h".to_owned())) });
        large_inputs(&mut inputs, limit).map(|input| size(input)).collect()
    }

    #[test]
    fn the_largest_inputs_are_uploaded_until_the_others_fit() {
        assert_eq!(uploaded(&[10, 20, 30], 60), [0; 0]);
        assert_eq!(uploaded(&[10, 30, 20], 59), [30]);
        assert_eq!(uploaded(&[10, 30, 20], 29), [30, 20]);
        assert_eq!(uploaded(&[100], 59), [100]);
        assert_eq!(uploaded(&[40, 5, 40], 59), [40, 40], "of equal ones all");
    }
}
