//! The text of a screen.

use accelerd_ir::{Dtype, kernel::FaultKind, kernel::cuda::one_thread_prelude, scalar::cuda::ctype};

use super::{Screen, ScreenOutput, ScreenParam, ScreenSide};
use crate::{
    generator::{Generator, PAIRED, RELATIONS, REPEATED},
    input::Input,
    scalars::{MIX, Mix, SCALES, Strategy},
};

/// The program of a screen.
pub(super) fn source(
    generator: &Generator,
    outputs: &[ScreenOutput],
    sides: [ScreenSide; 2],
    faults_pass: bool,
) -> String {
    let functions: String = sides.iter().map(|side| side.code.functions()).collect();
    let [subject, reference] = sides.map(|side| side.code.thread_source());
    [
        one_thread_prelude(),
        tables(),
        include_str!("generator.cuh").to_owned(),
        include_str!("screen.cuh").to_owned(),
        functions,
        format!("namespace subject {{\n{subject}}}  // namespace subject\n"),
        format!("namespace reference {{\n{reference}}}  // namespace reference\n"),
        params(generator.inputs().len()),
        draw_inputs(generator),
        entry(generator, outputs, sides, faults_pass),
    ]
    .join("\n")
}

/// The tables that the generator of the crate draws from.
fn tables() -> String {
    let names: Vec<_> = Strategy::ALL.iter().map(|strategy| format!("{strategy:?}")).collect();
    let mix: Vec<_> = MIX.iter().map(|strategy| (*strategy as u8).to_string()).collect();
    let scales: Vec<_> = SCALES.iter().map(|scale| format!("{scale:?}")).collect();
    format!(
        "namespace cases {{
enum class Strategy : unsigned char {{ {names} }};
constexpr ir::u32 MIX_COUNT = {mix_count};
__device__ const unsigned char MIX[] = {{ {mix} }};
constexpr ir::u32 SCALE_COUNT = {scale_count};
__device__ const double SCALES[] = {{ {scales} }};
constexpr ir::u32 REPEATED = {REPEATED};
constexpr ir::u32 PAIRED = {PAIRED};
}}  // namespace cases

namespace screen {{
constexpr ir::u32 FAULT_KINDS = {kinds};
}}  // namespace screen
",
        names = names.join(", "),
        mix_count = mix.len(),
        mix = mix.join(", "),
        scale_count = scales.len(),
        scales = scales.join(", "),
        kinds = FaultKind::ALL.len(),
    )
}

/// The parameter block, which `launch.rs` lays out.
fn params(inputs: usize) -> String {
    format!(
        "namespace screen {{
struct Params {{
    const u64* specials;
    u64* fault_counts;
    u64* norms;
    u64* nans;
    u32* open;
    u64 first_case;
    u64 seed;
    u64 keys[{inputs}];
}};
}}  // namespace screen
"
    )
}

/// The function that draws the inputs of a case: `input_0` and so on.
fn draw_inputs(generator: &Generator) -> String {
    let dtypes: Vec<_> = generator.inputs().iter().map(Input::dtype).collect();
    let params = dtypes.iter().enumerate().map(|(nth, dtype)| format!(", {}& input_{nth}", ctype(*dtype)));
    let relation = match dtypes.len() {
        0 | 1 => RELATIONS.to_string(),
        _ => format!("(ir::u32)cases::Random(params.seed, number).below({RELATIONS})"),
    };
    let mut first_special = 0;
    let draws = generator.mixes().iter().enumerate().map(|(nth, mix)| {
        let first = first_special;
        first_special += mix.specials().all().len();
        draw(&dtypes, nth, mix, first)
    });
    format!(
        "namespace screen {{
static __device__ __forceinline__ void draw_inputs(const Params& params, u64 number{}) {{
    const ir::u32 relation = {relation};
{}}}
}}  // namespace screen
",
        params.collect::<String>(),
        draws.collect::<String>()
    )
}

/// The `__global__` function.
fn entry(generator: &Generator, outputs: &[ScreenOutput], sides: [ScreenSide; 2], faults_pass: bool) -> String {
    let inputs = generator.inputs().iter().map(Input::dtype).enumerate();
    let (declared, passed): (Vec<_>, Vec<_>) = inputs
        .map(|(nth, dtype)| (format!("        {} input_{nth};\n", ctype(dtype)), format!(", input_{nth}")))
        .unzip();
    let [subject, reference] = sides;
    format!(
        "extern \"C\" __global__ void {entry}(
    const __grid_constant__ ir::Launch launch, const __grid_constant__ screen::Params params) {{
{norms}    for (ir::Thread thread(launch); thread.is_running(); thread.advance()) {{
{declared}        screen::draw_inputs(params, params.first_case + thread.id{passed});
{subject}{reference}{decision}        if (!is_decided) atomicOr(&params.open[thread.id >> 5], 1u << (thread.id & 31));
        if ((subject_fault.stopped | reference_fault.stopped) != 0) {{
            ir::record_stop(launch.fault);
            return;
        }}
    }}
{raised}}}
",
        entry = Screen::ENTRY,
        norms = each(outputs, |nth, _| format!("    double norm_{nth} = 0.0;\n    ir::u32 nans_{nth} = 0;\n")),
        declared = declared.concat(),
        passed = passed.concat(),
        subject = run("subject", "actual", subject, outputs),
        reference = run("reference", "expected", reference, outputs),
        decision = decision(outputs, faults_pass),
        raised = each(outputs, |nth, _| {
            let norm = format!("&params.norms[{nth}], norm_{nth}");
            let nans = format!("&params.nans[{nth}], nans_{nth}");
            format!("    screen::raise({norm});\n    screen::add({nans});\n")
        }),
    )
}

/// Runs a side on the inputs. Its results are in `<results>_0` and so on, and its fault is in `<name>_fault`.
fn run(name: &str, results: &str, side: ScreenSide, outputs: &[ScreenOutput]) -> String {
    let cells: Vec<_> = side.params.iter().map(|param| cell(*param, results)).collect();
    format!(
        "{declared}        ir::Fault {name}_fault = {{}};
        {{
            const ir::Launch one = screen::one_case(launch, &{name}_fault);
            ir::Thread one_thread(one, 0);
            const {name}::{params} cells = {{{cells}}};
            {run}
        }}
",
        declared = each(outputs, |nth, output| format!("        {} {results}_{nth} = 0;\n", ctype(output.dtype))),
        params = side.code.params_type(),
        cells = cells.join(", "),
        run = side.code.run_thread(&format!("{name}::"), "cells", "one_thread"),
    )
}

/// Sets `is_decided`, and adds the figures of a decided case.
fn decision(outputs: &[ScreenOutput], faults_pass: bool) -> String {
    let equal = each(outputs, |nth, output| {
        let ScreenOutput { infinities_pass, nans_pass, .. } = output;
        format!(" && screen::is_equal<{infinities_pass}, {nans_pass}>(actual_{nth}, expected_{nth})")
    });
    let raise = |nth, _: &_| {
        format!(
            "            norm_{nth} = fmax(norm_{nth}, screen::magnitude(expected_{nth}));
            nans_{nth} += screen::is_nan(expected_{nth});
"
        )
    };
    let count = "screen::count_faults(params.fault_counts, subject_fault.kind, reference_fault.kind)";
    let otherwise =
        if faults_pass { format!(" else {{\n            is_decided = {count};\n        }}") } else { String::new() };
    format!(
        "        bool is_decided = subject_fault.kind == 0 && reference_fault.kind == 0{equal};
        if (is_decided) {{
{raised}        }}{otherwise}
",
        raised = each(outputs, raise),
    )
}

fn each(outputs: &[ScreenOutput], text: impl Fn(usize, &ScreenOutput) -> String) -> String {
    outputs.iter().enumerate().map(|(nth, output)| text(nth, output)).collect()
}

/// Draws an input, whose special values begin at `first_special`.
fn draw(dtypes: &[Dtype], nth: usize, mix: &Mix, first_special: usize) -> String {
    let values = mix.values();
    let specials = mix.specials();
    let turn = mix.turn();
    let (lowest, highest) = values.finite_bounds();
    let constants = specials.constants_range();
    let earlier = (0..nth)
        .rev()
        .fold("{}".to_owned(), |rest, before| format!("{{({})input_{before}, {rest}}}", drawn_type(dtypes[before])));
    let types: Vec<_> = dtypes[..nth].iter().map(|dtype| drawn_type(*dtype)).collect();
    format!(
        "    input_{nth} = cases::Input<{ty}>{{
        {low}, {high}, {lowest:?}, {highest:?}, {nan},
        {half:?}, {half_steps}, {ends:?}, {end_steps},
        params.specials + {first_special}, {all}, {core}, {first}, {count}}}
        .draw<{inputs}>(cases::Earlier<{types}>{earlier}, relation, cases::Random(params.keys[{nth}], number));
",
        ty = drawn_type(dtypes[nth]),
        low = wide(values.low()),
        high = wide(values.high()),
        nan = values.allows_nan(),
        half = turn.half,
        half_steps = wide(turn.half_steps),
        ends = turn.ends,
        end_steps = wide(turn.end_steps),
        inputs = dtypes.len(),
        all = specials.all().len(),
        core = specials.core().len(),
        first = constants.start,
        count = constants.len(),
        types = types.join(", "),
    )
}

/// The type in which an input is drawn. Values of bool are stored as bytes.
fn drawn_type(dtype: Dtype) -> &'static str {
    if dtype == Dtype::Bool { "bool" } else { ctype(dtype) }
}

fn cell(param: ScreenParam, results: &str) -> String {
    match param {
        ScreenParam::Input(nth) => format!("screen::cell(input_{nth})"),
        ScreenParam::Output(nth) => format!("screen::cell({results}_{nth})"),
    }
}

/// An integer of up to 65 bits.
fn wide(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}(cases::i128){}ull", value.unsigned_abs())
}
