package io.accelerd;

import java.io.Serializable;
import java.util.Objects;

/** An invalid field of a request. */
public final class FieldViolation implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String field;
  private final String description;

  FieldViolation(String field, String description) {
    this.field = field;
    this.description = description;
  }

  /** Path in the request of the protocol, such as {@code limit} or {@code texts.values[3]}. */
  public String field() {
    return field;
  }

  /** What was expected, and what was given. */
  public String description() {
    return description;
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof FieldViolation)) {
      return false;
    }
    FieldViolation violation = (FieldViolation) other;
    return field.equals(violation.field) && description.equals(violation.description);
  }

  @Override
  public int hashCode() {
    return Objects.hash(field, description);
  }

  @Override
  public String toString() {
    return field + ": " + description;
  }
}
