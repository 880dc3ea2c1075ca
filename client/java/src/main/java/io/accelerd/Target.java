package io.accelerd;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The address of a daemon. */
final class Target {
  static final String DEFAULT = "localhost:7433";

  private static final String EXPECTED = "target: expected host:port, https://host:port or unix:/path, with a port from 1 to 65535, got ";
  private static final String UNIX = "unix:";
  private static final Set<String> SCHEMES = Set.of("http", "https", "dns");
  private static final Pattern SCHEME = Pattern.compile("([a-z][a-z0-9+.-]*)://(.*)", Pattern.DOTALL);
  private static final Pattern AUTHORITY = Pattern.compile("(?:\\[([^\\]/]+)]|([^:/\\[\\]]+))(?::([0-9]{1,9}))?");
  private static final Pattern ADDRESS = Pattern.compile("[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*");
  private static final int MAX_PORT = 65_535;

  /** As gRPC takes it. */
  final String address;
  final boolean isUnix;
  /** Whether its scheme is https. */
  final boolean isHttps;
  /** Whether its scheme is http. */
  final boolean isHttp;
  /** Whether it is on this machine: nobody on the network can read what is sent to it. */
  final boolean isLocal;

  private Target(String address, String scheme, boolean isUnix, boolean isLocal) {
    this.address = address;
    this.isUnix = isUnix;
    this.isHttps = scheme.equals("https");
    this.isHttp = scheme.equals("http");
    this.isLocal = isLocal;
  }

  /** Parses one address, or several that commas separate. */
  static List<Target> parseAll(String text) {
    List<Target> targets = new ArrayList<>();
    for (String one : text.split(",", -1)) {
      targets.add(parse(one.strip()));
    }
    return targets;
  }

  private static Target parse(String text) {
    if (text.startsWith(UNIX)) {
      return unix(text);
    }
    Matcher scheme = SCHEME.matcher(text);
    boolean hasScheme = scheme.matches();
    if (hasScheme && !SCHEMES.contains(scheme.group(1))) {
      throw new IllegalArgumentException(EXPECTED + text);
    }
    boolean isDns = hasScheme && scheme.group(1).equals("dns");
    String rest = hasScheme ? scheme.group(2) : text;
    String authority = (isDns ? rest.replaceFirst("^/", "") : rest).replaceFirst("/$", "");
    Matcher matcher = AUTHORITY.matcher(authority);
    if (!matcher.matches() || !isPort(matcher.group(3))) {
      throw new IllegalArgumentException(EXPECTED + (text.isEmpty() ? "an empty text" : text));
    }
    String host = matcher.group(1) == null ? matcher.group(2) : matcher.group(1);
    return new Target("dns:///" + authority, hasScheme ? scheme.group(1) : "", false, isLoopback(host));
  }

  private static Target unix(String text) {
    String path = text.substring(UNIX.length()).replaceFirst("^//", "");
    if (path.isEmpty()) {
      throw new IllegalArgumentException(EXPECTED + text);
    }
    return new Target(UNIX + path, "", true, true);
  }

  private static boolean isPort(String digits) {
    return digits == null || Integer.parseInt(digits) >= 1 && Integer.parseInt(digits) <= MAX_PORT;
  }

  private static boolean isLoopback(String host) {
    if (host.equalsIgnoreCase("localhost")) {
      return true;
    }
    try {
      // Of an address, no name is looked up.
      return ADDRESS.matcher(host).matches() && InetAddress.getByName(host).isLoopbackAddress();
    } catch (UnknownHostException invalid) {
      return false;
    }
  }
}
