import datetime

from accelerd._proto import embed_pb2 as _embed_pb2
from accelerd._proto import error_pb2 as _error_pb2
from accelerd._proto import options_pb2 as _options_pb2
from accelerd._proto import tensor_pb2 as _tensor_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Metric(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    METRIC_UNSPECIFIED: _ClassVar[Metric]
    METRIC_COSINE: _ClassVar[Metric]
    METRIC_DOT: _ClassVar[Metric]
    METRIC_SQUARED_L2: _ClassVar[Metric]

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    DURABILITY_MEMORY: _ClassVar[Durability]
    DURABILITY_LOG: _ClassVar[Durability]

class Fusion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FUSION_UNSPECIFIED: _ClassVar[Fusion]
    FUSION_RELATIVE_SCORE: _ClassVar[Fusion]
    FUSION_RECIPROCAL_RANK: _ClassVar[Fusion]
METRIC_UNSPECIFIED: Metric
METRIC_COSINE: Metric
METRIC_DOT: Metric
METRIC_SQUARED_L2: Metric
DURABILITY_UNSPECIFIED: Durability
DURABILITY_MEMORY: Durability
DURABILITY_LOG: Durability
FUSION_UNSPECIFIED: Fusion
FUSION_RELATIVE_SCORE: Fusion
FUSION_RECIPROCAL_RANK: Fusion

class FindSimilarRequest(_message.Message):
    __slots__ = ("queries", "corpus", "metric", "k", "score_threshold")
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    SCORE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    queries: _tensor_pb2.Tensor
    corpus: _tensor_pb2.Tensor
    metric: Metric
    k: int
    score_threshold: float
    def __init__(self, queries: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., corpus: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., metric: _Optional[_Union[Metric, str]] = ..., k: _Optional[int] = ..., score_threshold: _Optional[float] = ...) -> None: ...

class FindSimilarResponse(_message.Message):
    __slots__ = ("indices", "scores")
    INDICES_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    indices: _tensor_pb2.Tensor
    scores: _tensor_pb2.Tensor
    def __init__(self, indices: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., scores: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ...) -> None: ...

class PointIds(_message.Message):
    __slots__ = ("numbers", "uuids", "packed_numbers", "packed_uuids")
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    UUIDS_FIELD_NUMBER: _ClassVar[int]
    PACKED_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    PACKED_UUIDS_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    uuids: _containers.RepeatedScalarFieldContainer[str]
    packed_numbers: bytes
    packed_uuids: bytes
    def __init__(self, numbers: _Optional[_Iterable[int]] = ..., uuids: _Optional[_Iterable[str]] = ..., packed_numbers: _Optional[bytes] = ..., packed_uuids: _Optional[bytes] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("string_value", "int_value", "double_value", "bool_value")
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    string_value: str
    int_value: int
    double_value: float
    bool_value: bool
    def __init__(self, string_value: _Optional[str] = ..., int_value: _Optional[int] = ..., double_value: _Optional[float] = ..., bool_value: bool = ...) -> None: ...

class Payload(_message.Message):
    __slots__ = ("fields",)
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.MessageMap[str, Value]
    def __init__(self, fields: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class PayloadColumns(_message.Message):
    __slots__ = ("columns",)
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[PayloadColumn]
    def __init__(self, columns: _Optional[_Iterable[_Union[PayloadColumn, _Mapping]]] = ...) -> None: ...

class PayloadColumn(_message.Message):
    __slots__ = ("name", "presence", "ints", "doubles", "bools", "strings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_FIELD_NUMBER: _ClassVar[int]
    INTS_FIELD_NUMBER: _ClassVar[int]
    DOUBLES_FIELD_NUMBER: _ClassVar[int]
    BOOLS_FIELD_NUMBER: _ClassVar[int]
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    presence: bytes
    ints: bytes
    doubles: bytes
    bools: bytes
    strings: StringColumn
    def __init__(self, name: _Optional[str] = ..., presence: _Optional[bytes] = ..., ints: _Optional[bytes] = ..., doubles: _Optional[bytes] = ..., bools: _Optional[bytes] = ..., strings: _Optional[_Union[StringColumn, _Mapping]] = ...) -> None: ...

class StringColumn(_message.Message):
    __slots__ = ("offsets", "data", "indices")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    offsets: bytes
    data: bytes
    indices: bytes
    def __init__(self, offsets: _Optional[bytes] = ..., data: _Optional[bytes] = ..., indices: _Optional[bytes] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("ids", "must", "must_not")
    IDS_FIELD_NUMBER: _ClassVar[int]
    MUST_FIELD_NUMBER: _ClassVar[int]
    MUST_NOT_FIELD_NUMBER: _ClassVar[int]
    ids: PointIds
    must: _containers.RepeatedCompositeFieldContainer[Condition]
    must_not: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, ids: _Optional[_Union[PointIds, _Mapping]] = ..., must: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., must_not: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("field", "equals", "any_of", "range", "number_range")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    EQUALS_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_RANGE_FIELD_NUMBER: _ClassVar[int]
    field: str
    equals: Value
    any_of: ValueSet
    range: Range
    number_range: NumberRange
    def __init__(self, field: _Optional[str] = ..., equals: _Optional[_Union[Value, _Mapping]] = ..., any_of: _Optional[_Union[ValueSet, _Mapping]] = ..., range: _Optional[_Union[Range, _Mapping]] = ..., number_range: _Optional[_Union[NumberRange, _Mapping]] = ...) -> None: ...

class ValueSet(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, values: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class NumberRange(_message.Message):
    __slots__ = ("gt", "gte", "lt", "lte")
    GT_FIELD_NUMBER: _ClassVar[int]
    GTE_FIELD_NUMBER: _ClassVar[int]
    LT_FIELD_NUMBER: _ClassVar[int]
    LTE_FIELD_NUMBER: _ClassVar[int]
    gt: Value
    gte: Value
    lt: Value
    lte: Value
    def __init__(self, gt: _Optional[_Union[Value, _Mapping]] = ..., gte: _Optional[_Union[Value, _Mapping]] = ..., lt: _Optional[_Union[Value, _Mapping]] = ..., lte: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("gt", "gte", "lt", "lte")
    GT_FIELD_NUMBER: _ClassVar[int]
    GTE_FIELD_NUMBER: _ClassVar[int]
    LT_FIELD_NUMBER: _ClassVar[int]
    LTE_FIELD_NUMBER: _ClassVar[int]
    gt: float
    gte: float
    lt: float
    lte: float
    def __init__(self, gt: _Optional[float] = ..., gte: _Optional[float] = ..., lt: _Optional[float] = ..., lte: _Optional[float] = ...) -> None: ...

class Collection(_message.Message):
    __slots__ = ("name", "dimensions", "metric", "storage", "model", "durable", "point_count", "tombstone_count", "host_memory_bytes", "device_memory_bytes", "device", "create_time", "text_field", "model_digest", "read_only", "damage", "set_aside_count", "set_aside_ids", "document_prompt", "document_prompt_name", "query_prompt", "query_prompt_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    POINT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOST_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_IDS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_PROMPT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    QUERY_PROMPT_FIELD_NUMBER: _ClassVar[int]
    QUERY_PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    dimensions: int
    metric: Metric
    storage: _tensor_pb2.Dtype
    model: str
    durable: bool
    point_count: int
    tombstone_count: int
    host_memory_bytes: int
    device_memory_bytes: int
    device: str
    create_time: _timestamp_pb2.Timestamp
    text_field: str
    model_digest: str
    read_only: bool
    damage: _containers.RepeatedScalarFieldContainer[str]
    set_aside_count: int
    set_aside_ids: PointIds
    document_prompt: str
    document_prompt_name: str
    query_prompt: str
    query_prompt_name: str
    def __init__(self, name: _Optional[str] = ..., dimensions: _Optional[int] = ..., metric: _Optional[_Union[Metric, str]] = ..., storage: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., model: _Optional[str] = ..., durable: bool = ..., point_count: _Optional[int] = ..., tombstone_count: _Optional[int] = ..., host_memory_bytes: _Optional[int] = ..., device_memory_bytes: _Optional[int] = ..., device: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., text_field: _Optional[str] = ..., model_digest: _Optional[str] = ..., read_only: bool = ..., damage: _Optional[_Iterable[str]] = ..., set_aside_count: _Optional[int] = ..., set_aside_ids: _Optional[_Union[PointIds, _Mapping]] = ..., document_prompt: _Optional[str] = ..., document_prompt_name: _Optional[str] = ..., query_prompt: _Optional[str] = ..., query_prompt_name: _Optional[str] = ...) -> None: ...

class CreateCollectionRequest(_message.Message):
    __slots__ = ("name", "dimensions", "metric", "storage", "model", "durable", "text_field", "durability", "document_prompt_name", "document_prompt", "query_prompt_name", "query_prompt")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_PROMPT_FIELD_NUMBER: _ClassVar[int]
    QUERY_PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    QUERY_PROMPT_FIELD_NUMBER: _ClassVar[int]
    name: str
    dimensions: int
    metric: Metric
    storage: _tensor_pb2.Dtype
    model: str
    durable: bool
    text_field: str
    durability: Durability
    document_prompt_name: str
    document_prompt: str
    query_prompt_name: str
    query_prompt: str
    def __init__(self, name: _Optional[str] = ..., dimensions: _Optional[int] = ..., metric: _Optional[_Union[Metric, str]] = ..., storage: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., model: _Optional[str] = ..., durable: bool = ..., text_field: _Optional[str] = ..., durability: _Optional[_Union[Durability, str]] = ..., document_prompt_name: _Optional[str] = ..., document_prompt: _Optional[str] = ..., query_prompt_name: _Optional[str] = ..., query_prompt: _Optional[str] = ...) -> None: ...

class CreateCollectionResponse(_message.Message):
    __slots__ = ("collection",)
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    collection: Collection
    def __init__(self, collection: _Optional[_Union[Collection, _Mapping]] = ...) -> None: ...

class GetCollectionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetCollectionResponse(_message.Message):
    __slots__ = ("collection",)
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    collection: Collection
    def __init__(self, collection: _Optional[_Union[Collection, _Mapping]] = ...) -> None: ...

class ListCollectionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCollectionsResponse(_message.Message):
    __slots__ = ("collections",)
    COLLECTIONS_FIELD_NUMBER: _ClassVar[int]
    collections: _containers.RepeatedCompositeFieldContainer[Collection]
    def __init__(self, collections: _Optional[_Iterable[_Union[Collection, _Mapping]]] = ...) -> None: ...

class DeleteCollectionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteCollectionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpsertRequest(_message.Message):
    __slots__ = ("collection", "ids", "vectors", "texts", "payloads", "payload_columns", "prompt_name", "prompt")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    collection: str
    ids: PointIds
    vectors: _tensor_pb2.Tensor
    texts: _embed_pb2.TextInput
    payloads: _containers.RepeatedCompositeFieldContainer[Payload]
    payload_columns: PayloadColumns
    prompt_name: str
    prompt: str
    def __init__(self, collection: _Optional[str] = ..., ids: _Optional[_Union[PointIds, _Mapping]] = ..., vectors: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., texts: _Optional[_Union[_embed_pb2.TextInput, _Mapping]] = ..., payloads: _Optional[_Iterable[_Union[Payload, _Mapping]]] = ..., payload_columns: _Optional[_Union[PayloadColumns, _Mapping]] = ..., prompt_name: _Optional[str] = ..., prompt: _Optional[str] = ...) -> None: ...

class UpsertResponse(_message.Message):
    __slots__ = ("inserted_count", "updated_count")
    INSERTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_COUNT_FIELD_NUMBER: _ClassVar[int]
    inserted_count: int
    updated_count: int
    def __init__(self, inserted_count: _Optional[int] = ..., updated_count: _Optional[int] = ...) -> None: ...

class UpsertStreamRequest(_message.Message):
    __slots__ = ("sequence", "upsert")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    UPSERT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    upsert: UpsertRequest
    def __init__(self, sequence: _Optional[int] = ..., upsert: _Optional[_Union[UpsertRequest, _Mapping]] = ...) -> None: ...

class UpsertStreamResponse(_message.Message):
    __slots__ = ("sequence", "upsert", "error")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    UPSERT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    upsert: UpsertResponse
    error: _error_pb2.ItemError
    def __init__(self, sequence: _Optional[int] = ..., upsert: _Optional[_Union[UpsertResponse, _Mapping]] = ..., error: _Optional[_Union[_error_pb2.ItemError, _Mapping]] = ...) -> None: ...

class DeletePointsRequest(_message.Message):
    __slots__ = ("collection", "filter")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    collection: str
    filter: Filter
    def __init__(self, collection: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ...) -> None: ...

class DeletePointsResponse(_message.Message):
    __slots__ = ("deleted_count",)
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    def __init__(self, deleted_count: _Optional[int] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("collection", "vectors", "texts", "ids", "limit", "offset", "score_threshold", "filter", "include_payload", "hybrid", "fusion", "text_weight", "columns", "prompt_name", "prompt")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SCORE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HYBRID_FIELD_NUMBER: _ClassVar[int]
    FUSION_FIELD_NUMBER: _ClassVar[int]
    TEXT_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    collection: str
    vectors: _tensor_pb2.Tensor
    texts: _embed_pb2.TextInput
    ids: PointIds
    limit: int
    offset: int
    score_threshold: float
    filter: Filter
    include_payload: bool
    hybrid: bool
    fusion: Fusion
    text_weight: float
    columns: bool
    prompt_name: str
    prompt: str
    def __init__(self, collection: _Optional[str] = ..., vectors: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., texts: _Optional[_Union[_embed_pb2.TextInput, _Mapping]] = ..., ids: _Optional[_Union[PointIds, _Mapping]] = ..., limit: _Optional[int] = ..., offset: _Optional[int] = ..., score_threshold: _Optional[float] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., include_payload: bool = ..., hybrid: bool = ..., fusion: _Optional[_Union[Fusion, str]] = ..., text_weight: _Optional[float] = ..., columns: bool = ..., prompt_name: _Optional[str] = ..., prompt: _Optional[str] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("results", "exact", "columns")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SearchResult]
    exact: bool
    columns: HitColumns
    def __init__(self, results: _Optional[_Iterable[_Union[SearchResult, _Mapping]]] = ..., exact: bool = ..., columns: _Optional[_Union[HitColumns, _Mapping]] = ...) -> None: ...

class HitColumns(_message.Message):
    __slots__ = ("offsets", "ids", "scores", "payloads")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    offsets: bytes
    ids: PointIds
    scores: bytes
    payloads: PayloadColumns
    def __init__(self, offsets: _Optional[bytes] = ..., ids: _Optional[_Union[PointIds, _Mapping]] = ..., scores: _Optional[bytes] = ..., payloads: _Optional[_Union[PayloadColumns, _Mapping]] = ...) -> None: ...

class SearchResult(_message.Message):
    __slots__ = ("hits",)
    HITS_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[Hit]
    def __init__(self, hits: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ...) -> None: ...

class Hit(_message.Message):
    __slots__ = ("number", "uuid", "score", "payload")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    number: int
    uuid: str
    score: float
    payload: Payload
    def __init__(self, number: _Optional[int] = ..., uuid: _Optional[str] = ..., score: _Optional[float] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class GetPointsRequest(_message.Message):
    __slots__ = ("collection", "ids", "include_vectors", "columns", "set_aside")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_VECTORS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    collection: str
    ids: PointIds
    include_vectors: bool
    columns: bool
    set_aside: bool
    def __init__(self, collection: _Optional[str] = ..., ids: _Optional[_Union[PointIds, _Mapping]] = ..., include_vectors: bool = ..., columns: bool = ..., set_aside: bool = ...) -> None: ...

class GetPointsResponse(_message.Message):
    __slots__ = ("ids", "payloads", "vectors", "payload_columns")
    IDS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ids: PointIds
    payloads: _containers.RepeatedCompositeFieldContainer[Payload]
    vectors: _tensor_pb2.Tensor
    payload_columns: PayloadColumns
    def __init__(self, ids: _Optional[_Union[PointIds, _Mapping]] = ..., payloads: _Optional[_Iterable[_Union[Payload, _Mapping]]] = ..., vectors: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., payload_columns: _Optional[_Union[PayloadColumns, _Mapping]] = ...) -> None: ...

class ScrollPointsRequest(_message.Message):
    __slots__ = ("collection", "filter", "limit", "cursor", "include_payload", "include_vectors", "columns")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_VECTORS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    collection: str
    filter: Filter
    limit: int
    cursor: bytes
    include_payload: bool
    include_vectors: bool
    columns: bool
    def __init__(self, collection: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., limit: _Optional[int] = ..., cursor: _Optional[bytes] = ..., include_payload: bool = ..., include_vectors: bool = ..., columns: bool = ...) -> None: ...

class ScrollPointsResponse(_message.Message):
    __slots__ = ("ids", "payloads", "vectors", "payload_columns", "next_cursor")
    IDS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    ids: PointIds
    payloads: _containers.RepeatedCompositeFieldContainer[Payload]
    vectors: _tensor_pb2.Tensor
    payload_columns: PayloadColumns
    next_cursor: bytes
    def __init__(self, ids: _Optional[_Union[PointIds, _Mapping]] = ..., payloads: _Optional[_Iterable[_Union[Payload, _Mapping]]] = ..., vectors: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., payload_columns: _Optional[_Union[PayloadColumns, _Mapping]] = ..., next_cursor: _Optional[bytes] = ...) -> None: ...

class CountPointsRequest(_message.Message):
    __slots__ = ("collection", "filter")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    collection: str
    filter: Filter
    def __init__(self, collection: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ...) -> None: ...

class CountPointsResponse(_message.Message):
    __slots__ = ("point_count", "exact")
    POINT_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    point_count: int
    exact: bool
    def __init__(self, point_count: _Optional[int] = ..., exact: bool = ...) -> None: ...

class CreateSnapshotRequest(_message.Message):
    __slots__ = ("collection", "url")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    collection: str
    url: str
    def __init__(self, collection: _Optional[str] = ..., url: _Optional[str] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("url", "version", "point_count", "size_bytes", "create_time")
    URL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POINT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    url: str
    version: int
    point_count: int
    size_bytes: int
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, url: _Optional[str] = ..., version: _Optional[int] = ..., point_count: _Optional[int] = ..., size_bytes: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ("collection", "url")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    collection: str
    url: str
    def __init__(self, collection: _Optional[str] = ..., url: _Optional[str] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots",)
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ...) -> None: ...

class PruneSnapshotsRequest(_message.Message):
    __slots__ = ("collection", "url", "keep_count")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    KEEP_COUNT_FIELD_NUMBER: _ClassVar[int]
    collection: str
    url: str
    keep_count: int
    def __init__(self, collection: _Optional[str] = ..., url: _Optional[str] = ..., keep_count: _Optional[int] = ...) -> None: ...

class PruneSnapshotsResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: _containers.RepeatedCompositeFieldContainer[Snapshot]
    def __init__(self, deleted: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ...) -> None: ...

class RestoreCollectionRequest(_message.Message):
    __slots__ = ("url", "name")
    URL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    url: str
    name: str
    def __init__(self, url: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class RestoreCollectionResponse(_message.Message):
    __slots__ = ("collection",)
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    collection: Collection
    def __init__(self, collection: _Optional[_Union[Collection, _Mapping]] = ...) -> None: ...

class ClusterRequest(_message.Message):
    __slots__ = ("vectors", "collection", "cluster_count", "max_iterations", "tolerance", "init_count", "spherical", "seed")
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    INIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SPHERICAL_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    vectors: _tensor_pb2.Tensor
    collection: str
    cluster_count: int
    max_iterations: int
    tolerance: float
    init_count: int
    spherical: bool
    seed: int
    def __init__(self, vectors: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., collection: _Optional[str] = ..., cluster_count: _Optional[int] = ..., max_iterations: _Optional[int] = ..., tolerance: _Optional[float] = ..., init_count: _Optional[int] = ..., spherical: bool = ..., seed: _Optional[int] = ...) -> None: ...

class ClusterResponse(_message.Message):
    __slots__ = ("centers", "assignments", "inertia", "iteration_count", "converged", "ids")
    CENTERS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    INERTIA_FIELD_NUMBER: _ClassVar[int]
    ITERATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONVERGED_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    centers: _tensor_pb2.Tensor
    assignments: _tensor_pb2.Tensor
    inertia: float
    iteration_count: int
    converged: bool
    ids: PointIds
    def __init__(self, centers: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., assignments: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., inertia: _Optional[float] = ..., iteration_count: _Optional[int] = ..., converged: bool = ..., ids: _Optional[_Union[PointIds, _Mapping]] = ...) -> None: ...
