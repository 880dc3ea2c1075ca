//! Binds the arguments of a launch to the parameters of its kernel.

use std::collections::{BTreeSet, HashMap};

use accelerd_ir::kernel::{
    Param, ParamType,
    wasm::{ArgumentMismatch, ImageArgument, ImageError, MemoryImage, View},
};
use accelerd_kernels::ledger::Limit;
use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::{CompiledKernel, element_type::ElementType};
use crate::{error::ApiError, ledger::RequestMemory, shown::List};

/// Characters of a name of a client that errors show.
const SHOWN_CHARACTERS: usize = 64;

/// A tensor that a client passes.
#[derive(Clone)]
pub(crate) struct NamedArgument {
    pub(crate) name: String,
    /// Its place in the request.
    pub(crate) field: String,
    pub(crate) of: TensorType,
    pub(crate) data: Bytes,
}

/// A parameter that shares elements of an argument.
#[derive(Clone, Debug)]
pub(crate) struct KernelView {
    pub(crate) name: String,
    /// Its place in the request.
    pub(crate) field: String,
    /// The argument.
    pub(crate) argument: String,
    pub(crate) offset_bytes: u64,
    /// Empty for that of the argument.
    pub(crate) shape: Vec<u64>,
    /// Empty for contiguous elements.
    pub(crate) strides_bytes: Vec<u64>,
}

/// An array that a client wants, with its shape unless it is an argument.
#[derive(Clone, Debug)]
pub(crate) struct KernelOutput {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
}

/// A launch that fits its kernel.
pub(crate) struct BoundLaunch {
    pub(crate) grid: Vec<u64>,
    pub(crate) image: MemoryImage<Bytes>,
    pub(crate) outputs: Vec<BoundOutput>,
}

/// An array to return.
#[derive(Debug)]
pub(crate) struct BoundOutput {
    pub(crate) name: String,
    /// The position of its parameter.
    pub(crate) param: usize,
    pub(crate) of: TensorType,
}

/// Arguments of a client and the outputs that it wants, by parameter.
struct Binder<'a> {
    kernel: &'a CompiledKernel,
    arguments: HashMap<String, NamedArgument>,
    /// By the position of the parameter.
    views: HashMap<usize, KernelView>,
    /// Requested outputs in order, with the position of the parameter.
    outputs: Vec<(usize, RequestedOutput)>,
    /// Bytes of all arguments at most.
    limit: Limit,
}

struct RequestedOutput {
    field: String,
    shape: Vec<usize>,
}

/// Binds arguments and outputs; arguments may take the bytes of `limit`. Those that are copied are added to `copies`.
pub(crate) fn bind(
    kernel: &CompiledKernel,
    grid: &[u64],
    (arguments, views): (Vec<NamedArgument>, Vec<KernelView>),
    outputs: Vec<KernelOutput>,
    limit: Limit,
    copies: &mut RequestMemory,
) -> Result<BoundLaunch, ApiError> {
    let arguments = by_name(kernel, arguments)?;
    let views = views_by_param(kernel, &arguments, views)?;
    let outputs = requested_outputs(kernel, outputs, &views)?;
    let binder = Binder { kernel, arguments, views, outputs, limit };
    let grid = binder.grid(grid)?;
    let mut types = Vec::with_capacity(kernel.kernel.params.len());
    let mut bound = Vec::with_capacity(kernel.kernel.params.len());
    for nth in 0..kernel.kernel.params.len() {
        let (argument, of) = match binder.views.get(&nth) {
            Some(view) => (binder.view(view)?, None),
            None => binder.argument(nth, &grid, copies).map(|(argument, of)| (argument, Some(of)))?,
        };
        bound.push(argument);
        types.push(of);
    }
    let image = MemoryImage::new(&kernel.kernel, &grid, bound, limit.bytes).map_err(|error| binder.refused(&error))?;
    let outputs = binder.outputs.iter().map(|(param, _)| BoundOutput {
        name: kernel.kernel.params[*param].name.clone(),
        param: *param,
        of: types[*param].clone().expect("an output is no view"),
    });
    Ok(BoundLaunch { grid, image, outputs: outputs.collect() })
}

/// The arguments by the names of their parameters.
fn by_name(kernel: &CompiledKernel, arguments: Vec<NamedArgument>) -> Result<HashMap<String, NamedArgument>, ApiError> {
    let mut named = HashMap::with_capacity(arguments.len());
    for argument in arguments {
        let field = format!("{}.name", argument.field);
        let name = argument.name.clone();
        if position(kernel, &name).is_none() {
            return Err(unknown_name(&field, "a parameter", kernel.kernel.params.iter(), &name));
        }
        if named.insert(name.clone(), argument).is_some() {
            return Err(ApiError::invalid(field, format!("expected unique names, got {name:?} twice")));
        }
    }
    Ok(named)
}

/// The views by the positions of their parameters.
fn views_by_param(
    kernel: &CompiledKernel,
    arguments: &HashMap<String, NamedArgument>,
    views: Vec<KernelView>,
) -> Result<HashMap<usize, KernelView>, ApiError> {
    if let Some(KernelView { field, .. }) = views.first().filter(|_| kernel.maps_rows) {
        let reason = "expected no view, because functions in Python write no argument, got one";
        return Err(ApiError::invalid(field, reason));
    }
    let mut by_param = HashMap::with_capacity(views.len());
    for view in views {
        let field = format!("{}.name", view.field);
        let name = view.name.clone();
        let Some(param) = position(kernel, &name) else {
            return Err(unknown_name(&field, "a parameter", kernel.kernel.params.iter(), &name));
        };
        if arguments.contains_key(&name) || by_param.insert(param, view).is_some() {
            return Err(ApiError::invalid(field, format!("expected one argument or view for {name:?}, got two")));
        }
    }
    Ok(by_param)
}

/// The outputs that a client wants: if it names none, all arrays that the kernel writes, by itself or by a view of them.
fn requested_outputs(
    kernel: &CompiledKernel,
    outputs: Vec<KernelOutput>,
    views: &HashMap<usize, KernelView>,
) -> Result<Vec<(usize, RequestedOutput)>, ApiError> {
    if outputs.is_empty() {
        let written = kernel.written.iter().enumerate().filter(|(_, is_written)| **is_written);
        let written =
            written.filter_map(|(nth, _)| views.get(&nth).map_or(Some(nth), |of| position(kernel, &of.argument)));
        let written: BTreeSet<_> = written.collect();
        let output = |nth| (nth, RequestedOutput { field: String::new(), shape: vec![] });
        return Ok(written.into_iter().map(output).collect());
    }
    let mut requested: Vec<(usize, RequestedOutput)> = Vec::with_capacity(outputs.len());
    for (nth, KernelOutput { name, shape }) in outputs.into_iter().enumerate() {
        let field = format!("outputs[{nth}]");
        let is_array = |param: &&Param| matches!(param.ty, ParamType::Array(_));
        let param = position(kernel, &name).filter(|param| is_array(&&kernel.kernel.params[*param]));
        let param = param.ok_or_else(|| {
            unknown_name(&format!("{field}.name"), "an array", kernel.kernel.params.iter().filter(is_array), &name)
        })?;
        if let Some(KernelView { argument, .. }) = views.get(&param) {
            let reason = format!("expected {argument:?}, which has the elements of the view {name:?}");
            return Err(ApiError::invalid(format!("{field}.name"), reason));
        }
        if requested.iter().any(|(other, _)| *other == param) {
            let reason = format!("expected unique names, got {name:?} twice");
            return Err(ApiError::invalid(format!("{field}.name"), reason));
        }
        requested.push((param, RequestedOutput { field, shape }));
    }
    Ok(requested)
}

fn position(kernel: &CompiledKernel, name: &str) -> Option<usize> {
    kernel.kernel.params.iter().position(|param| param.name == name)
}

fn unknown_name<'a>(field: &str, what: &str, known: impl Iterator<Item = &'a Param>, got: &str) -> ApiError {
    let known: Vec<_> = known.map(|param| format!("{:?}", param.name)).collect();
    let shown: String = got.chars().take(SHOWN_CHARACTERS).collect();
    ApiError::invalid(field, format!("expected the name of {what}, of {}, got {shown:?}", known.join(", ")))
}

impl Binder<'_> {
    /// The grid of a request, or that of the rows of a function.
    fn grid(&self, requested: &[u64]) -> Result<Vec<u64>, ApiError> {
        let dims = usize::from(self.kernel.kernel.grid_dims);
        if requested.is_empty() && self.kernel.maps_rows {
            return Ok(vec![self.rows()? as u64]);
        }
        if requested.len() != dims {
            return Err(ApiError::invalid("grid", format!("expected {dims} extents, got {}", requested.len())));
        }
        Ok(requested.to_vec())
    }

    /// The common first extent of all arrays; 1 if there are only values for all rows.
    fn rows(&self) -> Result<usize, ApiError> {
        let mut rows: Option<(usize, &str)> = None;
        for (nth, param) in self.kernel.kernel.params.iter().enumerate() {
            let ParamType::Array(array) = &param.ty else { continue };
            let argument = self.arguments.get(&param.name);
            let argument = argument.filter(|argument| argument.of.shape.len() == usize::from(array.dims));
            let argument = argument.map(|argument| (&argument.field, &argument.of.shape));
            let output = self.outputs.iter().find(|(param, _)| *param == nth);
            let output = output.map(|(_, output)| (&output.field, &output.shape));
            let given = argument.or(output).and_then(|(field, shape)| Some((field, *shape.first()?)));
            match (rows, given) {
                (Some((expected, of)), Some((field, got))) if expected != got => {
                    let reason = format!("{:?}: expected {expected} rows, as {of:?} has, got {got}", param.name);
                    return Err(ApiError::invalid(field, reason));
                }
                (None, Some((_, first))) => rows = Some((first, &param.name)),
                (Some(_) | None, _) => {}
            }
        }
        Ok(rows.map_or(1, |(rows, _)| rows))
    }

    /// The argument of a parameter, and the type of the tensor that stands for it.
    fn argument(
        &self,
        nth: usize,
        grid: &[u64],
        copies: &mut RequestMemory,
    ) -> Result<(ImageArgument<Bytes>, TensorType), ApiError> {
        let param = &self.kernel.kernel.params[nth];
        let output = self.outputs.iter().find(|(param, _)| *param == nth).map(|(_, output)| output);
        match self.arguments.get(&param.name) {
            Some(argument) => {
                if let Some(RequestedOutput { field, shape }) = output.filter(|output| !output.shape.is_empty()) {
                    let reason =
                        format!("expected no shape, because {:?} is an argument, got {:?}", param.name, List(shape));
                    return Err(ApiError::invalid(format!("{field}.shape"), reason));
                }
                self.given(param, argument, grid, copies)
            }
            None if self.kernel.written[nth] => self.zeros(param, output, grid),
            None => Err(self.missing(param)),
        }
    }

    /// A view of an argument, or of an array that the kernel writes.
    fn view(&self, view: &KernelView) -> Result<ImageArgument<Bytes>, ApiError> {
        let KernelView { field, argument, offset_bytes, shape, strides_bytes, .. } = view;
        let params = &self.kernel.kernel.params;
        let is_array = |nth: usize| !self.views.contains_key(&nth) && matches!(params[nth].ty, ParamType::Array(_));
        let array = position(self.kernel, argument).filter(|nth| is_array(*nth)).ok_or_else(|| {
            let arrays = params.iter().enumerate().filter(|(nth, _)| is_array(*nth)).map(|(_, param)| param);
            unknown_name(&format!("{field}.argument"), "an array that is no view", arrays, argument)
        })?;
        let extents = if shape.is_empty() { self.extents(array) } else { shape.clone() };
        let strides = (!strides_bytes.is_empty()).then(|| strides_bytes.clone());
        Ok(ImageArgument::View(View { array, offset: *offset_bytes, extents, strides }))
    }

    /// The extents of an array without those of its components; none if it does not fit its parameter, which is an error of its own.
    fn extents(&self, nth: usize) -> Vec<u64> {
        let param = &self.kernel.kernel.params[nth];
        let ParamType::Array(array) = &param.ty else { return vec![] };
        let output = || self.outputs.iter().find(|(param, _)| *param == nth).map(|(_, output)| &output.shape);
        let shape = self.arguments.get(&param.name).map(|argument| &argument.of.shape).or_else(output);
        shape.into_iter().flatten().take(array.dims.into()).map(|extent| *extent as u64).collect()
    }

    /// A tensor of the client.
    fn given(
        &self,
        param: &Param,
        argument: &NamedArgument,
        grid: &[u64],
        copies: &mut RequestMemory,
    ) -> Result<(ImageArgument<Bytes>, TensorType), ApiError> {
        let NamedArgument { of, data, field, .. } = argument;
        let (element, dims) = match &param.ty {
            ParamType::Value(element) => (element, 0),
            ParamType::Array(array) => (&array.element, usize::from(array.dims)),
        };
        let types = ElementType::all(element);
        if let Some(extents) = types.iter().find_map(|element| element.extents(of, dims)) {
            let argument = match param.ty {
                ParamType::Value(_) => ImageArgument::Value(data.clone()),
                ParamType::Array(_) => {
                    let extents = extents.iter().map(|extent| *extent as u64).collect();
                    ImageArgument::Array { extents, data: data.clone() }
                }
            };
            return Ok((argument, of.clone()));
        }
        let is_row = self.kernel.maps_rows && types[0].extents(of, dims.saturating_sub(1)).is_some();
        if is_row && dims > 0 {
            return self.repeated(of, data, grid[0], copies);
        }
        let expected: Vec<_> = types.iter().map(|element| element.in_array(dims).to_string()).collect();
        let reason = format!(
            "{:?}: expected {}, got {} of shape {:?}",
            param.name,
            expected.join(" or "),
            of.dtype,
            List(&of.shape)
        );
        Err(ApiError::invalid(field, reason))
    }

    /// One row for all rows.
    fn repeated(
        &self,
        of: &TensorType,
        data: &Bytes,
        rows: u64,
        copies: &mut RequestMemory,
    ) -> Result<(ImageArgument<Bytes>, TensorType), ApiError> {
        let asked = rows.saturating_mul(data.len() as u64).saturating_add(copies.bytes());
        let count = usize::try_from(rows).ok().filter(|_| asked <= self.limit.bytes);
        let count = count.ok_or(ApiError::CaseMemory { asked, limit: self.limit })?;
        copies.try_resize(asked)?;
        let shape: Vec<_> = std::iter::once(count).chain(of.shape.iter().copied()).collect();
        let extents = shape.iter().map(|extent| *extent as u64).collect();
        let argument = ImageArgument::Array { extents, data: data.repeat(count).into() };
        Ok((argument, TensorType { dtype: of.dtype, shape }))
    }

    /// An array that the kernel writes, of the shape that the client states, or of one element for each row.
    fn zeros(
        &self,
        param: &Param,
        output: Option<&RequestedOutput>,
        grid: &[u64],
    ) -> Result<(ImageArgument<Bytes>, TensorType), ApiError> {
        let ParamType::Array(array) = &param.ty else { return Err(self.missing(param)) };
        let dims = usize::from(array.dims);
        let element = ElementType::all(&array.element).swap_remove(0);
        let extents = match output.filter(|output| !output.shape.is_empty()) {
            Some(RequestedOutput { field, shape }) => {
                let whole = TensorType { dtype: element.dtype, shape: shape.clone() };
                let extents = element.extents(&whole, dims).unwrap_or(shape).to_vec();
                if extents.len() != dims {
                    let reason = format!("{:?}: expected {dims} extents, got {:?}", param.name, List(shape));
                    return Err(ApiError::invalid(format!("{field}.shape"), reason));
                }
                extents
            }
            None if self.kernel.maps_rows => vec![usize::try_from(grid[0]).unwrap_or(usize::MAX)],
            None => return Err(self.missing(param)),
        };
        let shape = extents.iter().chain(&element.shape).copied().collect();
        let extents = extents.into_iter().map(|extent| extent as u64).collect();
        Ok((ImageArgument::Zeros { extents }, TensorType { dtype: element.dtype, shape }))
    }

    fn missing(&self, param: &Param) -> ApiError {
        let (element, dims) = match &param.ty {
            ParamType::Value(element) => (element, 0),
            ParamType::Array(array) => (&array.element, usize::from(array.dims)),
        };
        let expected = ElementType::all(element).swap_remove(0).in_array(dims).to_string();
        let nth = position(self.kernel, &param.name).unwrap_or_default();
        let or_shape = if self.kernel.written[nth] { ", or its shape in `outputs`" } else { "" };
        let reason = format!("expected an argument {:?}, {expected}{or_shape}, got none", param.name);
        ApiError::invalid("arguments", reason)
    }

    /// Returns the error of a launch that cannot be laid out.
    fn refused(&self, error: &ImageError) -> ApiError {
        match error {
            ImageError::TooLarge { got, .. } => ApiError::CaseMemory { asked: *got, limit: self.limit },
            ImageError::GridDims { .. } | ImageError::GridExtent { .. } | ImageError::TooManyThreads => {
                ApiError::invalid("grid", error.to_string())
            }
            ImageError::Argument { name, mismatch, .. } => self.mismatched(name, mismatch),
            ImageError::ArgumentCount { .. } => ApiError::invalid("arguments", error.to_string()),
        }
    }

    fn mismatched(&self, name: &str, mismatch: &ArgumentMismatch) -> ApiError {
        let output = || self.outputs.iter().find(|(param, _)| self.kernel.kernel.params[*param].name == name);
        let view = self.views.values().find(|view| view.name == name).map(|view| &view.field);
        let field = match self.arguments.get(name).map(|argument| &argument.field).or(view) {
            Some(field) => field.clone(),
            None => output().map_or_else(String::new, |(_, output)| format!("{}.shape", output.field)),
        };
        ApiError::invalid(field, format!("{name:?}: {mismatch}"))
    }
}
