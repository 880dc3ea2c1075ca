//! Steps become launches or errors, and their kernels compile.

use accelerd_ir::scalar::{BinaryOp, Builder, Function, UnaryOp};
use accelerd_tensor::{Attribute, Graph, GraphSpec, Layout, Location, NodeSpec, Plan, Step, TensorType, View};

use super::{
    super::compile::{compiles, ptx},
    *,
};

/// A function of one parameter of each type: all operands as f32, combined, and cast to each result.
fn combine(params: &[Dtype], results: &[Dtype], operation: UnaryOp) -> Function {
    let mut builder = Builder::new(params);
    let mut sum = builder.index();
    sum = builder.cast(sum, Dtype::F32);
    for nth in 0..params.len() {
        let value = builder.param(nth);
        let value = builder.cast(value, Dtype::F32);
        sum = builder.binary(BinaryOp::Add, sum, value).expect("both are f32");
    }
    let value = builder.unary(operation, sum).expect("f32 has every operation");
    let results: Vec<_> = results.iter().map(|dtype| builder.cast(value, *dtype)).collect();
    builder.finish(&results)
}

fn view(location: Location, dtype: Dtype, layout: Layout) -> accelerd_tensor::View {
    View { location, dtype, layout }
}

/// A step whose inputs are tensors of these layouts, and whose outputs are contiguous.
fn step(function: Function, layouts: &[Layout]) -> MapStep {
    let shape = layouts[0].shape.clone();
    let inputs = layouts
        .iter()
        .zip(function.params())
        .enumerate()
        .map(|(nth, (layout, dtype))| view(Location::Input(nth), *dtype, layout.clone()))
        .collect();
    let results: Vec<_> = function.results().iter().map(|result| function.dtype(*result)).collect();
    let output = |(nth, dtype): (usize, &Dtype)| view(Location::Output(nth), *dtype, Layout::contiguous(&shape));
    let outputs = results.iter().enumerate().map(output).collect();
    MapStep { inputs, outputs, function, shape }
}

fn check(step: &MapStep) -> Result<Option<Checked>, OpError> {
    Checked::new(step, &BufferSizes::new(&[1 << 38; 12], &[1 << 38; 12], 1 << 38))
}

fn checked(step: &MapStep) -> Checked {
    check(step).expect("a valid step").expect("elements to compute")
}

#[test]
fn every_schedule_compiles_for_every_type() {
    let tensor = Layout::contiguous(&[40, 48]);
    let row = Layout::contiguous(&[48]).broadcast(&[40, 48]).expect("broadcasts");
    let column = Layout::contiguous(&[40, 1]).broadcast(&[40, 48]).expect("broadcasts");
    let transposed = Layout::contiguous(&[48, 40]).permuted(&[1, 0]);
    let reversed = tensor.sliced(1, 47, 48, -1);
    let batched = Layout::contiguous(&[3, 48, 40]).permuted(&[0, 2, 1]);
    let padded = Layout::contiguous(&[3, 4, 5, 6]).sliced(1, 0, 2, 2).sliced(2, 1, 3, 1).sliced(3, 0, 6, 1);
    let spread = Layout { strides: vec![1 << 26, 1], ..tensor.clone() };
    let classes: [&[Layout]; 8] = [
        &[tensor.clone(), tensor.clone()],
        &[tensor.clone(), row.clone(), column.clone()],
        &[row, column],
        &[tensor.clone(), reversed],
        &[transposed, tensor],
        &[batched.clone(), batched],
        &[padded],
        &[spread],
    ];
    let mut sources = vec![];
    for (nth, layouts) in classes.iter().enumerate() {
        // Each class with other types, so that all types and sizes appear.
        let dtype = |index: usize| Dtype::ALL[(5 * nth + 3 * index) % Dtype::ALL.len()];
        let params: Vec<_> = (0..layouts.len()).map(dtype).collect();
        let results = [dtype(layouts.len()), dtype(layouts.len() + 1)];
        let step = step(combine(&params, &results, UnaryOp::Tanh), layouts);
        sources.push(source::source(&step.function, &checked(&step).variant));
    }
    for dtype in Dtype::ALL {
        let step = step(combine(&[dtype], &[dtype], UnaryOp::Neg), &[Layout::contiguous(&[100])]);
        sources.push(source::source(&step.function, &checked(&step).variant));
    }
    compiles(&sources);
}

#[test]
fn contiguous_elements_are_accessed_by_16_bytes_and_stay_in_registers() {
    for dtype in [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::U8] {
        let step = step(combine(&[dtype; 2], &[dtype], UnaryOp::Neg), &vec![Layout::contiguous(&[1000]); 2]);
        let ptx = ptx(&source::source(&step.function, &checked(&step).variant));
        let wide = |access: &str| [".v4.", ".v2."].map(|lanes| ptx.matches(&format!("{access}{lanes}")).count());
        assert!(wide("ld.global").iter().sum::<usize>() >= 2, "{ptx}");
        assert!(wide("st.global").iter().sum::<usize>() >= 1, "{ptx}");
        assert!(!ptx.contains(".local"), "{ptx}");
    }
}

#[test]
fn the_text_is_independent_of_extents_and_addresses() {
    let text = |rows: usize, columns: usize, offset: usize| {
        let tensor = Layout { offset, ..Layout::contiguous(&[rows, columns]) };
        let row = Layout::contiguous(&[columns]).broadcast(&[rows, columns]).expect("broadcasts");
        let step = step(combine(&[Dtype::F32; 2], &[Dtype::F32], UnaryOp::Exp), &[tensor, row]);
        source::source(&step.function, &checked(&step).variant)
    };
    assert_eq!(text(3, 8, 0), text(500, 64, 4));
    assert_ne!(text(3, 8, 0), text(3, 7, 0), "no vectors");
}

#[test]
fn the_arguments_are_the_words_of_all_parameters() {
    let step = step(combine(&[Dtype::F32; 2], &[Dtype::F16], UnaryOp::Exp), &vec![Layout::contiguous(&[3, 8]); 2]);
    let sizes = BufferSizes::new(&[96; 2], &[48], 0);
    let launch = prepare(&step, &sizes).expect("a valid step").launches.remove(0);
    assert_eq!(launch.arguments.len() * 8, launch.source.params.iter().sum::<usize>());
    let addresses = [Location::Input(0), Location::Input(1), Location::Output(0)].map(|index| Address::In(index, 0));
    let found = launch.arguments.iter().filter_map(|argument| match argument {
        Argument::Address(address) => Some(*address),
        Argument::Word(_) | Argument::F64(_) | Argument::Workspace(_) => None,
    });
    assert_eq!(found.collect::<Vec<_>>(), addresses);
}

#[test]
fn nothing_is_launched_without_elements() {
    let step = step(combine(&[Dtype::F32], &[Dtype::F32], UnaryOp::Neg), &[Layout::contiguous(&[3, 0])]);
    assert!(check(&step).expect("a valid step").is_none());
}

#[test]
fn a_step_that_does_not_fit_its_views_is_an_error() {
    let tensor = Layout::contiguous(&[4, 4]);
    let good = step(combine(&[Dtype::F32], &[Dtype::F32], UnaryOp::Neg), &[tensor]);
    let wrongs: [fn(&mut MapStep); 7] = [
        |step| step.inputs[0].dtype = Dtype::F64,
        |step| step.outputs.clear(),
        |step| step.shape = vec![16],
        |step| step.inputs[0].layout.offset = 1 << 38,
        |step| step.inputs[0].location = Location::Input(12),
        |step| step.outputs[0].location = Location::Input(0),
        |step| {
            step.shape = vec![1 << 40; 3];
            step.inputs.iter_mut().chain(&mut step.outputs).for_each(|view| {
                view.layout = Layout { shape: vec![1 << 40; 3], strides: vec![0; 3], offset: 0 };
            });
        },
    ];
    assert!(check(&good).is_ok());
    for (nth, wrong) in wrongs.iter().enumerate() {
        let mut step = good.clone();
        wrong(&mut step);
        assert!(matches!(check(&step), Err(OpError::Invalid(_))), "{nth}");
    }
}

/// The elementwise steps of an operation of these types, all of shape `[1000]` but for scalars, which come last.
fn steps_of(op: &str, operands: &[Dtype], scalars: usize, attributes: &[(&str, Attribute)]) -> Vec<MapStep> {
    let inputs = (0..operands.len()).map(|nth| format!("x{nth}"));
    let shape = |nth: usize| if nth + scalars < operands.len() { vec![1000] } else { vec![] };
    let of = |nth: usize| TensorType { dtype: operands[nth], shape: shape(nth) };
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let spec = GraphSpec {
        inputs: inputs.clone().enumerate().map(|(nth, name)| (name, of(nth))).collect(),
        nodes: vec![NodeSpec { name: "y".to_owned(), op: op.to_owned(), inputs: inputs.collect(), attributes }],
        outputs: vec!["y".to_owned()],
    };
    let plan = Plan::new(&Graph::new(&spec).expect("a valid graph"));
    let map = |step| if let Step::Map(map) = step { map } else { panic!("a map, not {step:?}") };
    plan.steps.into_iter().map(map).collect()
}

fn shaped(dtype: Dtype) -> Vec<(&'static str, Attribute)> {
    vec![("shape", Attribute::Ints(vec![1000])), ("dtype", Attribute::Text(dtype.name().to_owned()))]
}

#[test]
fn updates_and_random_numbers_compile() {
    let floats = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];
    let high = |high| ("high", Attribute::Int(high));
    let mut steps = vec![];
    for dtype in floats {
        steps.extend(steps_of("adamw", &[dtype, dtype, Dtype::F32, dtype, Dtype::I64, Dtype::F32], 2, &[]));
        steps.extend(steps_of("sgd", &[dtype, dtype, dtype], 0, &[("momentum", Attribute::Float(0.9))]));
        for op in ["rand", "randn"] {
            steps.extend(steps_of(op, &[Dtype::I64; 2], 2, &shaped(dtype)));
        }
        for op in ["dropout", "bernoulli"] {
            steps.extend(steps_of(op, &[dtype, Dtype::U32], 1, &[]));
        }
    }
    for limit in [9, 1 << 32, 1 << 40] {
        steps.extend(steps_of("randint", &[Dtype::I64], 1, &[&shaped(Dtype::I64)[..], &[high(limit)]].concat()));
    }
    let sources: Vec<_> = steps.iter().map(|step| source::source(&step.function, &checked(step).variant)).collect();
    compiles(&sources);
}

#[test]
fn neighbours_share_a_block_of_random_numbers() {
    let [step] = &steps_of("rand", &[Dtype::I64; 2], 2, &shaped(Dtype::F32))[..] else { panic!("one step") };
    let launch = checked(step);
    let Schedule::Vectors { lanes: 4, unroll, .. } = launch.variant.schedule else { panic!("{:?}", launch.variant) };
    let ptx = ptx(&source::source(&step.function, &launch.variant));
    // One block for each vector, and one for the elements that fill none; ten rounds of two products.
    let products = ptx.matches("mul.hi.u32").count() + ptx.matches("mul.wide.u32").count();
    assert!(products <= (unroll + 1) * 20 + 8, "{products} products for {unroll} vectors: {ptx}");
}
