//! Parsing of Python: `CudaParser`.

use std::time::Instant;

use accelerd_client::{ParseOptions, Parsed, Tree, proto::ParseOutput};

use crate::{
    CudaError, CudaResult,
    daemon::{Connection, block_on, gpu_utilization},
};

/// A row that is not there.
const NONE: u32 = u32::MAX;

/// Limits and options of a parser. A source that exceeds a limit is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParserConfig {
    /// Nodes of a source.
    pub max_nodes: u32,
    /// Tokens of a source, without comments, newlines and indentation.
    pub max_tokens: u32,
    /// Nodes from the root to the deepest one.
    pub max_depth: u32,
    /// Changes nothing: a batch is one call, and the daemon forms the batches of all its callers.
    pub batch_size: u32,
    /// Changes nothing: calls block, and several threads may share a parser.
    pub enable_async: bool,
    /// Whether results have metrics.
    pub collect_metrics: bool,
}

impl Default for ParserConfig {
    fn default() -> Self {
        Self {
            max_nodes: 100_000,
            max_tokens: 500_000,
            max_depth: 1_000,
            batch_size: 1,
            enable_async: false,
            collect_metrics: true,
        }
    }
}

/// A node of CPython's tree. Rows are indices of nodes, `u32::MAX` if there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct ASTNode {
    /// Number of its kind, `accelerd_client::proto::NodeKind`.
    pub node_type: u32,
    /// Name of its kind: the class of CPython's `ast`.
    pub kind: &'static str,
    /// Parent; statements of the module have none.
    pub parent_idx: u32,
    /// First child.
    pub first_child: u32,
    /// Next child of its parent, or next statement of the module.
    pub next_sibling: u32,
    /// Its first token.
    pub token_start: u32,
    /// The token after its last.
    pub token_end: u32,
    /// Line, from 1.
    pub line_number: u32,
    /// Column in bytes, from 0.
    pub col_number: u32,
    /// 1.0: the parser does not guess.
    pub confidence: f32,
}

/// What a call took. Times of a batch are those of its call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParserMetrics {
    /// 0.0: a source is tokenized while it is parsed.
    pub tokenization_time_ms: f32,
    /// Time in the daemon, without the queue.
    pub parsing_time_ms: f32,
    /// Latency at the caller.
    pub total_time_ms: f32,
    /// Nodes of the source.
    pub nodes_created: u32,
    /// Tokens of the source.
    pub tokens_processed: u32,
    /// Share of the call in which a GPU of the daemon ran kernels, of all callers; 0.0 on the CPU.
    pub gpu_utilization: f32,
}

/// Result of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct ParseResult {
    /// Nodes without the module, children before their parents in a line.
    pub nodes: Vec<ASTNode>,
    /// What the call took; zeros unless `collect_metrics`.
    pub metrics: ParserMetrics,
}

/// A parser of Python, as CPython parses it.
#[derive(Clone, Debug)]
pub struct CudaParser {
    config: ParserConfig,
    connection: Connection,
}

impl CudaParser {
    /// Connects to the daemon.
    pub fn new(config: ParserConfig) -> CudaResult<Self> {
        Ok(Self::with_connection(config, Connection::from_environment()?))
    }

    /// A parser over a connection.
    pub fn with_connection(config: ParserConfig, connection: Connection) -> Self {
        Self { config, connection }
    }

    /// The limits and options.
    pub fn config(&self) -> &ParserConfig {
        &self.config
    }

    /// Parses a source. A syntax error and an exceeded limit are errors.
    pub fn parse(&self, source: &str) -> CudaResult<ParseResult> {
        let mut results = self.parse_batch(&[source])?;
        Ok(results.pop().expect("a call has a result for each source"))
    }

    /// Parses sources in one call. An error of one is the error of the call.
    pub fn parse_batch(&self, sources: &[&str]) -> CudaResult<Vec<ParseResult>> {
        let sources = sources.iter().map(|source| source.as_bytes().to_vec());
        let options = ParseOptions::of([ParseOutput::Tree, ParseOutput::Tokens]);
        let (batch, metrics) = block_on(async {
            let collects = self.config.collect_metrics;
            let before = if collects { self.connection.sample().await? } else { None };
            let start = Instant::now();
            let batch = self.connection.client.parse(sources, &options).await?;
            let mut metrics = ParserMetrics::default();
            if collects {
                let execute = batch.timings.get("execute").unwrap_or_default();
                metrics.total_time_ms = 1e3 * start.elapsed().as_secs_f32();
                metrics.parsing_time_ms = 1e3 * execute.as_secs_f32();
                metrics.gpu_utilization = gpu_utilization(before.as_ref(), self.connection.sample().await?.as_ref());
            }
            Ok::<_, CudaError>((batch, metrics))
        })?;
        batch.iter().map(|parsed| self.result(parsed, &metrics)).collect()
    }

    fn result(&self, parsed: Parsed<'_>, metrics: &ParserMetrics) -> CudaResult<ParseResult> {
        if let Some(problem) = parsed.diagnostic() {
            let text = format!("{}: {} ({}:{})", problem.class_name(), problem.message, problem.line, problem.column);
            return Err(CudaError::InvalidSource(text));
        }
        let tree = parsed.tree().expect("a tree was requested, and the source is valid");
        let tokens: Vec<_> = parsed.tokens().map(|token| token.span.start).collect();
        within("max_nodes", self.config.max_nodes, tree.len())?;
        within("max_tokens", self.config.max_tokens, tokens.len())?;
        let nodes = nodes(&tree, &tokens);
        within("max_depth", self.config.max_depth, depth(&nodes))?;
        let mut metrics = metrics.clone();
        if self.config.collect_metrics {
            metrics.nodes_created = number(nodes.len());
            metrics.tokens_processed = number(tokens.len());
        }
        Ok(ParseResult { nodes, metrics })
    }
}

fn within(name: &'static str, limit: u32, count: usize) -> CudaResult<()> {
    if count <= limit as usize { Ok(()) } else { Err(CudaError::LimitExceeded { name, limit, count }) }
}

/// A message has less than 4 GiB, so every count fits.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn nodes(tree: &Tree<'_>, token_starts: &[usize]) -> Vec<ASTNode> {
    let token = |at: usize| number(token_starts.partition_point(|start| *start < at));
    let mut nodes: Vec<_> = tree
        .nodes()
        .map(|node| ASTNode {
            node_type: u32::try_from(i32::from(node.kind())).unwrap_or_default(),
            kind: node.class(),
            parent_idx: node.parent().map_or(NONE, |parent| number(parent.row())),
            first_child: node.children().next().map_or(NONE, |child| number(child.row())),
            next_sibling: NONE,
            token_start: token(node.span().start),
            token_end: token(node.span().end),
            line_number: number(node.start().line),
            col_number: number(node.start().column),
            confidence: 1.0,
        })
        .collect();
    // The last child of each parent so far, and of the module.
    let mut last = vec![None; nodes.len() + 1];
    for row in 0..nodes.len() {
        let parent = (nodes[row].parent_idx as usize).min(nodes.len());
        if let Some(before) = last[parent].replace(row) {
            nodes[before].next_sibling = number(row);
        }
    }
    nodes
}

fn depth(nodes: &[ASTNode]) -> usize {
    let mut depths = vec![0_usize; nodes.len()];
    for row in 0..nodes.len() {
        let mut path = vec![];
        let mut at = row;
        while at < nodes.len() && depths[at] == 0 {
            path.push(at);
            at = nodes[at].parent_idx as usize;
        }
        let mut above = depths.get(at).copied().unwrap_or_default();
        for node in path.into_iter().rev() {
            above += 1;
            depths[node] = above;
        }
    }
    depths.into_iter().max().unwrap_or_default()
}
