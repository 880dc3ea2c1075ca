package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.github.accelerd.v1.CloseTolerance;
import io.github.accelerd.v1.CompareOutputsResponse;
import io.github.accelerd.v1.ComparisonPolicy;
import io.github.accelerd.v1.Diagnostic;
import io.github.accelerd.v1.Filter;
import io.github.accelerd.v1.Kernel;
import io.github.accelerd.v1.KernelFault;
import io.github.accelerd.v1.KernelProgram;
import io.github.accelerd.v1.Mismatch;
import io.github.accelerd.v1.ParseOutput;
import io.github.accelerd.v1.Tolerance;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The golden suite: calls of all clients with the answers that they expect. tests/golden starts the daemons. */
@EnabledIfEnvironmentVariable(named = "ACCELERD_GOLDEN_CASES", matches = ".+", disabledReason = "tests/golden starts the daemons")
class GoldenTest {
  private static JsonObject cases;
  private AccelerdClient client;

  @BeforeEach
  void connect() throws IOException {
    cases = JsonParser.parseString(Files.readString(Path.of(variable("CASES")))).getAsJsonObject();
    client = AccelerdClient.builder(variable("TARGET")).build();
  }

  @AfterEach
  void close() {
    client.close();
  }

  @Test
  void embed() {
    checkEmbedding(client.embed(texts()));
    checkEmbedding(client.embedAsync(texts(), options -> { }).join());
  }

  @Test
  void search() {
    JsonObject golden = cases.getAsJsonObject("search");
    Filter filter = where(golden);
    CollectionClient collection =
        client.createCollection("golden-java", options -> options.setDimensions(golden.getAsJsonArray("query").size()));
    try {
      long[] ids = longs(golden, "ids");
      Points points =
          Points.builder().ids(ids).vectors(matrix(golden, "vectors")).payloads(payloads(golden.getAsJsonArray("payloads"))).build();
      assertEquals(ids.length, collection.upsert(points).insertedCount());
      assertEquals(golden.get("count_where").getAsLong(), collection.count(filter));
      for (String expected : List.of("hits", "hits_after_delete")) {
        Tensor query = Tensor.of(floats(golden, "query")).reshape(1, golden.getAsJsonArray("query").size());
        List<SearchHit> hits =
            collection.search(query, golden.get("k").getAsInt(), options -> options.setFilter(filter)).get(0);
        checkHits(golden.getAsJsonArray(expected), golden.get("tolerance").getAsFloat(), hits);
        collection.deletePoints(Filters.ids(longs(golden, "deleted")));
      }
    } finally {
      collection.delete();
    }
  }

  @Test
  void parse() {
    JsonObject golden = cases.getAsJsonObject("parse");
    List<ParsedSource> sources = client.parse(
        List.of(golden.get("source").getAsString(), golden.get("broken").getAsString()),
        options -> options.addOutputs(ParseOutput.PARSE_OUTPUT_TREE).addOutputs(ParseOutput.PARSE_OUTPUT_OUTLINE));
    ParsedSource parsed = sources.get(0);
    assertEquals(golden.get("node_count").getAsInt(), parsed.nodeCount());
    List<String> outline = IntStream.range(0, parsed.outline().size())
        .mapToObj(index -> parsed.qualifiedName(index) + ":" + parsed.outline().get(index).getLine())
        .collect(Collectors.toList());
    List<String> expected = objects(golden, "outline")
        .map(item -> item.get("qualified_name").getAsString() + ":" + item.get("line").getAsInt())
        .collect(Collectors.toList());
    assertEquals(expected, outline);
    Diagnostic found = sources.get(1).diagnostic().orElseThrow();
    JsonObject diagnostic = golden.getAsJsonObject("diagnostic");
    assertEquals(diagnostic.get("message").getAsString(), found.getMessage());
    assertEquals(diagnostic.get("line").getAsInt(), found.getLineno());
    assertEquals(diagnostic.get("offset").getAsInt(), found.getOffset());
  }

  @Test
  void tensor() {
    JsonObject golden = cases.getAsJsonObject("tensor");
    Graph graph = Graph.builder()
        .input("a", Tensor.of(matrix(golden, "a")))
        .input("b", Tensor.of(matrix(golden, "b")))
        .node("product", "matmul", "a", "b")
        .node("softmax", "softmax", List.of("product"), Map.of("dim", -1))
        .output("softmax")
        .build();
    float[][] expected = matrix(golden, "softmax_of_product");
    Tensor computed = client.execute(graph).output("softmax");
    assertArrayEquals(new long[] {expected.length, expected[0].length}, computed.shape());
    assertArrayEquals(Tensor.of(expected).toFloats(), computed.toFloats(), golden.get("tolerance").getAsFloat());
  }

  @Test
  void kernel() {
    JsonObject golden = cases.getAsJsonObject("kernel");
    Kernel compiled = client.compile(program(golden));
    Map<String, Tensor> arguments = Map.of(
        "a", Tensor.scalar(golden.get("a").getAsFloat()), "x", Tensor.of(floats(golden, "x")), "y", Tensor.of(floats(golden, "y")));
    LaunchResult launched = client.launch(compiled, arguments, options -> options.addAllGrid(grid(golden, "grid")));
    assertArrayEquals(floats(golden, "written_y"), launched.output("y").toFloats());
    KernelFault fault = assertThrows(
        KernelFaultException.class,
        () -> client.launch(compiled, arguments, options -> options.addAllGrid(grid(golden, "faulting_grid")))).fault();
    JsonObject expected = golden.getAsJsonObject("fault");
    assertEquals(expected.get("kind").getAsString(), fault.getKind().name());
    assertEquals(expected.get("thread").getAsLong(), fault.getThread());
    assertEquals(expected.get("line").getAsInt(), fault.getLine());
    assertEquals(expected.get("index").getAsLong(), fault.getIndex());
    assertEquals(expected.get("extent").getAsLong(), fault.getExtent());
  }

  @Test
  void verify() {
    JsonObject golden = cases.getAsJsonObject("verify");
    CompareOutputsResponse compared = compare(golden, "rtol");
    assertEquals(golden.get("passed").getAsBoolean(), compared.getPassed());
    assertEquals(golden.get("failed_count").getAsLong(), compared.getOutputs(0).getDifferences().getFailedCount());
    Mismatch mismatch = compared.getOutputs(0).getDifferences().getMismatches(0);
    JsonObject expected = golden.getAsJsonObject("mismatch");
    assertEquals(expected.get("index").getAsLong(), mismatch.getIndex());
    assertEquals(expected.get("actual").getAsDouble(), mismatch.getActual());
    assertEquals(expected.get("expected").getAsDouble(), mismatch.getExpected());
    assertTrue(compare(golden, "passing_rtol").getPassed());
  }

  @Test
  void errors() {
    objects(cases, "errors").forEach(golden -> {
      AccelerdException failed = assertThrows(AccelerdException.class, () -> call(golden));
      assertEquals(golden.get("code").getAsString(), failed.code().name());
      assertEquals(golden.get("reason").getAsString(), failed.reason());
      assertEquals(golden.get("message").getAsString(), failed.description());
      List<String> fields = failed.violations().stream().map(FieldViolation::field).collect(Collectors.toList());
      assertEquals(strings(golden, "fields"), fields);
    });
  }

  @Test
  void tls() {
    Tls settings = Tls.trusting(Path.of(variable("CA")));
    try (AccelerdClient known =
        AccelerdClient.builder(variable("TLS_TARGET")).tls(settings).token(variable("TOKEN")).build()) {
      checkEmbedding(known.embed(texts()));
    }
    try (AccelerdClient unknown = AccelerdClient.builder(variable("TLS_TARGET")).tls(settings).build()) {
      AccelerdException refused = assertThrows(AccelerdException.class, () -> unknown.embed(texts()));
      JsonObject expected = cases.getAsJsonObject("without_token");
      assertEquals(expected.get("code").getAsString(), refused.code().name());
      assertEquals(expected.get("reason").getAsString(), refused.reason());
    }
  }

  @Test
  void deadlineEndsCall() {
    JsonObject golden = cases.getAsJsonObject("slow_kernel");
    Kernel compiled = client.compile(program(golden));
    Map<String, Tensor> arguments = Map.of("y", Tensor.of(floats(golden, "y")));
    AccelerdClient hasty = client.withTimeout(Duration.ofMillis(golden.get("deadline_ms").getAsLong()));
    AccelerdException failed = assertThrows(
        AccelerdException.class, () -> hasty.launch(compiled, arguments, options -> options.addAllGrid(grid(golden, "grid"))));
    assertEquals(golden.get("code").getAsString(), failed.code().name());
  }

  @Test
  void cancelledCallsEnd() {
    JsonObject golden = cases.getAsJsonObject("slow_kernel");
    CompletableFuture<LaunchResult> launched = client.launchAsync(program(golden), Map.of("y", Tensor.of(floats(golden, "y"))),
        options -> options.addAllGrid(grid(golden, "grid")));
    assertTrue(launched.cancel(true));
    assertThrows(CancellationException.class, launched::join);
    try (Stream<BatchResult<Embeddings>> results = client.embedStream(Stream.generate(this::texts), options -> { })) {
      Iterator<BatchResult<Embeddings>> iterator = results.iterator();
      checkEmbedding(iterator.next().get());
    }
  }

  @Test
  void callSurvivesRestart() throws IOException, InterruptedException {
    checkEmbedding(client.embed(texts()));
    Process restart = new ProcessBuilder("bash", "-c", variable("RESTART")).inheritIO().start();
    assertEquals(0, restart.waitFor());
    checkEmbedding(client.embed(texts()));
  }

  private void checkEmbedding(Embeddings embeddings) {
    JsonObject golden = cases.getAsJsonObject("embed");
    float[][] expected = matrix(golden, "first_components");
    assertEquals(expected.length, embeddings.size());
    assertEquals(golden.get("dimensions").getAsInt(), embeddings.dimensions());
    for (int text = 0; text < expected.length; text++) {
      float[] first = Arrays.copyOf(embeddings.vector(text), expected[text].length);
      assertArrayEquals(expected[text], first, golden.get("tolerance").getAsFloat());
    }
  }

  private static void checkHits(JsonArray expected, float tolerance, List<SearchHit> hits) {
    assertEquals(expected.size(), hits.size());
    for (int rank = 0; rank < hits.size(); rank++) {
      JsonObject hit = expected.get(rank).getAsJsonObject();
      assertEquals(hit.get("id").getAsLong(), hits.get(rank).number());
      assertEquals(hit.get("score").getAsFloat(), hits.get(rank).score(), tolerance);
    }
  }

  private CompareOutputsResponse compare(JsonObject golden, String rtol) {
    CloseTolerance close =
        CloseTolerance.newBuilder().setAtol(golden.get("atol").getAsDouble()).setRtol(golden.get(rtol).getAsDouble()).build();
    ComparisonPolicy policy = ComparisonPolicy.newBuilder().addTolerances(Tolerance.newBuilder().setClose(close)).build();
    return client.compare(Map.of("y", Tensor.of(floats(golden, "actual"))), Map.of("y", Tensor.of(floats(golden, "expected"))),
        options -> options.setPolicy(policy));
  }

  private Object call(JsonObject golden) {
    String call = golden.get("call").getAsString();
    switch (call) {
      case "find_similar":
        Tensor rows = Tensor.of(matrix(golden, "rows"));
        return client.findSimilar(rows, rows, golden.get("k").getAsInt(), options -> { });
      case "count":
        return client.collection(golden.get("collection").getAsString()).count();
      case "embed":
        return client.embed(strings(golden, "texts"), options -> options.setModel(golden.get("model").getAsString()));
      default:
        throw new AssertionError("unknown call " + call);
    }
  }

  private List<String> texts() {
    return strings(cases.getAsJsonObject("embed"), "texts");
  }

  private static KernelProgram program(JsonObject golden) {
    return KernelProgram.newBuilder().setSource(golden.get("source").getAsString()).setName(golden.get("name").getAsString()).build();
  }

  private static Filter where(JsonObject golden) {
    return Filters.all(golden.getAsJsonObject("where").entrySet().stream()
        .map(condition -> Filters.equal(condition.getKey(), condition.getValue().getAsString()))
        .toArray(io.github.accelerd.v1.Condition[]::new));
  }

  private static List<Map<String, Object>> payloads(JsonArray golden) {
    List<Map<String, Object>> payloads = new ArrayList<>();
    golden.forEach(payload -> payloads.add(payload.getAsJsonObject().entrySet().stream()
        .collect(Collectors.toMap(Map.Entry::getKey, field -> value(field.getValue())))));
    return payloads;
  }

  private static Object value(JsonElement element) {
    return element.getAsJsonPrimitive().isNumber() ? (Object) element.getAsLong() : element.getAsString();
  }

  private static List<Long> grid(JsonObject golden, String name) {
    return Arrays.stream(longs(golden, name)).boxed().collect(Collectors.toList());
  }

  private static Stream<JsonElement> elements(JsonObject golden, String name) {
    return golden.getAsJsonArray(name).asList().stream();
  }

  private static Stream<JsonObject> objects(JsonObject golden, String name) {
    return elements(golden, name).map(JsonElement::getAsJsonObject);
  }

  private static List<String> strings(JsonObject golden, String name) {
    return elements(golden, name).map(JsonElement::getAsString).collect(Collectors.toList());
  }

  private static long[] longs(JsonObject golden, String name) {
    return elements(golden, name).mapToLong(JsonElement::getAsLong).toArray();
  }

  private static float[] floats(JsonObject golden, String name) {
    return floats(golden.getAsJsonArray(name));
  }

  private static float[] floats(JsonArray array) {
    float[] floats = new float[array.size()];
    for (int index = 0; index < floats.length; index++) {
      floats[index] = array.get(index).getAsFloat();
    }
    return floats;
  }

  private static float[][] matrix(JsonObject golden, String name) {
    return elements(golden, name).map(row -> floats(row.getAsJsonArray())).toArray(float[][]::new);
  }

  private static String variable(String name) {
    return System.getenv("ACCELERD_GOLDEN_" + name);
  }
}
