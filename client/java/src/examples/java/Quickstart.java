import io.accelerd.AccelerdClient;
import io.accelerd.AccelerdException;
import io.accelerd.CollectionClient;
import io.accelerd.Filters;
import io.accelerd.Graph;
import io.accelerd.ParsedSource;
import io.accelerd.Points;
import io.accelerd.SearchHit;
import io.accelerd.Tensor;
import java.util.List;
import java.util.Map;

/** Searches, parses and computes. The daemon is the one that ACCELERD_SERVER names, or localhost:7433. */
public final class Quickstart {
  private Quickstart() {}

  /** Takes no arguments. */
  public static void main(String[] arguments) {
    try (var client = AccelerdClient.builder().build()) {
      search(client);
      ParsedSource parsed = client.parse(List.of("def f(x):\n    return x + 1\n")).get(0);
      System.out.println(parsed.nodeCount() + " nodes, the last is a " + parsed.kind(parsed.nodeCount() - 1));
      Graph graph = Graph.builder()
          .input("x", Tensor.of(new float[][] {{1, 2}, {3, 4}}))
          .node("sums", "sum", List.of("x"), Map.of("dim", 1))
          .output("sums")
          .build();
      System.out.println(client.execute(graph).output("sums").floatBuffer().get(1));
    } catch (AccelerdException failed) {
      System.err.println(failed.getMessage());
    }
  }

  private static void search(AccelerdClient client) {
    CollectionClient code = client.createCollection("java-quickstart", options -> options.setModel("builtin"));
    try {
      code.upsert(Points.builder()
          .ids(1, 2)
          .texts(List.of("def parse_date(text): ...", "def open_socket(host): ..."))
          .column("path", List.of("dates.py", "net.py"))
          .build());
      for (SearchHit hit : code.search(List.of("wait for a connection"), 1).get(0)) {
        System.out.println(hit);
      }
      System.out.println(code.count(Filters.all(Filters.equal("path", "net.py"))));
    } finally {
      code.delete();
    }
  }
}
