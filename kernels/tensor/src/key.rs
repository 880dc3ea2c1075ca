//! The key of a plan: all that the plan depends on.

use std::{collections::HashMap, sync::Arc};

use crate::{Attribute, GraphSpec, graph::result_of};

/// Identifies the plan of a graph: graphs with equal keys have equal plans. Names of nodes and inputs do not matter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphKey(Arc<[u8]>);

impl GraphKey {
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl GraphSpec {
    /// Its key; `None` if names are unknown or used twice.
    pub fn key(&self) -> Option<GraphKey> {
        let inputs = self.inputs.iter().map(|(name, _)| name);
        let names = inputs.chain(self.nodes.iter().map(|node| &node.name));
        let places: HashMap<&str, usize> = names.enumerate().map(|(nth, name)| (name.as_str(), nth)).collect();
        if places.len() != self.inputs.len() + self.nodes.len() || places.contains_key("") {
            return None;
        }
        let mut key = Encoder::default();
        key.number(self.inputs.len());
        for (_, of) in &self.inputs {
            key.text(of.dtype.name());
            key.numbers(of.shape.iter().copied());
        }
        key.number(self.nodes.len());
        for node in &self.nodes {
            key.text(&node.op);
            key.places(&node.inputs, &places)?;
            key.number(node.attributes.len());
            for (name, attribute) in &node.attributes {
                key.text(name);
                key.attribute(attribute);
            }
        }
        key.places(&self.outputs, &places)?;
        Some(GraphKey(key.0.into()))
    }
}

/// Writes parts so that no two lists of parts have equal bytes: each says how long it is.
#[derive(Default)]
struct Encoder(Vec<u8>);

impl Encoder {
    fn number(&mut self, number: usize) {
        self.word(number as u64);
    }

    fn word(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = usize>) {
        self.number(numbers.len());
        for number in numbers {
            self.number(number);
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.extend(text.as_bytes());
    }

    /// Where names are defined, and which results of these they mean.
    fn places(&mut self, names: &[String], places: &HashMap<&str, usize>) -> Option<()> {
        self.number(names.len());
        names.iter().try_for_each(|name| {
            let (node, result) = match places.get(name.as_str()) {
                Some(_) => (name.as_str(), 0),
                None => result_of(name)?,
            };
            self.number(*places.get(node)?);
            self.number(result);
            Some(())
        })
    }

    fn attribute(&mut self, attribute: &Attribute) {
        let (kind, word) = match attribute {
            Attribute::Bool(value) => (0, u64::from(*value)),
            Attribute::Int(value) => (1, value.cast_unsigned()),
            Attribute::Float(value) => (2, value.to_bits()),
            Attribute::Text(text) => (3, text.len() as u64),
            Attribute::Ints(values) => (4, values.len() as u64),
        };
        self.0.push(kind);
        self.word(word);
        match attribute {
            Attribute::Text(text) => self.0.extend(text.as_bytes()),
            Attribute::Ints(values) => {
                for value in values {
                    self.word(value.cast_unsigned());
                }
            }
            Attribute::Bool(_) | Attribute::Int(_) | Attribute::Float(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, NodeSpec, TensorType};

    fn spec() -> GraphSpec {
        let of = |shape: &[usize]| TensorType { dtype: Dtype::F32, shape: shape.to_vec() };
        let node = |name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]| NodeSpec {
            name: name.to_owned(),
            op: op.to_owned(),
            inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
            attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        };
        GraphSpec {
            inputs: vec![("x".to_owned(), of(&[2, 3])), ("y".to_owned(), of(&[3]))],
            nodes: vec![
                node("a", "add", &["x", "y"], &[("alpha", Attribute::Float(0.0))]),
                node("b", "sum", &["a"], &[("dim", Attribute::Ints(vec![0, 1])), ("keepdim", Attribute::Bool(true))]),
                node("c", "to", &["b"], &[("dtype", Attribute::Text("f64".to_owned()))]),
            ],
            outputs: vec!["c".to_owned(), "a".to_owned()],
        }
    }

    #[test]
    fn names_do_not_matter() {
        let mut renamed = spec();
        let of_nodes = renamed.nodes.iter_mut().flat_map(|node| [&mut node.name].into_iter().chain(&mut node.inputs));
        let inputs = renamed.inputs.iter_mut().map(|(name, _)| name);
        for name in inputs.chain(of_nodes).chain(&mut renamed.outputs) {
            *name = format!("{name}{name}");
        }
        assert_eq!(spec().key(), renamed.key());
    }

    #[test]
    fn everything_else_does() {
        let changes: [fn(&mut GraphSpec); 14] = [
            |spec| spec.inputs[0].1.shape = vec![3, 2],
            |spec| spec.inputs[0].1.shape = vec![2, 3, 1],
            |spec| spec.inputs[1].1.dtype = Dtype::F16,
            |spec| spec.inputs.swap(0, 1),
            |spec| spec.nodes[0].op = "sub".to_owned(),
            |spec| spec.nodes[0].inputs.swap(0, 1),
            |spec| spec.nodes[0].attributes.clear(),
            |spec| drop(spec.nodes[0].attributes.insert("alpha".to_owned(), Attribute::Float(-0.0))),
            |spec| drop(spec.nodes[0].attributes.insert("alpha".to_owned(), Attribute::Int(0))),
            |spec| drop(spec.nodes[1].attributes.insert("dim".to_owned(), Attribute::Ints(vec![1, 0]))),
            |spec| drop(spec.nodes[1].attributes.insert("keepdim".to_owned(), Attribute::Bool(false))),
            |spec| drop(spec.nodes[2].attributes.insert("dtype".to_owned(), Attribute::Text("f16".to_owned()))),
            |spec| spec.outputs.reverse(),
            |spec| spec.outputs.truncate(1),
        ];
        let mut keys = vec![spec().key().expect("all names are known")];
        for change in changes {
            let mut changed = spec();
            change(&mut changed);
            let key = changed.key().expect("all names are known");
            assert!(!keys.contains(&key), "{changed:?}");
            keys.push(key);
        }
    }

    #[test]
    fn names_that_are_unknown_or_used_twice_have_no_key() {
        let wrongs: [fn(&mut GraphSpec); 4] = [
            |spec| spec.nodes[1].name = "x".to_owned(),
            |spec| spec.nodes[1].inputs[0] = "w".to_owned(),
            |spec| spec.outputs[0] = "w".to_owned(),
            |spec| spec.nodes[1].name = String::new(),
        ];
        for wrong in wrongs {
            let mut spec = spec();
            wrong(&mut spec);
            assert_eq!(spec.key(), None, "{spec:?}");
        }
    }
}
