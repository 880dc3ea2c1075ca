package io.accelerd;

import io.github.accelerd.v1.ExecuteRequest;
import io.github.accelerd.v1.ExecuteResponse;
import io.github.accelerd.v1.ResidentTensor;
import io.github.accelerd.v1.TensorOutput;
import io.github.accelerd.v1.TensorServiceGrpc;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** The outputs of a graph. */
public final class ExecuteResult {
  private final Map<String, Tensor> outputs = new LinkedHashMap<>();
  private final Map<String, ResidentTensor> kept = new LinkedHashMap<>();

  private ExecuteResult(ExecuteRequest request, ExecuteResponse response) {
    for (TensorOutput output : request.getOutputsList()) {
      if (output.getKeep() ? kept.size() == response.getKeptCount() : outputs.size() == response.getOutputsCount()) {
        throw AccelerdException.malformed("the output " + output.getName() + " is missing");
      }
      if (output.getKeep()) {
        kept.put(output.getName(), response.getKept(kept.size()));
      } else {
        outputs.put(output.getName(), Tensor.of(response.getOutputs(outputs.size())));
      }
    }
  }

  /** Returns the call, which may be repeated unless it keeps outputs. */
  static Operation<ExecuteRequest, ExecuteResponse, ExecuteResult> operation(Graph graph) {
    ExecuteRequest request = graph.toMessage();
    boolean isIdempotent = request.getOutputsList().stream().noneMatch(TensorOutput::getKeep);
    return new Operation<>(
        TensorServiceGrpc.getExecuteMethod(), request, response -> new ExecuteResult(request, response), isIdempotent);
  }

  /** An output. */
  public Tensor output(String name) {
    return required(outputs, name);
  }

  /** The outputs by name, in the order of the graph. */
  public Map<String, Tensor> outputs() {
    return Collections.unmodifiableMap(outputs);
  }

  /** An output that stays on the device. */
  public ResidentTensor kept(String name) {
    return required(kept, name);
  }

  private static <T> T required(Map<String, T> values, String name) {
    T value = values.get(name);
    if (value == null) {
      throw new IllegalArgumentException("output: expected one of " + values.keySet() + ", got " + name);
    }
    return value;
  }
}
