package io.accelerd;

import io.github.accelerd.v1.KernelDevice;
import io.github.accelerd.v1.KernelServiceGrpc;
import io.github.accelerd.v1.LaunchRequest;
import io.github.accelerd.v1.LaunchResponse;
import io.github.accelerd.v1.NamedTensor;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;

/** What a kernel computed. */
public final class LaunchResult {
  private final Map<String, Tensor> outputs = new LinkedHashMap<>();
  private final LaunchResponse response;

  private LaunchResult(LaunchResponse response) {
    if (response.hasFault()) {
      throw new KernelFaultException(response.getFault());
    }
    this.response = response;
    for (NamedTensor output : response.getOutputsList()) {
      outputs.put(output.getName(), Tensor.of(output.getValue()));
    }
  }

  static Operation<LaunchRequest, LaunchResponse, LaunchResult> operation(
      LaunchRequest.Builder kernel, Map<String, Tensor> arguments, Consumer<LaunchRequest.Builder> options) {
    kernel.addAllArguments(Inputs.of(arguments));
    options.accept(kernel);
    return new Operation<>(KernelServiceGrpc.getLaunchMethod(), kernel.build(), LaunchResult::new);
  }

  /** An array that the kernel wrote. */
  public Tensor output(String name) {
    Tensor output = outputs.get(name);
    if (output == null) {
      throw new IllegalArgumentException("output: expected one of " + outputs.keySet() + ", got " + name);
    }
    return output;
  }

  /** The arrays that the kernel wrote, by name. */
  public Map<String, Tensor> outputs() {
    return Collections.unmodifiableMap(outputs);
  }

  /** How long its threads ran, without transfers. */
  public Duration executionTime() {
    return Durations.of(response.getExecutionTime());
  }

  /** Where it ran. */
  public KernelDevice device() {
    return response.getDevice();
  }
}
