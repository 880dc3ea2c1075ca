//! Arguments that all launches of a kernel have: its program, its grid and its arguments.

use std::path::PathBuf;

use accelerd_client::{
    Kernel, KernelConstant, KernelProgram, Launch, TensorSource,
    proto::{KernelDevice, KernelParam, KernelView, Tensor},
};
use clap::{Args, ValueHint};

use super::{Dialect, constant, source};
use crate::{
    dtype,
    error::{CliError, Result},
    operand::{Operand, Source, resident},
};

#[derive(Debug, Args)]
pub(super) struct LaunchArgs {
    /// The Python file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// Name of the kernel, if the file has several.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Dialect of the source [default: by the decorators].
    #[arg(long, value_enum)]
    dialect: Option<Dialect>,
    /// Define a name that the file does not define; can be repeated.
    #[arg(long = "constant", value_name = "NAME=VALUE", value_parser = constant)]
    constants: Vec<(String, KernelConstant)>,
    /// Argument: a file such as x=x.npy or x=m.safetensors:x, a resident tensor as x=handle:HANDLE, or numbers such as n=3 or v=1,0,0; can be
    /// repeated.
    #[arg(long = "arg", short = 'a', value_name = "NAME=VALUE", value_parser = named)]
    arguments: Vec<(String, String)>,
    /// Pass one array twice, such as y=x: the parameter y has the memory of x, which has what the kernel writes to it; can be repeated.
    #[arg(long = "same", value_name = "NAME=NAME", value_parser = named)]
    same: Vec<(String, String)>,
    /// Threads along each dimension, such as 1000,4 [default: a thread for each element of the arguments, of a function in Python].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) grid: Vec<i64>,
    /// Shape of an array that is written and is no argument, such as y=1000 or y=10,3; can be repeated.
    #[arg(long = "shape", value_name = "NAME=N,...", value_parser = shape)]
    shapes: Vec<(String, Vec<i64>)>,
    /// Maximum iterations of all loops of a thread.
    #[arg(long, value_name = "N")]
    loop_budget: Option<u64>,
    /// Where it runs.
    #[arg(long, value_enum, default_value = "cpu")]
    device: Device,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Device {
    /// A core of the daemon's machine.
    Cpu,
    /// A GPU of the daemon.
    Cuda,
}

/// `NAME=VALUE`.
fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `NAME=N,...`.
fn shape(text: &str) -> Result<(String, Vec<i64>), String> {
    let (name, extents) = named(text)?;
    let extent = |text: &str| text.parse().ok().filter(|extent| *extent >= 0);
    let shape: Option<_> = extents.split(',').map(extent).collect();
    Ok((name, shape.ok_or_else(|| format!("expected extents such as 10,3, got {extents:?}"))?))
}

impl LaunchArgs {
    pub(super) fn program(&self) -> Result<KernelProgram> {
        let mut program = KernelProgram::new(source(&self.file)?);
        if let Some(name) = &self.name {
            program = program.name(name);
        }
        if let Some(dialect) = self.dialect {
            program = program.dialect(dialect.into());
        }
        Ok(self.constants.iter().fold(program, |program, (name, value)| program.constant(name, *value)))
    }

    /// A launch of a kernel that returns these outputs; all arrays that it writes if there are none.
    pub(super) fn launch(&self, kernel: &Kernel, outputs: &[&str]) -> Result<Launch> {
        let device = match self.device {
            Device::Cpu => KernelDevice::Cpu,
            Device::Cuda => KernelDevice::Cuda,
        };
        let mut launch = Launch::kernel(&kernel.id).grid(self.grid.iter().copied()).device(device);
        for (name, text) in &self.arguments {
            launch = launch.argument(name, argument(kernel, name, text)?);
        }
        for (name, argument) in self.same.iter().cloned() {
            launch = launch.view(KernelView { name, argument, ..Default::default() });
        }
        if let Some(iterations) = self.loop_budget {
            launch = launch.loop_budget(iterations);
        }
        for (name, shape) in self.outputs(kernel, outputs) {
            launch = launch.output_of_shape(name, shape.iter().copied());
        }
        Ok(launch)
    }

    /// The array that has the elements of a parameter.
    fn array_of<'a>(&'a self, param: &'a str) -> &'a str {
        self.same.iter().find(|(name, _)| name == param).map_or(param, |(_, argument)| argument)
    }

    /// Names and shapes of the outputs, to be named only if the defaults do not do.
    fn outputs<'a>(&'a self, kernel: &'a Kernel, requested: &[&'a str]) -> Vec<(&'a str, &'a [i64])> {
        if requested.is_empty() && self.shapes.is_empty() {
            return vec![];
        }
        let mut names = requested.to_vec();
        if names.is_empty() {
            names.extend(kernel.written_arrays.iter().map(|name| self.array_of(name)));
            names.sort_unstable();
            names.dedup();
        }
        for (name, _) in &self.shapes {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let shape = |name| self.shapes.iter().find(|(own, _)| own == name).map_or(&[][..], |(_, shape)| shape);
        names.into_iter().map(|name| (name, shape(name))).collect()
    }
}

fn argument(kernel: &Kernel, name: &str, text: &str) -> Result<TensorSource> {
    if let Ok(operand) = Operand::parse(text) {
        return Ok(match operand.read()? {
            Source::Value(tensor) => tensor.into(),
            Source::Handle(handle) => (&resident(&handle)).into(),
        });
    }
    let Some(param) = kernel.params.iter().find(|param| param.name == name) else {
        let names: Vec<_> = kernel.params.iter().map(|param| param.name.as_str()).collect();
        let expected = format!("expected one of {}", names.join(", "));
        return Err(CliError::Usage(format!("--arg {name}: {} has no such parameter, {expected}", kernel.name)));
    };
    let tensor = numbers(param, text).map_err(|reason| CliError::Usage(format!("--arg {name}: {reason}")))?;
    Ok(tensor.into())
}

/// The numbers of a value, or of an array of one dimension.
fn numbers(param: &KernelParam, text: &str) -> Result<Tensor, String> {
    let files = "FILE.npy, FILE.safetensors:NAME or handle:HANDLE";
    let component =
        param.components.first().filter(|first| param.components.iter().all(|one| one.dtype == first.dtype));
    let (Some(component), true) = (component, param.dims == 0 || (param.dims == 1 && param.components.len() == 1))
    else {
        return Err(format!("expected {files}, got {text:?}"));
    };
    let info = dtype::of(component.dtype());
    let elements: Vec<_> = text.split(',').map(|number| dtype::parse(info.dtype, number.trim())).collect();
    let is_whole = param.dims == 1 || elements.len() == param.components.len();
    let data: Option<Vec<Vec<u8>>> = elements.iter().cloned().collect();
    let Some(data) = data.filter(|_| is_whole) else {
        let count = if param.dims == 1 {
            "numbers".to_owned()
        } else {
            crate::format::plural(param.components.len() as u64, "number")
        };
        return Err(format!("expected {files} or {count} of type {}, got {text:?}", info.name));
    };
    let is_scalar = param.dims == 0 && data.len() == 1;
    let extent = i64::try_from(data.len()).unwrap_or(i64::MAX);
    Ok(Tensor {
        dtype: component.dtype,
        shape: if is_scalar { vec![] } else { vec![extent] },
        data: data.concat().into(),
    })
}
