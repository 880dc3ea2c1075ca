package io.accelerd;

import io.grpc.CallOptions;
import io.grpc.ClientStreamTracer;
import io.grpc.Metadata;

/** Records whether an attempt was sent. One that was not had no connection, and the daemon has not executed it. */
final class Transmission extends ClientStreamTracer.Factory {
  static final CallOptions.Key<Transmission> KEY = CallOptions.Key.create("io.accelerd.transmission");

  private volatile boolean isSent;

  boolean isSent() {
    return isSent;
  }

  @Override
  public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
    return new ClientStreamTracer() {
      @Override
      public void outboundHeaders() {
        isSent = true;
      }
    };
  }
}
