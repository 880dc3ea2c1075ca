package io.github.accelerd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Parses Python.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class ParseServiceGrpc {

  private ParseServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "accelerd.v1.ParseService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ParseRequest,
      io.github.accelerd.v1.ParseResponse> getParseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Parse",
      requestType = io.github.accelerd.v1.ParseRequest.class,
      responseType = io.github.accelerd.v1.ParseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ParseRequest,
      io.github.accelerd.v1.ParseResponse> getParseMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ParseRequest, io.github.accelerd.v1.ParseResponse> getParseMethod;
    if ((getParseMethod = ParseServiceGrpc.getParseMethod) == null) {
      synchronized (ParseServiceGrpc.class) {
        if ((getParseMethod = ParseServiceGrpc.getParseMethod) == null) {
          ParseServiceGrpc.getParseMethod = getParseMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ParseRequest, io.github.accelerd.v1.ParseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Parse"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ParseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ParseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ParseServiceMethodDescriptorSupplier("Parse"))
              .build();
        }
      }
    }
    return getParseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ParseStreamRequest,
      io.github.accelerd.v1.ParseStreamResponse> getParseStreamMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ParseStream",
      requestType = io.github.accelerd.v1.ParseStreamRequest.class,
      responseType = io.github.accelerd.v1.ParseStreamResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ParseStreamRequest,
      io.github.accelerd.v1.ParseStreamResponse> getParseStreamMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ParseStreamRequest, io.github.accelerd.v1.ParseStreamResponse> getParseStreamMethod;
    if ((getParseStreamMethod = ParseServiceGrpc.getParseStreamMethod) == null) {
      synchronized (ParseServiceGrpc.class) {
        if ((getParseStreamMethod = ParseServiceGrpc.getParseStreamMethod) == null) {
          ParseServiceGrpc.getParseStreamMethod = getParseStreamMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ParseStreamRequest, io.github.accelerd.v1.ParseStreamResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ParseStream"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ParseStreamRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ParseStreamResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ParseServiceMethodDescriptorSupplier("ParseStream"))
              .build();
        }
      }
    }
    return getParseStreamMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static ParseServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ParseServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ParseServiceStub>() {
        @java.lang.Override
        public ParseServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ParseServiceStub(channel, callOptions);
        }
      };
    return ParseServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static ParseServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ParseServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ParseServiceBlockingV2Stub>() {
        @java.lang.Override
        public ParseServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ParseServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return ParseServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static ParseServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ParseServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ParseServiceBlockingStub>() {
        @java.lang.Override
        public ParseServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ParseServiceBlockingStub(channel, callOptions);
        }
      };
    return ParseServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static ParseServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ParseServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ParseServiceFutureStub>() {
        @java.lang.Override
        public ParseServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ParseServiceFutureStub(channel, callOptions);
        }
      };
    return ParseServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Parses Python.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Parses sources. The result of a source with a syntax error has a diagnostic; the call succeeds.
     * Fails with:
     * - INVALID_ARGUMENT: no sources, an unknown feature version, output, source type or mode, source types that are
     *   neither one nor as many as the sources, or more sources or bytes than the configured limits; the message names them.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message
     *   size: request fewer outputs, or send the sources in several calls. If one source alone exceeds it with the outputs
     *   that are needed, only a larger `server.max_message_bytes` in the daemon's settings helps.
     * </pre>
     */
    default void parse(io.github.accelerd.v1.ParseRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ParseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getParseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Parses batches of sources. Responses come in the order of completion; a batch that fails has an error in its
     * response.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<io.github.accelerd.v1.ParseStreamRequest> parseStream(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ParseStreamResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getParseStreamMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service ParseService.
   * <pre>
   * Parses Python.
   * </pre>
   */
  public static abstract class ParseServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return ParseServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service ParseService.
   * <pre>
   * Parses Python.
   * </pre>
   */
  public static final class ParseServiceStub
      extends io.grpc.stub.AbstractAsyncStub<ParseServiceStub> {
    private ParseServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ParseServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ParseServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Parses sources. The result of a source with a syntax error has a diagnostic; the call succeeds.
     * Fails with:
     * - INVALID_ARGUMENT: no sources, an unknown feature version, output, source type or mode, source types that are
     *   neither one nor as many as the sources, or more sources or bytes than the configured limits; the message names them.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message
     *   size: request fewer outputs, or send the sources in several calls. If one source alone exceeds it with the outputs
     *   that are needed, only a larger `server.max_message_bytes` in the daemon's settings helps.
     * </pre>
     */
    public void parse(io.github.accelerd.v1.ParseRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ParseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getParseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Parses batches of sources. Responses come in the order of completion; a batch that fails has an error in its
     * response.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.github.accelerd.v1.ParseStreamRequest> parseStream(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ParseStreamResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getParseStreamMethod(), getCallOptions()), responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service ParseService.
   * <pre>
   * Parses Python.
   * </pre>
   */
  public static final class ParseServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<ParseServiceBlockingV2Stub> {
    private ParseServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ParseServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ParseServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Parses sources. The result of a source with a syntax error has a diagnostic; the call succeeds.
     * Fails with:
     * - INVALID_ARGUMENT: no sources, an unknown feature version, output, source type or mode, source types that are
     *   neither one nor as many as the sources, or more sources or bytes than the configured limits; the message names them.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message
     *   size: request fewer outputs, or send the sources in several calls. If one source alone exceeds it with the outputs
     *   that are needed, only a larger `server.max_message_bytes` in the daemon's settings helps.
     * </pre>
     */
    public io.github.accelerd.v1.ParseResponse parse(io.github.accelerd.v1.ParseRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getParseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Parses batches of sources. Responses come in the order of completion; a batch that fails has an error in its
     * response.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<io.github.accelerd.v1.ParseStreamRequest, io.github.accelerd.v1.ParseStreamResponse>
        parseStream() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getParseStreamMethod(), getCallOptions());
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service ParseService.
   * <pre>
   * Parses Python.
   * </pre>
   */
  public static final class ParseServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<ParseServiceBlockingStub> {
    private ParseServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ParseServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ParseServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Parses sources. The result of a source with a syntax error has a diagnostic; the call succeeds.
     * Fails with:
     * - INVALID_ARGUMENT: no sources, an unknown feature version, output, source type or mode, source types that are
     *   neither one nor as many as the sources, or more sources or bytes than the configured limits; the message names them.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message
     *   size: request fewer outputs, or send the sources in several calls. If one source alone exceeds it with the outputs
     *   that are needed, only a larger `server.max_message_bytes` in the daemon's settings helps.
     * </pre>
     */
    public io.github.accelerd.v1.ParseResponse parse(io.github.accelerd.v1.ParseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getParseMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service ParseService.
   * <pre>
   * Parses Python.
   * </pre>
   */
  public static final class ParseServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<ParseServiceFutureStub> {
    private ParseServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ParseServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ParseServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Parses sources. The result of a source with a syntax error has a diagnostic; the call succeeds.
     * Fails with:
     * - INVALID_ARGUMENT: no sources, an unknown feature version, output, source type or mode, source types that are
     *   neither one nor as many as the sources, or more sources or bytes than the configured limits; the message names them.
     * - RESOURCE_EXHAUSTED: the lane is full, RetryInfo says when to retry; or the response exceeds the maximum message
     *   size: request fewer outputs, or send the sources in several calls. If one source alone exceeds it with the outputs
     *   that are needed, only a larger `server.max_message_bytes` in the daemon's settings helps.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ParseResponse> parse(
        io.github.accelerd.v1.ParseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getParseMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_PARSE = 0;
  private static final int METHODID_PARSE_STREAM = 1;

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
        case METHODID_PARSE:
          serviceImpl.parse((io.github.accelerd.v1.ParseRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ParseResponse>) responseObserver);
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
        case METHODID_PARSE_STREAM:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.parseStream(
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ParseStreamResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getParseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ParseRequest,
              io.github.accelerd.v1.ParseResponse>(
                service, METHODID_PARSE)))
        .addMethod(
          getParseStreamMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              io.github.accelerd.v1.ParseStreamRequest,
              io.github.accelerd.v1.ParseStreamResponse>(
                service, METHODID_PARSE_STREAM)))
        .build();
  }

  private static abstract class ParseServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    ParseServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.accelerd.v1.Parse.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("ParseService");
    }
  }

  private static final class ParseServiceFileDescriptorSupplier
      extends ParseServiceBaseDescriptorSupplier {
    ParseServiceFileDescriptorSupplier() {}
  }

  private static final class ParseServiceMethodDescriptorSupplier
      extends ParseServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    ParseServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (ParseServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new ParseServiceFileDescriptorSupplier())
              .addMethod(getParseMethod())
              .addMethod(getParseStreamMethod())
              .build();
        }
      }
    }
    return result;
  }
}
