package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.accelerd.v1.ItemError;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.net.ConnectException;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;

class AccelerdExceptionTest {
  @Test
  void detailsOfAStatusAreRead() {
    AccelerdException problem = Daemon.problem(Status.Code.RESOURCE_EXHAUSTED, Duration.ofMillis(1500), "QUEUE_FULL");
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, problem.code());
    assertEquals("QUEUE_FULL", problem.reason());
    assertEquals(Map.of("asked", "7"), problem.metadata());
    assertEquals(Optional.of(Duration.ofMillis(1500)), problem.retryDelay());
    assertEquals("scripted", problem.description());
    assertEquals("RESOURCE_EXHAUSTED: scripted", problem.getMessage());
    assertEquals("", problem.field());
  }

  @Test
  void fieldsAndResourcesAreNamed() {
    AccelerdException problem = AccelerdException.of(Daemon.invalid("limit", "code"));
    assertEquals("limit", problem.field());
    assertEquals("expected 1, got 0", problem.violations().get(0).description());
    assertEquals("code", problem.resource());
    assertEquals(Optional.empty(), problem.retryDelay());
    assertEquals("", problem.reason());
  }

  @Test
  void errorsOfFuturesAndItemsAreConverted() {
    StatusRuntimeException cause = Status.NOT_FOUND.withDescription("absent").asRuntimeException();
    AccelerdException problem = AccelerdException.of(new ExecutionException(cause));
    assertEquals(Status.Code.NOT_FOUND, problem.code());
    assertSame(cause, problem.getCause());
    assertSame(problem, AccelerdException.of(problem));
    AccelerdException item = AccelerdException.of(ItemError.newBuilder().setCode(3).setMessage("no").build());
    assertEquals("INVALID_ARGUMENT: no", item.getMessage());
  }

  @Test
  void theCauseOfABrokenConnectionIsInTheMessage() {
    Status status = Status.UNAVAILABLE.withDescription("io exception").withCause(new ConnectException("Connection refused"));
    assertEquals("UNAVAILABLE: io exception: Connection refused", AccelerdException.of(status.asRuntimeException()).getMessage());
  }

  @Test
  void detailsCannotBeChanged() {
    AccelerdException problem = Daemon.problem(Status.Code.UNAVAILABLE, null, "DRAINING");
    assertThrows(UnsupportedOperationException.class, () -> problem.metadata().put("a", "b"));
    assertTrue(problem.violations().isEmpty());
  }
}
