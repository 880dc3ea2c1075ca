//! The state of lowering one kernel: functions being inlined, their variables, and the kernel under construction.

pub(crate) mod arguments;
pub(crate) mod emitter;
pub(crate) mod knowledge;
pub(crate) mod records;
pub(crate) mod slots;

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use accelerd_ir::kernel::{Expr, LabelId, LocalId, Stmt};
use accelerd_parser::Kind;

use crate::error::{ErrorKind, LowerError, Lowered};
use crate::lowerer::emitter::{Emitter, reads};
use crate::lowerer::slots::Slots;
use crate::options::Dialect;
use crate::source::counters::SignedStores;
use crate::source::declarations::{FunctionDecl, Scope, enclosing_function};
use crate::source::environment::{Environment, Number};
use crate::source::syntax::{Node, Syntax};
use crate::types::parameters::RecordType;
use crate::types::{ArrayForm, Type};
use crate::values::scalars;
use crate::values::{Axis, Callable, Data, Location, Slice, Storage, Value, View};

/// The deepest nesting of expressions, statements and calls.
const MAX_DEPTH: u32 = 160;

/// The most steps that lowering a kernel takes: nodes that are visited, once for each time that their function is inlined, and variables
/// that are looked through where paths part and meet.
const MAX_WORK: u64 = 2_000_000;
/// Steps from one call of the checkpoint to the next.
const CHECKPOINT: u64 = 1024;

/// Lowers one kernel.
pub(crate) struct Lowerer<'a> {
    pub(crate) environment: &'a Environment<'a>,
    pub(crate) emitter: Emitter,
    /// The kernel and the functions that are being inlined in it.
    pub(crate) frames: Vec<Frame>,
    pub(crate) depth: u32,
    /// Arrays that the client adds to the parameters of the source: names, and their views.
    pub(crate) tables: Vec<(&'static str, View)>,
    /// Steps so far.
    work: Cell<u64>,
    /// Steps after which the checkpoint is called.
    next_checkpoint: u64,
}

/// A function whose body is being lowered.
pub(crate) struct Frame {
    pub(crate) function: Node,
    pub(crate) scope: Scope,
    /// Names that the body assigns.
    pub(crate) locals: Rc<HashSet<String>>,
    pub(crate) variables: BTreeMap<String, Variable>,
    /// The flags of variables in whose place others have their names.
    pub(crate) rebound: Vec<LocalId>,
    pub(crate) loops: Vec<LoopLabels>,
    pub(crate) returns: Returns,
    /// Open statements with bodies.
    pub(crate) nesting: u32,
}

/// The labels of a loop.
#[derive(Clone, Copy)]
pub(crate) struct LoopLabels {
    pub(crate) end: LabelId,
    /// The block of an iteration, if the loop is unrolled.
    pub(crate) next: Option<LabelId>,
}

/// The effect of `return`.
pub(crate) enum Returns {
    /// Ends the thread.
    Kernel,
    /// Leaves the block of an inlined function.
    Function {
        label: LabelId,
        /// True if a statement leaves the block.
        is_left: bool,
        /// Where early returns put their values.
        slots: Option<Slots>,
        /// The value of a return that is the last statement.
        last: Option<Value>,
    },
}

/// A variable of the source.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) kind: VariableKind,
    /// The number that it holds, where that is known.
    pub(crate) constant: Option<Number>,
    /// True if an assignment reaches the current statement on every path.
    pub(crate) is_assigned: bool,
    /// A variable that is true once an assignment was reached, at run time.
    pub(crate) flag: LocalId,
}

/// The content of a variable.
#[derive(Clone, Debug)]
pub(crate) enum VariableKind {
    Data(Type, Vec<LocalId>),
    /// A parameter that is never assigned.
    Alias(Data),
    Array(View),
    Tuple(Vec<Self>),
    /// A struct with arrays, and its fields in order.
    Record(Rc<RecordType>, Vec<Self>),
    /// A field that no assignment has made an array yet, and a variable that is true once one was reached.
    Unbound(Type, ArrayForm, LocalId),
    Function(Callable),
    /// A parameter that is a reference.
    Reference(Location),
}

impl<'a> Lowerer<'a> {
    pub(crate) fn new(environment: &'a Environment<'a>) -> Self {
        Self {
            environment,
            emitter: Emitter::new(),
            frames: vec![],
            depth: 0,
            tables: vec![],
            work: Cell::new(0),
            next_checkpoint: 0,
        }
    }

    pub(crate) fn syntax(&self) -> &'a Syntax<'a> {
        self.environment.syntax
    }

    pub(crate) fn is_python(&self) -> bool {
        self.environment.options.dialect == Dialect::Python
    }

    pub(crate) fn error(&self, node: Node, kind: ErrorKind, message: impl Into<String>) -> LowerError {
        self.syntax().error(node, kind, message)
    }

    /// Runs a step of a bounded recursion, while the kernel is not too large.
    pub(crate) fn nested<T>(&mut self, node: Node, step: impl FnOnce(&mut Self) -> Lowered<T>) -> Lowered<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(node, ErrorKind::TooDeep, format!("nested more than {MAX_DEPTH} deep")));
        }
        if self.emitter.is_too_large() {
            return Err(self.error(node, ErrorKind::TooLarge, "the kernel is too large after inlining"));
        }
        self.add_work(1);
        self.check_work(node)?;
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    /// Counts steps, which the next step of the recursion checks.
    pub(crate) fn add_work(&self, steps: usize) {
        self.work.set(self.work.get().saturating_add(steps as u64));
    }

    fn check_work(&mut self, node: Node) -> Lowered<()> {
        let work = self.work.get();
        if work > MAX_WORK {
            let message = format!("the kernel takes more than {MAX_WORK} steps to lower after inlining");
            return Err(self.error(node, ErrorKind::TooLarge, message));
        }
        if work >= self.next_checkpoint {
            self.next_checkpoint = work + CHECKPOINT;
            if (self.environment.checkpoint)().is_break() {
                return Err(self.error(node, ErrorKind::Cancelled, "the lowering was cancelled"));
            }
        }
        Ok(())
    }

    pub(crate) fn frame(&self) -> &Frame {
        self.frames.last().expect("a function is being lowered")
    }

    pub(crate) fn frame_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a function is being lowered")
    }

    /// The scope around the function that is being lowered.
    pub(crate) fn outer_scope(&self) -> Scope {
        self.frame().scope
    }

    /// The dotted path of a `Name` or `Attribute` that starts at an imported name, which no variable hides.
    pub(crate) fn path(&self, node: Node) -> Option<String> {
        if self.names_local(node) { None } else { self.environment.declarations.path(self.syntax(), node) }
    }

    /// The number that an expression is when the module runs; none if it names a variable of the function.
    pub(crate) fn outer_number(&self, node: Node) -> Option<Number> {
        if self.names_local(node) { None } else { self.environment.number(node, self.outer_scope()) }
    }

    /// Returns true if an expression names a variable of the function.
    pub(crate) fn names_local(&self, node: Node) -> bool {
        let syntax = self.syntax();
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            let name = syntax.name_of(node);
            if name
                .is_some_and(|name| self.frame().locals.contains(&name) || self.frame().variables.contains_key(&name))
            {
                return true;
            }
            open.extend(syntax.all_children(node));
        }
        false
    }

    /// Starts a function.
    pub(crate) fn enter(&mut self, function: &FunctionDecl, returns: Returns) {
        self.frames.push(Frame {
            function: function.node,
            scope: enclosing_function(self.syntax(), function.node),
            locals: function.locals.clone(),
            variables: BTreeMap::new(),
            rebound: vec![],
            loops: vec![],
            returns,
            nesting: 0,
        });
    }

    /// The names that statements below a node assign.
    pub(crate) fn assigned_names(&self, node: Node) -> HashSet<String> {
        let syntax = self.syntax();
        let mut names = HashSet::new();
        let mut open = vec![node];
        while let Some(index) = open.pop() {
            if syntax.kind(index) == Kind::Name && syntax.is_store(index) {
                names.extend(syntax.name(index));
            }
            open.extend(syntax.all_children(index));
        }
        names.extend(self.referred_names(node));
        names
    }

    /// Binds a parameter of an inlined function, or of the kernel, to its argument.
    pub(crate) fn bind_parameter(&mut self, name: &str, value: Value) {
        let flag = self.emitter.local("assigned", accelerd_ir::Dtype::Bool);
        let is_constant = !self.frame().locals.contains(name) && !self.mutates(name);
        let kind = match value {
            Value::Data(data) if is_constant => VariableKind::Alias(self.bind(data)),
            Value::Record(record, fields) if !self.frame().locals.contains(name) => {
                self.parameter_record(name, record, fields)
            }
            other => self.new_kind(name, &other),
        };
        let variable = Variable { kind, constant: None, is_assigned: true, flag };
        self.frame_mut().variables.insert(name.to_owned(), variable);
    }

    /// Returns true if the function may assign to a component of a variable.
    pub(crate) fn mutates(&self, name: &str) -> bool {
        let function = self.frame().function;
        let known = self.environment.mutated.borrow().get(&function).cloned();
        let names = known.unwrap_or_else(|| {
            let names = Rc::new(self.mutated_names(function));
            self.environment.mutated.borrow_mut().insert(function, names.clone());
            names
        });
        names.contains(name)
    }

    /// The names of the variables to whose components a function may assign, and `variable.field` for the first field of each. A star
    /// stands for all fields.
    fn mutated_names(&self, function: Node) -> HashSet<String> {
        let syntax = self.syntax();
        let mut names: HashSet<_> =
            self.referred_names(function).into_iter().flat_map(|name| [format!("{name}.*"), name]).collect();
        let mut open = vec![function];
        while let Some(node) = open.pop() {
            if matches!(syntax.kind(node), Kind::Attribute | Kind::Subscript) && syntax.is_store(node) {
                names.extend(syntax.root_name(node));
                names.extend(syntax.root_field(node));
            }
            names.extend(self.advanced_state(node));
            open.extend(syntax.all_children(node));
        }
        names
    }

    /// Makes variables for a value and assigns it.
    pub(crate) fn new_kind(&mut self, name: &str, value: &Value) -> VariableKind {
        match value {
            Value::Data(data) => {
                let slots = self.slots(name, &data.ty);
                self.store_locals(&slots, data.parts.clone());
                VariableKind::Data(data.ty.clone(), slots)
            }
            Value::Array(view) => VariableKind::Array(self.own_view(name, view)),
            Value::Tuple(items) => VariableKind::Tuple(items.iter().map(|item| self.new_kind(name, item)).collect()),
            Value::Record(record, fields) => {
                self.add_work(fields.len());
                VariableKind::Record(record.clone(), fields.iter().map(|field| self.new_kind(name, field)).collect())
            }
            Value::Unbound(element, form, _) => VariableKind::Unbound(element.clone(), *form, self.flag(name, false)),
            Value::Function(function) => VariableKind::Function(function.clone()),
            Value::Reference(location) => VariableKind::Reference(location.clone()),
            Value::Str | Value::None => VariableKind::Tuple(vec![]),
        }
    }

    /// A view whose indices are variables of its own.
    pub(crate) fn own_view(&mut self, name: &str, view: &View) -> View {
        let assigned = view.assigned.map(|flag| {
            let own = self.emitter.copy_of(flag);
            self.emitter.emit(Stmt::Assign(own, Expr::Local(flag)));
            own
        });
        let axes = view.axes.iter().map(|axis| match axis {
            Axis::Index(index) => {
                let slot = self.emitter.local(name, accelerd_ir::Dtype::I64);
                self.emitter.emit(Stmt::Assign(slot, as_i64(index.clone())));
                Axis::Index(Expr::Local(slot))
            }
            Axis::Slice(slice) => {
                let mut own = |part: &Expr| {
                    let slot = self.emitter.local(name, accelerd_ir::Dtype::I32);
                    self.emitter.emit(Stmt::Assign(slot, part.clone()));
                    Expr::Local(slot)
                };
                let start = own(&slice.start);
                let step = own(&slice.step);
                let extent = own(&slice.extent);
                Axis::Slice(Slice { start, step, extent })
            }
            Axis::All => Axis::All,
        });
        View { axes: axes.collect(), assigned, ..view.clone() }
    }

    pub(crate) fn slots(&mut self, name: &str, ty: &Type) -> Vec<LocalId> {
        ty.components().into_iter().map(|dtype| self.emitter.local(name, dtype)).collect()
    }

    /// Assigns to local variables, of which the values may read any.
    pub(crate) fn store_locals(&mut self, slots: &[LocalId], parts: Vec<Expr>) {
        let conflicts = slots.len() > 1 && parts.iter().any(|part| reads(part, slots));
        if !conflicts {
            for (slot, part) in slots.iter().zip(parts) {
                self.emitter.emit(Stmt::Assign(*slot, part));
            }
            return;
        }
        let copies: Vec<_> = parts
            .into_iter()
            .zip(slots)
            .map(|(part, slot)| {
                let copy = self.emitter.copy_of(*slot);
                self.emitter.emit(Stmt::Assign(copy, part));
                copy
            })
            .collect();
        for (slot, copy) in slots.iter().zip(copies) {
            self.emitter.emit(Stmt::Assign(*slot, Expr::Local(copy)));
        }
    }

    /// The value with parts that may be repeated.
    pub(crate) fn bind(&mut self, data: Data) -> Data {
        let types = data.ty.components();
        let parts = data.parts.into_iter().zip(types).map(|(part, dtype)| self.emitter.bind(dtype, part)).collect();
        Data { ty: data.ty, parts, constant: data.constant }
    }

    /// Assigns a value to a variable.
    pub(crate) fn assign_variable(&mut self, node: Node, name: &str, value: Value) -> Lowered<()> {
        if matches!(value, Value::None | Value::Str) {
            let message = format!("expected a value for variable `{name}`, got {value}");
            return Err(self.error(node, ErrorKind::TypeMismatch, message));
        }
        let is_reference = |variable: &Variable| matches!(variable.kind, VariableKind::Reference(_));
        let is_index = matches!(&value, Value::Data(data) if self.is_index(node, name, data));
        let constant = match &value {
            Value::Data(data) if !self.frame().variables.get(name).is_some_and(is_reference) => data.constant,
            _ => None,
        };
        if self.frame().variables.get(name).is_some_and(|known| self.rebinds(&known.kind, &value)) {
            self.forget_variable(name);
        }
        let Some(known) = self.frame().variables.get(name).cloned() else {
            let flag = self.emitter.local("assigned", accelerd_ir::Dtype::Bool);
            let kind = self.new_kind(name, &value);
            self.mark_index(&kind, is_index);
            self.emitter.emit(Stmt::Assign(flag, scalars::truth(true)));
            let variable = Variable { kind, constant, is_assigned: true, flag };
            self.frame_mut().variables.insert(name.to_owned(), variable);
            return Ok(());
        };
        let kind = self.assign_kind(node, name, known.kind, value)?;
        self.mark_index(&kind, is_index);
        if !known.is_assigned {
            self.emitter.emit(Stmt::Assign(known.flag, scalars::truth(true)));
        }
        let variable = Variable { kind, constant, is_assigned: true, flag: known.flag };
        self.frame_mut().variables.insert(name.to_owned(), variable);
        Ok(())
    }

    /// Returns true if a variable never holds a negative number, as an index that is assigned once.
    fn is_index(&self, target: Node, name: &str, data: &Data) -> bool {
        let function = self.frame().function;
        let is_known = data
            .as_scalar()
            .is_some_and(|(dtype, part)| dtype.is_integer() && dtype.size() >= 4 && self.emitter.is_non_negative(part));
        if !is_known || self.environment.declarations.is_parameter(function, name) || self.mutates(name) {
            return false;
        }
        let known = self.environment.signed.borrow().get(&function).cloned();
        let stores = known.unwrap_or_else(|| {
            let stores = Rc::new(SignedStores::of(self.syntax(), self.environment.declarations, function));
            self.environment.signed.borrow_mut().insert(function, stores.clone());
            stores
        });
        stores.is_only(name, target)
    }

    fn mark_index(&mut self, kind: &VariableKind, is_index: bool) {
        if let (VariableKind::Data(_, slots), true) = (kind, is_index) {
            self.emitter.mark_non_negative(slots[0]);
        }
    }

    /// Returns true if an assignment makes another variable of the name, as in Warp: one of another type, which all later statements see.
    fn rebinds(&self, kind: &VariableKind, value: &Value) -> bool {
        let is_other = match (kind, value) {
            (VariableKind::Data(known, _), Value::Data(data)) => *known != data.ty,
            (VariableKind::Alias(known), Value::Data(data)) => known.ty != data.ty,
            (VariableKind::Array(known), Value::Array(view)) => !known.is_like(view),
            (VariableKind::Data(..), Value::Array(_)) | (VariableKind::Array(_), Value::Data(_)) => true,
            _ => false,
        };
        is_other && !self.is_python() && self.frame().nesting == 0
    }

    /// Makes the next assignment to a name make another variable.
    pub(crate) fn forget_variable(&mut self, name: &str) {
        let frame = self.frame_mut();
        frame.rebound.extend(frame.variables.remove(name).map(|variable| variable.flag));
    }

    pub(crate) fn assign_kind(
        &mut self,
        node: Node,
        name: &str,
        kind: VariableKind,
        value: Value,
    ) -> Lowered<VariableKind> {
        match (&kind, value) {
            (VariableKind::Data(ty, slots), Value::Data(data)) if *ty == data.ty => {
                self.store_locals(slots, data.parts);
                Ok(kind)
            }
            (VariableKind::Array(known), Value::Array(view)) if known.is_like(&view) => {
                self.store_view(known, &view);
                Ok(kind)
            }
            (VariableKind::Record(known, kinds), Value::Record(record, fields)) if *known == record => {
                let kinds = self.assign_fields(node, name, &record, kinds.clone(), fields)?;
                Ok(VariableKind::Record(record, kinds))
            }
            (VariableKind::Reference(location), Value::Data(data)) => {
                let data = self.converted_element(node, &location.ty, data)?;
                self.write(node, location.clone(), data)?;
                Ok(kind)
            }
            (VariableKind::Function(known), Value::Function(function)) if *known == function => Ok(kind),
            (VariableKind::Function(_), Value::Function(_)) => {
                let message = format!("variable `{name}` stands for another function already");
                Err(self.error(node, ErrorKind::UnsupportedExpression, message))
            }
            (VariableKind::Array(_), Value::Array(_)) => {
                let message = format!("variable `{name}` refers to another array already");
                Err(self.error(node, ErrorKind::UnsupportedExpression, message))
            }
            (VariableKind::Tuple(kinds), Value::Tuple(items)) if kinds.len() == items.len() => {
                let kinds =
                    kinds.iter().cloned().zip(items).map(|(kind, item)| self.assign_kind(node, name, kind, item));
                Ok(VariableKind::Tuple(kinds.collect::<Lowered<_>>()?))
            }
            (_, value) => {
                let message = format!("variable `{name}` is {}, got {value}", describe(&kind));
                Err(self.error(node, ErrorKind::TypeMismatch, message))
            }
        }
    }

    /// Puts another view of the same array into the variables of a view.
    pub(crate) fn store_view(&mut self, known: &View, view: &View) {
        let slots: Vec<_> = known
            .axes
            .iter()
            .flat_map(Axis::parts)
            .map(|part| match part {
                Expr::Local(slot) => *slot,
                _ => unreachable!("a variable's view has variables as indices"),
            })
            .collect();
        let parts = view.axes.iter().flat_map(|axis| {
            let is_index = matches!(axis, Axis::Index(_));
            axis.parts().into_iter().cloned().map(move |part| if is_index { as_i64(part) } else { part })
        });
        self.store_locals(&slots, parts.collect());
        if let Some(flag) = known.assigned {
            let is_assigned = view.assigned.map_or_else(|| scalars::truth(true), Expr::Local);
            self.emitter.emit(Stmt::Assign(flag, is_assigned));
        }
    }

    /// The variable of a name, checked to be assigned.
    pub(crate) fn variable(&mut self, node: Node, name: &str) -> Option<VariableKind> {
        self.check_assigned(node, name);
        self.frame().variables.get(name).map(|variable| variable.kind.clone())
    }

    /// A fault where no assignment of a variable was reached.
    pub(crate) fn check_assigned(&mut self, node: Node, name: &str) {
        if let Some(flag) = self.frame().variables.get(name).filter(|known| !known.is_assigned).map(|known| known.flag)
        {
            let site = self.syntax().site(node);
            self.emitter.fault_unless_assigned(flag, name, site);
        }
    }

    /// The value of a variable's content.
    pub(crate) fn value_of(kind: &VariableKind) -> Value {
        match kind {
            VariableKind::Data(ty, slots) => {
                Value::Data(Data::new(ty.clone(), slots.iter().map(|slot| Expr::Local(*slot)).collect()))
            }
            VariableKind::Alias(data) => Value::Data(data.clone()),
            VariableKind::Array(view) => Value::Array(view.clone()),
            VariableKind::Tuple(kinds) => Value::Tuple(kinds.iter().map(Self::value_of).collect()),
            VariableKind::Record(record, kinds) => {
                Value::Record(record.clone(), kinds.iter().map(Self::value_of).collect())
            }
            VariableKind::Unbound(element, form, flag) => Value::Unbound(element.clone(), *form, *flag),
            VariableKind::Function(function) => Value::Function(function.clone()),
            VariableKind::Reference(location) => Value::Reference(location.clone()),
        }
    }

    /// The location of all components of something.
    pub(crate) fn whole(ty: Type, storage: Storage) -> Location {
        let count = u32::try_from(ty.count()).expect("components are limited");
        Location { ty, storage, choices: vec![(0..count).collect()], index: None }
    }
}

fn as_i64(index: Expr) -> Expr {
    match index {
        Expr::Literal(literal) => Expr::Literal(literal.cast(accelerd_ir::Dtype::I64)),
        index => Expr::Cast(accelerd_ir::Dtype::I64, Box::new(index)),
    }
}

fn describe(kind: &VariableKind) -> String {
    Lowerer::value_of(kind).to_string()
}
