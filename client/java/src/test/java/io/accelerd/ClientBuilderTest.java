package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ClientBuilderTest {
  private static final byte[] CA = "-----BEGIN CERTIFICATE-----".getBytes(StandardCharsets.US_ASCII);

  @ParameterizedTest
  @CsvSource({
    "localhost:7433,dns:///localhost:7433,true",
    "http://127.0.0.1:1,dns:///127.0.0.1:1,true",
    "https://example.com:443/,dns:///example.com:443,false",
    "[::1]:7433,dns:///[::1]:7433,true",
    "http://[fe80::1]:7433,dns:///[fe80::1]:7433,false",
    "127.0.0.1.example.com:80,dns:///127.0.0.1.example.com:80,false",
    "10.0.0.1:65535,dns:///10.0.0.1:65535,false",
    "dns:///daemon:7433,dns:///daemon:7433,false",
    "unix:/run/a.sock,unix:/run/a.sock,true",
    "unix:///run/a.sock,unix:/run/a.sock,true",
    "unix:a.sock,unix:a.sock,true",
  })
  void targetsAreParsed(String text, String address, boolean isLocal) {
    Target target = Target.parseAll(text).get(0);
    assertEquals(address, target.address);
    assertEquals(isLocal, target.isLocal);
    assertEquals(text.startsWith("https"), target.isHttps);
  }

  @ParameterizedTest
  @ValueSource(strings = {
    "", "http://", "unix:", "host:0", "host:65536", "host:99999999999", "ftp://host:1", "a:1,,b:1", "a b:c", "host/path"
  })
  void wrongTargetsAreNamed(String text) {
    IllegalArgumentException wrong = assertThrows(IllegalArgumentException.class, () -> Target.parseAll(text));
    assertTrue(wrong.getMessage().startsWith("target: expected host:port, https://host:port or unix:/path"), wrong::getMessage);
  }

  @Test
  void theEnvironmentNamesTargetAndToken() {
    Map<String, String> environment = Map.of("ACCELERD_SERVER", "a:1,b:2", "ACCELERD_TOKEN", "secret");
    assertMessage("token: refusing to send it in plaintext", new AccelerdClientBuilder(null).environment(environment::get));
    Map<String, String> local = Map.of("ACCELERD_SERVER", "http://localhost:1", "ACCELERD_TOKEN", "secret");
    new AccelerdClientBuilder(null).environment(local::get).build().close();
    new AccelerdClientBuilder(null).environment(name -> "").build().close();
  }

  @Test
  void theEnvironmentNamesTheCertificateAuthorities() {
    Map<String, String> environment = Map.of("ACCELERD_TLS_CA", "/absent/ca.pem");
    RuntimeException unreadable = assertThrows(
        RuntimeException.class, () -> new AccelerdClientBuilder("https://a:1").environment(environment::get).build());
    assertTrue(unreadable.getMessage().contains("tls: cannot read /absent/ca.pem"), unreadable::getMessage);
    new AccelerdClientBuilder("http://a:1").environment(environment::get).build().close();
  }

  @Test
  void aTokenIsNotSentInPlaintextToOthers() {
    assertMessage("token: refusing to send it in plaintext", builder("http://a:1").token("secret"));
    assertMessage("token: refusing to send it in plaintext", builder("localhost:1,a:1").token("secret"));
    builder("http://a:1").token("secret").allowPlaintextToken().build().close();
    builder("https://a:1").token("secret").build().close();
    assertMessage("token: expected visible ASCII characters", builder("localhost:1").token("two words"));
  }

  @Test
  void tlsNeedsATargetThatHasIt() {
    Tls tls = Tls.builder().build();
    assertMessage("tls: expected a target with https://", builder("http://a:1").tls(tls));
    assertMessage("tls: expected a target with https://", builder("unix:/a").tls(tls));
    assertMessage("target: expected https:// for all addresses or for none", builder("https://a:1,b:1"));
    builder("a:1").tls(tls).build().close();
  }

  @Test
  void wrongTlsSettingsAreNamed() {
    IllegalArgumentException noKey =
        assertThrows(IllegalArgumentException.class, () -> Tls.builder().certificate(CA, null).build());
    assertEquals("tls: expected both certificate and key, got certificate without key", noKey.getMessage());
    IllegalArgumentException noPem = assertThrows(IllegalArgumentException.class, () -> Tls.builder().ca(new byte[] {1}));
    assertEquals("tls: ca: expected PEM with a certificate", noPem.getMessage());
    assertThrows(RuntimeException.class, () -> Tls.trusting(Path.of("/absent")));
  }

  @Test
  void wrongNumbersAreNamed() {
    assertThrows(IllegalArgumentException.class, () -> builder("a:1").timeout(Duration.ZERO));
    assertThrows(IllegalArgumentException.class, () -> builder("a:1").timeout(Duration.ofSeconds(-1)));
    assertThrows(IllegalArgumentException.class, () -> builder("a:1").connections(0));
    assertThrows(IllegalArgumentException.class, () -> builder("a:1").maxAttempts(0));
    assertThrows(IllegalArgumentException.class, () -> builder("a:1").maxMessageBytes(0));
  }

  @Test
  void longTimeoutsDoNotOverflow() {
    assertEquals(Long.MAX_VALUE, Durations.nanos(Duration.ofDays(400_000)));
    assertTrue(Durations.isForever(AccelerdClient.NO_TIMEOUT));
    assertFalse(Durations.isForever(Duration.ofDays(1)));
    builder("a:1").timeout(AccelerdClient.NO_TIMEOUT).build().close();
  }

  private static AccelerdClientBuilder builder(String target) {
    return new AccelerdClientBuilder(target).environment(name -> null);
  }

  private static void assertMessage(String expected, AccelerdClientBuilder builder) {
    IllegalArgumentException wrong = assertThrows(IllegalArgumentException.class, builder::build);
    assertTrue(wrong.getMessage().startsWith(expected), wrong::getMessage);
  }
}
