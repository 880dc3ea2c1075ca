//! Parses a module and prints what was found and what it took.
#![allow(clippy::print_stdout, reason = "it is there to show something")]

use portalis_cuda::{CudaParser, ParserConfig};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = ParserConfig {
        max_nodes: 100_000,
        max_tokens: 500_000,
        max_depth: 1000,
        batch_size: 1,
        enable_async: false,
        collect_metrics: true,
    };
    let parser = CudaParser::new(config)?;
    let source = r#"
def hello_world():
    print("Hello, World!")
"#;
    let result = parser.parse(source)?;
    println!("Parsed {} nodes", result.nodes.len());
    println!("Total time: {:.2} ms", result.metrics.total_time_ms);
    if let Err(error) = parser.parse("def broken(:") {
        println!("Parse failed: {error}");
    }
    Ok(())
}
