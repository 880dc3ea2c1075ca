"""Meshes, hierarchies, hash grids and volumes of NVIDIA Warp as the arrays that queries of translated kernels read.

The layouts of Warp's objects in memory are those of the versions in `_VERSIONS`. What the arrays contain is stated in
`geometry.py`, `grids.py` and `volumes.py` of the translator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ._kernel_values import is_of

#: The parameters of a kernel that gets the arrays.
TABLES = ("geometry_ints", "geometry_vectors")

_VERSIONS = ("1.19.",)
#: Nodes from the root to a leaf that a query can remember.
_MAX_DEPTH = 64
#: Handles of an object: a mesh has that of its hierarchy as well.
_MAX_HANDLES = 2
_POINTER = "<u8"
_ARRAY = np.dtype({"names": ["data", "shape"], "formats": [_POINTER, ("<i4", 4)], "offsets": [0, 16], "itemsize": 56})
_BVH = np.dtype(
    [
        *((name, _POINTER) for name in ("lowers", "uppers", "parents", "counts", "items")),
        *((name, "<i4") for name in ("max_depth", "max_nodes", "node_count", "leaf_count")),
        *((name, _POINTER) for name in ("root", "item_lowers", "item_uppers", "groups")),
        *((name, "<i4") for name in ("item_count", "leaf_size", "constructor")),
        ("context", _POINTER),
    ],
    align=True,
)
_MESH = np.dtype(
    [
        *((name, _ARRAY) for name in ("points", "velocities", "indices")),
        *((name, _POINTER) for name in ("lowers", "uppers", "solid_angles")),
        *((name, "<i4") for name in ("point_count", "face_count")),
        ("bvh", _BVH),
        ("context", _POINTER),
        ("edge_length", "<f4"),
    ],
    align=True,
)
_GRID = np.dtype(
    [
        *((name, _POINTER) for name in ("point_cells", "points", "keys", "starts", "ends")),
        *((name, "<i4") for name in ("x", "y", "z", "point_count", "max_points", "max_keys", "has_groups")),
        ("context", _POINTER),
        *((name, "<f4") for name in ("width", "inverse_width")),
    ],
    align=True,
)
_MAX_GRID_BYTES = 2**31
_ACTIVE_INDEX = 20
#: Bytes of NanoVDB's grids by the type of their values: size of the root without tiles, size of a tile, value in it,
#: background in the root, tables in upper, lower and leaf nodes, entry of the first two, value of a leaf, leaf.
_GRID_LAYOUTS = {
    **dict.fromkeys((1, 4, 10), (64, 32, 20, 28, 8256, 1088, 96, 8, 4, 2144)),
    6: (96, 32, 20, 28, 8256, 1088, 128, 16, 12, 6272),
    **dict.fromkeys((19, _ACTIVE_INDEX), (96, 32, 24, 32, 8256, 1088, 80, 8, 0, 96)),
}
_NODE = np.dtype([("corner", "<f4", 3), ("child", "<u4")])


def geometry(*objects: Any) -> Mapping[str, NDArray[Any]]:
    """Return the arrays by which kernels query meshes, hierarchies, hash grids and volumes of Warp.

    A launch does this for the objects among its arguments. It needs them as `**geometry(...)` if handles are in arrays,
    or to send an object once, by `upload()`, for several launches. The arrays are copies: they do not change when the
    object is built again or refitted.

    Args:
        *objects: A `warp.Mesh`, `warp.Bvh`, `warp.HashGrid` or `warp.Volume` each.

    Returns:
        The arguments `geometry_ints` and `geometry_vectors`.

    Raises:
        TypeError: An object is none of these.
        ValueError: An object has nothing to query, or the version of Warp is unknown.
    """
    version = str(getattr(sys.modules.get("warp"), "__version__", "none"))
    if objects and not version.startswith(_VERSIONS):
        known = ", ".join(f"{one}*" for one in _VERSIONS)
        raise ValueError(f"geometry: expected Warp {known}, whose objects are known, got {version}")
    distinct = {id(one): one for one in objects}.values()
    tables = _Tables(1 + 3 * _MAX_HANDLES * len(distinct))
    for one in distinct:
        kind = _kind(one)
        if kind is None:
            expected = "expected a warp.Mesh, Bvh, HashGrid or Volume"
            raise TypeError(f"geometry: {expected}, got {type(one).__name__}")
        _RECORDS[kind](tables, one)
    return tables.arrays()


def is_geometry(given: Any) -> bool:
    """Return whether a value is an object of Warp whose handle a kernel can query."""
    return _kind(given) is not None


def with_tables(kernel: str, params: Sequence[str], bound: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with handles in place of objects, and with the arrays of the objects if a kernel takes them."""
    objects = [one for one in bound.values() if is_geometry(one)]
    handles = {name: one.id if is_geometry(one) else one for name, one in bound.items()}
    if missing := [name for name in TABLES if name in params and name not in bound]:
        if not objects:
            expected = "expected a mesh, hierarchy, hash grid or volume among the arguments"
            raise TypeError(f"{kernel}: {expected}, or **accelerd.geometry(...)")
        tables = geometry(*objects)
        handles.update({name: tables[name] for name in missing})
    return {name: handles[name] for name in params if name in handles}


def _kind(given: Any) -> str | None:
    names = (one.__name__ for one in type(given).__mro__ if is_of("warp", one))
    return next((name for name in names if name in _RECORDS), None)


@dataclass
class _Tables:
    """The arrays under construction."""

    header: int

    def __post_init__(self) -> None:
        self._ints: list[NDArray[np.int32]] = []
        self._vectors: list[NDArray[np.float32]] = []
        self._int_count, self._vector_count = self.header, 0
        self._records: dict[int, int] = {}

    def ints(self, values: Any) -> int:
        """Append integers, and return the offset of the first."""
        at = self._int_count
        self._ints.append(np.ascontiguousarray(values).reshape(-1).view(np.int32))
        self._int_count += self._ints[-1].size
        return at

    def vectors(self, *columns: NDArray[np.float32]) -> int:
        """Append the vectors of each row, and return the offset of the first."""
        at = self._vector_count
        self._vectors.append(np.stack(columns, axis=1).reshape(-1, 3).astype(np.float32))
        self._vector_count += len(self._vectors[-1])
        return at

    def record(self, handles: Sequence[int], fields: Sequence[int]) -> None:
        at = self.ints(np.array(fields, np.int64).astype(np.int32))
        self._records.update(dict.fromkeys(handles, at))

    def arrays(self) -> dict[str, NDArray[Any]]:
        header = np.zeros(self.header, np.int32)
        header[0] = len(self._records)
        for nth, (handle, at) in enumerate(sorted(self._records.items())):
            header[1 + 3 * nth : 4 + 3 * nth] = (*_words(handle), at)
        vectors = np.concatenate([np.zeros((0, 3), np.float32), *self._vectors])
        return dict(zip(TABLES, (np.concatenate([header, *self._ints]), vectors), strict=True))


def _words(handle: int) -> tuple[int, int]:
    low, high = np.array([handle], "<u8").view("<i4")
    return int(low), int(high)


def _bits(number: Any) -> int:
    return int(np.array([number], "<f4").view("<i4")[0])


def _read(device: Any, pointer: Any, dtype: Any, count: int = 1) -> NDArray[Any]:
    """Return a copy of elements in the memory of a device of Warp."""
    size = np.dtype(dtype).itemsize * count
    if not pointer or not size:
        return np.zeros(0, dtype)
    warp: Any = sys.modules["warp"]
    found = warp.array(ptr=int(pointer), dtype=warp.uint8, shape=(size,), device=device, copy=False).numpy()
    return cast("NDArray[Any]", found.copy().view(dtype))


def _mesh(tables: _Tables, mesh: Any) -> None:
    found = _read(mesh.device, mesh.id, _MESH)[0]
    points, indices = mesh.points.numpy().reshape(-1, 3), mesh.indices.numpy().reshape(-1)
    if (found["point_count"], found["face_count"]) != (len(points), len(indices) // 3):
        raise ValueError("geometry: the mesh of Warp is not laid out in memory as expected")
    velocities = np.zeros((0, 3), np.float32) if mesh.velocities is None else mesh.velocities.numpy().reshape(-1, 3)
    bvh = int(mesh.id) + cast("Any", _MESH.fields)["bvh"][1]
    fields = [
        1,
        *_bvh_fields(tables, mesh.device, found["bvh"]),
        *(tables.vectors(points), len(points), tables.vectors(velocities), len(velocities)),
        *(tables.ints(indices), len(indices)),
        *(_bits(found["edge_length"]), int(found["solid_angles"] != 0), *_words(bvh)),
    ]
    tables.record((int(mesh.id), bvh), fields)


def _bvh(tables: _Tables, bvh: Any) -> None:
    tables.record((int(bvh.id),), [2, *_bvh_fields(tables, bvh.device, _read(bvh.device, bvh.id, _BVH)[0])])


def _bvh_fields(tables: _Tables, device: Any, bvh: Any) -> list[int]:
    """Append a hierarchy, and return the fields of its record after the kind."""
    count, items = int(bvh["max_nodes"]), int(bvh["item_count"])
    lowers, uppers = (_read(device, bvh[name], _NODE, count) for name in ("lowers", "uppers"))
    root = int(_read(device, bvh["root"], "<i4")[0]) if items else -1
    links = np.zeros((count, 5), np.int32)
    links[:, 0] = (lowers["child"] & 0x7FFFFFFF).view(np.int32)
    links[:, 1] = (uppers["child"] & 0x7FFFFFFF).view(np.int32)
    links[:, 2] = lowers["child"] >> 31
    links[:, 3:] = -1
    # Level by level: the second child precedes the first one, which precedes what follows the parent.
    level = np.array([root] if items else [], np.int64)
    for _ in range(_MAX_DEPTH):
        inner = level[links[level, 2] == 0]
        first, second = links[inner, 0], links[inner, 1]
        links[first, 3] = links[second, 3] = inner
        links[second, 4], links[first, 4] = first, links[inner, 4]
        level = np.concatenate([first, second])
    if level.size:
        raise ValueError(f"geometry: expected a hierarchy of at most {_MAX_DEPTH} levels")
    item_boxes = [_read(device, bvh[name], "<f4", 3 * items).reshape(-1, 3) for name in ("item_lowers", "item_uppers")]
    groups = _read(device, bvh["groups"], "<i4", items)
    return [
        root,
        tables.ints(links),
        tables.vectors(lowers["corner"], uppers["corner"]),
        tables.ints(_read(device, bvh["items"], "<i4", items)),
        tables.vectors(*item_boxes),
        tables.ints(groups) if groups.size else -1,
        int(bvh["leaf_count"]),
    ]


def _grid(tables: _Tables, grid: Any) -> None:
    if getattr(grid.dtype, "__name__", None) != "float32":
        raise ValueError(f"geometry: expected a warp.HashGrid of float32, got one of {grid.dtype.__name__}")
    found = _read(grid.device, grid.id, _GRID)[0]
    if not found["point_cells"]:
        raise ValueError("geometry: expected a warp.HashGrid that build() was called on")
    points, cells = int(found["point_count"]), int(found["x"]) * int(found["y"]) * int(found["z"])
    keys = _read(grid.device, found["keys"], "<u8", points) if found["has_groups"] else np.zeros(0, "<u8")
    fields = [
        3,
        *(int(found[name]) for name in ("x", "y", "z")),
        _bits(found["inverse_width"]),
        *(tables.ints(_read(grid.device, found[name], "<i4", cells)) for name in ("starts", "ends")),
        *(tables.ints(_read(grid.device, found["points"], "<i4", points)), points),
        tables.ints((keys & np.uint64(0xFFFFFFFF)).astype("<u4")) if keys.size else -1,
    ]
    tables.record((int(grid.id),), fields)


def _volume(tables: _Tables, volume: Any) -> None:
    data = volume.array().numpy()
    if len(data) >= _MAX_GRID_BYTES:
        raise ValueError(f"geometry: expected a warp.Volume of less than {_MAX_GRID_BYTES} bytes, got {len(data)}")
    grid = np.ascontiguousarray(data[: len(data) // 4 * 4]).view("<i4")
    # The tree follows the header of the grid.
    kind, tree = int(grid[636 // 4]), 672 // 4
    if kind not in _GRID_LAYOUTS:
        raise ValueError(f"geometry: volumes of {volume.get_grid_info().type_str} are unsupported")
    layout = _GRID_LAYOUTS[kind]
    first_leaf, root = tree + int(grid[tree]) // 4, tree + int(grid[tree + 6]) // 4
    voxels = int(grid[tree + 14 : tree + 16].view("<u8")[0]) if kind == _ACTIVE_INDEX else 512 * int(grid[tree + 8])
    fields = [
        4,
        tables.ints(grid),
        *(kind, min(voxels, 2**31 - 1), root, int(grid[root + 6])),
        *(size // 4 for size in layout[:-2]),
        *(layout[-2] // 4, first_leaf, layout[-1] // 4),
    ]
    tables.record((int(volume.id),), fields)


_RECORDS: dict[str, Callable[[_Tables, Any], None]] = {"Mesh": _mesh, "Bvh": _bvh, "HashGrid": _grid, "Volume": _volume}
