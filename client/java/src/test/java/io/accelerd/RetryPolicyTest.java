package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.accelerd.v1.EmbedServiceGrpc;
import io.github.accelerd.v1.SimilarityServiceGrpc;
import io.github.accelerd.v1.TensorServiceGrpc;
import io.grpc.Status;
import java.time.Duration;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

/** Retries by a clock that only the tests advance. */
class RetryPolicyTest {
  private static final long SECOND = 1_000_000_000L;
  private static final AccelerdException UNAVAILABLE = Daemon.problem(Status.Code.UNAVAILABLE, null);

  private long now = -5 * SECOND;
  private double random;
  private final RetryPolicy policy = new RetryPolicy(Integer.MAX_VALUE, () -> now, () -> random);

  private Attempts attempts(long nanos) {
    return new Attempts(policy, nanos, true);
  }

  @Test
  void backoffDoublesUpToTwoSecondsWithFullJitter() {
    Attempts attempts = attempts(3600 * SECOND);
    long[] bounds = {50, 100, 200, 400, 800, 1600, 2000, 2000, 2000};
    for (long bound : bounds) {
      random = 0.5;
      assertEquals(bound * 1_000_000 / 2, attempts.delay(UNAVAILABLE, false).getAsLong());
    }
    random = 0.0;
    assertEquals(0, attempts.delay(UNAVAILABLE, false).getAsLong());
  }

  @Test
  void manyFailuresDoNotOverflowTheBackoff() {
    Attempts attempts = attempts(3600 * SECOND);
    random = 1.0 - 1e-9;
    for (int failure = 0; failure < 100; failure++) {
      long delay = attempts.delay(UNAVAILABLE, false).getAsLong();
      assertTrue(delay >= 0 && delay < Attempts.MAX_DELAY, () -> "delay " + delay);
    }
  }

  @Test
  void jitterFollowsTheDelayOfRetryInfo() {
    random = 0.5;
    AccelerdException full = Daemon.problem(Status.Code.RESOURCE_EXHAUSTED, Duration.ofMillis(300));
    assertEquals(325_000_000, attempts(SECOND).delay(full, true).getAsLong());
  }

  @Test
  void theFirstFailuresOfACallTakeTheReserveAndLaterOnesWait() {
    Attempts attempts = attempts(3600 * SECOND);
    for (int retry = 0; retry < 10; retry++) {
      assertEquals(0, attempts.delay(UNAVAILABLE, true).getAsLong());
    }
    // The call earned a fifth.
    assertEquals((long) (0.8 * SECOND), attempts.delay(UNAVAILABLE, true).getAsLong(), 1000);
    now += 2 * SECOND;
    assertEquals(0, attempts.delay(UNAVAILABLE, true).getAsLong());
  }

  @Test
  void theBudgetKeepsAtMostTheReserveOfTimeAndAThousandOfCalls() {
    RetryBudget budget = new RetryBudget(0);
    long day = 86_400 * SECOND;
    for (int retry = 0; retry < 10; retry++) {
      assertEquals(0, budget.withdraw(day));
    }
    assertTrue(budget.withdraw(day) > 0);
    for (int call = 0; call < 10_000; call++) {
      budget.deposit();
    }
    for (int retry = 0; retry < 1000; retry++) {
      assertEquals(0, budget.withdraw(day));
    }
    assertTrue(budget.withdraw(day) > 0);
  }

  @Test
  void aRetryThatIsNotMadeIsReturned() {
    RetryBudget budget = policy.budget;
    for (int retry = 0; retry < 10; retry++) {
      budget.withdraw(now);
    }
    assertTrue(attempts(SECOND / 10).delay(UNAVAILABLE, true).isEmpty());
    // Of two calls, each earned a fifth.
    assertEquals((long) (0.6 * SECOND), attempts(SECOND).delay(UNAVAILABLE, true).getAsLong(), 1000);
  }

  @Test
  void attemptsThatWereNotSentDoNotCountInTheBudget() {
    Attempts attempts = attempts(3600 * SECOND);
    for (int retry = 0; retry < 100; retry++) {
      assertEquals(0, attempts.delay(UNAVAILABLE, false).getAsLong());
    }
    assertEquals(0, attempts.delay(UNAVAILABLE, true).getAsLong());
  }

  @Test
  void theDeadlineEndsRetries() {
    Attempts attempts = attempts(SECOND);
    assertTrue(attempts.delay(UNAVAILABLE, false).isPresent());
    now += SECOND;
    assertTrue(attempts.delay(UNAVAILABLE, false).isEmpty());
    AccelerdException late = Daemon.problem(Status.Code.UNAVAILABLE, Duration.ofSeconds(2));
    assertTrue(attempts(SECOND).delay(late, true).isEmpty());
    AccelerdException never = Daemon.problem(Status.Code.UNAVAILABLE, Duration.ofDays(1_000_000));
    assertTrue(attempts(SECOND).delay(never, true).isEmpty());
  }

  @Test
  void withoutADeadlineRetriesEndAMinuteAfterTheFirstFailure() {
    Attempts attempts = attempts(Long.MAX_VALUE);
    now += 3600 * SECOND;
    assertTrue(attempts.delay(UNAVAILABLE, false).isPresent());
    now += 59 * SECOND;
    assertTrue(attempts.delay(UNAVAILABLE, false).isPresent());
    attempts.progressed();
    now += 59 * SECOND;
    assertTrue(attempts.delay(UNAVAILABLE, false).isPresent());
    now += 60 * SECOND;
    assertTrue(attempts.delay(UNAVAILABLE, false).isEmpty());
  }

  @Test
  void theLimitEndsRetries() {
    Attempts attempts = new Attempts(new RetryPolicy(3, () -> now, () -> random), SECOND, true);
    assertTrue(attempts.delay(UNAVAILABLE, false).isPresent());
    assertTrue(attempts.delay(UNAVAILABLE, false).isPresent());
    assertTrue(attempts.delay(UNAVAILABLE, false).isEmpty());
  }

  @Test
  void aClosedClientDoesNotRetry() {
    policy.close();
    assertTrue(attempts(SECOND).delay(UNAVAILABLE, false).isEmpty());
  }

  @Test
  void onlyUnavailableAndFullDaemonsAreRetried() {
    for (Status.Code code : Status.Code.values()) {
      boolean isRetried = code == Status.Code.UNAVAILABLE;
      assertEquals(isRetried, attempts(SECOND).delay(Daemon.problem(code, null), true).isPresent(), code.name());
      boolean isRetriedWithDelay = isRetried || code == Status.Code.RESOURCE_EXHAUSTED;
      AccelerdException hinted = Daemon.problem(code, Duration.ofMillis(1));
      assertEquals(isRetriedWithDelay, attempts(SECOND).delay(hinted, true).isPresent(), code.name());
    }
  }

  @Test
  void aCallThatIsNotIdempotentIsRetriedOnlyWhereTheDaemonDidNotExecuteIt() {
    assertTrue(new Attempts(policy, SECOND, false).delay(UNAVAILABLE, true).isEmpty());
    assertTrue(new Attempts(policy, SECOND, false).delay(UNAVAILABLE, false).isPresent());
    AccelerdException hinted = Daemon.problem(Status.Code.UNAVAILABLE, Duration.ofMillis(1));
    assertTrue(new Attempts(policy, SECOND, false).delay(hinted, true).isPresent());
  }

  @Test
  void anOverlongMessageIsNotRetried() {
    AccelerdException large = Daemon.problem(Status.Code.RESOURCE_EXHAUSTED, Duration.ofMillis(1), "MESSAGE_TOO_LARGE");
    assertEquals(OptionalLong.empty(), attempts(SECOND).delay(large, true));
  }

  @Test
  void theOptionOfAMethodSaysWhetherItIsIdempotent() {
    assertTrue(RetryPolicy.isIdempotent(EmbedServiceGrpc.getEmbedMethod()));
    assertTrue(RetryPolicy.isIdempotent(SimilarityServiceGrpc.getUpsertMethod()));
    assertFalse(RetryPolicy.isIdempotent(SimilarityServiceGrpc.getCreateCollectionMethod()));
    assertFalse(RetryPolicy.isIdempotent(TensorServiceGrpc.getExecuteMethod()));
  }

  @Test
  void aGraphIsIdempotentUnlessItKeepsOutputs() {
    Graph.Builder graph = Graph.builder().input("x", Tensor.scalar(1f)).output("x");
    assertTrue(ExecuteResult.operation(graph.build()).isIdempotent);
    assertFalse(ExecuteResult.operation(graph.keep("x").build()).isIdempotent);
  }
}
