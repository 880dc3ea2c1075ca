//! The compiled kernels that the daemon keeps.

use accelerd_client::{Client, Kernel, proto::KernelDialect};
use clap::Args;
use serde::Serialize;

use super::report::param;
use crate::{
    error::{CliError, Result},
    format,
    output::{Output, Report},
    renderer::{Renderer, Style, Table},
};

/// Characters of an id, which is a SHA-256.
const ID: usize = 64;
/// Characters of an id that are shown.
const SHOWN_ID: usize = 16;

/// Drop a compiled kernel.
#[derive(Debug, Args)]
pub(super) struct EvictArgs {
    /// Its id, or the beginning of it.
    id: String,
}

#[derive(Serialize)]
struct Kernels {
    kernels: Vec<KernelReport>,
}

#[derive(Serialize)]
struct KernelReport {
    id: String,
    name: String,
    dialect: &'static str,
    grid_dims: u32,
    params: Vec<String>,
    written_arrays: Vec<String>,
    bit_exact: bool,
    size_bytes: u64,
}

impl From<Kernel> for KernelReport {
    fn from(kernel: Kernel) -> Self {
        Self {
            dialect: match kernel.dialect() {
                KernelDialect::Warp => "warp",
                KernelDialect::Python => "python",
                KernelDialect::Unspecified => "unknown",
            },
            params: kernel.params.iter().map(param).collect(),
            id: kernel.id,
            name: kernel.name,
            grid_dims: kernel.grid_dims,
            written_arrays: kernel.written_arrays,
            bit_exact: kernel.bit_exact,
            size_bytes: kernel.size_bytes,
        }
    }
}

impl Report for Kernels {
    fn render(&self, renderer: &mut Renderer) {
        let mut table = Table::new(["<id", "<kernel", "<dialect", "<parameters", "<writes", "?<bits", "size"]);
        for kernel in &self.kernels {
            table.row([
                kernel.id.chars().take(SHOWN_ID).collect(),
                renderer.style(Style::Name, &kernel.name),
                kernel.dialect.to_owned(),
                kernel.params.join(", "),
                kernel.written_arrays.join(", "),
                if kernel.bit_exact { "exact".to_owned() } else { String::new() },
                format::bytes(kernel.size_bytes),
            ]);
        }
        renderer.table(&table);
    }
}

#[derive(Serialize)]
struct Evicted {
    evicted: String,
}

impl Report for Evicted {
    fn render(&self, renderer: &mut Renderer) {
        renderer.line(format!("evicted {}", renderer.style(Style::Name, &self.evicted)));
    }
}

pub(super) async fn list(client: &Client, output: &Output) -> Result {
    let kernels = client.list_kernels().await?.into_iter().map(KernelReport::from).collect();
    output.show(&Kernels { kernels })
}

pub(super) async fn evict(args: EvictArgs, client: &Client, output: &Output) -> Result {
    if args.id.is_empty() {
        return Err(CliError::Usage("expected the id of a kernel, or its beginning, got \"\"".to_owned()));
    }
    let id = if args.id.len() < ID { complete(&args.id, client).await? } else { args.id };
    client.evict_kernel(&id).await?;
    output.show(&Evicted { evicted: id })
}

/// The id of which this is the beginning; itself if there is none, so that the daemon refuses it.
async fn complete(beginning: &str, client: &Client) -> Result<String> {
    let kernels = client.list_kernels().await?;
    let mut ids = kernels.into_iter().map(|kernel| kernel.id).filter(|id| id.starts_with(beginning));
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(id),
        (Some(_), Some(_)) => Err(CliError::Usage(format!("several kernels have an id that begins with {beginning}"))),
        (None, _) => Ok(beginning.to_owned()),
    }
}
