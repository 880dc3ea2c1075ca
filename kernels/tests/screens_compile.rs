//! Screens of cases compile for every architecture.
//!
//! Needs NVRTC, but no GPU: set `ACCELERD_NVRTC_PATH` to the folder of `libnvrtc.so`, or install the CUDA toolkit.

use std::{collections::BTreeMap, env, ops::ControlFlow};

use accelerd_ir::Dtype;
use accelerd_kernels::{
    cuda::{Arch, UserCompiler},
    ops::translate::{DeviceCode, Dialect, ParamType, Request, Targets},
};
use accelerd_translate::translate;
use accelerd_verify::{Domain, Generator, Input, Screen, ScreenOutput, ScreenParam, ScreenSide};

const SOURCE: &str = "import warp as wp

@wp.func
def mean(a: wp.float64, n: wp.int64, b: wp.float32, c: wp.uint64, d: bool, e: wp.int8):
    total = wp.float64(0.0)
    for i in range(int(n % wp.int64(9))):
        total += a * wp.float64(i)
    return wp.sin(b) if d else wp.exp(b), total / wp.float64(n), c // wp.uint64(3), e

@wp.func
def root(x: wp.float64):
    return wp.sqrt(x)
";

/// The device code of a function, and the types of its parameters.
fn function(name: &str) -> (DeviceCode, Vec<Dtype>) {
    let targets = Targets { cuda: false, wasm: false, device: true };
    let request = Request {
        source: SOURCE.to_owned(),
        dialect: Some(Dialect::Warp),
        constants: BTreeMap::new(),
        names: vec![name.to_owned()],
        targets,
        max_bytes: 1 << 20,
    };
    let translation = translate(&request, || ControlFlow::Continue(())).expect("it is small");
    let kernel = translation.kernels.into_iter().next().unwrap_or_else(|| panic!("{:?}", translation.diagnostics));
    let dtypes = kernel.kernel.params.iter().map(|param| match &param.ty {
        ParamType::Array(array) => array.element.components[0].dtype,
        ParamType::Value(_) => panic!("a function is mapped over arrays"),
    });
    (kernel.device.expect("it is requested"), dtypes.collect())
}

fn screen(name: &str, inputs: usize) -> Screen {
    let (code, dtypes) = function(name);
    let special =
        |dtype: Dtype| Domain { allow_nan: dtype.is_float(), allow_infinity: dtype.is_float(), ..Domain::default() };
    let input = |(nth, dtype): (usize, &Dtype)| {
        Input::new(format!("x{nth}"), *dtype, None, special(*dtype)).expect("the domain has values")
    };
    let generator = Generator::new(dtypes[..inputs].iter().enumerate().map(input).collect(), 7);
    let outputs: Vec<_> = dtypes[inputs..]
        .iter()
        .map(|dtype| ScreenOutput { dtype: *dtype, infinities_pass: true, nans_pass: true })
        .collect();
    let role = |nth: usize| if nth < inputs { ScreenParam::Input(nth) } else { ScreenParam::Output(nth - inputs) };
    let params: Vec<_> = (0..dtypes.len()).map(role).collect();
    let side = ScreenSide { code: &code, params: &params };
    Screen::new(&generator, &outputs, [side, side], true).expect("all types are supported")
}

#[test]
fn screens_compile_for_every_architecture_without_spills() {
    let folder = env::var_os("ACCELERD_NVRTC_PATH").expect("ACCELERD_NVRTC_PATH must name the folder of libnvrtc");
    let compiler = UserCompiler::find(&[folder.into()], false).expect("NVRTC is there");
    for (name, inputs) in [("mean", 6), ("root", 1)] {
        let screen = screen(name, inputs);
        for arch in Arch::SUPPORTED {
            let code = compiler.compile(screen.source(), arch).unwrap_or_else(|log| panic!("{name}, {arch}: {log}"));
            let resources = code.resources.expect("machine code");
            assert_eq!((resources.spill_store_bytes, resources.spill_load_bytes), (0, 0), "{name}, {arch}");
            assert!(code.ptx.contains(Screen::ENTRY), "{name}, {arch}");
        }
    }
}
