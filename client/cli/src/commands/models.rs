//! The models that are loaded.

use accelerd_client::Client;
use serde::Serialize;

use crate::{
    error::Result,
    human,
    page::{Page, Paint, Table},
    screen::{Report, Screen},
};

#[derive(Serialize)]
struct Models {
    models: Vec<Model>,
}

#[derive(Serialize)]
struct Model {
    name: String,
    dimensions: u32,
    offered_dimensions: Vec<u32>,
    vocabulary_size: u32,
    size_bytes: u64,
    sha256: String,
}

impl Report for Models {
    fn render(&self, page: &mut Page) {
        let mut table = Table::new(["<model", "dimensions", "<may be cut to", "vocabulary", "size", "<sha256"]);
        for model in &self.models {
            let shorter = model.offered_dimensions.iter().filter(|d| **d != model.dimensions).map(u32::to_string);
            table.row([
                page.paint(Paint::Name, &model.name),
                model.dimensions.to_string(),
                shorter.collect::<Vec<_>>().join(", "),
                human::count(model.vocabulary_size.into()),
                human::bytes(model.size_bytes),
                page.paint(Paint::Dim, model.sha256.get(..12).unwrap_or_default()),
            ]);
        }
        page.table(&table);
    }
}

/// Lists them.
pub async fn run(client: &Client, screen: &Screen) -> Result {
    let models = client.models().await?.into_iter().map(|model| Model {
        name: model.name,
        dimensions: model.dimensions,
        offered_dimensions: model.offered_dimensions,
        vocabulary_size: model.vocabulary_size,
        size_bytes: model.size_bytes,
        sha256: model.sha256,
    });
    screen.show(&Models { models: models.collect() })
}
