//! Screens of cases, compiled for the host: they draw the cases of the generator, and leave cases open that the interpreter does not
//! decide.

#[path = "../../ir/tests/common/host.rs"]
mod host;

use std::{fmt::Write as _, ops::ControlFlow};

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, FaultKind, Kernel, ParamType,
        cuda::{DeviceCode, Launch, Options, device},
        interpret::{LaunchError, Limits, launch},
    },
    scalar::{Literal, cuda::ctype},
};
use accelerd_lower::{Dialect, Options as LowerOptions, for_each_kernel};
use accelerd_verify::{
    Bound, Domain, Generator, Input, Screen, ScreenLaunch, ScreenOutput, ScreenParam, ScreenSide, Screened,
};

const LOOP_BUDGET: u64 = 1000;

/// A function of Warp, mapped over cases.
struct Function {
    kernel: Kernel,
    code: DeviceCode,
    params: Vec<ScreenParam>,
    outputs: Vec<Dtype>,
}

impl Function {
    /// `signature` is `a: float, b: wp.int32`; `body` has its lines.
    fn new(signature: &str, body: &str) -> Self {
        let source =
            format!("import warp as wp\n\n@wp.func\ndef f({signature}):\n    {}\n", body.replace('\n', "\n    "));
        Self::lowered(&source, Dialect::Warp, signature.matches(':').count())
    }

    /// As [`Self::new`], in the dialect that raises errors.
    fn raising(signature: &str, body: &str) -> Self {
        let source = format!("def f({signature}) -> float:\n    {}\n", body.replace('\n', "\n    "));
        Self::lowered(&source, Dialect::Python, signature.matches(':').count())
    }

    fn lowered(source: &str, dialect: Dialect, inputs: usize) -> Self {
        let options = LowerOptions { dialect, ..LowerOptions::default() };
        let mut kernel = None;
        for_each_kernel(source, &options, &["f".to_owned()], &|| ControlFlow::Continue(()), |outcome| {
            kernel = Some(outcome.kernel.unwrap_or_else(|error| panic!("{error:?}\n{source}")).kernel);
            ControlFlow::Break(())
        })
        .expect("valid Python");
        let kernel = kernel.expect("a function");
        let role = |nth: usize| if nth < inputs { ScreenParam::Input(nth) } else { ScreenParam::Output(nth - inputs) };
        let params = (0..kernel.params.len()).map(role).collect();
        let outputs = kernel.params[inputs..].iter().map(|param| dtype(&param.ty)).collect();
        Self { code: device(&kernel, Options::default()), kernel, params, outputs }
    }

    fn side(&self) -> ScreenSide<'_> {
        ScreenSide { code: &self.code, params: &self.params }
    }

    /// The results of a case, or its fault.
    fn run(&self, inputs: &[&[u8]]) -> Result<Vec<Literal>, FaultKind> {
        let zeros = [0; 8];
        let of_param = |(nth, param): (usize, &accelerd_ir::kernel::Param)| {
            let size = dtype(&param.ty).size();
            Argument::contiguous(inputs.get(nth).copied().unwrap_or(&zeros[..size]).to_vec(), &[1], size)
        };
        let mut arguments: Vec<_> = self.kernel.params.iter().enumerate().map(of_param).collect();
        match launch(&self.kernel, &[1], &mut arguments, Limits { loop_budget: LOOP_BUDGET, steps: 1 << 20 }) {
            Ok(()) => {
                let outputs = arguments[inputs.len()..].iter().zip(&self.outputs);
                Ok(outputs.map(|(argument, dtype)| Literal::from_bytes(*dtype, argument.bytes())).collect())
            }
            Err(LaunchError::Fault(fault)) => Err(fault.kind),
            Err(error) => panic!("{error}"),
        }
    }
}

fn dtype(ty: &ParamType) -> Dtype {
    ty.element().components[0].dtype
}

fn input(name: &str, dtype: Dtype, domain: Domain) -> Input {
    Input::new(name, dtype, None, domain).expect("the domain has values")
}

fn between(lower: impl Into<Bound>, upper: impl Into<Bound>) -> Domain {
    Domain { lower: Some(lower.into()), upper: Some(upper.into()), ..Domain::default() }
}

/// The differences that pass.
#[derive(Clone, Copy)]
struct Passes {
    infinities: bool,
    nans: bool,
    faults: bool,
}

const ALL: Passes = Passes { infinities: true, nans: true, faults: true };

fn screen(generator: &Generator, sides: [&Function; 2], passes: Passes) -> Screen {
    let Passes { infinities: infinities_pass, nans: nans_pass, faults } = passes;
    let output = |dtype: &Dtype| ScreenOutput { dtype: *dtype, infinities_pass, nans_pass };
    let outputs: Vec<_> = sides[0].outputs.iter().map(output).collect();
    Screen::new(generator, &outputs, sides.map(Function::side), faults).expect("all types are supported")
}

/// Compiles a screen for the host, with functions that follow it.
fn compile(name: &str, screen: &Screen, further: &str, entry: &str) -> std::path::PathBuf {
    let source = host::without_ptx(screen.source()).replace("extern \"C\" __global__", "__global__");
    let text = format!(
        "#include \"cuda_device.h\"\n{source}\n{further}\n#include \"driver.h\"\nstatic const Entry entries[] = {{
    [](const ir::Launch& launch, const void* params) {{ {entry}(launch, *(const screen::Params*)params); }},
}};
int main() {{ return run_launches(entries); }}
"
    );
    host::compile(&host::folder(name), &text)
}

/// Runs a launch with threads in reverse, in three blocks of eight. The memory afterwards, and whether the launch was stopped.
fn run(program: &std::path::Path, launch: &ScreenLaunch, cases: u64, is_stopped: bool) -> (Vec<u8>, bool) {
    let word = |value: usize| u32::try_from(value).expect("small tests").to_le_bytes();
    let mut memory = vec![0; usize::try_from(launch.memory_bytes).expect("small tests")];
    for (index, bytes) in &launch.segments {
        memory[*index as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    let mut params = launch.params.clone();
    let mut input: Vec<u8> = [0, 3, 8, 1].into_iter().flat_map(word).collect();
    input.extend((memory.len() as u64).to_le_bytes());
    input.extend(&memory);
    input.extend(word(launch.addresses.len()));
    for index in &launch.addresses {
        let place = params[*index as usize..][..8].first_chunk_mut().expect("an address");
        let offset = usize::try_from(u64::from_le_bytes(*place)).expect("small tests");
        input.extend([word(*index as usize), word(0), word(offset)].concat());
        *place = [0; 8];
    }
    let threads = Launch {
        stop: is_stopped.into(),
        fault: 0,
        first: 0,
        count: cases,
        loop_budget: LOOP_BUDGET,
        grid: [u32::try_from(cases).expect("small tests"), 1, 1, 1],
    };
    input.extend(word(1));
    input.extend(threads.to_bytes());
    input.extend(word(params.len()));
    input.extend(&params);
    let output = host::feed(program, &input);
    assert!(output.status.success(), "{output:?}");
    let (fault, memory) = output.stdout.split_first_chunk().expect("a record of a fault");
    assert_eq!(Launch::fault(fault), None, "a screen has no fault");
    (memory.to_vec(), Launch::is_stopped(fault))
}

fn screened(name: &str, screen: &Screen, cases: u64) -> Screened {
    let launch = screen.launch(screen.first_case(), cases);
    let (memory, is_stopped) = run(&compile(name, screen, "", Screen::ENTRY), &launch, cases, false);
    assert!(!is_stopped);
    let result =
        usize::try_from(launch.result.start).expect("small")..usize::try_from(launch.result.end).expect("small");
    screen.screened(&memory[result], cases).expect("the result is one of a screen")
}

/// Asserts that a screen draws the cases of its generator. Types of Warp name the inputs.
fn assert_draws(name: &str, generator: &Generator, cases: u64) {
    let inputs = generator.inputs();
    let warp = |dtype: Dtype| {
        let kind = if dtype.is_float() {
            "float"
        } else if dtype.is_signed() {
            "int"
        } else {
            "uint"
        };
        if dtype == Dtype::Bool { "bool".to_owned() } else { format!("wp.{kind}{}", 8 * dtype.size()) }
    };
    let signature: Vec<_> = inputs.iter().map(|input| format!("{}: {}", input.name(), warp(input.dtype()))).collect();
    let function = Function::new(&signature.join(", "), &format!("return {}", inputs[0].name()));
    let screen = screen(generator, [&function, &function], ALL);
    let mut dump = "static void dump(ir::Launch launch, screen::Params params) {
    for (ir::Thread thread(launch); thread.is_running(); thread.advance()) {\n"
        .to_owned();
    for (nth, input) in inputs.iter().enumerate() {
        writeln!(dump, "        {} x{nth};", ctype(input.dtype())).expect("a string grows");
    }
    let passed: Vec<_> = (0..inputs.len()).map(|nth| format!("x{nth}")).collect();
    let passed = passed.join(", ");
    writeln!(dump, "        screen::draw_inputs(params, params.first_case + thread.id, {passed});")
        .expect("a string grows");
    for nth in 0..inputs.len() {
        let place = format!("(char*)params.open + 8 * ({} * thread.id + {nth})", inputs.len());
        writeln!(dump, "        std::memcpy({place}, &x{nth}, sizeof(x{nth}));").expect("a string grows");
    }
    dump.push_str("    }\n}\n");
    let program = compile(name, &screen, &dump, "dump");
    // The values take the place of the bitmap.
    let mut launch = screen.launch(screen.first_case(), cases);
    let start =
        usize::try_from(launch.memory_bytes).expect("small") - usize::try_from(cases.div_ceil(32) * 4).expect("small");
    launch.memory_bytes += 8 * cases * inputs.len() as u64;
    let (memory, _) = run(&program, &launch, cases, false);
    let columns = generator.cases(screen.first_case(), usize::try_from(cases).expect("small"));
    for (nth, (input, column)) in inputs.iter().zip(&columns).enumerate() {
        for (row, expected) in column.chunks_exact(input.dtype().size()).enumerate() {
            let got = &memory[start + 8 * (inputs.len() * row + nth)..][..expected.len()];
            let [got, expected] = [got, expected].map(|bytes| Literal::from_bytes(input.dtype(), bytes));
            assert_eq!(got, expected, "{name}: input {nth} of case {row} after the systematic ones");
        }
    }
}

#[test]
fn the_cases_are_those_of_the_generator() {
    let numbers = (&[0.1, -2.5, 1e300, 7.0][..], &[7, -40, i64::MAX][..]);
    let any = Domain::default;
    let special = || Domain { allow_nan: true, allow_infinity: true, ..any() };
    for (nth, dtypes) in [
        [Dtype::F64, Dtype::I64, Dtype::F32],
        [Dtype::F32, Dtype::F64, Dtype::U64],
        [Dtype::I32, Dtype::Bool, Dtype::I8],
        [Dtype::U64, Dtype::I64, Dtype::I16],
        [Dtype::U8, Dtype::U32, Dtype::U16],
        [Dtype::Bool, Dtype::F32, Dtype::I64],
    ]
    .into_iter()
    .enumerate()
    {
        let named = ["a", "b", "c"].into_iter().zip(dtypes);
        let inputs = |domain: &dyn Fn(Dtype) -> Domain| -> Vec<_> {
            named.clone().map(|(name, dtype)| input(name, dtype, domain(dtype))).collect()
        };
        let all = Generator::new(inputs(&|_| any()), nth as u64).with_constants(numbers.0, numbers.1);
        assert_draws(&format!("all_{nth}"), &all, 3000);
        let wide = inputs(&|dtype| if dtype.is_float() { special() } else { between(0, 1) });
        assert_draws(&format!("special_{nth}"), &Generator::new(wide, u64::MAX - nth as u64), 3000);
        let narrow = inputs(&|dtype| {
            if dtype.is_float() { between(0.25, 1000.5) } else { between(1, if dtype.size() == 1 { 1 } else { 8 }) }
        })
        .into_iter()
        .filter(|input| input.dtype() != Dtype::Bool)
        .collect();
        assert_draws(&format!("narrow_{nth}"), &Generator::new(narrow, 5), 1000);
    }
}

/// The interpreter's judgement of cases: those that are open, counts of faults, and norms and NaN of the others.
struct Judged {
    open: Vec<u64>,
    faults: Vec<([FaultKind; 2], u64)>,
    norms: Vec<f64>,
    nans: Vec<u64>,
}

fn judged(
    generator: &Generator,
    first: u64,
    cases: usize,
    [subject, reference]: [&Function; 2],
    passes: Passes,
) -> Judged {
    let columns = generator.cases(first, cases);
    let outputs = subject.outputs.len();
    let mut judged = Judged { open: vec![], faults: vec![], norms: vec![0.0; outputs], nans: vec![0; outputs] };
    for case in 0..cases {
        let values: Vec<_> = generator
            .inputs()
            .iter()
            .zip(&columns)
            .map(|(input, column)| &column[case * input.case_bytes()..][..input.case_bytes()])
            .collect();
        match (subject.run(&values), reference.run(&values)) {
            (Ok(actual), Ok(expected)) => judged.compare(case, &actual, &expected, passes),
            (Err(actual), Err(expected))
                if passes.faults && ![actual, expected].contains(&FaultKind::BudgetExhausted) =>
            {
                match judged.faults.iter_mut().find(|(kinds, _)| *kinds == [actual, expected]) {
                    Some((_, count)) => *count += 1,
                    None => judged.faults.push(([actual, expected], 1)),
                }
            }
            _ => judged.open.push(case as u64),
        }
    }
    judged
}

impl Judged {
    fn compare(&mut self, case: usize, actual: &[Literal], expected: &[Literal], passes: Passes) {
        let number = |value: &Literal| if value.dtype().is_float() { value.as_f64() } else { 0.0 };
        let is_equal = |(actual, expected): (&Literal, &Literal)| {
            let are_nan = number(actual).is_nan() && number(expected).is_nan();
            are_nan && passes.nans
                || !are_nan && actual == expected && (passes.infinities || !number(expected).is_infinite())
        };
        if !actual.iter().zip(expected).all(is_equal) {
            return self.open.push(case as u64);
        }
        for ((norm, nans), value) in self.norms.iter_mut().zip(&mut self.nans).zip(expected) {
            let magnitude = value.as_f64().abs();
            *norm = if magnitude.is_finite() { norm.max(magnitude) } else { *norm };
            *nans += u64::from(number(value).is_nan());
        }
    }
}

fn assert_screens(name: &str, inputs: Vec<Input>, sides: [&Function; 2], passes: Passes) -> Screened {
    const CASES: u64 = 2000;
    let generator = Generator::new(inputs, 11);
    let screen = screen(&generator, sides, passes);
    let mut got = screened(name, &screen, CASES);
    let count = usize::try_from(CASES).expect("few cases");
    let mut expected = judged(&generator, screen.first_case(), count, sides, passes);
    let open = &expected.open;
    assert_eq!(got.open_cases_from(0).collect::<Vec<_>>(), *open, "{name}");
    assert_eq!(got.open_count(), open.len() as u64, "{name}");
    let from = open.get(open.len() / 2).copied().unwrap_or_default();
    let after = open.iter().copied().filter(|case| *case >= from);
    assert!(got.open_cases_from(from).eq(after), "{name}, from case {from}");
    for faults in [&mut got.faults, &mut expected.faults] {
        faults.sort_by_key(|([subject, reference], _)| (subject.code(), reference.code()));
    }
    assert_eq!((&got.faults, &got.norms, &got.nans), (&expected.faults, &expected.norms, &expected.nans), "{name}");
    got
}

#[test]
fn cases_that_are_not_plainly_equal_are_open() {
    let floats = || vec![input("a", Dtype::F64, Domain::default()), input("b", Dtype::F64, Domain::default())];
    let signature = "a: wp.float64, b: wp.float64";
    let product = Function::new(signature, "return a * b + a, wp.sin(a)");
    let other = Function::new(signature, "return a * (b + wp.float64(1.0)), wp.sin(a)");
    let different = assert_screens("different", floats(), [&product, &other], ALL);
    assert!(different.open_count() > 100 && different.open_count() < 1900, "{}", different.open_count());
    let same = assert_screens("same", floats(), [&product, &product], ALL);
    let finite = assert_screens("finite", floats(), [&product, &product], Passes { infinities: false, ..ALL });
    assert!(same.open_count() == 0 && finite.open_count() > 0, "some results are infinite");
    let cancelling = Function::new(signature, "return a * b - b * a, a");
    let with_nan = assert_screens("with_nan", floats(), [&cancelling, &cancelling], ALL);
    let without_nan =
        assert_screens("without_nan", floats(), [&cancelling, &cancelling], Passes { nans: false, ..ALL });
    assert_eq!((with_nan.open_count(), with_nan.nans[0]), (0, without_nan.open_count()));
    assert!(with_nan.nans[0] > 0, "some results are NaN");
    let integers = || vec![input("a", Dtype::I32, Domain::default()), input("b", Dtype::Bool, Domain::default())];
    let signature = "a: wp.int32, b: bool";
    let first = Function::new(signature, "if b:\n    return a + wp.int32(1)\nreturn a");
    let wrong = Function::new(signature, "if b and a != wp.int32(10):\n    return a + wp.int32(1)\nreturn a");
    assert!(assert_screens("integers", integers(), [&first, &wrong], ALL).open_count() > 0);
    assert_eq!(assert_screens("equal", integers(), [&first, &first], ALL).open_count(), 0);
}

#[test]
fn cases_without_a_result_are_counted_or_open() {
    let inputs = || vec![input("a", Dtype::F64, between(-3, 3)), input("b", Dtype::I64, between(-2, 2000))];
    let signature = "a: float, b: int";
    let sum = "total = 0.0\nfor i in range(b):\n    total += a\nassert b != 1\nreturn total / b";
    let sum = Function::raising(signature, sum);
    let quick = Function::raising(signature, "assert b != 1\nreturn a if b else 1 / b");
    let screened = assert_screens("faults", inputs(), [&sum, &quick], ALL);
    let kinds = [FaultKind::DivisionByZero, FaultKind::Assertion];
    assert!(kinds.iter().all(|kind| screened.faults.iter().any(|(pair, _)| *pair == [*kind; 2])), "{screened:?}");
    let screened = assert_screens("open_faults", inputs(), [&sum, &quick], Passes { faults: false, ..ALL });
    assert!(screened.faults.is_empty());
}

#[test]
fn a_screen_that_is_stopped_says_so() {
    let endless = Function::raising("a: float", "while a == a:\n    a = a + 0.0\nreturn a");
    let generator = Generator::new(vec![input("a", Dtype::F64, Domain::default())], 0);
    let screen = screen(&generator, [&endless, &endless], ALL);
    let program = compile("stopped", &screen, "", Screen::ENTRY);
    let (_, is_stopped) = run(&program, &screen.launch(screen.first_case(), 3000), 3000, true);
    assert!(is_stopped);
}

#[test]
fn results_that_no_screen_has_are_refused() {
    let function = Function::new("a: wp.int32", "return a");
    let generator = Generator::new(vec![input("a", Dtype::I32, Domain::default())], 0);
    let screen = screen(&generator, [&function, &function], ALL);
    let result = screen.launch(0, 40).result;
    let sizes = usize::try_from(result.end - result.start).expect("a few bytes");
    let zeros = vec![0; sizes];
    assert_eq!(screen.screened(&zeros, 40).expect("all cases are decided").open_count(), 0);
    assert!(screen.screened(&zeros[1..], 40).is_err(), "too short");
    let with = |index: usize, byte: u8| {
        let mut bytes = zeros.clone();
        bytes[index] = byte;
        screen.screened(&bytes, 40).is_ok()
    };
    assert!(with(0, 40) && !with(0, 41), "more faults than cases");
    assert!(with(sizes - 4, 0x80) && !with(sizes - 3, 1), "case 40 of 40");
    assert!(!with(sizes - 17, 0xff), "a norm that is NaN or negative");
    assert!(with(sizes - 16, 40) && !with(sizes - 16, 41), "more NaN than cases");
}

#[test]
fn lists_short_floats_and_no_inputs_are_not_screened() {
    let function = Function::new("a: wp.float32", "return a");
    let outputs = [ScreenOutput { dtype: Dtype::F32, infinities_pass: true, nans_pass: true }];
    let list = Input::new("a", Dtype::F32, Some(4), Domain::default()).expect("the domain has values");
    for inputs in [vec![list], vec![input("a", Dtype::F16, Domain::default())], vec![]] {
        let generator = Generator::new(inputs, 0);
        assert_eq!(Screen::new(&generator, &outputs, [function.side(), function.side()], true), None);
    }
}
