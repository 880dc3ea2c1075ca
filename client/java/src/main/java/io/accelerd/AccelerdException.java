package io.accelerd;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.ResourceInfo;
import com.google.rpc.RetryInfo;
import io.github.accelerd.v1.ItemError;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** A failed call, with the details that the daemon sends. docs/errors.md lists the reasons. */
public final class AccelerdException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final Status.Code code;
  private final String description;
  private final ArrayList<FieldViolation> violations = new ArrayList<>();
  private final LinkedHashMap<String, String> metadata = new LinkedHashMap<>();
  private String reason = "";
  private String resource = "";
  private Duration retryDelay;

  AccelerdException(Status.Code code, String description, Throwable cause) {
    super(code + ": " + description, cause);
    this.code = code;
    this.description = description;
  }

  /** Returns the error of a call of a generated stub: of a {@code StatusRuntimeException}, or of a future that failed with one. */
  public static AccelerdException of(Throwable thrown) {
    boolean isWrapper = thrown instanceof ExecutionException || thrown instanceof CompletionException;
    Throwable failure = isWrapper && thrown.getCause() != null ? thrown.getCause() : thrown;
    if (failure instanceof AccelerdException) {
      return (AccelerdException) failure;
    }
    return of(Status.fromThrowable(failure), Status.trailersFromThrowable(failure), failure);
  }

  static AccelerdException of(Status status, Metadata trailers) {
    return of(status, trailers, status.getCause());
  }

  private static AccelerdException of(Status status, Metadata trailers, Throwable cause) {
    AccelerdException problem = new AccelerdException(status.getCode(), describe(status), cause);
    com.google.rpc.Status details = trailers == null ? null : StatusProto.fromStatusAndTrailers(status, trailers);
    if (details != null) {
      details.getDetailsList().forEach(problem::add);
    }
    return problem;
  }

  static AccelerdException of(ItemError error) {
    return new AccelerdException(Status.fromCodeValue(error.getCode()).getCode(), error.getMessage(), null);
  }

  static AccelerdException malformed(String what) {
    return new AccelerdException(Status.Code.INTERNAL, "malformed response: " + what, null);
  }

  static AccelerdException interrupted(InterruptedException cause) {
    Thread.currentThread().interrupt();
    return new AccelerdException(Status.Code.CANCELLED, "the thread was interrupted", cause);
  }

  /** The code of the gRPC status. */
  public Status.Code code() {
    return code;
  }

  /** The daemon's message, without the code that {@link #getMessage()} begins with. */
  public String description() {
    return description;
  }

  /** The reason, such as {@code QUEUE_FULL}; empty if the daemon gave none. */
  public String reason() {
    return reason;
  }

  /** Figures of the reason, by name. */
  public Map<String, String> metadata() {
    return Collections.unmodifiableMap(metadata);
  }

  /** The first invalid field of the request, such as {@code limit}; empty if the daemon named none. */
  public String field() {
    return violations.isEmpty() ? "" : violations.get(0).field();
  }

  /** All invalid fields of the request. */
  public List<FieldViolation> violations() {
    return Collections.unmodifiableList(violations);
  }

  /** The name of the resource that is missing or taken; empty if the daemon named none. */
  public String resource() {
    return resource;
  }

  /** How long to wait before a retry, if one may succeed. */
  public Optional<Duration> retryDelay() {
    return Optional.ofNullable(retryDelay);
  }

  /** Whether a message exceeds the maximum size, so that only a smaller one can succeed. */
  boolean isMessageTooLarge() {
    return reason.equals("MESSAGE_TOO_LARGE");
  }

  private void add(Any detail) {
    try {
      if (detail.is(ErrorInfo.class)) {
        ErrorInfo info = detail.unpack(ErrorInfo.class);
        reason = info.getReason();
        metadata.putAll(info.getMetadataMap());
      } else if (detail.is(BadRequest.class)) {
        detail.unpack(BadRequest.class).getFieldViolationsList().forEach(
            violation -> violations.add(new FieldViolation(violation.getField(), violation.getDescription())));
      } else if (detail.is(ResourceInfo.class)) {
        resource = detail.unpack(ResourceInfo.class).getResourceName();
      } else if (detail.is(RetryInfo.class)) {
        retryDelay = Durations.of(detail.unpack(RetryInfo.class).getRetryDelay());
      }
    } catch (InvalidProtocolBufferException malformed) {
      addSuppressed(malformed);
    }
  }

  /** Returns the message of a status. That of a connection which failed is only in its causes: gRPC says "io exception". */
  private static String describe(Status status) {
    StringBuilder text = new StringBuilder(status.getDescription() == null ? "" : status.getDescription());
    for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
      String message = cause.getMessage();
      if (message != null && text.indexOf(message) < 0) {
        text.append(text.length() == 0 ? "" : ": ").append(message);
      }
    }
    return text.toString();
  }
}
