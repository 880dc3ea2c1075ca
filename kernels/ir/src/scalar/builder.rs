//! Builds scalar functions: checks types, computes constants, shares equal instructions and drops unused ones.

use std::collections::HashMap;

use super::{BinaryOp, Function, Inst, Literal, UnaryOp, Value, ValueId, interpret};
use crate::Dtype;

/// An instruction does not take operands of these types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} does not take {operands}")]
pub struct TypeError {
    /// The operation.
    pub op: String,
    /// The types of its operands.
    pub operands: String,
}

/// A function under construction. Equal instructions are the same value, and an operation of constants is a constant.
#[derive(Clone, Debug)]
pub struct Builder {
    params: Vec<Dtype>,
    values: Vec<Value>,
    known: HashMap<Value, ValueId>,
}

impl Builder {
    /// A function with parameters of these types.
    pub fn new(params: &[Dtype]) -> Self {
        Self { params: params.to_vec(), values: vec![], known: HashMap::new() }
    }

    /// The type of a value.
    pub fn dtype(&self, value: ValueId) -> Dtype {
        self.values[value.index()].dtype
    }

    /// A parameter.
    ///
    /// # Panics
    /// If the function has fewer.
    pub fn param(&mut self, nth: usize) -> ValueId {
        let dtype = self.params[nth];
        self.push(Inst::Param(u32::try_from(nth).expect("fewer than 2^32 parameters")), dtype)
    }

    /// Position of the element in its iteration space, row-major; i64.
    pub fn index(&mut self) -> ValueId {
        self.push(Inst::Index, Dtype::I64)
    }

    /// A constant.
    pub fn literal(&mut self, literal: Literal) -> ValueId {
        self.push(Inst::Literal(literal), literal.dtype())
    }

    /// A number as a constant, rounded to the type.
    pub fn number(&mut self, dtype: Dtype, value: f64) -> ValueId {
        self.literal(Literal::from_f64(dtype, value))
    }

    /// An operation of one operand.
    pub fn unary(&mut self, op: UnaryOp, operand: ValueId) -> Result<ValueId, TypeError> {
        let dtype = self.dtype(operand);
        let result = op.result(dtype).ok_or_else(|| type_error(&op, &[dtype]))?;
        Ok(self.push(Inst::Unary(op, operand), result))
    }

    /// An operation of two operands of equal type.
    pub fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> Result<ValueId, TypeError> {
        let (left, right) = (self.dtype(a), self.dtype(b));
        let result = op.result(left).filter(|_| left == right).ok_or_else(|| type_error(&op, &[left, right]))?;
        Ok(self.push(Inst::Binary(op, a, b), result))
    }

    /// `a` where `condition` is true, else `b`.
    pub fn select(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> Result<ValueId, TypeError> {
        let [of_condition, left, right] = [condition, a, b].map(|value| self.dtype(value));
        if of_condition != Dtype::Bool || left != right {
            return Err(type_error(&"select", &[of_condition, left, right]));
        }
        Ok(self.push(Inst::Select(condition, a, b), left))
    }

    /// The operand, converted to a type; itself if it has that type.
    pub fn cast(&mut self, operand: ValueId, to: Dtype) -> ValueId {
        if self.dtype(operand) == to { operand } else { self.push(Inst::Cast(operand), to) }
    }

    /// The results of `function` for arguments of its parameters' types.
    ///
    /// # Panics
    /// If number or types of the arguments differ from those of the parameters.
    pub fn call(&mut self, function: &Function, arguments: &[ValueId]) -> Vec<ValueId> {
        let types: Vec<_> = arguments.iter().map(|value| self.dtype(*value)).collect();
        assert_eq!(types, function.params, "the arguments of a call have the types of the parameters");
        let mut copies: Vec<ValueId> = Vec::with_capacity(function.values.len());
        for value in &function.values {
            let at = |id: ValueId| copies[id.index()];
            let copy = match value.inst {
                Inst::Param(nth) => arguments[nth as usize],
                Inst::Index | Inst::Literal(_) => self.push(value.inst, value.dtype),
                Inst::Unary(op, a) => self.push(Inst::Unary(op, at(a)), value.dtype),
                Inst::Binary(op, a, b) => self.push(Inst::Binary(op, at(a), at(b)), value.dtype),
                Inst::Select(c, a, b) => self.push(Inst::Select(at(c), at(a), at(b)), value.dtype),
                Inst::Cast(a) => self.cast(at(a), value.dtype),
            };
            copies.push(copy);
        }
        function.results.iter().map(|result| copies[result.index()]).collect()
    }

    /// The function with these results; drops what they do not need.
    pub fn finish(self, results: &[ValueId]) -> Function {
        let mut needed = vec![false; self.values.len()];
        for result in results {
            needed[result.index()] = true;
        }
        for at in (0..self.values.len()).rev() {
            if needed[at] {
                self.values[at].inst.operands().for_each(|operand| needed[operand.index()] = true);
            }
        }
        let mut places: Vec<Option<ValueId>> = vec![None; self.values.len()];
        let mut values = vec![];
        for (at, value) in self.values.iter().enumerate().filter(|(at, _)| needed[*at]) {
            places[at] = Some(id(values.len()));
            let place = |of: ValueId| places[of.index()].expect("operands come first and are needed");
            let inst = match value.inst {
                Inst::Param(_) | Inst::Index | Inst::Literal(_) => value.inst,
                Inst::Unary(op, a) => Inst::Unary(op, place(a)),
                Inst::Binary(op, a, b) => Inst::Binary(op, place(a), place(b)),
                Inst::Select(c, a, b) => Inst::Select(place(c), place(a), place(b)),
                Inst::Cast(a) => Inst::Cast(place(a)),
            };
            values.push(Value { inst, dtype: value.dtype });
        }
        let results = results.iter().map(|result| places[result.index()].expect("results are needed")).collect();
        Function { params: self.params, values, results }
    }

    /// The result of an operation of constants.
    fn constant(&self, inst: Inst, dtype: Dtype) -> Option<Literal> {
        let literal = |value: ValueId| match self.values[value.index()].inst {
            Inst::Literal(literal) => Some(literal),
            Inst::Param(_) | Inst::Index | Inst::Unary(..) | Inst::Binary(..) | Inst::Select(..) | Inst::Cast(_) => {
                None
            }
        };
        match inst {
            Inst::Unary(op, a) => Some(interpret::unary(op, literal(a)?)),
            Inst::Binary(op, a, b) => Some(interpret::binary(op, literal(a)?, literal(b)?)),
            Inst::Cast(a) => Some(literal(a)?.cast(dtype)),
            Inst::Param(_) | Inst::Index | Inst::Literal(_) | Inst::Select(..) => None,
        }
    }

    fn push(&mut self, inst: Inst, dtype: Dtype) -> ValueId {
        let value = Value { inst: self.constant(inst, dtype).map_or(inst, Inst::Literal), dtype };
        *self.known.entry(value).or_insert_with(|| {
            self.values.push(value);
            id(self.values.len() - 1)
        })
    }
}

impl Function {
    /// The conversion of an element from a type to another, or its copy.
    pub fn conversion(from: Dtype, to: Dtype) -> Self {
        let mut builder = Builder::new(&[from]);
        let element = builder.param(0);
        let result = builder.cast(element, to);
        builder.finish(&[result])
    }
}

fn id(at: usize) -> ValueId {
    ValueId(u32::try_from(at).expect("fewer than 2^32 values"))
}

fn type_error(op: &dyn std::fmt::Debug, operands: &[Dtype]) -> TypeError {
    let operands: Vec<_> = operands.iter().map(|dtype| dtype.name()).collect();
    TypeError { op: format!("{op:?}"), operands: operands.join(", ") }
}
