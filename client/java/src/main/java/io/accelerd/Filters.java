package io.accelerd;

import io.github.accelerd.v1.Condition;
import io.github.accelerd.v1.Filter;
import io.github.accelerd.v1.NumberRange;
import io.github.accelerd.v1.ValueSet;
import java.util.Arrays;
import java.util.List;

/** Filters of points by their payload. A condition does not hold for a point without the field. */
public final class Filters {
  private Filters() {}

  /** Returns a filter for points that meet all conditions. */
  public static Filter all(Condition... conditions) {
    return Filter.newBuilder().addAllMust(Arrays.asList(conditions)).build();
  }

  /** Returns a filter for points that meet none of the conditions. */
  public static Filter none(Condition... conditions) {
    return Filter.newBuilder().addAllMustNot(Arrays.asList(conditions)).build();
  }

  /** Returns a filter for points that both filters accept. */
  public static Filter both(Filter first, Filter second) {
    if (first.hasIds() && second.hasIds()) {
      throw new IllegalArgumentException("expected ids in at most one of the filters, got them in both");
    }
    return first.toBuilder().mergeFrom(second).build();
  }

  /** Returns a filter for the points of these ids. */
  public static Filter ids(long... ids) {
    return Filter.newBuilder().setIds(Ids.numbers(ids, 0, ids.length)).build();
  }

  /** Returns a condition: the field equals a text, a number or a truth value. */
  public static Condition equal(String field, Object value) {
    return Condition.newBuilder().setField(field).setEquals(Values.encode(field, value)).build();
  }

  /** Returns a condition: the field equals one of these values. */
  public static Condition anyOf(String field, List<?> values) {
    ValueSet.Builder set = ValueSet.newBuilder();
    values.forEach(value -> set.addValues(Values.encode(field, value)));
    return Condition.newBuilder().setField(field).setAnyOf(set).build();
  }

  /** Returns a condition: {@code low <= field < high}, where null leaves a side open. */
  public static Condition range(String field, Number low, Number high) {
    NumberRange.Builder range = NumberRange.newBuilder();
    if (low != null) {
      range.setGte(Values.encode(field, low));
    }
    if (high != null) {
      range.setLt(Values.encode(field, high));
    }
    return Condition.newBuilder().setField(field).setNumberRange(range).build();
  }
}
