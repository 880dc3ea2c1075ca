package io.accelerd;

import io.github.accelerd.v1.Payload;
import io.github.accelerd.v1.Value;
import java.util.LinkedHashMap;
import java.util.Map;

/** Values of payload fields. */
final class Values {
  private Values() {}

  static Value encode(String field, Object value) {
    Value.Builder message = Value.newBuilder();
    if (value instanceof String) {
      return message.setStringValue((String) value).build();
    }
    if (value instanceof Boolean) {
      return message.setBoolValue((Boolean) value).build();
    }
    if (value instanceof Double || value instanceof Float) {
      return message.setDoubleValue(((Number) value).doubleValue()).build();
    }
    if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
      return message.setIntValue(((Number) value).longValue()).build();
    }
    String got = value == null ? "null" : value.getClass().getName();
    throw new IllegalArgumentException(field + ": expected a String, an integer, a floating-point number or a Boolean, got " + got);
  }

  static Payload encode(Map<String, ?> payload) {
    Payload.Builder message = Payload.newBuilder();
    payload.forEach((field, value) -> message.putFields(field, encode(field, value)));
    return message.build();
  }

  static Map<String, Object> decode(Payload payload) {
    Map<String, Object> decoded = new LinkedHashMap<>();
    payload.getFieldsMap().forEach((field, value) -> decoded.put(field, decode(value)));
    return decoded;
  }

  private static Object decode(Value value) {
    switch (value.getKindCase()) {
      case STRING_VALUE:
        return value.getStringValue();
      case INT_VALUE:
        return value.getIntValue();
      case DOUBLE_VALUE:
        return value.getDoubleValue();
      case BOOL_VALUE:
        return value.getBoolValue();
      default:
        throw AccelerdException.malformed("a payload field without a value");
    }
  }
}
