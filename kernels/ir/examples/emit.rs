//! Prints a translation unit with every operation and cast of every element type, to compile with NVRTC or nvcc.
//!
//! The kernel of each type, `operations_f32_kernel` for example, takes arrays of the function's three parameters (a bool and two
//! values of the type), then an array for each result, and a number of elements.

#![expect(clippy::print_stdout, reason = "the text is the output")]

use accelerd_ir::{
    Dtype,
    scalar::{BinaryOp, Builder, Function, Literal, UnaryOp, cuda},
};

fn main() {
    println!("{}", cuda::PRELUDE);
    for dtype in Dtype::ALL {
        let function = every_operation(dtype);
        let name = format!("operations_{dtype}");
        println!("{}", cuda::emit(&function, &name));
        println!("{}", kernel(&function, &name));
    }
}

/// A function whose results are all operations on, and casts of, values of a type.
fn every_operation(dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[Dtype::Bool, dtype, dtype]);
    let [condition, a, b] = [0, 1, 2].map(|nth| builder.param(nth));
    let mut results = vec![builder.select(condition, a, b).expect("a bool selects from two values of a type")];
    results.extend(Dtype::ALL.map(|to| builder.cast(a, to)));
    results.extend(UnaryOp::ALL.iter().filter_map(|op| builder.unary(*op, a).ok()));
    results.extend(BinaryOp::ALL.iter().filter_map(|op| builder.binary(*op, a, b).ok()));
    let index = builder.index();
    results.push(builder.cast(index, dtype));
    for bits in [0, 1, 1 << (8 * dtype.size() - 1), u64::MAX] {
        results.push(builder.literal(Literal::from_bits(dtype, bits)));
    }
    builder.finish(&results)
}

/// Applies an emitted function to arrays of elements.
fn kernel(function: &Function, name: &str) -> String {
    let params: Vec<_> = function.params().iter().map(|dtype| cuda::ctype(*dtype)).collect();
    let results: Vec<_> = function.results().iter().map(|result| cuda::ctype(function.dtype(*result))).collect();
    let inputs = params.iter().enumerate().map(|(index, ctype)| format!("const {ctype}* p{index}"));
    let outputs = results.iter().enumerate().map(|(index, ctype)| format!("{ctype}* r{index}"));
    let signature: Vec<_> = inputs.chain(outputs).chain(["long long count".to_owned()]).collect();
    let loads = (0..params.len()).map(|index| format!("p{index}[index]"));
    let stores = (0..results.len()).map(|index| format!("r{index}[index]"));
    let arguments: Vec<_> = loads.chain(["index".to_owned()]).chain(stores).collect();
    format!(
        "extern \"C\" __global__ void {name}_kernel({}) {{
    const long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) {name}({});
}}
",
        signature.join(", "),
        arguments.join(", ")
    )
}
