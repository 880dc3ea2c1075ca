#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <climits>

#include "accelerd/detail/caller.h"

namespace accelerd::detail {

namespace {

// The authority, where that of gRPC is invalid: a path, or a whole list of addresses.
std::string authority(const std::string& address) {
  if (is_unix_socket(address)) return "localhost";
  const std::size_t comma = address.find(',');
  const std::size_t colon = address.find(':');
  return comma == std::string::npos ? "" : address.substr(colon + 1, comma - colon - 1);
}

grpc::ChannelArguments arguments(const std::string& address, const Target& target, const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  if (target.tls && !target.tls->server_name.empty()) arguments.SetSslTargetNameOverride(target.tls->server_name);
  if (const std::string name = authority(address); !name.empty()) arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, name);
  arguments.SetMaxSendMessageSize(static_cast<int>(std::min<std::size_t>(options.max_message_bytes, INT_MAX)));
  // The daemon limits its responses.
  arguments.SetMaxReceiveMessageSize(-1);
  // Do not accept compressed responses: bulk numbers compress slowly and hardly at all.
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetLoadBalancingPolicyName("round_robin");
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // By default a daemon that is back is found only after up to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Bounds an attempt to connect, too.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  // Otherwise channels to the same address share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The proxy of the environment (grpc_proxy, https_proxy, http_proxy) cannot reach this machine.
  if (is_local(address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

std::shared_ptr<grpc::ChannelCredentials> credentials(const Target& target) {
  if (!target.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = target.tls->ca;
  options.pem_private_key = target.tls->key;
  options.pem_cert_chain = target.tls->certificate;
  return grpc::SslCredentials(options);
}

}  // namespace

std::vector<std::unique_ptr<Channel>> open_channels(const Target& target, const ClientOptions& options) {
  std::vector<std::unique_ptr<Channel>> channels;
  for (int i = 0; i < options.connections; ++i) {
    for (const auto& address : target.addresses) {
      channels.push_back(
          std::make_unique<Channel>(grpc::CreateCustomChannel(address, credentials(target), arguments(address, target, options))));
    }
  }
  return channels;
}

}  // namespace accelerd::detail
