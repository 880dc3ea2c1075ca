package io.github.accelerd.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Translates and runs numeric programs.
 * A program is a Python module with kernels in the style of NVIDIA Warp, or with annotated functions, which are mapped over rows.
 * docs/kernels.md describes the language. Other constructs are reported with their position and never mistranslated.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class KernelServiceGrpc {

  private KernelServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "accelerd.v1.KernelService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.TranslateRequest,
      io.github.accelerd.v1.TranslateResponse> getTranslateMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Translate",
      requestType = io.github.accelerd.v1.TranslateRequest.class,
      responseType = io.github.accelerd.v1.TranslateResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.TranslateRequest,
      io.github.accelerd.v1.TranslateResponse> getTranslateMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.TranslateRequest, io.github.accelerd.v1.TranslateResponse> getTranslateMethod;
    if ((getTranslateMethod = KernelServiceGrpc.getTranslateMethod) == null) {
      synchronized (KernelServiceGrpc.class) {
        if ((getTranslateMethod = KernelServiceGrpc.getTranslateMethod) == null) {
          KernelServiceGrpc.getTranslateMethod = getTranslateMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.TranslateRequest, io.github.accelerd.v1.TranslateResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Translate"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.TranslateRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.TranslateResponse.getDefaultInstance()))
              .setSchemaDescriptor(new KernelServiceMethodDescriptorSupplier("Translate"))
              .build();
        }
      }
    }
    return getTranslateMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.CompileRequest,
      io.github.accelerd.v1.CompileResponse> getCompileMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Compile",
      requestType = io.github.accelerd.v1.CompileRequest.class,
      responseType = io.github.accelerd.v1.CompileResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.CompileRequest,
      io.github.accelerd.v1.CompileResponse> getCompileMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.CompileRequest, io.github.accelerd.v1.CompileResponse> getCompileMethod;
    if ((getCompileMethod = KernelServiceGrpc.getCompileMethod) == null) {
      synchronized (KernelServiceGrpc.class) {
        if ((getCompileMethod = KernelServiceGrpc.getCompileMethod) == null) {
          KernelServiceGrpc.getCompileMethod = getCompileMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.CompileRequest, io.github.accelerd.v1.CompileResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Compile"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CompileRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.CompileResponse.getDefaultInstance()))
              .setSchemaDescriptor(new KernelServiceMethodDescriptorSupplier("Compile"))
              .build();
        }
      }
    }
    return getCompileMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.LaunchRequest,
      io.github.accelerd.v1.LaunchResponse> getLaunchMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Launch",
      requestType = io.github.accelerd.v1.LaunchRequest.class,
      responseType = io.github.accelerd.v1.LaunchResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.LaunchRequest,
      io.github.accelerd.v1.LaunchResponse> getLaunchMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.LaunchRequest, io.github.accelerd.v1.LaunchResponse> getLaunchMethod;
    if ((getLaunchMethod = KernelServiceGrpc.getLaunchMethod) == null) {
      synchronized (KernelServiceGrpc.class) {
        if ((getLaunchMethod = KernelServiceGrpc.getLaunchMethod) == null) {
          KernelServiceGrpc.getLaunchMethod = getLaunchMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.LaunchRequest, io.github.accelerd.v1.LaunchResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Launch"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.LaunchRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.LaunchResponse.getDefaultInstance()))
              .setSchemaDescriptor(new KernelServiceMethodDescriptorSupplier("Launch"))
              .build();
        }
      }
    }
    return getLaunchMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.BenchmarkRequest,
      io.github.accelerd.v1.BenchmarkResponse> getBenchmarkMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Benchmark",
      requestType = io.github.accelerd.v1.BenchmarkRequest.class,
      responseType = io.github.accelerd.v1.BenchmarkResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.BenchmarkRequest,
      io.github.accelerd.v1.BenchmarkResponse> getBenchmarkMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.BenchmarkRequest, io.github.accelerd.v1.BenchmarkResponse> getBenchmarkMethod;
    if ((getBenchmarkMethod = KernelServiceGrpc.getBenchmarkMethod) == null) {
      synchronized (KernelServiceGrpc.class) {
        if ((getBenchmarkMethod = KernelServiceGrpc.getBenchmarkMethod) == null) {
          KernelServiceGrpc.getBenchmarkMethod = getBenchmarkMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.BenchmarkRequest, io.github.accelerd.v1.BenchmarkResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Benchmark"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.BenchmarkRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.BenchmarkResponse.getDefaultInstance()))
              .setSchemaDescriptor(new KernelServiceMethodDescriptorSupplier("Benchmark"))
              .build();
        }
      }
    }
    return getBenchmarkMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.EvaluateRequest,
      io.github.accelerd.v1.EvaluateResponse> getEvaluateMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Evaluate",
      requestType = io.github.accelerd.v1.EvaluateRequest.class,
      responseType = io.github.accelerd.v1.EvaluateResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.EvaluateRequest,
      io.github.accelerd.v1.EvaluateResponse> getEvaluateMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.EvaluateRequest, io.github.accelerd.v1.EvaluateResponse> getEvaluateMethod;
    if ((getEvaluateMethod = KernelServiceGrpc.getEvaluateMethod) == null) {
      synchronized (KernelServiceGrpc.class) {
        if ((getEvaluateMethod = KernelServiceGrpc.getEvaluateMethod) == null) {
          KernelServiceGrpc.getEvaluateMethod = getEvaluateMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.EvaluateRequest, io.github.accelerd.v1.EvaluateResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Evaluate"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.EvaluateRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.EvaluateResponse.getDefaultInstance()))
              .setSchemaDescriptor(new KernelServiceMethodDescriptorSupplier("Evaluate"))
              .build();
        }
      }
    }
    return getEvaluateMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.GenerateDatasetRequest,
      io.github.accelerd.v1.GenerateDatasetResponse> getGenerateDatasetMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GenerateDataset",
      requestType = io.github.accelerd.v1.GenerateDatasetRequest.class,
      responseType = io.github.accelerd.v1.GenerateDatasetResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.GenerateDatasetRequest,
      io.github.accelerd.v1.GenerateDatasetResponse> getGenerateDatasetMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.GenerateDatasetRequest, io.github.accelerd.v1.GenerateDatasetResponse> getGenerateDatasetMethod;
    if ((getGenerateDatasetMethod = KernelServiceGrpc.getGenerateDatasetMethod) == null) {
      synchronized (KernelServiceGrpc.class) {
        if ((getGenerateDatasetMethod = KernelServiceGrpc.getGenerateDatasetMethod) == null) {
          KernelServiceGrpc.getGenerateDatasetMethod = getGenerateDatasetMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.GenerateDatasetRequest, io.github.accelerd.v1.GenerateDatasetResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GenerateDataset"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.GenerateDatasetRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.GenerateDatasetResponse.getDefaultInstance()))
              .setSchemaDescriptor(new KernelServiceMethodDescriptorSupplier("GenerateDataset"))
              .build();
        }
      }
    }
    return getGenerateDatasetMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.ListKernelsRequest,
      io.github.accelerd.v1.ListKernelsResponse> getListKernelsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListKernels",
      requestType = io.github.accelerd.v1.ListKernelsRequest.class,
      responseType = io.github.accelerd.v1.ListKernelsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.ListKernelsRequest,
      io.github.accelerd.v1.ListKernelsResponse> getListKernelsMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.ListKernelsRequest, io.github.accelerd.v1.ListKernelsResponse> getListKernelsMethod;
    if ((getListKernelsMethod = KernelServiceGrpc.getListKernelsMethod) == null) {
      synchronized (KernelServiceGrpc.class) {
        if ((getListKernelsMethod = KernelServiceGrpc.getListKernelsMethod) == null) {
          KernelServiceGrpc.getListKernelsMethod = getListKernelsMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.ListKernelsRequest, io.github.accelerd.v1.ListKernelsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListKernels"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListKernelsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.ListKernelsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new KernelServiceMethodDescriptorSupplier("ListKernels"))
              .build();
        }
      }
    }
    return getListKernelsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.accelerd.v1.EvictKernelRequest,
      io.github.accelerd.v1.EvictKernelResponse> getEvictKernelMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "EvictKernel",
      requestType = io.github.accelerd.v1.EvictKernelRequest.class,
      responseType = io.github.accelerd.v1.EvictKernelResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.accelerd.v1.EvictKernelRequest,
      io.github.accelerd.v1.EvictKernelResponse> getEvictKernelMethod() {
    io.grpc.MethodDescriptor<io.github.accelerd.v1.EvictKernelRequest, io.github.accelerd.v1.EvictKernelResponse> getEvictKernelMethod;
    if ((getEvictKernelMethod = KernelServiceGrpc.getEvictKernelMethod) == null) {
      synchronized (KernelServiceGrpc.class) {
        if ((getEvictKernelMethod = KernelServiceGrpc.getEvictKernelMethod) == null) {
          KernelServiceGrpc.getEvictKernelMethod = getEvictKernelMethod =
              io.grpc.MethodDescriptor.<io.github.accelerd.v1.EvictKernelRequest, io.github.accelerd.v1.EvictKernelResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "EvictKernel"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.EvictKernelRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.accelerd.v1.EvictKernelResponse.getDefaultInstance()))
              .setSchemaDescriptor(new KernelServiceMethodDescriptorSupplier("EvictKernel"))
              .build();
        }
      }
    }
    return getEvictKernelMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static KernelServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<KernelServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<KernelServiceStub>() {
        @java.lang.Override
        public KernelServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new KernelServiceStub(channel, callOptions);
        }
      };
    return KernelServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static KernelServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<KernelServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<KernelServiceBlockingV2Stub>() {
        @java.lang.Override
        public KernelServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new KernelServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return KernelServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static KernelServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<KernelServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<KernelServiceBlockingStub>() {
        @java.lang.Override
        public KernelServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new KernelServiceBlockingStub(channel, callOptions);
        }
      };
    return KernelServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static KernelServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<KernelServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<KernelServiceFutureStub>() {
        @java.lang.Override
        public KernelServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new KernelServiceFutureStub(channel, callOptions);
        }
      };
    return KernelServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Translates and runs numeric programs.
   * A program is a Python module with kernels in the style of NVIDIA Warp, or with annotated functions, which are mapped over rows.
   * docs/kernels.md describes the language. Other constructs are reported with their position and never mistranslated.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Translates the kernels of a module.
     * Each kernel is translated separately: a kernel outside the language has diagnostics instead of files, and does not fail the call.
     * Fails with:
     * - INVALID_ARGUMENT: no source, or a larger one than the configured limit; an unknown dialect, target or architecture; a constant
     *   without a value; or a name that no kernel of the module has. The field violation names the field.
     * - FAILED_PRECONDITION: KERNEL_TARGET_PTX without a CUDA compiler, as Compile.
     * - RESOURCE_EXHAUSTED: the files exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    default void translate(io.github.accelerd.v1.TranslateRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.TranslateResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getTranslateMethod(), responseObserver);
    }

    /**
     * <pre>
     * Compiles a kernel to WebAssembly, and keeps it. Equal programs have one id, and are compiled once.
     * Fails with:
     * - INVALID_ARGUMENT: as Translate; no kernel of the name, or several kernels and no name; a kernel outside the language, with its
     *   diagnostics; an unknown architecture; or a kernel for which the CUDA compiler takes longer than `sandbox.load_timeout`, or more
     *   memory than its process has. The field violation names the field.
     * - FAILED_PRECONDITION, for `cuda`: the daemon runs no client code, with the reason SANDBOX_DISABLED in the ErrorInfo; or it finds no
     *   CUDA compiler, with the reason NO_CUDA_COMPILER.
     * - RESOURCE_EXHAUSTED: the lane is full, or the process of the compiler is busy until the deadline. RetryInfo says when to retry.
     * </pre>
     */
    default void compile(io.github.accelerd.v1.CompileRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CompileResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompileMethod(), responseObserver);
    }

    /**
     * <pre>
     * Runs a kernel, once for each thread of a grid, in a child process of the daemon. On the CPU, threads run as if one after the other.
     * A kernel that does what its dialect forbids, such as an access outside of an array, ends with a fault, which is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Compile; a missing or unknown argument, or one of another type or number of dimensions; a grid of another number
     *   of dimensions; an output that is no array; or a view that is not within an array, or of a function in Python. The field violation
     *   names the field.
     * - NOT_FOUND: there is no kernel of the id, or the caller has no such resident tensor.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code (`sandbox.processes = 0`);
     *   NO_GPU, the launch requests a GPU and none runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - RESOURCE_EXHAUSTED: the arguments need more memory than `sandbox.case_memory`, or on a GPU `sandbox.gpu_memory`; the process exceeds
     *   `sandbox.memory`; outputs exceed the maximum message size; or all processes are busy until the deadline, and RetryInfo says when to
     *   retry.
     * - DEADLINE_EXCEEDED: the kernel did not end in time.
     * - INTERNAL: the child process ended; the next call has a new one. The ErrorInfo has the reason SANDBOX_CRASHED.
     * </pre>
     */
    default void launch(io.github.accelerd.v1.LaunchRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.LaunchResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getLaunchMethod(), responseObserver);
    }

    /**
     * <pre>
     * Measures a kernel: launches it many times, each time with other elements in its arrays, and compares the results of the first and the
     * last timed run with those of a reference on the same arguments. docs/kernels.md describes what is measured.
     * A wrong result, a fault or an implausibly short time is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Launch, with fields of `launch`; no run or too many; a fixed argument that is not an array of the call; a negative
     *   tolerance; or a reference with other arrays than the kernel. The field violation names the field.
     * - NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    default void benchmark(io.github.accelerd.v1.BenchmarkRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.BenchmarkResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getBenchmarkMethod(), responseObserver);
    }

    /**
     * <pre>
     * Judges an untrusted kernel in CUDA C++: compiles it, launches it many times on a GPU, each time on rewritten memory, and compares its
     * results with the expected ones. docs/evaluation.md describes the checks. Requires the setting `sandbox.cuda_source`.
     * Failures of the kernel are part of the response: a source that does not compile, a fault, a launch that does not end, a wrong result, a
     * write outside of its arrays, or an implausibly short time.
     * Fails with:
     * - INVALID_ARGUMENT: the source is too long; the entry is no identifier; a parameter, an argument, the launch configuration, a count or a
     *   tolerance is invalid; or the reference does not fit the parameters. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: CUDA_SOURCE_DISABLED, the daemon runs no CUDA C++ of clients; SANDBOX_DISABLED,
     *   it runs no client code; NO_GPU, no GPU runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - NOT_FOUND, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    default void evaluate(io.github.accelerd.v1.EvaluateRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.EvaluateResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getEvaluateMethod(), responseObserver);
    }

    /**
     * <pre>
     * Generates random kernels in Python with their translations, for data sets. docs/datasets.md describes them.
     * Each kernel is translated, and run on an example: by the interpreter, as WebAssembly in a child process, and on a GPU if there is one.
     * Each pair states how far the results agree. Of kernels that differ only in their names, a call returns the first. Equal requests return
     * equal pairs, except for times. To continue after a call that ended early, pass the index of the last pair plus 1 as `first_index`.
     * Fails with:
     * - INVALID_ARGUMENT: no pair or too many; a category, dialect, target or device that is unknown or named twice; a category that no dialect
     *   has; or more than 100 percent. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code; NO_GPU, the call requests a
     *   GPU and none runs kernels; or NO_CUDA_COMPILER, the call requests PTX and there is no CUDA compiler.
     * - OUT_OF_RANGE: the last 1,000 kernels of the sequence were equal to earlier ones, or had no example.
     * - RESOURCE_EXHAUSTED: the lane is full, or all processes are busy. RetryInfo says when to retry.
     * - DEADLINE_EXCEEDED: not all pairs were generated in time.
     * </pre>
     */
    default void generateDataset(io.github.accelerd.v1.GenerateDatasetRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.GenerateDatasetResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGenerateDatasetMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the kernels that are kept, the most recently used first.
     * </pre>
     */
    default void listKernels(io.github.accelerd.v1.ListKernelsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListKernelsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListKernelsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Drops a kernel that is kept.
     * Fails with:
     * - NOT_FOUND: there is no kernel of the id.
     * - PERMISSION_DENIED: another caller compiled it first, and the caller's role is not admin.
     * </pre>
     */
    default void evictKernel(io.github.accelerd.v1.EvictKernelRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.EvictKernelResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getEvictKernelMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service KernelService.
   * <pre>
   * Translates and runs numeric programs.
   * A program is a Python module with kernels in the style of NVIDIA Warp, or with annotated functions, which are mapped over rows.
   * docs/kernels.md describes the language. Other constructs are reported with their position and never mistranslated.
   * </pre>
   */
  public static abstract class KernelServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return KernelServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service KernelService.
   * <pre>
   * Translates and runs numeric programs.
   * A program is a Python module with kernels in the style of NVIDIA Warp, or with annotated functions, which are mapped over rows.
   * docs/kernels.md describes the language. Other constructs are reported with their position and never mistranslated.
   * </pre>
   */
  public static final class KernelServiceStub
      extends io.grpc.stub.AbstractAsyncStub<KernelServiceStub> {
    private KernelServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected KernelServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new KernelServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Translates the kernels of a module.
     * Each kernel is translated separately: a kernel outside the language has diagnostics instead of files, and does not fail the call.
     * Fails with:
     * - INVALID_ARGUMENT: no source, or a larger one than the configured limit; an unknown dialect, target or architecture; a constant
     *   without a value; or a name that no kernel of the module has. The field violation names the field.
     * - FAILED_PRECONDITION: KERNEL_TARGET_PTX without a CUDA compiler, as Compile.
     * - RESOURCE_EXHAUSTED: the files exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public void translate(io.github.accelerd.v1.TranslateRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.TranslateResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getTranslateMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Compiles a kernel to WebAssembly, and keeps it. Equal programs have one id, and are compiled once.
     * Fails with:
     * - INVALID_ARGUMENT: as Translate; no kernel of the name, or several kernels and no name; a kernel outside the language, with its
     *   diagnostics; an unknown architecture; or a kernel for which the CUDA compiler takes longer than `sandbox.load_timeout`, or more
     *   memory than its process has. The field violation names the field.
     * - FAILED_PRECONDITION, for `cuda`: the daemon runs no client code, with the reason SANDBOX_DISABLED in the ErrorInfo; or it finds no
     *   CUDA compiler, with the reason NO_CUDA_COMPILER.
     * - RESOURCE_EXHAUSTED: the lane is full, or the process of the compiler is busy until the deadline. RetryInfo says when to retry.
     * </pre>
     */
    public void compile(io.github.accelerd.v1.CompileRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.CompileResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompileMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Runs a kernel, once for each thread of a grid, in a child process of the daemon. On the CPU, threads run as if one after the other.
     * A kernel that does what its dialect forbids, such as an access outside of an array, ends with a fault, which is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Compile; a missing or unknown argument, or one of another type or number of dimensions; a grid of another number
     *   of dimensions; an output that is no array; or a view that is not within an array, or of a function in Python. The field violation
     *   names the field.
     * - NOT_FOUND: there is no kernel of the id, or the caller has no such resident tensor.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code (`sandbox.processes = 0`);
     *   NO_GPU, the launch requests a GPU and none runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - RESOURCE_EXHAUSTED: the arguments need more memory than `sandbox.case_memory`, or on a GPU `sandbox.gpu_memory`; the process exceeds
     *   `sandbox.memory`; outputs exceed the maximum message size; or all processes are busy until the deadline, and RetryInfo says when to
     *   retry.
     * - DEADLINE_EXCEEDED: the kernel did not end in time.
     * - INTERNAL: the child process ended; the next call has a new one. The ErrorInfo has the reason SANDBOX_CRASHED.
     * </pre>
     */
    public void launch(io.github.accelerd.v1.LaunchRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.LaunchResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getLaunchMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Measures a kernel: launches it many times, each time with other elements in its arrays, and compares the results of the first and the
     * last timed run with those of a reference on the same arguments. docs/kernels.md describes what is measured.
     * A wrong result, a fault or an implausibly short time is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Launch, with fields of `launch`; no run or too many; a fixed argument that is not an array of the call; a negative
     *   tolerance; or a reference with other arrays than the kernel. The field violation names the field.
     * - NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    public void benchmark(io.github.accelerd.v1.BenchmarkRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.BenchmarkResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getBenchmarkMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Judges an untrusted kernel in CUDA C++: compiles it, launches it many times on a GPU, each time on rewritten memory, and compares its
     * results with the expected ones. docs/evaluation.md describes the checks. Requires the setting `sandbox.cuda_source`.
     * Failures of the kernel are part of the response: a source that does not compile, a fault, a launch that does not end, a wrong result, a
     * write outside of its arrays, or an implausibly short time.
     * Fails with:
     * - INVALID_ARGUMENT: the source is too long; the entry is no identifier; a parameter, an argument, the launch configuration, a count or a
     *   tolerance is invalid; or the reference does not fit the parameters. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: CUDA_SOURCE_DISABLED, the daemon runs no CUDA C++ of clients; SANDBOX_DISABLED,
     *   it runs no client code; NO_GPU, no GPU runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - NOT_FOUND, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    public void evaluate(io.github.accelerd.v1.EvaluateRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.EvaluateResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getEvaluateMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Generates random kernels in Python with their translations, for data sets. docs/datasets.md describes them.
     * Each kernel is translated, and run on an example: by the interpreter, as WebAssembly in a child process, and on a GPU if there is one.
     * Each pair states how far the results agree. Of kernels that differ only in their names, a call returns the first. Equal requests return
     * equal pairs, except for times. To continue after a call that ended early, pass the index of the last pair plus 1 as `first_index`.
     * Fails with:
     * - INVALID_ARGUMENT: no pair or too many; a category, dialect, target or device that is unknown or named twice; a category that no dialect
     *   has; or more than 100 percent. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code; NO_GPU, the call requests a
     *   GPU and none runs kernels; or NO_CUDA_COMPILER, the call requests PTX and there is no CUDA compiler.
     * - OUT_OF_RANGE: the last 1,000 kernels of the sequence were equal to earlier ones, or had no example.
     * - RESOURCE_EXHAUSTED: the lane is full, or all processes are busy. RetryInfo says when to retry.
     * - DEADLINE_EXCEEDED: not all pairs were generated in time.
     * </pre>
     */
    public void generateDataset(io.github.accelerd.v1.GenerateDatasetRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.GenerateDatasetResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getGenerateDatasetMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the kernels that are kept, the most recently used first.
     * </pre>
     */
    public void listKernels(io.github.accelerd.v1.ListKernelsRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListKernelsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListKernelsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Drops a kernel that is kept.
     * Fails with:
     * - NOT_FOUND: there is no kernel of the id.
     * - PERMISSION_DENIED: another caller compiled it first, and the caller's role is not admin.
     * </pre>
     */
    public void evictKernel(io.github.accelerd.v1.EvictKernelRequest request,
        io.grpc.stub.StreamObserver<io.github.accelerd.v1.EvictKernelResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getEvictKernelMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service KernelService.
   * <pre>
   * Translates and runs numeric programs.
   * A program is a Python module with kernels in the style of NVIDIA Warp, or with annotated functions, which are mapped over rows.
   * docs/kernels.md describes the language. Other constructs are reported with their position and never mistranslated.
   * </pre>
   */
  public static final class KernelServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<KernelServiceBlockingV2Stub> {
    private KernelServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected KernelServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new KernelServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Translates the kernels of a module.
     * Each kernel is translated separately: a kernel outside the language has diagnostics instead of files, and does not fail the call.
     * Fails with:
     * - INVALID_ARGUMENT: no source, or a larger one than the configured limit; an unknown dialect, target or architecture; a constant
     *   without a value; or a name that no kernel of the module has. The field violation names the field.
     * - FAILED_PRECONDITION: KERNEL_TARGET_PTX without a CUDA compiler, as Compile.
     * - RESOURCE_EXHAUSTED: the files exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.TranslateResponse translate(io.github.accelerd.v1.TranslateRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getTranslateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Compiles a kernel to WebAssembly, and keeps it. Equal programs have one id, and are compiled once.
     * Fails with:
     * - INVALID_ARGUMENT: as Translate; no kernel of the name, or several kernels and no name; a kernel outside the language, with its
     *   diagnostics; an unknown architecture; or a kernel for which the CUDA compiler takes longer than `sandbox.load_timeout`, or more
     *   memory than its process has. The field violation names the field.
     * - FAILED_PRECONDITION, for `cuda`: the daemon runs no client code, with the reason SANDBOX_DISABLED in the ErrorInfo; or it finds no
     *   CUDA compiler, with the reason NO_CUDA_COMPILER.
     * - RESOURCE_EXHAUSTED: the lane is full, or the process of the compiler is busy until the deadline. RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.CompileResponse compile(io.github.accelerd.v1.CompileRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompileMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Runs a kernel, once for each thread of a grid, in a child process of the daemon. On the CPU, threads run as if one after the other.
     * A kernel that does what its dialect forbids, such as an access outside of an array, ends with a fault, which is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Compile; a missing or unknown argument, or one of another type or number of dimensions; a grid of another number
     *   of dimensions; an output that is no array; or a view that is not within an array, or of a function in Python. The field violation
     *   names the field.
     * - NOT_FOUND: there is no kernel of the id, or the caller has no such resident tensor.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code (`sandbox.processes = 0`);
     *   NO_GPU, the launch requests a GPU and none runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - RESOURCE_EXHAUSTED: the arguments need more memory than `sandbox.case_memory`, or on a GPU `sandbox.gpu_memory`; the process exceeds
     *   `sandbox.memory`; outputs exceed the maximum message size; or all processes are busy until the deadline, and RetryInfo says when to
     *   retry.
     * - DEADLINE_EXCEEDED: the kernel did not end in time.
     * - INTERNAL: the child process ended; the next call has a new one. The ErrorInfo has the reason SANDBOX_CRASHED.
     * </pre>
     */
    public io.github.accelerd.v1.LaunchResponse launch(io.github.accelerd.v1.LaunchRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getLaunchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Measures a kernel: launches it many times, each time with other elements in its arrays, and compares the results of the first and the
     * last timed run with those of a reference on the same arguments. docs/kernels.md describes what is measured.
     * A wrong result, a fault or an implausibly short time is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Launch, with fields of `launch`; no run or too many; a fixed argument that is not an array of the call; a negative
     *   tolerance; or a reference with other arrays than the kernel. The field violation names the field.
     * - NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    public io.github.accelerd.v1.BenchmarkResponse benchmark(io.github.accelerd.v1.BenchmarkRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getBenchmarkMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Judges an untrusted kernel in CUDA C++: compiles it, launches it many times on a GPU, each time on rewritten memory, and compares its
     * results with the expected ones. docs/evaluation.md describes the checks. Requires the setting `sandbox.cuda_source`.
     * Failures of the kernel are part of the response: a source that does not compile, a fault, a launch that does not end, a wrong result, a
     * write outside of its arrays, or an implausibly short time.
     * Fails with:
     * - INVALID_ARGUMENT: the source is too long; the entry is no identifier; a parameter, an argument, the launch configuration, a count or a
     *   tolerance is invalid; or the reference does not fit the parameters. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: CUDA_SOURCE_DISABLED, the daemon runs no CUDA C++ of clients; SANDBOX_DISABLED,
     *   it runs no client code; NO_GPU, no GPU runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - NOT_FOUND, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    public io.github.accelerd.v1.EvaluateResponse evaluate(io.github.accelerd.v1.EvaluateRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getEvaluateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Generates random kernels in Python with their translations, for data sets. docs/datasets.md describes them.
     * Each kernel is translated, and run on an example: by the interpreter, as WebAssembly in a child process, and on a GPU if there is one.
     * Each pair states how far the results agree. Of kernels that differ only in their names, a call returns the first. Equal requests return
     * equal pairs, except for times. To continue after a call that ended early, pass the index of the last pair plus 1 as `first_index`.
     * Fails with:
     * - INVALID_ARGUMENT: no pair or too many; a category, dialect, target or device that is unknown or named twice; a category that no dialect
     *   has; or more than 100 percent. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code; NO_GPU, the call requests a
     *   GPU and none runs kernels; or NO_CUDA_COMPILER, the call requests PTX and there is no CUDA compiler.
     * - OUT_OF_RANGE: the last 1,000 kernels of the sequence were equal to earlier ones, or had no example.
     * - RESOURCE_EXHAUSTED: the lane is full, or all processes are busy. RetryInfo says when to retry.
     * - DEADLINE_EXCEEDED: not all pairs were generated in time.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.accelerd.v1.GenerateDatasetResponse>
        generateDataset(io.github.accelerd.v1.GenerateDatasetRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getGenerateDatasetMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the kernels that are kept, the most recently used first.
     * </pre>
     */
    public io.github.accelerd.v1.ListKernelsResponse listKernels(io.github.accelerd.v1.ListKernelsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListKernelsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Drops a kernel that is kept.
     * Fails with:
     * - NOT_FOUND: there is no kernel of the id.
     * - PERMISSION_DENIED: another caller compiled it first, and the caller's role is not admin.
     * </pre>
     */
    public io.github.accelerd.v1.EvictKernelResponse evictKernel(io.github.accelerd.v1.EvictKernelRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getEvictKernelMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service KernelService.
   * <pre>
   * Translates and runs numeric programs.
   * A program is a Python module with kernels in the style of NVIDIA Warp, or with annotated functions, which are mapped over rows.
   * docs/kernels.md describes the language. Other constructs are reported with their position and never mistranslated.
   * </pre>
   */
  public static final class KernelServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<KernelServiceBlockingStub> {
    private KernelServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected KernelServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new KernelServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Translates the kernels of a module.
     * Each kernel is translated separately: a kernel outside the language has diagnostics instead of files, and does not fail the call.
     * Fails with:
     * - INVALID_ARGUMENT: no source, or a larger one than the configured limit; an unknown dialect, target or architecture; a constant
     *   without a value; or a name that no kernel of the module has. The field violation names the field.
     * - FAILED_PRECONDITION: KERNEL_TARGET_PTX without a CUDA compiler, as Compile.
     * - RESOURCE_EXHAUSTED: the files exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.TranslateResponse translate(io.github.accelerd.v1.TranslateRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getTranslateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Compiles a kernel to WebAssembly, and keeps it. Equal programs have one id, and are compiled once.
     * Fails with:
     * - INVALID_ARGUMENT: as Translate; no kernel of the name, or several kernels and no name; a kernel outside the language, with its
     *   diagnostics; an unknown architecture; or a kernel for which the CUDA compiler takes longer than `sandbox.load_timeout`, or more
     *   memory than its process has. The field violation names the field.
     * - FAILED_PRECONDITION, for `cuda`: the daemon runs no client code, with the reason SANDBOX_DISABLED in the ErrorInfo; or it finds no
     *   CUDA compiler, with the reason NO_CUDA_COMPILER.
     * - RESOURCE_EXHAUSTED: the lane is full, or the process of the compiler is busy until the deadline. RetryInfo says when to retry.
     * </pre>
     */
    public io.github.accelerd.v1.CompileResponse compile(io.github.accelerd.v1.CompileRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompileMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Runs a kernel, once for each thread of a grid, in a child process of the daemon. On the CPU, threads run as if one after the other.
     * A kernel that does what its dialect forbids, such as an access outside of an array, ends with a fault, which is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Compile; a missing or unknown argument, or one of another type or number of dimensions; a grid of another number
     *   of dimensions; an output that is no array; or a view that is not within an array, or of a function in Python. The field violation
     *   names the field.
     * - NOT_FOUND: there is no kernel of the id, or the caller has no such resident tensor.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code (`sandbox.processes = 0`);
     *   NO_GPU, the launch requests a GPU and none runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - RESOURCE_EXHAUSTED: the arguments need more memory than `sandbox.case_memory`, or on a GPU `sandbox.gpu_memory`; the process exceeds
     *   `sandbox.memory`; outputs exceed the maximum message size; or all processes are busy until the deadline, and RetryInfo says when to
     *   retry.
     * - DEADLINE_EXCEEDED: the kernel did not end in time.
     * - INTERNAL: the child process ended; the next call has a new one. The ErrorInfo has the reason SANDBOX_CRASHED.
     * </pre>
     */
    public io.github.accelerd.v1.LaunchResponse launch(io.github.accelerd.v1.LaunchRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getLaunchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Measures a kernel: launches it many times, each time with other elements in its arrays, and compares the results of the first and the
     * last timed run with those of a reference on the same arguments. docs/kernels.md describes what is measured.
     * A wrong result, a fault or an implausibly short time is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Launch, with fields of `launch`; no run or too many; a fixed argument that is not an array of the call; a negative
     *   tolerance; or a reference with other arrays than the kernel. The field violation names the field.
     * - NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    public io.github.accelerd.v1.BenchmarkResponse benchmark(io.github.accelerd.v1.BenchmarkRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getBenchmarkMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Judges an untrusted kernel in CUDA C++: compiles it, launches it many times on a GPU, each time on rewritten memory, and compares its
     * results with the expected ones. docs/evaluation.md describes the checks. Requires the setting `sandbox.cuda_source`.
     * Failures of the kernel are part of the response: a source that does not compile, a fault, a launch that does not end, a wrong result, a
     * write outside of its arrays, or an implausibly short time.
     * Fails with:
     * - INVALID_ARGUMENT: the source is too long; the entry is no identifier; a parameter, an argument, the launch configuration, a count or a
     *   tolerance is invalid; or the reference does not fit the parameters. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: CUDA_SOURCE_DISABLED, the daemon runs no CUDA C++ of clients; SANDBOX_DISABLED,
     *   it runs no client code; NO_GPU, no GPU runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - NOT_FOUND, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    public io.github.accelerd.v1.EvaluateResponse evaluate(io.github.accelerd.v1.EvaluateRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getEvaluateMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Generates random kernels in Python with their translations, for data sets. docs/datasets.md describes them.
     * Each kernel is translated, and run on an example: by the interpreter, as WebAssembly in a child process, and on a GPU if there is one.
     * Each pair states how far the results agree. Of kernels that differ only in their names, a call returns the first. Equal requests return
     * equal pairs, except for times. To continue after a call that ended early, pass the index of the last pair plus 1 as `first_index`.
     * Fails with:
     * - INVALID_ARGUMENT: no pair or too many; a category, dialect, target or device that is unknown or named twice; a category that no dialect
     *   has; or more than 100 percent. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code; NO_GPU, the call requests a
     *   GPU and none runs kernels; or NO_CUDA_COMPILER, the call requests PTX and there is no CUDA compiler.
     * - OUT_OF_RANGE: the last 1,000 kernels of the sequence were equal to earlier ones, or had no example.
     * - RESOURCE_EXHAUSTED: the lane is full, or all processes are busy. RetryInfo says when to retry.
     * - DEADLINE_EXCEEDED: not all pairs were generated in time.
     * </pre>
     */
    public java.util.Iterator<io.github.accelerd.v1.GenerateDatasetResponse> generateDataset(
        io.github.accelerd.v1.GenerateDatasetRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getGenerateDatasetMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the kernels that are kept, the most recently used first.
     * </pre>
     */
    public io.github.accelerd.v1.ListKernelsResponse listKernels(io.github.accelerd.v1.ListKernelsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListKernelsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Drops a kernel that is kept.
     * Fails with:
     * - NOT_FOUND: there is no kernel of the id.
     * - PERMISSION_DENIED: another caller compiled it first, and the caller's role is not admin.
     * </pre>
     */
    public io.github.accelerd.v1.EvictKernelResponse evictKernel(io.github.accelerd.v1.EvictKernelRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getEvictKernelMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service KernelService.
   * <pre>
   * Translates and runs numeric programs.
   * A program is a Python module with kernels in the style of NVIDIA Warp, or with annotated functions, which are mapped over rows.
   * docs/kernels.md describes the language. Other constructs are reported with their position and never mistranslated.
   * </pre>
   */
  public static final class KernelServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<KernelServiceFutureStub> {
    private KernelServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected KernelServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new KernelServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Translates the kernels of a module.
     * Each kernel is translated separately: a kernel outside the language has diagnostics instead of files, and does not fail the call.
     * Fails with:
     * - INVALID_ARGUMENT: no source, or a larger one than the configured limit; an unknown dialect, target or architecture; a constant
     *   without a value; or a name that no kernel of the module has. The field violation names the field.
     * - FAILED_PRECONDITION: KERNEL_TARGET_PTX without a CUDA compiler, as Compile.
     * - RESOURCE_EXHAUSTED: the files exceed the maximum message size; or the lane is full, and RetryInfo says when to retry.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.TranslateResponse> translate(
        io.github.accelerd.v1.TranslateRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getTranslateMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Compiles a kernel to WebAssembly, and keeps it. Equal programs have one id, and are compiled once.
     * Fails with:
     * - INVALID_ARGUMENT: as Translate; no kernel of the name, or several kernels and no name; a kernel outside the language, with its
     *   diagnostics; an unknown architecture; or a kernel for which the CUDA compiler takes longer than `sandbox.load_timeout`, or more
     *   memory than its process has. The field violation names the field.
     * - FAILED_PRECONDITION, for `cuda`: the daemon runs no client code, with the reason SANDBOX_DISABLED in the ErrorInfo; or it finds no
     *   CUDA compiler, with the reason NO_CUDA_COMPILER.
     * - RESOURCE_EXHAUSTED: the lane is full, or the process of the compiler is busy until the deadline. RetryInfo says when to retry.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.CompileResponse> compile(
        io.github.accelerd.v1.CompileRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompileMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Runs a kernel, once for each thread of a grid, in a child process of the daemon. On the CPU, threads run as if one after the other.
     * A kernel that does what its dialect forbids, such as an access outside of an array, ends with a fault, which is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Compile; a missing or unknown argument, or one of another type or number of dimensions; a grid of another number
     *   of dimensions; an output that is no array; or a view that is not within an array, or of a function in Python. The field violation
     *   names the field.
     * - NOT_FOUND: there is no kernel of the id, or the caller has no such resident tensor.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: SANDBOX_DISABLED, the daemon runs no client code (`sandbox.processes = 0`);
     *   NO_GPU, the launch requests a GPU and none runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - RESOURCE_EXHAUSTED: the arguments need more memory than `sandbox.case_memory`, or on a GPU `sandbox.gpu_memory`; the process exceeds
     *   `sandbox.memory`; outputs exceed the maximum message size; or all processes are busy until the deadline, and RetryInfo says when to
     *   retry.
     * - DEADLINE_EXCEEDED: the kernel did not end in time.
     * - INTERNAL: the child process ended; the next call has a new one. The ErrorInfo has the reason SANDBOX_CRASHED.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.LaunchResponse> launch(
        io.github.accelerd.v1.LaunchRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getLaunchMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Measures a kernel: launches it many times, each time with other elements in its arrays, and compares the results of the first and the
     * last timed run with those of a reference on the same arguments. docs/kernels.md describes what is measured.
     * A wrong result, a fault or an implausibly short time is part of the response.
     * Fails with:
     * - INVALID_ARGUMENT: as Launch, with fields of `launch`; no run or too many; a fixed argument that is not an array of the call; a negative
     *   tolerance; or a reference with other arrays than the kernel. The field violation names the field.
     * - NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.BenchmarkResponse> benchmark(
        io.github.accelerd.v1.BenchmarkRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getBenchmarkMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Judges an untrusted kernel in CUDA C++: compiles it, launches it many times on a GPU, each time on rewritten memory, and compares its
     * results with the expected ones. docs/evaluation.md describes the checks. Requires the setting `sandbox.cuda_source`.
     * Failures of the kernel are part of the response: a source that does not compile, a fault, a launch that does not end, a wrong result, a
     * write outside of its arrays, or an implausibly short time.
     * Fails with:
     * - INVALID_ARGUMENT: the source is too long; the entry is no identifier; a parameter, an argument, the launch configuration, a count or a
     *   tolerance is invalid; or the reference does not fit the parameters. The field violation names the field.
     * - FAILED_PRECONDITION, with the reason in the ErrorInfo: CUDA_SOURCE_DISABLED, the daemon runs no CUDA C++ of clients; SANDBOX_DISABLED,
     *   it runs no client code; NO_GPU, no GPU runs kernels; or NO_CUDA_COMPILER, there is no CUDA compiler.
     * - NOT_FOUND, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, INTERNAL: as Launch.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.EvaluateResponse> evaluate(
        io.github.accelerd.v1.EvaluateRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getEvaluateMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the kernels that are kept, the most recently used first.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.ListKernelsResponse> listKernels(
        io.github.accelerd.v1.ListKernelsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListKernelsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Drops a kernel that is kept.
     * Fails with:
     * - NOT_FOUND: there is no kernel of the id.
     * - PERMISSION_DENIED: another caller compiled it first, and the caller's role is not admin.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.accelerd.v1.EvictKernelResponse> evictKernel(
        io.github.accelerd.v1.EvictKernelRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getEvictKernelMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_TRANSLATE = 0;
  private static final int METHODID_COMPILE = 1;
  private static final int METHODID_LAUNCH = 2;
  private static final int METHODID_BENCHMARK = 3;
  private static final int METHODID_EVALUATE = 4;
  private static final int METHODID_GENERATE_DATASET = 5;
  private static final int METHODID_LIST_KERNELS = 6;
  private static final int METHODID_EVICT_KERNEL = 7;

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
        case METHODID_TRANSLATE:
          serviceImpl.translate((io.github.accelerd.v1.TranslateRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.TranslateResponse>) responseObserver);
          break;
        case METHODID_COMPILE:
          serviceImpl.compile((io.github.accelerd.v1.CompileRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.CompileResponse>) responseObserver);
          break;
        case METHODID_LAUNCH:
          serviceImpl.launch((io.github.accelerd.v1.LaunchRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.LaunchResponse>) responseObserver);
          break;
        case METHODID_BENCHMARK:
          serviceImpl.benchmark((io.github.accelerd.v1.BenchmarkRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.BenchmarkResponse>) responseObserver);
          break;
        case METHODID_EVALUATE:
          serviceImpl.evaluate((io.github.accelerd.v1.EvaluateRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.EvaluateResponse>) responseObserver);
          break;
        case METHODID_GENERATE_DATASET:
          serviceImpl.generateDataset((io.github.accelerd.v1.GenerateDatasetRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.GenerateDatasetResponse>) responseObserver);
          break;
        case METHODID_LIST_KERNELS:
          serviceImpl.listKernels((io.github.accelerd.v1.ListKernelsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.ListKernelsResponse>) responseObserver);
          break;
        case METHODID_EVICT_KERNEL:
          serviceImpl.evictKernel((io.github.accelerd.v1.EvictKernelRequest) request,
              (io.grpc.stub.StreamObserver<io.github.accelerd.v1.EvictKernelResponse>) responseObserver);
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
          getTranslateMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.TranslateRequest,
              io.github.accelerd.v1.TranslateResponse>(
                service, METHODID_TRANSLATE)))
        .addMethod(
          getCompileMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.CompileRequest,
              io.github.accelerd.v1.CompileResponse>(
                service, METHODID_COMPILE)))
        .addMethod(
          getLaunchMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.LaunchRequest,
              io.github.accelerd.v1.LaunchResponse>(
                service, METHODID_LAUNCH)))
        .addMethod(
          getBenchmarkMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.BenchmarkRequest,
              io.github.accelerd.v1.BenchmarkResponse>(
                service, METHODID_BENCHMARK)))
        .addMethod(
          getEvaluateMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.EvaluateRequest,
              io.github.accelerd.v1.EvaluateResponse>(
                service, METHODID_EVALUATE)))
        .addMethod(
          getGenerateDatasetMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.accelerd.v1.GenerateDatasetRequest,
              io.github.accelerd.v1.GenerateDatasetResponse>(
                service, METHODID_GENERATE_DATASET)))
        .addMethod(
          getListKernelsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.ListKernelsRequest,
              io.github.accelerd.v1.ListKernelsResponse>(
                service, METHODID_LIST_KERNELS)))
        .addMethod(
          getEvictKernelMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.accelerd.v1.EvictKernelRequest,
              io.github.accelerd.v1.EvictKernelResponse>(
                service, METHODID_EVICT_KERNEL)))
        .build();
  }

  private static abstract class KernelServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    KernelServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.accelerd.v1.KernelOuterClass.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("KernelService");
    }
  }

  private static final class KernelServiceFileDescriptorSupplier
      extends KernelServiceBaseDescriptorSupplier {
    KernelServiceFileDescriptorSupplier() {}
  }

  private static final class KernelServiceMethodDescriptorSupplier
      extends KernelServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    KernelServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (KernelServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new KernelServiceFileDescriptorSupplier())
              .addMethod(getTranslateMethod())
              .addMethod(getCompileMethod())
              .addMethod(getLaunchMethod())
              .addMethod(getBenchmarkMethod())
              .addMethod(getEvaluateMethod())
              .addMethod(getGenerateDatasetMethod())
              .addMethod(getListKernelsMethod())
              .addMethod(getEvictKernelMethod())
              .build();
        }
      }
    }
    return result;
  }
}
