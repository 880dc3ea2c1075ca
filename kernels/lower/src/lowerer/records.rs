//! Variables that are structs with arrays. Which array a field is, is known while the kernel is lowered.

use std::rc::Rc;

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, LocalId, Stmt};
use accelerd_parser::Kind;

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::{Lowerer, VariableKind};
use crate::source::environment::shorten;
use crate::source::syntax::Node;
use crate::types::parameters::{Annotation, RecordType};
use crate::values::scalars;
use crate::values::{Data, Value, View};

impl Lowerer<'_> {
    /// A struct with arrays as its constructor makes it without arguments.
    pub(crate) fn empty_record(&mut self, record: &Rc<RecordType>) -> Value {
        let fields = record.fields.iter().map(|(name, annotation)| match annotation {
            Annotation::Data(ty) => Data::zero(ty).into(),
            Annotation::Record(inner) => self.empty_record(inner),
            Annotation::Array(element, form) => Value::Unbound(element.clone(), *form, self.flag(name, false)),
            _ => unreachable!("a field is a value, an array or a struct"),
        });
        Value::Record(record.clone(), fields.collect())
    }

    /// A variable that is true where an array is assigned.
    pub(crate) fn flag(&mut self, name: &str, is_assigned: bool) -> LocalId {
        let flag = self.emitter.local(name, Dtype::Bool);
        self.emitter.emit(Stmt::Assign(flag, scalars::truth(is_assigned)));
        flag
    }

    /// The variables of a parameter, of which only the fields that the function may change are copies.
    pub(crate) fn parameter_record(&mut self, name: &str, record: Rc<RecordType>, fields: Vec<Value>) -> VariableKind {
        self.add_work(fields.len());
        let is_referred = self.mutates(&format!("{name}.*"));
        let kinds = record.fields.iter().zip(fields).map(|((field, _), value)| {
            let path = format!("{name}.{field}");
            let is_constant = !is_referred && !self.mutates(&path);
            match value {
                Value::Data(data) if is_constant => VariableKind::Alias(self.bind(data)),
                Value::Array(view) if is_constant => VariableKind::Array(view),
                Value::Record(inner, fields) if is_constant => self.parameter_record(&path, inner, fields),
                value => self.new_kind(&path, &value),
            }
        });
        let kinds = kinds.collect();
        VariableKind::Record(record, kinds)
    }

    /// The field of a variable that an attribute is, and the names of its path.
    pub(crate) fn field(&self, node: Node) -> Option<(Vec<String>, &VariableKind)> {
        let syntax = self.syntax();
        let mut path = vec![];
        let mut base = node;
        while syntax.kind(base) == Kind::Attribute {
            path.push(syntax.name(base)?);
            base = syntax.child(base, accelerd_parser::Field::Value)?;
        }
        path.push(syntax.name_of(base)?);
        path.reverse();
        let mut kind = &self.frame().variables.get(&path[0])?.kind;
        for name in &path[1..] {
            let VariableKind::Record(record, kinds) = kind else { return None };
            kind = &kinds[record.position(name)?];
        }
        (path.len() > 1).then_some((path, kind))
    }

    /// Assigns an array or a struct to a field of a variable.
    pub(crate) fn store_field(&mut self, target: Node, value: Value) -> Lowered<()> {
        let Some((path, _)) = self.field(target) else {
            return Err(self.error(target, ErrorKind::TypeMismatch, format!("expected a value, got {value}")));
        };
        let name = path.join(".");
        self.check_assigned(target, &path[0]);
        let mut kind = self.frame().variables[&path[0]].kind.clone();
        let mut slot = &mut kind;
        let mut annotation = None;
        for name in &path[1..] {
            let VariableKind::Record(record, kinds) = slot else { unreachable!("a field is of a struct") };
            let index = record.position(name).expect("the field was found");
            annotation = Some(record.fields[index].1.clone());
            slot = &mut kinds[index];
        }
        let value = self.checked_argument(target, &annotation.expect("the path has a field"), value)?;
        *slot = self.assign_field(target, &name, slot.clone(), value)?;
        if let Some(variable) = self.frame_mut().variables.get_mut(&path[0]) {
            variable.kind = kind;
        }
        Ok(())
    }

    /// Assigns to all fields of a variable.
    pub(crate) fn assign_fields(
        &mut self,
        node: Node,
        name: &str,
        record: &RecordType,
        kinds: Vec<VariableKind>,
        values: Vec<Value>,
    ) -> Lowered<Vec<VariableKind>> {
        let fields = record.fields.iter().zip(kinds).zip(values);
        fields
            .map(|(((field, _), kind), value)| self.assign_field(node, &format!("{name}.{field}"), kind, value))
            .collect()
    }

    /// Assigns to a field. The first assignment of an array determines it; another array is possible outside of branches and loops.
    fn assign_field(&mut self, node: Node, name: &str, kind: VariableKind, value: Value) -> Lowered<VariableKind> {
        let is_sure = self.frame().nesting == 0;
        match (kind, value) {
            (VariableKind::Unbound(element, form, flag), Value::Unbound(..)) => {
                self.emitter.emit(Stmt::Assign(flag, scalars::truth(false)));
                Ok(VariableKind::Unbound(element, form, flag))
            }
            (VariableKind::Unbound(_, _, flag), Value::Array(view)) => {
                Ok(VariableKind::Array(self.bound_view(name, flag, view, is_sure)))
            }
            (VariableKind::Array(known), Value::Unbound(..)) => {
                let flag = known.assigned.unwrap_or_else(|| self.flag(name, true));
                self.emitter.emit(Stmt::Assign(flag, scalars::truth(false)));
                Ok(VariableKind::Array(View { assigned: Some(flag), ..known }))
            }
            (VariableKind::Array(known), Value::Array(view)) if is_sure && !known.is_like(&view) => {
                let flag = known.assigned.unwrap_or_else(|| self.flag(name, true));
                Ok(VariableKind::Array(self.bound_view(name, flag, view, is_sure)))
            }
            (VariableKind::Array(known), Value::Array(view)) if !known.is_like(&view) => {
                let message = format!(
                    "field `{name}` refers to another array already; which one it is must not depend on a condition"
                );
                Err(self.error(node, ErrorKind::UnsupportedExpression, message))
            }
            (kind, value) => self.assign_kind(node, name, kind, value),
        }
    }

    /// The array that a field with a flag is from now on. An assignment that is always reached needs no flag.
    pub(crate) fn bound_view(&mut self, name: &str, flag: LocalId, view: View, is_sure: bool) -> View {
        let source = view.assigned;
        let own = self.own_view(name, &View { assigned: None, ..view });
        self.emitter.emit(Stmt::Assign(flag, source.map_or_else(|| scalars::truth(true), Expr::Local)));
        View { assigned: (!is_sure || source.is_some()).then_some(flag), ..own }
    }

    /// Gives a flag to each array of a struct.
    pub(crate) fn flag_arrays(&mut self, name: &str, kind: &mut VariableKind) {
        match kind {
            VariableKind::Record(_, kinds) => kinds.iter_mut().for_each(|kind| self.flag_arrays(name, kind)),
            VariableKind::Array(view) if view.assigned.is_none() => view.assigned = Some(self.flag(name, true)),
            _ => {}
        }
    }

    /// An array that is used: a fault where no assignment of the field was reached.
    pub(crate) fn present(&mut self, node: Node, view: View) -> View {
        if let Some(flag) = view.assigned {
            self.fault_unless_bound(node, flag);
        }
        View { assigned: None, ..view }
    }

    /// A fault where the array that an expression names is not assigned.
    pub(crate) fn fault_unless_bound(&mut self, node: Node, flag: LocalId) {
        let name = shorten(&self.syntax().text(node));
        self.emitter.fault_unless_assigned(flag, &name, self.syntax().site(node));
    }
}
