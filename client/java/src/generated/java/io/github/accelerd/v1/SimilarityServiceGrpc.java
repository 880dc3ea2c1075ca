package io.github.accelerd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Exact nearest-neighbour search over inline rows and over collections that the daemon keeps in memory.
 * Results are exact: equal to a ranking of all rows by their score computed in double precision and rounded to float, with
 * ties to the lower row (in collections: to the row stored first).
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class SimilarityServiceGrpc {

  private SimilarityServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "accelerd.v1.SimilarityService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.FindSimilarRequest,
      io.github.accelerd.v1.FindSimilarResponse> getFindSimilarMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "FindSimilar",
      requestType = io.github.accelerd.v1.FindSimilarRequest.class,
      responseType = io.github.accelerd.v1.FindSimilarResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.FindSimilarRequest,
      io.github.accelerd.v1.FindSimilarResponse> getFindSimilarMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.FindSimilarRequest, io.github.accelerd.v1.FindSimilarResponse> getFindSimilarMethod;
    if ((getFindSimilarMethod = SimilarityServiceGrpc.getFindSimilarMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getFindSimilarMethod = SimilarityServiceGrpc.getFindSimilarMethod) == null) {
          SimilarityServiceGrpc.getFindSimilarMethod = getFindSimilarMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.FindSimilarRequest, io.github.accelerd.v1.FindSimilarResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "FindSimilar"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.FindSimilarRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.FindSimilarResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("FindSimilar"))
              .build();
        }
      }
    }
    return getFindSimilarMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.CreateCollectionRequest,
      io.github.accelerd.v1.CreateCollectionResponse> getCreateCollectionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateCollection",
      requestType = io.github.accelerd.v1.CreateCollectionRequest.class,
      responseType = io.github.accelerd.v1.CreateCollectionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.CreateCollectionRequest,
      io.github.accelerd.v1.CreateCollectionResponse> getCreateCollectionMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.CreateCollectionRequest, io.github.accelerd.v1.CreateCollectionResponse> getCreateCollectionMethod;
    if ((getCreateCollectionMethod = SimilarityServiceGrpc.getCreateCollectionMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getCreateCollectionMethod = SimilarityServiceGrpc.getCreateCollectionMethod) == null) {
          SimilarityServiceGrpc.getCreateCollectionMethod = getCreateCollectionMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.CreateCollectionRequest, io.github.accelerd.v1.CreateCollectionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateCollection"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CreateCollectionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CreateCollectionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("CreateCollection"))
              .build();
        }
      }
    }
    return getCreateCollectionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.GetCollectionRequest,
      io.github.accelerd.v1.GetCollectionResponse> getGetCollectionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetCollection",
      requestType = io.github.accelerd.v1.GetCollectionRequest.class,
      responseType = io.github.accelerd.v1.GetCollectionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.GetCollectionRequest,
      io.github.accelerd.v1.GetCollectionResponse> getGetCollectionMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.GetCollectionRequest, io.github.accelerd.v1.GetCollectionResponse> getGetCollectionMethod;
    if ((getGetCollectionMethod = SimilarityServiceGrpc.getGetCollectionMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getGetCollectionMethod = SimilarityServiceGrpc.getGetCollectionMethod) == null) {
          SimilarityServiceGrpc.getGetCollectionMethod = getGetCollectionMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.GetCollectionRequest, io.github.accelerd.v1.GetCollectionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetCollection"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.GetCollectionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.GetCollectionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("GetCollection"))
              .build();
        }
      }
    }
    return getGetCollectionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ListCollectionsRequest,
      io.github.accelerd.v1.ListCollectionsResponse> getListCollectionsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListCollections",
      requestType = io.github.accelerd.v1.ListCollectionsRequest.class,
      responseType = io.github.accelerd.v1.ListCollectionsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ListCollectionsRequest,
      io.github.accelerd.v1.ListCollectionsResponse> getListCollectionsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ListCollectionsRequest, io.github.accelerd.v1.ListCollectionsResponse> getListCollectionsMethod;
    if ((getListCollectionsMethod = SimilarityServiceGrpc.getListCollectionsMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getListCollectionsMethod = SimilarityServiceGrpc.getListCollectionsMethod) == null) {
          SimilarityServiceGrpc.getListCollectionsMethod = getListCollectionsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ListCollectionsRequest, io.github.accelerd.v1.ListCollectionsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListCollections"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListCollectionsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListCollectionsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("ListCollections"))
              .build();
        }
      }
    }
    return getListCollectionsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.DeleteCollectionRequest,
      io.github.accelerd.v1.DeleteCollectionResponse> getDeleteCollectionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteCollection",
      requestType = io.github.accelerd.v1.DeleteCollectionRequest.class,
      responseType = io.github.accelerd.v1.DeleteCollectionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.DeleteCollectionRequest,
      io.github.accelerd.v1.DeleteCollectionResponse> getDeleteCollectionMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.DeleteCollectionRequest, io.github.accelerd.v1.DeleteCollectionResponse> getDeleteCollectionMethod;
    if ((getDeleteCollectionMethod = SimilarityServiceGrpc.getDeleteCollectionMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getDeleteCollectionMethod = SimilarityServiceGrpc.getDeleteCollectionMethod) == null) {
          SimilarityServiceGrpc.getDeleteCollectionMethod = getDeleteCollectionMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.DeleteCollectionRequest, io.github.accelerd.v1.DeleteCollectionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteCollection"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.DeleteCollectionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.DeleteCollectionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("DeleteCollection"))
              .build();
        }
      }
    }
    return getDeleteCollectionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.UpsertRequest,
      io.github.accelerd.v1.UpsertResponse> getUpsertMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Upsert",
      requestType = io.github.accelerd.v1.UpsertRequest.class,
      responseType = io.github.accelerd.v1.UpsertResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.UpsertRequest,
      io.github.accelerd.v1.UpsertResponse> getUpsertMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.UpsertRequest, io.github.accelerd.v1.UpsertResponse> getUpsertMethod;
    if ((getUpsertMethod = SimilarityServiceGrpc.getUpsertMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getUpsertMethod = SimilarityServiceGrpc.getUpsertMethod) == null) {
          SimilarityServiceGrpc.getUpsertMethod = getUpsertMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.UpsertRequest, io.github.accelerd.v1.UpsertResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Upsert"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.UpsertRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.UpsertResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("Upsert"))
              .build();
        }
      }
    }
    return getUpsertMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.UpsertStreamRequest,
      io.github.accelerd.v1.UpsertStreamResponse> getUpsertStreamMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpsertStream",
      requestType = io.github.accelerd.v1.UpsertStreamRequest.class,
      responseType = io.github.accelerd.v1.UpsertStreamResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.UpsertStreamRequest,
      io.github.accelerd.v1.UpsertStreamResponse> getUpsertStreamMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.UpsertStreamRequest, io.github.accelerd.v1.UpsertStreamResponse> getUpsertStreamMethod;
    if ((getUpsertStreamMethod = SimilarityServiceGrpc.getUpsertStreamMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getUpsertStreamMethod = SimilarityServiceGrpc.getUpsertStreamMethod) == null) {
          SimilarityServiceGrpc.getUpsertStreamMethod = getUpsertStreamMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.UpsertStreamRequest, io.github.accelerd.v1.UpsertStreamResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpsertStream"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.UpsertStreamRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.UpsertStreamResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("UpsertStream"))
              .build();
        }
      }
    }
    return getUpsertStreamMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.DeletePointsRequest,
      io.github.accelerd.v1.DeletePointsResponse> getDeletePointsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeletePoints",
      requestType = io.github.accelerd.v1.DeletePointsRequest.class,
      responseType = io.github.accelerd.v1.DeletePointsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.DeletePointsRequest,
      io.github.accelerd.v1.DeletePointsResponse> getDeletePointsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.DeletePointsRequest, io.github.accelerd.v1.DeletePointsResponse> getDeletePointsMethod;
    if ((getDeletePointsMethod = SimilarityServiceGrpc.getDeletePointsMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getDeletePointsMethod = SimilarityServiceGrpc.getDeletePointsMethod) == null) {
          SimilarityServiceGrpc.getDeletePointsMethod = getDeletePointsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.DeletePointsRequest, io.github.accelerd.v1.DeletePointsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeletePoints"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.DeletePointsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.DeletePointsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("DeletePoints"))
              .build();
        }
      }
    }
    return getDeletePointsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.SearchRequest,
      io.github.accelerd.v1.SearchResponse> getSearchMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Search",
      requestType = io.github.accelerd.v1.SearchRequest.class,
      responseType = io.github.accelerd.v1.SearchResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.SearchRequest,
      io.github.accelerd.v1.SearchResponse> getSearchMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.SearchRequest, io.github.accelerd.v1.SearchResponse> getSearchMethod;
    if ((getSearchMethod = SimilarityServiceGrpc.getSearchMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getSearchMethod = SimilarityServiceGrpc.getSearchMethod) == null) {
          SimilarityServiceGrpc.getSearchMethod = getSearchMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.SearchRequest, io.github.accelerd.v1.SearchResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Search"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.SearchRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.SearchResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("Search"))
              .build();
        }
      }
    }
    return getSearchMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.GetPointsRequest,
      io.github.accelerd.v1.GetPointsResponse> getGetPointsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetPoints",
      requestType = io.github.accelerd.v1.GetPointsRequest.class,
      responseType = io.github.accelerd.v1.GetPointsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.GetPointsRequest,
      io.github.accelerd.v1.GetPointsResponse> getGetPointsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.GetPointsRequest, io.github.accelerd.v1.GetPointsResponse> getGetPointsMethod;
    if ((getGetPointsMethod = SimilarityServiceGrpc.getGetPointsMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getGetPointsMethod = SimilarityServiceGrpc.getGetPointsMethod) == null) {
          SimilarityServiceGrpc.getGetPointsMethod = getGetPointsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.GetPointsRequest, io.github.accelerd.v1.GetPointsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetPoints"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.GetPointsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.GetPointsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("GetPoints"))
              .build();
        }
      }
    }
    return getGetPointsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ScrollPointsRequest,
      io.github.accelerd.v1.ScrollPointsResponse> getScrollPointsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ScrollPoints",
      requestType = io.github.accelerd.v1.ScrollPointsRequest.class,
      responseType = io.github.accelerd.v1.ScrollPointsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ScrollPointsRequest,
      io.github.accelerd.v1.ScrollPointsResponse> getScrollPointsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ScrollPointsRequest, io.github.accelerd.v1.ScrollPointsResponse> getScrollPointsMethod;
    if ((getScrollPointsMethod = SimilarityServiceGrpc.getScrollPointsMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getScrollPointsMethod = SimilarityServiceGrpc.getScrollPointsMethod) == null) {
          SimilarityServiceGrpc.getScrollPointsMethod = getScrollPointsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ScrollPointsRequest, io.github.accelerd.v1.ScrollPointsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ScrollPoints"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ScrollPointsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ScrollPointsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("ScrollPoints"))
              .build();
        }
      }
    }
    return getScrollPointsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.CountPointsRequest,
      io.github.accelerd.v1.CountPointsResponse> getCountPointsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CountPoints",
      requestType = io.github.accelerd.v1.CountPointsRequest.class,
      responseType = io.github.accelerd.v1.CountPointsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.CountPointsRequest,
      io.github.accelerd.v1.CountPointsResponse> getCountPointsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.CountPointsRequest, io.github.accelerd.v1.CountPointsResponse> getCountPointsMethod;
    if ((getCountPointsMethod = SimilarityServiceGrpc.getCountPointsMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getCountPointsMethod = SimilarityServiceGrpc.getCountPointsMethod) == null) {
          SimilarityServiceGrpc.getCountPointsMethod = getCountPointsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.CountPointsRequest, io.github.accelerd.v1.CountPointsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CountPoints"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CountPointsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CountPointsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("CountPoints"))
              .build();
        }
      }
    }
    return getCountPointsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.CreateSnapshotRequest,
      io.github.accelerd.v1.CreateSnapshotResponse> getCreateSnapshotMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateSnapshot",
      requestType = io.github.accelerd.v1.CreateSnapshotRequest.class,
      responseType = io.github.accelerd.v1.CreateSnapshotResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.CreateSnapshotRequest,
      io.github.accelerd.v1.CreateSnapshotResponse> getCreateSnapshotMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.CreateSnapshotRequest, io.github.accelerd.v1.CreateSnapshotResponse> getCreateSnapshotMethod;
    if ((getCreateSnapshotMethod = SimilarityServiceGrpc.getCreateSnapshotMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getCreateSnapshotMethod = SimilarityServiceGrpc.getCreateSnapshotMethod) == null) {
          SimilarityServiceGrpc.getCreateSnapshotMethod = getCreateSnapshotMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.CreateSnapshotRequest, io.github.accelerd.v1.CreateSnapshotResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateSnapshot"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CreateSnapshotRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CreateSnapshotResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("CreateSnapshot"))
              .build();
        }
      }
    }
    return getCreateSnapshotMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ListSnapshotsRequest,
      io.github.accelerd.v1.ListSnapshotsResponse> getListSnapshotsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSnapshots",
      requestType = io.github.accelerd.v1.ListSnapshotsRequest.class,
      responseType = io.github.accelerd.v1.ListSnapshotsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ListSnapshotsRequest,
      io.github.accelerd.v1.ListSnapshotsResponse> getListSnapshotsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ListSnapshotsRequest, io.github.accelerd.v1.ListSnapshotsResponse> getListSnapshotsMethod;
    if ((getListSnapshotsMethod = SimilarityServiceGrpc.getListSnapshotsMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getListSnapshotsMethod = SimilarityServiceGrpc.getListSnapshotsMethod) == null) {
          SimilarityServiceGrpc.getListSnapshotsMethod = getListSnapshotsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ListSnapshotsRequest, io.github.accelerd.v1.ListSnapshotsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSnapshots"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListSnapshotsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListSnapshotsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("ListSnapshots"))
              .build();
        }
      }
    }
    return getListSnapshotsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.PruneSnapshotsRequest,
      io.github.accelerd.v1.PruneSnapshotsResponse> getPruneSnapshotsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PruneSnapshots",
      requestType = io.github.accelerd.v1.PruneSnapshotsRequest.class,
      responseType = io.github.accelerd.v1.PruneSnapshotsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.PruneSnapshotsRequest,
      io.github.accelerd.v1.PruneSnapshotsResponse> getPruneSnapshotsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.PruneSnapshotsRequest, io.github.accelerd.v1.PruneSnapshotsResponse> getPruneSnapshotsMethod;
    if ((getPruneSnapshotsMethod = SimilarityServiceGrpc.getPruneSnapshotsMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getPruneSnapshotsMethod = SimilarityServiceGrpc.getPruneSnapshotsMethod) == null) {
          SimilarityServiceGrpc.getPruneSnapshotsMethod = getPruneSnapshotsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.PruneSnapshotsRequest, io.github.accelerd.v1.PruneSnapshotsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PruneSnapshots"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.PruneSnapshotsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.PruneSnapshotsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("PruneSnapshots"))
              .build();
        }
      }
    }
    return getPruneSnapshotsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.RestoreCollectionRequest,
      io.github.accelerd.v1.RestoreCollectionResponse> getRestoreCollectionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RestoreCollection",
      requestType = io.github.accelerd.v1.RestoreCollectionRequest.class,
      responseType = io.github.accelerd.v1.RestoreCollectionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.RestoreCollectionRequest,
      io.github.accelerd.v1.RestoreCollectionResponse> getRestoreCollectionMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.RestoreCollectionRequest, io.github.accelerd.v1.RestoreCollectionResponse> getRestoreCollectionMethod;
    if ((getRestoreCollectionMethod = SimilarityServiceGrpc.getRestoreCollectionMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getRestoreCollectionMethod = SimilarityServiceGrpc.getRestoreCollectionMethod) == null) {
          SimilarityServiceGrpc.getRestoreCollectionMethod = getRestoreCollectionMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.RestoreCollectionRequest, io.github.accelerd.v1.RestoreCollectionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RestoreCollection"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.RestoreCollectionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.RestoreCollectionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("RestoreCollection"))
              .build();
        }
      }
    }
    return getRestoreCollectionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ClusterRequest,
      io.github.accelerd.v1.ClusterResponse> getClusterMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Cluster",
      requestType = io.github.accelerd.v1.ClusterRequest.class,
      responseType = io.github.accelerd.v1.ClusterResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ClusterRequest,
      io.github.accelerd.v1.ClusterResponse> getClusterMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ClusterRequest, io.github.accelerd.v1.ClusterResponse> getClusterMethod;
    if ((getClusterMethod = SimilarityServiceGrpc.getClusterMethod) == null) {
      synchronized (SimilarityServiceGrpc.class) {
        if ((getClusterMethod = SimilarityServiceGrpc.getClusterMethod) == null) {
          SimilarityServiceGrpc.getClusterMethod = getClusterMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ClusterRequest, io.github.accelerd.v1.ClusterResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Cluster"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ClusterRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ClusterResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SimilarityServiceMethodDescriptorSupplier("Cluster"))
              .build();
        }
      }
    }
    return getClusterMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static SimilarityServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SimilarityServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SimilarityServiceStub>() {
        @java.lang.Override
        public SimilarityServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SimilarityServiceStub(channel, callOptions);
        }
      };
    return SimilarityServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static SimilarityServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SimilarityServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SimilarityServiceBlockingV2Stub>() {
        @java.lang.Override
        public SimilarityServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SimilarityServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return SimilarityServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static SimilarityServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SimilarityServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SimilarityServiceBlockingStub>() {
        @java.lang.Override
        public SimilarityServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SimilarityServiceBlockingStub(channel, callOptions);
        }
      };
    return SimilarityServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static SimilarityServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SimilarityServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SimilarityServiceFutureStub>() {
        @java.lang.Override
        public SimilarityServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SimilarityServiceFutureStub(channel, callOptions);
        }
      };
    return SimilarityServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Exact nearest-neighbour search over inline rows and over collections that the daemon keeps in memory.
   * Results are exact: equal to a ranking of all rows by their score computed in double precision and rounded to float, with
   * ties to the lower row (in collections: to the row stored first).
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Scores inline queries against an inline corpus and returns the k best rows of each query.
     * Fails with:
     * - INVALID_ARGUMENT: a shape does not match its data, the dimensions differ, a value is NaN or infinite, k is 0, above
     *   the number of corpus rows or above 16,384, or the request exceeds the device's memory.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * </pre>
     */
    default void findSimilar(io.github.accelerd.v1.FindSimilarRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.FindSimilarResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getFindSimilarMethod(), responseObserver);
    }

    /**
     * <pre>
     * Creates an empty collection.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - INVALID_ARGUMENT: an invalid name, dimensions that are 0, above the limit or not the model's, an unknown metric,
     *   storage type or durability, durability LOG without a data folder, a prompt that the model does not have, or a prompt
     *   without a model.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    default void createCollection(io.github.accelerd.v1.CreateCollectionRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CreateCollectionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateCollectionMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns one collection. Fails with NOT_FOUND.
     * </pre>
     */
    default void getCollection(io.github.accelerd.v1.GetCollectionRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetCollectionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetCollectionMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists all collections.
     * </pre>
     */
    default void listCollections(io.github.accelerd.v1.ListCollectionsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListCollectionsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListCollectionsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes a collection, its log and its local snapshots. Fails with NOT_FOUND.
     * </pre>
     */
    default void deleteCollection(io.github.accelerd.v1.DeleteCollectionRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.DeleteCollectionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteCollectionMethod(), responseObserver);
    }

    /**
     * <pre>
     * Inserts points, and replaces those whose ids exist. The write is atomic; on a durable collection it survives a crash
     * once it is acknowledged.
     * Fails with:
     * - INVALID_ARGUMENT: counts or dimensions differ, a value is NaN or infinite, a duplicate id, an invalid UUID, ids of
     *   the other type than the collection's, texts in a collection without a model, a prompt that the model does not have,
     *   payloads both as messages and as columns, or a column whose size does not match the number of points.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY: the collection's files are damaged; the message names
     *   file and offset.
     * - NOT_FOUND: the collection does not exist.
     * - DATA_LOSS: the description of the collection cannot be read, or a later version has written its files.
     * - RESOURCE_EXHAUSTED: the memory, the disk or the lane is full.
     * </pre>
     */
    default void upsert(io.github.accelerd.v1.UpsertRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.UpsertResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpsertMethod(), responseObserver);
    }

    /**
     * <pre>
     * Upserts in bulk. Requests are applied in order; one that fails has an error in its response. Where the queue is full,
     * texts wait instead of failing, and the stream applies flow control.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<io.github.accelerd.v1.UpsertStreamRequest> upsertStream(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.UpsertStreamResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getUpsertStreamMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes points by id or by filter. Unknown ids are not an error, and a list without ids deletes nothing. Fails with NOT_FOUND for the collection,
     * INVALID_ARGUMENT for an invalid filter, and FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY.
     * </pre>
     */
    default void deletePoints(io.github.accelerd.v1.DeletePointsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.DeletePointsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeletePointsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Finds the points nearest to vectors, texts or stored points.
     * Fails with:
     * - INVALID_ARGUMENT: no query, dimensions other than the collection's, NaN, limit 0, offset + limit above 16,384, an
     *   invalid filter, texts in a collection without a model, a prompt that the model does not have, `hybrid` in a
     *   collection without a text_field, or columns of payloads with too many distinct fields.
     * - NOT_FOUND: the collection or a point in `ids` does not exist.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * - INTERNAL with the reason TEXT_INDEX_FAILED: the full-text index cannot be read. A search without `hybrid` works.
     * </pre>
     */
    default void search(io.github.accelerd.v1.SearchRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.SearchResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSearchMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns points by id. Unknown ids are omitted. Fails with NOT_FOUND for the collection.
     * </pre>
     */
    default void getPoints(io.github.accelerd.v1.GetPointsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetPointsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetPointsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns all points, or those that match a filter, in pages in ascending order of id: numbers by value, UUIDs by their
     * bytes. A cursor encodes the last id of its page, so it stays valid after writes, compaction and a restart, and on
     * another daemon that restored the same collection.
     * Each page is a consistent snapshot that includes every write acknowledged before the call. A point that exists and
     * matches the filter from the first page to the last is returned exactly once, even if it is replaced in between. A
     * point that is inserted or deleted in between is returned at most once.
     * Fails with:
     * - INVALID_ARGUMENT: a limit above 16,384, an invalid filter, or an invalid cursor.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    default void scrollPoints(io.github.accelerd.v1.ScrollPointsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ScrollPointsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getScrollPointsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Counts all points, or those that match a filter, in a consistent snapshot that includes every write acknowledged
     * before the call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid filter.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    default void countPoints(io.github.accelerd.v1.CountPointsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CountPointsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCountPointsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Writes a versioned snapshot with checksums to an object store, atomically.
     * Fails with:
     * - NOT_FOUND: the collection does not exist.
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached or is full.
     * </pre>
     */
    default void createSnapshot(io.github.accelerd.v1.CreateSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CreateSnapshotResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateSnapshotMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the snapshots of a collection, oldest first. The collection need not exist any more.
     * Fails with:
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached.
     * - DATA_LOSS: the table of contents of a snapshot is damaged.
     * </pre>
     */
    default void listSnapshots(io.github.accelerd.v1.ListSnapshotsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListSnapshotsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSnapshotsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes the snapshots of a collection but for the newest ones, oldest first.
     * Fails with:
     * - INVALID_ARGUMENT: `keep_count` is 0, or as ListSnapshots.
     * - PERMISSION_DENIED, UNAVAILABLE, DATA_LOSS: as ListSnapshots.
     * </pre>
     */
    default void pruneSnapshots(io.github.accelerd.v1.PruneSnapshotsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.PruneSnapshotsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPruneSnapshotsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Creates a collection from a snapshot, atomically. It is durable if the original was and the daemon has a data folder.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - NOT_FOUND: there is no snapshot at the URL.
     * - INVALID_ARGUMENT: no URL, or one of an unknown scheme.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - DATA_LOSS: a checksum does not match.
     * </pre>
     */
    default void restoreCollection(io.github.accelerd.v1.RestoreCollectionRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.RestoreCollectionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRestoreCollectionMethod(), responseObserver);
    }

    /**
     * <pre>
     * Clusters rows by k-means with greedy k-means++ initialisation. The result is deterministic for a seed and a device.
     * Fails with:
     * - INVALID_ARGUMENT: no rows, NaN, cluster_count 0 or above the number of rows, an invalid tolerance, more than 100,000
     *   iterations or more than 1,000 initialisations.
     * - NOT_FOUND: the collection does not exist.
     * - RESOURCE_EXHAUSTED: the lane is full.
     * </pre>
     */
    default void cluster(io.github.accelerd.v1.ClusterRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ClusterResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getClusterMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service SimilarityService.
   * <pre>
   * Exact nearest-neighbour search over inline rows and over collections that the daemon keeps in memory.
   * Results are exact: equal to a ranking of all rows by their score computed in double precision and rounded to float, with
   * ties to the lower row (in collections: to the row stored first).
   * </pre>
   */
  public static abstract class SimilarityServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return SimilarityServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service SimilarityService.
   * <pre>
   * Exact nearest-neighbour search over inline rows and over collections that the daemon keeps in memory.
   * Results are exact: equal to a ranking of all rows by their score computed in double precision and rounded to float, with
   * ties to the lower row (in collections: to the row stored first).
   * </pre>
   */
  public static final class SimilarityServiceStub
      extends io.grpc.stub.AbstractAsyncStub<SimilarityServiceStub> {
    private SimilarityServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SimilarityServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SimilarityServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Scores inline queries against an inline corpus and returns the k best rows of each query.
     * Fails with:
     * - INVALID_ARGUMENT: a shape does not match its data, the dimensions differ, a value is NaN or infinite, k is 0, above
     *   the number of corpus rows or above 16,384, or the request exceeds the device's memory.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * </pre>
     */
    public void findSimilar(io.github.accelerd.v1.FindSimilarRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.FindSimilarResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getFindSimilarMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Creates an empty collection.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - INVALID_ARGUMENT: an invalid name, dimensions that are 0, above the limit or not the model's, an unknown metric,
     *   storage type or durability, durability LOG without a data folder, a prompt that the model does not have, or a prompt
     *   without a model.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    public void createCollection(io.github.accelerd.v1.CreateCollectionRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CreateCollectionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateCollectionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns one collection. Fails with NOT_FOUND.
     * </pre>
     */
    public void getCollection(io.github.accelerd.v1.GetCollectionRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetCollectionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetCollectionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists all collections.
     * </pre>
     */
    public void listCollections(io.github.accelerd.v1.ListCollectionsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListCollectionsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListCollectionsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Deletes a collection, its log and its local snapshots. Fails with NOT_FOUND.
     * </pre>
     */
    public void deleteCollection(io.github.accelerd.v1.DeleteCollectionRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.DeleteCollectionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteCollectionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Inserts points, and replaces those whose ids exist. The write is atomic; on a durable collection it survives a crash
     * once it is acknowledged.
     * Fails with:
     * - INVALID_ARGUMENT: counts or dimensions differ, a value is NaN or infinite, a duplicate id, an invalid UUID, ids of
     *   the other type than the collection's, texts in a collection without a model, a prompt that the model does not have,
     *   payloads both as messages and as columns, or a column whose size does not match the number of points.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY: the collection's files are damaged; the message names
     *   file and offset.
     * - NOT_FOUND: the collection does not exist.
     * - DATA_LOSS: the description of the collection cannot be read, or a later version has written its files.
     * - RESOURCE_EXHAUSTED: the memory, the disk or the lane is full.
     * </pre>
     */
    public void upsert(io.github.accelerd.v1.UpsertRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.UpsertResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpsertMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Upserts in bulk. Requests are applied in order; one that fails has an error in its response. Where the queue is full,
     * texts wait instead of failing, and the stream applies flow control.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.github.accelerd.v1.UpsertStreamRequest> upsertStream(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.UpsertStreamResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getUpsertStreamMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * Deletes points by id or by filter. Unknown ids are not an error, and a list without ids deletes nothing. Fails with NOT_FOUND for the collection,
     * INVALID_ARGUMENT for an invalid filter, and FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY.
     * </pre>
     */
    public void deletePoints(io.github.accelerd.v1.DeletePointsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.DeletePointsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeletePointsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Finds the points nearest to vectors, texts or stored points.
     * Fails with:
     * - INVALID_ARGUMENT: no query, dimensions other than the collection's, NaN, limit 0, offset + limit above 16,384, an
     *   invalid filter, texts in a collection without a model, a prompt that the model does not have, `hybrid` in a
     *   collection without a text_field, or columns of payloads with too many distinct fields.
     * - NOT_FOUND: the collection or a point in `ids` does not exist.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * - INTERNAL with the reason TEXT_INDEX_FAILED: the full-text index cannot be read. A search without `hybrid` works.
     * </pre>
     */
    public void search(io.github.accelerd.v1.SearchRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.SearchResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSearchMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns points by id. Unknown ids are omitted. Fails with NOT_FOUND for the collection.
     * </pre>
     */
    public void getPoints(io.github.accelerd.v1.GetPointsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetPointsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetPointsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns all points, or those that match a filter, in pages in ascending order of id: numbers by value, UUIDs by their
     * bytes. A cursor encodes the last id of its page, so it stays valid after writes, compaction and a restart, and on
     * another daemon that restored the same collection.
     * Each page is a consistent snapshot that includes every write acknowledged before the call. A point that exists and
     * matches the filter from the first page to the last is returned exactly once, even if it is replaced in between. A
     * point that is inserted or deleted in between is returned at most once.
     * Fails with:
     * - INVALID_ARGUMENT: a limit above 16,384, an invalid filter, or an invalid cursor.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    public void scrollPoints(io.github.accelerd.v1.ScrollPointsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ScrollPointsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getScrollPointsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Counts all points, or those that match a filter, in a consistent snapshot that includes every write acknowledged
     * before the call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid filter.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    public void countPoints(io.github.accelerd.v1.CountPointsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CountPointsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCountPointsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Writes a versioned snapshot with checksums to an object store, atomically.
     * Fails with:
     * - NOT_FOUND: the collection does not exist.
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached or is full.
     * </pre>
     */
    public void createSnapshot(io.github.accelerd.v1.CreateSnapshotRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CreateSnapshotResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateSnapshotMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the snapshots of a collection, oldest first. The collection need not exist any more.
     * Fails with:
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached.
     * - DATA_LOSS: the table of contents of a snapshot is damaged.
     * </pre>
     */
    public void listSnapshots(io.github.accelerd.v1.ListSnapshotsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListSnapshotsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSnapshotsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Deletes the snapshots of a collection but for the newest ones, oldest first.
     * Fails with:
     * - INVALID_ARGUMENT: `keep_count` is 0, or as ListSnapshots.
     * - PERMISSION_DENIED, UNAVAILABLE, DATA_LOSS: as ListSnapshots.
     * </pre>
     */
    public void pruneSnapshots(io.github.accelerd.v1.PruneSnapshotsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.PruneSnapshotsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPruneSnapshotsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Creates a collection from a snapshot, atomically. It is durable if the original was and the daemon has a data folder.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - NOT_FOUND: there is no snapshot at the URL.
     * - INVALID_ARGUMENT: no URL, or one of an unknown scheme.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - DATA_LOSS: a checksum does not match.
     * </pre>
     */
    public void restoreCollection(io.github.accelerd.v1.RestoreCollectionRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.RestoreCollectionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRestoreCollectionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Clusters rows by k-means with greedy k-means++ initialisation. The result is deterministic for a seed and a device.
     * Fails with:
     * - INVALID_ARGUMENT: no rows, NaN, cluster_count 0 or above the number of rows, an invalid tolerance, more than 100,000
     *   iterations or more than 1,000 initialisations.
     * - NOT_FOUND: the collection does not exist.
     * - RESOURCE_EXHAUSTED: the lane is full.
     * </pre>
     */
    public void cluster(io.github.accelerd.v1.ClusterRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ClusterResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getClusterMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service SimilarityService.
   * <pre>
   * Exact nearest-neighbour search over inline rows and over collections that the daemon keeps in memory.
   * Results are exact: equal to a ranking of all rows by their score computed in double precision and rounded to float, with
   * ties to the lower row (in collections: to the row stored first).
   * </pre>
   */
  public static final class SimilarityServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<SimilarityServiceBlockingV2Stub> {
    private SimilarityServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SimilarityServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SimilarityServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Scores inline queries against an inline corpus and returns the k best rows of each query.
     * Fails with:
     * - INVALID_ARGUMENT: a shape does not match its data, the dimensions differ, a value is NaN or infinite, k is 0, above
     *   the number of corpus rows or above 16,384, or the request exceeds the device's memory.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.FindSimilarResponse findSimilar(io.github.accelerd.v1.FindSimilarRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getFindSimilarMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Creates an empty collection.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - INVALID_ARGUMENT: an invalid name, dimensions that are 0, above the limit or not the model's, an unknown metric,
     *   storage type or durability, durability LOG without a data folder, a prompt that the model does not have, or a prompt
     *   without a model.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    public io.github.accelerd.v1.CreateCollectionResponse createCollection(io.github.accelerd.v1.CreateCollectionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateCollectionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns one collection. Fails with NOT_FOUND.
     * </pre>
     */
    public io.github.accelerd.v1.GetCollectionResponse getCollection(io.github.accelerd.v1.GetCollectionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetCollectionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists all collections.
     * </pre>
     */
    public io.github.accelerd.v1.ListCollectionsResponse listCollections(io.github.accelerd.v1.ListCollectionsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListCollectionsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a collection, its log and its local snapshots. Fails with NOT_FOUND.
     * </pre>
     */
    public io.github.accelerd.v1.DeleteCollectionResponse deleteCollection(io.github.accelerd.v1.DeleteCollectionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteCollectionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Inserts points, and replaces those whose ids exist. The write is atomic; on a durable collection it survives a crash
     * once it is acknowledged.
     * Fails with:
     * - INVALID_ARGUMENT: counts or dimensions differ, a value is NaN or infinite, a duplicate id, an invalid UUID, ids of
     *   the other type than the collection's, texts in a collection without a model, a prompt that the model does not have,
     *   payloads both as messages and as columns, or a column whose size does not match the number of points.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY: the collection's files are damaged; the message names
     *   file and offset.
     * - NOT_FOUND: the collection does not exist.
     * - DATA_LOSS: the description of the collection cannot be read, or a later version has written its files.
     * - RESOURCE_EXHAUSTED: the memory, the disk or the lane is full.
     * </pre>
     */
    public io.github.accelerd.v1.UpsertResponse upsert(io.github.accelerd.v1.UpsertRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpsertMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Upserts in bulk. Requests are applied in order; one that fails has an error in its response. Where the queue is full,
     * texts wait instead of failing, and the stream applies flow control.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<io.github.accelerd.v1.UpsertStreamRequest, io.github.accelerd.v1.UpsertStreamResponse>
        upsertStream() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getUpsertStreamMethod(), getCallOptions());
    }

    /**
     * <pre>
     * Deletes points by id or by filter. Unknown ids are not an error, and a list without ids deletes nothing. Fails with NOT_FOUND for the collection,
     * INVALID_ARGUMENT for an invalid filter, and FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY.
     * </pre>
     */
    public io.github.accelerd.v1.DeletePointsResponse deletePoints(io.github.accelerd.v1.DeletePointsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeletePointsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Finds the points nearest to vectors, texts or stored points.
     * Fails with:
     * - INVALID_ARGUMENT: no query, dimensions other than the collection's, NaN, limit 0, offset + limit above 16,384, an
     *   invalid filter, texts in a collection without a model, a prompt that the model does not have, `hybrid` in a
     *   collection without a text_field, or columns of payloads with too many distinct fields.
     * - NOT_FOUND: the collection or a point in `ids` does not exist.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * - INTERNAL with the reason TEXT_INDEX_FAILED: the full-text index cannot be read. A search without `hybrid` works.
     * </pre>
     */
    public io.github.accelerd.v1.SearchResponse search(io.github.accelerd.v1.SearchRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSearchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns points by id. Unknown ids are omitted. Fails with NOT_FOUND for the collection.
     * </pre>
     */
    public io.github.accelerd.v1.GetPointsResponse getPoints(io.github.accelerd.v1.GetPointsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetPointsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns all points, or those that match a filter, in pages in ascending order of id: numbers by value, UUIDs by their
     * bytes. A cursor encodes the last id of its page, so it stays valid after writes, compaction and a restart, and on
     * another daemon that restored the same collection.
     * Each page is a consistent snapshot that includes every write acknowledged before the call. A point that exists and
     * matches the filter from the first page to the last is returned exactly once, even if it is replaced in between. A
     * point that is inserted or deleted in between is returned at most once.
     * Fails with:
     * - INVALID_ARGUMENT: a limit above 16,384, an invalid filter, or an invalid cursor.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    public io.github.accelerd.v1.ScrollPointsResponse scrollPoints(io.github.accelerd.v1.ScrollPointsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getScrollPointsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Counts all points, or those that match a filter, in a consistent snapshot that includes every write acknowledged
     * before the call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid filter.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    public io.github.accelerd.v1.CountPointsResponse countPoints(io.github.accelerd.v1.CountPointsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCountPointsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Writes a versioned snapshot with checksums to an object store, atomically.
     * Fails with:
     * - NOT_FOUND: the collection does not exist.
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached or is full.
     * </pre>
     */
    public io.github.accelerd.v1.CreateSnapshotResponse createSnapshot(io.github.accelerd.v1.CreateSnapshotRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the snapshots of a collection, oldest first. The collection need not exist any more.
     * Fails with:
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached.
     * - DATA_LOSS: the table of contents of a snapshot is damaged.
     * </pre>
     */
    public io.github.accelerd.v1.ListSnapshotsResponse listSnapshots(io.github.accelerd.v1.ListSnapshotsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListSnapshotsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes the snapshots of a collection but for the newest ones, oldest first.
     * Fails with:
     * - INVALID_ARGUMENT: `keep_count` is 0, or as ListSnapshots.
     * - PERMISSION_DENIED, UNAVAILABLE, DATA_LOSS: as ListSnapshots.
     * </pre>
     */
    public io.github.accelerd.v1.PruneSnapshotsResponse pruneSnapshots(io.github.accelerd.v1.PruneSnapshotsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPruneSnapshotsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Creates a collection from a snapshot, atomically. It is durable if the original was and the daemon has a data folder.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - NOT_FOUND: there is no snapshot at the URL.
     * - INVALID_ARGUMENT: no URL, or one of an unknown scheme.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - DATA_LOSS: a checksum does not match.
     * </pre>
     */
    public io.github.accelerd.v1.RestoreCollectionResponse restoreCollection(io.github.accelerd.v1.RestoreCollectionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRestoreCollectionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Clusters rows by k-means with greedy k-means++ initialisation. The result is deterministic for a seed and a device.
     * Fails with:
     * - INVALID_ARGUMENT: no rows, NaN, cluster_count 0 or above the number of rows, an invalid tolerance, more than 100,000
     *   iterations or more than 1,000 initialisations.
     * - NOT_FOUND: the collection does not exist.
     * - RESOURCE_EXHAUSTED: the lane is full.
     * </pre>
     */
    public io.github.accelerd.v1.ClusterResponse cluster(io.github.accelerd.v1.ClusterRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getClusterMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service SimilarityService.
   * <pre>
   * Exact nearest-neighbour search over inline rows and over collections that the daemon keeps in memory.
   * Results are exact: equal to a ranking of all rows by their score computed in double precision and rounded to float, with
   * ties to the lower row (in collections: to the row stored first).
   * </pre>
   */
  public static final class SimilarityServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<SimilarityServiceBlockingStub> {
    private SimilarityServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SimilarityServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SimilarityServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Scores inline queries against an inline corpus and returns the k best rows of each query.
     * Fails with:
     * - INVALID_ARGUMENT: a shape does not match its data, the dimensions differ, a value is NaN or infinite, k is 0, above
     *   the number of corpus rows or above 16,384, or the request exceeds the device's memory.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.FindSimilarResponse findSimilar(io.github.accelerd.v1.FindSimilarRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getFindSimilarMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Creates an empty collection.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - INVALID_ARGUMENT: an invalid name, dimensions that are 0, above the limit or not the model's, an unknown metric,
     *   storage type or durability, durability LOG without a data folder, a prompt that the model does not have, or a prompt
     *   without a model.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    public io.github.accelerd.v1.CreateCollectionResponse createCollection(io.github.accelerd.v1.CreateCollectionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateCollectionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns one collection. Fails with NOT_FOUND.
     * </pre>
     */
    public io.github.accelerd.v1.GetCollectionResponse getCollection(io.github.accelerd.v1.GetCollectionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetCollectionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists all collections.
     * </pre>
     */
    public io.github.accelerd.v1.ListCollectionsResponse listCollections(io.github.accelerd.v1.ListCollectionsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListCollectionsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a collection, its log and its local snapshots. Fails with NOT_FOUND.
     * </pre>
     */
    public io.github.accelerd.v1.DeleteCollectionResponse deleteCollection(io.github.accelerd.v1.DeleteCollectionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteCollectionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Inserts points, and replaces those whose ids exist. The write is atomic; on a durable collection it survives a crash
     * once it is acknowledged.
     * Fails with:
     * - INVALID_ARGUMENT: counts or dimensions differ, a value is NaN or infinite, a duplicate id, an invalid UUID, ids of
     *   the other type than the collection's, texts in a collection without a model, a prompt that the model does not have,
     *   payloads both as messages and as columns, or a column whose size does not match the number of points.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY: the collection's files are damaged; the message names
     *   file and offset.
     * - NOT_FOUND: the collection does not exist.
     * - DATA_LOSS: the description of the collection cannot be read, or a later version has written its files.
     * - RESOURCE_EXHAUSTED: the memory, the disk or the lane is full.
     * </pre>
     */
    public io.github.accelerd.v1.UpsertResponse upsert(io.github.accelerd.v1.UpsertRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpsertMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes points by id or by filter. Unknown ids are not an error, and a list without ids deletes nothing. Fails with NOT_FOUND for the collection,
     * INVALID_ARGUMENT for an invalid filter, and FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY.
     * </pre>
     */
    public io.github.accelerd.v1.DeletePointsResponse deletePoints(io.github.accelerd.v1.DeletePointsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeletePointsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Finds the points nearest to vectors, texts or stored points.
     * Fails with:
     * - INVALID_ARGUMENT: no query, dimensions other than the collection's, NaN, limit 0, offset + limit above 16,384, an
     *   invalid filter, texts in a collection without a model, a prompt that the model does not have, `hybrid` in a
     *   collection without a text_field, or columns of payloads with too many distinct fields.
     * - NOT_FOUND: the collection or a point in `ids` does not exist.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * - INTERNAL with the reason TEXT_INDEX_FAILED: the full-text index cannot be read. A search without `hybrid` works.
     * </pre>
     */
    public io.github.accelerd.v1.SearchResponse search(io.github.accelerd.v1.SearchRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSearchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns points by id. Unknown ids are omitted. Fails with NOT_FOUND for the collection.
     * </pre>
     */
    public io.github.accelerd.v1.GetPointsResponse getPoints(io.github.accelerd.v1.GetPointsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetPointsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns all points, or those that match a filter, in pages in ascending order of id: numbers by value, UUIDs by their
     * bytes. A cursor encodes the last id of its page, so it stays valid after writes, compaction and a restart, and on
     * another daemon that restored the same collection.
     * Each page is a consistent snapshot that includes every write acknowledged before the call. A point that exists and
     * matches the filter from the first page to the last is returned exactly once, even if it is replaced in between. A
     * point that is inserted or deleted in between is returned at most once.
     * Fails with:
     * - INVALID_ARGUMENT: a limit above 16,384, an invalid filter, or an invalid cursor.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    public io.github.accelerd.v1.ScrollPointsResponse scrollPoints(io.github.accelerd.v1.ScrollPointsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getScrollPointsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Counts all points, or those that match a filter, in a consistent snapshot that includes every write acknowledged
     * before the call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid filter.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    public io.github.accelerd.v1.CountPointsResponse countPoints(io.github.accelerd.v1.CountPointsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCountPointsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Writes a versioned snapshot with checksums to an object store, atomically.
     * Fails with:
     * - NOT_FOUND: the collection does not exist.
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached or is full.
     * </pre>
     */
    public io.github.accelerd.v1.CreateSnapshotResponse createSnapshot(io.github.accelerd.v1.CreateSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateSnapshotMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the snapshots of a collection, oldest first. The collection need not exist any more.
     * Fails with:
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached.
     * - DATA_LOSS: the table of contents of a snapshot is damaged.
     * </pre>
     */
    public io.github.accelerd.v1.ListSnapshotsResponse listSnapshots(io.github.accelerd.v1.ListSnapshotsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSnapshotsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes the snapshots of a collection but for the newest ones, oldest first.
     * Fails with:
     * - INVALID_ARGUMENT: `keep_count` is 0, or as ListSnapshots.
     * - PERMISSION_DENIED, UNAVAILABLE, DATA_LOSS: as ListSnapshots.
     * </pre>
     */
    public io.github.accelerd.v1.PruneSnapshotsResponse pruneSnapshots(io.github.accelerd.v1.PruneSnapshotsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPruneSnapshotsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Creates a collection from a snapshot, atomically. It is durable if the original was and the daemon has a data folder.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - NOT_FOUND: there is no snapshot at the URL.
     * - INVALID_ARGUMENT: no URL, or one of an unknown scheme.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - DATA_LOSS: a checksum does not match.
     * </pre>
     */
    public io.github.accelerd.v1.RestoreCollectionResponse restoreCollection(io.github.accelerd.v1.RestoreCollectionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRestoreCollectionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Clusters rows by k-means with greedy k-means++ initialisation. The result is deterministic for a seed and a device.
     * Fails with:
     * - INVALID_ARGUMENT: no rows, NaN, cluster_count 0 or above the number of rows, an invalid tolerance, more than 100,000
     *   iterations or more than 1,000 initialisations.
     * - NOT_FOUND: the collection does not exist.
     * - RESOURCE_EXHAUSTED: the lane is full.
     * </pre>
     */
    public io.github.accelerd.v1.ClusterResponse cluster(io.github.accelerd.v1.ClusterRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getClusterMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service SimilarityService.
   * <pre>
   * Exact nearest-neighbour search over inline rows and over collections that the daemon keeps in memory.
   * Results are exact: equal to a ranking of all rows by their score computed in double precision and rounded to float, with
   * ties to the lower row (in collections: to the row stored first).
   * </pre>
   */
  public static final class SimilarityServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<SimilarityServiceFutureStub> {
    private SimilarityServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SimilarityServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SimilarityServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Scores inline queries against an inline corpus and returns the k best rows of each query.
     * Fails with:
     * - INVALID_ARGUMENT: a shape does not match its data, the dimensions differ, a value is NaN or infinite, k is 0, above
     *   the number of corpus rows or above 16,384, or the request exceeds the device's memory.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.FindSimilarResponse> findSimilar(
        io.github.accelerd.v1.FindSimilarRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getFindSimilarMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Creates an empty collection.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - INVALID_ARGUMENT: an invalid name, dimensions that are 0, above the limit or not the model's, an unknown metric,
     *   storage type or durability, durability LOG without a data folder, a prompt that the model does not have, or a prompt
     *   without a model.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.CreateCollectionResponse> createCollection(
        io.github.accelerd.v1.CreateCollectionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateCollectionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns one collection. Fails with NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.GetCollectionResponse> getCollection(
        io.github.accelerd.v1.GetCollectionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetCollectionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists all collections.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ListCollectionsResponse> listCollections(
        io.github.accelerd.v1.ListCollectionsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListCollectionsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes a collection, its log and its local snapshots. Fails with NOT_FOUND.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.DeleteCollectionResponse> deleteCollection(
        io.github.accelerd.v1.DeleteCollectionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteCollectionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Inserts points, and replaces those whose ids exist. The write is atomic; on a durable collection it survives a crash
     * once it is acknowledged.
     * Fails with:
     * - INVALID_ARGUMENT: counts or dimensions differ, a value is NaN or infinite, a duplicate id, an invalid UUID, ids of
     *   the other type than the collection's, texts in a collection without a model, a prompt that the model does not have,
     *   payloads both as messages and as columns, or a column whose size does not match the number of points.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY: the collection's files are damaged; the message names
     *   file and offset.
     * - NOT_FOUND: the collection does not exist.
     * - DATA_LOSS: the description of the collection cannot be read, or a later version has written its files.
     * - RESOURCE_EXHAUSTED: the memory, the disk or the lane is full.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.UpsertResponse> upsert(
        io.github.accelerd.v1.UpsertRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpsertMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes points by id or by filter. Unknown ids are not an error, and a list without ids deletes nothing. Fails with NOT_FOUND for the collection,
     * INVALID_ARGUMENT for an invalid filter, and FAILED_PRECONDITION with the reason COLLECTION_READ_ONLY.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.DeletePointsResponse> deletePoints(
        io.github.accelerd.v1.DeletePointsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeletePointsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Finds the points nearest to vectors, texts or stored points.
     * Fails with:
     * - INVALID_ARGUMENT: no query, dimensions other than the collection's, NaN, limit 0, offset + limit above 16,384, an
     *   invalid filter, texts in a collection without a model, a prompt that the model does not have, `hybrid` in a
     *   collection without a text_field, or columns of payloads with too many distinct fields.
     * - NOT_FOUND: the collection or a point in `ids` does not exist.
     * - FAILED_PRECONDITION with the reason MODEL_CHANGED: another model than the one that embedded the collection's texts
     *   is loaded under its name.
     * - FAILED_PRECONDITION with the reason NON_FINITE: the model computes NaN or infinity for a text, which the message
     *   names.
     * - RESOURCE_EXHAUSTED: the lane is full; RetryInfo says when to retry.
     * - INTERNAL with the reason TEXT_INDEX_FAILED: the full-text index cannot be read. A search without `hybrid` works.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.SearchResponse> search(
        io.github.accelerd.v1.SearchRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSearchMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns points by id. Unknown ids are omitted. Fails with NOT_FOUND for the collection.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.GetPointsResponse> getPoints(
        io.github.accelerd.v1.GetPointsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetPointsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns all points, or those that match a filter, in pages in ascending order of id: numbers by value, UUIDs by their
     * bytes. A cursor encodes the last id of its page, so it stays valid after writes, compaction and a restart, and on
     * another daemon that restored the same collection.
     * Each page is a consistent snapshot that includes every write acknowledged before the call. A point that exists and
     * matches the filter from the first page to the last is returned exactly once, even if it is replaced in between. A
     * point that is inserted or deleted in between is returned at most once.
     * Fails with:
     * - INVALID_ARGUMENT: a limit above 16,384, an invalid filter, or an invalid cursor.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ScrollPointsResponse> scrollPoints(
        io.github.accelerd.v1.ScrollPointsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getScrollPointsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Counts all points, or those that match a filter, in a consistent snapshot that includes every write acknowledged
     * before the call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid filter.
     * - NOT_FOUND: the collection does not exist.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.CountPointsResponse> countPoints(
        io.github.accelerd.v1.CountPointsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCountPointsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Writes a versioned snapshot with checksums to an object store, atomically.
     * Fails with:
     * - NOT_FOUND: the collection does not exist.
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached or is full.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.CreateSnapshotResponse> createSnapshot(
        io.github.accelerd.v1.CreateSnapshotRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateSnapshotMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the snapshots of a collection, oldest first. The collection need not exist any more.
     * Fails with:
     * - INVALID_ARGUMENT: a URL of an unknown scheme, or a folder with snapshots of another collection.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - UNAVAILABLE: the object store cannot be reached.
     * - DATA_LOSS: the table of contents of a snapshot is damaged.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ListSnapshotsResponse> listSnapshots(
        io.github.accelerd.v1.ListSnapshotsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSnapshotsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes the snapshots of a collection but for the newest ones, oldest first.
     * Fails with:
     * - INVALID_ARGUMENT: `keep_count` is 0, or as ListSnapshots.
     * - PERMISSION_DENIED, UNAVAILABLE, DATA_LOSS: as ListSnapshots.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.PruneSnapshotsResponse> pruneSnapshots(
        io.github.accelerd.v1.PruneSnapshotsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPruneSnapshotsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Creates a collection from a snapshot, atomically. It is durable if the original was and the daemon has a data folder.
     * Fails with:
     * - ALREADY_EXISTS: the name is taken.
     * - NOT_FOUND: there is no snapshot at the URL.
     * - INVALID_ARGUMENT: no URL, or one of an unknown scheme.
     * - PERMISSION_DENIED: the URL is outside the folders that the daemon's settings allow.
     * - DATA_LOSS: a checksum does not match.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.RestoreCollectionResponse> restoreCollection(
        io.github.accelerd.v1.RestoreCollectionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRestoreCollectionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Clusters rows by k-means with greedy k-means++ initialisation. The result is deterministic for a seed and a device.
     * Fails with:
     * - INVALID_ARGUMENT: no rows, NaN, cluster_count 0 or above the number of rows, an invalid tolerance, more than 100,000
     *   iterations or more than 1,000 initialisations.
     * - NOT_FOUND: the collection does not exist.
     * - RESOURCE_EXHAUSTED: the lane is full.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ClusterResponse> cluster(
        io.github.accelerd.v1.ClusterRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getClusterMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_FIND_SIMILAR = 0;
  private static final int METHODID_CREATE_COLLECTION = 1;
  private static final int METHODID_GET_COLLECTION = 2;
  private static final int METHODID_LIST_COLLECTIONS = 3;
  private static final int METHODID_DELETE_COLLECTION = 4;
  private static final int METHODID_UPSERT = 5;
  private static final int METHODID_DELETE_POINTS = 6;
  private static final int METHODID_SEARCH = 7;
  private static final int METHODID_GET_POINTS = 8;
  private static final int METHODID_SCROLL_POINTS = 9;
  private static final int METHODID_COUNT_POINTS = 10;
  private static final int METHODID_CREATE_SNAPSHOT = 11;
  private static final int METHODID_LIST_SNAPSHOTS = 12;
  private static final int METHODID_PRUNE_SNAPSHOTS = 13;
  private static final int METHODID_RESTORE_COLLECTION = 14;
  private static final int METHODID_CLUSTER = 15;
  private static final int METHODID_UPSERT_STREAM = 16;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_FIND_SIMILAR:
          serviceImpl.findSimilar((io.github.accelerd.v1.FindSimilarRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.FindSimilarResponse>) responseObserver);
          break;
        case METHODID_CREATE_COLLECTION:
          serviceImpl.createCollection((io.github.accelerd.v1.CreateCollectionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.CreateCollectionResponse>) responseObserver);
          break;
        case METHODID_GET_COLLECTION:
          serviceImpl.getCollection((io.github.accelerd.v1.GetCollectionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetCollectionResponse>) responseObserver);
          break;
        case METHODID_LIST_COLLECTIONS:
          serviceImpl.listCollections((io.github.accelerd.v1.ListCollectionsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListCollectionsResponse>) responseObserver);
          break;
        case METHODID_DELETE_COLLECTION:
          serviceImpl.deleteCollection((io.github.accelerd.v1.DeleteCollectionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.DeleteCollectionResponse>) responseObserver);
          break;
        case METHODID_UPSERT:
          serviceImpl.upsert((io.github.accelerd.v1.UpsertRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.UpsertResponse>) responseObserver);
          break;
        case METHODID_DELETE_POINTS:
          serviceImpl.deletePoints((io.github.accelerd.v1.DeletePointsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.DeletePointsResponse>) responseObserver);
          break;
        case METHODID_SEARCH:
          serviceImpl.search((io.github.accelerd.v1.SearchRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.SearchResponse>) responseObserver);
          break;
        case METHODID_GET_POINTS:
          serviceImpl.getPoints((io.github.accelerd.v1.GetPointsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetPointsResponse>) responseObserver);
          break;
        case METHODID_SCROLL_POINTS:
          serviceImpl.scrollPoints((io.github.accelerd.v1.ScrollPointsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ScrollPointsResponse>) responseObserver);
          break;
        case METHODID_COUNT_POINTS:
          serviceImpl.countPoints((io.github.accelerd.v1.CountPointsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.CountPointsResponse>) responseObserver);
          break;
        case METHODID_CREATE_SNAPSHOT:
          serviceImpl.createSnapshot((io.github.accelerd.v1.CreateSnapshotRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.CreateSnapshotResponse>) responseObserver);
          break;
        case METHODID_LIST_SNAPSHOTS:
          serviceImpl.listSnapshots((io.github.accelerd.v1.ListSnapshotsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListSnapshotsResponse>) responseObserver);
          break;
        case METHODID_PRUNE_SNAPSHOTS:
          serviceImpl.pruneSnapshots((io.github.accelerd.v1.PruneSnapshotsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.PruneSnapshotsResponse>) responseObserver);
          break;
        case METHODID_RESTORE_COLLECTION:
          serviceImpl.restoreCollection((io.github.accelerd.v1.RestoreCollectionRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.RestoreCollectionResponse>) responseObserver);
          break;
        case METHODID_CLUSTER:
          serviceImpl.cluster((io.github.accelerd.v1.ClusterRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ClusterResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_UPSERT_STREAM:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.upsertStream(
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.UpsertStreamResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getFindSimilarMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.FindSimilarRequest,
              io.github.accelerd.v1.FindSimilarResponse>(
                service, METHODID_FIND_SIMILAR)))
        .addMethod(
          getCreateCollectionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.CreateCollectionRequest,
              io.github.accelerd.v1.CreateCollectionResponse>(
                service, METHODID_CREATE_COLLECTION)))
        .addMethod(
          getGetCollectionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.GetCollectionRequest,
              io.github.accelerd.v1.GetCollectionResponse>(
                service, METHODID_GET_COLLECTION)))
        .addMethod(
          getListCollectionsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ListCollectionsRequest,
              io.github.accelerd.v1.ListCollectionsResponse>(
                service, METHODID_LIST_COLLECTIONS)))
        .addMethod(
          getDeleteCollectionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.DeleteCollectionRequest,
              io.github.accelerd.v1.DeleteCollectionResponse>(
                service, METHODID_DELETE_COLLECTION)))
        .addMethod(
          getUpsertMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.UpsertRequest,
              io.github.accelerd.v1.UpsertResponse>(
                service, METHODID_UPSERT)))
        .addMethod(
          getUpsertStreamMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              io.github.accelerd.v1.UpsertStreamRequest,
              io.github.accelerd.v1.UpsertStreamResponse>(
                service, METHODID_UPSERT_STREAM)))
        .addMethod(
          getDeletePointsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.DeletePointsRequest,
              io.github.accelerd.v1.DeletePointsResponse>(
                service, METHODID_DELETE_POINTS)))
        .addMethod(
          getSearchMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.SearchRequest,
              io.github.accelerd.v1.SearchResponse>(
                service, METHODID_SEARCH)))
        .addMethod(
          getGetPointsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.GetPointsRequest,
              io.github.accelerd.v1.GetPointsResponse>(
                service, METHODID_GET_POINTS)))
        .addMethod(
          getScrollPointsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ScrollPointsRequest,
              io.github.accelerd.v1.ScrollPointsResponse>(
                service, METHODID_SCROLL_POINTS)))
        .addMethod(
          getCountPointsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.CountPointsRequest,
              io.github.accelerd.v1.CountPointsResponse>(
                service, METHODID_COUNT_POINTS)))
        .addMethod(
          getCreateSnapshotMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.CreateSnapshotRequest,
              io.github.accelerd.v1.CreateSnapshotResponse>(
                service, METHODID_CREATE_SNAPSHOT)))
        .addMethod(
          getListSnapshotsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ListSnapshotsRequest,
              io.github.accelerd.v1.ListSnapshotsResponse>(
                service, METHODID_LIST_SNAPSHOTS)))
        .addMethod(
          getPruneSnapshotsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.PruneSnapshotsRequest,
              io.github.accelerd.v1.PruneSnapshotsResponse>(
                service, METHODID_PRUNE_SNAPSHOTS)))
        .addMethod(
          getRestoreCollectionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.RestoreCollectionRequest,
              io.github.accelerd.v1.RestoreCollectionResponse>(
                service, METHODID_RESTORE_COLLECTION)))
        .addMethod(
          getClusterMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ClusterRequest,
              io.github.accelerd.v1.ClusterResponse>(
                service, METHODID_CLUSTER)))
        .build();
  }

  private static abstract class SimilarityServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    SimilarityServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.accelerd.v1.Similarity.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("SimilarityService");
    }
  }

  private static final class SimilarityServiceFileDescriptorSupplier
      extends SimilarityServiceBaseDescriptorSupplier {
    SimilarityServiceFileDescriptorSupplier() {}
  }

  private static final class SimilarityServiceMethodDescriptorSupplier
      extends SimilarityServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    SimilarityServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (SimilarityServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new SimilarityServiceFileDescriptorSupplier())
              .addMethod(getFindSimilarMethod())
              .addMethod(getCreateCollectionMethod())
              .addMethod(getGetCollectionMethod())
              .addMethod(getListCollectionsMethod())
              .addMethod(getDeleteCollectionMethod())
              .addMethod(getUpsertMethod())
              .addMethod(getUpsertStreamMethod())
              .addMethod(getDeletePointsMethod())
              .addMethod(getSearchMethod())
              .addMethod(getGetPointsMethod())
              .addMethod(getScrollPointsMethod())
              .addMethod(getCountPointsMethod())
              .addMethod(getCreateSnapshotMethod())
              .addMethod(getListSnapshotsMethod())
              .addMethod(getPruneSnapshotsMethod())
              .addMethod(getRestoreCollectionMethod())
              .addMethod(getClusterMethod())
              .build();
        }
      }
    }
    return result;
  }
}
