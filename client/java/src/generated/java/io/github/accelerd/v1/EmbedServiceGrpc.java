package io.github.accelerd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Embeds text, code and token ids, reranks documents, and manages the models.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class EmbedServiceGrpc {

  private EmbedServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "accelerd.v1.EmbedService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.EmbedRequest,
      io.github.accelerd.v1.EmbedResponse> getEmbedMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Embed",
      requestType = io.github.accelerd.v1.EmbedRequest.class,
      responseType = io.github.accelerd.v1.EmbedResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.EmbedRequest,
      io.github.accelerd.v1.EmbedResponse> getEmbedMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.EmbedRequest, io.github.accelerd.v1.EmbedResponse> getEmbedMethod;
    if ((getEmbedMethod = EmbedServiceGrpc.getEmbedMethod) == null) {
      synchronized (EmbedServiceGrpc.class) {
        if ((getEmbedMethod = EmbedServiceGrpc.getEmbedMethod) == null) {
          EmbedServiceGrpc.getEmbedMethod = getEmbedMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.EmbedRequest, io.github.accelerd.v1.EmbedResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Embed"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.EmbedRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.EmbedResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EmbedServiceMethodDescriptorSupplier("Embed"))
              .build();
        }
      }
    }
    return getEmbedMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.EmbedStreamRequest,
      io.github.accelerd.v1.EmbedStreamResponse> getEmbedStreamMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "EmbedStream",
      requestType = io.github.accelerd.v1.EmbedStreamRequest.class,
      responseType = io.github.accelerd.v1.EmbedStreamResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.EmbedStreamRequest,
      io.github.accelerd.v1.EmbedStreamResponse> getEmbedStreamMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.EmbedStreamRequest, io.github.accelerd.v1.EmbedStreamResponse> getEmbedStreamMethod;
    if ((getEmbedStreamMethod = EmbedServiceGrpc.getEmbedStreamMethod) == null) {
      synchronized (EmbedServiceGrpc.class) {
        if ((getEmbedStreamMethod = EmbedServiceGrpc.getEmbedStreamMethod) == null) {
          EmbedServiceGrpc.getEmbedStreamMethod = getEmbedStreamMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.EmbedStreamRequest, io.github.accelerd.v1.EmbedStreamResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "EmbedStream"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.EmbedStreamRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.EmbedStreamResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EmbedServiceMethodDescriptorSupplier("EmbedStream"))
              .build();
        }
      }
    }
    return getEmbedStreamMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.RerankRequest,
      io.github.accelerd.v1.RerankResponse> getRerankMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Rerank",
      requestType = io.github.accelerd.v1.RerankRequest.class,
      responseType = io.github.accelerd.v1.RerankResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.RerankRequest,
      io.github.accelerd.v1.RerankResponse> getRerankMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.RerankRequest, io.github.accelerd.v1.RerankResponse> getRerankMethod;
    if ((getRerankMethod = EmbedServiceGrpc.getRerankMethod) == null) {
      synchronized (EmbedServiceGrpc.class) {
        if ((getRerankMethod = EmbedServiceGrpc.getRerankMethod) == null) {
          EmbedServiceGrpc.getRerankMethod = getRerankMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.RerankRequest, io.github.accelerd.v1.RerankResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Rerank"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.RerankRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.RerankResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EmbedServiceMethodDescriptorSupplier("Rerank"))
              .build();
        }
      }
    }
    return getRerankMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.TokenizeRequest,
      io.github.accelerd.v1.TokenizeResponse> getTokenizeMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Tokenize",
      requestType = io.github.accelerd.v1.TokenizeRequest.class,
      responseType = io.github.accelerd.v1.TokenizeResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.TokenizeRequest,
      io.github.accelerd.v1.TokenizeResponse> getTokenizeMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.TokenizeRequest, io.github.accelerd.v1.TokenizeResponse> getTokenizeMethod;
    if ((getTokenizeMethod = EmbedServiceGrpc.getTokenizeMethod) == null) {
      synchronized (EmbedServiceGrpc.class) {
        if ((getTokenizeMethod = EmbedServiceGrpc.getTokenizeMethod) == null) {
          EmbedServiceGrpc.getTokenizeMethod = getTokenizeMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.TokenizeRequest, io.github.accelerd.v1.TokenizeResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Tokenize"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.TokenizeRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.TokenizeResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EmbedServiceMethodDescriptorSupplier("Tokenize"))
              .build();
        }
      }
    }
    return getTokenizeMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ListModelsRequest,
      io.github.accelerd.v1.ListModelsResponse> getListModelsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListModels",
      requestType = io.github.accelerd.v1.ListModelsRequest.class,
      responseType = io.github.accelerd.v1.ListModelsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ListModelsRequest,
      io.github.accelerd.v1.ListModelsResponse> getListModelsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ListModelsRequest, io.github.accelerd.v1.ListModelsResponse> getListModelsMethod;
    if ((getListModelsMethod = EmbedServiceGrpc.getListModelsMethod) == null) {
      synchronized (EmbedServiceGrpc.class) {
        if ((getListModelsMethod = EmbedServiceGrpc.getListModelsMethod) == null) {
          EmbedServiceGrpc.getListModelsMethod = getListModelsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ListModelsRequest, io.github.accelerd.v1.ListModelsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListModels"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListModelsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListModelsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EmbedServiceMethodDescriptorSupplier("ListModels"))
              .build();
        }
      }
    }
    return getListModelsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.LoadModelRequest,
      io.github.accelerd.v1.LoadModelResponse> getLoadModelMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "LoadModel",
      requestType = io.github.accelerd.v1.LoadModelRequest.class,
      responseType = io.github.accelerd.v1.LoadModelResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.LoadModelRequest,
      io.github.accelerd.v1.LoadModelResponse> getLoadModelMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.LoadModelRequest, io.github.accelerd.v1.LoadModelResponse> getLoadModelMethod;
    if ((getLoadModelMethod = EmbedServiceGrpc.getLoadModelMethod) == null) {
      synchronized (EmbedServiceGrpc.class) {
        if ((getLoadModelMethod = EmbedServiceGrpc.getLoadModelMethod) == null) {
          EmbedServiceGrpc.getLoadModelMethod = getLoadModelMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.LoadModelRequest, io.github.accelerd.v1.LoadModelResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "LoadModel"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.LoadModelRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.LoadModelResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EmbedServiceMethodDescriptorSupplier("LoadModel"))
              .build();
        }
      }
    }
    return getLoadModelMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.UnloadModelRequest,
      io.github.accelerd.v1.UnloadModelResponse> getUnloadModelMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UnloadModel",
      requestType = io.github.accelerd.v1.UnloadModelRequest.class,
      responseType = io.github.accelerd.v1.UnloadModelResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.UnloadModelRequest,
      io.github.accelerd.v1.UnloadModelResponse> getUnloadModelMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.UnloadModelRequest, io.github.accelerd.v1.UnloadModelResponse> getUnloadModelMethod;
    if ((getUnloadModelMethod = EmbedServiceGrpc.getUnloadModelMethod) == null) {
      synchronized (EmbedServiceGrpc.class) {
        if ((getUnloadModelMethod = EmbedServiceGrpc.getUnloadModelMethod) == null) {
          EmbedServiceGrpc.getUnloadModelMethod = getUnloadModelMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.UnloadModelRequest, io.github.accelerd.v1.UnloadModelResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UnloadModel"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.UnloadModelRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.UnloadModelResponse.getDefaultInstance()))
              .setSchemaDescriptor(new EmbedServiceMethodDescriptorSupplier("UnloadModel"))
              .build();
        }
      }
    }
    return getUnloadModelMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static EmbedServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<EmbedServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<EmbedServiceStub>() {
        @java.lang.Override
        public EmbedServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new EmbedServiceStub(channel, callOptions);
        }
      };
    return EmbedServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static EmbedServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<EmbedServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<EmbedServiceBlockingV2Stub>() {
        @java.lang.Override
        public EmbedServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new EmbedServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return EmbedServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static EmbedServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<EmbedServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<EmbedServiceBlockingStub>() {
        @java.lang.Override
        public EmbedServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new EmbedServiceBlockingStub(channel, callOptions);
        }
      };
    return EmbedServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static EmbedServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<EmbedServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<EmbedServiceFutureStub>() {
        @java.lang.Override
        public EmbedServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new EmbedServiceFutureStub(channel, callOptions);
        }
      };
    return EmbedServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Embeds text, code and token ids, reranks documents, and manages the models.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Embeds texts or lists of token ids. Requests of several clients share a batch; a vector does not depend on the other
     * inputs of its batch.
     * Fails with:
     * - INVALID_ARGUMENT: no input, a token id outside the vocabulary, unsupported dimensions, offsets that do not
     *   partition the ids, more texts or bytes than the configured limits, an input that is too long with
     *   LONG_INPUT_ERROR, both `prompt` and `prompt_name`, or an option that the model does not support.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a vector has NaN or infinity, or its values exceed the range of
     *   the output type; the message names the input.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message size.
     * </pre>
     */
    default void embed(io.github.accelerd.v1.EmbedRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.EmbedResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getEmbedMethod(), responseObserver);
    }

    /**
     * <pre>
     * Embeds batches of a corpus. Responses come in the order of completion; a batch that fails has an error in its
     * response. Where the queue is full a batch waits instead of failing, and the stream applies flow control.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<io.github.accelerd.v1.EmbedStreamRequest> embedStream(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.EmbedStreamResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getEmbedStreamMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ranks documents by their relevance to a query. A cross-encoder reads each document together with the query and scores
     * the pair, which is slower but more accurate than comparing vectors: rerank the few results of a search. Pairs of
     * several clients share a batch; a score does not depend on the other pairs.
     * Fails with:
     * - INVALID_ARGUMENT: no query or no documents, more texts or bytes than the configured limits, a query that leaves no
     *   tokens for a document, or a model that is not a cross-encoder.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a score is NaN or infinite; the message names the document.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry.
     * </pre>
     */
    default void rerank(io.github.accelerd.v1.RerankRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.RerankResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRerankMethod(), responseObserver);
    }

    /**
     * <pre>
     * Converts texts to token ids with a model's tokenizer.
     * Fails with:
     * - INVALID_ARGUMENT: no texts, or more than the configured limits.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    default void tokenize(io.github.accelerd.v1.TokenizeRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.TokenizeResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getTokenizeMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the loaded models.
     * </pre>
     */
    default void listModels(io.github.accelerd.v1.ListModelsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListModelsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListModelsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Loads a model: a folder in the layout of Hugging Face (config.json, *.safetensors, tokenizer.json), a table of static
     * word embeddings in a .npy or .safetensors file, or a model of a hub. Returns after the model has embedded a first
     * text. A download that a client cancels is resumed by the next call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid name, no path, or a folder that cannot be loaded; the message names the file or tensor.
     * - PERMISSION_DENIED: the path is outside the folders of the setting `models.folders`, the settings `models.hub` do
     *   not allow the download, or the hub denies access.
     * - NOT_FOUND: the hub has no such model or revision.
     * - ALREADY_EXISTS: the name or an alias is taken.
     * - RESOURCE_EXHAUSTED: the models would exceed the setting `models.memory_limit` or a device's memory, or the disk is
     *   full.
     * - UNAVAILABLE: the hub cannot be reached, or the connection broke.
     * - DATA_LOSS: a file's checksum differs from the hub's.
     * </pre>
     */
    default void loadModel(io.github.accelerd.v1.LoadModelRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.LoadModelResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getLoadModelMethod(), responseObserver);
    }

    /**
     * <pre>
     * Unloads a model. Calls in flight complete before its memory is freed.
     * Fails with:
     * - INVALID_ARGUMENT: the model is the built-in one.
     * - NOT_FOUND: no model has this name or alias.
     * </pre>
     */
    default void unloadModel(io.github.accelerd.v1.UnloadModelRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.UnloadModelResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUnloadModelMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service EmbedService.
   * <pre>
   * Embeds text, code and token ids, reranks documents, and manages the models.
   * </pre>
   */
  public static abstract class EmbedServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return EmbedServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service EmbedService.
   * <pre>
   * Embeds text, code and token ids, reranks documents, and manages the models.
   * </pre>
   */
  public static final class EmbedServiceStub
      extends io.grpc.stub.AbstractAsyncStub<EmbedServiceStub> {
    private EmbedServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected EmbedServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new EmbedServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Embeds texts or lists of token ids. Requests of several clients share a batch; a vector does not depend on the other
     * inputs of its batch.
     * Fails with:
     * - INVALID_ARGUMENT: no input, a token id outside the vocabulary, unsupported dimensions, offsets that do not
     *   partition the ids, more texts or bytes than the configured limits, an input that is too long with
     *   LONG_INPUT_ERROR, both `prompt` and `prompt_name`, or an option that the model does not support.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a vector has NaN or infinity, or its values exceed the range of
     *   the output type; the message names the input.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message size.
     * </pre>
     */
    public void embed(io.github.accelerd.v1.EmbedRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.EmbedResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getEmbedMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Embeds batches of a corpus. Responses come in the order of completion; a batch that fails has an error in its
     * response. Where the queue is full a batch waits instead of failing, and the stream applies flow control.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.github.accelerd.v1.EmbedStreamRequest> embedStream(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.EmbedStreamResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getEmbedStreamMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * Ranks documents by their relevance to a query. A cross-encoder reads each document together with the query and scores
     * the pair, which is slower but more accurate than comparing vectors: rerank the few results of a search. Pairs of
     * several clients share a batch; a score does not depend on the other pairs.
     * Fails with:
     * - INVALID_ARGUMENT: no query or no documents, more texts or bytes than the configured limits, a query that leaves no
     *   tokens for a document, or a model that is not a cross-encoder.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a score is NaN or infinite; the message names the document.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry.
     * </pre>
     */
    public void rerank(io.github.accelerd.v1.RerankRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.RerankResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRerankMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Converts texts to token ids with a model's tokenizer.
     * Fails with:
     * - INVALID_ARGUMENT: no texts, or more than the configured limits.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    public void tokenize(io.github.accelerd.v1.TokenizeRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.TokenizeResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getTokenizeMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the loaded models.
     * </pre>
     */
    public void listModels(io.github.accelerd.v1.ListModelsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListModelsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListModelsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Loads a model: a folder in the layout of Hugging Face (config.json, *.safetensors, tokenizer.json), a table of static
     * word embeddings in a .npy or .safetensors file, or a model of a hub. Returns after the model has embedded a first
     * text. A download that a client cancels is resumed by the next call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid name, no path, or a folder that cannot be loaded; the message names the file or tensor.
     * - PERMISSION_DENIED: the path is outside the folders of the setting `models.folders`, the settings `models.hub` do
     *   not allow the download, or the hub denies access.
     * - NOT_FOUND: the hub has no such model or revision.
     * - ALREADY_EXISTS: the name or an alias is taken.
     * - RESOURCE_EXHAUSTED: the models would exceed the setting `models.memory_limit` or a device's memory, or the disk is
     *   full.
     * - UNAVAILABLE: the hub cannot be reached, or the connection broke.
     * - DATA_LOSS: a file's checksum differs from the hub's.
     * </pre>
     */
    public void loadModel(io.github.accelerd.v1.LoadModelRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.LoadModelResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getLoadModelMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Unloads a model. Calls in flight complete before its memory is freed.
     * Fails with:
     * - INVALID_ARGUMENT: the model is the built-in one.
     * - NOT_FOUND: no model has this name or alias.
     * </pre>
     */
    public void unloadModel(io.github.accelerd.v1.UnloadModelRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.UnloadModelResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUnloadModelMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service EmbedService.
   * <pre>
   * Embeds text, code and token ids, reranks documents, and manages the models.
   * </pre>
   */
  public static final class EmbedServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<EmbedServiceBlockingV2Stub> {
    private EmbedServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected EmbedServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new EmbedServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Embeds texts or lists of token ids. Requests of several clients share a batch; a vector does not depend on the other
     * inputs of its batch.
     * Fails with:
     * - INVALID_ARGUMENT: no input, a token id outside the vocabulary, unsupported dimensions, offsets that do not
     *   partition the ids, more texts or bytes than the configured limits, an input that is too long with
     *   LONG_INPUT_ERROR, both `prompt` and `prompt_name`, or an option that the model does not support.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a vector has NaN or infinity, or its values exceed the range of
     *   the output type; the message names the input.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message size.
     * </pre>
     */
    public io.github.accelerd.v1.EmbedResponse embed(io.github.accelerd.v1.EmbedRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getEmbedMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Embeds batches of a corpus. Responses come in the order of completion; a batch that fails has an error in its
     * response. Where the queue is full a batch waits instead of failing, and the stream applies flow control.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<io.github.accelerd.v1.EmbedStreamRequest, io.github.accelerd.v1.EmbedStreamResponse>
        embedStream() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getEmbedStreamMethod(), getCallOptions());
    }

    /**
     * <pre>
     * Ranks documents by their relevance to a query. A cross-encoder reads each document together with the query and scores
     * the pair, which is slower but more accurate than comparing vectors: rerank the few results of a search. Pairs of
     * several clients share a batch; a score does not depend on the other pairs.
     * Fails with:
     * - INVALID_ARGUMENT: no query or no documents, more texts or bytes than the configured limits, a query that leaves no
     *   tokens for a document, or a model that is not a cross-encoder.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a score is NaN or infinite; the message names the document.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.RerankResponse rerank(io.github.accelerd.v1.RerankRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRerankMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Converts texts to token ids with a model's tokenizer.
     * Fails with:
     * - INVALID_ARGUMENT: no texts, or more than the configured limits.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    public io.github.accelerd.v1.TokenizeResponse tokenize(io.github.accelerd.v1.TokenizeRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getTokenizeMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the loaded models.
     * </pre>
     */
    public io.github.accelerd.v1.ListModelsResponse listModels(io.github.accelerd.v1.ListModelsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListModelsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Loads a model: a folder in the layout of Hugging Face (config.json, *.safetensors, tokenizer.json), a table of static
     * word embeddings in a .npy or .safetensors file, or a model of a hub. Returns after the model has embedded a first
     * text. A download that a client cancels is resumed by the next call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid name, no path, or a folder that cannot be loaded; the message names the file or tensor.
     * - PERMISSION_DENIED: the path is outside the folders of the setting `models.folders`, the settings `models.hub` do
     *   not allow the download, or the hub denies access.
     * - NOT_FOUND: the hub has no such model or revision.
     * - ALREADY_EXISTS: the name or an alias is taken.
     * - RESOURCE_EXHAUSTED: the models would exceed the setting `models.memory_limit` or a device's memory, or the disk is
     *   full.
     * - UNAVAILABLE: the hub cannot be reached, or the connection broke.
     * - DATA_LOSS: a file's checksum differs from the hub's.
     * </pre>
     */
    public io.github.accelerd.v1.LoadModelResponse loadModel(io.github.accelerd.v1.LoadModelRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getLoadModelMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Unloads a model. Calls in flight complete before its memory is freed.
     * Fails with:
     * - INVALID_ARGUMENT: the model is the built-in one.
     * - NOT_FOUND: no model has this name or alias.
     * </pre>
     */
    public io.github.accelerd.v1.UnloadModelResponse unloadModel(io.github.accelerd.v1.UnloadModelRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUnloadModelMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service EmbedService.
   * <pre>
   * Embeds text, code and token ids, reranks documents, and manages the models.
   * </pre>
   */
  public static final class EmbedServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<EmbedServiceBlockingStub> {
    private EmbedServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected EmbedServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new EmbedServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Embeds texts or lists of token ids. Requests of several clients share a batch; a vector does not depend on the other
     * inputs of its batch.
     * Fails with:
     * - INVALID_ARGUMENT: no input, a token id outside the vocabulary, unsupported dimensions, offsets that do not
     *   partition the ids, more texts or bytes than the configured limits, an input that is too long with
     *   LONG_INPUT_ERROR, both `prompt` and `prompt_name`, or an option that the model does not support.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a vector has NaN or infinity, or its values exceed the range of
     *   the output type; the message names the input.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message size.
     * </pre>
     */
    public io.github.accelerd.v1.EmbedResponse embed(io.github.accelerd.v1.EmbedRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getEmbedMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ranks documents by their relevance to a query. A cross-encoder reads each document together with the query and scores
     * the pair, which is slower but more accurate than comparing vectors: rerank the few results of a search. Pairs of
     * several clients share a batch; a score does not depend on the other pairs.
     * Fails with:
     * - INVALID_ARGUMENT: no query or no documents, more texts or bytes than the configured limits, a query that leaves no
     *   tokens for a document, or a model that is not a cross-encoder.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a score is NaN or infinite; the message names the document.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.RerankResponse rerank(io.github.accelerd.v1.RerankRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRerankMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Converts texts to token ids with a model's tokenizer.
     * Fails with:
     * - INVALID_ARGUMENT: no texts, or more than the configured limits.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    public io.github.accelerd.v1.TokenizeResponse tokenize(io.github.accelerd.v1.TokenizeRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getTokenizeMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the loaded models.
     * </pre>
     */
    public io.github.accelerd.v1.ListModelsResponse listModels(io.github.accelerd.v1.ListModelsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListModelsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Loads a model: a folder in the layout of Hugging Face (config.json, *.safetensors, tokenizer.json), a table of static
     * word embeddings in a .npy or .safetensors file, or a model of a hub. Returns after the model has embedded a first
     * text. A download that a client cancels is resumed by the next call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid name, no path, or a folder that cannot be loaded; the message names the file or tensor.
     * - PERMISSION_DENIED: the path is outside the folders of the setting `models.folders`, the settings `models.hub` do
     *   not allow the download, or the hub denies access.
     * - NOT_FOUND: the hub has no such model or revision.
     * - ALREADY_EXISTS: the name or an alias is taken.
     * - RESOURCE_EXHAUSTED: the models would exceed the setting `models.memory_limit` or a device's memory, or the disk is
     *   full.
     * - UNAVAILABLE: the hub cannot be reached, or the connection broke.
     * - DATA_LOSS: a file's checksum differs from the hub's.
     * </pre>
     */
    public io.github.accelerd.v1.LoadModelResponse loadModel(io.github.accelerd.v1.LoadModelRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getLoadModelMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Unloads a model. Calls in flight complete before its memory is freed.
     * Fails with:
     * - INVALID_ARGUMENT: the model is the built-in one.
     * - NOT_FOUND: no model has this name or alias.
     * </pre>
     */
    public io.github.accelerd.v1.UnloadModelResponse unloadModel(io.github.accelerd.v1.UnloadModelRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUnloadModelMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service EmbedService.
   * <pre>
   * Embeds text, code and token ids, reranks documents, and manages the models.
   * </pre>
   */
  public static final class EmbedServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<EmbedServiceFutureStub> {
    private EmbedServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected EmbedServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new EmbedServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Embeds texts or lists of token ids. Requests of several clients share a batch; a vector does not depend on the other
     * inputs of its batch.
     * Fails with:
     * - INVALID_ARGUMENT: no input, a token id outside the vocabulary, unsupported dimensions, offsets that do not
     *   partition the ids, more texts or bytes than the configured limits, an input that is too long with
     *   LONG_INPUT_ERROR, both `prompt` and `prompt_name`, or an option that the model does not support.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a vector has NaN or infinity, or its values exceed the range of
     *   the output type; the message names the input.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message size.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.EmbedResponse> embed(
        io.github.accelerd.v1.EmbedRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getEmbedMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ranks documents by their relevance to a query. A cross-encoder reads each document together with the query and scores
     * the pair, which is slower but more accurate than comparing vectors: rerank the few results of a search. Pairs of
     * several clients share a batch; a score does not depend on the other pairs.
     * Fails with:
     * - INVALID_ARGUMENT: no query or no documents, more texts or bytes than the configured limits, a query that leaves no
     *   tokens for a document, or a model that is not a cross-encoder.
     * - NOT_FOUND: the model is not loaded; ResourceInfo names it.
     * - FAILED_PRECONDITION with the reason NON_FINITE: a score is NaN or infinite; the message names the document.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.RerankResponse> rerank(
        io.github.accelerd.v1.RerankRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRerankMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Converts texts to token ids with a model's tokenizer.
     * Fails with:
     * - INVALID_ARGUMENT: no texts, or more than the configured limits.
     * - NOT_FOUND: the model is not loaded.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.TokenizeResponse> tokenize(
        io.github.accelerd.v1.TokenizeRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getTokenizeMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the loaded models.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ListModelsResponse> listModels(
        io.github.accelerd.v1.ListModelsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListModelsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Loads a model: a folder in the layout of Hugging Face (config.json, *.safetensors, tokenizer.json), a table of static
     * word embeddings in a .npy or .safetensors file, or a model of a hub. Returns after the model has embedded a first
     * text. A download that a client cancels is resumed by the next call.
     * Fails with:
     * - INVALID_ARGUMENT: an invalid name, no path, or a folder that cannot be loaded; the message names the file or tensor.
     * - PERMISSION_DENIED: the path is outside the folders of the setting `models.folders`, the settings `models.hub` do
     *   not allow the download, or the hub denies access.
     * - NOT_FOUND: the hub has no such model or revision.
     * - ALREADY_EXISTS: the name or an alias is taken.
     * - RESOURCE_EXHAUSTED: the models would exceed the setting `models.memory_limit` or a device's memory, or the disk is
     *   full.
     * - UNAVAILABLE: the hub cannot be reached, or the connection broke.
     * - DATA_LOSS: a file's checksum differs from the hub's.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.LoadModelResponse> loadModel(
        io.github.accelerd.v1.LoadModelRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getLoadModelMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Unloads a model. Calls in flight complete before its memory is freed.
     * Fails with:
     * - INVALID_ARGUMENT: the model is the built-in one.
     * - NOT_FOUND: no model has this name or alias.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.UnloadModelResponse> unloadModel(
        io.github.accelerd.v1.UnloadModelRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUnloadModelMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_EMBED = 0;
  private static final int METHODID_RERANK = 1;
  private static final int METHODID_TOKENIZE = 2;
  private static final int METHODID_LIST_MODELS = 3;
  private static final int METHODID_LOAD_MODEL = 4;
  private static final int METHODID_UNLOAD_MODEL = 5;
  private static final int METHODID_EMBED_STREAM = 6;

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
        case METHODID_EMBED:
          serviceImpl.embed((io.github.accelerd.v1.EmbedRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.EmbedResponse>) responseObserver);
          break;
        case METHODID_RERANK:
          serviceImpl.rerank((io.github.accelerd.v1.RerankRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.RerankResponse>) responseObserver);
          break;
        case METHODID_TOKENIZE:
          serviceImpl.tokenize((io.github.accelerd.v1.TokenizeRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.TokenizeResponse>) responseObserver);
          break;
        case METHODID_LIST_MODELS:
          serviceImpl.listModels((io.github.accelerd.v1.ListModelsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListModelsResponse>) responseObserver);
          break;
        case METHODID_LOAD_MODEL:
          serviceImpl.loadModel((io.github.accelerd.v1.LoadModelRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.LoadModelResponse>) responseObserver);
          break;
        case METHODID_UNLOAD_MODEL:
          serviceImpl.unloadModel((io.github.accelerd.v1.UnloadModelRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.UnloadModelResponse>) responseObserver);
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
        case METHODID_EMBED_STREAM:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.embedStream(
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.EmbedStreamResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getEmbedMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.EmbedRequest,
              io.github.accelerd.v1.EmbedResponse>(
                service, METHODID_EMBED)))
        .addMethod(
          getEmbedStreamMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              io.github.accelerd.v1.EmbedStreamRequest,
              io.github.accelerd.v1.EmbedStreamResponse>(
                service, METHODID_EMBED_STREAM)))
        .addMethod(
          getRerankMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.RerankRequest,
              io.github.accelerd.v1.RerankResponse>(
                service, METHODID_RERANK)))
        .addMethod(
          getTokenizeMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.TokenizeRequest,
              io.github.accelerd.v1.TokenizeResponse>(
                service, METHODID_TOKENIZE)))
        .addMethod(
          getListModelsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ListModelsRequest,
              io.github.accelerd.v1.ListModelsResponse>(
                service, METHODID_LIST_MODELS)))
        .addMethod(
          getLoadModelMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.LoadModelRequest,
              io.github.accelerd.v1.LoadModelResponse>(
                service, METHODID_LOAD_MODEL)))
        .addMethod(
          getUnloadModelMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.UnloadModelRequest,
              io.github.accelerd.v1.UnloadModelResponse>(
                service, METHODID_UNLOAD_MODEL)))
        .build();
  }

  private static abstract class EmbedServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    EmbedServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.accelerd.v1.Embed.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("EmbedService");
    }
  }

  private static final class EmbedServiceFileDescriptorSupplier
      extends EmbedServiceBaseDescriptorSupplier {
    EmbedServiceFileDescriptorSupplier() {}
  }

  private static final class EmbedServiceMethodDescriptorSupplier
      extends EmbedServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    EmbedServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (EmbedServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new EmbedServiceFileDescriptorSupplier())
              .addMethod(getEmbedMethod())
              .addMethod(getEmbedStreamMethod())
              .addMethod(getRerankMethod())
              .addMethod(getTokenizeMethod())
              .addMethod(getListModelsMethod())
              .addMethod(getLoadModelMethod())
              .addMethod(getUnloadModelMethod())
              .build();
        }
      }
    }
    return result;
  }
}
