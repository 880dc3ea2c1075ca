//! Kernels whose arguments are words that a template reads by their position.

pub(super) use super::headers::WORDS_THREADS as THREADS;
use super::{
    headers::HEADERS,
    launches::{Argument, Launch},
    prelude::NO_FMA,
};
use crate::{
    OpError,
    cuda::{Grid, JitSource},
};

/// A launch of `function` of a template, which `text` configures and includes. Blocks have [`THREADS`] threads. Products and sums are
/// rounded separately.
pub(super) fn launch(
    template: &'static str,
    function: &str,
    text: &str,
    grid: [usize; 2],
    arguments: Vec<Argument>,
) -> Result<Launch, OpError> {
    let extent = |blocks: usize, most: u32| {
        let fits = u32::try_from(blocks).ok().filter(|blocks| *blocks <= most);
        fits.ok_or_else(|| OpError::Invalid(format!("{template} needs {blocks} blocks, more than {most}")))
    };
    let grid = Grid::xy(extent(grid[0], i32::MAX.unsigned_abs())?, extent(grid[1], u16::MAX.into())?);
    let names: Vec<_> = (0..arguments.len()).map(|nth| format!("w{nth}")).collect();
    let params: Vec<_> = names.iter().map(|name| format!("const u64 {name}")).collect();
    let text = format!(
        "{text}\nextern \"C\" __global__ void __launch_bounds__({THREADS}) {template}({}) {{\n    const u64 words[] = \
         {{{}}};\n    {function}(words);\n}}\n",
        params.join(", "),
        names.join(", ")
    );
    let params = vec![8; arguments.len()];
    let source = JitSource { template, text, headers: HEADERS, options: vec![NO_FMA.to_owned()], params };
    Ok(Launch::new(source, grid, u32::try_from(THREADS).expect("a small constant"), arguments))
}

pub(super) fn word(value: usize) -> Argument {
    Argument::Word(value as u64)
}

/// The argument of a stride, which may be negative.
pub(super) fn signed(value: isize) -> Argument {
    Argument::Word((value as i64).cast_unsigned())
}
