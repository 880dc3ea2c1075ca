//! Variables for the results of early returns.

use std::rc::Rc;

use accelerd_ir::kernel::{Expr, LocalId, Stmt};

use crate::lowerer::Lowerer;
use crate::types::parameters::RecordType;
use crate::types::{ArrayForm, Type};
use crate::values::scalars;
use crate::values::{Data, Value, View};

/// Local variables for a value.
#[derive(Clone, Debug)]
pub(crate) enum Slots {
    Data(Type, Vec<LocalId>),
    Tuple(Vec<Self>),
    Array(View),
    Record(Rc<RecordType>, Vec<Self>),
    Unbound(Type, ArrayForm, LocalId),
    None,
}

impl Lowerer<'_> {
    /// Variables for the results of early returns.
    pub(crate) fn result_slots(&mut self, value: &Value) -> Option<Slots> {
        Some(match value {
            Value::Data(data) => Slots::Data(data.ty.clone(), self.slots("result", &data.ty)),
            Value::Tuple(items) => {
                Slots::Tuple(items.iter().map(|item| self.result_slots(item)).collect::<Option<_>>()?)
            }
            Value::Array(view) => {
                let own = self.own_view("result", view);
                let flag = own.assigned.unwrap_or_else(|| self.flag("result", true));
                Slots::Array(View { assigned: Some(flag), ..own })
            }
            Value::Unbound(element, form, _) => Slots::Unbound(element.clone(), *form, self.flag("result", false)),
            Value::Record(record, fields) => {
                let slots = fields.iter().map(|field| self.result_slots(field)).collect::<Option<_>>()?;
                Slots::Record(record.clone(), slots)
            }
            Value::None => Slots::None,
            Value::Function(_) | Value::Reference(_) | Value::Str => return None,
        })
    }

    /// Puts a value into variables of its type; `false` if its type is another.
    pub(crate) fn store_slots(&mut self, slots: &mut Slots, value: Value) -> bool {
        match (&mut *slots, value) {
            (Slots::Data(ty, slots), Value::Data(data)) if *ty == data.ty => {
                self.store_locals(slots, data.parts);
                true
            }
            (Slots::Tuple(slots), Value::Tuple(items)) if slots.len() == items.len() => {
                slots.iter_mut().zip(items).all(|(slots, item)| self.store_slots(slots, item))
            }
            (Slots::Array(known), Value::Array(view)) if known.is_like(&view) => {
                self.store_view(known, &view);
                true
            }
            (Slots::Unbound(_, _, flag), Value::Array(view)) => {
                let flag = *flag;
                *slots = Slots::Array(self.bound_view("result", flag, view, false));
                true
            }
            (Slots::Array(View { assigned: Some(flag), .. }) | Slots::Unbound(_, _, flag), Value::Unbound(..)) => {
                self.emitter.emit(Stmt::Assign(*flag, scalars::truth(false)));
                true
            }
            (Slots::Record(known, slots), Value::Record(record, fields)) if *known == record => {
                slots.iter_mut().zip(fields).all(|(slots, field)| self.store_slots(slots, field))
            }
            (Slots::None, Value::None) => true,
            _ => false,
        }
    }

    /// The value in variables.
    pub(crate) fn load_slots(slots: &Slots) -> Value {
        match slots {
            Slots::Data(ty, slots) => {
                Value::Data(Data::new(ty.clone(), slots.iter().map(|slot| Expr::Local(*slot)).collect()))
            }
            Slots::Tuple(slots) => Value::Tuple(slots.iter().map(Self::load_slots).collect()),
            Slots::Array(view) => Value::Array(view.clone()),
            Slots::Unbound(element, form, flag) => Value::Unbound(element.clone(), *form, *flag),
            Slots::Record(record, slots) => Value::Record(record.clone(), slots.iter().map(Self::load_slots).collect()),
            Slots::None => Value::None,
        }
    }
}
