//! Graphs of operations: files in JSON or TOML, and a single operation as a graph.

use std::{collections::BTreeMap, fs, path::Path};

use accelerd_client::proto::{ExecuteRequest, TensorAttribute, TensorInput, TensorNode, TensorOutput};
use serde::Deserialize;

use super::attribute::Attribute;
use crate::error::{CliError, Result};

/// A graph without the tensors that it reads.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct GraphFile {
    /// Names of the inputs, in the order of the operands on the command line.
    #[serde(default)]
    pub(in crate::commands) inputs: Vec<String>,
    pub(super) nodes: Vec<Node>,
    /// Names of the values to return.
    pub(super) outputs: Vec<String>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// Without a name it is that of the operation.
    name: Option<String>,
    op: String,
    #[serde(default)]
    inputs: Vec<String>,
    #[serde(default)]
    attributes: BTreeMap<String, Attribute>,
}

impl From<Node> for TensorNode {
    fn from(node: Node) -> Self {
        let attributes = node.attributes.into_iter().map(|(name, value)| (name, TensorAttribute::from(value)));
        Self {
            name: node.name.unwrap_or_else(|| node.op.clone()),
            op: node.op,
            inputs: node.inputs,
            attributes: attributes.collect(),
        }
    }
}

impl GraphFile {
    /// The graph of a file, if a path is that of one by its extension.
    pub(in crate::commands) fn read(path: &Path) -> Result<Option<Self>> {
        let parse: fn(&str) -> Result<Self, String> = match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => |text| serde_json::from_str(text).map_err(|error| error.to_string()),
            Some("toml") => |text| toml::from_str(text).map_err(|error| error.to_string()),
            _ => return Ok(None),
        };
        let text = fs::read_to_string(path).map_err(CliError::file(path))?;
        parse(&text).map(Some).map_err(|reason| CliError::Format { path: path.to_owned(), reason })
    }

    /// A graph of one operation, whose results are named after it.
    pub(in crate::commands) fn single(
        op: &str,
        operands: usize,
        results: usize,
        attributes: Vec<(String, Attribute)>,
    ) -> Self {
        let inputs: Vec<_> = (0..operands).map(|nth| format!("operand_{nth}")).collect();
        let result = |nth: usize| if nth == 0 { op.to_owned() } else { format!("{op}:{nth}") };
        let attributes = attributes.into_iter().collect();
        let node = Node { name: None, op: op.to_owned(), inputs: inputs.clone(), attributes };
        Self { inputs, nodes: vec![node], outputs: (0..results).map(result).collect() }
    }

    /// The request, whose inputs have names and no tensors yet.
    pub(in crate::commands) fn request(self, device: &str) -> ExecuteRequest {
        ExecuteRequest {
            inputs: self.inputs.into_iter().map(|name| TensorInput { name, source: None }).collect(),
            nodes: self.nodes.into_iter().map(Into::into).collect(),
            outputs: self.outputs.into_iter().map(|name| TensorOutput { name, keep: false }).collect(),
            keep_ttl: None,
            device: device.to_owned(),
            data_parallel: None,
        }
    }

    /// The operands in the order of the inputs. An operand is NAME=SOURCE, or else that of the next input without one.
    pub(super) fn assign<'a>(&self, operands: &'a [String]) -> Result<Vec<&'a str>> {
        let mut assigned: Vec<Option<&str>> = vec![None; self.inputs.len()];
        let named = |operand: &'a str| {
            let (name, source) = operand.split_once('=')?;
            Some((self.inputs.iter().position(|input| input == name)?, source))
        };
        let (by_name, in_order): (Vec<&str>, Vec<&str>) =
            operands.iter().map(String::as_str).partition(|operand| named(operand).is_some());
        for (index, source) in by_name.into_iter().filter_map(named) {
            if assigned[index].replace(source).is_some() {
                return Err(CliError::Usage(format!("expected one operand for {:?}, got two", self.inputs[index])));
            }
        }
        let mut in_order = in_order.into_iter();
        for slot in assigned.iter_mut().filter(|slot| slot.is_none()) {
            *slot = in_order.next();
        }
        let sources: Option<Vec<_>> = assigned.into_iter().collect();
        match (sources, in_order.next()) {
            (Some(sources), None) => Ok(sources),
            _ => Err(CliError::Usage(format!(
                "expected {} operands ({}), got {}",
                self.inputs.len(),
                self.inputs.join(", "),
                operands.len()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = r#"
        inputs = ["x", "w"]
        outputs = ["y"]
        [[nodes]]
        name = "p"
        op = "matmul"
        inputs = ["x", "w"]
        attributes = { transpose_b = true }
        [[nodes]]
        name = "y"
        op = "sum"
        inputs = ["p"]
        attributes = { dim = [0, 1] }
    "#;
    const JSON: &str = r#"{"inputs": ["x", "w"], "outputs": ["y"], "nodes": [
        {"name": "p", "op": "matmul", "inputs": ["x", "w"], "attributes": {"transpose_b": true}},
        {"name": "y", "op": "sum", "inputs": ["p"], "attributes": {"dim": [0, 1]}}]}"#;

    fn read(name: &str, text: &str) -> Result<Option<GraphFile>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        GraphFile::read(&path)
    }

    #[test]
    fn json_and_toml_say_the_same() {
        let toml = read("g.toml", TOML).unwrap().expect("a graph");
        assert_eq!(Some(&toml), read("g.json", JSON).unwrap().as_ref());
        assert_eq!(toml.nodes[1].attributes["dim"], Attribute::Integers(vec![0, 1]));
        assert_eq!(read("matmul", "").unwrap(), None);
    }

    #[test]
    fn a_malformed_file_says_what_is_wrong() {
        let refused = |text: &str| read("g.json", text).unwrap_err().to_string();
        assert!(refused(&JSON.replace("\"op\"", "\"operation\"")).contains("operation"));
        assert!(refused(&JSON.replace("true", "{}")).contains("a list of integers"));
        assert!(matches!(GraphFile::read(Path::new("gone.toml")), Err(CliError::File { .. })));
    }

    #[test]
    fn operands_are_assigned_by_name_and_the_rest_in_order() {
        let graph = read("g.toml", TOML).unwrap().expect("a graph");
        let assign = |operands: &[&str]| {
            let operands: Vec<_> = operands.iter().copied().map(str::to_owned).collect();
            let assigned = graph.assign(&operands).map(|sources| sources.join(" "));
            assigned.map_err(|error| error.to_string())
        };
        assert_eq!(assign(&["a.npy", "b.npy"]).as_deref(), Ok("a.npy b.npy"));
        assert_eq!(assign(&["w=a=.npy", "b.npy"]).as_deref(), Ok("b.npy a=.npy"));
        assert!(assign(&["a.npy"]).unwrap_err().contains("2 operands (x, w), got 1"));
        assert!(assign(&["a.npy", "b.npy", "c.npy"]).unwrap_err().contains("got 3"));
        assert!(assign(&["x=a.npy", "x=b.npy"]).unwrap_err().contains("\"x\""));
    }
}
