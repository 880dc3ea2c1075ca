package io.github.accelerd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Computes with tensors.
 * Resident tensors stay in the memory of a device between calls, under a handle. They belong to the principal that created them, and
 * never change. A tensor is freed by FreeTensors, or when it is not used for its time to live; a restart of the daemon frees all tensors.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TensorServiceGrpc {

  private TensorServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "accelerd.v1.TensorService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ExecuteRequest,
      io.github.accelerd.v1.ExecuteResponse> getExecuteMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Execute",
      requestType = io.github.accelerd.v1.ExecuteRequest.class,
      responseType = io.github.accelerd.v1.ExecuteResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ExecuteRequest,
      io.github.accelerd.v1.ExecuteResponse> getExecuteMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ExecuteRequest, io.github.accelerd.v1.ExecuteResponse> getExecuteMethod;
    if ((getExecuteMethod = TensorServiceGrpc.getExecuteMethod) == null) {
      synchronized (TensorServiceGrpc.class) {
        if ((getExecuteMethod = TensorServiceGrpc.getExecuteMethod) == null) {
          TensorServiceGrpc.getExecuteMethod = getExecuteMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ExecuteRequest, io.github.accelerd.v1.ExecuteResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Execute"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ExecuteRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ExecuteResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TensorServiceMethodDescriptorSupplier("Execute"))
              .build();
        }
      }
    }
    return getExecuteMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.UploadTensorRequest,
      io.github.accelerd.v1.UploadTensorResponse> getUploadTensorMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UploadTensor",
      requestType = io.github.accelerd.v1.UploadTensorRequest.class,
      responseType = io.github.accelerd.v1.UploadTensorResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.CLIENT_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.UploadTensorRequest,
      io.github.accelerd.v1.UploadTensorResponse> getUploadTensorMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.UploadTensorRequest, io.github.accelerd.v1.UploadTensorResponse> getUploadTensorMethod;
    if ((getUploadTensorMethod = TensorServiceGrpc.getUploadTensorMethod) == null) {
      synchronized (TensorServiceGrpc.class) {
        if ((getUploadTensorMethod = TensorServiceGrpc.getUploadTensorMethod) == null) {
          TensorServiceGrpc.getUploadTensorMethod = getUploadTensorMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.UploadTensorRequest, io.github.accelerd.v1.UploadTensorResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.CLIENT_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UploadTensor"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.UploadTensorRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.UploadTensorResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TensorServiceMethodDescriptorSupplier("UploadTensor"))
              .build();
        }
      }
    }
    return getUploadTensorMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.DownloadTensorRequest,
      io.github.accelerd.v1.DownloadTensorResponse> getDownloadTensorMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DownloadTensor",
      requestType = io.github.accelerd.v1.DownloadTensorRequest.class,
      responseType = io.github.accelerd.v1.DownloadTensorResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.DownloadTensorRequest,
      io.github.accelerd.v1.DownloadTensorResponse> getDownloadTensorMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.DownloadTensorRequest, io.github.accelerd.v1.DownloadTensorResponse> getDownloadTensorMethod;
    if ((getDownloadTensorMethod = TensorServiceGrpc.getDownloadTensorMethod) == null) {
      synchronized (TensorServiceGrpc.class) {
        if ((getDownloadTensorMethod = TensorServiceGrpc.getDownloadTensorMethod) == null) {
          TensorServiceGrpc.getDownloadTensorMethod = getDownloadTensorMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.DownloadTensorRequest, io.github.accelerd.v1.DownloadTensorResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DownloadTensor"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.DownloadTensorRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.DownloadTensorResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TensorServiceMethodDescriptorSupplier("DownloadTensor"))
              .build();
        }
      }
    }
    return getDownloadTensorMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.FreeTensorsRequest,
      io.github.accelerd.v1.FreeTensorsResponse> getFreeTensorsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "FreeTensors",
      requestType = io.github.accelerd.v1.FreeTensorsRequest.class,
      responseType = io.github.accelerd.v1.FreeTensorsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.FreeTensorsRequest,
      io.github.accelerd.v1.FreeTensorsResponse> getFreeTensorsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.FreeTensorsRequest, io.github.accelerd.v1.FreeTensorsResponse> getFreeTensorsMethod;
    if ((getFreeTensorsMethod = TensorServiceGrpc.getFreeTensorsMethod) == null) {
      synchronized (TensorServiceGrpc.class) {
        if ((getFreeTensorsMethod = TensorServiceGrpc.getFreeTensorsMethod) == null) {
          TensorServiceGrpc.getFreeTensorsMethod = getFreeTensorsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.FreeTensorsRequest, io.github.accelerd.v1.FreeTensorsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "FreeTensors"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.FreeTensorsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.FreeTensorsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TensorServiceMethodDescriptorSupplier("FreeTensors"))
              .build();
        }
      }
    }
    return getFreeTensorsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ListTensorsRequest,
      io.github.accelerd.v1.ListTensorsResponse> getListTensorsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTensors",
      requestType = io.github.accelerd.v1.ListTensorsRequest.class,
      responseType = io.github.accelerd.v1.ListTensorsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ListTensorsRequest,
      io.github.accelerd.v1.ListTensorsResponse> getListTensorsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ListTensorsRequest, io.github.accelerd.v1.ListTensorsResponse> getListTensorsMethod;
    if ((getListTensorsMethod = TensorServiceGrpc.getListTensorsMethod) == null) {
      synchronized (TensorServiceGrpc.class) {
        if ((getListTensorsMethod = TensorServiceGrpc.getListTensorsMethod) == null) {
          TensorServiceGrpc.getListTensorsMethod = getListTensorsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ListTensorsRequest, io.github.accelerd.v1.ListTensorsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTensors"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListTensorsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListTensorsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TensorServiceMethodDescriptorSupplier("ListTensors"))
              .build();
        }
      }
    }
    return getListTensorsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.CopyTensorRequest,
      io.github.accelerd.v1.CopyTensorResponse> getCopyTensorMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CopyTensor",
      requestType = io.github.accelerd.v1.CopyTensorRequest.class,
      responseType = io.github.accelerd.v1.CopyTensorResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.CopyTensorRequest,
      io.github.accelerd.v1.CopyTensorResponse> getCopyTensorMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.CopyTensorRequest, io.github.accelerd.v1.CopyTensorResponse> getCopyTensorMethod;
    if ((getCopyTensorMethod = TensorServiceGrpc.getCopyTensorMethod) == null) {
      synchronized (TensorServiceGrpc.class) {
        if ((getCopyTensorMethod = TensorServiceGrpc.getCopyTensorMethod) == null) {
          TensorServiceGrpc.getCopyTensorMethod = getCopyTensorMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.CopyTensorRequest, io.github.accelerd.v1.CopyTensorResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CopyTensor"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CopyTensorRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CopyTensorResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TensorServiceMethodDescriptorSupplier("CopyTensor"))
              .build();
        }
      }
    }
    return getCopyTensorMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.BenchmarkOpRequest,
      io.github.accelerd.v1.BenchmarkOpResponse> getBenchmarkOpMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "BenchmarkOp",
      requestType = io.github.accelerd.v1.BenchmarkOpRequest.class,
      responseType = io.github.accelerd.v1.BenchmarkOpResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.BenchmarkOpRequest,
      io.github.accelerd.v1.BenchmarkOpResponse> getBenchmarkOpMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.BenchmarkOpRequest, io.github.accelerd.v1.BenchmarkOpResponse> getBenchmarkOpMethod;
    if ((getBenchmarkOpMethod = TensorServiceGrpc.getBenchmarkOpMethod) == null) {
      synchronized (TensorServiceGrpc.class) {
        if ((getBenchmarkOpMethod = TensorServiceGrpc.getBenchmarkOpMethod) == null) {
          TensorServiceGrpc.getBenchmarkOpMethod = getBenchmarkOpMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.BenchmarkOpRequest, io.github.accelerd.v1.BenchmarkOpResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "BenchmarkOp"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.BenchmarkOpRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.BenchmarkOpResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TensorServiceMethodDescriptorSupplier("BenchmarkOp"))
              .build();
        }
      }
    }
    return getBenchmarkOpMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TensorServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TensorServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TensorServiceStub>() {
        @java.lang.Override
        public TensorServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TensorServiceStub(channel, callOptions);
        }
      };
    return TensorServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TensorServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TensorServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TensorServiceBlockingV2Stub>() {
        @java.lang.Override
        public TensorServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TensorServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TensorServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TensorServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TensorServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TensorServiceBlockingStub>() {
        @java.lang.Override
        public TensorServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TensorServiceBlockingStub(channel, callOptions);
        }
      };
    return TensorServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TensorServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TensorServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TensorServiceFutureStub>() {
        @java.lang.Override
        public TensorServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TensorServiceFutureStub(channel, callOptions);
        }
      };
    return TensorServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Computes with tensors.
   * Resident tensors stay in the memory of a device between calls, under a handle. They belong to the principal that created them, and
   * never change. A tensor is freed by FreeTensors, or when it is not used for its time to live; a restart of the daemon frees all tensors.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Runs a graph of operations, and returns or keeps the values that its outputs name. The graph runs on one device, or with
     * `data_parallel` on several; intermediate values stay there. Operations have the names, attributes and results of PyTorch, and shapes
     * broadcast as in NumPy. Resident inputs are read in place, or copied for the call from another device. A call that fails or is
     * cancelled keeps nothing.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor; an unknown operation, attribute or name; operands or attributes of the wrong number,
     *   type or shape; a cycle; more nodes than the configured limit; or outputs of shards that cannot be combined. The field violation names
     *   node and field, and says what was expected. If a shard fails, the others end, and the message names it.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - PERMISSION_DENIED: an output is to be kept, and the caller's role is below `write`.
     * - RESOURCE_EXHAUSTED: the graph needs more memory than there is, with the figures; an output to keep exceeds a quota; the response
     *   exceeds the maximum message size, with the reason MESSAGE_TOO_LARGE; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    default void execute(io.github.accelerd.v1.ExecuteRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ExecuteResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExecuteMethod(), responseObserver);
    }

    /**
     * <pre>
     * Makes a tensor resident. Its memory is reserved when the header arrives. A small tensor fits into one message with its header.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed header, an unknown device, a time to live above the maximum, or more or fewer bytes than the
     *   shape needs.
     * - RESOURCE_EXHAUSTED: a quota, a limit of memory or the number of tensors is reached, with the figures; or no next message
     *   arrived for the configured time.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<io.github.accelerd.v1.UploadTensorRequest> uploadTensor(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.UploadTensorResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getUploadTensorMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns the elements of a resident tensor, in messages of about 1 MiB.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    default void downloadTensor(io.github.accelerd.v1.DownloadTensorRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.DownloadTensorResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDownloadTensorMethod(), responseObserver);
    }

    /**
     * <pre>
     * Frees resident tensors: all of them, or none if it fails. Running calls that use them are not affected.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    default void freeTensors(io.github.accelerd.v1.FreeTensorsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.FreeTensorsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getFreeTensorsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the caller's resident tensors, oldest first.
     * </pre>
     */
    default void listTensors(io.github.accelerd.v1.ListTensorsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListTensorsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTensorsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Copies a resident tensor to a device, under a new handle.
     * Fails with:
     * - INVALID_ARGUMENT: an unknown device, or a time to live above the maximum.
     * - NOT_FOUND: as Execute.
     * - RESOURCE_EXHAUSTED: as UploadTensor.
     * </pre>
     */
    default void copyTensor(io.github.accelerd.v1.CopyTensorRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CopyTensorResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCopyTensorMethod(), responseObserver);
    }

    /**
     * <pre>
     * Measures an operation on operands that the device fills with random numbers. Only the device's work is timed: operands are in place
     * and kernels are compiled. Caches are flushed before each repetition. The call has low priority, and lets other calls run between
     * repetitions; work of other calls during a repetition is part of the measured time.
     * Fails with:
     * - INVALID_ARGUMENT: as Execute; an unknown device; more repetitions or time than the maximum.
     * - RESOURCE_EXHAUSTED: as Execute.
     * - DEADLINE_EXCEEDED: not a single repetition completed in time.
     * </pre>
     */
    default void benchmarkOp(io.github.accelerd.v1.BenchmarkOpRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.BenchmarkOpResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBenchmarkOpMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TensorService.
   * <pre>
   * Computes with tensors.
   * Resident tensors stay in the memory of a device between calls, under a handle. They belong to the principal that created them, and
   * never change. A tensor is freed by FreeTensors, or when it is not used for its time to live; a restart of the daemon frees all tensors.
   * </pre>
   */
  public static abstract class TensorServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TensorServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TensorService.
   * <pre>
   * Computes with tensors.
   * Resident tensors stay in the memory of a device between calls, under a handle. They belong to the principal that created them, and
   * never change. A tensor is freed by FreeTensors, or when it is not used for its time to live; a restart of the daemon frees all tensors.
   * </pre>
   */
  public static final class TensorServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TensorServiceStub> {
    private TensorServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TensorServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TensorServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Runs a graph of operations, and returns or keeps the values that its outputs name. The graph runs on one device, or with
     * `data_parallel` on several; intermediate values stay there. Operations have the names, attributes and results of PyTorch, and shapes
     * broadcast as in NumPy. Resident inputs are read in place, or copied for the call from another device. A call that fails or is
     * cancelled keeps nothing.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor; an unknown operation, attribute or name; operands or attributes of the wrong number,
     *   type or shape; a cycle; more nodes than the configured limit; or outputs of shards that cannot be combined. The field violation names
     *   node and field, and says what was expected. If a shard fails, the others end, and the message names it.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - PERMISSION_DENIED: an output is to be kept, and the caller's role is below `write`.
     * - RESOURCE_EXHAUSTED: the graph needs more memory than there is, with the figures; an output to keep exceeds a quota; the response
     *   exceeds the maximum message size, with the reason MESSAGE_TOO_LARGE; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public void execute(io.github.accelerd.v1.ExecuteRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ExecuteResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getExecuteMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Makes a tensor resident. Its memory is reserved when the header arrives. A small tensor fits into one message with its header.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed header, an unknown device, a time to live above the maximum, or more or fewer bytes than the
     *   shape needs.
     * - RESOURCE_EXHAUSTED: a quota, a limit of memory or the number of tensors is reached, with the figures; or no next message
     *   arrived for the configured time.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.github.accelerd.v1.UploadTensorRequest> uploadTensor(
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.UploadTensorResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncClientStreamingCall(
          getChannel().newCall(getUploadTensorMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * Returns the elements of a resident tensor, in messages of about 1 MiB.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    public void downloadTensor(io.github.accelerd.v1.DownloadTensorRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.DownloadTensorResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getDownloadTensorMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Frees resident tensors: all of them, or none if it fails. Running calls that use them are not affected.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    public void freeTensors(io.github.accelerd.v1.FreeTensorsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.FreeTensorsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getFreeTensorsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the caller's resident tensors, oldest first.
     * </pre>
     */
    public void listTensors(io.github.accelerd.v1.ListTensorsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListTensorsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTensorsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Copies a resident tensor to a device, under a new handle.
     * Fails with:
     * - INVALID_ARGUMENT: an unknown device, or a time to live above the maximum.
     * - NOT_FOUND: as Execute.
     * - RESOURCE_EXHAUSTED: as UploadTensor.
     * </pre>
     */
    public void copyTensor(io.github.accelerd.v1.CopyTensorRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CopyTensorResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCopyTensorMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Measures an operation on operands that the device fills with random numbers. Only the device's work is timed: operands are in place
     * and kernels are compiled. Caches are flushed before each repetition. The call has low priority, and lets other calls run between
     * repetitions; work of other calls during a repetition is part of the measured time.
     * Fails with:
     * - INVALID_ARGUMENT: as Execute; an unknown device; more repetitions or time than the maximum.
     * - RESOURCE_EXHAUSTED: as Execute.
     * - DEADLINE_EXCEEDED: not a single repetition completed in time.
     * </pre>
     */
    public void benchmarkOp(io.github.accelerd.v1.BenchmarkOpRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.BenchmarkOpResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBenchmarkOpMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TensorService.
   * <pre>
   * Computes with tensors.
   * Resident tensors stay in the memory of a device between calls, under a handle. They belong to the principal that created them, and
   * never change. A tensor is freed by FreeTensors, or when it is not used for its time to live; a restart of the daemon frees all tensors.
   * </pre>
   */
  public static final class TensorServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TensorServiceBlockingV2Stub> {
    private TensorServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TensorServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TensorServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Runs a graph of operations, and returns or keeps the values that its outputs name. The graph runs on one device, or with
     * `data_parallel` on several; intermediate values stay there. Operations have the names, attributes and results of PyTorch, and shapes
     * broadcast as in NumPy. Resident inputs are read in place, or copied for the call from another device. A call that fails or is
     * cancelled keeps nothing.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor; an unknown operation, attribute or name; operands or attributes of the wrong number,
     *   type or shape; a cycle; more nodes than the configured limit; or outputs of shards that cannot be combined. The field violation names
     *   node and field, and says what was expected. If a shard fails, the others end, and the message names it.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - PERMISSION_DENIED: an output is to be kept, and the caller's role is below `write`.
     * - RESOURCE_EXHAUSTED: the graph needs more memory than there is, with the figures; an output to keep exceeds a quota; the response
     *   exceeds the maximum message size, with the reason MESSAGE_TOO_LARGE; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.ExecuteResponse execute(io.github.accelerd.v1.ExecuteRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getExecuteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes a tensor resident. Its memory is reserved when the header arrives. A small tensor fits into one message with its header.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed header, an unknown device, a time to live above the maximum, or more or fewer bytes than the
     *   shape needs.
     * - RESOURCE_EXHAUSTED: a quota, a limit of memory or the number of tensors is reached, with the figures; or no next message
     *   arrived for the configured time.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<io.github.accelerd.v1.UploadTensorRequest, io.github.accelerd.v1.UploadTensorResponse>
        uploadTensor() {
      return io.grpc.stub.ClientCalls.blockingClientStreamingCall(
          getChannel(), getUploadTensorMethod(), getCallOptions());
    }

    /**
     * <pre>
     * Returns the elements of a resident tensor, in messages of about 1 MiB.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.accelerd.v1.DownloadTensorResponse>
        downloadTensor(io.github.accelerd.v1.DownloadTensorRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getDownloadTensorMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Frees resident tensors: all of them, or none if it fails. Running calls that use them are not affected.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    public io.github.accelerd.v1.FreeTensorsResponse freeTensors(io.github.accelerd.v1.FreeTensorsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getFreeTensorsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the caller's resident tensors, oldest first.
     * </pre>
     */
    public io.github.accelerd.v1.ListTensorsResponse listTensors(io.github.accelerd.v1.ListTensorsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTensorsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Copies a resident tensor to a device, under a new handle.
     * Fails with:
     * - INVALID_ARGUMENT: an unknown device, or a time to live above the maximum.
     * - NOT_FOUND: as Execute.
     * - RESOURCE_EXHAUSTED: as UploadTensor.
     * </pre>
     */
    public io.github.accelerd.v1.CopyTensorResponse copyTensor(io.github.accelerd.v1.CopyTensorRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCopyTensorMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Measures an operation on operands that the device fills with random numbers. Only the device's work is timed: operands are in place
     * and kernels are compiled. Caches are flushed before each repetition. The call has low priority, and lets other calls run between
     * repetitions; work of other calls during a repetition is part of the measured time.
     * Fails with:
     * - INVALID_ARGUMENT: as Execute; an unknown device; more repetitions or time than the maximum.
     * - RESOURCE_EXHAUSTED: as Execute.
     * - DEADLINE_EXCEEDED: not a single repetition completed in time.
     * </pre>
     */
    public io.github.accelerd.v1.BenchmarkOpResponse benchmarkOp(io.github.accelerd.v1.BenchmarkOpRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getBenchmarkOpMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TensorService.
   * <pre>
   * Computes with tensors.
   * Resident tensors stay in the memory of a device between calls, under a handle. They belong to the principal that created them, and
   * never change. A tensor is freed by FreeTensors, or when it is not used for its time to live; a restart of the daemon frees all tensors.
   * </pre>
   */
  public static final class TensorServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TensorServiceBlockingStub> {
    private TensorServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TensorServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TensorServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Runs a graph of operations, and returns or keeps the values that its outputs name. The graph runs on one device, or with
     * `data_parallel` on several; intermediate values stay there. Operations have the names, attributes and results of PyTorch, and shapes
     * broadcast as in NumPy. Resident inputs are read in place, or copied for the call from another device. A call that fails or is
     * cancelled keeps nothing.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor; an unknown operation, attribute or name; operands or attributes of the wrong number,
     *   type or shape; a cycle; more nodes than the configured limit; or outputs of shards that cannot be combined. The field violation names
     *   node and field, and says what was expected. If a shard fails, the others end, and the message names it.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - PERMISSION_DENIED: an output is to be kept, and the caller's role is below `write`.
     * - RESOURCE_EXHAUSTED: the graph needs more memory than there is, with the figures; an output to keep exceeds a quota; the response
     *   exceeds the maximum message size, with the reason MESSAGE_TOO_LARGE; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.ExecuteResponse execute(io.github.accelerd.v1.ExecuteRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getExecuteMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns the elements of a resident tensor, in messages of about 1 MiB.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    public java.util.Iterator<io.github.accelerd.v1.DownloadTensorResponse> downloadTensor(
        io.github.accelerd.v1.DownloadTensorRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getDownloadTensorMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Frees resident tensors: all of them, or none if it fails. Running calls that use them are not affected.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    public io.github.accelerd.v1.FreeTensorsResponse freeTensors(io.github.accelerd.v1.FreeTensorsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getFreeTensorsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the caller's resident tensors, oldest first.
     * </pre>
     */
    public io.github.accelerd.v1.ListTensorsResponse listTensors(io.github.accelerd.v1.ListTensorsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTensorsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Copies a resident tensor to a device, under a new handle.
     * Fails with:
     * - INVALID_ARGUMENT: an unknown device, or a time to live above the maximum.
     * - NOT_FOUND: as Execute.
     * - RESOURCE_EXHAUSTED: as UploadTensor.
     * </pre>
     */
    public io.github.accelerd.v1.CopyTensorResponse copyTensor(io.github.accelerd.v1.CopyTensorRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCopyTensorMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Measures an operation on operands that the device fills with random numbers. Only the device's work is timed: operands are in place
     * and kernels are compiled. Caches are flushed before each repetition. The call has low priority, and lets other calls run between
     * repetitions; work of other calls during a repetition is part of the measured time.
     * Fails with:
     * - INVALID_ARGUMENT: as Execute; an unknown device; more repetitions or time than the maximum.
     * - RESOURCE_EXHAUSTED: as Execute.
     * - DEADLINE_EXCEEDED: not a single repetition completed in time.
     * </pre>
     */
    public io.github.accelerd.v1.BenchmarkOpResponse benchmarkOp(io.github.accelerd.v1.BenchmarkOpRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBenchmarkOpMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TensorService.
   * <pre>
   * Computes with tensors.
   * Resident tensors stay in the memory of a device between calls, under a handle. They belong to the principal that created them, and
   * never change. A tensor is freed by FreeTensors, or when it is not used for its time to live; a restart of the daemon frees all tensors.
   * </pre>
   */
  public static final class TensorServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TensorServiceFutureStub> {
    private TensorServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TensorServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TensorServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Runs a graph of operations, and returns or keeps the values that its outputs name. The graph runs on one device, or with
     * `data_parallel` on several; intermediate values stay there. Operations have the names, attributes and results of PyTorch, and shapes
     * broadcast as in NumPy. Resident inputs are read in place, or copied for the call from another device. A call that fails or is
     * cancelled keeps nothing.
     * Fails with:
     * - INVALID_ARGUMENT: a malformed tensor; an unknown operation, attribute or name; operands or attributes of the wrong number,
     *   type or shape; a cycle; more nodes than the configured limit; or outputs of shards that cannot be combined. The field violation names
     *   node and field, and says what was expected. If a shard fails, the others end, and the message names it.
     * - NOT_FOUND: the caller has no such resident tensor. The ErrorInfo has the reason DEVICE_LOST if it was lost with its device.
     * - PERMISSION_DENIED: an output is to be kept, and the caller's role is below `write`.
     * - RESOURCE_EXHAUSTED: the graph needs more memory than there is, with the figures; an output to keep exceeds a quota; the response
     *   exceeds the maximum message size, with the reason MESSAGE_TOO_LARGE; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ExecuteResponse> execute(
        io.github.accelerd.v1.ExecuteRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getExecuteMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Frees resident tensors: all of them, or none if it fails. Running calls that use them are not affected.
     * Fails with:
     * - NOT_FOUND: as Execute.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.FreeTensorsResponse> freeTensors(
        io.github.accelerd.v1.FreeTensorsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getFreeTensorsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the caller's resident tensors, oldest first.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ListTensorsResponse> listTensors(
        io.github.accelerd.v1.ListTensorsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTensorsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Copies a resident tensor to a device, under a new handle.
     * Fails with:
     * - INVALID_ARGUMENT: an unknown device, or a time to live above the maximum.
     * - NOT_FOUND: as Execute.
     * - RESOURCE_EXHAUSTED: as UploadTensor.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.CopyTensorResponse> copyTensor(
        io.github.accelerd.v1.CopyTensorRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCopyTensorMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Measures an operation on operands that the device fills with random numbers. Only the device's work is timed: operands are in place
     * and kernels are compiled. Caches are flushed before each repetition. The call has low priority, and lets other calls run between
     * repetitions; work of other calls during a repetition is part of the measured time.
     * Fails with:
     * - INVALID_ARGUMENT: as Execute; an unknown device; more repetitions or time than the maximum.
     * - RESOURCE_EXHAUSTED: as Execute.
     * - DEADLINE_EXCEEDED: not a single repetition completed in time.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.BenchmarkOpResponse> benchmarkOp(
        io.github.accelerd.v1.BenchmarkOpRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBenchmarkOpMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_EXECUTE = 0;
  private static final int METHODID_DOWNLOAD_TENSOR = 1;
  private static final int METHODID_FREE_TENSORS = 2;
  private static final int METHODID_LIST_TENSORS = 3;
  private static final int METHODID_COPY_TENSOR = 4;
  private static final int METHODID_BENCHMARK_OP = 5;
  private static final int METHODID_UPLOAD_TENSOR = 6;

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
        case METHODID_EXECUTE:
          serviceImpl.execute((io.github.accelerd.v1.ExecuteRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ExecuteResponse>) responseObserver);
          break;
        case METHODID_DOWNLOAD_TENSOR:
          serviceImpl.downloadTensor((io.github.accelerd.v1.DownloadTensorRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.DownloadTensorResponse>) responseObserver);
          break;
        case METHODID_FREE_TENSORS:
          serviceImpl.freeTensors((io.github.accelerd.v1.FreeTensorsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.FreeTensorsResponse>) responseObserver);
          break;
        case METHODID_LIST_TENSORS:
          serviceImpl.listTensors((io.github.accelerd.v1.ListTensorsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListTensorsResponse>) responseObserver);
          break;
        case METHODID_COPY_TENSOR:
          serviceImpl.copyTensor((io.github.accelerd.v1.CopyTensorRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.CopyTensorResponse>) responseObserver);
          break;
        case METHODID_BENCHMARK_OP:
          serviceImpl.benchmarkOp((io.github.accelerd.v1.BenchmarkOpRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.BenchmarkOpResponse>) responseObserver);
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
        case METHODID_UPLOAD_TENSOR:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.uploadTensor(
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.UploadTensorResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getExecuteMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ExecuteRequest,
              io.github.accelerd.v1.ExecuteResponse>(
                service, METHODID_EXECUTE)))
        .addMethod(
          getUploadTensorMethod(),
          io.grpc.stub.ServerCalls.asyncClientStreamingCall(
            new MethodHandlers<
              io.github.accelerd.v1.UploadTensorRequest,
              io.github.accelerd.v1.UploadTensorResponse>(
                service, METHODID_UPLOAD_TENSOR)))
        .addMethod(
          getDownloadTensorMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.accelerd.v1.DownloadTensorRequest,
              io.github.accelerd.v1.DownloadTensorResponse>(
                service, METHODID_DOWNLOAD_TENSOR)))
        .addMethod(
          getFreeTensorsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.FreeTensorsRequest,
              io.github.accelerd.v1.FreeTensorsResponse>(
                service, METHODID_FREE_TENSORS)))
        .addMethod(
          getListTensorsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ListTensorsRequest,
              io.github.accelerd.v1.ListTensorsResponse>(
                service, METHODID_LIST_TENSORS)))
        .addMethod(
          getCopyTensorMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.CopyTensorRequest,
              io.github.accelerd.v1.CopyTensorResponse>(
                service, METHODID_COPY_TENSOR)))
        .addMethod(
          getBenchmarkOpMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.BenchmarkOpRequest,
              io.github.accelerd.v1.BenchmarkOpResponse>(
                service, METHODID_BENCHMARK_OP)))
        .build();
  }

  private static abstract class TensorServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TensorServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.accelerd.v1.TensorOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TensorService");
    }
  }

  private static final class TensorServiceFileDescriptorSupplier
      extends TensorServiceBaseDescriptorSupplier {
    TensorServiceFileDescriptorSupplier() {}
  }

  private static final class TensorServiceMethodDescriptorSupplier
      extends TensorServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TensorServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (TensorServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TensorServiceFileDescriptorSupplier())
              .addMethod(getExecuteMethod())
              .addMethod(getUploadTensorMethod())
              .addMethod(getDownloadTensorMethod())
              .addMethod(getFreeTensorsMethod())
              .addMethod(getListTensorsMethod())
              .addMethod(getCopyTensorMethod())
              .addMethod(getBenchmarkOpMethod())
              .build();
        }
      }
    }
    return result;
  }
}
