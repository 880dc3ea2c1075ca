package io.accelerd;

import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.ResourceInfo;
import com.google.rpc.RetryInfo;
import io.grpc.BindableService;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** A scripted daemon on the loopback interface, and its errors. */
final class Daemon implements AutoCloseable {
  /** The metadata of each call. */
  final List<Metadata> calls = new CopyOnWriteArrayList<>();
  private final Server server;

  Daemon(BindableService... services) throws IOException {
    this(0, services);
  }

  Daemon(int port, BindableService... services) throws IOException {
    ServerBuilder<?> builder = Grpc.newServerBuilderForPort(port, InsecureServerCredentials.create()).intercept(new Recorder());
    for (BindableService service : services) {
      builder.addService(service);
    }
    server = builder.build().start();
  }

  /** Returns a port that nothing listens on. */
  static int unusedPort() throws IOException {
    try (Daemon daemon = new Daemon()) {
      return daemon.port();
    }
  }

  int port() {
    return server.getPort();
  }

  AccelerdClientBuilder client() {
    return new AccelerdClientBuilder("127.0.0.1:" + port()).environment(name -> null);
  }

  @Override
  public void close() {
    server.shutdownNow();
    try {
      server.awaitTermination();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Returns an error as the daemon sends it. A delay of null means none. */
  static StatusRuntimeException failure(Status.Code code, Duration retryDelay, String reason) {
    com.google.rpc.Status.Builder status = com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("scripted");
    if (!reason.isEmpty()) {
      status.addDetails(Any.pack(ErrorInfo.newBuilder().setReason(reason).setDomain("accelerd").putMetadata("asked", "7").build()));
    }
    if (retryDelay != null) {
      status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(Durations.message(retryDelay)).build()));
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }

  static StatusRuntimeException invalid(String field, String resource) {
    BadRequest.FieldViolation violation =
        BadRequest.FieldViolation.newBuilder().setField(field).setDescription("expected 1, got 0").build();
    return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder()
        .setCode(Status.Code.INVALID_ARGUMENT.value())
        .setMessage(field + ": expected 1, got 0")
        .addDetails(Any.pack(BadRequest.newBuilder().addFieldViolations(violation).build()))
        .addDetails(Any.pack(ResourceInfo.newBuilder().setResourceName(resource).build()))
        .build());
  }

  static AccelerdException problem(Status.Code code, Duration retryDelay) {
    return problem(code, retryDelay, "");
  }

  static AccelerdException problem(Status.Code code, Duration retryDelay, String reason) {
    return AccelerdException.of(failure(code, retryDelay, reason));
  }

  private final class Recorder implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      calls.add(headers);
      return next.startCall(call, headers);
    }
  }
}
