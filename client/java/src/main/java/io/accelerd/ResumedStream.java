package io.accelerd;

import io.grpc.CallOptions;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.ToLongFunction;

/**
 * The responses of a stream whose requests are numbered from 0, with several in flight.
 *
 * <p>After a lost connection, or the drain of a daemon, requests without a response are sent again; if they are ordered, all from the
 * first of them on. The thread that reads the responses also sends the requests, which another thread reads.
 */
final class ResumedStream<Q, R> implements Iterator<R>, AutoCloseable {
  /** Requests without a response that are kept. */
  private static final int MAX_IN_FLIGHT = 16;

  private final Caller caller;
  private final MethodDescriptor<Q, R> method;
  private final CallOptions options;
  private final Input<Q> input;
  private final ToLongFunction<R> sequenceOf;
  private final boolean isOrdered;
  private final Attempts attempts;

  private final TreeMap<Long, Q> kept = new TreeMap<>();
  /** Of ordered requests, those that are answered and follow one that is not. */
  private final Set<Long> answered = new HashSet<>();
  private final ArrayDeque<Q> unsent = new ArrayDeque<>();
  private long count;
  /** Null between attempts. */
  private volatile StreamCall<Q, R> call;
  private R next;
  private boolean isClosed;

  /** A deadline of null means none. */
  ResumedStream(
      Caller caller,
      MethodDescriptor<Q, R> method,
      Iterator<Q> requests,
      ToLongFunction<R> sequenceOf,
      boolean isOrdered,
      Deadline deadline) {
    this.caller = caller;
    this.method = method;
    input = new Input<>(requests, this::wake);
    this.sequenceOf = sequenceOf;
    this.isOrdered = isOrdered;
    options = CallOptions.DEFAULT.withDeadline(deadline);
    attempts = caller.transport.retries.attempts(method, options, deadline);
  }

  @Override
  public boolean hasNext() {
    try {
      while (next == null && !isClosed) {
        advance();
      }
    } catch (RuntimeException | Error failed) {
      close();
      throw failed;
    }
    return next != null;
  }

  @Override
  public R next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    R response = next;
    next = null;
    return response;
  }

  /** Ends the stream. Requests without a response may or may not be executed. */
  @Override
  public void close() {
    isClosed = true;
    input.close();
    if (call != null) {
      call.cancel();
    }
  }

  private void wake() {
    StreamCall<Q, R> current = call;
    if (current != null) {
      current.wake();
    }
  }

  private void advance() {
    if (call == null) {
      begin();
    }
    send();
    R response = call.poll();
    if (response != null) {
      receive(response);
    } else if (call.hasEnded()) {
      end();
    } else {
      call.await(hasMore());
    }
  }

  private void begin() {
    unsent.clear();
    unsent.addAll(kept.values());
    call = new StreamCall<>(caller, method, options);
    call.start();
    input.start();
  }

  private boolean hasMore() {
    return !unsent.isEmpty() || kept.size() < MAX_IN_FLIGHT && input.isReady();
  }

  private void send() {
    while (call.canSend() && hasMore()) {
      if (unsent.isEmpty()) {
        unsent.add(input.take());
        kept.put(count++, unsent.peek());
      }
      call.send(unsent.poll());
    }
    if (unsent.isEmpty() && input.isExhausted()) {
      call.halfClose();
    }
  }

  private void receive(R response) {
    attempts.progressed();
    long sequence = sequenceOf.applyAsLong(response);
    if (!kept.containsKey(sequence)) {
      // An ordered request may have been answered in an earlier attempt, before one that was not.
      if (!isOrdered || sequence < 0 || sequence >= count) {
        throw AccelerdException.malformed("unexpected sequence " + sequence);
      }
      return;
    }
    boolean isNew = answered.add(sequence);
    if (isOrdered) {
      while (!kept.isEmpty() && answered.remove(kept.firstKey())) {
        kept.pollFirstEntry();
      }
    } else {
      answered.remove(sequence);
      kept.remove(sequence);
    }
    if (isNew) {
      next = response;
    }
  }

  private void end() {
    AccelerdException problem = call.problem();
    boolean isSent = call.isSent();
    call = null;
    if (problem == null && kept.isEmpty() && input.isExhausted()) {
      isClosed = true;
      return;
    }
    if (problem == null) {
      throw AccelerdException.malformed("the stream ended before its last request was answered");
    }
    OptionalLong delay = attempts.delay(problem, isSent);
    if (delay.isEmpty()) {
      throw problem;
    }
    RetriedStream.sleep(delay.getAsLong());
  }
}
