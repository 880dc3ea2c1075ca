package io.accelerd;

/**
 * The retries of a client, so that clients of a failing daemon do not multiply its load.
 *
 * <p>Each call earns a fifth of a retry. A retry without a token is not refused: it waits for the tokens that are earned with time, so
 * that a call survives as long as its deadline permits.
 */
final class RetryBudget {
  static final double PER_CALL = 0.2;
  /** Retries that are earned with time, so that clients with few calls can retry. */
  static final double PER_SECOND = 1.0;
  /** Retries of a new client, and the most that are earned with time. */
  static final double RESERVE = 10.0;
  /** The most retries that are kept for later. */
  static final double MAX = 1000.0;

  private static final double NANOS = 1e9;

  /** Negative if retries wait. */
  private double balance = RESERVE;
  private long updated;

  RetryBudget(long now) {
    updated = now;
  }

  /** Earns the retries of a call. */
  synchronized void deposit() {
    balance = Math.min(balance + PER_CALL, MAX);
  }

  /** Takes a retry. Returns the nanoseconds until it may be made. */
  synchronized long withdraw(long now) {
    double seconds = (now - updated) / NANOS;
    updated = now;
    if (balance < RESERVE) {
      balance = Math.min(balance + seconds * PER_SECOND, RESERVE);
    }
    balance -= 1.0;
    return (long) (Math.max(-balance / PER_SECOND, 0.0) * NANOS);
  }

  /** Returns a retry that is not made. */
  synchronized void putBack() {
    balance = Math.min(balance + 1.0, MAX);
  }
}
