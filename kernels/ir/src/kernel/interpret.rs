//! Runs a kernel, thread by thread. It defines the semantics of statements, and is the reference that backends are compared with.

use std::ops::ControlFlow;

use super::races::{Access, Races};
use super::{
    Argument, ArgumentError, ArrayArgument, AtomicOp, Element, Expr, Fault, FaultKind, FaultRecord, Kernel,
    KernelError, LabelId, LocalId, ParamId, Place, Stmt,
};
use crate::Dtype;
use crate::scalar::{BinaryOp, Literal, interpret};

/// Limits of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Iterations of a thread, of all its loops together. One more is [`FaultKind::BudgetExhausted`].
    pub loop_budget: u64,
    /// Statements, iterations and expressions, operands included, of all threads together.
    pub steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { loop_budget: 1 << 32, steps: 1 << 30 }
    }
}

/// A launch has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The kernel is not well formed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The grid has another number of dimensions than the kernel's.
    #[error("the grid has {got} dimensions, expected {expected}")]
    GridDims {
        /// Dimensions of the kernel's grid.
        expected: u8,
        /// Dimensions of the launch's.
        got: usize,
    },
    /// An extent of the grid is 2^31 or more, or the number of its threads 2^63 or more.
    #[error("the grid is too large: {grid:?}")]
    GridSize {
        /// The grid.
        grid: Vec<u32>,
    },
    /// There are more or fewer arguments than parameters.
    #[error("expected {expected} arguments, got {got}")]
    ArgumentCount {
        /// Number of the parameters.
        expected: usize,
        /// Number of the arguments.
        got: usize,
    },
    /// An argument does not fit its parameter.
    #[error("argument {param:?}: {error}")]
    Argument {
        /// The parameter's name.
        param: String,
        /// Why it does not fit.
        error: ArgumentError,
    },
    /// The launch exceeds [`Limits::steps`].
    #[error("the launch takes more than {0} steps")]
    StepLimit(u64),
    /// Threads ended with a fault; this is the first one's.
    #[error("{0}")]
    Fault(Box<Fault>),
}

/// Runs the kernel for each thread of the grid in row-major order, also after a fault.
///
/// # Errors
/// The fault of the first thread that has one. The arguments then hold all writes of the threads nevertheless.
pub fn launch(kernel: &Kernel, grid: &[u32], arguments: &mut [Argument], limits: Limits) -> Result<(), LaunchError> {
    launch_watched(kernel, grid, arguments, ThreadOrder::RowMajor, &mut { limits }, None)
}

/// In which order threads run, one after the other. Results that depend on it are unspecified: threads race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadOrder {
    /// Row-major.
    RowMajor,
    /// The reverse of row-major.
    Reverse,
}

/// As [`launch`], in any order. Takes the steps of the launch from those of the limits, and notes accesses.
///
/// # Errors
/// As [`launch`].
pub fn launch_watched<'a>(
    kernel: &'a Kernel,
    grid: &[u32],
    arguments: &'a mut [Argument],
    order: ThreadOrder,
    limits: &mut Limits,
    races: Option<&'a mut Races>,
) -> Result<(), LaunchError> {
    kernel.check()?;
    let threads = check_launch(kernel, grid, arguments)?;
    let mut machine = Machine {
        kernel,
        arguments,
        locals: vec![],
        position: [0; 4],
        thread: 0,
        iterations_left: 0,
        steps_left: limits.steps,
        races,
    };
    let mut first_fault: Option<FaultRecord> = None;
    for nth in 0..threads {
        let thread = if order == ThreadOrder::RowMajor { nth } else { threads - 1 - nth };
        machine.start(thread, grid, limits.loop_budget);
        match machine.body(&kernel.body) {
            ControlFlow::Break(Exit::Fault(record)) => {
                first_fault = first_fault.filter(|first| first.thread < record.thread).or(Some(record));
            }
            ControlFlow::Break(Exit::StepLimit) => {
                return Err(LaunchError::StepLimit(std::mem::take(&mut limits.steps)));
            }
            ControlFlow::Break(Exit::Label(_) | Exit::Continue(_) | Exit::Return) | ControlFlow::Continue(()) => {}
        }
    }
    limits.steps = machine.steps_left;
    let fault = first_fault.map(|record| record.resolve(kernel, grid).expect("a record of this launch"));
    fault.map_or(Ok(()), |fault| Err(LaunchError::Fault(Box::new(fault))))
}

/// Checks grid and arguments against the kernel, which is well formed; the number of threads.
pub(super) fn check_launch(kernel: &Kernel, grid: &[u32], arguments: &[Argument]) -> Result<u64, LaunchError> {
    if grid.len() != usize::from(kernel.grid_dims) {
        return Err(LaunchError::GridDims { expected: kernel.grid_dims, got: grid.len() });
    }
    let threads = grid.iter().try_fold(1_u64, |product, extent| product.checked_mul((*extent).into()));
    let fits = grid.iter().all(|extent| i32::try_from(*extent).is_ok());
    let threads = threads
        .filter(|threads| fits && i64::try_from(*threads).is_ok())
        .ok_or_else(|| LaunchError::GridSize { grid: grid.to_vec() })?;
    if arguments.len() != kernel.params.len() {
        return Err(LaunchError::ArgumentCount { expected: kernel.params.len(), got: arguments.len() });
    }
    for (param, argument) in kernel.params.iter().zip(arguments) {
        argument.check(param).map_err(|error| LaunchError::Argument { param: param.name.clone(), error })?;
    }
    Ok(threads)
}

/// Why a statement is not followed by the next.
enum Exit {
    /// The loop or block of this label is left.
    Label(LabelId),
    /// The next iteration of the loop of this label starts.
    Continue(LabelId),
    Return,
    Fault(FaultRecord),
    StepLimit,
}

type Flow = ControlFlow<Exit>;

/// The state of the thread that runs, and the memory that it shares with the others.
struct Machine<'a> {
    kernel: &'a Kernel,
    arguments: &'a mut [Argument],
    locals: Vec<Literal>,
    position: [i32; 4],
    thread: u64,
    iterations_left: u64,
    steps_left: u64,
    races: Option<&'a mut Races>,
}

impl<'a> Machine<'a> {
    fn start(&mut self, thread: u64, grid: &[u32], loop_budget: u64) {
        let mut rest = thread;
        for (axis, extent) in grid.iter().enumerate().rev() {
            let index = rest % u64::from(*extent);
            self.position[axis] = i32::try_from(index).expect("below an extent, which fits");
            rest /= u64::from(*extent);
        }
        self.thread = thread;
        self.iterations_left = loop_budget;
        self.locals.clear();
        self.locals.extend(self.kernel.locals.iter().map(|local| Literal::from_bits(local.dtype, 0)));
    }

    /// Counts a step of the launch, or breaks if none is left.
    fn step(&mut self) -> Flow {
        if self.steps_left == 0 {
            return ControlFlow::Break(Exit::StepLimit);
        }
        self.steps_left -= 1;
        ControlFlow::Continue(())
    }

    /// Counts an iteration of the thread, or breaks if none is left.
    fn iterate(&mut self) -> Flow {
        self.step()?;
        if self.iterations_left == 0 {
            return self.fault(FaultKind::BudgetExhausted, FaultRecord::NONE);
        }
        self.iterations_left -= 1;
        ControlFlow::Continue(())
    }

    fn fault(&self, kind: FaultKind, site: u32) -> Flow {
        ControlFlow::Break(Exit::Fault(FaultRecord::new(self.thread, kind, site)))
    }

    fn body(&mut self, body: &'a [Stmt]) -> Flow {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &'a Stmt) -> Flow {
        self.step()?;
        match stmt {
            Stmt::Assign(local, value) => {
                let value = self.expr(value);
                self.assign(*local, value);
            }
            Stmt::Load(local, place) => {
                let (index, dtype) = self.access(place, Access::Read)?;
                let value = Literal::from_bytes(dtype, &self.array(place.array).data[index..]);
                self.assign(*local, value);
            }
            Stmt::Store(place, value) => {
                let value = self.expr(value);
                let (index, _) = self.access(place, Access::Write)?;
                write(&mut self.array_mut(place.array).data[index..], value);
            }
            Stmt::Atomic { op, place, operand, expected, previous } => {
                let operand = self.expr(operand);
                let expected = expected.as_ref().map(|expected| self.expr(expected));
                let (index, dtype) = self.access(place, Access::Atomic(*op))?;
                let data = &mut self.array_mut(place.array).data[index..];
                let before = Literal::from_bytes(dtype, data);
                write(data, atomic(*op, before, operand, expected));
                if let Some(previous) = previous {
                    self.assign(*previous, before);
                }
            }
            Stmt::If(condition, then, otherwise) => {
                let branch = if self.expr(condition).is_truthy() { then } else { otherwise };
                self.body(branch)?;
            }
            Stmt::Loop(label, body) => loop {
                self.iterate()?;
                if self.iteration(*label, body)? == Left::Yes {
                    break;
                }
            },
            Stmt::For { label, counter, start, end, step, body } => {
                let [start, end, step] = [start, end, step].map(|bound| self.expr(bound));
                self.range(*label, *counter, [start, end, step], body)?;
            }
            Stmt::Block(label, body) => {
                self.iteration(*label, body)?;
            }
            Stmt::Break(label) => return ControlFlow::Break(Exit::Label(*label)),
            Stmt::Continue(label) => return ControlFlow::Break(Exit::Continue(*label)),
            Stmt::Return => return ControlFlow::Break(Exit::Return),
            Stmt::Fault(kind, site) => return self.fault(*kind, site.0),
        }
        ControlFlow::Continue(())
    }

    /// Runs the body of a loop or block once.
    fn iteration(&mut self, label: LabelId, body: &'a [Stmt]) -> ControlFlow<Exit, Left> {
        match self.body(body) {
            ControlFlow::Continue(()) => ControlFlow::Continue(Left::No),
            ControlFlow::Break(Exit::Continue(index)) if index == label => ControlFlow::Continue(Left::No),
            ControlFlow::Break(Exit::Label(index)) if index == label => ControlFlow::Continue(Left::Yes),
            ControlFlow::Break(exit) => ControlFlow::Break(exit),
        }
    }

    fn range(&mut self, label: LabelId, counter: LocalId, bounds: [Literal; 3], body: &'a [Stmt]) -> Flow {
        let dtype = bounds[0].dtype();
        let [start, end, step] = bounds.map(Literal::as_integer);
        let distance = if step < 0 { start - end } else { end - start };
        // As many as whole or partial steps fit into the distance.
        let count = if step == 0 || distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
        for nth in 0..count {
            self.iterate()?;
            self.assign(counter, Literal::from_integer(dtype, start + nth * step));
            if self.iteration(label, body)? == Left::Yes {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    fn assign(&mut self, local: LocalId, value: Literal) {
        self.locals[local.0 as usize] = value;
    }

    fn expr(&mut self, expr: &Expr) -> Literal {
        // Statements end the launch; the expressions of one are bounded.
        self.steps_left = self.steps_left.saturating_sub(1);
        match expr {
            Expr::Literal(literal) => *literal,
            Expr::Local(local) => self.locals[local.0 as usize],
            Expr::Param(param, component) => self.value(*param, *component),
            Expr::Extent(param, axis) => int(self.array(*param).shape[usize::from(*axis)]),
            Expr::ThreadId(axis) => int(self.position[usize::from(*axis)]),
            Expr::Unary(op, a) => interpret::unary(*op, self.expr(a)),
            Expr::Binary(op, a, b) => {
                let a = self.expr(a);
                interpret::binary(*op, a, self.expr(b))
            }
            Expr::Select(condition, a, b) => {
                let chosen = if self.expr(condition).is_truthy() { a } else { b };
                self.expr(chosen)
            }
            Expr::Cast(to, a) => self.expr(a).cast(*to),
            Expr::Bitcast(to, a) => Literal::from_bits(*to, self.expr(a).bits()),
        }
    }

    fn element(&self, param: ParamId) -> &'a Element {
        self.kernel.params[param.0 as usize].ty.element()
    }

    fn value(&self, param: ParamId, component: u32) -> Literal {
        let component = &self.element(param).components[component as usize];
        let bytes = &self.arguments[param.0 as usize].bytes()[component.offset as usize..];
        Literal::from_bytes(component.dtype, bytes)
    }

    fn array(&self, param: ParamId) -> &ArrayArgument {
        match &self.arguments[param.0 as usize] {
            Argument::Array(array) => array,
            Argument::Value(_) => unreachable!("{MISMATCH}"),
        }
    }

    fn array_mut(&mut self, param: ParamId) -> &mut ArrayArgument {
        match &mut self.arguments[param.0 as usize] {
            Argument::Array(array) => array,
            Argument::Value(_) => unreachable!("{MISMATCH}"),
        }
    }

    /// Where a component lies, and its type; notes the access.
    fn access(&mut self, place: &Place, access: Access) -> ControlFlow<Exit, (usize, Dtype)> {
        let located = self.locate(place)?;
        if let Some(races) = &mut self.races {
            races.note(self.thread, place.array.0, located.0, access);
        }
        ControlFlow::Continue(located)
    }

    /// Where a component starts in the data of its array, and its type; a fault if an index is outside.
    fn locate(&mut self, place: &Place) -> ControlFlow<Exit, (usize, Dtype)> {
        let component = &self.element(place.array).components[place.component as usize];
        let mut position = 0;
        for (axis, index) in place.indices.iter().enumerate() {
            let index = self.expr(index).as_i64();
            let array = self.array(place.array);
            let extent = array.shape[axis];
            if index < 0 || index >= extent.into() {
                return ControlFlow::Break(Exit::Fault(FaultRecord {
                    index,
                    array: place.array.0,
                    axis: u32::try_from(axis).expect("at most four dimensions"),
                    extent,
                    ..FaultRecord::new(self.thread, FaultKind::OutOfBounds, place.site.0)
                }));
            }
            position += index * array.strides[axis];
        }
        let offset = i64::try_from(self.array(place.array).offset).expect(IN_DATA);
        let start = usize::try_from(offset + position).expect(IN_DATA);
        ControlFlow::Continue((start + component.offset as usize, component.dtype))
    }
}

const MISMATCH: &str = "arguments are checked before a launch";
const IN_DATA: &str = "the elements of an array that is not empty lie in its data";

/// Tells a loop or block that was left from one that ran to its end.
#[derive(PartialEq)]
enum Left {
    Yes,
    No,
}

fn int(value: i32) -> Literal {
    Literal::from_i64(Dtype::I32, value.into())
}

/// The value that an atomic operation writes.
fn atomic(op: AtomicOp, before: Literal, operand: Literal, expected: Option<Literal>) -> Literal {
    // Numbers of 16 bits are computed in f32.
    let wide = before.dtype().compute();
    let of = |op, a: Literal, b: Literal| interpret::binary(op, a.cast(wide), b.cast(wide)).cast(before.dtype());
    let combine = |op| of(op, before, operand);
    let number = |value: Literal, other| if wide.is_float() && value.as_f64().is_nan() { other } else { value };
    let extremum = |op| of(op, number(before, operand), number(operand, before));
    match op {
        AtomicOp::Add => combine(BinaryOp::Add),
        AtomicOp::Min => extremum(BinaryOp::Min),
        AtomicOp::Max => extremum(BinaryOp::Max),
        AtomicOp::And => combine(BinaryOp::And),
        AtomicOp::Or => combine(BinaryOp::Or),
        AtomicOp::Xor => combine(BinaryOp::Xor),
        AtomicOp::Exchange => operand,
        AtomicOp::CompareExchange if expected == Some(before) => operand,
        AtomicOp::CompareExchange => before,
    }
}

fn write(bytes: &mut [u8], value: Literal) {
    let size = value.dtype().size();
    bytes[..size].copy_from_slice(&value.bits().to_le_bytes()[..size]);
}
