//! The operations and shapes that are measured.

use accelerd_client::proto::{
    BenchmarkOpRequest, BenchmarkOperand, Dtype, TensorAttribute, TensorIntegers, tensor_attribute::Value,
};
use clap::ValueEnum;
use serde::Serialize;

/// A size class of shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Size {
    /// Megabytes, for a CPU.
    Small,
    /// Hundreds of megabytes, for a GPU.
    Large,
}

/// A named operation on operands of given types and shapes.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) request: BenchmarkOpRequest,
}

impl Case {
    fn new(name: &'static str, op: &str, dtype: Dtype, shapes: &[&[i64]]) -> Self {
        let operand =
            |shape: &&[i64]| BenchmarkOperand { dtype: dtype.into(), shape: shape.to_vec(), integers_below: 0 };
        let operands = shapes.iter().map(operand).collect();
        Self { name, request: BenchmarkOpRequest { op: op.to_owned(), operands, ..Default::default() } }
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.request.attributes.insert(name.to_owned(), TensorAttribute { value: Some(value) });
        self
    }

    /// As `f32[8x4]` for each operand.
    pub(super) fn operands(&self) -> String {
        let operand = |operand: &BenchmarkOperand| {
            let extents: Vec<_> = operand.shape.iter().map(i64::to_string).collect();
            format!("{}[{}]", crate::dtype::of(operand.dtype()).name, extents.join("x"))
        };
        self.request.operands.iter().map(operand).collect::<Vec<_>>().join(", ")
    }
}

/// All cases.
pub(super) fn all(size: Size) -> Vec<Case> {
    let mut cases = memory_bound(size);
    cases.extend(products(size));
    cases
}

fn memory_bound(size: Size) -> Vec<Case> {
    let [elements, rows, columns] = match size {
        Size::Small => [1 << 22, 1024, 1024],
        Size::Large => [128 << 20, 16_384, 4096],
    };
    let flat: &[i64] = &[elements];
    let matrix: &[i64] = &[rows, columns];
    let images: &[i64] = match size {
        Size::Small => &[1, 64, 64, 64],
        Size::Large => &[32, 64, 128, 128],
    };
    let channels: &[i64] = &[64];
    let f32 = |name, op, shapes: &[&[i64]]| Case::new(name, op, Dtype::F32, shapes);
    let int = Value::Integer;
    let dims = |values: &[i64]| Value::Integers(TensorIntegers { values: values.to_vec() });
    vec![
        f32("add", "add", &[flat, flat]),
        Case::new("add bf16", "add", Dtype::Bf16, &[flat, flat]),
        f32("gelu", "gelu", &[matrix]),
        f32("sum of all", "sum", &[flat]),
        f32("sum of rows", "sum", &[matrix]).with("dim", int(1)),
        f32("sum of columns", "sum", &[matrix]).with("dim", int(0)),
        f32("argmax of rows", "argmax", &[matrix]).with("dim", int(1)),
        f32("softmax", "softmax", &[matrix]).with("dim", int(1)),
        f32("layer_norm", "layer_norm", &[matrix, &[columns], &[columns]]).with("normalized_shape", dims(&[columns])),
        f32("transpose", "transpose", &[matrix]).with("dim0", int(0)).with("dim1", int(1)),
        f32("cumsum of rows", "cumsum", &[matrix]).with("dim", int(1)),
        f32("sort of rows", "argsort", &[matrix]),
        f32("max_pool2d 2x2", "max_pool2d", &[images]).with("kernel_size", int(2)),
        f32("batch_norm", "batch_norm", &[images, channels, channels, channels, channels]),
    ]
}

fn products(size: Size) -> Vec<Case> {
    let (extent, fast, rows): (i64, i64, i64) = match size {
        Size::Small => (512, 512, 256),
        Size::Large => (2048, 8192, 8192),
    };
    let square: &[i64] = &[extent, extent];
    let fast: &[i64] = &[fast, fast];
    let (images, filters): (&[i64], &[i64]) = match size {
        Size::Small => (&[1, 64, 32, 32], &[128, 64, 3, 3]),
        Size::Large => (&[32, 64, 128, 128], &[128, 64, 3, 3]),
    };
    let query: &[i64] = match size {
        Size::Small => &[1, 8, 256, 64],
        Size::Large => &[4, 16, 4096, 128],
    };
    let high = || Value::Text("high".to_owned());
    let linear: [&[i64]; 3] = [&[rows, 768], &[3072, 768], &[3072]];
    let attention = "scaled_dot_product_attention";
    vec![
        Case::new("matmul", "matmul", Dtype::F32, &[square; 2]),
        Case::new("matmul tf32", "matmul", Dtype::F32, &[square; 2]).with("precision", high()),
        Case::new("matmul bf16", "matmul", Dtype::Bf16, &[fast; 2]),
        Case::new("linear + gelu bf16", "linear", Dtype::Bf16, &linear)
            .with("activation", Value::Text("gelu".to_owned())),
        Case::new("conv2d", "conv2d", Dtype::F32, &[images, filters]),
        Case::new("conv2d tf32", "conv2d", Dtype::F32, &[images, filters]).with("precision", high()),
        Case::new("conv2d bf16", "conv2d", Dtype::Bf16, &[images, filters]),
        Case::new("attention bf16", attention, Dtype::Bf16, &[query; 3]),
        Case::new("attention causal bf16", attention, Dtype::Bf16, &[query; 3]).with("is_causal", Value::Boolean(true)),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_size_has_the_same_cases_with_names_of_their_own() {
        let names = |size| all(size).into_iter().map(|case| case.name).collect::<Vec<_>>();
        assert_eq!(names(Size::Small), names(Size::Large));
        assert_eq!(names(Size::Small).iter().collect::<BTreeSet<_>>().len(), all(Size::Small).len());
    }

    #[test]
    fn small_cases_need_little_memory() {
        for case in all(Size::Small) {
            let bytes = |operand: &BenchmarkOperand| {
                let elements = operand.shape.iter().product::<i64>().unsigned_abs();
                elements * crate::dtype::of(operand.dtype()).bytes as u64
            };
            let total: u64 = case.request.operands.iter().map(bytes).sum();
            assert!(total <= 64 << 20, "{}: {total}", case.name);
        }
    }
}
