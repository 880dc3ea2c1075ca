package io.accelerd;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.UnaryOperator;

/** Builds a client. */
public final class AccelerdClientBuilder {
  private static final int DEFAULT_MESSAGE_BYTES = 64 << 20;
  private static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(60);

  private final String target;
  private UnaryOperator<String> environment = System::getenv;
  private Tls tls;
  private String token;
  private boolean allowsPlaintextToken;
  private Duration timeout = DEFAULT_TIMEOUT;
  private int maxMessageBytes = DEFAULT_MESSAGE_BYTES;
  private int maxAttempts = Integer.MAX_VALUE;
  private int connections = 1;

  AccelerdClientBuilder(String target) {
    this.target = target;
  }

  /** Sets the TLS settings. By default a target with https:// has those of the environment variable ACCELERD_TLS_CA, or the JDK's. */
  public AccelerdClientBuilder tls(Tls tls) {
    this.tls = tls;
    return this;
  }

  /**
   * Sets the bearer token; by default that of the environment variable ACCELERD_TOKEN. It is only sent over TLS, Unix sockets, and to this
   * machine.
   */
  public AccelerdClientBuilder token(String token) {
    this.token = token;
    return this;
  }

  /** Allows a token in plaintext, if the network encrypts by other means. */
  public AccelerdClientBuilder allowPlaintextToken() {
    allowsPlaintextToken = true;
    return this;
  }

  /** Sets the timeout of a call, retries included, or {@link AccelerdClient#NO_TIMEOUT}; 60 s by default. */
  public AccelerdClientBuilder timeout(Duration timeout) {
    checkTimeout(timeout);
    this.timeout = timeout;
    return this;
  }

  /** Sets the maximum size of a request; 64 MiB by default, like the daemon's limit. */
  public AccelerdClientBuilder maxMessageBytes(int bytes) {
    maxMessageBytes = atLeastOne("maxMessageBytes", bytes);
    return this;
  }

  /** Sets the maximum number of attempts of a call; 1 means no retries. By default only the deadline bounds them. */
  public AccelerdClientBuilder maxAttempts(int attempts) {
    maxAttempts = atLeastOne("maxAttempts", attempts);
    return this;
  }

  /** Sets the number of connections to each daemon, between which calls take turns. The daemon serves a connection on one thread. */
  public AccelerdClientBuilder connections(int connections) {
    this.connections = atLeastOne("connections", connections);
    return this;
  }

  AccelerdClientBuilder environment(UnaryOperator<String> environment) {
    this.environment = environment;
    return this;
  }

  /** Returns the client, which connects with its first call. */
  public AccelerdClient build() {
    String named = target == null ? environment("ACCELERD_SERVER") : target;
    List<Target> targets = Target.parseAll(named == null ? Target.DEFAULT : named);
    Tls settings = settings(targets);
    String secret = secret(targets, settings != null);
    return new AccelerdClient(new Transport(targets, connections, settings, secret, maxMessageBytes, maxAttempts), timeout);
  }

  static void checkTimeout(Duration timeout) {
    if (timeout.isNegative() || timeout.isZero()) {
      throw new IllegalArgumentException("timeout: expected a positive duration, got " + timeout);
    }
  }

  private Tls settings(List<Target> targets) {
    boolean isHttps = targets.get(0).isHttps;
    if (targets.stream().anyMatch(one -> one.isHttps != isHttps)) {
      throw new IllegalArgumentException("target: expected https:// for all addresses or for none");
    }
    if (tls != null && targets.stream().anyMatch(one -> one.isHttp || one.isUnix)) {
      throw new IllegalArgumentException("tls: expected a target with https:// or without a scheme");
    }
    if (tls != null || !isHttps) {
      return tls;
    }
    String ca = environment("ACCELERD_TLS_CA");
    return ca == null ? Tls.builder().build() : Tls.trusting(Path.of(ca));
  }

  private String secret(List<Target> targets, boolean isEncrypted) {
    String secret = token == null ? environment("ACCELERD_TOKEN") : token;
    if (secret == null || secret.isEmpty()) {
      return null;
    }
    if (!secret.chars().allMatch(character -> character > ' ' && character <= '~')) {
      throw new IllegalArgumentException("token: expected visible ASCII characters without spaces");
    }
    if (!isEncrypted && !allowsPlaintextToken && !targets.stream().allMatch(one -> one.isLocal)) {
      throw new IllegalArgumentException(
          "token: refusing to send it in plaintext, where others can read it: use a target with https://, or allowPlaintextToken() if "
              + "the network encrypts by other means");
    }
    return secret;
  }

  /** Returns a variable; null if it is empty or not set. */
  private String environment(String name) {
    String value = environment.apply(name);
    return value == null || value.isEmpty() ? null : value;
  }

  private static int atLeastOne(String what, int value) {
    if (value < 1) {
      throw new IllegalArgumentException(what + ": expected at least 1, got " + value);
    }
    return value;
  }
}
