package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.accelerd.v1.Condition;
import io.github.accelerd.v1.Filter;
import io.github.accelerd.v1.KernelFault;
import io.github.accelerd.v1.KernelFaultKind;
import io.github.accelerd.v1.NodeColumns;
import io.github.accelerd.v1.NodeKind;
import io.github.accelerd.v1.ParseRequest;
import io.github.accelerd.v1.ParseResponse;
import io.github.accelerd.v1.PayloadColumn;
import io.github.accelerd.v1.SourceResult;
import io.github.accelerd.v1.SpanColumns;
import io.github.accelerd.v1.TensorNode;
import io.github.accelerd.v1.UpsertRequest;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** Requests and responses of the client's values. */
class MessagesTest {
  private static final UUID ID = UUID.fromString("00112233-4455-6677-8899-aabbccddeeff");

  @Test
  void pointsAreEncodedInParts() {
    Points points = Points.builder()
        .ids(1, 2, 3)
        .vectors(new float[][] {{1}, {2}, {3}})
        .column("line", new long[] {10, 20, 30})
        .column("path", List.of("a", "bc", "ü"))
        .column("seen", new boolean[] {true, false, true})
        .column("weight", new double[] {0.5, 1.5, 2.5})
        .build();
    UpsertRequest request = points.request("c", 1, 3);
    assertEquals(List.of(2L, 3L), Ids.decode(request.getIds()));
    assertEquals(Tensor.of(new float[][] {{2}, {3}}), Tensor.of(request.getVectors()));
    List<PayloadColumn> columns = request.getPayloadColumns().getColumnsList();
    assertEquals(bytes(20, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0), columns.get(0).getInts());
    assertEquals(bytes(0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0), columns.get(1).getStrings().getOffsets());
    assertEquals("bcü", columns.get(1).getStrings().getData().toStringUtf8());
    assertEquals(bytes(0, 1), columns.get(2).getBools());
    assertEquals(bytes(0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 4, 0x40), columns.get(3).getDoubles());
  }

  @Test
  void uuidsArePackedInTheirOwnOrder() {
    UpsertRequest request = Points.builder().ids(List.of(ID)).texts(List.of("x")).prompt("").build().request("c", 0, 1);
    assertEquals(0x00, request.getIds().getPackedUuids().byteAt(0));
    assertEquals((byte) 0xff, request.getIds().getPackedUuids().byteAt(15));
    assertEquals(List.of(ID), Ids.decode(request.getIds()));
    assertTrue(request.hasPrompt());
  }

  @Test
  void partsHaveAtLeastOnePointAndAtMostTheLimits() {
    Points points = Points.builder().ids(1, 2, 3).texts(List.of("aaaa", "b", "c")).build();
    assertEquals(1, points.end(0, 3, 10));
    assertEquals(3, points.end(1, 6, 10));
    assertEquals(2, points.end(1, 6, 1));
  }

  @Test
  void wrongPointsAreNamed() {
    assertWrong("ids: expected an id for each point, got none", Points.builder().texts(List.of()));
    assertWrong("expected either texts or vectors, got neither", Points.builder().ids(1));
    assertWrong("expected either texts or vectors, got both", Points.builder().ids(1).texts(List.of("")).vectors(new float[1][1]));
    assertWrong("texts: expected 2, one for each id, got 1", Points.builder().ids(1, 2).texts(List.of("a")));
    assertWrong("payloads: expected 1, one for each id, got 0", Points.builder().ids(1).texts(List.of("a")).payloads(List.of()));
    assertWrong("column: expected 1, one for each id, got 2", Points.builder().ids(1).texts(List.of("a")).column("n", new long[2]));
    assertWrong("vectors: expected f32 [points, dimensions], got f32[1]", Points.builder().ids(1).vectors(Tensor.of(new float[1])));
    IllegalArgumentException wrong = assertThrows(IllegalArgumentException.class, () -> Values.encode(Map.of("when", new Object())));
    assertTrue(wrong.getMessage().startsWith("when: expected a String, an integer"), wrong::getMessage);
  }

  @Test
  void payloadsRoundTrip() {
    Map<String, Object> payload = Map.of("text", "ü", "int", -5L, "double", 0.5, "bool", true);
    assertEquals(payload, Values.decode(Values.encode(payload)));
    assertEquals(7L, Values.decode(Values.encode(Map.of("int", 7))).get("int"));
  }

  @Test
  void filtersHaveTheirConditions() {
    Condition range = Filters.range("line", 3, null);
    assertEquals(3, range.getNumberRange().getGte().getIntValue());
    assertFalse(range.getNumberRange().hasLt());
    Filter filter = Filters.both(Filters.all(Filters.equal("a", 1.5), range), Filters.none(Filters.anyOf("b", List.of("x", "y"))));
    assertEquals(2, filter.getMustCount());
    assertEquals(2, filter.getMustNot(0).getAnyOf().getValuesCount());
    assertTrue(Filters.ids().hasIds());
    assertThrows(IllegalArgumentException.class, () -> Filters.both(Filters.ids(1), Filters.ids(2)));
  }

  @Test
  void attributesHaveTheirKinds() {
    TensorNode node = Graph.builder().node("n", "op", List.of("x"), Map.of(
        "dim", -1, "keepdim", true, "eps", 1e-5, "dtype", "f32", "dims", new long[] {0, 1}, "list", List.of(2, 3L)))
        .build().toMessage().getNodes(0);
    assertEquals(-1, node.getAttributesOrThrow("dim").getInteger());
    assertTrue(node.getAttributesOrThrow("keepdim").getBoolean());
    assertEquals(1e-5, node.getAttributesOrThrow("eps").getNumber());
    assertEquals("f32", node.getAttributesOrThrow("dtype").getText());
    assertEquals(List.of(0L, 1L), node.getAttributesOrThrow("dims").getIntegers().getValuesList());
    assertEquals(List.of(2L, 3L), node.getAttributesOrThrow("list").getIntegers().getValuesList());
    Graph.Builder graph = Graph.builder();
    IllegalArgumentException wrong =
        assertThrows(IllegalArgumentException.class, () -> graph.node("n", "op", List.of(), Map.of("dim", List.of("0"))));
    assertTrue(wrong.getMessage().startsWith("dim: expected a truth value"), wrong::getMessage);
  }

  @Test
  void columnsOfSourcesAreSlices() {
    ParseRequest request =
        ParseRequest.newBuilder().addSources(ByteString.copyFromUtf8("x")).addSources(ByteString.copyFromUtf8("y;z")).build();
    ParseResponse response = ParseResponse.newBuilder()
        .addResults(SourceResult.newBuilder().setNodeCount(1).setNameCount(1))
        .addResults(SourceResult.newBuilder().setNodeCount(1).setNameCount(2).setExtraSize(3))
        .setNodes(NodeColumns.newBuilder().setKinds(bytes(54, 50)).setFields(bytes(1, 1)).setParents(ints(-1, 0))
            .setStarts(ints(0, 2)).setEnds(ints(1, 3)).setAux(ints(0, -4)))
        .setNames(SpanColumns.newBuilder().setStarts(ints(0, 0, 4)).setEnds(ints(1, 1, 6)))
        .setExtra(ByteString.copyFromUtf8("abc"))
        .build();
    List<ParsedSource> sources = ParsedSource.of(request, response);
    assertEquals(NodeKind.NODE_KIND_NAME, sources.get(0).kind(0));
    assertEquals(-1, sources.get(0).parent(0));
    assertEquals("x", sources.get(0).name(0));
    assertEquals(NodeKind.NODE_KIND_CONSTANT, sources.get(1).kind(0));
    assertEquals("z", sources.get(1).text(0));
    assertEquals(-4, sources.get(1).aux(0));
    assertEquals("bc", sources.get(1).name(1));
  }

  @Test
  void columnsThatAreTooShortAreMalformed() {
    ParseRequest request = ParseRequest.newBuilder().addSources(ByteString.EMPTY).build();
    ParseResponse response = ParseResponse.newBuilder().addResults(SourceResult.newBuilder().setNodeCount(2))
        .setNodes(NodeColumns.newBuilder().setKinds(bytes(1))).build();
    AccelerdException malformed = assertThrows(AccelerdException.class, () -> ParsedSource.of(request, response));
    assertEquals("INTERNAL: malformed response: nodes.kinds: expected 2 bytes, got 1", malformed.getMessage());
    assertThrows(AccelerdException.class, () -> ParsedSource.of(request, ParseResponse.getDefaultInstance()));
  }

  @Test
  void faultsSayWhatHappened() {
    KernelFault bounds = KernelFault.newBuilder().setKind(KernelFaultKind.KERNEL_FAULT_KIND_OUT_OF_BOUNDS).setThread(8).setLine(4)
        .setArray("x").setIndex(8).setExtent(8).build();
    assertEquals("index 8 is out of bounds for dimension 0 of 'x' with extent 8, in thread 8, line 4",
        new KernelFaultException(bounds).getMessage());
    KernelFault zero = KernelFault.newBuilder().setKind(KernelFaultKind.KERNEL_FAULT_KIND_DIVISION_BY_ZERO).setLine(2).build();
    assertEquals("division by zero, in thread 0, line 2", new KernelFaultException(zero).getMessage());
  }

  private static void assertWrong(String expected, Points.Builder builder) {
    assertEquals(expected, assertThrows(IllegalArgumentException.class, builder::build).getMessage());
  }

  private static ByteString ints(int... values) {
    return Tensor.of(values).toMessage().getData();
  }

  private static ByteString bytes(int... values) {
    byte[] bytes = new byte[values.length];
    for (int index = 0; index < values.length; index++) {
      bytes[index] = (byte) values[index];
    }
    return ByteString.copyFrom(bytes);
  }
}
