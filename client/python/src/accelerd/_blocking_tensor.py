# Generated from _aio_tensor.py by generate.py; do not edit.
"""Tensors of the blocking client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from numpy.typing import ArrayLike, NDArray

from . import _resident
from ._array_api import ArrayApi
from ._blocking_call import Caller
from ._blocking_conversions import Conversions
from ._data_parallel import DataParallel
from ._errors import AccelerdError, MessageTooLargeError
from ._graph import GraphCall, Keep
from ._methods import TensorService
from ._resident import ResidentTensor
from ._tensor import Dtype, Value
from ._tensor_factory import GraphOutputs, TensorFactory
from ._timeout import left


class Tensor(Conversions):
    """A lazy tensor of a `Client`.

    `numpy()`, `float()`, `int()`, `bool()` and `numpy.asarray()` compute it: one call runs all operations that it
    needs. The result is kept, and later operations start from it.
    """

    __slots__ = ()

    _client: TensorCalls

    def numpy(self, *, bfloat16: bool = False, timeout: float | None = None) -> NDArray[Any]:
        """Compute the tensor in one call, unless it is computed already, and return its elements.

        Args:
            bfloat16: Whether elements of bfloat16 are returned as those of ml_dtypes, instead of as float32.
            timeout: Seconds for the whole call, retries included.

        Returns:
            A read-only array.
        """
        (array,) = self._client.execute(self, bfloat16=bfloat16, timeout=timeout)
        return array

    def item(self, *index: int) -> bool | int | float:
        """Compute the tensor, and return its only element, or the one at an index, as a Python number."""
        found: bool | int | float = (self.numpy()).item(*index)
        return found

    def tolist(self) -> Any:
        """Compute the tensor, and return its elements as Python numbers in nested lists."""
        return (self.numpy()).tolist()

    def keep(self, *, device: str = "", ttl: float | None = None, timeout: float | None = None) -> Tensor:
        """Compute the tensor, keep it on the daemon and return it. Takes the options of `Client.keep`."""
        (kept,) = self._client.keep(self, device=device, ttl=ttl, timeout=timeout)
        return kept

    def free(self, *, timeout: float | None = None) -> None:
        """Free the tensor on the daemon. Raises a ValueError if it is not resident."""
        self._client.free(self, timeout=timeout)

    def __enter__(self) -> Tensor:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the tensor if it is resident."""
        if self.resident is not None:
            self.free()


class Graph(GraphOutputs["TensorCalls", Tensor]):
    """Outputs that are collected in a `with` block, and computed in one call at its end."""

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._client.execute(*self._outputs, data_parallel=self.data_parallel, timeout=self._timeout)


class TensorCalls(TensorFactory[Tensor]):
    """The calls of the blocking client that compute, upload and download tensors."""

    _caller: Caller
    _tensor_class = Tensor

    @property
    def xp(self) -> ArrayApi[Tensor]:
        """Functions of the Array API standard, and of neural networks, on tensors of this client."""
        return ArrayApi.of(self)

    def execute(
        self,
        *outputs: Tensor,
        data_parallel: DataParallel | None = None,
        bfloat16: bool = False,
        timeout: float | None = None,
    ) -> tuple[NDArray[Any], ...]:
        """Compute tensors in one call, which runs each operation that they need once.

        Args:
            *outputs: Tensors of this client. Tensors that are computed already cost nothing, and resident ones are
                downloaded.
            data_parallel: Which operands are split over which devices; None computes on one device.
            bfloat16: Whether elements of bfloat16 are returned as those of ml_dtypes, instead of as float32.
            timeout: Seconds for the whole call, retries included.

        Returns:
            A read-only array for each output.

        Raises:
            InvalidArgumentError: The operands do not fit an operation. The message has the operation, its operands and
                the line of the program that recorded it.
            MessageTooLargeError: The operations exceed a message. Arrays that exceed one are uploaded for the call, and
                outputs downloaded.
            NotFoundError: A resident operand does not exist any more.
            ValueError: An output is a tensor of another client.
        """
        call = self._graph_call(outputs, data_parallel)
        if call.outputs:
            self._run(call, None, timeout)
        values = [self._value(content, timeout) for content in call.results()]
        return tuple([value.numpy(bfloat16) for value in values])

    def upload(
        self,
        array: ArrayLike,
        *,
        dtype: Dtype | None = None,
        device: str = "",
        ttl: float | None = None,
        timeout: float | None = None,
    ) -> Tensor:
        """Copy an array to a device of the daemon, where it stays until it is freed or expires.

        The tensor can be used in expressions, which read it in place, and `numpy()` downloads it. The elements are
        sent in chunks.

        Args:
            array: A numpy array, or an object that `numpy.asarray` converts.
            dtype: Element type to convert to; the array's by default.
            device: A device such as "cpu" or "cuda:0"; empty means the GPU with the most free memory for tensors, or
                the CPU if there is none.
            ttl: Seconds after its last use until the tensor is freed; None means the daemon's default.
            timeout: Seconds for the whole call, retries included.

        Returns:
            A resident tensor.

        Raises:
            BusyError: A quota or a limit of memory is reached.
            TypeError: `dtype` is bfloat16 and the array's is not. Only the daemon rounds to bfloat16.
        """
        return self.resident(self._upload(self._uploaded_value(array, dtype), Keep(device, ttl), timeout))

    def keep(
        self,
        *tensors: Tensor,
        device: str = "",
        ttl: float | None = None,
        data_parallel: DataParallel | None = None,
        timeout: float | None = None,
    ) -> tuple[Tensor, ...]:
        """Compute tensors in one call, and keep the results on the daemon instead of returning them.

        Args:
            *tensors: Tensors of this client. Arrays are uploaded; tensors that are resident already stay as they are.
            device: The device that computes; empty means the one with the most bytes of the resident operands.
            ttl: Seconds after its last use until a tensor is freed; None means the daemon's default.
            data_parallel: Which operands are split over which devices; the results are on the first of these. None
                computes on one device.
            timeout: Seconds for each call, retries included.

        Returns:
            The same tensors, which are resident.
        """
        keep, call = Keep(device, ttl), self._graph_call(tensors, data_parallel)
        if call.outputs:
            self._run(call, keep, timeout)
        for tensor in tensors:
            if isinstance(value := tensor._expression.content, Value):
                tensor._expression.content = self._upload(value, keep, timeout)
        return tensors

    def free(self, *tensors: Tensor, timeout: float | None = None) -> None:
        """Free resident tensors: all of them, or none if one is unknown to the daemon, which raises a NotFoundError."""
        self._caller.run(_resident.free(self._kept(tensors)), timeout)

    def copy(self, tensor: Tensor, device: str, *, ttl: float | None = None, timeout: float | None = None) -> Tensor:
        """Copy a resident tensor to a device such as "cuda:1" or "cpu", and return the copy."""
        return self.resident(self._caller.run(_resident.copy(self._kept([tensor])[0], device, ttl), timeout))

    def list_tensors(self, *, timeout: float | None = None) -> list[ResidentTensor]:
        """Return the caller's resident tensors, oldest first."""
        return self._caller.run(_resident.list_tensors(), timeout)

    def graph(self, *, data_parallel: DataParallel | None = None, timeout: float | None = None) -> Graph:
        """Collect outputs in a `with` block, and compute them in one call at its end.

        Args:
            data_parallel: As in `execute()`. The block may set `graph.data_parallel`, which can list its outputs.
            timeout: Seconds for the whole call, retries included.
        """
        return Graph(self, data_parallel, timeout)

    def _run(self, call: GraphCall, keep: Keep | None, timeout: float | None) -> None:
        """Make a call. What exceeds a message is uploaded before or downloaded after it, and freed."""
        settings = self._caller.settings
        deadline = settings.deadline(timeout)
        temporary: list[ResidentTensor] = []
        try:
            for name, value in call.large_inputs(settings):
                uploaded = self._upload(value, Keep("" if keep is None else keep.device, None), left(deadline))
                temporary.append(uploaded)
                call.replace_input(name, uploaded)
            operation = call.operation(settings, keep)
            with call.explained():
                try:
                    self._caller.until(operation, deadline)
                except MessageTooLargeError:
                    if keep is not None:
                        raise
                    self._caller.until(call.operation(settings, Keep("", None)), deadline)
            if keep is None:
                for output in call.outputs:
                    if isinstance(kept := output.content, ResidentTensor):
                        temporary.append(kept)
                        output.content = self._download(kept, left(deadline))
        finally:
            if temporary:
                # A tensor that cannot be freed expires.
                with suppress(AccelerdError):
                    self._caller.run(_resident.free(temporary), None)

    def _upload(self, value: Value, keep: Keep, timeout: float | None) -> ResidentTensor:
        settings = self._caller.settings

        def requests() -> Iterator[bytes]:
            return _resident.upload_requests(value, keep.device, keep.ttl, settings)

        responses = self._caller.retried_stream(TensorService.UPLOAD_TENSOR, requests, settings.seconds(timeout))
        return _resident.uploaded([one for one in responses])

    def _value(self, content: Value | ResidentTensor, timeout: float | None) -> Value:
        return content if isinstance(content, Value) else self._download(content, timeout)

    def _download(self, content: ResidentTensor, timeout: float | None) -> Value:
        download, request = _resident.Download(content), _resident.download_request(content)
        timeout = self._caller.settings.seconds(timeout)
        for part in self._caller.retried_stream(TensorService.DOWNLOAD_TENSOR, lambda: [request], timeout):
            download.add(part)
        return download.value()
