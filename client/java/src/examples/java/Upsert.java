import io.accelerd.AccelerdClient;
import io.accelerd.CollectionClient;
import io.accelerd.Points;
import io.accelerd.Tensor;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.LongStream;

/** Measures a bulk upsert, as the example of the same name in every other language does. Prints the points and seconds as JSON. */
public final class Upsert {
  private Upsert() {}

  /** Takes {@code --target}, {@code --points}, {@code --dimensions} and {@code --batch}. */
  public static void main(String[] arguments) {
    Map<String, String> flags = flags(arguments);
    int points = Integer.parseInt(flags.get("--points"));
    int dimensions = Integer.parseInt(flags.get("--dimensions"));
    List<Points> batches = batches(points, dimensions, Integer.parseInt(flags.get("--batch")));
    try (AccelerdClient client = AccelerdClient.builder(flags.get("--target")).build()) {
      CollectionClient collection =
          client.createCollection("upsert-java", options -> options.setDimensions(dimensions));
      try {
        long start = System.nanoTime();
        long written = collection.upsertAll(batches).insertedCount();
        System.out.println("{\"points\": " + written + ", \"seconds\": " + (System.nanoTime() - start) / 1e9 + "}");
      } finally {
        collection.delete();
      }
    }
  }

  private static List<Points> batches(int points, int dimensions, int size) {
    Random random = new Random(0);
    List<Points> batches = new ArrayList<>();
    for (int first = 0; first < points; first += size) {
      int count = Math.min(size, points - first);
      float[] vectors = new float[count * dimensions];
      for (int index = 0; index < vectors.length; index++) {
        vectors[index] = random.nextFloat();
      }
      long[] ids = LongStream.range(first, (long) first + count).toArray();
      batches.add(Points.builder().ids(ids).vectors(Tensor.of(vectors, count, dimensions)).build());
    }
    return batches;
  }

  private static Map<String, String> flags(String[] arguments) {
    Map<String, String> flags = new HashMap<>(
        Map.of("--target", "localhost:7433", "--points", "100000", "--dimensions", "256", "--batch", "1000"));
    for (int index = 0; index < arguments.length; index += 2) {
      if (!flags.containsKey(arguments[index]) || index + 1 == arguments.length) {
        throw new IllegalArgumentException("expected " + flags.keySet() + " with values, got " + arguments[index]);
      }
      flags.put(arguments[index], arguments[index + 1]);
    }
    return flags;
  }
}
