package io.accelerd;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.protobuf.MessageLite;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** Makes calls with a default timeout. */
final class Caller {
  final Transport transport;
  final Channel channel;

  Caller(Transport transport, Duration timeout) {
    this.transport = transport;
    this.channel = transport.channel(timeout);
  }

  /** Makes a call, and waits for its result. */
  <Q, R, T> T run(Operation<Q, R, T> operation) {
    check(operation.request);
    R response;
    try {
      response = ClientCalls.blockingUnaryCall(channel, operation.method, options(operation), operation.request);
    } catch (StatusRuntimeException failed) {
      throw AccelerdException.of(failed);
    }
    return operation.decode.apply(response);
  }

  /** Makes a call. Cancelling the future cancels the call. */
  <Q, R, T> CompletableFuture<T> start(Operation<Q, R, T> operation) {
    check(operation.request);
    ListenableFuture<R> call =
        ClientCalls.futureUnaryCall(channel.newCall(operation.method, options(operation)), operation.request);
    CompletableFuture<T> future = new CompletableFuture<>();
    Futures.addCallback(call, new FutureCallback<R>() {
      @Override
      public void onSuccess(R response) {
        try {
          future.complete(operation.decode.apply(response));
        } catch (RuntimeException malformed) {
          future.completeExceptionally(malformed);
        }
      }

      @Override
      public void onFailure(Throwable failed) {
        future.completeExceptionally(AccelerdException.of(failed));
      }
    }, Runnable::run);
    future.whenComplete((result, failure) -> call.cancel(true));
    return future;
  }

  /** Makes a call with a stream of responses. Closing the stream cancels the call. */
  <Q, R> Stream<R> responses(MethodDescriptor<Q, R> method, Q request) {
    Context.CancellableContext context = Context.current().withCancellation();
    Iterator<R> responses = inContext(context,
        () -> ClientCalls.blockingServerStreamingCall(channel, method, CallOptions.DEFAULT, request));
    Iterator<R> checked = new Iterator<R>() {
      @Override
      public boolean hasNext() {
        try {
          boolean hasNext = responses.hasNext();
          if (!hasNext) {
            context.cancel(null);
          }
          return hasNext;
        } catch (StatusRuntimeException failed) {
          context.cancel(null);
          throw AccelerdException.of(failed);
        }
      }

      @Override
      public R next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        return responses.next();
      }
    };
    int characteristics = Spliterator.ORDERED | Spliterator.NONNULL;
    return StreamSupport.stream(Spliterators.spliteratorUnknownSize(checked, characteristics), false)
        .onClose(() -> context.cancel(null));
  }

  /** Refuses a request that the daemon would: gRPC would only say that the call was cancelled. */
  void check(Object request) {
    int size = ((MessageLite) request).getSerializedSize();
    if (size > transport.maxMessageBytes()) {
      String limit = "the request has " + size + " bytes, expected at most " + transport.maxMessageBytes();
      throw new AccelerdException(Status.Code.RESOURCE_EXHAUSTED, limit, null);
    }
  }

  private static <T> T inContext(Context context, Callable<T> call) {
    try {
      return context.call(call);
    } catch (RuntimeException failed) {
      throw failed;
    } catch (Exception impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static CallOptions options(Operation<?, ?, ?> operation) {
    return CallOptions.DEFAULT.withOption(RetryPolicy.IS_IDEMPOTENT, operation.isIdempotent);
  }
}
