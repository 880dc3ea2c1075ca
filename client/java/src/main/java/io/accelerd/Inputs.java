package io.accelerd;

import io.github.accelerd.v1.TensorInput;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Named tensors of requests. */
final class Inputs {
  private Inputs() {}

  static List<TensorInput> of(Map<String, Tensor> tensors) {
    return tensors.entrySet().stream()
        .map(tensor -> TensorInput.newBuilder().setName(tensor.getKey()).setValue(tensor.getValue().toMessage()).build())
        .collect(Collectors.toList());
  }
}
