#include <accelerd/client.h>
#include <doctest/doctest.h>

#include <cstdlib>

using accelerd::ClientOptions;
using accelerd::Tls;
using accelerd::detail::parse_target;
using Addresses = std::vector<std::string>;

namespace {

constexpr const char* certificate = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";

ClientOptions with_token(const char* token = "secret") {
  ClientOptions options;
  options.token = token;
  return options;
}

// Sets a variable of the environment for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("a target is one address or several, with or without a scheme") {
  CHECK(parse_target("localhost:1", {}).addresses == Addresses{"localhost:1"});
  CHECK(parse_target("http://localhost:1/", {}).addresses == Addresses{"localhost:1"});
  CHECK(parse_target("a:1, http://b:2", {}).addresses == Addresses{"a:1", "b:2"});
  CHECK(parse_target("unix:/run/accelerd.sock", {}).addresses == Addresses{"unix:/run/accelerd.sock"});
  CHECK(parse_target("ipv4:10.0.0.1:1,10.0.0.2:2", {}).addresses == Addresses{"ipv4:10.0.0.1:1,10.0.0.2:2"});
}

TEST_CASE("the environment names the default target") {
  CHECK(parse_target("", {}).addresses == Addresses{"localhost:7433"});
  const Variable server("ACCELERD_SERVER", "elsewhere:1");
  CHECK(parse_target("", {}).addresses == Addresses{"elsewhere:1"});
}

TEST_CASE("addresses that gRPC would take for others are refused") {
  for (const char* target : {"localhost:0", "localhost:65536", "ftp://localhost:1", "http://", "/", "a:1,,b:2"}) {
    CHECK_THROWS_AS(parse_target(target, {}), std::invalid_argument);
  }
}

TEST_CASE("a target with https has TLS") {
  CHECK(parse_target("https://a:1", {}).tls);
  CHECK_FALSE(parse_target("http://a:1", {}).tls);
  CHECK_THROWS_AS(parse_target("https://a:1,b:2", {}), std::invalid_argument);
  ClientOptions options;
  options.tls = Tls{certificate, {}, {}, "name"};
  CHECK(parse_target("a:1", options).tls->ca == certificate);
  CHECK_THROWS_AS(parse_target("http://a:1", options), std::invalid_argument);
  CHECK_THROWS_AS(parse_target("unix:/a", options), std::invalid_argument);
}

TEST_CASE("files of TLS are read, or named by the error") {
  ClientOptions options;
  options.tls = Tls{"/absent/ca.pem", {}, {}, {}};
  CHECK_THROWS_WITH(parse_target("a:1", options), "tls: ca: cannot read /absent/ca.pem");
  options.tls = Tls{{}, certificate, {}, {}};
  CHECK_THROWS_AS(parse_target("a:1", options), std::invalid_argument);
  options.tls = Tls{{}, certificate, certificate, {}};
  CHECK_THROWS_WITH(parse_target("a:1", options), "tls: key: expected PEM with PRIVATE KEY");
  const Variable ca("ACCELERD_TLS_CA", "/absent/other.pem");
  CHECK_THROWS_WITH(parse_target("https://a:1", {}), "tls: ca: cannot read /absent/other.pem");
}

TEST_CASE("a token goes only over TLS, to a Unix socket or to this machine") {
  for (const char* target : {"https://a:1", "localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "unix:/a", "ipv4:127.0.0.1:1"}) {
    CHECK(parse_target(target, with_token()).token == "secret");
  }
  for (const char* target : {"a:1", "http://10.0.0.1:1", "localhost.example.com:1", "localhost:1,a:1", "ipv4:127.0.0.1:1,10.0.0.1:1"}) {
    CHECK_THROWS_AS(parse_target(target, with_token()), std::invalid_argument);
  }
  ClientOptions allowed = with_token();
  allowed.allow_plaintext_token = true;
  CHECK(parse_target("a:1", allowed).token == "secret");
}

TEST_CASE("a token is visible ASCII, by default that of the environment") {
  CHECK_THROWS_AS(parse_target("localhost:1", with_token("two words")), std::invalid_argument);
  const Variable token("ACCELERD_TOKEN", "from-environment");
  CHECK(parse_target("localhost:1", {}).token == "from-environment");
  CHECK(parse_target("localhost:1", with_token("")).token.empty());
}

TEST_CASE("wrong options of a client are refused") {
  ClientOptions options;
  options.connections = 0;
  CHECK_THROWS_WITH(accelerd::Client("localhost:1", options), "connections: expected at least 1, got 0");
  options = {};
  options.timeout = accelerd::Duration::zero();
  CHECK_THROWS_AS(accelerd::Client("localhost:1", options), std::invalid_argument);
}
