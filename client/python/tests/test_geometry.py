"""Meshes, hierarchies, hash grids and volumes of Warp as arguments, in memory that is laid out as Warp's."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accelerd import _geometry, geometry
from accelerd._geometry import with_tables


class Memory:
    """An array of Warp: a pointer, or numbers."""

    def __init__(self, data: Any = None, **keywords: Any) -> None:
        self.data = np.asarray(data) if data is not None else self._read(**keywords)

    @staticmethod
    def _read(ptr: int, shape: tuple[int], **_: Any) -> NDArray[Any]:
        return np.frombuffer(ctypes.string_at(ptr, shape[0]), np.uint8)

    def numpy(self) -> NDArray[Any]:
        return self.data


@pytest.fixture(autouse=True)
def warp(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with the version and the arrays of Warp."""
    module: Any = ModuleType("warp")
    module.__version__, module.array, module.uint8 = "1.19.0", Memory, np.uint8
    monkeypatch.setitem(sys.modules, "warp", module)
    return module


def made(kind: str, **attributes: Any) -> Any:
    """Return an object of a class of Warp."""
    one = type(kind, (), {"__module__": "warp._src.types"})()
    vars(one).update(device="cpu", **attributes)
    return one


class Arena:
    """Arrays in memory, which live as long as this."""

    def __init__(self) -> None:
        self._kept: list[NDArray[Any]] = []

    def put(self, array: Any, dtype: Any) -> int:
        self._kept.append(np.ascontiguousarray(array, dtype))
        return int(self._kept[-1].ctypes.data)

    def struct(self, dtype: np.dtype[Any], **fields: Any) -> tuple[int, NDArray[Any]]:
        found = np.zeros(1, dtype)
        for name, value in fields.items():
            found[0][name] = value
        self._kept.append(found)
        return int(found.ctypes.data), found

    def hierarchy(self, groups: Any = None) -> NDArray[Any]:
        """Return a root with two leaves, of an item and of two."""
        lowers, uppers = np.zeros(3, _geometry._NODE), np.zeros(3, _geometry._NODE)
        lowers["corner"], uppers["corner"] = [[0, 0, 0], [0, 0, 0], [1, 0, 0]], [[2, 1, 1], [1, 1, 1], [2, 1, 1]]
        lowers["child"], uppers["child"] = [1, 0 | 1 << 31, 1 | 1 << 31], [2, 1, 3]
        corners = np.arange(9, dtype=np.float32).reshape(3, 3)
        _, found = self.struct(
            _geometry._BVH,
            lowers=self.put(lowers, _geometry._NODE),
            uppers=self.put(uppers, _geometry._NODE),
            items=self.put([2, 0, 1], np.int32),
            max_nodes=3,
            leaf_count=2,
            root=self.put([0], np.int32),
            item_lowers=self.put(corners, np.float32),
            item_uppers=self.put(corners + 1, np.float32),
            groups=0 if groups is None else self.put(groups, np.int32),
            item_count=3,
        )
        return found


def record(tables: Any, nth: int = 0) -> list[int]:
    """Return the integers from the record of a handle on."""
    ints = tables["geometry_ints"]
    return [int(one) for one in ints[ints[3 + 3 * nth] :]]


def test_a_hierarchy_has_links_that_visit_the_second_child_first() -> None:
    arena = Arena()
    found = arena.hierarchy(groups=[4, 4, 6])
    bvh = made("Bvh", id=int(found.ctypes.data))
    tables = geometry(bvh)
    ints, vectors = tables["geometry_ints"], tables["geometry_vectors"]
    assert ints[:3].tolist() == [1, *np.array([bvh.id], "<u8").view("<i4").tolist()]
    kind, root, links, boxes, items, item_boxes, groups, leaves = record(tables)[:8]
    assert (kind, root, leaves) == (2, 0, 2)
    assert ints[links : links + 15].reshape(3, 5).tolist() == [[1, 2, 0, -1, -1], [0, 1, 1, 0, -1], [1, 3, 1, 0, 1]]
    assert ints[items : items + 3].tolist() == [2, 0, 1]
    assert ints[groups : groups + 3].tolist() == [4, 4, 6]
    assert vectors[boxes + 4 : boxes + 6].tolist() == [[1, 0, 0], [2, 1, 1]]
    assert vectors[item_boxes + 2 : item_boxes + 4].tolist() == [[3, 4, 5], [4, 5, 6]]


def test_a_mesh_has_two_handles_and_its_points() -> None:
    arena = Arena()
    points, indices = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([0, 1, 2, 1, 3, 2, 0, 3, 1], np.int32)
    fields = {"bvh": arena.hierarchy()[0], "edge_length": 0.5, "solid_angles": 1, "point_count": 4, "face_count": 3}
    handle, _ = arena.struct(_geometry._MESH, **fields)
    mesh = made("Mesh", id=handle, points=Memory(points), indices=Memory(indices), velocities=None)
    tables = geometry(mesh, mesh)
    assert tables["geometry_ints"][0] == 2
    assert record(tables) == record(tables, 1)
    at, count, _, velocities, first, corners, edge, has_winding, *bvh = record(tables)[8:18]
    assert (count, velocities, corners, has_winding) == (4, 0, 9, 1)
    assert tables["geometry_vectors"][at : at + 4].tolist() == points.tolist()
    assert tables["geometry_ints"][first : first + 9].tolist() == indices.tolist()
    assert np.array([edge], np.int32).view(np.float32).tolist() == [0.5]
    offset = _geometry._MESH.fields["bvh"][1]  # type: ignore[index]
    assert np.array(bvh, "<i4").view("<u8").tolist() == [handle + offset]
    mesh.indices = Memory(indices[:6])
    with pytest.raises(ValueError, match="not laid out in memory as expected"):
        geometry(mesh)


def test_a_hash_grid_has_its_cells_and_groups() -> None:
    arena = Arena()
    handle, found = arena.struct(
        _geometry._GRID,
        point_cells=1,
        points=arena.put([1, 0], np.int32),
        keys=arena.put([7 << 32 | 3, 7 << 32 | 0xFFFFFFFF], np.uint64),
        starts=arena.put([0, 2], np.int32),
        ends=arena.put([2, 2], np.int32),
        **{"x": 2, "y": 1, "z": 1, "point_count": 2, "has_groups": 1, "inverse_width": 2.0},
    )
    float32 = type("float32", (), {"__module__": "warp._src.types"})
    grid = made("HashGrid", id=handle, dtype=float32)
    tables = geometry(grid)
    ints = tables["geometry_ints"]
    kind, x, y, z, _, starts, ends, points, count, groups = record(tables)[:10]
    assert (kind, x, y, z, count) == (3, 2, 1, 1, 2)
    assert [ints[at : at + 2].tolist() for at in (starts, ends, points, groups)] == [[0, 2], [2, 2], [1, 0], [3, -1]]
    found[0]["point_cells"] = 0
    with pytest.raises(ValueError, match=r"expected a warp\.HashGrid that build\(\) was called on"):
        geometry(grid)
    grid.dtype = type("float64", (), {"__module__": "warp._src.types"})
    with pytest.raises(ValueError, match=r"expected a warp\.HashGrid of float32, got one of float64"):
        geometry(grid)


def test_a_volume_is_its_grid() -> None:
    words = np.zeros(300, np.int32)
    words[159], words[168], words[174], words[176] = 1, 400, 64, 5
    words[168 + 16 + 6] = 3
    info = type("Info", (), {"type_str": "mask"})
    volume = made("Volume", id=9, array=lambda: Memory(words.view(np.uint8)), get_grid_info=info)
    tables = geometry(volume)
    kind, at, values, voxels, root, tiles, *sizes = record(tables)[:17]
    assert (kind, values, voxels, root, tiles) == (4, 1, 2560, 168 + 16, 3)
    assert sizes == [16, 8, 5, 7, 2064, 272, 24, 2, 1, 168 + 100, 536]
    assert tables["geometry_ints"][at : at + 300].tolist() == words.tolist()
    words[159] = 8
    with pytest.raises(ValueError, match="volumes of mask are unsupported"):
        geometry(volume)


def test_objects_among_arguments_become_handles_and_tables() -> None:
    arena = Arena()
    bvh = made("Bvh", id=int(arena.hierarchy().ctypes.data))
    params = ["bvh", "x", *_geometry.TABLES]
    found = with_tables("k(bvh, x)", params, {"bvh": bvh, "x": 1})
    assert list(found) == params
    assert found["bvh"] == bvh.id
    assert with_tables("k(bvh, x)", params, {"bvh": bvh.id, "x": 1, **geometry(bvh)})["bvh"] == bvh.id
    assert with_tables("k(x)", ["x"], {"x": 1}) == {"x": 1}
    with pytest.raises(TypeError, match=r"k\(bvh, x\): expected a mesh, hierarchy, hash grid or volume among the"):
        with_tables("k(bvh, x)", params, {"bvh": bvh.id, "x": 1})


def test_other_objects_and_versions_are_refused(warp: Any) -> None:
    assert geometry()["geometry_ints"].tolist() == [0]
    with pytest.raises(TypeError, match=r"geometry: expected a warp\.Mesh, Bvh, HashGrid or Volume, got int"):
        geometry(1)
    warp.__version__ = "1.18.2"
    with pytest.raises(ValueError, match=r"geometry: expected Warp 1\.19\.\*, whose objects are known, got 1\.18\.2"):
        geometry(made("Bvh", id=1))
