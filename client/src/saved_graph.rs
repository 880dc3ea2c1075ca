//! Graphs as files, which a daemon serves as models of the Open Inference Protocol.

use std::{fs, io, path::Path};

use prost::Message;

use crate::{
    Graph, GraphValue,
    proto::{Dtype, SavedGraph, SavedGraphInput, SavedGraphOutput, TensorInput, tensor_input::Source},
};

impl GraphValue {
    /// The value as an input of a saved graph, by its name in requests. An extent of -1 is any.
    pub fn saved_input(&self, name: &str, dtype: Dtype, shape: &[i64]) -> SavedGraphInput {
        let name = name.to_owned();
        let value = self.name().to_owned();
        SavedGraphInput { name, value, dtype: dtype.into(), shape: shape.to_vec() }
    }

    /// The value as an output of a saved graph, by its name in responses. Requests determine an extent of -1.
    pub fn saved_output(&self, name: &str, dtype: Dtype, shape: &[i64]) -> SavedGraphOutput {
        let name = name.to_owned();
        let value = self.name().to_owned();
        SavedGraphOutput { name, value, dtype: dtype.into(), shape: shape.to_vec() }
    }
}

impl Graph {
    /// Writes the graph to a file. A daemon serves the file `NAME.graph` in its folder `models.graphs` as the model NAME of the Open
    /// Inference Protocol. Requests give `inputs`; the other inputs are saved. The file is replaced at once.
    ///
    /// Fails if one of `inputs` is no input of the graph, or if another input is a resident tensor.
    pub fn save(
        &self,
        path: impl AsRef<Path>,
        inputs: impl IntoIterator<Item = SavedGraphInput>,
        outputs: impl IntoIterator<Item = SavedGraphOutput>,
    ) -> io::Result<()> {
        let inputs: Vec<_> = inputs.into_iter().collect();
        let is_given = |input: &&TensorInput| inputs.iter().any(|given| given.value == input.name);
        let refused = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        if let Some(unknown) = inputs.iter().find(|given| self.inputs.iter().all(|input| input.name != given.value)) {
            return refused(format!("{} is no input of the graph", unknown.name));
        }
        let constants: Vec<_> = self.inputs.iter().filter(|input| !is_given(input)).cloned().collect();
        if let Some(resident) = constants.iter().find(|one| matches!(one.source, Some(Source::Handle(_)))) {
            return refused(format!("{} is a resident tensor, which cannot be saved", resident.name));
        }
        let outputs = outputs.into_iter().collect();
        let graph = SavedGraph { inputs, constants, nodes: self.nodes.clone(), outputs };
        let scratch = path.as_ref().with_extension("graph.new");
        fs::write(&scratch, graph.encode_to_vec())?;
        fs::rename(&scratch, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Matrix, proto::ResidentTensor};

    #[test]
    fn a_file_holds_operations_and_constants_but_no_example() {
        let mut graph = Graph::default();
        let matrix = || Matrix::new(vec![1.0_f32, 2.0], 2).expect("a matrix");
        let x = graph.input(matrix());
        let weights = graph.input(matrix());
        let y = graph.op("mul", [&x, &weights], []);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("scale.graph");
        let save = |graph: &Graph, input| graph.save(&path, [input], [y.saved_output("y", Dtype::F32, &[-1, 2])]);
        save(&graph, x.saved_input("x", Dtype::F32, &[-1, 2])).expect("saved");
        let saved = SavedGraph::decode(&*fs::read(&path).expect("a file")).expect("a graph");
        assert_eq!(saved.inputs, [x.saved_input("x", Dtype::F32, &[-1, 2])]);
        assert_eq!(saved.constants, graph.inputs[1..]);
        assert_eq!((saved.nodes, &*saved.outputs[0].value), (graph.nodes.clone(), "mul_0"));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        let refused = |graph: &Graph, input| save(graph, input).expect_err("refused").to_string();
        assert_eq!(refused(&graph, y.saved_input("z", Dtype::F32, &[])), "z is no input of the graph");
        graph.resident(&ResidentTensor::default());
        let message = refused(&graph, x.saved_input("x", Dtype::F32, &[-1, 2]));
        assert_eq!(message, "input_2 is a resident tensor, which cannot be saved");
    }
}
