//! Tensors that a call returned, in reports.

use std::path::Path;

use accelerd_client::proto::Tensor;
use serde::Serialize;

use crate::{
    dtype,
    format::shape,
    renderer::{Renderer, Style, Table},
};

/// Elements that are shown.
const SHOWN_ELEMENTS: usize = 8;

/// A returned tensor: its type, its shape and its first elements.
#[derive(Serialize)]
pub struct Returned {
    name: String,
    dtype: &'static str,
    shape: Vec<i64>,
    size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    values: Vec<String>,
}

impl Returned {
    /// `file` is where it was written.
    pub fn new(name: &str, tensor: &Tensor, file: Option<&Path>) -> Self {
        Self {
            name: name.to_owned(),
            dtype: dtype::of(tensor.dtype()).name,
            shape: tensor.shape.clone(),
            size_bytes: tensor.data.len() as u64,
            file: file.map(|path| path.display().to_string()),
            values: dtype::values(tensor, SHOWN_ELEMENTS),
        }
    }

    /// Adds a table.
    pub fn render(results: &[Self], renderer: &mut Renderer) {
        let mut table = Table::new(["<result", "<type", "<shape", "?<file", "<values"]);
        for result in results {
            let is_whole = result.shape.iter().product::<i64>().unsigned_abs() == result.values.len() as u64;
            let more = if is_whole { "" } else { " ..." };
            table.row([
                renderer.style(Style::Name, &result.name),
                result.dtype.to_owned(),
                shape(&result.shape),
                result.file.clone().unwrap_or_default(),
                format!("{}{more}", result.values.join(" ")),
            ]);
        }
        renderer.table(&table);
    }
}
