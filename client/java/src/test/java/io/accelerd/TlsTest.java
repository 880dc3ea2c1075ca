package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.accelerd.v1.EmbedServiceGrpc;
import io.github.accelerd.v1.ListModelsRequest;
import io.github.accelerd.v1.ListModelsResponse;
import io.grpc.Grpc;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.TlsServerCredentials;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A daemon that verifies its clients, and whose certificate, which signs itself, has another name than its host. */
@Timeout(60)
class TlsTest {
  private static final String NAME = "daemon.test";
  private static final String PASSWORD = "password";

  @TempDir
  private static Path folder;

  private static byte[] certificate;
  private static byte[] key;
  private static Server server;

  @BeforeAll
  static void start() throws Exception {
    Path store = folder.resolve("store.p12");
    Process keytool = new ProcessBuilder(
        Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair", "-keyalg", "EC", "-alias", NAME,
        "-dname", "CN=" + NAME, "-ext", "SAN=dns:" + NAME, "-keystore", store.toString(), "-storepass", PASSWORD).inheritIO().start();
    assertEquals(0, keytool.waitFor());
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream file = Files.newInputStream(store)) {
      keys.load(file, PASSWORD.toCharArray());
    }
    certificate = pem("CERTIFICATE", keys.getCertificate(NAME).getEncoded());
    key = pem("PRIVATE KEY", keys.getKey(NAME, PASSWORD.toCharArray()).getEncoded());
    TlsServerCredentials.Builder credentials = TlsServerCredentials.newBuilder()
        .keyManager(new ByteArrayInputStream(certificate), new ByteArrayInputStream(key))
        .trustManager(new ByteArrayInputStream(certificate))
        .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
    server = Grpc.newServerBuilderForPort(0, credentials.build()).addService(new Models()).build().start();
  }

  @AfterAll
  static void stop() {
    server.shutdownNow();
  }

  private static final class Models extends EmbedServiceGrpc.EmbedServiceImplBase {
    @Override
    public void listModels(ListModelsRequest request, StreamObserver<ListModelsResponse> responses) {
      responses.onNext(ListModelsResponse.getDefaultInstance());
      responses.onCompleted();
    }
  }

  @Test
  void aClientCertificateAndTheNameOfTheDaemonAreUsed() {
    assertEquals(List.of(), models(Tls.builder().ca(certificate).certificate(certificate, key).serverName(NAME)));
  }

  @Test
  void filesAreRead() throws Exception {
    Path certificateFile = Files.write(folder.resolve("tls.crt"), certificate);
    Path keyFile = Files.write(folder.resolve("tls.key"), key);
    assertEquals(List.of(), models(Tls.builder().ca(certificateFile).certificate(certificateFile, keyFile).serverName(NAME)));
  }

  @Test
  void aDaemonOfAnotherNameIsNotTrusted() {
    assertRefused("No subject alternative", Tls.builder().ca(certificate).certificate(certificate, key));
  }

  @Test
  void anUnknownAuthorityIsNotTrusted() {
    assertRefused("unable to find valid certification path", Tls.builder().certificate(certificate, key).serverName(NAME));
  }

  @Test
  void aClientWithoutCertificateIsRefused() {
    assertRefused("", Tls.builder().ca(certificate).serverName(NAME));
  }

  private static void assertRefused(String expected, Tls.Builder tls) {
    AccelerdException refused = assertThrows(AccelerdException.class, () -> models(tls));
    assertEquals(Status.Code.UNAVAILABLE, refused.code());
    assertTrue(refused.getMessage().contains(expected), refused::getMessage);
  }

  private static List<?> models(Tls.Builder tls) {
    AccelerdClientBuilder builder = new AccelerdClientBuilder("https://localhost:" + server.getPort()).environment(name -> null);
    try (AccelerdClient client = builder.tls(tls.build()).maxAttempts(1).build()) {
      return client.models();
    }
  }

  private static byte[] pem(String label, byte[] der) {
    String text = Base64.getMimeEncoder().encodeToString(der);
    return ("-----BEGIN " + label + "-----\n" + text + "\n-----END " + label + "-----\n").getBytes(StandardCharsets.US_ASCII);
  }
}
