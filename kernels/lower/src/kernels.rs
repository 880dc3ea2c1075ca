//! Lowers the functions of a source that are kernels.

use std::collections::HashSet;
use std::ops::ControlFlow;

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{ArrayType, Expr, FaultKind, Kernel, ParamId, ParamType, Place, Stmt};
use accelerd_parser::Field;

use crate::constructs::overloads::Overload;
use crate::constructs::statements::Flow;
use crate::error::{ErrorKind, LowerError, Lowered};
use crate::lowerer::arguments::Parameter;
use crate::lowerer::{Lowerer, Returns};
use crate::options::Dialect;
use crate::source::declarations::{FunctionDecl, Role, docstring, enclosing_function};
use crate::source::environment::Environment;
use crate::source::syntax::Node;
use crate::types::parameters::Annotation;
use crate::types::{ArrayForm, Type};
use crate::values::{Axis, Data, Value, View};

/// A kernel of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredKernel {
    /// The name of its function.
    pub name: String,
    /// The docstring of its function.
    pub docstring: Option<String>,
    /// The parameters of its function, in order, and the arrays of geometry that its queries read. A kernel of the Python dialect has arrays
    /// of results after them.
    pub parameters: Vec<SourceParameter>,
    /// True if thread i computes row i of arrays: it is a function of numbers, not one of a grid.
    pub maps_rows: bool,
    /// The kernel.
    pub kernel: Kernel,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceParameter {
    /// Its name in the source.
    pub name: String,
    /// The parameters of the kernel: one, or one for each field of a struct with arrays.
    pub params: Vec<ParamId>,
}

/// The functions that are kernels. In Warp's dialect these are also functions that kernels call, if `names` has them.
pub(crate) fn kernels<'a>(environment: &'a Environment<'a>, names: &HashSet<&str>) -> Vec<&'a FunctionDecl> {
    let options = environment.options;
    let is_kernel = |function: &&FunctionDecl| match (options.dialect, options.entry) {
        (_, Some(entry)) if function.name != entry => false,
        (Dialect::Warp, _) => {
            let is_named = || names.contains(function.name.as_str());
            function.role == Role::Kernel || function.role == Role::Function && !function.is_method && is_named()
        }
        (Dialect::Python, _) => python_reason(environment, function).is_none(),
    };
    environment.declarations.functions.iter().filter(is_kernel).collect()
}

/// The error of a source without a kernel. It states why the first function, of the requested name, is not one.
pub(crate) fn no_kernel(environment: &Environment<'_>) -> LowerError {
    let entry = environment.options.entry;
    let expected = entry.map_or_else(|| "a kernel".to_owned(), |entry| format!("a kernel named `{entry}`"));
    let message = format!("expected {expected}, got none");
    let mut functions = environment.declarations.functions.iter();
    let Some(function) = functions.find(|function| entry.is_none_or(|entry| function.name == entry)) else {
        return LowerError { kind: ErrorKind::NoKernel, message, line: 1, column: 0 };
    };
    let reason = match environment.options.dialect {
        Dialect::Warp => Some(format!("`{}` has no decorator `@wp.kernel`", function.name)),
        Dialect::Python => python_reason(environment, function),
    };
    let message = reason.map_or_else(|| message.clone(), |reason| format!("{message}: {reason}"));
    environment.syntax.error(function.node, ErrorKind::NoKernel, message)
}

/// Why a function is no kernel of the Python dialect; `None` if it is one.
fn python_reason(environment: &Environment<'_>, function: &FunctionDecl) -> Option<String> {
    let syntax = environment.syntax;
    let name = &function.name;
    if function.role != Role::Plain {
        return Some(format!("`{name}` has a decorator, which may change what it does"));
    }
    if function.is_method {
        return Some(format!("`{name}` is a method"));
    }
    if enclosing_function(syntax, function.node).is_some() {
        return Some(format!("`{name}` is inside another function"));
    }
    let parameters = [Field::Posonlyargs, Field::Args].into_iter();
    let mut parameters = parameters.flat_map(|field| syntax.children(function.node, field));
    let is_open = |parameter: &Node| syntax.child(*parameter, Field::Annotation).is_none();
    let open = parameters.find(is_open).filter(|_| environment.options.entry.is_none())?;
    Some(format!("parameter `{}` of `{name}` has no annotation", syntax.text(open)))
}

/// Lowers a kernel, once for each overload if it is generic, until `visit` breaks.
pub(crate) fn lower_each(
    environment: &Environment<'_>,
    function: &FunctionDecl,
    mut visit: impl FnMut(Lowered<LoweredKernel>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let is_kernel = function.role == Role::Kernel;
    let parameters = if is_kernel { Lowerer::new(environment).parameters(function) } else { Ok(vec![]) };
    let overloads = parameters.map_or(vec![], |parameters| environment.overloads(function, &parameters));
    if overloads.is_empty() {
        return visit(lower_kernel(environment, function, None));
    }
    for overload in overloads {
        visit(overload.and_then(|overload| lower_kernel(environment, function, Some(&overload))))?;
    }
    ControlFlow::Continue(())
}

fn lower_kernel(
    environment: &Environment<'_>,
    function: &FunctionDecl,
    overload: Option<&Overload>,
) -> Lowered<LoweredKernel> {
    let mut lowerer = Lowerer::new(environment);
    let maps_rows = function.role != Role::Kernel;
    let mut parameters =
        if maps_rows { lowerer.row_kernel(function)? } else { lowerer.warp_kernel(function, overload)? };
    let tables = lowerer.tables.iter();
    parameters
        .extend(tables.map(|(name, view)| SourceParameter { name: (*name).to_owned(), params: vec![view.array] }));
    let syntax = environment.syntax;
    if lowerer.emitter.is_too_large() {
        return Err(syntax.error(function.node, ErrorKind::TooLarge, "the kernel is too large after inlining"));
    }
    let kernel = lowerer.emitter.finish(&function.name);
    kernel.check().map_err(|error| {
        let message = format!("the kernel is not valid: {error}");
        syntax.error(function.node, ErrorKind::InvalidKernel, message)
    })?;
    Ok(LoweredKernel {
        name: function.name.clone(),
        docstring: docstring(syntax, function.node),
        parameters,
        maps_rows,
        kernel,
    })
}

impl Lowerer<'_> {
    fn warp_kernel(&mut self, function: &FunctionDecl, overload: Option<&Overload>) -> Lowered<Vec<SourceParameter>> {
        let mut parameters = self.parameters(function)?;
        if let Some(overload) = overload {
            overload.apply(&mut parameters);
        }
        self.enter(function, Returns::Kernel);
        let mut all = vec![];
        for parameter in &parameters {
            let first = self.emitter.params.len();
            let value = self.warp_parameter(parameter, &parameter.name, &parameter.annotation)?;
            self.bind_parameter(&parameter.name, value);
            let params =
                (first..self.emitter.params.len()).map(|index| u32::try_from(index).expect("parameters are limited"));
            all.push(SourceParameter { name: parameter.name.clone(), params: params.map(ParamId).collect() });
        }
        self.body(function.node, Field::Body)?;
        Ok(all)
    }

    fn warp_parameter(&mut self, parameter: &Parameter, name: &str, annotation: &Annotation) -> Lowered<Value> {
        match annotation {
            Annotation::Data(ty) => {
                let param = self.emitter.param(name, ParamType::Value(ty.element()));
                let count = u32::try_from(ty.count()).expect("components are limited");
                let parts = (0..count).map(|index| Expr::Param(param, index)).collect();
                Ok(Data::new(ty.clone(), parts).into())
            }
            Annotation::Array(element, form) => Ok(Value::Array(self.warp_array(name, element, *form))),
            Annotation::Record(record) => {
                let fields = record
                    .fields
                    .iter()
                    .map(|(field, annotation)| self.warp_parameter(parameter, &format!("{name}_{field}"), annotation))
                    .collect::<Lowered<_>>()?;
                Ok(Value::Record(record.clone(), fields))
            }
            Annotation::Open(_) | Annotation::OpenArray(..) => Err(self.generic(parameter)),
            other => {
                let message = format!("unsupported type of parameter `{}`: {other}", parameter.name);
                Err(self.error(parameter.node, ErrorKind::UnsupportedType, message))
            }
        }
    }

    fn generic(&self, parameter: &Parameter) -> LowerError {
        let message = format!("expected a type of parameter `{}`, or an overload of the kernel", parameter.name);
        self.error(parameter.node, ErrorKind::GenericKernel, message)
    }

    /// An array, followed by the arrays of indices of its dimensions if it has them.
    fn warp_array(&mut self, name: &str, element: &Type, form: ArrayForm) -> View {
        let mut view = self.array_parameter(name, element, form.dims);
        if form.is_indexed {
            let indices =
                (0..form.dims).map(|dim| self.array_parameter(&format!("{name}_indices{dim}"), &Type::I32, 1));
            view.selections = indices.map(|indices| indices.array).collect();
            self.emitter.mark_selected(view.array);
        }
        view
    }

    pub(crate) fn array_parameter(&mut self, name: &str, element: &Type, dims: u8) -> View {
        let array = self.emitter.param(name, ParamType::Array(ArrayType { element: element.element(), dims }));
        View::whole(array, element.clone(), dims)
    }

    /// A function that thread i applies to row i of its arguments.
    fn row_kernel(&mut self, function: &FunctionDecl) -> Lowered<Vec<SourceParameter>> {
        let syntax = self.syntax();
        let parameters = self.parameters(function)?;
        let label = self.emitter.label();
        self.enter(function, Returns::Function { label, is_left: false, slots: None, last: None });
        self.emitter.grid_dims = 1;
        let mut all = vec![];
        for parameter in &parameters {
            let (param, value) = self.row(parameter)?;
            self.bind_parameter(&parameter.name, value);
            all.push(SourceParameter { name: parameter.name.clone(), params: vec![param] });
        }
        self.emitter.open();
        let flow = self.body(function.node, Field::Body)?;
        let mut body = self.emitter.close();
        let Returns::Function { is_left, slots, last, .. } = &self.frame().returns else {
            unreachable!("the frame is that of a function")
        };
        let is_left = *is_left;
        let slots = slots.clone();
        let last = last.clone();
        if flow == Flow::Next {
            let site = self.emitter.site(syntax.site(function.node));
            body.push(Stmt::Fault(FaultKind::InvalidValue, site));
        }
        if is_left {
            self.emitter.emit(Stmt::Block(label, body));
        } else {
            self.emitter.splice(body);
        }
        let result = match (slots, last) {
            (Some(slots), _) => Self::load_slots(&slots),
            (None, Some(value)) => value,
            (None, None) if flow == Flow::Leaves => self.unreached_result(function),
            (None, None) => Value::None,
        };
        self.store_results(function, result)?;
        Ok(all)
    }

    /// The row of a parameter: a number, or a list as a row of a matrix.
    fn row(&mut self, parameter: &Parameter) -> Lowered<(ParamId, Value)> {
        let is_python = self.is_python();
        let is_number = |ty: &Type| match ty {
            Type::Scalar(Dtype::F64 | Dtype::I64 | Dtype::Bool) => true,
            Type::Scalar(_) => !is_python,
            _ => false,
        };
        match &parameter.annotation {
            Annotation::Data(ty @ Type::Scalar(dtype)) if is_number(ty) => {
                let view = self.array_parameter(&parameter.name, ty, 1);
                let local = self.emitter.local(&parameter.name, *dtype);
                let site = self.emitter.site(self.syntax().site(parameter.node));
                let place = Place { array: view.array, indices: vec![Expr::ThreadId(0)], component: 0, site };
                self.emitter.emit(Stmt::Load(local, place));
                Ok((view.array, Data::scalar(*dtype, Expr::Local(local)).into()))
            }
            Annotation::Array(ty, form) if is_python && form.dims == 1 && is_number(ty) => {
                let mut view = self.array_parameter(&parameter.name, ty, 2);
                view.axes[0] = Axis::Index(Expr::ThreadId(0));
                Ok((view.array, Value::Array(view)))
            }
            Annotation::Open(_) => Err(self.generic(parameter)),
            other => {
                let message = format!("unsupported type of parameter `{}`: {other}", parameter.name);
                Err(self.error(parameter.node, ErrorKind::UnsupportedType, message))
            }
        }
    }

    /// Stores the results of a row in arrays of their own.
    fn store_results(&mut self, function: &FunctionDecl, result: Value) -> Lowered<()> {
        let site = self.syntax().site(function.node);
        let (names, values) = match result {
            Value::Tuple(items) => ((0..items.len()).map(|nth| format!("result{nth}")).collect(), items),
            other => (vec!["result".to_owned()], vec![other]),
        };
        for (name, value) in names.iter().zip(values) {
            let Value::Data(Data { ty: ty @ Type::Scalar(_), mut parts, .. }) = value else {
                let message = format!("expected a number as the result of `{}`, got {value}", function.name);
                return Err(self.error(function.node, ErrorKind::UnsupportedType, message));
            };
            let view = self.array_parameter(name, &ty, 1);
            let site = self.emitter.site(site);
            let place = Place { array: view.array, indices: vec![Expr::ThreadId(0)], component: 0, site };
            self.emitter.emit(Stmt::Store(place, parts.remove(0)));
        }
        Ok(())
    }
}
