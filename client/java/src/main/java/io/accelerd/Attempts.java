package io.accelerd;

import java.time.Duration;
import java.util.OptionalLong;

/**
 * The attempts of a call.
 *
 * <p>UNAVAILABLE is retried, which includes broken connections, and RESOURCE_EXHAUSTED with RetryInfo. A call that is not idempotent is
 * retried only where the daemon did not execute it: with RetryInfo, or if it was not sent. The backoff is exponential with full jitter,
 * after the delay of RetryInfo. Attempts that reach no daemon do not count in the budget.
 */
final class Attempts {
  /** Bounds of the first backoff and of any, in nanoseconds. */
  static final long FIRST_DELAY = 50_000_000;
  static final long MAX_DELAY = 2_000_000_000;
  /** For how long a call without a deadline is retried, from its first failure. */
  static final long WITHOUT_DEADLINE = 60_000_000_000L;

  /** Doublings after which {@link #MAX_DELAY} bounds the backoff. */
  private static final int MAX_DOUBLINGS = 20;

  private final RetryPolicy policy;
  private final boolean isIdempotent;
  private final boolean hasDeadline;
  private long end;
  private int failed;

  Attempts(RetryPolicy policy, long nanosLeft, boolean isIdempotent) {
    policy.budget.deposit();
    this.policy = policy;
    this.isIdempotent = isIdempotent;
    this.hasDeadline = nanosLeft != Long.MAX_VALUE;
    this.end = policy.nanoTime.getAsLong() + nanosLeft;
  }

  /** Counts anew, after a response of a stream. */
  synchronized void progressed() {
    failed = 0;
  }

  /** Returns the nanoseconds until the next attempt; none if the problem is final. */
  synchronized OptionalLong delay(AccelerdException problem, boolean isSent) {
    long now = policy.nanoTime.getAsLong();
    if (failed == 0 && !hasDeadline) {
      end = now + WITHOUT_DEADLINE;
    }
    failed++;
    if (policy.isClosed() || failed >= policy.maxAttempts || !mayRepeat(problem, isSent)) {
      return OptionalLong.empty();
    }
    long hinted = Durations.nanos(problem.retryDelay().orElse(Duration.ZERO));
    long delay = hinted + (long) (policy.random.getAsDouble() * bound());
    if (hinted >= end - now || delay >= end - now) {
      return OptionalLong.empty();
    }
    return isSent ? withinBudget(delay, now) : OptionalLong.of(delay);
  }

  private OptionalLong withinBudget(long delay, long now) {
    long budgeted = Math.max(delay, policy.budget.withdraw(now));
    if (budgeted >= end - now) {
      policy.budget.putBack();
      return OptionalLong.empty();
    }
    return OptionalLong.of(budgeted);
  }

  private long bound() {
    return Math.min(FIRST_DELAY << Math.min(failed - 1, MAX_DOUBLINGS), MAX_DELAY);
  }

  private boolean mayRepeat(AccelerdException problem, boolean isSent) {
    boolean hasDelay = problem.retryDelay().isPresent();
    switch (problem.code()) {
      case UNAVAILABLE:
        return isIdempotent || hasDelay || !isSent;
      case RESOURCE_EXHAUSTED:
        return hasDelay && !problem.isMessageTooLarge();
      default:
        return false;
    }
  }
}
