//! Screening: a GPU generates cases, runs both functions on them, and finds the cases whose results are not plainly equal.
//!
//! A case is *decided* if both functions have a result, with equal bits or two NaN that pass, or if neither has one and that passes. The other
//! cases are *open*: the caller evaluates them, so that the result of a verification does not depend on who screens its cases.
//!
//! [`Screen`] is the program in CUDA C++. Its [`ScreenLaunch`]es are what a launch of a generated kernel is, with an address space that begins
//! at 0. [`Screened`] is what one of them found.

mod launch;
mod source;

pub use launch::{ScreenLaunch, Screened, ScreenedError};

use accelerd_ir::{Dtype, kernel::cuda::DeviceCode};

use crate::{generator::Generator, input::Input};

/// One of the two functions, mapped over cases.
#[derive(Clone, Copy, Debug)]
pub struct ScreenSide<'a> {
    /// Its code. Each parameter is an array of one dimension.
    pub code: &'a DeviceCode,
    /// The role of each parameter.
    pub params: &'a [ScreenParam],
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenParam {
    /// The input of the generator at this position, of the same type.
    Input(usize),
    /// The output at this position, of the same type.
    Output(usize),
}

/// An output of both functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenOutput {
    /// Its type.
    pub dtype: Dtype,
    /// True if two equal infinities pass.
    pub infinities_pass: bool,
    /// True if two NaN pass, whatever their bits, which depend on the processor.
    pub nans_pass: bool,
}

/// A program that screens cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    source: String,
    /// The special values of all inputs, 8 bytes each.
    specials: Vec<u8>,
    seed: u64,
    /// The key of the random numbers of each input.
    keys: Vec<u64>,
    outputs: usize,
    first_case: u64,
}

impl Screen {
    /// The `__global__` function of the program.
    pub const ENTRY: &str = "screen_cases";

    /// Returns true if values of this type are screened. 16-bit floating-point numbers are not.
    fn supports(dtype: Dtype) -> bool {
        !matches!(dtype, Dtype::F16 | Dtype::Bf16)
    }

    /// A program for the cases of a generator. `faults_pass` says whether a case passes in which neither function has a result.
    ///
    /// `None` if there is no input, if one is a list, or if a type is not supported.
    pub fn new(
        generator: &Generator,
        outputs: &[ScreenOutput],
        [subject, reference]: [ScreenSide; 2],
        faults_pass: bool,
    ) -> Option<Self> {
        let inputs = generator.inputs();
        let dtypes = inputs.iter().map(Input::dtype).chain(outputs.iter().map(|output| output.dtype));
        let has_list = inputs.iter().any(|input| input.length().is_some());
        if inputs.is_empty() || has_list || !dtypes.into_iter().all(Self::supports) {
            return None;
        }
        let specials = generator.mixes().iter().flat_map(|mix| mix.specials().all());
        Some(Self {
            source: source::source(generator, outputs, [subject, reference], faults_pass),
            specials: specials.flat_map(|bits| bits.to_le_bytes()).collect(),
            seed: generator.seed(),
            keys: generator.keys(),
            outputs: outputs.len(),
            first_case: generator.systematic_cases(),
        })
    }

    /// The program, for NVRTC with `-fmad=false` and `--device-int128`.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The first case that can be screened. Cases before it are systematic.
    pub fn first_case(&self) -> u64 {
        self.first_case
    }
}
