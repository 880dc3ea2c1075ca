//! Types and errors of convolutions and pooling.

use accelerd_tensor::{
    Attribute, Divisor, Dtype, Graph, GraphError, GraphSpec, NodeSpec, Plan, PoolKind, PoolWindows, Step, TensorType,
};

type Call<'a> = (&'a str, &'a [&'a str], Vec<(&'a str, Attribute)>);

fn spec((op, inputs, attributes): &Call<'_>) -> GraphSpec {
    let of = |dtype, shape: &[usize]| TensorType { dtype, shape: shape.to_vec() };
    let named = [
        ("x", of(Dtype::F32, &[2, 6, 9, 12])),
        ("image", of(Dtype::F32, &[6, 9, 12])),
        ("signal", of(Dtype::F32, &[2, 6, 12])),
        ("none", of(Dtype::F32, &[0, 6, 9, 12])),
        ("flat", of(Dtype::F32, &[2, 6, 0, 12])),
        ("i", of(Dtype::I32, &[2, 6, 9, 12])),
        ("w", of(Dtype::F32, &[4, 6, 3, 2])),
        ("w1", of(Dtype::F32, &[4, 6, 3])),
        ("w64", of(Dtype::F64, &[4, 6, 3, 2])),
        ("half", of(Dtype::F32, &[4, 3, 3, 2])),
        ("no_kernel", of(Dtype::F32, &[4, 6, 0, 2])),
        ("each", of(Dtype::F32, &[12, 1, 3, 3])),
        ("b", of(Dtype::F32, &[4])),
    ];
    let inputs: Vec<_> = inputs.iter().map(|name| (*name).to_owned()).collect();
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let node = NodeSpec { name: "n".to_owned(), op: (*op).to_owned(), inputs, attributes };
    GraphSpec {
        inputs: named.map(|(name, of)| (name.to_owned(), of)).into(),
        nodes: vec![node],
        outputs: vec!["n".to_owned()],
    }
}

fn result(call: &Call<'_>) -> Result<Vec<usize>, GraphError> {
    Graph::new(&spec(call)).map(|graph| graph.output_types().remove(0).shape)
}

fn ints(name: &'static str, values: &[i64]) -> (&'static str, Attribute) {
    (name, Attribute::Ints(values.to_vec()))
}

fn int(name: &'static str, value: i64) -> (&'static str, Attribute) {
    (name, Attribute::Int(value))
}

fn text(name: &'static str, value: &str) -> (&'static str, Attribute) {
    (name, Attribute::Text(value.to_owned()))
}

#[test]
fn shapes_are_those_of_pytorch() {
    let ceil = ("ceil_mode", Attribute::Bool(true));
    let cases: Vec<(Call<'_>, &[usize])> = vec![
        (("conv2d", &["x", "w"], vec![]), &[2, 4, 7, 11]),
        (("conv2d", &["image", "w", "b"], vec![]), &[4, 7, 11]),
        (("conv2d", &["none", "w"], vec![]), &[0, 4, 7, 11]),
        (("conv2d", &["x", "w"], vec![int("stride", 2), int("padding", 1)]), &[2, 4, 5, 7]),
        (("conv2d", &["x", "w"], vec![ints("stride", &[1, 5]), ints("dilation", &[4, 1])]), &[2, 4, 1, 3]),
        (("conv2d", &["x", "w"], vec![text("padding", "same"), int("dilation", 3)]), &[2, 4, 9, 12]),
        (("conv2d", &["x", "w"], vec![text("padding", "valid")]), &[2, 4, 7, 11]),
        (("conv2d", &["x", "half"], vec![int("groups", 2)]), &[2, 4, 7, 11]),
        (("conv2d", &["x", "each"], vec![int("groups", 6)]), &[2, 12, 7, 10]),
        (("conv1d", &["signal", "w1"], vec![int("stride", 3), int("padding", 2)]), &[2, 4, 5]),
        (("conv1d", &["signal", "w1"], vec![text("activation", "relu"), text("precision", "high")]), &[2, 4, 10]),
        (("max_pool2d", &["x"], vec![int("kernel_size", 2)]), &[2, 6, 4, 6]),
        (("max_pool2d", &["x"], vec![int("kernel_size", 2), ceil.clone()]), &[2, 6, 5, 6]),
        // A fourth window would begin in the padding after the image.
        (
            ("max_pool2d", &["image"], vec![int("kernel_size", 2), int("stride", 4), int("padding", 1), ceil.clone()]),
            &[6, 3, 4],
        ),
        (("max_pool2d", &["i"], vec![int("kernel_size", 3), int("stride", 1), int("dilation", 4)]), &[2, 6, 1, 4]),
        (("max_pool1d", &["signal"], vec![ints("kernel_size", &[5])]), &[2, 6, 2]),
        (("avg_pool2d", &["none"], vec![ints("kernel_size", &[3, 2])]), &[0, 6, 3, 6]),
        (("avg_pool1d", &["signal"], vec![int("kernel_size", 3), int("divisor_override", 7)]), &[2, 6, 4]),
        (("adaptive_avg_pool2d", &["x"], vec![ints("output_size", &[1, 20])]), &[2, 6, 1, 20]),
        (("adaptive_max_pool1d", &["signal"], vec![int("output_size", 5)]), &[2, 6, 5]),
    ];
    for (call, shape) in cases {
        assert_eq!(result(&call).as_deref(), Ok(shape), "{call:?}");
    }
}

#[test]
fn errors_name_the_field_and_what_was_expected() {
    let kernel = || int("kernel_size", 3);
    let cases: Vec<(Call<'_>, &str, &str, &str)> = vec![
        (("conv2d", &["x"], vec![]), "inputs", "2 or 3", "1"),
        (("conv2d", &["x", "w", "b", "b"], vec![]), "inputs", "2 or 3", "4"),
        (("conv2d", &["x", "w64"], vec![]), "inputs[1]", "elements of type f32", "f64"),
        (("conv2d", &["i", "i"], vec![]), "inputs[0]", "floating-point elements", "i32"),
        (("conv2d", &["b", "w"], vec![]), "inputs[0]", "3 or 4 dimensions", "1"),
        (("conv2d", &["x", "w1"], vec![]), "inputs[1]", "4 dimensions", "3"),
        (("conv2d", &["x", "half"], vec![]), "inputs[1]", "6 channels", "3"),
        (("conv2d", &["x", "w"], vec![int("groups", 2)]), "inputs[1]", "3 channels", "6"),
        (("conv2d", &["x", "w"], vec![int("groups", 4)]), "attributes.groups", "a divisor of 6 channels and 4", "4"),
        (("conv2d", &["x", "w"], vec![int("groups", 0)]), "attributes.groups", "a divisor", "0"),
        (("conv2d", &["x", "w", "signal"], vec![]), "inputs[2]", "f32 of shape [4]", "[2, 6, 12]"),
        (("conv2d", &["x", "w"], vec![int("dilation", 5)]), "inputs[1]", "at most 9 positions", "11"),
        (("conv2d", &["flat", "w"], vec![]), "inputs[1]", "at most 0 positions", "3"),
        (("conv2d", &["x", "no_kernel"], vec![]), "inputs[1]", "kernel extents from 1", "[0, 2]"),
        (("conv2d", &["x", "w"], vec![int("stride", 0)]), "attributes.stride", "one or two numbers from 1", "[0]"),
        (("conv2d", &["x", "w"], vec![ints("padding", &[1, -1])]), "attributes.padding", "from 0", "[1, -1]"),
        (("conv2d", &["x", "w"], vec![ints("padding", &[1, 1, 1])]), "attributes.padding", "one or two", "[1, 1, 1]"),
        (("conv2d", &["x", "w"], vec![int("padding", i64::MAX)]), "attributes.padding", "to 2147483647", ""),
        (("conv2d", &["x", "w"], vec![text("padding", "full")]), "attributes.padding", "\"same\" or \"valid\"", "full"),
        (
            ("conv2d", &["x", "w"], vec![text("padding", "same"), int("stride", 2)]),
            "attributes.stride",
            "1, since padding is \"same\"",
            "[2, 2]",
        ),
        (("conv2d", &["x", "w"], vec![text("precision", "low")]), "attributes.precision", "highest or high", "low"),
        (("conv2d", &["x", "w"], vec![int("bias", 1)]), "attributes", "one of", "bias"),
        (("conv1d", &["signal", "w1"], vec![ints("stride", &[1, 1])]), "attributes.stride", "one number", "[1, 1]"),
        (("max_pool2d", &["x"], vec![]), "attributes.kernel_size", "a value", "none"),
        (("max_pool2d", &["x"], vec![int("kernel_size", 0)]), "attributes.kernel_size", "from 1", "[0]"),
        (("max_pool2d", &["x"], vec![int("kernel_size", 10)]), "attributes.kernel_size", "at most 9 positions", "10"),
        (("max_pool2d", &["x"], vec![kernel(), int("padding", 2)]), "attributes.padding", "at most half", "[2, 2]"),
        (("max_pool2d", &["flat"], vec![kernel()]), "inputs[0]", "no dimension without elements", "[2, 6, 0, 12]"),
        (("max_pool2d", &["b"], vec![kernel()]), "inputs[0]", "3 or 4 dimensions", "1"),
        (("avg_pool2d", &["i"], vec![kernel()]), "inputs[0]", "floating-point elements", "i32"),
        (("avg_pool2d", &["x"], vec![kernel(), int("dilation", 2)]), "attributes", "one of", "dilation"),
        (
            ("avg_pool2d", &["x"], vec![kernel(), int("divisor_override", 0)]),
            "attributes.divisor_override",
            "other than 0",
            "0",
        ),
        (("adaptive_avg_pool2d", &["x"], vec![]), "attributes.output_size", "a value", "none"),
        (("adaptive_avg_pool2d", &["x"], vec![int("output_size", -1)]), "attributes.output_size", "from 0", "[-1]"),
    ];
    for (call, field, expected, got) in cases {
        let error = result(&call).expect_err("a malformed call");
        assert_eq!((error.node.as_str(), error.field.as_str()), ("n", field), "{call:?}: {error}");
        assert!(error.expected.contains(expected) && error.got.contains(got), "{call:?}: {error}");
    }
}

#[test]
fn one_spatial_dimension_is_the_width_of_images_of_height_1() {
    let plan = |call: &Call<'_>| Plan::new(&Graph::new(&spec(call)).expect("a valid graph"));
    let conv = plan(&("conv1d", &["signal", "w1"], vec![int("padding", 2), int("dilation", 3)]));
    let [Step::Conv(step)] = &conv.steps[..] else { panic!("one convolution, not {:?}", conv.steps) };
    assert_eq!(step.input.layout.shape, [2, 6, 1, 12]);
    assert_eq!(step.weight.layout.shape, [4, 6, 1, 3]);
    assert_eq!(step.output.layout.shape, [2, 4, 1, 10]);
    assert_eq!((step.windows.padding, step.windows.dilation), ([0, 2], [1, 3]));
    let pool = plan(&("avg_pool1d", &["signal"], vec![int("kernel_size", 4), int("padding", 1)]));
    let [Step::Pool(step)] = &pool.steps[..] else { panic!("one pooling, not {:?}", pool.steps) };
    assert_eq!((&step.input.layout.shape[..], &step.output.layout.shape[..]), (&[12, 1, 12][..], &[12, 1, 3][..]));
    assert_eq!(step.kind, PoolKind::Average(Divisor::Padded));
    let PoolWindows::Sliding(windows) = step.windows else { panic!("windows that slide") };
    assert_eq!((windows.kernel, windows.stride), ([1, 4], [1, 4]));
}
