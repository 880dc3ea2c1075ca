//! Lowers expressions of a native snippet, with C's precedence, promotions and usual arithmetic conversions.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;
use accelerd_ir::scalar::{BinaryOp, Literal, UnaryOp};
use accelerd_parser::Operator;

use crate::error::Lowered;
use crate::lowerer::Lowerer;
use crate::types::Type;
use crate::values::scalars;
use crate::values::{Axis, Data, Location, Storage, View};
use crate::warp::native::Snippet;
use crate::warp::native::operands::{self, Operand, Place, described};
use crate::warp::native::tokens::Token;
use crate::warp::operators::{c_common, scalar_comparison};

/// The operators of two operands by precedence, the lowest first; after `||` and `&&`.
const BINARY: [&[(&str, Operation)]; 10] = [
    &[("||", Operation::Or)],
    &[("&&", Operation::And)],
    &[("|", Operation::Bits(BinaryOp::Or))],
    &[("^", Operation::Bits(BinaryOp::Xor))],
    &[("&", Operation::Bits(BinaryOp::And))],
    &[("==", Operation::Compare(Operator::Eq)), ("!=", Operation::Compare(Operator::NotEq))],
    &[
        ("<", Operation::Compare(Operator::Lt)),
        ("<=", Operation::Compare(Operator::LtE)),
        (">", Operation::Compare(Operator::Gt)),
        (">=", Operation::Compare(Operator::GtE)),
    ],
    &[("<<", Operation::Shift(BinaryOp::Shl)), (">>", Operation::Shift(BinaryOp::Shr))],
    &[("+", Operation::Arithmetic(BinaryOp::Add)), ("-", Operation::Arithmetic(BinaryOp::Sub))],
    &[
        ("*", Operation::Arithmetic(BinaryOp::Mul)),
        ("/", Operation::Arithmetic(BinaryOp::Div)),
        ("%", Operation::Bits(BinaryOp::Rem)),
    ],
];

#[derive(Clone, Copy)]
enum Operation {
    Or,
    And,
    Compare(Operator),
    Arithmetic(BinaryOp),
    /// An operation of integers.
    Bits(BinaryOp),
    /// An operation whose result has the type of the left operand.
    Shift(BinaryOp),
}

impl Lowerer<'_> {
    /// Expressions with commas between them, of which the last has the value.
    pub(super) fn native_expression(&mut self, s: &mut Snippet<'_>) -> Lowered<Operand> {
        let mut value = self.native_assignment(s)?;
        while s.accept(",") {
            value = self.native_assignment(s)?;
        }
        Ok(value)
    }

    pub(super) fn native_truth(&mut self, s: &mut Snippet<'_>) -> Lowered<Expr> {
        let value = self.native_expression(s)?;
        self.native_bool(s, value)
    }

    fn native_bool(&mut self, s: &Snippet<'_>, operand: Operand) -> Lowered<Expr> {
        let (dtype, value) = self.native_scalar(s, operand)?;
        Ok(scalars::truthy(dtype, value))
    }

    pub(super) fn native_assignment(&mut self, s: &mut Snippet<'_>) -> Lowered<Operand> {
        self.nested(s.node, |this| {
            let target = this.native_conditional(s)?;
            let Some(Token::Symbol(symbol)) = s.next() else { return Ok(target) };
            let operator = symbol.strip_suffix('=').filter(|_| !matches!(symbol, "==" | "!=" | "<=" | ">="));
            let Some(operator) = operator else { return Ok(target) };
            let Operand::Place(place) = target.clone() else {
                let found = described(&target);
                return Err(
                    this.native_error(s, format!("expected a variable or an element before `{symbol}`, got {found}"))
                );
            };
            s.at += 1;
            let mut value = this.native_assignment(s)?;
            if let Some((_, operation)) = operation(operator) {
                value = this.native_operation(s, operation, target, value)?;
            }
            this.native_assign(s, &place, value).map(Operand::Value)
        })
    }

    fn native_conditional(&mut self, s: &mut Snippet<'_>) -> Lowered<Operand> {
        let condition = self.native_binary(s, 0)?;
        if !s.accept("?") {
            return Ok(condition);
        }
        let condition = self.native_bool(s, condition)?;
        let branch = |this: &mut Self, s: &mut Snippet<'_>| {
            this.emitter.open();
            let value = this.native_assignment(s).and_then(|value| this.native_value(s, value));
            let stmts = this.emitter.close();
            value.map(|data| (data, stmts))
        };
        let (then, then_stmts) = branch(self, s)?;
        self.native_expect(s, ":")?;
        let (otherwise, stmts) = branch(self, s)?;
        let ty = match (&then.ty, &otherwise.ty) {
            (Type::Scalar(a), Type::Scalar(b)) if a != b => c_common(*a, *b).map_or(then.ty.clone(), Type::Scalar),
            _ => then.ty.clone(),
        };
        let then = self.native_converted(s, then, &ty)?;
        let otherwise = self.native_converted(s, otherwise, &ty)?;
        Ok(Operand::Value(self.join(condition, (then, then_stmts), (otherwise, stmts))))
    }

    /// Operands with operators of a precedence or a higher one between them.
    fn native_binary(&mut self, s: &mut Snippet<'_>, lowest: usize) -> Lowered<Operand> {
        let mut left = self.native_unary(s)?;
        loop {
            let operator = s.next().and_then(|token| operation(token.text()));
            let Some((precedence, operation)) = operator.filter(|(precedence, _)| *precedence >= lowest) else {
                return Ok(left);
            };
            s.at += 1;
            left = match operation {
                Operation::Or | Operation::And => self.native_short_circuit(s, operation, left, precedence)?,
                _ => {
                    let left = Operand::Value(self.native_value(s, left)?);
                    let right = self.native_binary(s, precedence + 1)?;
                    self.native_operation(s, operation, left, right)?
                }
            };
        }
    }

    /// `&&` and `||`: the right operand is evaluated only if it decides.
    fn native_short_circuit(
        &mut self,
        s: &mut Snippet<'_>,
        operation: Operation,
        left: Operand,
        precedence: usize,
    ) -> Lowered<Operand> {
        let left = self.native_bool(s, left)?;
        self.emitter.open();
        let right = self.native_binary(s, precedence + 1).and_then(|right| self.native_bool(s, right));
        let stmts = self.emitter.close();
        let is_or = matches!(operation, Operation::Or);
        let known = Data::scalar(Dtype::Bool, scalars::truth(is_or));
        let right = (Data::scalar(Dtype::Bool, right?), stmts);
        Ok(Operand::Value(match (right.1.is_empty(), is_or) {
            (true, true) => Data::scalar(Dtype::Bool, scalars::or(left, right.0.parts[0].clone())),
            (true, false) => Data::scalar(Dtype::Bool, scalars::and(left, right.0.parts[0].clone())),
            (false, true) => self.join(left, (known, vec![]), right),
            (false, false) => self.join(left, right, (known, vec![])),
        }))
    }

    fn native_operation(
        &mut self,
        s: &Snippet<'_>,
        operation: Operation,
        left: Operand,
        right: Operand,
    ) -> Lowered<Operand> {
        let (a, left) = self.native_scalar(s, left)?;
        let (b, right) = self.native_scalar(s, right)?;
        let refuse = |this: &Self| {
            Err(this.native_error(s, format!("unsupported operation of {} and {}", Type::Scalar(a), Type::Scalar(b))))
        };
        let common = match operation {
            // The number of bits does not determine the type.
            Operation::Shift(_) => c_common(a, a),
            _ => c_common(a, b),
        };
        let Some(common) = common else { return refuse(self) };
        let is_of_integers = matches!(operation, Operation::Bits(_) | Operation::Shift(_));
        if is_of_integers && [a, b].iter().any(|dtype| dtype.is_float()) {
            return refuse(self);
        }
        let left = scalars::cast(a, common, left);
        let right = scalars::cast(b, common, right);
        let (dtype, value) = match operation {
            Operation::Compare(op) => (Dtype::Bool, scalar_comparison(op, common, left, right).expect("a comparison")),
            Operation::Arithmetic(op) | Operation::Bits(op) | Operation::Shift(op) => {
                (common, scalars::binary(op, common, left, right))
            }
            Operation::Or | Operation::And => return refuse(self),
        };
        Ok(Operand::Value(self.native_shallow(Data::scalar(dtype, value))))
    }

    fn native_unary(&mut self, s: &mut Snippet<'_>) -> Lowered<Operand> {
        self.nested(s.node, |this| {
            let Some(token) = s.next() else { return Err(this.native_unsupported(s)) };
            let start = s.at;
            s.at += 1;
            match token.text() {
                operator @ ("-" | "+" | "~" | "!") => {
                    let operand = this.native_unary(s)?;
                    this.native_unary_operation(s, operator, operand)
                }
                operator @ ("++" | "--") => {
                    let operand = this.native_unary(s)?;
                    this.native_step(s, operator, operand)
                }
                "*" => match this.native_unary(s)? {
                    Operand::Address(place) => Ok(Operand::Place(place)),
                    Operand::Pointer(view) => {
                        this.native_element(s, view, vec![(Dtype::I32, scalars::integer(Dtype::I32, 0))])
                    }
                    other => {
                        Err(this.native_error(s, format!("expected an address after `*`, got {}", described(&other))))
                    }
                },
                "&" => match this.native_unary(s)? {
                    Operand::Place(place) => Ok(Operand::Address(place)),
                    other => Err(this.native_error(s, format!("cannot take the address of {}", described(&other)))),
                },
                "(" => {
                    if let Some(ty) = operands::ty(s)
                        && (s.is_next(")") || s.is_next("*"))
                    {
                        return this.native_c_cast(s, ty);
                    }
                    s.at = start + 1;
                    let value = this.native_expression(s)?;
                    this.native_expect(s, ")")?;
                    this.native_postfix(s, value)
                }
                _ => {
                    s.at = start;
                    let value = this.native_primary(s)?;
                    this.native_postfix(s, value)
                }
            }
        })
    }

    fn native_unary_operation(&mut self, s: &Snippet<'_>, operator: &str, operand: Operand) -> Lowered<Operand> {
        if operator == "!" {
            let value = self.native_bool(s, operand)?;
            return Ok(Operand::Value(Data::scalar(Dtype::Bool, scalars::not(value))));
        }
        let (dtype, value) = self.native_scalar(s, operand)?;
        let to = promoted(dtype);
        if dtype.compute() != dtype || operator == "~" && to.is_float() {
            return Err(self.native_error(s, format!("unsupported `{operator}` of {}", Type::Scalar(dtype))));
        }
        let value = scalars::cast(dtype, to, value);
        let value = match operator {
            "-" => scalars::neg(to, value),
            "~" => scalars::unary(UnaryOp::Not, to, value),
            _ => value,
        };
        Ok(Operand::Value(self.native_shallow(Data::scalar(to, value))))
    }

    /// Adds or subtracts 1; the result is the new value.
    fn native_step(&mut self, s: &Snippet<'_>, operator: &str, operand: Operand) -> Lowered<Operand> {
        let Operand::Place(place) = operand.clone() else {
            return Err(self.native_error(s, format!("unsupported `{operator}` of {}", described(&operand))));
        };
        let op = if operator == "++" { BinaryOp::Add } else { BinaryOp::Sub };
        let one = Operand::Value(Data::scalar(Dtype::I32, scalars::integer(Dtype::I32, 1)));
        let value = self.native_operation(s, Operation::Arithmetic(op), operand, one)?;
        self.native_assign(s, &place, value).map(Operand::Value)
    }

    /// A cast in C's notation, from the type on.
    fn native_c_cast(&mut self, s: &mut Snippet<'_>, ty: Option<Dtype>) -> Lowered<Operand> {
        let is_address = s.accept("*");
        self.native_expect(s, ")")?;
        let operand = self.native_unary(s)?;
        self.native_cast(s, ty, is_address, operand)
    }

    fn native_cast(
        &mut self,
        s: &Snippet<'_>,
        ty: Option<Dtype>,
        is_address: bool,
        operand: Operand,
    ) -> Lowered<Operand> {
        match (operand, ty) {
            (Operand::Address(place), Some(dtype)) if is_address => {
                self.native_punned(s, place, dtype).map(Operand::Address)
            }
            (operand @ (Operand::Value(_) | Operand::Place(_)), Some(dtype)) if !is_address => {
                let data = self.native_value(s, operand)?;
                self.native_converted(s, data, &Type::Scalar(dtype)).map(Operand::Value)
            }
            (other, _) => Err(self.native_error(s, format!("unsupported cast of {}", described(&other)))),
        }
    }

    /// A place whose bits are those of another type.
    fn native_punned(&self, s: &Snippet<'_>, place: Place, dtype: Dtype) -> Lowered<Place> {
        let is_equal = place.location.ty.scalar().is_some_and(|own| own.size() == dtype.size() && own != Dtype::Bool);
        if is_equal && dtype != Dtype::Bool && matches!(place.location.ty, Type::Scalar(_)) {
            return Ok(Place { bits: Some(dtype), ..place });
        }
        let message = format!("expected types of equal size, got {} and {}", place.location.ty, Type::Scalar(dtype));
        Err(self.native_error(s, message))
    }

    fn native_primary(&mut self, s: &mut Snippet<'_>) -> Lowered<Operand> {
        if let Some(Token::Number(text)) = s.next() {
            let Some(literal) = number(text) else { return Err(self.native_unsupported(s)) };
            s.at += 1;
            return Ok(Operand::Value(Data::literal(literal)));
        }
        if let Some(ty) = operands::ty(s) {
            // `float(x)`
            self.native_expect(s, "(")?;
            let operand = self.native_expression(s)?;
            self.native_expect(s, ")")?;
            return self.native_cast(s, ty, false, operand);
        }
        let start = s.at;
        let Some(name) = s.word() else { return Err(self.native_unsupported(s)) };
        match name {
            "static_cast" | "reinterpret_cast" | "std::bit_cast" => return self.native_named_cast(s, name),
            "sizeof" => return self.native_size(s),
            _ => {}
        }
        if s.is_next("(") {
            s.at += 1;
            let mut arguments = vec![];
            while !s.accept(")") {
                if !arguments.is_empty() {
                    self.native_expect(s, ",")?;
                }
                arguments.push(self.native_assignment(s)?);
            }
            return self.native_call(s, name, arguments);
        }
        if let Some(operand) = s.variable(name) {
            return Ok(operand.clone());
        }
        let Some(literal) = constant(name) else {
            s.at = start;
            return Err(self.native_unsupported(s));
        };
        Ok(Operand::Value(Data::literal(literal)))
    }

    /// `static_cast<T>(x)`, `reinterpret_cast<T&>(x)`, `reinterpret_cast<T*>(&x)` and `std::bit_cast<T>(x)`.
    fn native_named_cast(&mut self, s: &mut Snippet<'_>, name: &str) -> Lowered<Operand> {
        self.native_expect(s, "<")?;
        let Some(ty) = operands::ty(s) else { return Err(self.native_unsupported(s)) };
        let is_address = s.accept("*");
        let is_reference = s.accept("&");
        self.native_expect(s, ">")?;
        self.native_expect(s, "(")?;
        let operand = self.native_expression(s)?;
        self.native_expect(s, ")")?;
        match (name, operand, ty) {
            ("reinterpret_cast", Operand::Place(place), Some(dtype)) if is_reference => {
                self.native_punned(s, place, dtype).map(Operand::Place)
            }
            // A parameter that the snippet does not change is a value.
            ("reinterpret_cast", operand @ Operand::Value(_), Some(dtype)) if is_reference => {
                let data = self.native_value(s, operand)?;
                self.native_bits(s, data, dtype).map(Operand::Value)
            }
            ("std::bit_cast", operand, Some(dtype)) if !is_address && !is_reference => {
                let data = self.native_value(s, operand)?;
                self.native_bits(s, data, dtype).map(Operand::Value)
            }
            ("static_cast", operand, ty) if !is_address && !is_reference => self.native_cast(s, ty, false, operand),
            ("reinterpret_cast", operand @ Operand::Address(_), ty) if is_address => {
                self.native_cast(s, ty, true, operand)
            }
            (_, other, _) => Err(self.native_error(s, format!("unsupported `{name}` of {}", described(&other)))),
        }
    }

    /// `sizeof(T)` or `sizeof(x)`.
    fn native_size(&mut self, s: &mut Snippet<'_>) -> Lowered<Operand> {
        self.native_expect(s, "(")?;
        let dtype = match operands::ty(s) {
            Some(ty) => ty,
            None => match s.word().and_then(|name| s.variable(name)) {
                Some(
                    Operand::Place(Place { location: Location { ty: Type::Scalar(dtype), .. }, .. })
                    | Operand::Value(Data { ty: Type::Scalar(dtype), .. }),
                ) => Some(*dtype),
                _ => None,
            },
        };
        let Some(dtype) = dtype else { return Err(self.native_error(s, "unsupported `sizeof`")) };
        self.native_expect(s, ")")?;
        Ok(Operand::Value(Data::literal(Literal::from_bits(Dtype::U64, dtype.size() as u64))))
    }

    /// Subscripts, members, `++` and `--` after an operand.
    fn native_postfix(&mut self, s: &mut Snippet<'_>, mut operand: Operand) -> Lowered<Operand> {
        loop {
            if s.accept("[") {
                let index = self.native_expression(s)?;
                let index = self.native_scalar(s, index)?;
                self.native_expect(s, "]")?;
                operand = self.native_subscript(s, operand, index)?;
            } else if s.accept(".") {
                let Some(member) = s.word() else { return Err(self.native_unsupported(s)) };
                operand = self.native_member(s, operand, member)?;
            } else if s.is_next("++") || s.is_next("--") {
                let operator = s.next().map_or("", Token::text);
                s.at += 1;
                let data = self.native_value(s, operand.clone())?;
                let types = data.ty.components();
                let parts = data.parts.into_iter().zip(types).map(|(part, dtype)| self.emitter.temp(dtype, part));
                let previous = Data::new(data.ty, parts.collect());
                self.native_step(s, operator, operand)?;
                operand = Operand::Value(previous);
            } else {
                return Ok(operand);
            }
        }
    }

    fn native_member(&mut self, s: &Snippet<'_>, operand: Operand, member: &str) -> Lowered<Operand> {
        let found = described(&operand);
        let component = ["x", "y", "z", "w"].into_iter().zip(0..).find_map(|(name, at)| (name == member).then_some(at));
        match (operand, member) {
            (Operand::Array(view), "data") if view.rank() == 1 => Ok(Operand::Pointer(view)),
            (Operand::Array(view), "shape") => Ok(Operand::Shape(view)),
            (shape @ Operand::Shape(_), "dims") => Ok(shape),
            (Operand::Array(view), "ndim") => {
                let rank = i64::try_from(view.rank()).expect("at most 4");
                Ok(Operand::Value(Data::scalar(Dtype::I32, scalars::integer(Dtype::I32, rank))))
            }
            (Operand::Union(place, members), _) if members.iter().any(|(name, _)| name == member) => {
                let (_, dtype) = members.into_iter().find(|(name, _)| name == member).expect("checked");
                self.native_punned(s, place, dtype).map(Operand::Place)
            }
            // The components of a vector.
            (vector @ (Operand::Value(_) | Operand::Place(_)), "c") => Ok(vector),
            (vector, _) if let Some(at) = component => {
                self.native_subscript(s, vector, (Dtype::I32, scalars::integer(Dtype::I32, at)))
            }
            _ => Err(self.native_error(s, format!("unsupported member `{member}` of {found}"))),
        }
    }

    fn native_subscript(&mut self, s: &Snippet<'_>, operand: Operand, index: (Dtype, Expr)) -> Lowered<Operand> {
        let known = match &index.1 {
            Expr::Literal(literal) if index.0.is_integer() => usize::try_from(literal.as_i64()).ok(),
            _ => None,
        };
        match (operand, known) {
            (Operand::Pointer(view), _) => self.native_element(s, view, vec![index]),
            (Operand::Array(view), _) if view.rank() == 1 => self.native_element(s, view, vec![index]),
            (Operand::Shape(view), Some(nth)) if nth < 4 => {
                let extent = if nth < view.rank() { view.extent(nth) } else { scalars::integer(Dtype::I32, 0) };
                Ok(Operand::Value(Data::scalar(Dtype::I32, extent)))
            }
            (Operand::Value(Data { ty: Type::Vector(dtype, length), parts, .. }), Some(nth))
                if nth < length as usize =>
            {
                Ok(Operand::Value(Data::scalar(dtype, parts[nth].clone())))
            }
            (Operand::Place(Place { location, bits: None }), Some(nth))
                if let Type::Vector(dtype, length) = location.ty
                    && nth < length as usize
                    && location.index.is_none() =>
            {
                let choices = vec![vec![location.choices[0][nth]]];
                let location = Location { ty: Type::Scalar(dtype), choices, ..location };
                Ok(Operand::Place(Place { location, bits: None }))
            }
            (other, _) => Err(self.native_error(s, format!("unsupported subscript of {}", described(&other)))),
        }
    }

    /// An element of an array.
    pub(super) fn native_element(
        &mut self,
        s: &Snippet<'_>,
        view: View,
        indices: Vec<(Dtype, Expr)>,
    ) -> Lowered<Operand> {
        let mut element = view.clone();
        for ((dtype, index), dim) in indices.into_iter().zip(view.open()) {
            if !dtype.is_integer() {
                return Err(
                    self.native_error(s, format!("expected an integer as an index, got {}", Type::Scalar(dtype)))
                );
            }
            let (index, dtype) = Self::index_of(dtype, index);
            // The variables of the index may change while the address is in use.
            let index = self.emitter.temp_unless_literal(dtype, index);
            let index = match &view.axes[dim] {
                Axis::Slice(slice) => self.index_in(s.node, slice, dtype, index),
                Axis::All | Axis::Index(_) => index,
            };
            element.axes[dim] = Axis::Index(self.selected(s.node, &view, dim, index));
        }
        let Some(indices) = element.indices() else {
            return Err(self.native_error(s, format!("expected {} indices of an array", view.rank())));
        };
        let storage = Storage::Element { array: view.array, indices, site: self.syntax().site(s.node) };
        Ok(Operand::Place(Place { location: Self::whole(view.element, storage), bits: None }))
    }

    fn native_shallow(&mut self, data: Data) -> Data {
        match self.shallow(data.into()) {
            crate::values::Value::Data(data) => data,
            _ => unreachable!("a value with components stays one"),
        }
    }
}

/// The precedence and operation of an operator of two operands.
fn operation(symbol: &str) -> Option<(usize, Operation)> {
    BINARY.iter().enumerate().find_map(|(precedence, operators)| {
        let (_, operation) = operators.iter().find(|(known, _)| *known == symbol)?;
        Some((precedence, *operation))
    })
}

/// The type in which C computes with a scalar.
pub(super) fn promoted(dtype: Dtype) -> Dtype {
    if dtype.is_float() || dtype.size() >= 4 { dtype } else { Dtype::I32 }
}

fn constant(name: &str) -> Option<Literal> {
    Some(match name {
        "true" | "false" => Literal::from_i64(Dtype::Bool, (name == "true").into()),
        "INFINITY" => Literal::from_f64(Dtype::F32, f64::INFINITY),
        "NAN" => Literal::from_f64(Dtype::F32, f64::NAN),
        "FLT_MAX" => Literal::from_f64(Dtype::F32, f32::MAX.into()),
        "FLT_MIN" => Literal::from_f64(Dtype::F32, f32::MIN_POSITIVE.into()),
        "FLT_EPSILON" => Literal::from_f64(Dtype::F32, f32::EPSILON.into()),
        "INT_MAX" => Literal::from_i64(Dtype::I32, i32::MAX.into()),
        "INT_MIN" => Literal::from_i64(Dtype::I32, i32::MIN.into()),
        "UINT_MAX" => Literal::from_i64(Dtype::U32, u32::MAX.into()),
        _ => return None,
    })
}

/// A number of C. An integer has the first type that can represent it, of those that its suffix and base admit.
fn number(text: &str) -> Option<Literal> {
    let lower = text.to_ascii_lowercase();
    let hexadecimal = lower.strip_prefix("0x");
    if hexadecimal.is_none() && lower.contains(['.', 'e', 'f']) {
        let (digits, dtype) =
            lower.strip_suffix('f').map_or((lower.as_str(), Dtype::F64), |digits| (digits, Dtype::F32));
        let value: f64 = digits.parse().ok()?;
        // Rounded once.
        let single = || digits.parse::<f32>().ok().map(f64::from);
        return Some(Literal::from_f64(dtype, if dtype == Dtype::F32 { single()? } else { value }));
    }
    let digits = hexadecimal.unwrap_or(&lower);
    let suffix = digits.find(['u', 'l']).map_or("", |at| &digits[at..]);
    if !matches!(suffix, "" | "u" | "l" | "ll" | "ul" | "ull" | "lu" | "llu") {
        return None;
    }
    let digits = &digits[..digits.len() - suffix.len()];
    // A decimal number that starts with 0 is octal.
    if hexadecimal.is_none() && digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    let value = u64::from_str_radix(digits, if hexadecimal.is_some() { 16 } else { 10 }).ok()?;
    let admits_unsigned = suffix.contains('u') || hexadecimal.is_some();
    let is_long = suffix.contains('l');
    let dtype = [
        (Dtype::I32, u64::from(i32::MAX.unsigned_abs())),
        (Dtype::U32, u32::MAX.into()),
        (Dtype::I64, i64::MAX.unsigned_abs()),
        (Dtype::U64, u64::MAX),
    ]
    .into_iter()
    .find(|(dtype, max)| {
        let is_admitted = if dtype.is_signed() { !suffix.contains('u') } else { admits_unsigned };
        is_admitted && value <= *max && (dtype.size() == 8 || !is_long)
    })?
    .0;
    Some(Literal::from_bits(dtype, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_types_of_c() {
        for (text, dtype, bits) in [
            ("1", Dtype::I32, 1),
            ("2147483648", Dtype::I64, 1 << 31),
            ("0x80000000", Dtype::U32, 1 << 31),
            ("0x7FFFFFFFFFFFFFFFull", Dtype::U64, i64::MAX as u64),
            ("1LL", Dtype::I64, 1),
            ("7u", Dtype::U32, 7),
            ("0.5f", Dtype::F32, 0x3f00_0000),
            ("1e0", Dtype::F64, 0x3ff0_0000_0000_0000),
        ] {
            let literal = number(text).expect(text);
            assert_eq!((literal.dtype(), literal.bits()), (dtype, bits), "{text}");
        }
        for text in ["017", "1x", "0b1", "18446744073709551616", "1.5q"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
