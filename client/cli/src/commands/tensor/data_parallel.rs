//! Options that split operands over several devices.

use accelerd_client::proto::{self, CombinedOutput, ShardCombination, SplitInput};
use clap::Args;

/// Each device runs the operation on a part of the operands.
#[derive(Debug, Args)]
pub(super) struct DataParallelArgs {
    /// Operand to split over devices, along dimension 0 or DIM: the name of a graph's input, or else `operand_0` and so on; can be repeated.
    #[arg(long, value_name = "NAME[:DIM]", value_parser = split)]
    split: Vec<SplitInput>,
    /// Devices for the parts of --split, as cuda:0,cuda:1 [default: all GPUs in use, or the CPU].
    #[arg(long, value_name = "DEVICE,..", value_delimiter = ',', requires = "split", conflicts_with = "device")]
    devices: Vec<String>,
    /// Result to add up over the parts, by its name, instead of concatenating it; can be repeated.
    #[arg(long, value_name = "NAME", requires = "split")]
    sum: Vec<String>,
    /// Result to average over the parts, weighted by their sizes; can be repeated.
    #[arg(long, value_name = "NAME", requires = "split")]
    mean: Vec<String>,
}

impl DataParallelArgs {
    /// The message, if operands are split.
    pub(super) fn message(self) -> Option<proto::DataParallel> {
        let Self { split, devices, sum, mean } = self;
        let combined = |names: Vec<String>, combination: ShardCombination| {
            names.into_iter().map(move |name| CombinedOutput { name, combination: combination.into(), dim: 0 })
        };
        let outputs = combined(sum, ShardCombination::Sum).chain(combined(mean, ShardCombination::Mean)).collect();
        (!split.is_empty()).then_some(proto::DataParallel { devices, inputs: split, outputs })
    }
}

/// An operand and its dimension.
fn split(text: &str) -> Result<SplitInput, String> {
    let (name, dim) = text.split_once(':').unwrap_or((text, "0"));
    let dim = dim.parse().map_err(|_| format!("expected a dimension, as 0 or -1, got {dim:?}"))?;
    Ok(SplitInput { name: name.to_owned(), dim })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[arg(long, default_value = "")]
        device: String,
        #[command(flatten)]
        data_parallel: DataParallelArgs,
    }

    fn parsed(words: &str) -> Result<Option<proto::DataParallel>, String> {
        let words = std::iter::once("run").chain(words.split_whitespace());
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(command.data_parallel.message())
    }

    #[test]
    fn options_become_a_message() {
        let input = |name: &str, dim| SplitInput { name: name.to_owned(), dim };
        let output = |name: &str, combination: ShardCombination| CombinedOutput {
            name: name.to_owned(),
            combination: combination.into(),
            dim: 0,
        };
        let expected = proto::DataParallel {
            devices: vec!["cuda:0".to_owned(), "cpu".to_owned()],
            inputs: vec![input("x", 0), input("y", -1)],
            outputs: vec![output("n", ShardCombination::Sum), output("loss", ShardCombination::Mean)],
        };
        let found = parsed("--split x --split y:-1 --devices cuda:0,cpu --sum n --mean loss").expect("valid");
        assert_eq!(found, Some(expected));
        assert_eq!(parsed(""), Ok(None));
        for (words, reason) in [
            ("--devices cpu", "--split"),
            ("--sum n", "--split"),
            ("--split x:y", "expected a dimension"),
            ("--split x --devices cpu --device cpu", "cannot be used"),
        ] {
            let refused = parsed(words).expect_err("it does not fit");
            assert!(refused.contains(reason), "{words}: {refused}");
        }
    }
}
