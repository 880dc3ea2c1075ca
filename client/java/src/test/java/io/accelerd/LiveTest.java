package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.accelerd.v1.CaseGenerator;
import io.github.accelerd.v1.Collection;
import io.github.accelerd.v1.DeviceKind;
import io.github.accelerd.v1.GetStatsResponse;
import io.github.accelerd.v1.GivenOutputs;
import io.github.accelerd.v1.Kernel;
import io.github.accelerd.v1.KernelProgram;
import io.github.accelerd.v1.Model;
import io.github.accelerd.v1.NodeKind;
import io.github.accelerd.v1.OutputType;
import io.github.accelerd.v1.ResidentTensor;
import io.github.accelerd.v1.VerifyCases;
import io.github.accelerd.v1.VerifyHeader;
import io.github.accelerd.v1.VerifySummary;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Calls that the golden suite does not make, against its daemon. */
@EnabledIfEnvironmentVariable(named = "ACCELERD_GOLDEN_TARGET", matches = ".+", disabledReason = "tests/golden starts the daemons")
class LiveTest {
  private static final KernelProgram DOUBLED =
      KernelProgram.newBuilder().setSource("def doubled(x: float) -> float:\n    return 2.0 * x\n").build();

  private AccelerdClient client;

  @BeforeEach
  void connect() {
    client = AccelerdClient.builder(System.getenv("ACCELERD_GOLDEN_TARGET")).connections(2).build();
  }

  @AfterEach
  void close() {
    client.close();
  }

  @Test
  void tokensEmbedAsTheirTexts() {
    List<String> texts = List.of("parse a date", "");
    List<int[]> tokens = client.tokenize(texts, options -> { });
    assertEquals(2, tokens.size());
    assertEquals(client.embed(texts).tensor(), client.embedTokens(tokens, options -> { }).tensor());
    Model model = client.models().get(0);
    assertEquals(model.getName(), client.embed(texts).model());
    assertEquals(List.of(tokens.get(0).length, 0), client.embed(texts).tokenCounts());
  }

  @Test
  void integersHaveScales() {
    Embeddings exact = client.embed(List.of("parse a date"));
    Embeddings rounded = client.embed(List.of("parse a date"), options -> options.setOutputType(OutputType.OUTPUT_TYPE_INT8));
    float scale = rounded.scales().orElseThrow().toFloats()[0];
    assertEquals(exact.vector(0)[0], rounded.tensor().toInts()[0] * scale, scale);
  }

  @Test
  void rerankingNeedsACrossEncoder() {
    AccelerdException failed =
        assertThrows(AccelerdException.class, () -> client.rerank("builtin", "query", List.of("document"), options -> { }));
    assertEquals(Status.Code.INVALID_ARGUMENT, failed.code());
  }

  @Test
  void streamsReturnEachBatch() {
    List<List<String>> batches =
        IntStream.range(0, 50).mapToObj(batch -> List.of("text " + batch, "x")).collect(Collectors.toList());
    try (Stream<BatchResult<Embeddings>> results = client.embedStream(batches.stream(), options -> { })) {
      Map<Long, Embeddings> found = results.collect(Collectors.toMap(BatchResult::index, BatchResult::get));
      assertEquals(50, found.size());
      assertEquals(client.embed(batches.get(7)).tensor(), found.get(7L).tensor());
    }
    try (Stream<BatchResult<List<ParsedSource>>> results =
        client.parseStream(Stream.of(List.of("x = 1"), List.of("y")), options -> { })) {
      Map<Long, List<ParsedSource>> found = results.collect(Collectors.toMap(BatchResult::index, BatchResult::get));
      assertEquals("y", found.get(1L).get(0).name(0));
    }
  }

  @Test
  void theErrorOfABatchDoesNotEndAStream() {
    try (Stream<BatchResult<Embeddings>> results =
        client.embedStream(Stream.of(List.of(), List.of("x")), options -> { })) {
      Map<Long, BatchResult<Embeddings>> found = results.collect(Collectors.toMap(BatchResult::index, result -> result));
      assertEquals(Status.Code.INVALID_ARGUMENT, assertThrows(AccelerdException.class, found.get(0L)::get).code());
      assertEquals(1, found.get(1L).get().size());
    }
  }

  @Test
  void treesHaveNamesAndValues() {
    ParsedSource source = client.parse(List.of("größe = 'a\\n'\n")).get(0);
    assertEquals(List.of(NodeKind.NODE_KIND_NAME, NodeKind.NODE_KIND_CONSTANT, NodeKind.NODE_KIND_ASSIGN),
        IntStream.range(0, source.nodeCount()).mapToObj(source::kind).collect(Collectors.toList()));
    assertEquals("größe", source.name(source.aux(0) / 4));
    assertEquals("a\n", source.value(source.aux(1)).toStringUtf8());
    assertEquals(2, source.parent(1));
    assertEquals(-1, source.parent(2));
    assertEquals("'a\\n'", source.text(1));
  }

  @Test
  void pointsOfUuidsAreWrittenInBulkAndRead() {
    CollectionClient collection = client.createCollection("live-java", options -> options.setDimensions(2));
    try {
      List<UUID> ids = IntStream.range(0, 300).mapToObj(index -> new UUID(index, -index)).collect(Collectors.toList());
      float[][] vectors = IntStream.range(0, 300).mapToObj(index -> new float[] {index, 1}).toArray(float[][]::new);
      List<String> paths = ids.stream().map(UUID::toString).collect(Collectors.toList());
      Points points = Points.builder().ids(ids).vectors(vectors).column("path", paths).build();
      assertEquals(300, collection.upsertAll(List.of(points)).insertedCount());
      assertEquals(300, collection.upsertAll(List.of(points)).updatedCount());
      List<StoredPoint> stored =
          collection.scroll(options -> options.setLimit(70).setIncludeVectors(true)).collect(Collectors.toList());
      assertEquals(ids, stored.stream().map(StoredPoint::id).collect(Collectors.toList()));
      assertEquals(paths.get(299), stored.get(299).payload().get("path"));
      assertArrayEquals(vectors[299], stored.get(299).vector().orElseThrow());
      assertEquals(300, collection.count());
      Collection described = collection.describe();
      assertEquals(described, client.collections().stream().filter(one -> one.getName().equals("live-java")).findAny().orElseThrow());
      assertEquals(3, Arrays.stream(collection.cluster(3, options -> { }).assignments()).distinct().count());
    } finally {
      collection.delete();
    }
    assertEquals(Status.Code.NOT_FOUND, assertThrows(AccelerdException.class, collection::describe).code());
  }

  @Test
  void pointsAreReadById() {
    CollectionClient collection = client.createCollection("live-java-numbers", options -> options.setDimensions(2));
    try {
      collection.upsertAsync(Points.builder().ids(5, -1).vectors(new float[][] {{1, 0}, {0, 1}}).build()).join();
      List<StoredPoint> found = collection.get(new long[] {-1, 7}, options -> { });
      assertEquals(List.of(-1L), found.stream().map(StoredPoint::id).collect(Collectors.toList()));
      assertEquals(5, collection.searchByIds(new long[] {5}, 1, options -> { }).get(0).get(0).number());
    } finally {
      collection.delete();
    }
  }

  @Test
  void rowsAreComparedAndClustered() {
    Tensor rows = Tensor.of(new float[][] {{0, 1}, {0, 2}, {5, 0}, {6, 0}});
    Neighbors neighbors = client.findSimilar(rows.rows(0, 1), rows, 2, options -> { });
    assertArrayEquals(new int[] {0, 1}, neighbors.indices(0));
    assertArrayEquals(new float[] {1, 1}, neighbors.scores(0), 1e-6f);
    int[] assignments = client.cluster(rows, 2, options -> { }).assignments();
    assertEquals(assignments[0], assignments[1]);
    assertEquals(assignments[2], assignments[3]);
    assertFalse(assignments[0] == assignments[2]);
  }

  @Test
  void tensorsStayOnTheDaemon() {
    float[] elements = new float[300_000];
    for (int index = 0; index < elements.length; index++) {
      elements[index] = index;
    }
    Tensor tensor = Tensor.of(elements);
    ResidentTensor uploaded = client.upload(tensor, options -> options.setDevice("cpu"));
    Graph graph = Graph.builder().input("x", uploaded).node("y", "neg", "x").keep("y").keepFor(Duration.ofMinutes(1)).build();
    ResidentTensor kept = client.execute(graph).kept("y");
    assertEquals(tensor, client.download(uploaded));
    assertEquals(-7f, client.download(kept).floatBuffer().get(7));
    List<String> handles = client.tensors().stream().map(ResidentTensor::getHandle).collect(Collectors.toList());
    assertTrue(handles.containsAll(List.of(uploaded.getHandle(), kept.getHandle())));
    client.free(uploaded, kept);
    assertEquals(Status.Code.NOT_FOUND, assertThrows(AccelerdException.class, () -> client.download(kept)).code());
  }

  @Test
  void kernelsAreKeptAndEvicted() {
    Kernel kernel = client.compile(DOUBLED);
    LaunchResult launched = client.launch(kernel, Map.of("x", Tensor.of(new double[] {1, 2})), options -> { });
    assertArrayEquals(new double[] {2, 4}, launched.outputs().values().iterator().next().toDoubles());
    assertTrue(client.kernels().contains(kernel));
    client.evict(kernel);
    assertFalse(client.kernels().contains(kernel));
  }

  @Test
  void functionsAreVerifiedOnGeneratedCases() {
    KernelProgram added = KernelProgram.newBuilder().setSource("def doubled(x: float) -> float:\n    return x + x\n").build();
    VerifyHeader header = VerifyHeader.newBuilder().setKernel(DOUBLED).setReferenceKernel(added)
        .setGenerator(CaseGenerator.newBuilder().setCaseCount(1000)).build();
    VerifySummary summary = client.verify(header);
    assertTrue(summary.getPassed());
    assertEquals(1000, summary.getCaseCount());
  }

  @Test
  void chunksOfCasesAreVerified() {
    VerifyHeader header = VerifyHeader.newBuilder().setKernel(DOUBLED)
        .setExpectedOutputs(GivenOutputs.getDefaultInstance()).build();
    List<VerifyCases> chunks = new ArrayList<>();
    for (double input : new double[] {1, 3}) {
      chunks.add(VerifyCases.newBuilder().addAllInputs(Inputs.of(Map.of("x", Tensor.of(new double[] {input, input}))))
          .addAllExpected(Inputs.of(Map.of("result", Tensor.of(new double[] {2, 2 * input})))).build());
    }
    List<Long> failed = new ArrayList<>();
    VerifySummary summary = client.verify(header, chunks, verdicts -> failed.add(verdicts.getFailedCount()));
    assertEquals(List.of(0L, 1L), failed);
    assertEquals(1, summary.getFailedCount());
    assertEquals(4, summary.getCaseCount());
  }

  @Test
  void theDaemonIsDescribed() {
    assertTrue(client.devices().stream().anyMatch(device -> device.getKind() == DeviceKind.DEVICE_KIND_CPU));
    assertFalse(client.stats().getDraining());
    try (Stream<GetStatsResponse> samples = client.watch(Duration.ofMillis(100))) {
      assertEquals(2, samples.limit(2).count());
    }
    assertThrows(AccelerdException.class, () -> client.watch(Duration.ofMillis(1)).count());
    AccelerdException denied = assertThrows(AccelerdException.class, () -> client.drain(Duration.ofSeconds(1)));
    assertEquals(Status.Code.PERMISSION_DENIED, denied.code());
    assertEquals(Status.Code.PERMISSION_DENIED, assertThrows(AccelerdException.class, client::resume).code());
  }
}
