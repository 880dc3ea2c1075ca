package io.accelerd;

import io.grpc.Context;
import java.util.ArrayDeque;
import java.util.Iterator;

/** Reads the requests of a stream on a thread of its own, so that responses do not wait for the next request. */
final class Input<Q> implements AutoCloseable {
  /** Requests that are read ahead. */
  private static final int CAPACITY = 2;

  private final Iterator<Q> requests;
  private final Runnable onChange;
  private final Thread thread;
  private final ArrayDeque<Q> ready = new ArrayDeque<>();
  private Throwable problem;
  private boolean hasEnded;

  /** Calls {@code onChange} after each request, and at the end. */
  Input(Iterator<Q> requests, Runnable onChange) {
    this.requests = requests;
    this.onChange = onChange;
    thread = new Thread(Context.current().wrap(this::read), "accelerd-input");
    thread.setDaemon(true);
  }

  /** Starts the thread, if it is not started. */
  void start() {
    if (thread.getState() == Thread.State.NEW) {
      thread.start();
    }
  }

  /** Whether a request is ready. Throws what the iterator threw. */
  synchronized boolean isReady() {
    if (ready.isEmpty() && problem instanceof Error) {
      throw (Error) problem;
    }
    if (ready.isEmpty() && problem != null) {
      throw (RuntimeException) problem;
    }
    return !ready.isEmpty();
  }

  synchronized Q take() {
    notifyAll();
    return ready.remove();
  }

  /** Whether all requests were taken. */
  synchronized boolean isExhausted() {
    return hasEnded && !isReady();
  }

  /** Interrupts the iterator. */
  @Override
  public void close() {
    thread.interrupt();
  }

  private void read() {
    try {
      while (requests.hasNext()) {
        put(requests.next());
        onChange.run();
      }
      end(null);
    } catch (InterruptedException closed) {
      end(null);
    } catch (RuntimeException | Error failed) {
      end(failed);
    }
  }

  private synchronized void put(Q request) throws InterruptedException {
    while (ready.size() >= CAPACITY) {
      wait();
    }
    ready.add(request);
  }

  private void end(Throwable failed) {
    synchronized (this) {
      problem = failed;
      hasEnded = true;
    }
    onChange.run();
  }
}
