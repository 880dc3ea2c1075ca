"""The methods of accelerd.v1, written by generate.py from the .proto files."""

from __future__ import annotations

from ._call import Method
from ._proto import device_pb2, embed_pb2, kernel_pb2, parse_pb2, similarity_pb2, tensor_pb2, verify_pb2


class DeviceService:
    """Methods of accelerd.v1.DeviceService."""

    LIST_DEVICES = Method("/accelerd.v1.DeviceService/ListDevices", device_pb2.ListDevicesResponse, is_idempotent=True)
    GET_STATS = Method("/accelerd.v1.DeviceService/GetStats", device_pb2.GetStatsResponse, is_idempotent=True)
    WATCH = Method("/accelerd.v1.DeviceService/Watch", device_pb2.WatchResponse, is_idempotent=True)
    EXPORT_REPORT = Method(
        "/accelerd.v1.DeviceService/ExportReport", device_pb2.ExportReportResponse, is_idempotent=True
    )
    DRAIN = Method("/accelerd.v1.DeviceService/Drain", device_pb2.DrainResponse, is_idempotent=True)
    RESUME = Method("/accelerd.v1.DeviceService/Resume", device_pb2.ResumeResponse, is_idempotent=True)


class EmbedService:
    """Methods of accelerd.v1.EmbedService."""

    EMBED = Method("/accelerd.v1.EmbedService/Embed", embed_pb2.EmbedResponse, is_idempotent=True)
    EMBED_STREAM = Method("/accelerd.v1.EmbedService/EmbedStream", embed_pb2.EmbedStreamResponse, is_idempotent=True)
    RERANK = Method("/accelerd.v1.EmbedService/Rerank", embed_pb2.RerankResponse, is_idempotent=True)
    TOKENIZE = Method("/accelerd.v1.EmbedService/Tokenize", embed_pb2.TokenizeResponse, is_idempotent=True)
    LIST_MODELS = Method("/accelerd.v1.EmbedService/ListModels", embed_pb2.ListModelsResponse, is_idempotent=True)
    LOAD_MODEL = Method("/accelerd.v1.EmbedService/LoadModel", embed_pb2.LoadModelResponse, is_idempotent=False)
    UNLOAD_MODEL = Method("/accelerd.v1.EmbedService/UnloadModel", embed_pb2.UnloadModelResponse, is_idempotent=False)


class KernelService:
    """Methods of accelerd.v1.KernelService."""

    TRANSLATE = Method("/accelerd.v1.KernelService/Translate", kernel_pb2.TranslateResponse, is_idempotent=True)
    COMPILE = Method("/accelerd.v1.KernelService/Compile", kernel_pb2.CompileResponse, is_idempotent=True)
    LAUNCH = Method("/accelerd.v1.KernelService/Launch", kernel_pb2.LaunchResponse, is_idempotent=True)
    BENCHMARK = Method("/accelerd.v1.KernelService/Benchmark", kernel_pb2.BenchmarkResponse, is_idempotent=True)
    EVALUATE = Method("/accelerd.v1.KernelService/Evaluate", kernel_pb2.EvaluateResponse, is_idempotent=True)
    GENERATE_DATASET = Method(
        "/accelerd.v1.KernelService/GenerateDataset", kernel_pb2.GenerateDatasetResponse, is_idempotent=True
    )
    LIST_KERNELS = Method("/accelerd.v1.KernelService/ListKernels", kernel_pb2.ListKernelsResponse, is_idempotent=True)
    EVICT_KERNEL = Method("/accelerd.v1.KernelService/EvictKernel", kernel_pb2.EvictKernelResponse, is_idempotent=False)


class ParseService:
    """Methods of accelerd.v1.ParseService."""

    PARSE = Method("/accelerd.v1.ParseService/Parse", parse_pb2.ParseResponse, is_idempotent=True)
    PARSE_STREAM = Method("/accelerd.v1.ParseService/ParseStream", parse_pb2.ParseStreamResponse, is_idempotent=True)


class SimilarityService:
    """Methods of accelerd.v1.SimilarityService."""

    FIND_SIMILAR = Method(
        "/accelerd.v1.SimilarityService/FindSimilar", similarity_pb2.FindSimilarResponse, is_idempotent=True
    )
    CREATE_COLLECTION = Method(
        "/accelerd.v1.SimilarityService/CreateCollection", similarity_pb2.CreateCollectionResponse, is_idempotent=False
    )
    GET_COLLECTION = Method(
        "/accelerd.v1.SimilarityService/GetCollection", similarity_pb2.GetCollectionResponse, is_idempotent=True
    )
    LIST_COLLECTIONS = Method(
        "/accelerd.v1.SimilarityService/ListCollections", similarity_pb2.ListCollectionsResponse, is_idempotent=True
    )
    DELETE_COLLECTION = Method(
        "/accelerd.v1.SimilarityService/DeleteCollection", similarity_pb2.DeleteCollectionResponse, is_idempotent=False
    )
    UPSERT = Method("/accelerd.v1.SimilarityService/Upsert", similarity_pb2.UpsertResponse, is_idempotent=True)
    UPSERT_STREAM = Method(
        "/accelerd.v1.SimilarityService/UpsertStream", similarity_pb2.UpsertStreamResponse, is_idempotent=True
    )
    DELETE_POINTS = Method(
        "/accelerd.v1.SimilarityService/DeletePoints", similarity_pb2.DeletePointsResponse, is_idempotent=True
    )
    SEARCH = Method("/accelerd.v1.SimilarityService/Search", similarity_pb2.SearchResponse, is_idempotent=True)
    GET_POINTS = Method(
        "/accelerd.v1.SimilarityService/GetPoints", similarity_pb2.GetPointsResponse, is_idempotent=True
    )
    SCROLL_POINTS = Method(
        "/accelerd.v1.SimilarityService/ScrollPoints", similarity_pb2.ScrollPointsResponse, is_idempotent=True
    )
    COUNT_POINTS = Method(
        "/accelerd.v1.SimilarityService/CountPoints", similarity_pb2.CountPointsResponse, is_idempotent=True
    )
    CREATE_SNAPSHOT = Method(
        "/accelerd.v1.SimilarityService/CreateSnapshot", similarity_pb2.CreateSnapshotResponse, is_idempotent=False
    )
    LIST_SNAPSHOTS = Method(
        "/accelerd.v1.SimilarityService/ListSnapshots", similarity_pb2.ListSnapshotsResponse, is_idempotent=True
    )
    PRUNE_SNAPSHOTS = Method(
        "/accelerd.v1.SimilarityService/PruneSnapshots", similarity_pb2.PruneSnapshotsResponse, is_idempotent=True
    )
    RESTORE_COLLECTION = Method(
        "/accelerd.v1.SimilarityService/RestoreCollection",
        similarity_pb2.RestoreCollectionResponse,
        is_idempotent=False,
    )
    CLUSTER = Method("/accelerd.v1.SimilarityService/Cluster", similarity_pb2.ClusterResponse, is_idempotent=True)


class TensorService:
    """Methods of accelerd.v1.TensorService."""

    EXECUTE = Method("/accelerd.v1.TensorService/Execute", tensor_pb2.ExecuteResponse, is_idempotent=False)
    UPLOAD_TENSOR = Method(
        "/accelerd.v1.TensorService/UploadTensor", tensor_pb2.UploadTensorResponse, is_idempotent=False
    )
    DOWNLOAD_TENSOR = Method(
        "/accelerd.v1.TensorService/DownloadTensor", tensor_pb2.DownloadTensorResponse, is_idempotent=True
    )
    FREE_TENSORS = Method("/accelerd.v1.TensorService/FreeTensors", tensor_pb2.FreeTensorsResponse, is_idempotent=False)
    LIST_TENSORS = Method("/accelerd.v1.TensorService/ListTensors", tensor_pb2.ListTensorsResponse, is_idempotent=True)
    COPY_TENSOR = Method("/accelerd.v1.TensorService/CopyTensor", tensor_pb2.CopyTensorResponse, is_idempotent=False)
    BENCHMARK_OP = Method("/accelerd.v1.TensorService/BenchmarkOp", tensor_pb2.BenchmarkOpResponse, is_idempotent=True)


class VerifyService:
    """Methods of accelerd.v1.VerifyService."""

    COMPARE_OUTPUTS = Method(
        "/accelerd.v1.VerifyService/CompareOutputs", verify_pb2.CompareOutputsResponse, is_idempotent=True
    )
    VERIFY = Method("/accelerd.v1.VerifyService/Verify", verify_pb2.VerifyResponse, is_idempotent=True)
