#include <accelerd/client.h>
#include <doctest/doctest.h>

#include <thread>

using namespace std::chrono_literals;
using accelerd::CancellationSource;
using accelerd::CancellationToken;

TEST_CASE("a token is cancelled by its source, and a default one never") {
  const CancellationSource source;
  const CancellationToken token = source.token();
  CHECK_FALSE(token.is_cancelled());
  source.cancel();
  CHECK(token.is_cancelled());
  CHECK_FALSE(CancellationToken().is_cancelled());
}

TEST_CASE("a registered function is called once, at once if the token is cancelled already, and never after its end") {
  const CancellationSource source;
  int calls = 0;
  {
    const CancellationToken::Registration ended(source.token(), [&calls] { ++calls; });
  }
  const CancellationToken::Registration registration(source.token(), [&calls] { ++calls; });
  source.cancel();
  source.cancel();
  CHECK(calls == 1);
  const CancellationToken::Registration late(source.token(), [&calls] { ++calls; });
  CHECK(calls == 2);
}

TEST_CASE("cancellation ends a sleep") {
  const CancellationSource source;
  std::thread other([&source] { source.cancel(); });
  CHECK_FALSE(source.token().sleep_for(10min));
  other.join();
  CHECK_FALSE(source.token().sleep_for(10min));
  CHECK(CancellationToken().sleep_for(1ms));
}
