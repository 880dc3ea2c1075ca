//! Warp's random numbers: the hash PCG of a state of 32 bits.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::{Expr, Stmt};
use accelerd_ir::scalar::BinaryOp;
use accelerd_parser::{Field, Kind};

use crate::error::{ErrorKind, LowerError, Lowered};
use crate::lowerer::arguments::Arguments;
use crate::lowerer::{Lowerer, VariableKind};
use crate::source::syntax::Node;
use crate::types::Type;
use crate::values::constants;
use crate::values::scalars;
use crate::values::{Data, Location, Storage, Value};
use crate::warp::library;

impl Lowerer<'_> {
    /// `wp.rand_init(seed, offset)`; `wp.randi`, `wp.randu` and `wp.randf` of a variable that holds the state, which they advance.
    pub(crate) fn random(&mut self, node: Node, name: &str, arguments: &Arguments) -> Lowered<Data> {
        let is_init = name == "rand_init";
        self.expect_count(node, name, arguments, 1..=if is_init { 2 } else { 3 })?;
        let of_numbers = match name {
            "rand_init" | "randi" => Dtype::I32,
            "randu" => Dtype::U32,
            _ => Dtype::F32,
        };
        let mut numbers = vec![];
        for &argument in &arguments.positional[usize::from(!is_init)..] {
            let value = self.expression(argument)?;
            numbers.push(self.number_of(argument, of_numbers, &value)?);
        }
        if is_init {
            let mut numbers = numbers.into_iter().map(|number| scalars::cast(Dtype::I32, Dtype::U32, number));
            let seed = numbers.next().expect("counted");
            let state = match numbers.next() {
                Some(offset) => scalars::add(Dtype::U32, seed, self.pcg(offset)),
                None => seed,
            };
            return Ok(Data::scalar(Dtype::U32, self.pcg(state)));
        }
        if numbers.len() == 1 {
            let message = format!("expected both bounds of `{name}`");
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        }
        let state = self.advance(node, arguments)?;
        let range = <[Expr; 2]>::try_from(numbers).ok();
        Ok(match name {
            "randi" => Data::scalar(Dtype::I32, in_range(state, range, Dtype::I32)),
            "randu" => Data::scalar(Dtype::U32, in_range(state, range, Dtype::U32)),
            _ => Data::scalar(Dtype::F32, uniform(state, range)),
        })
    }

    fn number_of(&self, node: Node, dtype: Dtype, value: &Value) -> Lowered<Expr> {
        if let Value::Data(data) = value
            && let Some(data) = constants::adapted(data, dtype)
        {
            return Ok(data.parts.into_iter().next().expect("a scalar has a part"));
        }
        let message = format!("expected {}, got {value}", Type::Scalar(dtype));
        Err(self.error(node, ErrorKind::ArgumentMismatch, message))
    }

    /// The name of the variable that holds the state, the first argument.
    pub(crate) fn state_variable(&self, node: Node, arguments: &Arguments) -> Lowered<String> {
        let variable = arguments.positional.first().copied();
        let name = variable.and_then(|variable| self.syntax().name_of(variable));
        // The state of the caller is not advanced where a function has it as a parameter.
        let is_own = |name: &String| match self.frame().variables.get(name) {
            Some(variable) => matches!(variable.kind, VariableKind::Data(..) | VariableKind::Reference(_)),
            None => self.frame().locals.contains(name),
        };
        name.filter(is_own).ok_or_else(|| self.no_state(node))
    }

    /// The variable whose state of random numbers a call advances.
    pub(crate) fn advanced_state(&self, node: Node) -> Option<String> {
        let syntax = self.syntax();
        if syntax.kind(node) != Kind::Call {
            return None;
        }
        let callee = syntax.required(node, Field::Func);
        let path = self.environment.declarations.path(syntax, callee).or_else(|| syntax.name_of(callee))?;
        let name = path.strip_prefix("warp.").unwrap_or(&path);
        let advances = matches!(name, "randi" | "randf" | "randu") || library::advances_state(name);
        syntax.child(node, Field::Args).filter(|_| advances).and_then(|state| syntax.name_of(state))
    }

    fn no_state(&self, node: Node) -> LowerError {
        let message = "expected a local variable of type uint32 as the state";
        self.error(node, ErrorKind::ArgumentMismatch, message)
    }

    /// A variable of its own for a state that is an element of an array or a result: Warp passes a copy of these.
    pub(crate) fn state_copy(&mut self, node: Node, arguments: &Arguments) -> Lowered<Option<Location>> {
        let syntax = self.syntax();
        let Some(&state) = arguments.positional.first() else { return Ok(None) };
        let is_element = || {
            let variable = syntax.root_name(state).and_then(|name| self.frame().variables.get(&name));
            syntax.kind(state) == Kind::Subscript
                && variable.is_some_and(|variable| matches!(variable.kind, VariableKind::Array(_)))
        };
        if syntax.kind(state) != Kind::Call && !is_element() {
            return Ok(None);
        }
        let Value::Data(Data { ty: ty @ Type::Scalar(Dtype::U32), mut parts, .. }) = self.expression(state)? else {
            return Err(self.no_state(node));
        };
        let slot = self.emitter.local("state", Dtype::U32);
        self.emitter.emit(Stmt::Assign(slot, parts.remove(0)));
        Ok(Some(Self::whole(ty, Storage::Locals(vec![slot]))))
    }

    /// Replaces the state in a variable by the next one, which it returns.
    fn advance(&mut self, node: Node, arguments: &Arguments) -> Lowered<Expr> {
        if let Some(copy) = self.state_copy(node, arguments)? {
            let state = self.read(copy).parts.remove(0);
            let next = self.pcg(state);
            return Ok(self.emitter.temp(Dtype::U32, next));
        }
        let name = self.state_variable(node, arguments)?;
        let variable = arguments.positional[0];
        let state = self.expression(variable)?;
        let Value::Data(Data { ty: Type::Scalar(Dtype::U32), parts, .. }) = state else {
            return Err(self.no_state(node));
        };
        let next = self.pcg(parts[0].clone());
        let next = self.emitter.temp(Dtype::U32, next);
        self.assign_variable(variable, &name, Data::scalar(Dtype::U32, next.clone()).into())?;
        Ok(next)
    }

    fn pcg(&mut self, state: Expr) -> Expr {
        let dtype = Dtype::U32;
        let constant = |value: i64| scalars::integer(dtype, value);
        let shift = |a, b| scalars::binary(BinaryOp::Shr, dtype, a, b);
        let xor = |a, b| scalars::binary(BinaryOp::Xor, dtype, a, b);
        let b = scalars::add(dtype, scalars::mul(dtype, state, constant(747_796_405)), constant(2_891_336_453));
        let b = self.emitter.bind(dtype, b);
        let bits = scalars::add(dtype, shift(b.clone(), constant(28)), constant(4));
        let c = scalars::mul(dtype, xor(shift(b.clone(), bits), b), constant(277_803_737));
        let c = self.emitter.bind(dtype, c);
        xor(shift(c.clone(), constant(22)), c)
    }
}

/// An integer below the upper bound, by the remainder of the unsigned state.
fn in_range(state: Expr, range: Option<[Expr; 2]>, dtype: Dtype) -> Expr {
    let unsigned = Dtype::U32;
    let result = match range {
        Some([low, high]) => {
            let span = scalars::cast(dtype, unsigned, scalars::sub(dtype, high, low.clone()));
            let rest = scalars::binary(BinaryOp::Rem, unsigned, state, span);
            scalars::add(unsigned, rest, scalars::cast(dtype, unsigned, low))
        }
        None => state,
    };
    scalars::cast(unsigned, dtype, result)
}

/// A number from 0 to below 1 by the upper 24 bits, or in a range.
fn uniform(state: Expr, range: Option<[Expr; 2]>) -> Expr {
    let dtype = Dtype::F32;
    let bits = scalars::binary(BinaryOp::Shr, Dtype::U32, state, scalars::integer(Dtype::U32, 8));
    let unit = scalars::literal(dtype, 1.0 / 16_777_216.0);
    let number = scalars::mul(dtype, scalars::cast(Dtype::U32, dtype, bits), unit);
    match range {
        Some([low, high]) => {
            let span = scalars::sub(dtype, high, low.clone());
            scalars::add(dtype, scalars::mul(dtype, span, number), low)
        }
        None => number,
    }
}
