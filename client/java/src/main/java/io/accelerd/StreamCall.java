package io.accelerd;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.ArrayDeque;

/** One attempt of a stream in both directions, for one thread that sends and receives. */
final class StreamCall<Q, R> extends ClientCall.Listener<R> {
  /** Bytes of requests that gRPC buffers, so that the next requests are there when the daemon takes them. */
  private static final int BUFFER_BYTES = 8 << 20;

  private final Transmission transmission = new Transmission();
  private final Caller caller;
  private final ClientCall<Q, R> call;
  private final ArrayDeque<R> responses = new ArrayDeque<>();
  private Status status;
  private Metadata trailers;
  private boolean isHalfClosed;
  private boolean isWoken;

  StreamCall(Caller caller, MethodDescriptor<Q, R> method, CallOptions options) {
    CallOptions buffered = options.withOption(Transmission.KEY, transmission).withOnReadyThreshold(BUFFER_BYTES);
    this.caller = caller;
    call = caller.channel.newCall(method, buffered);
  }

  /** Starts the call. Responses are not held back: requests in flight bound them. */
  void start() {
    call.start(this, new Metadata());
    call.request(Integer.MAX_VALUE);
  }

  void send(Q request) {
    caller.check(request);
    call.sendMessage(request);
  }

  void halfClose() {
    if (!isHalfClosed) {
      isHalfClosed = true;
      call.halfClose();
    }
  }

  void cancel() {
    call.cancel("the client ended the stream", null);
  }

  /** Ends the current wait, or the next one. */
  synchronized void wake() {
    isWoken = true;
    notifyAll();
  }

  /** Waits until there is a response, the call has ended, it was woken or, if there is something to send, it can be sent. */
  synchronized void await(boolean isSending) {
    try {
      while (responses.isEmpty() && status == null && !isWoken && !(isSending && call.isReady())) {
        wait();
      }
      isWoken = false;
    } catch (InterruptedException interrupted) {
      cancel();
      throw AccelerdException.interrupted(interrupted);
    }
  }

  /** Returns the next response; null if there is none now. */
  synchronized R poll() {
    return responses.poll();
  }

  synchronized boolean canSend() {
    return status == null && call.isReady();
  }

  synchronized boolean hasEnded() {
    return status != null;
  }

  /** Returns the error with which the call ended; null if it ended well. */
  synchronized AccelerdException problem() {
    return status.isOk() ? null : AccelerdException.of(status, trailers);
  }

  boolean isSent() {
    return transmission.isSent();
  }

  @Override
  public synchronized void onMessage(R response) {
    responses.add(response);
    notifyAll();
  }

  @Override
  public synchronized void onReady() {
    notifyAll();
  }

  @Override
  public synchronized void onClose(Status status, Metadata trailers) {
    this.status = status;
    this.trailers = trailers;
    notifyAll();
  }
}
