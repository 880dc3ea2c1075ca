//! Benchmark of graphs of tensor operations.

use std::{fmt, path::Path, str::FromStr, sync::Arc};

use accelerd_client::proto::{Dtype, ExecuteRequest, Tensor, tensor_input::Source};
use clap::{Args, ValueHint};
use rand::Rng;

use super::{Calls, Load, Subject};
use crate::{
    commands::tensor::{Attribute, GraphFile, parse_attribute},
    error::{CliError, Result},
};

#[derive(Debug, Args)]
pub(super) struct ExecuteBench {
    #[command(flatten)]
    pub(super) load: Load,
    /// The operation, or a graph: FILE.json or FILE.toml.
    #[arg(default_value = "matmul", value_hint = ValueHint::FilePath)]
    op: String,
    /// Shape of an operand, as 64x256; once for each, in the order of the inputs. Operands are random f32, and sent with each call.
    #[arg(long = "shape", value_name = "SHAPE", default_values = ["256x256", "256x256"])]
    shapes: Vec<Shape>,
    /// Attribute of the operation, as dim=1; can be repeated.
    #[arg(long = "attr", short = 'a', value_name = "NAME=VALUE", value_parser = parse_attribute)]
    attributes: Vec<(String, Attribute)>,
    /// Device to run on, as cpu or cuda:0 [default: any].
    #[arg(long, default_value = "", hide_default_value = true)]
    device: String,
}

/// Extents of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape(Vec<u32>);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extents = text.split('x').map(str::parse).collect::<Result<_, _>>();
        extents.map(Self).map_err(|_| format!("expected extents as 64x256, got {text:?}"))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.iter().map(u32::to_string).collect::<Vec<_>>().join("x"))
    }
}

impl Shape {
    /// A tensor of random numbers.
    fn random(&self) -> Result<Tensor> {
        let elements = self.0.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent as usize));
        let elements = elements
            .filter(|elements| *elements <= usize::try_from(i32::MAX).unwrap_or(usize::MAX))
            .ok_or_else(|| CliError::Usage(format!("{self} has too many elements for one call")))?;
        let mut random = rand::rng();
        let data: Vec<u8> = (0..elements).flat_map(|_| random.random_range(-1.0_f32..1.0).to_le_bytes()).collect();
        let shape = self.0.iter().copied().map(i64::from).collect();
        Ok(Tensor { dtype: Dtype::F32.into(), shape, data: data.into() })
    }
}

impl ExecuteBench {
    pub(super) fn subject(&self) -> Result<Subject> {
        let shapes: Vec<_> = self.shapes.iter().map(Shape::to_string).collect();
        let input = format!("{} of {}", self.op, shapes.join(", "));
        let request = Arc::new(self.request()?);
        let calls: Calls = Arc::new(move |client| {
            let client = client.clone();
            let request = Arc::clone(&request);
            Arc::new(move |_| {
                let client = client.clone();
                let request = request.as_ref().clone();
                Box::pin(async move { client.execute_request(request).await.map(|_| ()) })
            })
        });
        Ok(Subject { bench: "execute", input, items: 1, calls, kept: None })
    }

    fn request(&self) -> Result<ExecuteRequest> {
        let graph = GraphFile::read(Path::new(&self.op))?;
        if graph.is_some() && !self.attributes.is_empty() {
            return Err(CliError::Usage("--attr is of a single operation, not of a graph".to_owned()));
        }
        let single = || GraphFile::single(&self.op, self.shapes.len(), 1, self.attributes.clone());
        let graph = graph.unwrap_or_else(single);
        if graph.inputs.len() != self.shapes.len() {
            let expected = graph.inputs.len();
            let got = self.shapes.len();
            return Err(CliError::Usage(format!(
                "expected {expected} shapes ({}), got {got}",
                graph.inputs.join(", ")
            )));
        }
        let mut request = graph.request(&self.device);
        for (input, shape) in request.inputs.iter_mut().zip(&self.shapes) {
            input.source = Some(Source::Value(shape.random()?));
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_extents() {
        assert_eq!("64x1x256".parse(), Ok(Shape(vec![64, 1, 256])));
        assert_eq!(Shape(vec![2, 3]).random().expect("a small tensor").data.len(), 24);
        for bad in ["", "x", "2x-1", "2,3", "2x"] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
        let error = Shape(vec![u32::MAX; 9]).random().expect_err("too large");
        assert!(error.to_string().contains("too many elements"), "{error}");
    }
}
