from accelerd._proto import error_pb2 as _error_pb2
from accelerd._proto import options_pb2 as _options_pb2
from accelerd._proto import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Pooling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POOLING_UNSPECIFIED: _ClassVar[Pooling]
    POOLING_CLS: _ClassVar[Pooling]
    POOLING_MEAN: _ClassVar[Pooling]
    POOLING_MAX: _ClassVar[Pooling]
    POOLING_LAST: _ClassVar[Pooling]
    POOLING_WEIGHTED_MEAN: _ClassVar[Pooling]
    POOLING_NONE: _ClassVar[Pooling]

class TruncationSide(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRUNCATION_SIDE_UNSPECIFIED: _ClassVar[TruncationSide]
    TRUNCATION_SIDE_RIGHT: _ClassVar[TruncationSide]
    TRUNCATION_SIDE_LEFT: _ClassVar[TruncationSide]

class LongInput(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LONG_INPUT_UNSPECIFIED: _ClassVar[LongInput]
    LONG_INPUT_TRUNCATE: _ClassVar[LongInput]
    LONG_INPUT_ERROR: _ClassVar[LongInput]
    LONG_INPUT_CHUNK: _ClassVar[LongInput]

class OutputType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_TYPE_UNSPECIFIED: _ClassVar[OutputType]
    OUTPUT_TYPE_F32: _ClassVar[OutputType]
    OUTPUT_TYPE_F16: _ClassVar[OutputType]
    OUTPUT_TYPE_BF16: _ClassVar[OutputType]
    OUTPUT_TYPE_INT8: _ClassVar[OutputType]
    OUTPUT_TYPE_BINARY: _ClassVar[OutputType]

class Precision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRECISION_UNSPECIFIED: _ClassVar[Precision]
    PRECISION_BF16: _ClassVar[Precision]
    PRECISION_F16: _ClassVar[Precision]
    PRECISION_F32: _ClassVar[Precision]
POOLING_UNSPECIFIED: Pooling
POOLING_CLS: Pooling
POOLING_MEAN: Pooling
POOLING_MAX: Pooling
POOLING_LAST: Pooling
POOLING_WEIGHTED_MEAN: Pooling
POOLING_NONE: Pooling
TRUNCATION_SIDE_UNSPECIFIED: TruncationSide
TRUNCATION_SIDE_RIGHT: TruncationSide
TRUNCATION_SIDE_LEFT: TruncationSide
LONG_INPUT_UNSPECIFIED: LongInput
LONG_INPUT_TRUNCATE: LongInput
LONG_INPUT_ERROR: LongInput
LONG_INPUT_CHUNK: LongInput
OUTPUT_TYPE_UNSPECIFIED: OutputType
OUTPUT_TYPE_F32: OutputType
OUTPUT_TYPE_F16: OutputType
OUTPUT_TYPE_BF16: OutputType
OUTPUT_TYPE_INT8: OutputType
OUTPUT_TYPE_BINARY: OutputType
PRECISION_UNSPECIFIED: Precision
PRECISION_BF16: Precision
PRECISION_F16: Precision
PRECISION_F32: Precision

class Span(_message.Message):
    __slots__ = ("text", "start", "end")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    text: int
    start: int
    end: int
    def __init__(self, text: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class TextInput(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class TokenInput(_message.Message):
    __slots__ = ("ids", "offsets")
    IDS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class EmbedRequest(_message.Message):
    __slots__ = ("model", "texts", "tokens", "dimensions", "normalize", "pooling", "spans", "prompt_name", "prompt", "truncation_side", "long_input", "max_tokens", "output_type", "exact_gelu")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_SIDE_FIELD_NUMBER: _ClassVar[int]
    LONG_INPUT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXACT_GELU_FIELD_NUMBER: _ClassVar[int]
    model: str
    texts: TextInput
    tokens: TokenInput
    dimensions: int
    normalize: bool
    pooling: Pooling
    spans: _containers.RepeatedCompositeFieldContainer[Span]
    prompt_name: str
    prompt: str
    truncation_side: TruncationSide
    long_input: LongInput
    max_tokens: int
    output_type: OutputType
    exact_gelu: bool
    def __init__(self, model: _Optional[str] = ..., texts: _Optional[_Union[TextInput, _Mapping]] = ..., tokens: _Optional[_Union[TokenInput, _Mapping]] = ..., dimensions: _Optional[int] = ..., normalize: bool = ..., pooling: _Optional[_Union[Pooling, str]] = ..., spans: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., prompt_name: _Optional[str] = ..., prompt: _Optional[str] = ..., truncation_side: _Optional[_Union[TruncationSide, str]] = ..., long_input: _Optional[_Union[LongInput, str]] = ..., max_tokens: _Optional[int] = ..., output_type: _Optional[_Union[OutputType, str]] = ..., exact_gelu: bool = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("embeddings", "token_counts", "model", "scales")
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    embeddings: _tensor_pb2.Tensor
    token_counts: _containers.RepeatedScalarFieldContainer[int]
    model: str
    scales: _tensor_pb2.Tensor
    def __init__(self, embeddings: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., token_counts: _Optional[_Iterable[int]] = ..., model: _Optional[str] = ..., scales: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ...) -> None: ...

class EmbedStreamRequest(_message.Message):
    __slots__ = ("sequence", "embed")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EMBED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    embed: EmbedRequest
    def __init__(self, sequence: _Optional[int] = ..., embed: _Optional[_Union[EmbedRequest, _Mapping]] = ...) -> None: ...

class EmbedStreamResponse(_message.Message):
    __slots__ = ("sequence", "embed", "error")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EMBED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    embed: EmbedResponse
    error: _error_pb2.ItemError
    def __init__(self, sequence: _Optional[int] = ..., embed: _Optional[_Union[EmbedResponse, _Mapping]] = ..., error: _Optional[_Union[_error_pb2.ItemError, _Mapping]] = ...) -> None: ...

class RerankRequest(_message.Message):
    __slots__ = ("model", "query", "documents", "top_n", "raw_scores", "max_tokens")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    TOP_N_FIELD_NUMBER: _ClassVar[int]
    RAW_SCORES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    model: str
    query: str
    documents: TextInput
    top_n: int
    raw_scores: bool
    max_tokens: int
    def __init__(self, model: _Optional[str] = ..., query: _Optional[str] = ..., documents: _Optional[_Union[TextInput, _Mapping]] = ..., top_n: _Optional[int] = ..., raw_scores: bool = ..., max_tokens: _Optional[int] = ...) -> None: ...

class RankedDocument(_message.Message):
    __slots__ = ("index", "score")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    index: int
    score: float
    def __init__(self, index: _Optional[int] = ..., score: _Optional[float] = ...) -> None: ...

class RerankResponse(_message.Message):
    __slots__ = ("results", "token_counts", "model")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RankedDocument]
    token_counts: _containers.RepeatedScalarFieldContainer[int]
    model: str
    def __init__(self, results: _Optional[_Iterable[_Union[RankedDocument, _Mapping]]] = ..., token_counts: _Optional[_Iterable[int]] = ..., model: _Optional[str] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ("model", "texts", "with_spans")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    WITH_SPANS_FIELD_NUMBER: _ClassVar[int]
    model: str
    texts: TextInput
    with_spans: bool
    def __init__(self, model: _Optional[str] = ..., texts: _Optional[_Union[TextInput, _Mapping]] = ..., with_spans: bool = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ("tokens", "starts", "ends", "special", "special_texts")
    class SpecialTextsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TEXTS_FIELD_NUMBER: _ClassVar[int]
    tokens: TokenInput
    starts: _containers.RepeatedScalarFieldContainer[int]
    ends: _containers.RepeatedScalarFieldContainer[int]
    special: _containers.RepeatedScalarFieldContainer[bool]
    special_texts: _containers.ScalarMap[int, str]
    def __init__(self, tokens: _Optional[_Union[TokenInput, _Mapping]] = ..., starts: _Optional[_Iterable[int]] = ..., ends: _Optional[_Iterable[int]] = ..., special: _Optional[_Iterable[bool]] = ..., special_texts: _Optional[_Mapping[int, str]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "dimensions", "supported_dimensions", "vocabulary_size", "size_bytes", "sha256", "aliases", "architecture", "max_tokens", "default_max_tokens", "pooling", "normalize", "prompt_names", "accepts_text", "precision", "cross_encoder", "cpu_precision", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAMES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_TEXT_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    CROSS_ENCODER_FIELD_NUMBER: _ClassVar[int]
    CPU_PRECISION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    dimensions: int
    supported_dimensions: _containers.RepeatedScalarFieldContainer[int]
    vocabulary_size: int
    size_bytes: int
    sha256: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    architecture: str
    max_tokens: int
    default_max_tokens: int
    pooling: Pooling
    normalize: bool
    prompt_names: _containers.RepeatedScalarFieldContainer[str]
    accepts_text: bool
    precision: Precision
    cross_encoder: bool
    cpu_precision: Precision
    digest: str
    def __init__(self, name: _Optional[str] = ..., dimensions: _Optional[int] = ..., supported_dimensions: _Optional[_Iterable[int]] = ..., vocabulary_size: _Optional[int] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., architecture: _Optional[str] = ..., max_tokens: _Optional[int] = ..., default_max_tokens: _Optional[int] = ..., pooling: _Optional[_Union[Pooling, str]] = ..., normalize: bool = ..., prompt_names: _Optional[_Iterable[str]] = ..., accepts_text: bool = ..., precision: _Optional[_Union[Precision, str]] = ..., cross_encoder: bool = ..., cpu_precision: _Optional[_Union[Precision, str]] = ..., digest: _Optional[str] = ...) -> None: ...

class LoadModelRequest(_message.Message):
    __slots__ = ("name", "path", "aliases", "precision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    path: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    precision: Precision
    def __init__(self, name: _Optional[str] = ..., path: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., precision: _Optional[_Union[Precision, str]] = ...) -> None: ...

class LoadModelResponse(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class UnloadModelRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class UnloadModelResponse(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...
