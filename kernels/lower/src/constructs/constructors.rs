//! Lowers constructors: values of a type from those of its components.

use std::rc::Rc;

use accelerd_ir::kernel::Expr;
use accelerd_parser::Field;
use accelerd_parser::Kind;

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::Lowerer;
use crate::lowerer::arguments::Arguments;
use crate::source::syntax::Node;
use crate::types::Type;
use crate::types::parameters::{Annotation, RecordType};
use crate::values::constants;
use crate::values::scalars;
use crate::values::{Data, Value};

impl Lowerer<'_> {
    /// The values of a constructor's positional arguments, of which constants may be outside the range of their type.
    pub(crate) fn components(&mut self, arguments: &Arguments) -> Lowered<Vec<Value>> {
        let syntax = self.syntax();
        let items: Vec<_> = match arguments.positional[..] {
            [list] if syntax.kind(list) == Kind::List => syntax.children(list, Field::Elts).collect(),
            _ => arguments.positional.clone(),
        };
        let operands = self.spread(&items, |this, _, item| match syntax.kind(item) {
            Kind::Attribute | Kind::Subscript => this.operand(item),
            _ => this.expression_or_call(item),
        })?;
        Ok(operands.into_iter().map(|operand| self.loaded(operand)).collect())
    }

    /// A value of a type from the arguments of its constructor.
    pub(crate) fn construct(&mut self, node: Node, ty: &Type, arguments: &Arguments) -> Lowered<Data> {
        if matches!(ty, Type::Struct(_)) {
            return self.construct_struct(node, ty, arguments);
        }
        let mut values = self.components(arguments)?;
        let names: &[&str] = match ty {
            Type::Quat(_) => &["x", "y", "z", "w"],
            Type::Transform(_) => &["p", "q"],
            _ => &[],
        };
        for (name, argument) in &arguments.keywords {
            if names.get(values.len()) != Some(&name.as_str()) {
                let message = format!("unsupported keyword argument `{name}`");
                return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
            }
            values.push(self.expression_or_call(*argument)?);
        }
        self.construct_from(node, ty, values)
    }

    /// A struct: zero, or its fields in order.
    fn construct_struct(&mut self, node: Node, ty: &Type, arguments: &Arguments) -> Lowered<Data> {
        let Type::Struct(structure) = ty else { unreachable!("a struct") };
        if arguments.positional.is_empty() && arguments.keywords.is_empty() {
            return Ok(Data::zero(ty));
        }
        self.expect_fields(node, arguments, structure.fields.len(), &structure.name)?;
        let mut parts = vec![];
        for (&argument, (_, field)) in arguments.positional.iter().zip(&structure.fields) {
            let value = self.expression(argument)?;
            match self.checked_argument(argument, &Annotation::Data(field.clone()), value)? {
                Value::Data(data) => parts.extend(data.parts),
                _ => unreachable!("a field has components"),
            }
        }
        Ok(Data::new(ty.clone(), parts))
    }

    /// A struct with arrays: its fields in order, or zeros and no arrays.
    pub(crate) fn construct_record(
        &mut self,
        node: Node,
        record: &Rc<RecordType>,
        arguments: &Arguments,
    ) -> Lowered<Value> {
        if arguments.positional.is_empty() && arguments.keywords.is_empty() {
            return Ok(self.empty_record(record));
        }
        self.expect_fields(node, arguments, record.fields.len(), &record.name)?;
        let mut fields = vec![];
        for (&argument, (_, annotation)) in arguments.positional.iter().zip(&record.fields) {
            let value = self.expression(argument)?;
            fields.push(self.checked_argument(argument, annotation, value)?);
        }
        Ok(Value::Record(record.clone(), fields))
    }

    fn expect_fields(&self, node: Node, arguments: &Arguments, count: usize, name: &str) -> Lowered<()> {
        if arguments.positional.len() == count && arguments.keywords.is_empty() {
            return Ok(());
        }
        let message = format!("expected {count} fields of struct `{name}`");
        Err(self.error(node, ErrorKind::ArgumentMismatch, message))
    }

    /// A vector, matrix, quaternion, transform or scalar from values.
    pub(crate) fn construct_from(&mut self, node: Node, ty: &Type, values: Vec<Value>) -> Lowered<Data> {
        let message = {
            let got: Vec<_> = values.iter().map(ToString::to_string).collect();
            format!("{ty} cannot be made of ({})", got.join(", "))
        };
        let mut arguments = vec![];
        for value in values {
            let Value::Data(data) = value else {
                return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
            };
            arguments.push(data);
        }
        let made = self.made_of(ty, &arguments);
        made.ok_or_else(|| self.error(node, ErrorKind::ArgumentMismatch, message))
    }

    fn made_of(&mut self, ty: &Type, arguments: &[Data]) -> Option<Data> {
        let dtype = ty.scalar()?;
        if arguments.is_empty() {
            return Some(Data::zero(ty));
        }
        let count = ty.count();
        // Constants convert as they are written; other scalars have the type of the components.
        let component = |data: &Data| match data.constant {
            Some(constant) => Some(Expr::Literal(constants::convert(constant, dtype))),
            None => data.as_scalar().filter(|(given, _)| *given == dtype).map(|(_, part)| part.clone()),
        };
        let components = || arguments.iter().map(component).collect::<Option<Vec<_>>>();
        let types: Vec<_> = arguments.iter().map(|argument| &argument.ty).collect();
        let parts = match (ty, &types[..]) {
            (Type::Scalar(_), [Type::Scalar(from)]) => {
                let from = *from;
                match arguments[0].constant {
                    Some(constant) => vec![Expr::Literal(constants::convert(constant, dtype))],
                    None => vec![scalars::cast(from, dtype, arguments[0].parts[0].clone())],
                }
            }
            (Type::Vector(_, length), [Type::Vector(from, other)]) if length == other => {
                let from = *from;
                arguments[0].parts.iter().map(|part| scalars::cast(from, dtype, part.clone())).collect()
            }
            (Type::Matrix(_, rows, columns), [Type::Matrix(from, other_rows, other_columns)])
                if (rows, columns) == (other_rows, other_columns) =>
            {
                let from = *from;
                arguments[0].parts.iter().map(|part| scalars::cast(from, dtype, part.clone())).collect()
            }
            (Type::Vector(..) | Type::Matrix(..) | Type::Transform(_), [Type::Scalar(_)]) if count > 1 => {
                let part = self.emitter.bind(dtype, component(&arguments[0])?);
                vec![part; count]
            }
            (Type::Vector(_, 6), [Type::Vector(a, 3), Type::Vector(b, 3)])
            | (Type::Transform(_), [Type::Vector(a, 3), Type::Quat(b)])
                if *a == dtype && *b == dtype =>
            {
                arguments.iter().flat_map(|argument| argument.parts.clone()).collect()
            }
            (Type::Quat(_), [Type::Vector(given, 3), Type::Scalar(_)]) if *given == dtype => {
                let mut parts = arguments[0].parts.clone();
                parts.push(component(&arguments[1])?);
                parts
            }
            (Type::Quat(_), [Type::Quat(from)]) => {
                let from = *from;
                arguments[0].parts.iter().map(|part| scalars::cast(from, dtype, part.clone())).collect()
            }
            (Type::Transform(_), [Type::Transform(from)]) => {
                let from = *from;
                arguments[0].parts.iter().map(|part| scalars::cast(from, dtype, part.clone())).collect()
            }
            _ if types.len() == count => components()?,
            _ => return None,
        };
        Some(Data::new(ty.clone(), parts))
    }
}
