//! Convolutions and pooling against the oracle.

use accelerd_kernels::Backend;
use accelerd_tensor::{Attribute, Dtype, Graph, NodeSpec};

use super::{
    Case,
    tensor::{check, check_within, finite, graph, node, tensor},
};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("tensor::convolutions_tf32", |backend| {
        let high = ("precision", Attribute::Text("high".to_owned()));
        // TF32 has 13 bits of fraction less than f32.
        convolutions(backend, Dtype::F32, &[high], 2e4)
    })];
    for dtype in Dtype::ALL.into_iter().filter(|dtype| *dtype != Dtype::Bool) {
        if dtype.is_float() {
            cases.push(Case::new(format!("tensor::convolutions_{dtype}"), move |backend| {
                convolutions(backend, dtype, &[], 32.0)
            }));
        }
        cases.push(Case::new(format!("tensor::pooling_{dtype}"), move |backend| pooling(backend, dtype)));
    }
    cases
}

fn int(name: &'static str, value: i64) -> (&'static str, Attribute) {
    (name, Attribute::Int(value))
}

fn ints(name: &'static str, values: &[i64]) -> (&'static str, Attribute) {
    (name, Attribute::Ints(values.to_vec()))
}

fn text(name: &'static str, value: &str) -> (&'static str, Attribute) {
    (name, Attribute::Text(value.to_owned()))
}

/// Convolutions with these attributes in addition: every schedule, and layouts that straddle their tiles.
fn convolutions(
    backend: &mut Backend,
    dtype: Dtype,
    attributes: &[(&'static str, Attribute)],
    factor: f64,
) -> Result<(), String> {
    let of = |shape: &[usize]| tensor(dtype, shape);
    let with = |more: &[(&'static str, Attribute)]| [attributes, more].concat();
    let inputs = [
        ("x", of(&[2, 6, 9, 11])),
        ("w", of(&[10, 6, 3, 3])),
        ("b", of(&[10])),
        ("grouped_w", of(&[8, 3, 3, 2])),
        ("each_w", of(&[12, 1, 3, 3])),
        ("point_w", of(&[10, 6, 1, 1])),
        ("few_w", of(&[3, 6, 3, 3])),
        ("line_w", of(&[7, 6, 5])),
        ("line_b", of(&[7])),
        ("deep", of(&[1, 70, 6, 7])),
        ("deep_w", of(&[66, 70, 3, 3])),
    ];
    let conv =
        |name: &str, inputs: &[&str], more: &[(&'static str, Attribute)]| node(name, "conv2d", inputs, &with(more));
    let nodes = vec![
        conv("padded", &["x", "w", "b"], &[int("padding", 1)]),
        conv("strided", &["x", "w"], &[ints("stride", &[2, 3]), ints("dilation", &[2, 1]), ints("padding", &[3, 1])]),
        conv("sparse", &["x", "w", "b"], &[int("stride", 5)]),
        conv("same", &["x", "grouped_w"], &[text("padding", "same"), int("dilation", 2), int("groups", 2)]),
        conv("grouped", &["x", "grouped_w"], &[int("groups", 2), text("activation", "tanh")]),
        conv("depthwise", &["x", "each_w"], &[int("groups", 6), int("stride", 2), int("padding", 1)]),
        conv("pointwise", &["x", "point_w", "b"], &[]),
        conv("few", &["x", "few_w"], &[text("activation", "relu")]),
        conv("deep_y", &["deep", "deep_w"], &[int("padding", 2)]),
        conv("second", &["padded", "second_w"], &[]),
        node("second_w", "reshape", &["b"], &[ints("shape", &[1, 10, 1, 1])]),
        node("turned", "permute", &["x"], &[ints("dims", &[0, 1, 3, 2])]),
        conv("of_turned", &["turned", "w"], &[int("padding", 1)]),
        node("one", "select", &["x"], &[int("dim", 0), int("index", 1)]),
        conv("unbatched", &["one", "w", "b"], &[]),
        node("none", "slice", &["x"], &[int("dim", 0), int("start", 2)]),
        conv("empty", &["none", "w"], &[]),
        node("line", "reshape", &["x"], &[ints("shape", &[2, 6, 99])]),
        node("line_y", "conv1d", &["line", "line_w", "line_b"], &with(&[int("stride", 2), int("padding", 4)])),
    ];
    check_within(backend, &finite(&inputs, nodes), 11, factor)?;
    // Blocks for all multiprocessors: large tiles.
    let inputs = [("x", of(&[2, 3, 96, 90])), ("w", of(&[70, 3, 1, 2])), ("b", of(&[70]))];
    let large = vec![conv("y", &["x", "w", "b"], &[text("padding", "same")])];
    check_within(backend, &finite(&inputs, large), 12, factor)?;
    if dtype.size() != 2 {
        return Ok(());
    }
    // Tiles of 128 channels and 192 positions, which straddle images, rows and channels of a tap.
    let inputs = [
        ("x", of(&[11, 33, 47, 89])),
        ("w", of(&[97, 33, 2, 2])),
        ("b", of(&[97])),
        ("deep", of(&[3, 72, 91, 91])),
        ("deep_w", of(&[96, 72, 1, 1])),
    ];
    let strided =
        [ints("stride", &[1, 2]), ints("dilation", &[2, 1]), ints("padding", &[3, 1]), text("activation", "relu")];
    let wide = vec![conv("strided_y", &["x", "w", "b"], &strided), conv("pointwise_y", &["deep", "deep_w"], &[])];
    check_within(backend, &finite(&inputs, wide), 15, factor)
}

/// Pooling of every kind that takes the type.
fn pooling(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let kernel = |size| int("kernel_size", size);
    let ceil = ("ceil_mode", Attribute::Bool(true));
    let without = ("count_include_pad", Attribute::Bool(false));
    for shape in [[3, 5, 64, 64], [2, 5, 33, 35], [0, 5, 9, 12]] {
        let of = tensor(dtype, &shape);
        let line = ints("shape", &[-1, 5, i64::try_from(shape[2] * shape[3]).map_err(|error| error.to_string())?]);
        let windows = |prefix: &str| {
            let [flat, wide] = ["1d", "2d"].map(|rank| format!("{prefix}_pool{rank}"));
            let name = |suffix: &str| format!("{prefix}_{suffix}");
            vec![
                node(&name("pairs"), &wide, &["x"], &[kernel(2)]),
                node(&name("padded"), &wide, &["x"], &[kernel(3), int("stride", 2), int("padding", 1)]),
                node(&name("ceil"), &wide, &["x"], &[kernel(2), int("stride", 3), int("padding", 1), ceil.clone()]),
                node(&name("uneven"), &wide, &["x"], &[ints("kernel_size", &[1, 7]), ints("stride", &[4, 2])]),
                node(&name("large"), &wide, &["x"], &[ints("kernel_size", &[8, 9])]),
                node(&name("line"), &flat, &["line"], &[kernel(4), int("stride", 3), int("padding", 2), ceil.clone()]),
                node(&name("of_turned"), &wide, &["turned"], &[kernel(2)]),
            ]
        };
        let mut nodes = vec![
            node("turned", "permute", &["x"], &[ints("dims", &[0, 1, 3, 2])]),
            node(
                "dilated",
                "max_pool2d",
                &["x"],
                &[kernel(3), int("stride", 1), int("padding", 1), int("dilation", 3)],
            ),
            node("adaptive_max", "adaptive_max_pool2d", &["x"], &[ints("output_size", &[4, 7])]),
        ];
        if shape[0] > 0 {
            nodes.push(node("line", "reshape", &["x"], &[line]));
            nodes.push(node("one", "select", &["x"], &[int("dim", 0), int("index", 1)]));
            nodes.push(node("unbatched", "max_pool2d", &["one"], &[kernel(3)]));
            nodes.push(node("one_line", "select", &["line"], &[int("dim", 0), int("index", 1)]));
            nodes.push(node("adaptive_max_line", "adaptive_max_pool1d", &["line"], &[ints("output_size", &[7])]));
            nodes.push(node("adaptive_max_unbatched", "adaptive_max_pool1d", &["one_line"], &[int("output_size", 1)]));
        }
        let mut averages = windows("avg");
        averages.extend([
            node("excluding", "avg_pool2d", &["x"], &[kernel(5), int("stride", 2), int("padding", 2), without.clone()]),
            node("overridden", "avg_pool2d", &["x"], &[kernel(3), int("divisor_override", -7)]),
            node("adaptive", "adaptive_avg_pool2d", &["x"], &[ints("output_size", &[3, 40])]),
            node("global", "adaptive_avg_pool2d", &["x"], &[int("output_size", 1)]),
            node("adaptive_line", "adaptive_avg_pool1d", &["line"], &[int("output_size", 40)]),
            // More windows than elements: neighbours have the same elements.
            node("repeated_line", "adaptive_avg_pool1d", &["line"], &[int("output_size", 4500)]),
            node("adaptive_unbatched", "adaptive_avg_pool1d", &["one_line"], &[int("output_size", 1)]),
        ]);
        let is_there = |node: &NodeSpec| shape[0] > 0 || !["line", "one_line"].contains(&node.inputs[0].as_str());
        nodes.extend(windows("max").into_iter().filter(is_there));
        check(backend, &graph(&[("x", of.clone())], nodes.clone()), 13)?;
        if dtype.is_float() {
            averages.extend(nodes.into_iter().take_while(|node| node.name != "max_pairs"));
            averages.retain(is_there);
            check_within(backend, &finite(&[("x", of)], averages), 14, 8.0)?;
        } else {
            let refused = graph(&[("x", of)], vec![node("y", "avg_pool2d", &["x"], &[kernel(2)])]);
            Graph::new(&refused).err().ok_or("averages of integers are refused")?;
        }
    }
    Ok(())
}
