package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The code of the README compiles. */
class DocumentTest {
  private static final Pattern BLOCK = Pattern.compile("^```java\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL);
  /** The names that the code uses, as fields, so that it can declare them as well. */
  private static final String PROGRAM = String.join("\n",
      "import io.accelerd.*;",
      "import io.accelerd.Tensor;",
      "import io.github.accelerd.v1.*;",
      "import java.util.*;",
      "import java.util.stream.Stream;",
      "class Document {",
      "  static AccelerdClient client;",
      "  static CollectionClient code;",
      "  static List<String> texts;",
      "  static Stream<List<String>> corpus;",
      "  static Iterator<Points> batches;",
      "  static String source;",
      "  static void store(long index, Embeddings embeddings) {}",
      "  static void run() {",
      "%s  }",
      "}");

  @TempDir
  private Path classes;

  @Test
  void theCodeOfTheReadmeCompiles() throws IOException {
    List<String> blocks = BLOCK.matcher(Files.readString(Path.of("README.md")))
        .results()
        .map(block -> block.group(1))
        .collect(Collectors.toList());
    assertEquals(5, blocks.size());
    blocks.forEach(this::compile);
  }

  private void compile(String block) {
    JavaFileObject file = new SimpleJavaFileObject(URI.create("string:///Document.java"), JavaFileObject.Kind.SOURCE) {
      @Override
      public CharSequence getCharContent(boolean ignoresErrors) {
        return String.format(PROGRAM, block);
      }
    };
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    DiagnosticCollector<JavaFileObject> found = new DiagnosticCollector<>();
    List<String> options = List.of("-proc:none", "-d", classes.toString(), "-classpath", System.getProperty("java.class.path"));
    compiler.getTask(null, null, found, options, null, List.of(file)).call();
    assertEquals(List.of(), found.getDiagnostics(), block);
  }
}
