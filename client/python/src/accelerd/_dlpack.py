"""Exchange of arrays with other libraries in the memory of the host: DLPack, the buffer protocol and `__array__`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Type of the memory of the host and its number, as `__dlpack_device__` returns them.
HOST = (1, 0)
#: Types of memory that the host can read: its own, pinned for CUDA, pinned for ROCm, and managed by CUDA.
_READABLE = (1, 3, 11, 13)
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}
#: The version of DLPack from which on read-only arrays can be exported.
_READ_ONLY_SINCE = (1, 0)
_NUMPY_SINCE = (2, 1)


def host_array(given: Any, what: str, dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
    """Return an array of numpy, without a copy of what is one, has `__dlpack__`, `__array__` or a buffer.

    Another element type than `dtype` is converted.

    Raises:
        BufferError: The elements are in the memory of a GPU.
        TypeError: The array is masked.
        ValueError: Rows have different lengths, or an element is no number.
        OverflowError: A number is out of the range of `dtype`.
    """
    refuse_masked(given, what)
    if isinstance(given, (np.ndarray, np.generic)):
        return np.asarray(given, dtype)
    has_dlpack = hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__")
    if has_dlpack:
        number = int(given.__dlpack_device__()[0])
        if number not in _READABLE:
            raise _not_on_host(given, what, _DEVICES.get(number, f"device type {number} of DLPack"))
    elif hasattr(given, "__cuda_array_interface__"):
        raise _not_on_host(given, what, "CUDA")
    # Lists and numbers have neither; PyTorch's tensors have both, and __array__ takes more element types.
    if has_dlpack and not hasattr(given, "__array__"):
        return np.asarray(np.from_dlpack(given), dtype)
    try:
        return np.asarray(given, dtype)
    except (OverflowError, ValueError) as wrong:
        expected = "an array, or numbers in rows of equal length" if dtype is None else f"numbers of {dtype}"
        kind = OverflowError if isinstance(wrong, OverflowError) else ValueError
        raise kind(f"{what}: expected {expected}, got {type(given).__name__}: {wrong}") from None


def refuse_masked(given: Any, what: str) -> None:
    """Refuse a masked array, also in a list: numpy converts it to its elements, those under the mask as well.

    Raises:
        TypeError: There is one.
    """
    if isinstance(given, (list, tuple)):
        kinds = set(map(type, given))
        if any(issubclass(kind, (list, tuple, np.ma.MaskedArray)) for kind in kinds):
            for one in given:
                refuse_masked(one, what)
    elif isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            f"{what}: expected an array without a mask, got {type(given).__name__}; x.filled(value) gives masked "
            "elements a value"
        )


def _not_on_host(given: Any, what: str, device: str) -> BufferError:
    return BufferError(
        f"{what}: expected an array in the memory of the host, got {type(given).__name__} on {device}; "
        "copy it to the host first, as by x.cpu() (PyTorch), x.get() (CuPy) or jax.device_get(x)"
    )


def export(
    array: NDArray[Any],
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[Any, int] | None,
    copy: bool | None,
) -> Any:
    """Return the capsule of a read-only array, which shares its memory if the consumer knows read-only arrays."""
    if stream is not None:
        raise BufferError(f"stream: expected None for memory of the host, got {stream!r}")
    if dl_device is not None and (int(dl_device[0]), dl_device[1]) != HOST:
        raise BufferError(f"dl_device: expected {HOST}, the memory of the host, got {tuple(dl_device)}")
    numpy_version = tuple(int(part) for part in np.__version__.split(".")[:2])
    if max_version is not None and tuple(max_version) >= _READ_ONLY_SINCE and numpy_version >= _NUMPY_SINCE:
        shared: Any = array  # The parameters are newer than numpy's types for Python 3.10.
        return shared.__dlpack__(max_version=max_version, copy=copy)
    if copy is False:
        raise BufferError(
            "copy: expected None or True, got False: the array is read-only, and its consumer does not know DLPack "
            f"{'.'.join(map(str, _READ_ONLY_SINCE))}"
        )
    return array.copy().__dlpack__()
