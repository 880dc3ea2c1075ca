from accelerd._proto import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    __slots__ = ("model", "texts", "tokens", "dimensions", "normalize")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    model: str
    texts: TextInput
    tokens: TokenInput
    dimensions: int
    normalize: bool
    def __init__(self, model: _Optional[str] = ..., texts: _Optional[_Union[TextInput, _Mapping]] = ..., tokens: _Optional[_Union[TokenInput, _Mapping]] = ..., dimensions: _Optional[int] = ..., normalize: bool = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("embeddings", "token_counts", "model")
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    embeddings: _tensor_pb2.Tensor
    token_counts: _containers.RepeatedScalarFieldContainer[int]
    model: str
    def __init__(self, embeddings: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., token_counts: _Optional[_Iterable[int]] = ..., model: _Optional[str] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ("model", "texts")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    model: str
    texts: TextInput
    def __init__(self, model: _Optional[str] = ..., texts: _Optional[_Union[TextInput, _Mapping]] = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: TokenInput
    def __init__(self, tokens: _Optional[_Union[TokenInput, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "dimensions", "offered_dimensions", "vocabulary_size", "size_bytes", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    OFFERED_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    dimensions: int
    offered_dimensions: _containers.RepeatedScalarFieldContainer[int]
    vocabulary_size: int
    size_bytes: int
    sha256: str
    def __init__(self, name: _Optional[str] = ..., dimensions: _Optional[int] = ..., offered_dimensions: _Optional[_Iterable[int]] = ..., vocabulary_size: _Optional[int] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...
