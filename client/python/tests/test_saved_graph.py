"""Graphs as files: what they hold, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelerd import Client, save_graph
from accelerd._proto import tensor_pb2 as pb

WEIGHTS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def client():
    with Client("127.0.0.1:1") as client:
        yield client


def read(path: Path) -> pb.SavedGraph:
    return pb.SavedGraph.FromString(path.read_bytes())


def test_a_file_holds_inputs_constants_operations_and_outputs(client, tmp_path):
    x = client.tensor(np.ones((4, 3), np.float32))
    y = (x @ client.tensor(WEIGHTS)).to("f64")
    path = tmp_path / "linear.graph"
    save_graph(path, inputs={"x": x}, outputs={"y": y, "rows": y.sum(1)}, any_extent={"x": [0]})
    saved = read(path)
    assert [(one.name, one.dtype, list(one.shape)) for one in saved.inputs] == [("x", pb.DTYPE_F32, [-1, 3])]
    described = [(one.name, one.dtype, list(one.shape)) for one in saved.outputs]
    assert described == [("y", pb.DTYPE_F64, [-1, 2]), ("rows", pb.DTYPE_F64, [-1])]
    assert [one.value.data for one in saved.constants] == [WEIGHTS.tobytes()]
    assert [node.op for node in saved.nodes] == ["matmul", "to", "sum"]
    names = {node.name for node in saved.nodes} | {one.name for one in saved.constants}
    assert {one.value for one in saved.outputs} < names
    assert saved.inputs[0].value not in names
    assert not list(tmp_path.glob(".*")), "no scratch file is left"
    assert path.stat().st_mode & 0o444, "others may read it"


def test_extents_are_fixed_unless_they_may_be_any(client, tmp_path):
    x = client.tensor(np.ones((4, 3), np.float32))
    save_graph(tmp_path / "a.graph", inputs={"x": x}, outputs={"y": x + 1})
    saved = read(tmp_path / "a.graph")
    assert (list(saved.inputs[0].shape), list(saved.outputs[0].shape)) == ([4, 3], [4, 3])
    save_graph(tmp_path / "a.graph", inputs={"x": x}, outputs={"y": x.reshape(-1)}, any_extent={"x": [-2]})
    saved = read(tmp_path / "a.graph")
    assert (list(saved.inputs[0].shape), list(saved.outputs[0].shape)) == ([-1, 3], [-1])


def test_what_cannot_be_saved_is_named(client, tmp_path):
    x, unused = client.tensor(np.ones((4, 3), np.float32)), client.tensor(np.ones(2, np.float32))
    y = x @ client.tensor(WEIGHTS)
    path = tmp_path / "a.graph"

    def refused(inputs, outputs, any_extent=None):
        with pytest.raises(ValueError) as caught:
            save_graph(path, inputs=inputs, outputs=outputs, any_extent=any_extent)
        return str(caught.value)

    assert "inputs['z']" in refused({"x": x, "z": unused}, {"y": y})
    assert "it is the array of 'x'" in refused({"x": x, "again": x}, {"y": y})
    assert "outputs['y']: expected an operation" in refused({"x": x}, {"y": x})
    assert "inputs['y']: expected a tensor of an array" in refused({"y": y}, {"z": y + 1})
    assert "any_extent: expected names of inputs, got z" in refused({"x": x}, {"y": y}, {"z": [0]})
    assert "any_extent['x']: expected dimensions" in refused({"x": x}, {"y": y}, {"x": [2]})
    fixed = refused({"x": x}, {"y": y}, {"x": [1]})
    assert "any_extent: matmul at" in fixed and "test_saved_graph.py" in fixed
    assert not path.exists()
