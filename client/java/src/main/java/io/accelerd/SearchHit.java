package io.accelerd;

import io.github.accelerd.v1.Hit;
import java.util.Collections;
import java.util.Map;
import java.util.UUID;

/** A point that a search found. */
public final class SearchHit {
  private final Hit hit;
  private final Map<String, Object> payload;

  SearchHit(Hit hit) {
    this.hit = hit;
    payload = Collections.unmodifiableMap(Values.decode(hit.getPayload()));
  }

  /** The id: a {@code Long} or a {@code UUID}. */
  public Object id() {
    return hit.getIdCase() == Hit.IdCase.UUID ? UUID.fromString(hit.getUuid()) : (Object) hit.getNumber();
  }

  /** The id, if the collection's are numbers. */
  public long number() {
    if (hit.getIdCase() != Hit.IdCase.NUMBER) {
      throw new IllegalStateException("expected an id that is a number, got the UUID " + hit.getUuid());
    }
    return hit.getNumber();
  }

  /** The value of the collection's metric; in a hybrid search the fused score. */
  public float score() {
    return hit.getScore();
  }

  /** The payload by field: {@code String}, {@code Long}, {@code Double} or {@code Boolean}. Empty unless it was requested. */
  public Map<String, Object> payload() {
    return payload;
  }

  @Override
  public String toString() {
    return id() + " (" + score() + ") " + payload;
  }
}
