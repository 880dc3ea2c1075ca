package io.accelerd;

import com.google.protobuf.ByteString;
import io.github.accelerd.v1.DownloadTensorRequest;
import io.github.accelerd.v1.DownloadTensorResponse;
import io.github.accelerd.v1.ResidentTensor;
import io.github.accelerd.v1.TensorServiceGrpc;
import io.github.accelerd.v1.UploadTensorHeader;
import io.github.accelerd.v1.UploadTensorRequest;
import io.github.accelerd.v1.UploadTensorResponse;
import io.grpc.Deadline;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;

/** Uploads and downloads of resident tensors, in chunks. */
final class TensorTransfers {
  private static final int CHUNK_BYTES = 1 << 20;

  private TensorTransfers() {}

  static ResidentTensor upload(Caller caller, Tensor tensor, UploadTensorHeader header, Deadline deadline) {
    io.github.accelerd.v1.Tensor message = tensor.toMessage();
    UploadTensorHeader complete =
        header.toBuilder().setDtype(message.getDtype()).addAllShape(message.getShapeList()).build();
    List<UploadTensorRequest> chunks = chunks(complete, message.getData());
    UploadTensorResponse response =
        RetriedStream.last(caller, TensorServiceGrpc.getUploadTensorMethod(), chunks, uploaded -> { }, deadline);
    return response.getTensor();
  }

  static Tensor download(Caller caller, ResidentTensor tensor) {
    DownloadTensorRequest request = DownloadTensorRequest.newBuilder().setHandle(tensor.getHandle()).build();
    ByteString data = ByteString.EMPTY;
    ResidentTensor header = tensor;
    try (Stream<DownloadTensorResponse> responses = caller.responses(TensorServiceGrpc.getDownloadTensorMethod(), request)) {
      Iterator<DownloadTensorResponse> chunks = responses.iterator();
      List<ByteString> received = new ArrayList<>();
      while (chunks.hasNext()) {
        DownloadTensorResponse chunk = chunks.next();
        header = chunk.hasTensor() ? chunk.getTensor() : header;
        received.add(chunk.getData());
      }
      data = ByteString.copyFrom(received);
    }
    return Tensor.of(io.github.accelerd.v1.Tensor.newBuilder()
        .setDtype(header.getDtype()).addAllShape(header.getShapeList()).setData(data).build());
  }

  private static List<UploadTensorRequest> chunks(UploadTensorHeader header, ByteString data) {
    List<UploadTensorRequest> chunks = new ArrayList<>();
    for (int start = 0; start < data.size() || chunks.isEmpty(); start += CHUNK_BYTES) {
      UploadTensorRequest.Builder chunk =
          UploadTensorRequest.newBuilder().setData(data.substring(start, Math.min(start + CHUNK_BYTES, data.size())));
      chunks.add((chunks.isEmpty() ? chunk.setHeader(header) : chunk).build());
    }
    return chunks;
  }
}
