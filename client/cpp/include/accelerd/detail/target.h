// Addresses of daemons and the credentials that go to them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerd/options.h"

namespace accelerd::detail {

struct Target {
  // Without http:// or https://, as gRPC takes them.
  std::vector<std::string> addresses;
  // With the text of the files; none means plaintext.
  std::optional<Tls> tls;
  // Empty means none.
  std::string token;
};

// Reads the addresses, separated by commas; an empty text means that of ACCELERD_SERVER, then localhost:7433. Throws
// std::invalid_argument for settings that are wrong, or that would send the token in plaintext to another machine.
Target parse_target(const std::string& text, const ClientOptions& options);

bool is_unix_socket(const std::string& address);
// Whether an address is on this machine, so that nobody on the network can read what is sent to it.
bool is_local(const std::string& address);

}  // namespace accelerd::detail
