package io.accelerd;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/** TLS settings of a client. */
public final class Tls {
  private final byte[] ca;
  private final byte[] certificate;
  private final byte[] key;
  private final String serverName;

  private Tls(Builder builder) {
    ca = builder.ca;
    certificate = builder.certificate;
    key = builder.key;
    serverName = builder.serverName;
    if ((certificate == null) != (key == null)) {
      String given = key == null ? "certificate without key" : "key without certificate";
      throw new IllegalArgumentException("tls: expected both certificate and key, got " + given);
    }
  }

  /** Begins TLS settings. Without any, the certificate authorities of the JDK are trusted. */
  public static Builder builder() {
    return new Builder();
  }

  /** Returns settings that trust the certificate authorities in a PEM file. */
  public static Tls trusting(Path ca) {
    return builder().ca(ca).build();
  }

  /** The name to expect in the daemon's certificate; null for the target's host. */
  String serverName() {
    return serverName;
  }

  ChannelCredentials credentials() {
    TlsChannelCredentials.Builder credentials = TlsChannelCredentials.newBuilder();
    try {
      if (ca != null) {
        credentials.trustManager(stream(ca));
      }
      if (certificate != null) {
        credentials.keyManager(stream(certificate), stream(key));
      }
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
    return credentials.build();
  }

  private static InputStream stream(byte[] pem) {
    return new ByteArrayInputStream(pem);
  }

  /** Builds TLS settings. Certificates and keys are PEM: the text, or the path of a file, which is read at once. */
  public static final class Builder {
    private byte[] ca;
    private byte[] certificate;
    private byte[] key;
    private String serverName;

    private Builder() {}

    /** Sets the certificate authorities to trust instead of the JDK's. */
    public Builder ca(Path file) {
      return ca(read(file));
    }

    /** Sets the certificate authorities to trust instead of the JDK's. */
    public Builder ca(byte[] pem) {
      ca = checked("ca", "CERTIFICATE", pem);
      return this;
    }

    /** Sets the client certificate with its chain, for daemons that verify their clients, and its private key in PKCS #8. */
    public Builder certificate(Path certificate, Path key) {
      return certificate(read(certificate), read(key));
    }

    /** Sets the client certificate with its chain, for daemons that verify their clients, and its private key in PKCS #8. */
    public Builder certificate(byte[] certificate, byte[] key) {
      this.certificate = certificate == null ? null : checked("certificate", "CERTIFICATE", certificate);
      this.key = key == null ? null : checked("key", "PRIVATE KEY", key);
      return this;
    }

    /** Sets the name to expect in the daemon's certificate instead of the target's host. */
    public Builder serverName(String name) {
      serverName = name;
      return this;
    }

    /** Returns the settings. */
    public Tls build() {
      return new Tls(this);
    }

    private static byte[] read(Path file) {
      try {
        return Files.readAllBytes(file);
      } catch (IOException unreadable) {
        throw new UncheckedIOException("tls: cannot read " + file, unreadable);
      }
    }

    private static byte[] checked(String what, String label, byte[] pem) {
      if (!new String(pem, StandardCharsets.ISO_8859_1).contains(label + "-----")) {
        throw new IllegalArgumentException("tls: " + what + ": expected PEM with a " + label.toLowerCase(Locale.ROOT));
      }
      return pem.clone();
    }
  }
}
