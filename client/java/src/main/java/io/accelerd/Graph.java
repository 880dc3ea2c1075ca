package io.accelerd;

import io.github.accelerd.v1.ExecuteRequest;
import io.github.accelerd.v1.ResidentTensor;
import io.github.accelerd.v1.TensorAttribute;
import io.github.accelerd.v1.TensorInput;
import io.github.accelerd.v1.TensorIntegers;
import io.github.accelerd.v1.TensorNode;
import io.github.accelerd.v1.TensorOutput;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** A graph of tensor operations with its inputs. Operations have the names and attributes of PyTorch. */
public final class Graph {
  private final ExecuteRequest request;

  private Graph(ExecuteRequest request) {
    this.request = request;
  }

  /** Begins a graph. */
  public static Builder builder() {
    return new Builder();
  }

  /** The graph as a request. */
  public ExecuteRequest toMessage() {
    return request;
  }

  /** Builds a graph. Names of inputs and nodes are unique among both. */
  public static final class Builder {
    private final ExecuteRequest.Builder request = ExecuteRequest.newBuilder();

    private Builder() {}

    /** Adds an input. */
    public Builder input(String name, Tensor tensor) {
      request.addInputs(TensorInput.newBuilder().setName(name).setValue(tensor.toMessage()));
      return this;
    }

    /** Adds a resident tensor as an input. */
    public Builder input(String name, ResidentTensor tensor) {
      request.addInputs(TensorInput.newBuilder().setName(name).setHandle(tensor.getHandle()));
      return this;
    }

    /** Adds an operation on inputs or other nodes. */
    public Builder node(String name, String op, String... inputs) {
      return node(name, op, Arrays.asList(inputs), Map.of());
    }

    /**
     * Adds an operation with attributes: truth values, integers, floating-point numbers, texts, {@code long[]}, {@code int[]} or lists of
     * integers.
     */
    public Builder node(String name, String op, List<String> inputs, Map<String, ?> attributes) {
      TensorNode.Builder node = TensorNode.newBuilder().setName(name).setOp(op).addAllInputs(inputs);
      attributes.forEach((attribute, value) -> node.putAttributes(attribute, attribute(attribute, value)));
      request.addNodes(node);
      return this;
    }

    /** Returns the value of a node or an input. */
    public Builder output(String name) {
      request.addOutputs(TensorOutput.newBuilder().setName(name));
      return this;
    }

    /** Keeps the value of a node on the device. */
    public Builder keep(String name) {
      request.addOutputs(TensorOutput.newBuilder().setName(name).setKeep(true));
      return this;
    }

    /** Sets how long kept values stay after their last use. */
    public Builder keepFor(Duration ttl) {
      request.setKeepTtl(Durations.message(ttl));
      return this;
    }

    /** Sets the device, such as {@code cpu} or {@code cuda:0}. */
    public Builder device(String device) {
      request.setDevice(device);
      return this;
    }

    /** Returns the graph. */
    public Graph build() {
      return new Graph(request.build());
    }

    private static TensorAttribute attribute(String name, Object value) {
      TensorAttribute.Builder attribute = TensorAttribute.newBuilder();
      if (value instanceof Boolean) {
        return attribute.setBoolean((Boolean) value).build();
      }
      if (value instanceof Integer || value instanceof Long) {
        return attribute.setInteger(((Number) value).longValue()).build();
      }
      if (value instanceof Double || value instanceof Float) {
        return attribute.setNumber(((Number) value).doubleValue()).build();
      }
      if (value instanceof String) {
        return attribute.setText((String) value).build();
      }
      return attribute.setIntegers(TensorIntegers.newBuilder().addAllValues(integers(name, value))).build();
    }

    private static List<Long> integers(String name, Object value) {
      List<Long> integers = new ArrayList<>();
      if (value instanceof long[]) {
        Arrays.stream((long[]) value).forEach(integers::add);
      } else if (value instanceof int[]) {
        Arrays.stream((int[]) value).asLongStream().forEach(integers::add);
      } else if (value instanceof List && ((List<?>) value).stream().allMatch(one -> one instanceof Integer || one instanceof Long)) {
        ((List<?>) value).forEach(one -> integers.add(((Number) one).longValue()));
      } else {
        String got = value == null ? "null" : value.getClass().getName();
        throw new IllegalArgumentException(name + ": expected a truth value, a number, a text or a list of integers, got " + got);
      }
      return integers;
    }
  }
}
