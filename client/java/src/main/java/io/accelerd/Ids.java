package io.accelerd;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.github.accelerd.v1.PointIds;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** Ids of points, packed as bytes. */
final class Ids {
  private static final int UUID_BYTES = 16;

  private Ids() {}

  /** Encodes some of the numbers. */
  static PointIds numbers(long[] ids, int from, int to) {
    ByteBuffer bytes = ByteBuffer.allocate((to - from) * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    bytes.asLongBuffer().put(ids, from, to - from);
    return PointIds.newBuilder().setPackedNumbers(UnsafeByteOperations.unsafeWrap(bytes)).build();
  }

  static PointIds uuids(List<UUID> ids) {
    ByteBuffer bytes = ByteBuffer.allocate(ids.size() * UUID_BYTES);
    ids.forEach(id -> bytes.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()));
    return PointIds.newBuilder().setPackedUuids(ByteString.copyFrom(bytes.flip())).build();
  }

  /** Returns the ids in order, as {@code Long} or {@code UUID}. */
  static List<Object> decode(PointIds ids) {
    List<Object> decoded = new ArrayList<>(ids.getNumbersList());
    ids.getUuidsList().forEach(text -> decoded.add(UUID.fromString(text)));
    ByteBuffer numbers = ids.getPackedNumbers().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    while (numbers.remaining() >= Long.BYTES) {
      decoded.add(numbers.getLong());
    }
    ByteBuffer uuids = ids.getPackedUuids().asReadOnlyByteBuffer();
    while (uuids.remaining() >= UUID_BYTES) {
      decoded.add(new UUID(uuids.getLong(), uuids.getLong()));
    }
    return decoded;
  }
}
