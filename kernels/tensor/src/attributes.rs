//! Reads the attributes of a node by name and type, and refuses those that the operation does not have.

use std::cell::{Cell, RefCell};

use accelerd_ir::Dtype;

use crate::{Attribute, GraphError, NodeSpec};

/// The attributes of a node. Each that is asked for counts as known to the operation.
pub(crate) struct Attributes<'a> {
    node: &'a NodeSpec,
    known: RefCell<Vec<&'static str>>,
    /// The attributes that may be asked for from now on, if the operation said which.
    announced: Cell<Option<&'static [&'static str]>>,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(node: &'a NodeSpec) -> Self {
        Self { node, known: RefCell::default(), announced: Cell::new(None) }
    }

    /// The attribute; `None` if it is not set.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'a Attribute> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            let is_announced = self.announced.get().is_none_or(|later| later.contains(&name));
            debug_assert!(
                is_announced,
                "{}: {name} is missing in the list of attributes asked for later",
                self.node.op
            );
            known.push(name);
        }
        self.node.attributes.get(name)
    }

    /// The node that has them.
    pub(crate) fn node(&self) -> &'a NodeSpec {
        self.node
    }

    /// An error of an attribute.
    pub(crate) fn error(&self, name: &str, expected: impl Into<String>, got: impl ToString) -> GraphError {
        GraphError::new(&self.node.name, format!("attributes.{name}"), expected, got)
    }

    /// An error of an attribute that is set.
    pub(crate) fn mismatch(&self, name: &str, expected: &str, got: &Attribute) -> GraphError {
        self.error(name, expected, got.describe())
    }

    pub(crate) fn bool(&self, name: &'static str) -> Result<Option<bool>, GraphError> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(self.mismatch(name, "a bool", other)),
        }
    }

    pub(crate) fn int(&self, name: &'static str) -> Result<Option<i64>, GraphError> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Int(value)) => Ok(Some(*value)),
            Some(other) => Err(self.mismatch(name, "an integer", other)),
        }
    }

    /// A number; an integer counts as one.
    pub(crate) fn float(&self, name: &'static str) -> Result<Option<f64>, GraphError> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Float(value)) => Ok(Some(*value)),
            Some(Attribute::Int(value)) => Ok(Some(*value as f64)),
            Some(other) => Err(self.mismatch(name, "a number", other)),
        }
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<Option<&'a str>, GraphError> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Text(value)) => Ok(Some(value)),
            Some(other) => Err(self.mismatch(name, "a string", other)),
        }
    }

    /// Integers; a single one counts as a list.
    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<Vec<i64>>, GraphError> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values.clone())),
            Some(Attribute::Int(value)) => Ok(Some(vec![*value])),
            Some(other) => Err(self.mismatch(name, "integers", other)),
        }
    }

    /// An element type by name.
    pub(crate) fn dtype(&self, name: &'static str) -> Result<Option<Dtype>, GraphError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let names = || Dtype::ALL.map(Dtype::name).join(", ");
        Dtype::parse(text).map(Some).ok_or_else(|| self.error(name, format!("one of {}", names()), text))
    }

    /// The value of an attribute that must be set. If it is missing, an unknown attribute, which may be a misspelling of it, is the
    /// error. `later` are the attributes that the operation asks for after it, and no others: debug builds check it.
    pub(crate) fn required<T>(
        &self,
        name: &'static str,
        value: Option<T>,
        later: &'static [&'static str],
    ) -> Result<T, GraphError> {
        if let Some(value) = value {
            self.announced.set(Some(later));
            return Ok(value);
        }
        for name in later {
            self.get(name);
        }
        self.get(name);
        self.finish()?;
        Err(self.error(name, "a value", "none"))
    }

    /// Refuses attributes that were not asked for.
    pub(crate) fn finish(&self) -> Result<(), GraphError> {
        let known = self.known.borrow();
        let unknown = self.node.attributes.keys().find(|name| !known.contains(&name.as_str()));
        let Some(name) = unknown else { return Ok(()) };
        let expected =
            if known.is_empty() { "no attribute".to_owned() } else { format!("one of {}", known.join(", ")) };
        Err(GraphError::new(&self.node.name, "attributes", expected, name))
    }
}

impl Attribute {
    /// Its kind, for an error.
    fn describe(&self) -> String {
        match self {
            Self::Bool(value) => format!("the bool {value}"),
            Self::Int(value) => format!("the integer {value}"),
            Self::Float(value) => format!("the number {value}"),
            Self::Text(value) => format!("the string {value:?}"),
            Self::Ints(values) => format!("{} integers", values.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(attributes: &[(&str, Attribute)]) -> NodeSpec {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        NodeSpec { name: "n".to_owned(), attributes, ..NodeSpec::default() }
    }

    #[test]
    fn attributes_have_types() {
        let node =
            node(&[("dim", Attribute::Int(-1)), ("eps", Attribute::Int(1)), ("dtype", Attribute::Text("f31".into()))]);
        let attributes = Attributes::new(&node);
        assert_eq!(attributes.ints("dim"), Ok(Some(vec![-1])));
        assert_eq!(attributes.float("eps"), Ok(Some(1.0)));
        assert_eq!(attributes.bool("keepdim"), Ok(None));
        let error = attributes.bool("dim").expect_err("an integer").to_string();
        assert_eq!(error, "node \"n\": attributes.dim: expected a bool, got the integer -1");
        let error = attributes.dtype("dtype").expect_err("no such type");
        assert_eq!((error.field.as_str(), error.got.as_str()), ("attributes.dtype", "f31"));
        let error = attributes.required::<i64>("k", None, &["keepdim", "eps"]).expect_err("missing");
        assert_eq!((error.field.as_str(), error.got.as_str()), ("attributes.k", "none"));
    }

    #[test]
    fn an_unknown_attribute_is_named_before_a_missing_one() {
        let node = node(&[("axis", Attribute::Int(0)), ("keepdim", Attribute::Bool(true))]);
        let attributes = Attributes::new(&node);
        let error = attributes.required::<i64>("dim", None, &["keepdim"]).expect_err("axis is unknown").to_string();
        assert_eq!(error, "node \"n\": attributes: expected one of keepdim, dim, got axis");
        assert_eq!(attributes.required("dim", Some(1), &[]), Ok(1), "the operation's end refuses it");
    }

    #[test]
    fn unknown_attributes_are_refused() {
        let node = node(&[("dim", Attribute::Int(0)), ("dims", Attribute::Int(0))]);
        let attributes = Attributes::new(&node);
        attributes.int("dim").expect("an integer");
        let error = attributes.finish().expect_err("dims is unknown").to_string();
        assert_eq!(error, "node \"n\": attributes: expected one of dim, got dims");
        attributes.int("dims").expect("an integer");
        assert_eq!(attributes.finish(), Ok(()));
    }
}
