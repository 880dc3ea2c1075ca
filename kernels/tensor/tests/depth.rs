//! Graphs are walked without recursion: chains of ten times as many operations as a daemon accepts are checked and planned on the stack of a
//! worker.

use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};

/// Ten times the default of `limits.max_graph_nodes`.
const NODES: usize = 10 * 4096;
/// The stack of a thread that runs operations on a CPU: the default of Rust.
const STACK: usize = 2 << 20;

/// A chain of one operation with an attribute.
fn chain(op: &str, attributes: &[(&str, Attribute)]) -> GraphSpec {
    let name = |nth: usize| format!("v{nth}");
    let node = |nth: usize| NodeSpec {
        name: name(nth + 1),
        op: op.to_owned(),
        inputs: vec![name(nth)],
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    };
    GraphSpec {
        inputs: vec![(name(0), TensorType { dtype: Dtype::F32, shape: vec![2, 3] })],
        // The operation that needs all others comes first.
        nodes: (0..NODES).rev().map(node).collect(),
        outputs: vec![name(NODES)],
    }
}

#[test]
fn long_chains_are_checked_and_planned_on_the_stack_of_a_worker() {
    let chains = [("neg", vec![]), ("softmax", vec![("dim", Attribute::Int(1))])];
    for (op, attributes) in chains {
        let spec = chain(op, &attributes);
        let planned = move || {
            let graph = Graph::new(&spec).expect("well formed");
            assert_eq!(graph.output_types()[0].shape, [2, 3]);
            assert!(spec.key().is_some());
            Plan::new(&graph)
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(planned).expect("a thread");
        let plan = thread.join().unwrap_or_else(|_| panic!("{op}"));
        assert_eq!(plan, plan.clone());
    }
}
