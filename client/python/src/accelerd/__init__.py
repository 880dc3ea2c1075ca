"""Client of accelerd: embeddings, vector search, parsing, tensors, kernels and verification, with numpy arrays.

```python
from accelerd import Client

client = Client("localhost:7433")
vectors = client.embed(["parse a date", "def parse_date(s): ..."])
```

`accelerd.aio` has the client for asyncio, and `accelerd.testing` what tests use.
"""

from importlib.metadata import PackageNotFoundError as _PackageNotFoundError
from importlib.metadata import version as _version

from ._blocking_client import Client
from ._blocking_collection import Collection
from ._blocking_kernel import CompiledKernel
from ._blocking_tensor import Graph, Tensor
from ._credentials import Tls
from ._data_parallel import DataParallel
from ._dataset import DatasetPair, DatasetRun
from ._decorator import KernelFunction, kernel
from ._default_client import verify
from ._diagnostic import Diagnostic
from ._domain import Domain
from ._embed import EmbedOptions, EmbedOutcome, Quantized, Tokens, TokenSpans
from ._errors import (
    AccelerdError,
    AlreadyExistsError,
    BusyError,
    DeadlineError,
    ErrorDetails,
    FieldViolation,
    InvalidArgumentError,
    MessageTooLargeError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)
from ._evaluate import CudaInputOutput, CudaOutput, CudaResources, Evaluation, EvaluationMismatch
from ._function import KernelProgram, Wasm, WasmBuffer
from ._geometry import geometry
from ._kernel import (
    KernelComponent,
    KernelDiagnostic,
    KernelParam,
    TranslatedKernel,
    Translation,
    TranslationError,
)
from ._kernel_benchmark import BenchmarkMismatch, KernelBenchmark
from ._kernel_fault import KernelFault
from ._launch import KernelInfo
from ._optional import MissingPackageError
from ._parse import (
    NO_ROW,
    NODE_FIELDS,
    NODE_KINDS,
    NODE_OPERATORS,
    TOKEN_KINDS,
    VALUE_TAGS,
    Nodes,
    OutlineItem,
    OutputNotRequestedError,
    Parsed,
    ParseOutcome,
    Token,
    TokenColumns,
)
from ._point_results import Hit, HitList, Hits, Point, PointList, Points, SearchResult
from ._points import SearchOptions
from ._resident import ResidentTensor
from ._results import (
    Admission,
    Clusters,
    CollectionInfo,
    CpuFallback,
    Device,
    KernelStats,
    LaneStats,
    Latency,
    MemoryAccount,
    MemoryPlace,
    MemoryPool,
    Model,
    Ranked,
    Similar,
    Snapshot,
    Stats,
)
from ._saved_graph import save_graph
from ._serve import LocalDaemon, serve
from ._small_output import SmallOutput
from ._timing import Timing, record_timings
from ._tree import Tree
from ._upsert import UpsertStep
from ._verification import VerifyOptions
from ._verify import ComparisonReport, ElementMismatch, Largest, OutputReport, PolicyOptions
from ._verify_report import CaseResult, CaseValue, Counterexample, VerifyReport

try:
    __version__ = _version("accelerd")
except _PackageNotFoundError:  # A checkout that is not installed.
    __version__ = "0+unknown"

__all__ = [
    "NODE_FIELDS",
    "NODE_KINDS",
    "NODE_OPERATORS",
    "NO_ROW",
    "TOKEN_KINDS",
    "VALUE_TAGS",
    "AccelerdError",
    "Admission",
    "AlreadyExistsError",
    "BenchmarkMismatch",
    "BusyError",
    "CaseResult",
    "CaseValue",
    "Client",
    "Clusters",
    "Collection",
    "CollectionInfo",
    "ComparisonReport",
    "CompiledKernel",
    "Counterexample",
    "CpuFallback",
    "CudaInputOutput",
    "CudaOutput",
    "CudaResources",
    "DataParallel",
    "DatasetPair",
    "DatasetRun",
    "DeadlineError",
    "Device",
    "Diagnostic",
    "Domain",
    "ElementMismatch",
    "EmbedOptions",
    "EmbedOutcome",
    "ErrorDetails",
    "Evaluation",
    "EvaluationMismatch",
    "FieldViolation",
    "Graph",
    "Hit",
    "HitList",
    "Hits",
    "InvalidArgumentError",
    "KernelBenchmark",
    "KernelComponent",
    "KernelDiagnostic",
    "KernelFault",
    "KernelFunction",
    "KernelInfo",
    "KernelParam",
    "KernelProgram",
    "KernelStats",
    "LaneStats",
    "Largest",
    "Latency",
    "LocalDaemon",
    "MemoryAccount",
    "MemoryPlace",
    "MemoryPool",
    "MessageTooLargeError",
    "MissingPackageError",
    "Model",
    "Nodes",
    "NotFoundError",
    "OutlineItem",
    "OutputNotRequestedError",
    "OutputReport",
    "ParseOutcome",
    "Parsed",
    "PermissionDeniedError",
    "Point",
    "PointList",
    "Points",
    "PolicyOptions",
    "Quantized",
    "Ranked",
    "ResidentTensor",
    "SearchOptions",
    "SearchResult",
    "Similar",
    "SmallOutput",
    "Snapshot",
    "Stats",
    "Tensor",
    "Timing",
    "Tls",
    "Token",
    "TokenColumns",
    "TokenSpans",
    "Tokens",
    "TranslatedKernel",
    "Translation",
    "TranslationError",
    "Tree",
    "UnauthenticatedError",
    "UnavailableError",
    "UpsertStep",
    "VerifyOptions",
    "VerifyReport",
    "Wasm",
    "WasmBuffer",
    "__version__",
    "geometry",
    "kernel",
    "record_timings",
    "save_graph",
    "serve",
    "verify",
]
