package io.accelerd;

import io.github.accelerd.v1.KernelFault;
import io.github.accelerd.v1.KernelFaultKind;
import java.util.Locale;

/** A kernel ended early, because it did what its dialect forbids. */
public final class KernelFaultException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final KernelFault fault;

  KernelFaultException(KernelFault fault) {
    super(describe(fault));
    this.fault = fault;
  }

  /** What happened, and where. */
  public KernelFault fault() {
    return fault;
  }

  private static String describe(KernelFault fault) {
    String place = ", in thread " + Long.toUnsignedString(fault.getThread()) + ", line " + fault.getLine();
    if (fault.getKind() == KernelFaultKind.KERNEL_FAULT_KIND_OUT_OF_BOUNDS) {
      return "index " + fault.getIndex() + " is out of bounds for dimension " + fault.getDimension() + " of '" + fault.getArray()
          + "' with extent " + fault.getExtent() + place;
    }
    String kind = fault.getKind().name().substring("KERNEL_FAULT_KIND_".length()).toLowerCase(Locale.ROOT).replace('_', ' ');
    return (fault.getVariable().isEmpty() ? kind : kind + " of '" + fault.getVariable() + "'") + place;
  }
}
