package io.accelerd;

import com.google.protobuf.ByteString;
import io.github.accelerd.v1.Diagnostic;
import io.github.accelerd.v1.NodeField;
import io.github.accelerd.v1.NodeKind;
import io.github.accelerd.v1.OutlineItem;
import io.github.accelerd.v1.ParseRequest;
import io.github.accelerd.v1.ParseResponse;
import io.github.accelerd.v1.ParseServiceGrpc;
import io.github.accelerd.v1.SourceResult;
import io.github.accelerd.v1.SpanColumns;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * The tree of a source as columns, with a row for each node. The comment of {@code ParseResponse} in parse.proto states their order.
 *
 * <p>Positions are byte offsets in the source as UTF-8.
 */
public final class ParsedSource {
  private final SourceResult result;
  private final ByteString text;
  private final ByteString extra;
  private final byte[] kinds;
  private final byte[] fields;
  private final int[] parents;
  private final int[] starts;
  private final int[] ends;
  private final int[] aux;
  private final int[] nameStarts;
  private final int[] nameEnds;
  private final int[] valueStarts;
  private final int[] valueEnds;
  private final int[] lineStarts;

  private ParsedSource(SourceResult result, ByteString source, Columns columns) {
    this.result = result;
    text = result.hasText() ? result.getText() : source;
    extra = columns.extra.next(result.getExtraSize());
    kinds = columns.kinds.next(result.getNodeCount()).toByteArray();
    fields = columns.fields.next(result.getNodeCount()).toByteArray();
    parents = columns.parents.ints(result.getNodeCount());
    starts = columns.starts.ints(result.getNodeCount());
    ends = columns.ends.ints(result.getNodeCount());
    aux = columns.aux.ints(result.getNodeCount());
    nameStarts = columns.nameStarts.ints(result.getNameCount());
    nameEnds = columns.nameEnds.ints(result.getNameCount());
    valueStarts = columns.valueStarts.ints(result.getValueCount());
    valueEnds = columns.valueEnds.ints(result.getValueCount());
    lineStarts = columns.lineStarts.ints(result.getLineCount());
  }

  static Operation<ParseRequest, ParseResponse, List<ParsedSource>> operation(ParseRequest request) {
    return new Operation<>(ParseServiceGrpc.getParseMethod(), request, response -> of(request, response));
  }

  static ParseRequest request(ParseRequest.Builder request, Consumer<ParseRequest.Builder> options) {
    options.accept(request);
    return request.build();
  }

  static List<ParsedSource> of(ParseRequest request, ParseResponse response) {
    if (response.getResultsCount() != request.getSourcesCount()) {
      throw AccelerdException.malformed("expected " + request.getSourcesCount() + " results, got " + response.getResultsCount());
    }
    Columns columns = new Columns(response);
    List<ParsedSource> sources = new ArrayList<>();
    for (int index = 0; index < response.getResultsCount(); index++) {
      sources.add(new ParsedSource(response.getResults(index), request.getSources(index), columns));
    }
    return sources;
  }

  /** The first error; empty if the source is valid. A source with an error has no nodes. */
  public Optional<Diagnostic> diagnostic() {
    return result.hasDiagnostic() ? Optional.of(result.getDiagnostic()) : Optional.empty();
  }

  /** Functions, classes and imports in the order of the source, if the outline was requested. */
  public List<OutlineItem> outline() {
    return result.getOutlineList();
  }

  /** The name of an item of the outline after those of the functions and classes around it, such as {@code Parser.parse}. */
  public String qualifiedName(int index) {
    OutlineItem item = result.getOutline(index);
    return item.hasParent() ? qualifiedName(item.getParent()) + "." + item.getName() : item.getName();
  }

  /** The message of the daemon, with the lengths of all columns. */
  public SourceResult result() {
    return result;
  }

  /** The source as UTF-8. */
  public ByteString text() {
    return text;
  }

  /** The number of nodes. */
  public int nodeCount() {
    return kinds.length;
  }

  /** The kind of a node. */
  public NodeKind kind(int row) {
    return NodeKind.forNumber(Byte.toUnsignedInt(kinds[row]));
  }

  /** The field of its parent that a node is in. */
  public NodeField field(int row) {
    return NodeField.forNumber(Byte.toUnsignedInt(fields[row]));
  }

  /** The row of a node's parent; -1 at the top level. */
  public int parent(int row) {
    return parents[row];
  }

  /** The first byte of a node. */
  public int start(int row) {
    return starts[row];
  }

  /** One past the last byte of a node. */
  public int end(int row) {
    return ends[row];
  }

  /** What {@code ParseResponse} calls {@code aux}, by kind; -1 for NONE. */
  public int aux(int row) {
    return aux[row];
  }

  /** Copies the kinds of all nodes: numbers of {@code NodeKind}. */
  public byte[] kinds() {
    return kinds.clone();
  }

  /** Copies the fields of all nodes: numbers of {@code NodeField}. */
  public byte[] fields() {
    return fields.clone();
  }

  /** Copies the parents of all nodes. */
  public int[] parents() {
    return parents.clone();
  }

  /** Copies the starts of all nodes. */
  public int[] starts() {
    return starts.clone();
  }

  /** Copies the ends of all nodes. */
  public int[] ends() {
    return ends.clone();
  }

  /** Copies the column {@code aux}. */
  public int[] aux() {
    return aux.clone();
  }

  /** Copies the start of each line. */
  public int[] lineStarts() {
    return lineStarts.clone();
  }

  /** The text of a node. */
  public String text(int row) {
    return text.substring(starts[row], ends[row]).toStringUtf8();
  }

  /** The number of names. */
  public int nameCount() {
    return nameStarts.length;
  }

  /** A name, to which {@code aux} refers. */
  public String name(int index) {
    return slice(nameStarts[index], nameEnds[index]).toStringUtf8();
  }

  /** The number of values of constants. */
  public int valueCount() {
    return valueStarts.length;
  }

  /** The value of a constant, to which {@code aux} refers: a number as written, or the bytes of a decoded string. */
  public ByteString value(int index) {
    return slice(valueStarts[index], valueEnds[index]);
  }

  /** Positions from the end of the text on are in {@code extra}. */
  private ByteString slice(int start, int end) {
    int size = text.size();
    return start < size || extra.isEmpty() ? text.substring(start, end) : extra.substring(start - size, end - size);
  }

  /** The columns of a response, from which each source takes its slices in turn. */
  private static final class Columns {
    final Column kinds;
    final Column fields;
    final Column parents;
    final Column starts;
    final Column ends;
    final Column aux;
    final Column nameStarts;
    final Column nameEnds;
    final Column valueStarts;
    final Column valueEnds;
    final Column extra;
    final Column lineStarts;

    Columns(ParseResponse response) {
      SpanColumns names = response.getNames();
      kinds = new Column("nodes.kinds", response.getNodes().getKinds());
      fields = new Column("nodes.fields", response.getNodes().getFields());
      parents = new Column("nodes.parents", response.getNodes().getParents());
      starts = new Column("nodes.starts", response.getNodes().getStarts());
      ends = new Column("nodes.ends", response.getNodes().getEnds());
      aux = new Column("nodes.aux", response.getNodes().getAux());
      nameStarts = new Column("names.starts", names.getStarts());
      nameEnds = new Column("names.ends", names.getEnds());
      valueStarts = new Column("values.starts", response.getValues().getStarts());
      valueEnds = new Column("values.ends", response.getValues().getEnds());
      extra = new Column("extra", response.getExtra());
      lineStarts = new Column("line_starts", response.getLineStarts());
    }
  }

  private static final class Column {
    private final String name;
    private final ByteString bytes;
    private int position;

    Column(String name, ByteString bytes) {
      this.name = name;
      this.bytes = bytes;
    }

    ByteString next(int size) {
      if (size < 0 || size > bytes.size() - position) {
        throw AccelerdException.malformed(name + ": expected " + size + " bytes, got " + (bytes.size() - position));
      }
      position += size;
      return bytes.substring(position - size, position);
    }

    /** Takes numbers of 32 bits. All are taken or, of a column that was not requested, none. */
    int[] ints(int count) {
      int[] numbers = new int[bytes.isEmpty() ? 0 : count];
      next(numbers.length * Integer.BYTES).asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(numbers);
      return numbers;
    }
  }
}
