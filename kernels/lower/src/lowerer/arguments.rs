//! Arguments of calls, and their values.

use accelerd_ir::Dtype;
use accelerd_ir::kernel::Expr;
use accelerd_parser::{Field, Kind};

use crate::error::{ErrorKind, Lowered};
use crate::lowerer::Lowerer;
use crate::source::syntax::Node;
use crate::types::parameters::Annotation;
use crate::values::Value;

/// A parameter of a function of the source.
pub(crate) struct Parameter {
    pub(crate) node: Node,
    pub(crate) name: String,
    pub(crate) annotation: Annotation,
    pub(crate) default: Option<Node>,
}

/// The arguments of a call, as they are written.
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Node>,
    pub(crate) keywords: Vec<(String, Node)>,
}

impl Lowerer<'_> {
    /// The arguments of a call.
    pub(crate) fn arguments(&self, node: Node) -> Lowered<Arguments> {
        let syntax = self.syntax();
        let positional = self.limited(node, "arguments", syntax.children(node, Field::Args))?;
        let mut keywords = vec![];
        for keyword in self.limited(node, "arguments", syntax.children(node, Field::Keywords))? {
            let Some(name) = syntax.name(keyword) else {
                let message = "arguments from a dictionary are unsupported";
                return Err(self.error(keyword, ErrorKind::UnsupportedExpression, message));
            };
            keywords.push((name, syntax.required(keyword, Field::Value)));
        }
        Ok(Arguments { positional, keywords })
    }

    /// The values of arguments that must all be positional.
    pub(crate) fn values(&mut self, node: Node, arguments: &Arguments) -> Lowered<Vec<Value>> {
        if let Some((name, _)) = arguments.keywords.first() {
            let message = format!("unsupported keyword argument `{name}`");
            return Err(self.error(node, ErrorKind::ArgumentMismatch, message));
        }
        self.positional(arguments, |_| false)
    }

    /// The values of positional arguments, of which some are passed by reference.
    pub(crate) fn positional(
        &mut self,
        arguments: &Arguments,
        is_reference: impl Fn(usize) -> bool,
    ) -> Lowered<Vec<Value>> {
        let operands = self.spread(&arguments.positional, |this, index, argument| {
            if is_reference(index) { this.reference(argument) } else { this.operand(argument) }
        })?;
        let values = operands.into_iter().enumerate();
        Ok(values.map(|(index, operand)| if is_reference(index) { operand } else { self.loaded(operand) }).collect())
    }

    /// Operands by their positions. A tuple or vector with a star stands for its items.
    pub(crate) fn spread(
        &mut self,
        nodes: &[Node],
        operand: impl Fn(&mut Self, usize, Node) -> Lowered<Value>,
    ) -> Lowered<Vec<Value>> {
        let syntax = self.syntax();
        let mut operands = vec![];
        for &node in nodes {
            if syntax.kind(node) == Kind::Starred {
                let whole = self.expression(syntax.required(node, Field::Value))?;
                operands.extend(self.items_of(node, whole)?);
            } else {
                operands.push(operand(self, operands.len(), node)?);
            }
        }
        Ok(operands)
    }
}

/// The type and the expression of an argument that is a scalar.
pub(crate) fn scalar_of(value: &Value) -> Option<(Dtype, Expr)> {
    match value {
        Value::Data(data) => data.as_scalar().map(|(dtype, part)| (dtype, part.clone())),
        _ => None,
    }
}
