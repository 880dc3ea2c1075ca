"""Resident tensors: tensors that stay in the memory of a device of the daemon, under a handle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
from google.protobuf.duration_pb2 import Duration

from . import _message
from ._call import Operation, Settings
from ._errors import malformed
from ._html import ResultList, Shown
from ._methods import TensorService
from ._proto import tensor_pb2 as pb
from ._tensor import NUMPY_DTYPES, Value, dtype_name, dtype_number
from ._times import to_datetime
from ._types import TensorType
from ._visible import visible
from ._wire import Chunk, field

#: Bytes of a message of an upload. A larger tensor is sent in several.
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class ResidentTensor(Shown):
    """A tensor in the memory of a device of the daemon."""

    #: Names it in calls of its principal.
    handle: str
    #: Element type; the name of bfloat16, which numpy lacks.
    dtype: np.dtype[Any] | Literal["bf16"]
    #: Extent of each dimension.
    shape: tuple[int, ...]
    #: Bytes of its elements.
    size_bytes: int
    #: Where it is, such as "cpu" or "cuda:0".
    device: str
    #: When it was made.
    created: datetime
    #: When it was last used, at the time of the call that returned this.
    last_used: datetime
    #: When the daemon frees it unless it is used before, at the time of the call that returned this.
    expires: datetime

    def __repr__(self) -> str:
        return visible(f"{dtype_name(self.dtype)}{list(self.shape)} on {self.device}")

    @classmethod
    def received(cls, message: pb.ResidentTensor) -> ResidentTensor:
        """Return the tensor of a message, which is validated."""
        dtype = NUMPY_DTYPES.get(message.dtype)
        if dtype is None or not message.handle:
            raise malformed(f"resident tensor {message.handle!r} of dtype {message.dtype}")
        shape = tuple(message.shape)
        size = (int(np.prod(shape, dtype=object)) if shape else 1) * dtype.itemsize
        if any(extent < 0 for extent in shape) or size != message.size_bytes:
            raise malformed(f"shape {shape} with {message.size_bytes} bytes")
        is_bfloat16 = message.dtype == pb.DTYPE_BF16
        times = [to_datetime(one) for one in (message.create_time, message.last_use_time, message.expire_time)]
        return cls(message.handle, "bf16" if is_bfloat16 else dtype, shape, size, message.device, *times)

    @property
    def type(self) -> TensorType:
        """Element type and shape."""
        return TensorType(dtype_name(self.dtype), self.shape)

    @property
    def location(self) -> tuple[Any, ...]:
        """Where the elements are."""
        return ("handle", self.handle)


def duration(ttl: float | None) -> Duration | None:
    """Return a time to live in seconds as a message."""
    return None if ttl is None else _message.duration("ttl", ttl)


def tensor_input(name: str, value: Value | ResidentTensor) -> list[Chunk]:
    """Serialize a named tensor."""
    if isinstance(value, ResidentTensor):
        return [pb.TensorInput(name=name, handle=value.handle).SerializeToString()]
    header = pb.TensorInput(name=name).SerializeToString()
    return [header, *field(pb.TensorInput.VALUE_FIELD_NUMBER, value.encode())]


def upload_requests(value: Value, device: str, ttl: float | None, settings: Settings) -> Iterator[bytes]:
    """Iterate over the messages of an upload. One at a time has a copy of its part of the elements."""
    header = _message.message(
        pb.UploadTensorHeader,
        dtype=value.number,
        shape=value.array.shape,
        device=device,
        ttl=duration(ttl),
    )
    start = pb.UploadTensorRequest(header=header).SerializeToString()
    data = value.array.reshape(-1).view(np.uint8).data if value.array.size else memoryview(b"")
    size = max(min(CHUNK_BYTES, settings.max_message_bytes // 2), 1)
    for at in range(0, max(len(data), 1), size):
        yield b"".join([start, *field(pb.UploadTensorRequest.DATA_FIELD_NUMBER, [data[at : at + size]])])
        start = b""


def uploaded(responses: Sequence[pb.UploadTensorResponse]) -> ResidentTensor:
    """Return the tensor of an upload."""
    if len(responses) != 1:
        raise malformed(f"{len(responses)} responses to an upload")
    return ResidentTensor.received(responses[0].tensor)


def download_request(tensor: ResidentTensor) -> pb.DownloadTensorRequest:
    """Return the request of a download."""
    return pb.DownloadTensorRequest(handle=tensor.handle)


class Download:
    """The elements of a tensor as they arrive."""

    def __init__(self, tensor: ResidentTensor) -> None:
        self._tensor = tensor
        self._elements = np.empty(tensor.size_bytes, np.uint8)
        self._received = 0

    def add(self, part: pb.DownloadTensorResponse) -> None:
        """Add the next part."""
        data = np.frombuffer(part.data, np.uint8)
        end = self._received + len(data)
        if end > len(self._elements):
            raise malformed(f"a download of more than {len(self._elements)} bytes")
        self._elements[self._received : end] = data
        self._received = end

    def value(self) -> Value:
        """Return the elements, once all parts are there."""
        if self._received != len(self._elements):
            raise malformed(f"a download of {self._received} bytes, expected {len(self._elements)}")
        number = dtype_number(self._tensor.dtype)
        return Value(number, self._elements.view(NUMPY_DTYPES[number]).reshape(self._tensor.shape))


def free(tensors: Sequence[ResidentTensor]) -> Operation[None]:
    """Return the call that frees tensors."""
    request = pb.FreeTensorsRequest(handles=[tensor.handle for tensor in tensors])
    return Operation(TensorService.FREE_TENSORS, request, lambda _: None)


def list_tensors() -> Operation[list[ResidentTensor]]:
    """Return the call that lists tensors."""
    return Operation(
        TensorService.LIST_TENSORS,
        pb.ListTensorsRequest(),
        lambda found: ResultList(ResidentTensor.received(one) for one in found.tensors),
    )


def copy(tensor: ResidentTensor, device: str, ttl: float | None) -> Operation[ResidentTensor]:
    """Return the call that copies a tensor."""
    request = _message.message(pb.CopyTensorRequest, handle=tensor.handle, device=device, ttl=duration(ttl))
    return Operation(TensorService.COPY_TENSOR, request, lambda response: ResidentTensor.received(response.tensor))
