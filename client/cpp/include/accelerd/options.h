// Options of clients and of calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "accelerd/cancellation.h"

namespace accelerd {

using Duration = std::chrono::nanoseconds;

// The timeout of a call without a deadline, as is every one above a year.
inline constexpr Duration no_timeout = Duration::max();

// TLS of a client. Each text is PEM, or the path of a file with PEM, which is read when the client is made.
struct Tls {
  // Certificate authorities to trust; empty means those of gRPC.
  std::string ca;
  // Certificate of the client with its chain, for daemons that verify their clients, and its private key.
  std::string certificate;
  std::string key;
  // Name to expect in the daemon's certificate instead of the host of the target.
  std::string server_name;
};

struct ClientOptions {
  // A target with https:// has TLS by default, with the authorities of the file that ACCELERD_TLS_CA names, if it is set.
  std::optional<Tls> tls;
  // Bearer token of every call. By default that of ACCELERD_TOKEN; an empty one means none.
  std::optional<std::string> token;
  // Sends the token in plaintext to other machines too, for networks that encrypt by other means.
  bool allow_plaintext_token = false;
  // Timeout of a call that has none of its own, retries included.
  Duration timeout = std::chrono::seconds(60);
  // Maximum attempts of a call; 1 disables retries. By default only the timeout bounds them.
  std::optional<int> attempts;
  // Maximum size of a request: at most `server.max_message_bytes` of the daemon.
  std::size_t max_message_bytes = std::size_t{64} << 20;
  // Connections to each address, between which calls take turns. The daemon serves each one on one thread.
  int connections = 1;
};

// Options of every call; those of helpers derive from them.
struct CallOptions {
  // Retries included. By default that of the client; streams have none by default.
  std::optional<Duration> timeout;
  CancellationToken cancellation;
  // Further metadata, such as `accelerd-priority`.
  std::multimap<std::string, std::string> metadata;
  // Whether the call may be repeated although the daemon may have executed it. By default the method's option says so.
  std::optional<bool> is_idempotent;
};

}  // namespace accelerd
