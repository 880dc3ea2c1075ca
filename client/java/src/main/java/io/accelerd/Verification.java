package io.accelerd;

import io.github.accelerd.v1.CaseVerdicts;
import io.github.accelerd.v1.VerifyCases;
import io.github.accelerd.v1.VerifyHeader;
import io.github.accelerd.v1.VerifyRequest;
import io.github.accelerd.v1.VerifyResponse;
import io.github.accelerd.v1.VerifyServiceGrpc;
import io.github.accelerd.v1.VerifySummary;
import io.grpc.Deadline;
import java.util.Iterator;
import java.util.function.Consumer;

/** A verification: a header, then chunks of cases. */
final class Verification {
  private Verification() {}

  static VerifySummary run(
      Caller caller, VerifyHeader header, Iterable<VerifyCases> chunks, Consumer<CaseVerdicts> onVerdicts, Deadline deadline) {
    Consumer<VerifyResponse> onResponse = response -> {
      if (response.hasCases()) {
        onVerdicts.accept(response.getCases());
      }
    };
    VerifyResponse last =
        RetriedStream.last(caller, VerifyServiceGrpc.getVerifyMethod(), () -> requests(header, chunks.iterator()), onResponse, deadline);
    if (!last.hasSummary()) {
      throw AccelerdException.malformed("the verification has no summary");
    }
    return last.getSummary();
  }

  private static Iterator<VerifyRequest> requests(VerifyHeader header, Iterator<VerifyCases> chunks) {
    return new Iterator<VerifyRequest>() {
      private boolean hasHeader;

      @Override
      public boolean hasNext() {
        return !hasHeader || chunks.hasNext();
      }

      @Override
      public VerifyRequest next() {
        if (hasHeader) {
          return VerifyRequest.newBuilder().setCases(chunks.next()).build();
        }
        hasHeader = true;
        return VerifyRequest.newBuilder().setHeader(header).build();
      }
    };
  }
}
