package io.github.accelerd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Describes the daemon's devices and load, and drains it.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class DeviceServiceGrpc {

  private DeviceServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "accelerd.v1.DeviceService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ListDevicesRequest,
      io.github.accelerd.v1.ListDevicesResponse> getListDevicesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListDevices",
      requestType = io.github.accelerd.v1.ListDevicesRequest.class,
      responseType = io.github.accelerd.v1.ListDevicesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ListDevicesRequest,
      io.github.accelerd.v1.ListDevicesResponse> getListDevicesMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ListDevicesRequest, io.github.accelerd.v1.ListDevicesResponse> getListDevicesMethod;
    if ((getListDevicesMethod = DeviceServiceGrpc.getListDevicesMethod) == null) {
      synchronized (DeviceServiceGrpc.class) {
        if ((getListDevicesMethod = DeviceServiceGrpc.getListDevicesMethod) == null) {
          DeviceServiceGrpc.getListDevicesMethod = getListDevicesMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ListDevicesRequest, io.github.accelerd.v1.ListDevicesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListDevices"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListDevicesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListDevicesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new DeviceServiceMethodDescriptorSupplier("ListDevices"))
              .build();
        }
      }
    }
    return getListDevicesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.GetStatsRequest,
      io.github.accelerd.v1.GetStatsResponse> getGetStatsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetStats",
      requestType = io.github.accelerd.v1.GetStatsRequest.class,
      responseType = io.github.accelerd.v1.GetStatsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.GetStatsRequest,
      io.github.accelerd.v1.GetStatsResponse> getGetStatsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.GetStatsRequest, io.github.accelerd.v1.GetStatsResponse> getGetStatsMethod;
    if ((getGetStatsMethod = DeviceServiceGrpc.getGetStatsMethod) == null) {
      synchronized (DeviceServiceGrpc.class) {
        if ((getGetStatsMethod = DeviceServiceGrpc.getGetStatsMethod) == null) {
          DeviceServiceGrpc.getGetStatsMethod = getGetStatsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.GetStatsRequest, io.github.accelerd.v1.GetStatsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetStats"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.GetStatsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.GetStatsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new DeviceServiceMethodDescriptorSupplier("GetStats"))
              .build();
        }
      }
    }
    return getGetStatsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.WatchRequest,
      io.github.accelerd.v1.WatchResponse> getWatchMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Watch",
      requestType = io.github.accelerd.v1.WatchRequest.class,
      responseType = io.github.accelerd.v1.WatchResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.WatchRequest,
      io.github.accelerd.v1.WatchResponse> getWatchMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.WatchRequest, io.github.accelerd.v1.WatchResponse> getWatchMethod;
    if ((getWatchMethod = DeviceServiceGrpc.getWatchMethod) == null) {
      synchronized (DeviceServiceGrpc.class) {
        if ((getWatchMethod = DeviceServiceGrpc.getWatchMethod) == null) {
          DeviceServiceGrpc.getWatchMethod = getWatchMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.WatchRequest, io.github.accelerd.v1.WatchResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Watch"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.WatchRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.WatchResponse.getDefaultInstance()))
              .setSchemaDescriptor(new DeviceServiceMethodDescriptorSupplier("Watch"))
              .build();
        }
      }
    }
    return getWatchMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ExportReportRequest,
      io.github.accelerd.v1.ExportReportResponse> getExportReportMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ExportReport",
      requestType = io.github.accelerd.v1.ExportReportRequest.class,
      responseType = io.github.accelerd.v1.ExportReportResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ExportReportRequest,
      io.github.accelerd.v1.ExportReportResponse> getExportReportMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ExportReportRequest, io.github.accelerd.v1.ExportReportResponse> getExportReportMethod;
    if ((getExportReportMethod = DeviceServiceGrpc.getExportReportMethod) == null) {
      synchronized (DeviceServiceGrpc.class) {
        if ((getExportReportMethod = DeviceServiceGrpc.getExportReportMethod) == null) {
          DeviceServiceGrpc.getExportReportMethod = getExportReportMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ExportReportRequest, io.github.accelerd.v1.ExportReportResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ExportReport"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ExportReportRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ExportReportResponse.getDefaultInstance()))
              .setSchemaDescriptor(new DeviceServiceMethodDescriptorSupplier("ExportReport"))
              .build();
        }
      }
    }
    return getExportReportMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.DrainRequest,
      io.github.accelerd.v1.DrainResponse> getDrainMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Drain",
      requestType = io.github.accelerd.v1.DrainRequest.class,
      responseType = io.github.accelerd.v1.DrainResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.DrainRequest,
      io.github.accelerd.v1.DrainResponse> getDrainMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.DrainRequest, io.github.accelerd.v1.DrainResponse> getDrainMethod;
    if ((getDrainMethod = DeviceServiceGrpc.getDrainMethod) == null) {
      synchronized (DeviceServiceGrpc.class) {
        if ((getDrainMethod = DeviceServiceGrpc.getDrainMethod) == null) {
          DeviceServiceGrpc.getDrainMethod = getDrainMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.DrainRequest, io.github.accelerd.v1.DrainResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Drain"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.DrainRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.DrainResponse.getDefaultInstance()))
              .setSchemaDescriptor(new DeviceServiceMethodDescriptorSupplier("Drain"))
              .build();
        }
      }
    }
    return getDrainMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ResumeRequest,
      io.github.accelerd.v1.ResumeResponse> getResumeMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Resume",
      requestType = io.github.accelerd.v1.ResumeRequest.class,
      responseType = io.github.accelerd.v1.ResumeResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ResumeRequest,
      io.github.accelerd.v1.ResumeResponse> getResumeMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ResumeRequest, io.github.accelerd.v1.ResumeResponse> getResumeMethod;
    if ((getResumeMethod = DeviceServiceGrpc.getResumeMethod) == null) {
      synchronized (DeviceServiceGrpc.class) {
        if ((getResumeMethod = DeviceServiceGrpc.getResumeMethod) == null) {
          DeviceServiceGrpc.getResumeMethod = getResumeMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ResumeRequest, io.github.accelerd.v1.ResumeResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Resume"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ResumeRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ResumeResponse.getDefaultInstance()))
              .setSchemaDescriptor(new DeviceServiceMethodDescriptorSupplier("Resume"))
              .build();
        }
      }
    }
    return getResumeMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static DeviceServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<DeviceServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<DeviceServiceStub>() {
        @java.lang.Override
        public DeviceServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new DeviceServiceStub(channel, callOptions);
        }
      };
    return DeviceServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static DeviceServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<DeviceServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<DeviceServiceBlockingV2Stub>() {
        @java.lang.Override
        public DeviceServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new DeviceServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return DeviceServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static DeviceServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<DeviceServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<DeviceServiceBlockingStub>() {
        @java.lang.Override
        public DeviceServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new DeviceServiceBlockingStub(channel, callOptions);
        }
      };
    return DeviceServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static DeviceServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<DeviceServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<DeviceServiceFutureStub>() {
        @java.lang.Override
        public DeviceServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new DeviceServiceFutureStub(channel, callOptions);
        }
      };
    return DeviceServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Describes the daemon's devices and load, and drains it.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Lists the devices in use, including the CPU worker pool.
     * </pre>
     */
    default void listDevices(io.github.accelerd.v1.ListDevicesRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListDevicesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListDevicesMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns counters of queues, batches, memory pools and kernels since the start.
     * </pre>
     */
    default void getStats(io.github.accelerd.v1.GetStatsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetStatsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetStatsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Streams GetStats at an interval until the client cancels the call.
     * Fails with:
     * - INVALID_ARGUMENT: the interval is below 100 ms or above 1 h.
     * </pre>
     */
    default void watch(io.github.accelerd.v1.WatchRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.WatchResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns devices, statistics and settings as one JSON document, for a bug report.
     * </pre>
     */
    default void exportReport(io.github.accelerd.v1.ExportReportRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ExportReportResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExportReportMethod(), responseObserver);
    }

    /**
     * <pre>
     * Stops accepting work and completes the requests already accepted. The daemon still answers DeviceService and health
     * checks. Readiness fails from the start of the drain; liveness fails `drain.liveness_grace` after its end, so that an
     * orchestrator replaces the process unless Resume is called first.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - INVALID_ARGUMENT: the timeout is negative or above 1 day.
     * </pre>
     */
    default void drain(io.github.accelerd.v1.DrainRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.DrainResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDrainMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ends a drain: the daemon accepts work again, and is ready and live.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - UNAVAILABLE: the daemon is exiting.
     * </pre>
     */
    default void resume(io.github.accelerd.v1.ResumeRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ResumeResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service DeviceService.
   * <pre>
   * Describes the daemon's devices and load, and drains it.
   * </pre>
   */
  public static abstract class DeviceServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return DeviceServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service DeviceService.
   * <pre>
   * Describes the daemon's devices and load, and drains it.
   * </pre>
   */
  public static final class DeviceServiceStub
      extends io.grpc.stub.AbstractAsyncStub<DeviceServiceStub> {
    private DeviceServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected DeviceServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new DeviceServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the devices in use, including the CPU worker pool.
     * </pre>
     */
    public void listDevices(io.github.accelerd.v1.ListDevicesRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListDevicesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListDevicesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns counters of queues, batches, memory pools and kernels since the start.
     * </pre>
     */
    public void getStats(io.github.accelerd.v1.GetStatsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetStatsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetStatsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Streams GetStats at an interval until the client cancels the call.
     * Fails with:
     * - INVALID_ARGUMENT: the interval is below 100 ms or above 1 h.
     * </pre>
     */
    public void watch(io.github.accelerd.v1.WatchRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.WatchResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns devices, statistics and settings as one JSON document, for a bug report.
     * </pre>
     */
    public void exportReport(io.github.accelerd.v1.ExportReportRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ExportReportResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getExportReportMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Stops accepting work and completes the requests already accepted. The daemon still answers DeviceService and health
     * checks. Readiness fails from the start of the drain; liveness fails `drain.liveness_grace` after its end, so that an
     * orchestrator replaces the process unless Resume is called first.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - INVALID_ARGUMENT: the timeout is negative or above 1 day.
     * </pre>
     */
    public void drain(io.github.accelerd.v1.DrainRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.DrainResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDrainMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Ends a drain: the daemon accepts work again, and is ready and live.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - UNAVAILABLE: the daemon is exiting.
     * </pre>
     */
    public void resume(io.github.accelerd.v1.ResumeRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ResumeResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service DeviceService.
   * <pre>
   * Describes the daemon's devices and load, and drains it.
   * </pre>
   */
  public static final class DeviceServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<DeviceServiceBlockingV2Stub> {
    private DeviceServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected DeviceServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new DeviceServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the devices in use, including the CPU worker pool.
     * </pre>
     */
    public io.github.accelerd.v1.ListDevicesResponse listDevices(io.github.accelerd.v1.ListDevicesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListDevicesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns counters of queues, batches, memory pools and kernels since the start.
     * </pre>
     */
    public io.github.accelerd.v1.GetStatsResponse getStats(io.github.accelerd.v1.GetStatsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetStatsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams GetStats at an interval until the client cancels the call.
     * Fails with:
     * - INVALID_ARGUMENT: the interval is below 100 ms or above 1 h.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.accelerd.v1.WatchResponse>
        watch(io.github.accelerd.v1.WatchRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns devices, statistics and settings as one JSON document, for a bug report.
     * </pre>
     */
    public io.github.accelerd.v1.ExportReportResponse exportReport(io.github.accelerd.v1.ExportReportRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getExportReportMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops accepting work and completes the requests already accepted. The daemon still answers DeviceService and health
     * checks. Readiness fails from the start of the drain; liveness fails `drain.liveness_grace` after its end, so that an
     * orchestrator replaces the process unless Resume is called first.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - INVALID_ARGUMENT: the timeout is negative or above 1 day.
     * </pre>
     */
    public io.github.accelerd.v1.DrainResponse drain(io.github.accelerd.v1.DrainRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDrainMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends a drain: the daemon accepts work again, and is ready and live.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - UNAVAILABLE: the daemon is exiting.
     * </pre>
     */
    public io.github.accelerd.v1.ResumeResponse resume(io.github.accelerd.v1.ResumeRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service DeviceService.
   * <pre>
   * Describes the daemon's devices and load, and drains it.
   * </pre>
   */
  public static final class DeviceServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<DeviceServiceBlockingStub> {
    private DeviceServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected DeviceServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new DeviceServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the devices in use, including the CPU worker pool.
     * </pre>
     */
    public io.github.accelerd.v1.ListDevicesResponse listDevices(io.github.accelerd.v1.ListDevicesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListDevicesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns counters of queues, batches, memory pools and kernels since the start.
     * </pre>
     */
    public io.github.accelerd.v1.GetStatsResponse getStats(io.github.accelerd.v1.GetStatsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetStatsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams GetStats at an interval until the client cancels the call.
     * Fails with:
     * - INVALID_ARGUMENT: the interval is below 100 ms or above 1 h.
     * </pre>
     */
    public java.util.Iterator<io.github.accelerd.v1.WatchResponse> watch(
        io.github.accelerd.v1.WatchRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns devices, statistics and settings as one JSON document, for a bug report.
     * </pre>
     */
    public io.github.accelerd.v1.ExportReportResponse exportReport(io.github.accelerd.v1.ExportReportRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getExportReportMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops accepting work and completes the requests already accepted. The daemon still answers DeviceService and health
     * checks. Readiness fails from the start of the drain; liveness fails `drain.liveness_grace` after its end, so that an
     * orchestrator replaces the process unless Resume is called first.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - INVALID_ARGUMENT: the timeout is negative or above 1 day.
     * </pre>
     */
    public io.github.accelerd.v1.DrainResponse drain(io.github.accelerd.v1.DrainRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDrainMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends a drain: the daemon accepts work again, and is ready and live.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - UNAVAILABLE: the daemon is exiting.
     * </pre>
     */
    public io.github.accelerd.v1.ResumeResponse resume(io.github.accelerd.v1.ResumeRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service DeviceService.
   * <pre>
   * Describes the daemon's devices and load, and drains it.
   * </pre>
   */
  public static final class DeviceServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<DeviceServiceFutureStub> {
    private DeviceServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected DeviceServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new DeviceServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the devices in use, including the CPU worker pool.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ListDevicesResponse> listDevices(
        io.github.accelerd.v1.ListDevicesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListDevicesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns counters of queues, batches, memory pools and kernels since the start.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.GetStatsResponse> getStats(
        io.github.accelerd.v1.GetStatsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetStatsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns devices, statistics and settings as one JSON document, for a bug report.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ExportReportResponse> exportReport(
        io.github.accelerd.v1.ExportReportRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getExportReportMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Stops accepting work and completes the requests already accepted. The daemon still answers DeviceService and health
     * checks. Readiness fails from the start of the drain; liveness fails `drain.liveness_grace` after its end, so that an
     * orchestrator replaces the process unless Resume is called first.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - INVALID_ARGUMENT: the timeout is negative or above 1 day.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.DrainResponse> drain(
        io.github.accelerd.v1.DrainRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDrainMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ends a drain: the daemon accepts work again, and is ready and live.
     * Fails with:
     * - PERMISSION_DENIED: the setting `drain.allow_rpc` is false, which is the default.
     * - UNAVAILABLE: the daemon is exiting.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ResumeResponse> resume(
        io.github.accelerd.v1.ResumeRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_DEVICES = 0;
  private static final int METHODID_GET_STATS = 1;
  private static final int METHODID_WATCH = 2;
  private static final int METHODID_EXPORT_REPORT = 3;
  private static final int METHODID_DRAIN = 4;
  private static final int METHODID_RESUME = 5;

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
        case METHODID_LIST_DEVICES:
          serviceImpl.listDevices((io.github.accelerd.v1.ListDevicesRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListDevicesResponse>) responseObserver);
          break;
        case METHODID_GET_STATS:
          serviceImpl.getStats((io.github.accelerd.v1.GetStatsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.GetStatsResponse>) responseObserver);
          break;
        case METHODID_WATCH:
          serviceImpl.watch((io.github.accelerd.v1.WatchRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.WatchResponse>) responseObserver);
          break;
        case METHODID_EXPORT_REPORT:
          serviceImpl.exportReport((io.github.accelerd.v1.ExportReportRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ExportReportResponse>) responseObserver);
          break;
        case METHODID_DRAIN:
          serviceImpl.drain((io.github.accelerd.v1.DrainRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.DrainResponse>) responseObserver);
          break;
        case METHODID_RESUME:
          serviceImpl.resume((io.github.accelerd.v1.ResumeRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ResumeResponse>) responseObserver);
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
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getListDevicesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ListDevicesRequest,
              io.github.accelerd.v1.ListDevicesResponse>(
                service, METHODID_LIST_DEVICES)))
        .addMethod(
          getGetStatsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.GetStatsRequest,
              io.github.accelerd.v1.GetStatsResponse>(
                service, METHODID_GET_STATS)))
        .addMethod(
          getWatchMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.accelerd.v1.WatchRequest,
              io.github.accelerd.v1.WatchResponse>(
                service, METHODID_WATCH)))
        .addMethod(
          getExportReportMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ExportReportRequest,
              io.github.accelerd.v1.ExportReportResponse>(
                service, METHODID_EXPORT_REPORT)))
        .addMethod(
          getDrainMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.DrainRequest,
              io.github.accelerd.v1.DrainResponse>(
                service, METHODID_DRAIN)))
        .addMethod(
          getResumeMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ResumeRequest,
              io.github.accelerd.v1.ResumeResponse>(
                service, METHODID_RESUME)))
        .build();
  }

  private static abstract class DeviceServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    DeviceServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.accelerd.v1.DeviceOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("DeviceService");
    }
  }

  private static final class DeviceServiceFileDescriptorSupplier
      extends DeviceServiceBaseDescriptorSupplier {
    DeviceServiceFileDescriptorSupplier() {}
  }

  private static final class DeviceServiceMethodDescriptorSupplier
      extends DeviceServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    DeviceServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (DeviceServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new DeviceServiceFileDescriptorSupplier())
              .addMethod(getListDevicesMethod())
              .addMethod(getGetStatsMethod())
              .addMethod(getWatchMethod())
              .addMethod(getExportReportMethod())
              .addMethod(getDrainMethod())
              .addMethod(getResumeMethod())
              .build();
        }
      }
    }
    return result;
  }
}
