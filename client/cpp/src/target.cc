#include "accelerd/detail/target.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace accelerd::detail {

namespace {

constexpr const char* default_target = "localhost:7433";
constexpr std::array schemes = {"dns", "ipv4", "ipv6", "unix", "unix-abstract", "vsock", "xds"};

bool begins_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// gRPC's own lists, which it balances itself.
bool is_address_list(const std::string& address) { return begins_with(address, "ipv4:") || begins_with(address, "ipv6:"); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', start)) {
    parts.push_back(trimmed(text.substr(start, comma - start)));
    start = comma + 1;
  }
  parts.push_back(trimmed(text.substr(start)));
  return parts;
}

// Refuses addresses that gRPC would take for others: it reduces ports modulo 65,536.
void check_address(const std::string& given, const std::string& address) {
  static const std::regex with_port(R"((?:\[[^\]]*\]|[^:/,\[\]]*):([0-9]{1,9}))");
  const std::size_t separator = address.find("://");
  const bool is_known =
      separator == std::string::npos || std::find(schemes.begin(), schemes.end(), address.substr(0, separator)) != schemes.end();
  std::smatch match;
  const bool has_port = std::regex_match(address, match, with_port);
  const int port = has_port ? std::stoi(match[1]) : 1;
  if (address.find_first_not_of('/') == std::string::npos || !is_known || port < 1 || port > 65535) {
    throw std::invalid_argument("target: expected host:port, https://host:port or unix:///path, with a port from 1 to 65535, got \"" +
                                given + "\"");
  }
}

std::string read_pem(const char* name, const std::string& given, const std::string& label) {
  if (given.empty()) return {};
  std::string text = given;
  std::string origin;
  if (given.find("-----BEGIN") == std::string::npos) {
    std::ifstream file(given, std::ios::binary);
    if (!file) throw std::invalid_argument(std::string("tls: ") + name + ": cannot read " + given);
    text.assign(std::istreambuf_iterator<char>(file), {});
    origin = " in " + given;
  }
  if (text.find(label + "-----") == std::string::npos) {
    throw std::invalid_argument(std::string("tls: ") + name + ": expected PEM with " + label + origin);
  }
  return text;
}

Tls read_files(const Tls& tls) {
  if (tls.certificate.empty() != tls.key.empty()) throw std::invalid_argument("tls: expected both certificate and key, got one of them");
  return {read_pem("ca", tls.ca, "CERTIFICATE"), read_pem("certificate", tls.certificate, "CERTIFICATE"),
          read_pem("key", tls.key, "PRIVATE KEY"), tls.server_name};
}

std::string token_of(const ClientOptions& options) {
  std::string token = options.token ? *options.token : environment("ACCELERD_TOKEN");
  if (!std::all_of(token.begin(), token.end(), [](char character) { return character >= '!' && character <= '~'; })) {
    throw std::invalid_argument("token: expected visible ASCII characters without spaces");
  }
  return token;
}

bool is_loopback(const std::string& host) {
  static const std::regex ipv4(R"(127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})");
  std::string lower = host;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char character) { return std::tolower(character); });
  return lower == "localhost" || lower == "::1" || std::regex_match(host, ipv4);
}

}  // namespace

bool is_unix_socket(const std::string& address) { return begins_with(address, "unix:") || begins_with(address, "unix-abstract:"); }

bool is_local(const std::string& address) {
  if (is_unix_socket(address)) return true;
  if (is_address_list(address)) {
    const auto each = split(address.substr(address.find(':') + 1));
    return std::all_of(each.begin(), each.end(), is_local);
  }
  std::string host = address;
  if (begins_with(address, "[")) {
    host = address.substr(1, address.find(']') - 1);
  } else if (std::count(address.begin(), address.end(), ':') == 1) {
    host = address.substr(0, address.find(':'));
  }
  return is_loopback(host);
}

Target parse_target(const std::string& text, const ClientOptions& options) {
  std::string given = text.empty() ? environment("ACCELERD_SERVER") : text;
  if (given.empty()) given = default_target;
  Target target;
  target.token = token_of(options);
  std::optional<Tls> tls = options.tls;
  std::optional<bool> has_tls;
  for (const auto& one : is_address_list(given) ? std::vector{given} : split(given)) {
    const bool is_https = begins_with(one, "https://");
    const bool is_http = begins_with(one, "http://");
    std::string address = is_https ? one.substr(8) : is_http ? one.substr(7) : one;
    if (!address.empty() && address.back() == '/') address.pop_back();
    check_address(one, address);
    if (options.tls && (is_http || is_unix_socket(address))) {
      throw std::invalid_argument("tls: expected a target with https:// or without a scheme, got \"" + one + "\"");
    }
    if (is_https && !tls) tls = Tls{environment("ACCELERD_TLS_CA"), {}, {}, {}};
    const bool is_secure = is_https || options.tls;
    if (has_tls.value_or(is_secure) != is_secure) {
      throw std::invalid_argument("target: expected https:// for all addresses or for none, got \"" + given + "\"");
    }
    has_tls = is_secure;
    if (!target.token.empty() && !is_secure && !options.allow_plaintext_token && !is_local(address)) {
      throw std::invalid_argument("token: refusing to send it to \"" + address +
                                  "\" in plaintext, where others can read it: set tls, or allow_plaintext_token if the network encrypts by "
                                  "other means");
    }
    target.addresses.push_back(std::move(address));
  }
  if (tls) target.tls = read_files(*tls);
  return target;
}

}  // namespace accelerd::detail
