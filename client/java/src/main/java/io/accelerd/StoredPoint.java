package io.accelerd;

import java.util.Collections;
import java.util.Map;
import java.util.Optional;

/** A point of a collection. */
public final class StoredPoint {
  private final Object id;
  private final Map<String, Object> payload;
  private final float[] vector;

  StoredPoint(Object id, Map<String, Object> payload, float[] vector) {
    this.id = id;
    this.payload = Collections.unmodifiableMap(payload);
    this.vector = vector;
  }

  /** The id: a {@code Long} or a {@code UUID}. */
  public Object id() {
    return id;
  }

  /** The payload by field: {@code String}, {@code Long}, {@code Double} or {@code Boolean}. */
  public Map<String, Object> payload() {
    return payload;
  }

  /** The vector, if it was requested. */
  public Optional<float[]> vector() {
    return Optional.ofNullable(vector).map(float[]::clone);
  }
}
