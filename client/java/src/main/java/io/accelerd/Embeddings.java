package io.accelerd;

import io.github.accelerd.v1.EmbedRequest;
import io.github.accelerd.v1.EmbedResponse;
import io.github.accelerd.v1.EmbedServiceGrpc;
import io.github.accelerd.v1.TokenInput;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;

/** The vectors of texts, in the order of the request. */
public final class Embeddings {
  private final Tensor vectors;
  private final Tensor scales;
  private final List<Integer> tokenCounts;
  private final String model;

  private Embeddings(EmbedResponse response) {
    vectors = Tensor.of(response.getEmbeddings());
    scales = response.hasScales() ? Tensor.of(response.getScales()) : null;
    tokenCounts = List.copyOf(response.getTokenCountsList());
    model = response.getModel();
    if (vectors.shape().length != 2) {
      throw AccelerdException.malformed("embeddings of the shape " + vectors);
    }
  }

  static Embeddings of(EmbedResponse response) {
    return new Embeddings(response);
  }

  static Operation<EmbedRequest, EmbedResponse, Embeddings> operation(EmbedRequest request) {
    return new Operation<>(EmbedServiceGrpc.getEmbedMethod(), request, Embeddings::new);
  }

  static EmbedRequest request(List<String> texts, Consumer<EmbedRequest.Builder> options) {
    EmbedRequest.Builder request = EmbedRequest.newBuilder().setTexts(Texts.input("texts", texts));
    options.accept(request);
    return request.build();
  }

  static EmbedRequest tokensRequest(List<int[]> tokens, Consumer<EmbedRequest.Builder> options) {
    TokenInput.Builder input = TokenInput.newBuilder().addOffsets(0);
    for (int[] ids : tokens) {
      for (int id : ids) {
        input.addIds(id);
      }
      input.addOffsets(input.getIdsCount());
    }
    EmbedRequest.Builder request = EmbedRequest.newBuilder().setTokens(input);
    options.accept(request);
    return request.build();
  }

  /** The vectors as rows of a tensor: one for each text, for each span if the request has spans, or for each token without pooling. */
  public Tensor tensor() {
    return vectors;
  }

  /** The number of vectors. */
  public int size() {
    return (int) vectors.shape()[0];
  }

  /** The number of elements of a vector. */
  public int dimensions() {
    return (int) vectors.shape()[1];
  }

  /** Copies a vector of f32, f16 or bf16. */
  public float[] vector(int index) {
    return vectors.rows(index, index + 1).toFloats();
  }

  /** Copies all vectors of f32, f16 or bf16. */
  public float[][] vectors() {
    float[][] rows = new float[size()][];
    for (int index = 0; index < rows.length; index++) {
      rows[index] = vector(index);
    }
    return rows;
  }

  /** The scale of each vector, if their type is INT8. */
  public Optional<Tensor> scales() {
    return Optional.ofNullable(scales);
  }

  /** The tokens of each text that the model read, special tokens included. */
  public List<Integer> tokenCounts() {
    return tokenCounts;
  }

  /** The name of the model. */
  public String model() {
    return model;
  }
}
