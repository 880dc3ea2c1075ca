package io.accelerd;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.github.accelerd.v1.PayloadColumn;
import io.github.accelerd.v1.PayloadColumns;
import io.github.accelerd.v1.PointIds;
import io.github.accelerd.v1.StringColumn;
import io.github.accelerd.v1.UpsertRequest;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Points to write: an id each, vectors or texts, and optionally payloads. */
public final class Points {
  private final int size;
  private final Slice<PointIds> ids;
  private final Tensor vectors;
  private final long rowBytes;
  private final List<String> texts;
  private final List<? extends Map<String, ?>> payloads;
  private final List<Slice<PayloadColumn>> columns;
  private final String promptName;
  private final String prompt;

  /** Encodes the points from one index to another. */
  private interface Slice<T> {
    T encode(int from, int to);
  }

  private Points(Builder builder) {
    size = builder.size;
    ids = builder.ids;
    vectors = builder.vectors;
    rowBytes = vectors == null ? 0 : vectors.shape()[1] * Float.BYTES;
    texts = builder.texts;
    payloads = builder.payloads;
    columns = List.copyOf(builder.columns);
    promptName = builder.promptName;
    prompt = builder.prompt;
  }

  /** Begins points. */
  public static Builder builder() {
    return new Builder();
  }

  /** The number of points. */
  public int size() {
    return size;
  }

  /** Returns the request for the points from one index to another. */
  UpsertRequest request(String collection, int from, int to) {
    UpsertRequest.Builder request = UpsertRequest.newBuilder().setCollection(collection).setPromptName(promptName);
    request.setIds(ids.encode(from, to));
    if (vectors != null) {
      request.setVectors(vectors.rows(from, to).toMessage());
    } else {
      request.setTexts(Texts.input("texts", texts.subList(from, to)));
    }
    if (prompt != null) {
      request.setPrompt(prompt);
    }
    if (payloads != null) {
      payloads.subList(from, to).forEach(payload -> request.addPayloads(Values.encode(payload)));
    }
    if (!columns.isEmpty()) {
      PayloadColumns.Builder encoded = PayloadColumns.newBuilder();
      columns.forEach(column -> encoded.addColumns(column.encode(from, to)));
      request.setPayloadColumns(encoded);
    }
    return request.build();
  }

  /** The index after the points from {@code from} on that have at most these bytes of vectors or texts: at least one, if there is one. */
  int end(int from, int maxBytes, int maxPoints) {
    int end = from;
    long bytes = 0;
    while (end < size && end - from < maxPoints) {
      bytes += sizeOf(end);
      if (bytes > maxBytes && end > from) {
        break;
      }
      end++;
    }
    return end;
  }

  private long sizeOf(int index) {
    // A character has at most three bytes in UTF-8 for each of its units in UTF-16.
    return vectors == null ? 3L * texts.get(index).length() : rowBytes;
  }

  /** Builds points. */
  public static final class Builder {
    private int size;
    private Slice<PointIds> ids;
    private Tensor vectors;
    private List<String> texts;
    private List<? extends Map<String, ?>> payloads;
    private final List<Slice<PayloadColumn>> columns = new ArrayList<>();
    private final List<Integer> columnSizes = new ArrayList<>();
    private String promptName = "";
    private String prompt;

    private Builder() {}

    /** Sets the ids as numbers, which are not copied. */
    public Builder ids(long... ids) {
      this.ids = (from, to) -> Ids.numbers(ids, from, to);
      size = ids.length;
      return this;
    }

    /** Sets the ids as UUIDs. */
    public Builder ids(List<UUID> ids) {
      this.ids = (from, to) -> Ids.uuids(ids.subList(from, to));
      size = ids.size();
      return this;
    }

    /** Sets the vectors: f32 [points, dimensions]. */
    public Builder vectors(Tensor vectors) {
      this.vectors = vectors;
      return this;
    }

    /** Sets the vectors. */
    public Builder vectors(float[][] vectors) {
      return vectors(Tensor.of(vectors));
    }

    /** Sets texts, which the collection's model embeds. */
    public Builder texts(List<String> texts) {
      this.texts = texts;
      return this;
    }

    /** Sets a payload for each point: texts, numbers and truth values by field. Columns are several times cheaper. */
    public Builder payloads(List<? extends Map<String, ?>> payloads) {
      this.payloads = payloads;
      return this;
    }

    /** Sets a payload field of all points. */
    public Builder column(String field, long[] values) {
      return column(field, values.length, Long.BYTES, (bytes, index) -> bytes.putLong(values[index]), PayloadColumn.Builder::setInts);
    }

    /** Sets a payload field of all points. */
    public Builder column(String field, double[] values) {
      return column(
          field, values.length, Double.BYTES, (bytes, index) -> bytes.putDouble(values[index]), PayloadColumn.Builder::setDoubles);
    }

    /** Sets a payload field of all points. */
    public Builder column(String field, boolean[] values) {
      return column(field, values.length, 1, (bytes, index) -> bytes.put((byte) (values[index] ? 1 : 0)), PayloadColumn.Builder::setBools);
    }

    /** Sets a payload field of all points. */
    public Builder column(String field, List<String> values) {
      columnSizes.add(values.size());
      columns.add((from, to) -> {
        PayloadColumn.Builder column = PayloadColumn.newBuilder().setName(field);
        return column.setStrings(strings(field, values.subList(from, to))).build();
      });
      return this;
    }

    /** Sets the name of the model's prompt for the texts, instead of the collection's. */
    public Builder promptName(String name) {
      promptName = name;
      return this;
    }

    /** Sets the prompt for the texts itself; an empty one means none. */
    public Builder prompt(String text) {
      prompt = text;
      return this;
    }

    /** Returns the points. */
    public Points build() {
      if (ids == null) {
        throw new IllegalArgumentException("ids: expected an id for each point, got none");
      }
      if ((texts == null) == (vectors == null)) {
        throw new IllegalArgumentException("expected either texts or vectors, got " + (texts == null ? "neither" : "both"));
      }
      if (vectors != null && vectors.shape().length != 2) {
        throw new IllegalArgumentException("vectors: expected f32 [points, dimensions], got " + vectors);
      }
      check(texts == null ? "vectors" : "texts", texts == null ? vectors.shape()[0] : texts.size());
      check("payloads", payloads == null ? size : payloads.size());
      columnSizes.forEach(count -> check("column", count));
      return new Points(this);
    }

    private void check(String what, long count) {
      if (count != size) {
        throw new IllegalArgumentException(what + ": expected " + size + ", one for each id, got " + count);
      }
    }

    private interface Put {
      void put(ByteBuffer bytes, int index);
    }

    private interface Set {
      PayloadColumn.Builder set(PayloadColumn.Builder column, ByteString values);
    }

    private Builder column(String field, int count, int bytes, Put put, Set set) {
      columnSizes.add(count);
      columns.add((from, to) -> {
        ByteBuffer values = ByteBuffer.allocate((to - from) * bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (int index = from; index < to; index++) {
          put.put(values, index);
        }
        return set.set(PayloadColumn.newBuilder().setName(field), UnsafeByteOperations.unsafeWrap(values.flip())).build();
      });
      return this;
    }

    private static StringColumn strings(String field, List<String> values) {
      ByteBuffer offsets = ByteBuffer.allocate((values.size() + 1) * Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(0);
      List<ByteString> texts = Texts.encode(field, values);
      int size = 0;
      for (ByteString text : texts) {
        size += text.size();
        offsets.putInt(size);
      }
      ByteString packed = UnsafeByteOperations.unsafeWrap(offsets.flip());
      return StringColumn.newBuilder().setOffsets(packed).setData(ByteString.copyFrom(texts)).build();
    }
  }
}
