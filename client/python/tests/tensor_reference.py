"""A TensorService that computes graphs with numpy: the reference of the tests of lazy tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from accelerd._proto import tensor_pb2 as pb
from accelerd._proto import tensor_pb2_grpc
from accelerd._tensor import NUMPY_DTYPES, Value, dtype_number, to_array

NAMES = {
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "neg": "negative",
    "pow": "power",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "acosh": "arccosh",
    "asinh": "arcsinh",
    "atanh": "arctanh",
    "atan2": "arctan2",
}


def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Any, dim: Any = None, keepdim: bool = False, **attributes: Any) -> Any:
        if "correction" in attributes:
            attributes["ddof"] = attributes.pop("correction")
        axis = tuple(dim) if isinstance(dim, list) else dim
        return function(x, axis=axis, keepdims=keepdim, **attributes)

    return reduce


def softmax(x: Any, dim: int) -> Any:
    powers = np.exp(x - x.max(dim, keepdims=True))
    return powers / powers.sum(dim, keepdims=True)


def unslice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = None) -> Any:
    index = [slice(None)] * x.ndim
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


def select(x: Any, dim: int, index: int) -> Any:
    return np.moveaxis(x, dim, 0)[index]


def layer_norm(x: Any, weight: Any = 1, bias: Any = 0, eps: float = 1e-5) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def rms_norm(x: Any, weight: Any = 1, eps: float = 2.0**-23) -> Any:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) * weight


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, precision: str = "") -> Any:
    return (np.swapaxes(a, -1, -2) if transpose_a else a) @ (np.swapaxes(b, -1, -2) if transpose_b else b)


def linear(x: Any, weight: Any, bias: Any = 0, activation: str | None = None) -> Any:
    found = x @ weight.T + bias
    return found if activation is None else FUNCTIONS[activation](found)


def log_softmax(x: Any, dim: int) -> Any:
    return np.log(softmax(x, dim))


def logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def norm(x: Any, axis: Any, keepdims: bool) -> Any:
    return np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims))


def argsort(x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return np.argsort(-x if descending else x, dim, kind="stable")


def arange(end: Any, start: Any = 0, step: Any = 1, dtype: Any = None) -> Any:
    return np.arange(start, end, step, dtype or (None if isinstance(start + end + step, int) else np.float32))


def attention(query: Any, key: Any, value: Any, *more: Any, is_causal: bool = False, scale: Any = None) -> Any:
    scores = query @ np.swapaxes(key, -1, -2) * (scale or query.shape[-1] ** -0.5)
    takes_part = np.tril(np.ones(scores.shape[-2:], bool)) if is_causal else np.ones(scores.shape[-2:], bool)
    for one in more:
        if one.dtype == np.int32:
            takes_part = takes_part & (np.arange(scores.shape[-1]) < one[..., None, None, None])
        elif one.dtype == bool:
            takes_part = takes_part & one
        else:
            scores = scores + one
    powers = np.where(takes_part, np.exp(scores), 0)
    sums = powers.sum(-1, keepdims=True)
    return (powers / np.where(sums == 0, 1, sums)) @ value


def full(shape: Any, value: Any, dtype: Any = None) -> Any:
    return np.full(shape, value, dtype or {float: np.float32}.get(type(value)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": np.where,
    "clamp": lambda x, min=None, max=None: np.clip(x, min, max),
    "to": lambda x, dtype: x.astype(dtype),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, x * np.float32(negative_slope)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reshape": lambda x, shape: x.reshape(shape),
    "permute": lambda x, dims: x.transpose(dims),
    "transpose": lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1),
    "unsqueeze": lambda x, dim: np.expand_dims(x, dim),
    "squeeze": lambda x, dim: np.squeeze(x, tuple(dim) if isinstance(dim, list) else dim),
    "flip": lambda x, dims: np.flip(x, dims),
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "select": select,
    "slice": unslice,
    "concat": lambda *arrays, dim=0: np.concatenate(arrays, dim),
    "matmul": matmul,
    "linear": linear,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "scaled_dot_product_attention": attention,
    "arange": arange,
    "linspace": lambda start, end, steps, dtype=np.float32: np.linspace(start, end, steps, dtype=dtype),
    "full": full,
    "var_mean": lambda x, dim=None: (x.var(dim, ddof=1), x.mean(dim)),
    "index_select": lambda x, indices, dim: np.take(x, indices, dim),
    "take_along_dim": lambda x, indices, dim: np.take_along_axis(x, indices, dim),
    "argsort": argsort,
    "sort": lambda x, **how: (np.take_along_axis(x, argsort(x, **how), how["dim"]), argsort(x, **how)),
    "cumsum": lambda x, dim, dtype=None: np.cumsum(x, dim, dtype),
    "cumprod": lambda x, dim, dtype=None: np.cumprod(x, dim, dtype),
    "amax": reduction(np.max),
    "amin": reduction(np.min),
    "norm": reduction(norm),
    "logsumexp": reduction(logsumexp),
    **{name: reduction(getattr(np, name)) for name in ("sum", "mean", "prod", "all", "any", "std", "var")},
    **{name: reduction(getattr(np, name)) for name in ("argmax", "argmin")},
}


def compute(node: pb.TensorNode, operands: list[Any]) -> Any:
    """The result of a node, or a tuple of its results."""
    attributes = {name: plain(name, value) for name, value in node.attributes.items()}
    found = FUNCTIONS.get(node.op) or getattr(np, NAMES.get(node.op, node.op))
    # A number has the element type of the tensor, as numpy promotes it.
    if "input" in attributes:
        operands = [*operands[: node.op == "where"], attributes.pop("input"), *operands[node.op == "where" :]]
    if "other" in attributes:
        operands = [*operands, attributes.pop("other")]
    return found(*operands, **attributes)


def plain(name: str, attribute: pb.TensorAttribute) -> Any:
    """The value of an attribute."""
    kind = attribute.WhichOneof("value")
    value = getattr(attribute, kind)
    if name == "dtype":
        return NUMPY_DTYPES[dtype_number(value)]
    return list(value.values) if kind == "integers" else value


class Reference(tensor_pb2_grpc.TensorServiceServicer):
    """Computes graphs, keeps tensors, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[pb.ExecuteRequest] = []
        self.uploads: list[list[pb.UploadTensorRequest]] = []
        self.resident: dict[str, tuple[pb.ResidentTensor, pb.Tensor]] = {}
        #: Larger responses are refused, as the daemon does.
        self.max_response_bytes: int | None = None
        self._handles = itertools.count(1)

    def keep(self, tensor: pb.Tensor, device: str, ttl: float) -> pb.ResidentTensor:
        """Keep a tensor; the time of its creation is 0."""
        size, name = len(tensor.data), f"{next(self._handles):032x}"
        kept = pb.ResidentTensor(handle=name, dtype=tensor.dtype, shape=tensor.shape, size_bytes=size)
        kept.device = device or "cuda:0"
        kept.expire_time.FromNanoseconds(int(ttl * 1e9))
        self.resident[name] = (kept, tensor)
        return kept

    def find(self, handle: str, context: grpc.ServicerContext) -> tuple[pb.ResidentTensor, pb.Tensor]:
        if handle not in self.resident:
            context.abort(grpc.StatusCode.NOT_FOUND, f'tensor "{handle}" does not exist')
        return self.resident[handle]

    def UploadTensor(self, request_iterator, context):  # noqa: N802
        parts = list(request_iterator)
        self.uploads.append(parts)
        header = parts[0].header
        data = b"".join(part.data for part in parts)
        tensor = pb.Tensor(dtype=header.dtype, shape=header.shape, data=data)
        return pb.UploadTensorResponse(tensor=self.keep(tensor, header.device, header.ttl.ToNanoseconds() / 1e9))

    def DownloadTensor(self, request, context):  # noqa: N802
        kept, tensor = self.find(request.handle, context)
        yield pb.DownloadTensorResponse(tensor=kept, data=tensor.data[:7])
        if tensor.data[7:]:
            yield pb.DownloadTensorResponse(data=tensor.data[7:])

    def FreeTensors(self, request, context):  # noqa: N802
        for handle in request.handles:
            self.find(handle, context)
        for handle in request.handles:
            self.resident.pop(handle, None)
        return pb.FreeTensorsResponse()

    def ListTensors(self, request, context):  # noqa: N802
        return pb.ListTensorsResponse(tensors=[kept for kept, _ in self.resident.values()])

    def CopyTensor(self, request, context):  # noqa: N802
        _, tensor = self.find(request.handle, context)
        return pb.CopyTensorResponse(tensor=self.keep(tensor, request.device, request.ttl.ToNanoseconds() / 1e9))

    def Execute(self, request, context):  # noqa: N802
        self.requests.append(request)
        values = {
            one.name: to_array(self.find(one.handle, context)[1] if one.handle else one.value) for one in request.inputs
        }
        for node in request.nodes:
            try:
                with np.errstate(all="ignore"):
                    found = compute(node, [values[name] for name in node.inputs])
                for nth, value in enumerate(found if isinstance(found, tuple) else (found,)):
                    values[f"{node.name}:{nth}" if nth else node.name] = np.asarray(value)
            except Exception as wrong:
                refuse(context, node.name, str(wrong))
        response = pb.ExecuteResponse()
        for output in request.outputs:
            tensor = pb.Tensor.FromString(b"".join(Value.of(values[output.name]).encode()))
            if output.keep:
                ttl = request.keep_ttl.ToNanoseconds() / 1e9
                response.kept.append(self.keep(tensor, request.device, ttl))
            else:
                response.outputs.append(tensor)
        limit = self.max_response_bytes
        if limit is not None and (size := response.ByteSize()) > limit:
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
            context.abort(code, f"the response has {size} bytes, a message at most {limit}")
        return response


def refuse(context: grpc.ServicerContext, node: str, why: str) -> None:
    """Abort a call for a node, with a field violation."""
    bad, packed = error_details_pb2.BadRequest(), any_pb2.Any()
    bad.field_violations.add(field=f"nodes.{node}", description=why)
    packed.Pack(bad)
    code = grpc.StatusCode.INVALID_ARGUMENT
    message = f'node "{node}": {why}'
    status = status_pb2.Status(code=code.value[0], message=message, details=[packed])
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(code, message)


@contextmanager
def serve() -> Iterator[tuple[Reference, str]]:
    """Serve the reference: the servicer and its address."""
    servicer = Reference()
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", -1)])
    tensor_pb2_grpc.add_TensorServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield servicer, f"127.0.0.1:{port}"
    finally:
        server.stop(None)
