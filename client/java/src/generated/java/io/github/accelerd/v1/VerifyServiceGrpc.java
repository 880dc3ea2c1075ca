package io.github.accelerd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Compares outputs with expected ones, and functions with functions.
 * Comparisons are exact: all elements are counted and measured, and results are equal on every device.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class VerifyServiceGrpc {

  private VerifyServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "accelerd.v1.VerifyService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.CompareOutputsRequest,
      io.github.accelerd.v1.CompareOutputsResponse> getCompareOutputsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CompareOutputs",
      requestType = io.github.accelerd.v1.CompareOutputsRequest.class,
      responseType = io.github.accelerd.v1.CompareOutputsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.CompareOutputsRequest,
      io.github.accelerd.v1.CompareOutputsResponse> getCompareOutputsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.CompareOutputsRequest, io.github.accelerd.v1.CompareOutputsResponse> getCompareOutputsMethod;
    if ((getCompareOutputsMethod = VerifyServiceGrpc.getCompareOutputsMethod) == null) {
      synchronized (VerifyServiceGrpc.class) {
        if ((getCompareOutputsMethod = VerifyServiceGrpc.getCompareOutputsMethod) == null) {
          VerifyServiceGrpc.getCompareOutputsMethod = getCompareOutputsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.CompareOutputsRequest, io.github.accelerd.v1.CompareOutputsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CompareOutputs"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CompareOutputsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CompareOutputsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new VerifyServiceMethodDescriptorSupplier("CompareOutputs"))
              .build();
        }
      }
    }
    return getCompareOutputsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.VerifyRequest,
      io.github.accelerd.v1.VerifyResponse> getVerifyMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Verify",
      requestType = io.github.accelerd.v1.VerifyRequest.class,
      responseType = io.github.accelerd.v1.VerifyResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.VerifyRequest,
      io.github.accelerd.v1.VerifyResponse> getVerifyMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.VerifyRequest, io.github.accelerd.v1.VerifyResponse> getVerifyMethod;
    if ((getVerifyMethod = VerifyServiceGrpc.getVerifyMethod) == null) {
      synchronized (VerifyServiceGrpc.class) {
        if ((getVerifyMethod = VerifyServiceGrpc.getVerifyMethod) == null) {
          VerifyServiceGrpc.getVerifyMethod = getVerifyMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.VerifyRequest, io.github.accelerd.v1.VerifyResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Verify"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.VerifyRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.VerifyResponse.getDefaultInstance()))
              .setSchemaDescriptor(new VerifyServiceMethodDescriptorSupplier("Verify"))
              .build();
        }
      }
    }
    return getVerifyMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static VerifyServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<VerifyServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<VerifyServiceStub>() {
        @java.lang.Override
        public VerifyServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new VerifyServiceStub(channel, callOptions);
        }
      };
    return VerifyServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static VerifyServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<VerifyServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<VerifyServiceBlockingV2Stub>() {
        @java.lang.Override
        public VerifyServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new VerifyServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return VerifyServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static VerifyServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<VerifyServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<VerifyServiceBlockingStub>() {
        @java.lang.Override
        public VerifyServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new VerifyServiceBlockingStub(channel, callOptions);
        }
      };
    return VerifyServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static VerifyServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<VerifyServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<VerifyServiceFutureStub>() {
        @java.lang.Override
        public VerifyServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new VerifyServiceFutureStub(channel, callOptions);
        }
      };
    return VerifyServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Compares outputs with expected ones, and functions with functions.
   * Comparisons are exact: all elements are counted and measured, and results are equal on every device.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Compares tensors with expected ones, matched by name.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor or policy; an output that is in one list only, or twice; or more outputs or
     *   mismatches than the configured limits. The field violation names the field.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - RESOURCE_EXHAUSTED: the comparison needs more memory than there is, with the figures; row verdicts or mismatches could
     *   exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    default void compareOutputs(io.github.accelerd.v1.CompareOutputsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CompareOutputsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompareOutputsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Verifies any number of cases: compares what a subject computes for them with what a reference computes, or with what the client
     * expects. Functions of the client run in child processes of the daemon.
     * The first message is the header. With a generator it is the only message, and the daemon generates the inputs. Otherwise chunks of cases
     * follow. Each chunk gets a response, in order; the last response is the summary of all chunks. The daemon keeps only the totals, so a
     * stream may be of any length. In a call with a function, the cases of a chunk are run again to shrink the first failing ones.
     * Fails with:
     * - INVALID_ARGUMENT: as CompareOutputs; no header; a chunk whose tensors have different numbers of cases, or other names or types
     *   than those of the first chunk; a tolerance relative to the maximum norm, which is known only at the end; a function that is invalid, is
     *   not exported, or whose parameters do not match the other function or the cases; or cases in a call with a generator.
     * - FAILED_PRECONDITION: the daemon runs no client code, `sandbox.processes = 0`; or `device` is a GPU, and there is none. The ErrorInfo has
     *   the reason SANDBOX_DISABLED or NO_GPU.
     * - NOT_FOUND, RESOURCE_EXHAUSTED: as CompareOutputs and KernelService.Launch.
     * - DEADLINE_EXCEEDED: the cases did not end in time.
     * - INTERNAL: the child process ended; the next call has a new one. The ErrorInfo has the reason SANDBOX_CRASHED.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<io.github.accelerd.v1.VerifyRequest> verify(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.VerifyResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getVerifyMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service VerifyService.
   * <pre>
   * Compares outputs with expected ones, and functions with functions.
   * Comparisons are exact: all elements are counted and measured, and results are equal on every device.
   * </pre>
   */
  public static abstract class VerifyServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return VerifyServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service VerifyService.
   * <pre>
   * Compares outputs with expected ones, and functions with functions.
   * Comparisons are exact: all elements are counted and measured, and results are equal on every device.
   * </pre>
   */
  public static final class VerifyServiceStub
      extends io.grpc.stub.AbstractAsyncStub<VerifyServiceStub> {
    private VerifyServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected VerifyServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new VerifyServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Compares tensors with expected ones, matched by name.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor or policy; an output that is in one list only, or twice; or more outputs or
     *   mismatches than the configured limits. The field violation names the field.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - RESOURCE_EXHAUSTED: the comparison needs more memory than there is, with the figures; row verdicts or mismatches could
     *   exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public void compareOutputs(io.github.accelerd.v1.CompareOutputsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CompareOutputsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompareOutputsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Verifies any number of cases: compares what a subject computes for them with what a reference computes, or with what the client
     * expects. Functions of the client run in child processes of the daemon.
     * The first message is the header. With a generator it is the only message, and the daemon generates the inputs. Otherwise chunks of cases
     * follow. Each chunk gets a response, in order; the last response is the summary of all chunks. The daemon keeps only the totals, so a
     * stream may be of any length. In a call with a function, the cases of a chunk are run again to shrink the first failing ones.
     * Fails with:
     * - INVALID_ARGUMENT: as CompareOutputs; no header; a chunk whose tensors have different numbers of cases, or other names or types
     *   than those of the first chunk; a tolerance relative to the maximum norm, which is known only at the end; a function that is invalid, is
     *   not exported, or whose parameters do not match the other function or the cases; or cases in a call with a generator.
     * - FAILED_PRECONDITION: the daemon runs no client code, `sandbox.processes = 0`; or `device` is a GPU, and there is none. The ErrorInfo has
     *   the reason SANDBOX_DISABLED or NO_GPU.
     * - NOT_FOUND, RESOURCE_EXHAUSTED: as CompareOutputs and KernelService.Launch.
     * - DEADLINE_EXCEEDED: the cases did not end in time.
     * - INTERNAL: the child process ended; the next call has a new one. The ErrorInfo has the reason SANDBOX_CRASHED.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.github.accelerd.v1.VerifyRequest> verify(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.VerifyResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getVerifyMethod(), getCallOptions()), responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service VerifyService.
   * <pre>
   * Compares outputs with expected ones, and functions with functions.
   * Comparisons are exact: all elements are counted and measured, and results are equal on every device.
   * </pre>
   */
  public static final class VerifyServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<VerifyServiceBlockingV2Stub> {
    private VerifyServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected VerifyServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new VerifyServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Compares tensors with expected ones, matched by name.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor or policy; an output that is in one list only, or twice; or more outputs or
     *   mismatches than the configured limits. The field violation names the field.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - RESOURCE_EXHAUSTED: the comparison needs more memory than there is, with the figures; row verdicts or mismatches could
     *   exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.CompareOutputsResponse compareOutputs(io.github.accelerd.v1.CompareOutputsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompareOutputsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Verifies any number of cases: compares what a subject computes for them with what a reference computes, or with what the client
     * expects. Functions of the client run in child processes of the daemon.
     * The first message is the header. With a generator it is the only message, and the daemon generates the inputs. Otherwise chunks of cases
     * follow. Each chunk gets a response, in order; the last response is the summary of all chunks. The daemon keeps only the totals, so a
     * stream may be of any length. In a call with a function, the cases of a chunk are run again to shrink the first failing ones.
     * Fails with:
     * - INVALID_ARGUMENT: as CompareOutputs; no header; a chunk whose tensors have different numbers of cases, or other names or types
     *   than those of the first chunk; a tolerance relative to the maximum norm, which is known only at the end; a function that is invalid, is
     *   not exported, or whose parameters do not match the other function or the cases; or cases in a call with a generator.
     * - FAILED_PRECONDITION: the daemon runs no client code, `sandbox.processes = 0`; or `device` is a GPU, and there is none. The ErrorInfo has
     *   the reason SANDBOX_DISABLED or NO_GPU.
     * - NOT_FOUND, RESOURCE_EXHAUSTED: as CompareOutputs and KernelService.Launch.
     * - DEADLINE_EXCEEDED: the cases did not end in time.
     * - INTERNAL: the child process ended; the next call has a new one. The ErrorInfo has the reason SANDBOX_CRASHED.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<io.github.accelerd.v1.VerifyRequest, io.github.accelerd.v1.VerifyResponse>
        verify() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getVerifyMethod(), getCallOptions());
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service VerifyService.
   * <pre>
   * Compares outputs with expected ones, and functions with functions.
   * Comparisons are exact: all elements are counted and measured, and results are equal on every device.
   * </pre>
   */
  public static final class VerifyServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<VerifyServiceBlockingStub> {
    private VerifyServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected VerifyServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new VerifyServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Compares tensors with expected ones, matched by name.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor or policy; an output that is in one list only, or twice; or more outputs or
     *   mismatches than the configured limits. The field violation names the field.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - RESOURCE_EXHAUSTED: the comparison needs more memory than there is, with the figures; row verdicts or mismatches could
     *   exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.CompareOutputsResponse compareOutputs(io.github.accelerd.v1.CompareOutputsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompareOutputsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service VerifyService.
   * <pre>
   * Compares outputs with expected ones, and functions with functions.
   * Comparisons are exact: all elements are counted and measured, and results are equal on every device.
   * </pre>
   */
  public static final class VerifyServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<VerifyServiceFutureStub> {
    private VerifyServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected VerifyServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new VerifyServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Compares tensors with expected ones, matched by name.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor or policy; an output that is in one list only, or twice; or more outputs or
     *   mismatches than the configured limits. The field violation names the field.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - RESOURCE_EXHAUSTED: the comparison needs more memory than there is, with the figures; row verdicts or mismatches could
     *   exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.CompareOutputsResponse> compareOutputs(
        io.github.accelerd.v1.CompareOutputsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompareOutputsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_COMPARE_OUTPUTS = 0;
  private static final int METHODID_VERIFY = 1;

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
        case METHODID_COMPARE_OUTPUTS:
          serviceImpl.compareOutputs((io.github.accelerd.v1.CompareOutputsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.CompareOutputsResponse>) responseObserver);
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
        case METHODID_VERIFY:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.verify(
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.VerifyResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getCompareOutputsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.CompareOutputsRequest,
              io.github.accelerd.v1.CompareOutputsResponse>(
                service, METHODID_COMPARE_OUTPUTS)))
        .addMethod(
          getVerifyMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              io.github.accelerd.v1.VerifyRequest,
              io.github.accelerd.v1.VerifyResponse>(
                service, METHODID_VERIFY)))
        .build();
  }

  private static abstract class VerifyServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    VerifyServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.accelerd.v1.Verify.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("VerifyService");
    }
  }

  private static final class VerifyServiceFileDescriptorSupplier
      extends VerifyServiceBaseDescriptorSupplier {
    VerifyServiceFileDescriptorSupplier() {}
  }

  private static final class VerifyServiceMethodDescriptorSupplier
      extends VerifyServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    VerifyServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (VerifyServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new VerifyServiceFileDescriptorSupplier())
              .addMethod(getCompareOutputsMethod())
              .addMethod(getVerifyMethod())
              .build();
        }
      }
    }
    return result;
  }
}
