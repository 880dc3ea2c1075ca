package io.accelerd;

import java.time.Duration;
import java.time.temporal.ChronoUnit;

/** Conversions of durations. */
final class Durations {
  /** The longest time that fits into nanoseconds of 64 bits, which no call takes. */
  private static final Duration MAX = Duration.ofNanos(Long.MAX_VALUE);

  private Durations() {}

  static Duration of(com.google.protobuf.Duration message) {
    return Duration.ofSeconds(message.getSeconds(), message.getNanos());
  }

  static com.google.protobuf.Duration message(Duration duration) {
    return com.google.protobuf.Duration.newBuilder().setSeconds(duration.getSeconds()).setNanos(duration.getNano()).build();
  }

  static long nanos(Duration duration) {
    return duration.compareTo(MAX) < 0 ? duration.toNanos() : Long.MAX_VALUE;
  }

  /** Whether a timeout stands for none. */
  static boolean isForever(Duration timeout) {
    return timeout.equals(ChronoUnit.FOREVER.getDuration());
  }
}
