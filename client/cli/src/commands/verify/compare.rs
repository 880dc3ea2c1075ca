//! Compares tensors of files and resident ones.

use accelerd_client::{Client, CompareOptions, NanPolicy, Policy, TensorSource};
use clap::Args;

use super::comparison::Comparisons;
use crate::{
    error::{CliError, Result},
    operand::{Operand, Source, resident},
    output::Output,
};

/// Compare two tensors. The exit code is 1 if they differ.
///
/// A tensor is FILE.npy, FILE.safetensors:NAME, FILE.safetensors with one tensor, or handle:HANDLE for a resident one.
///
/// Without a tolerance, those of torch.testing for the element type apply. Of several kinds of tolerances, one must accept a pair.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
pub(super) struct CompareArgs {
    /// The computed tensor.
    actual: String,
    /// The expected tensor.
    expected: String,
    /// Absolute tolerance, of |actual - expected| <= atol + rtol * |expected|. 0 if only --rtol is set.
    #[arg(long, value_name = "X")]
    atol: Option<f64>,
    /// Relative tolerance. 0 if only --atol is set.
    #[arg(long, value_name = "X")]
    rtol: Option<f64>,
    /// Largest distance in units in the last place.
    #[arg(long, value_name = "N")]
    max_ulps: Option<u64>,
    /// Largest absolute error relative to the largest expected number.
    #[arg(long, value_name = "X")]
    max_norm: Option<f64>,
    /// Accept equal numbers only.
    #[arg(long, conflicts_with_all = ["atol", "rtol", "max_ulps", "max_norm"])]
    exact: bool,
    /// Require that all tolerances accept a pair, instead of one.
    #[arg(long)]
    all: bool,
    /// Which pairs of two NaN are equal.
    #[arg(long, value_enum, default_value_t = Nan::None)]
    nan: Nan,
    /// Count -0 and +0 as a mismatch.
    #[arg(long)]
    signed_zero: bool,
    /// Compare arrays of different shapes with equally many elements.
    #[arg(long)]
    ignore_shape: bool,
    /// Compare the elements in ascending order, because their order does not matter.
    #[arg(long)]
    any_order: bool,
    /// Mismatches to show.
    #[arg(short, long = "limit", default_value_t = 10, value_name = "N")]
    limit: u32,
}

/// Which pairs of two NaN are equal.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Nan {
    /// None.
    None,
    /// All.
    Equal,
    /// Those with the same bits.
    Bits,
}

pub(super) async fn run(args: &CompareArgs, client: &Client, output: &Output) -> Result {
    let actual = input(&args.actual)?;
    let expected = input(&args.expected)?;
    let options = CompareOptions::default().policy(args.policy()).max_mismatches(args.limit);
    let compared = client.compare([("output", actual)], [("output", expected)], &options).await?;
    output.show(&Comparisons::of(&compared))?;
    if compared.passed { Ok(()) } else { Err(CliError::Differs) }
}

fn input(operand: &str) -> Result<TensorSource> {
    Ok(match Operand::parse(operand)?.read()? {
        Source::Value(tensor) => tensor.into(),
        Source::Handle(handle) => (&resident(&handle)).into(),
    })
}

impl CompareArgs {
    fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        if self.exact {
            policy = policy.exact();
        }
        if self.atol.is_some() || self.rtol.is_some() {
            policy = policy.close(self.atol.unwrap_or(0.0), self.rtol.unwrap_or(0.0));
        }
        if let Some(limit) = self.max_ulps {
            policy = policy.max_ulps(limit);
        }
        if let Some(limit) = self.max_norm {
            policy = policy.max_norm(limit);
        }
        if self.all {
            policy = policy.require_all();
        }
        if self.signed_zero {
            policy = policy.distinguish_zero_sign();
        }
        if self.ignore_shape {
            policy = policy.ignore_shape();
        }
        if self.any_order {
            policy = policy.any_order();
        }
        policy.nan(match self.nan {
            Nan::None => NanPolicy::Forbidden,
            Nan::Equal => NanPolicy::Equal,
            Nan::Bits => NanPolicy::SameBits,
        })
    }
}
